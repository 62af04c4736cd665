"""What `predict` says of kernels, as tables of the page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from ptxsw.report.prediction import Kernel, Load, Occupancy, Prediction, Stretch
from ptxsw.report.prediction_text import bar, shown_range, shown_time
from ptxsw.report.tables import Table

_SHARED: Final = "bytes of shared memory"
_TIMES: Final = frozenset({"at least", "at most"})


def prediction_tables(prediction: Prediction) -> Mapping[str, tuple[tuple[str, Table], ...]]:
    """By the names of kernels: titles, and what keeps which resource busy for how long."""
    return {kernel.name: tuple(_kernel(kernel, prediction.gpu)) for kernel in prediction.kernels}


def _kernel(kernel: Kernel, gpu: str) -> Iterator[tuple[str, Table]]:
    for stretch in kernel.stretches:
        most = max((load.time.limit for load in stretch.resources), default=0.0)
        rows = tuple(_row(load, most, stretch) for load in stretch.resources if load.time.high)
        header = ("resource", "", "at least", "at most", "busy with")
        whole = shown_range(stretch.time, stretch.unit)
        title = f"Predicted for {gpu}: {_what(stretch)}, {whole}"
        yield title, Table(header, rows, _TIMES)
    if kernel.occupancy is not None:
        yield f"Predicted for {gpu}: occupancy", _occupancy(kernel.occupancy)


def _what(stretch: Stretch) -> str:
    if stretch.unit == "s":
        return "the launch"
    return "one pass of a warp" if stretch.label is None else f"one iteration of {stretch.label}"


def _row(load: Load, most: float, stretch: Stretch) -> tuple[str, ...]:
    ends = (shown_time(time, stretch.unit) for time in (load.time.low, load.time.limit))
    return (load.name, bar(load, most), *ends, load.busy_with)


def _occupancy(occupancy: Occupancy) -> Table:
    """The kernel as it is, then its next steps."""
    now = (
        f"{occupancy.registers} registers, {occupancy.shared} {_SHARED}",
        str(occupancy.blocks), f"{100 * occupancy.fraction:.0f} %",
    )  # fmt: skip
    steps = (
        (
            f"{step.at} {step.resource if step.resource == 'registers' else _SHARED}",
            str(step.blocks), f"{100 * step.fraction:.0f} %",
        )
        for step in occupancy.next_steps
    )  # fmt: skip
    header = ("with", f"blocks of {occupancy.threads}", "warps")
    return Table(header, (now, *steps), frozenset(header[1:]))
