"""Are rewritten kernels faster? Median of 30 launches with its quartiles, each on fresh buffers and
a cold cache, beside a copy on the same device; and whether that was forecast.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median

from msgspec import Struct

from benchmarks.gpu.correct import load
from benchmarks.gpu.forecasts import card
from benchmarks.gpu.job import Job, Order
from benchmarks.gpu.prepared import ORIGINAL, Forecast, Kernel, Manifest, Prepared, word_launch
from benchmarks.gpu.subjects import GROUPS
from ptxsw.gpu.driver import Driver
from ptxsw.gpu.measure import Measured, Variant, measure
from ptxsw.parser import parse

NAME, TITLE, SHARE, ALONE = "faster", "Faster?", 0.55, True
COPY = "device copy"
LEAST = 0.02
"""A difference below this share of a time, or below the noise, is none."""
_COPIED = 1 << 28  # bytes
_SAMPLES = 30


class Timing(Struct, frozen=True):
    """A version on the large launch; `seconds` is None where it was `wrong`."""

    version: str
    seconds: float | None
    low: float | None
    high: float | None
    noise: float | None
    registers: int
    local: int
    wrong: str | None


class Series(Struct, frozen=True):
    """What was measured of a kernel, one text once; or of a copy of so many bytes."""

    timings: tuple[Timing, ...]
    code: str = ""
    copied: int = 0


class Row(Struct, frozen=True):
    """A rewritten version beside its original. `speedup` is None where one was not timed."""

    kernel: str
    group: str
    version: str
    rewrites: tuple[str, ...]
    seconds: float | None
    original: float | None
    low: float | None
    high: float | None
    noise: float
    bandwidth: float | None  # bytes a second that had to be moved, over the time
    registers: tuple[int, int]
    forecast: float | None  # the speed-up that is expected
    wrong: str | None = None

    @property
    def speedup(self) -> float | None:
        return self.original / self.seconds if self.original and self.seconds else None

    @property
    def sign(self) -> int | None:
        """1 faster, -1 slower, 0 neither."""
        return None if self.speedup is None else sign(self.speedup, least=max(LEAST, self.noise))

    @property
    def forecast_right(self) -> bool | None:
        """Was the sign of a difference forecast? None where there is none, or no forecast."""
        if not self.sign or self.forecast is None:
            return None
        return (self.forecast > 1) == (self.sign > 0)


def sign(speedup: float, *, least: float) -> int:
    """Of a speed-up that differs from 1 by more than `least`."""
    return (speedup > 1 + least) - (1 / speedup > 1 + least)


def jobs(manifest: Manifest) -> list[Job]:
    """A copy; the rewritten kernels by group; then those that are only held against `predict`."""
    timed = [kernel for kernel in manifest.kernels if kernel.timed is not None]
    timed.sort(key=lambda kernel: (not kernel.rewritten, GROUPS.index(kernel.group)))
    return [Job(NAME, name, (name,), 45) for name in (COPY, *(kernel.name for kernel in timed))]


def work(driver: Driver, prepared: Prepared, order: Order, item: str) -> Series:
    if item == COPY:
        return _copy(driver, prepared.manifest.share)
    kernel = prepared.manifest.by_name[item]
    assert kernel.timed is not None
    texts = {version.text: version for version in reversed(kernel.versions)}
    versions = sorted(texts.values(), key=kernel.versions.index)
    text = prepared.text(versions[0])
    function = next(f for f in parse(text).functions if f.name == kernel.entry)
    _, code = load(driver, prepared, versions[0], function)
    variants = [
        Variant(
            version.name, "", prepared.text(version),
            cubin=prepared.cubin(version) if code == "machine code" else None,
        )
        for version in versions
    ]  # fmt: skip
    problem = word_launch(kernel.timed.launch)
    rows = measure(driver, function, variants, problem, effort=order.effort)
    return Series(tuple(map(_timing, rows)), code)


def _timing(row: Measured) -> Timing:
    low, high = row.quartiles or (None, None)
    return Timing(
        row.scheme, row.seconds, low, high, row.noise, row.registers, row.local, row.wrong
    )


def _copy(driver: Driver, share: float) -> Series:
    size = max(int(_COPIED * share), 1 << 16)
    to, at = (driver.allocate(size) for _ in range(2))
    samples = [driver.seconds(lambda: driver.copy(to, at, size)) for _ in range(_SAMPLES)][1:]
    driver.free(to)
    driver.free(at)
    timing = Timing(ORIGINAL, median(samples), min(samples), max(samples), 0.0, 0, 0, None)
    return Series((timing,), copied=size)


# ---------------------------------------------------------------- what came out


def rows(
    kernels: Mapping[str, Kernel], results: Mapping[str, Series], device: str
) -> Iterator[Row]:
    """Of each kernel that was timed, `auto` and `force` where they changed it."""
    for name, series in results.items():
        if name == COPY:
            continue
        kernel = kernels[name]
        by_text = {kernel.version(each.version).text: each for each in series.timings}
        for version in kernel.versions[1:]:
            own = by_text.get(version.text)
            if own is not None and version.text != kernel.versions[0].text:
                yield _row(kernel, version.name, own, series.timings[0], device)


def _row(kernel: Kernel, version: str, own: Timing, original: Timing, device: str) -> Row:
    assert kernel.timed is not None
    told = forecast(kernel, version, device), forecast(kernel, ORIGINAL, device)
    expected = told[1].expected / told[0].expected if told[0] and told[1] else None
    bandwidth = kernel.timed.moved / own.seconds if own.seconds else None
    noise = max(own.noise or 0.0, original.noise or 0.0)
    return Row(
        kernel.name, kernel.group, version, kernel.version(version).rewrites, own.seconds,
        original.seconds, own.low, own.high, noise, bandwidth,
        (original.registers, own.registers), expected, own.wrong,
    )  # fmt: skip


def forecast(kernel: Kernel, version: str, device: str) -> Forecast | None:
    """What was forecast for the device at hand."""
    gpu = card(device)
    if kernel.timed is None or gpu is None:
        return None
    return kernel.timed.forecasts.get(gpu, {}).get(version)


def copy_bandwidth(results: Mapping[str, Series]) -> float | None:
    """Bytes a second, read and written, of a copy."""
    series = results.get(COPY)
    if series is None or not series.timings[0].seconds:
        return None
    return 2 * series.copied / series.timings[0].seconds
