"""What is forecast of a launch on GPUs, before it is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from benchmarks.gpu.prepared import Forecast
from benchmarks.gpu.sizes import Large
from ptxsw.driver.prediction import predict
from ptxsw.ptx.errors import PtxError
from ptxsw.verify.arguments import Argument, Data
from ptxsw.verify.launches import Fields, Launch

CARDS = {"H100": "h100", "H200": "h200"}
"""Names of devices, and those that `predict` has for them."""


def card(device: str) -> str | None:
    """The GPU whose forecasts are for a device, by its name."""
    return next((own for word, own in CARDS.items() if word in device), None)


def forecasts(
    versions: Mapping[str, str], entry: str, large: Large, gpus: Sequence[str]
) -> dict[str, dict[str, Forecast]]:
    """By GPU and version; `versions` are texts by name. Of what cannot be predicted, nothing."""
    found: dict[str, dict[str, Forecast]] = {gpu: {} for gpu in gpus}
    bare = large.launch if large.floats else without_floats(large.launch)
    for gpu in gpus:
        known: dict[str, Forecast | None] = {}
        for name, text in versions.items():
            if text not in known:
                known[text] = _forecast(text, entry, bare, gpu)
            forecast = known[text]
            if forecast is not None:
                found[gpu][name] = forecast
    return found


def _forecast(text: str, entry: str, launch: Launch, gpu: str) -> Forecast | None:
    try:
        said = predict(text, launch=launch, gpu=gpu, kernel=entry, rewrites=False)
    except (PtxError, ValueError):
        return None
    told = [stretch for one in said.kernels for stretch in one.stretches if stretch.expected]
    if not told:
        return None  # something in it is not modelled
    stretch = told[0]
    assert stretch.expected is not None
    return Forecast(
        stretch.time.low, stretch.time.limit, stretch.likely.low, stretch.likely.limit,
        stretch.expected, stretch.resources[0].name,
    )  # fmt: skip


def without_floats(launch: Launch) -> Launch:
    """The launch with zeros for floats, which take no memory; no address depends on them."""

    def bare(argument: Argument | Fields) -> Argument | Fields:
        if isinstance(argument, Data) and argument.type in ("f32", "f64"):
            return replace(argument, kind="zeros", seed=0)
        return argument

    return replace(launch, args=tuple(map(bare, launch.args)))
