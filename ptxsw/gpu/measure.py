"""Variants of a kernel on the device: are they equal bit for bit, and how long do they take?

Every variant runs on the same buffers. It is timed in two series that are apart in time, so that
the difference between two identical measurements shows what one between variants is worth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median, quantiles

import numpy as np
from msgspec import Struct

from ptxsw.gpu.driver import Array, Driver, GpuError, LoadedKernel, Shape
from ptxsw.gpu.problem import OnDevice, PreparedLaunch, Stage
from ptxsw.ptx.ir import Function

ORIGINAL = "original"


class Variant(Struct, frozen=True):
    """A text with the kernel in it, and machine code if it was made of it beforehand. The scheme
    "original" is the text as it was. A `bound` is made to see how fast a kernel could be: its
    results are wrong on purpose, and not compared."""

    scheme: str
    form: str
    text: str
    bound: bool = False
    cubin: bytes | None = None

    @property
    def name(self) -> str:
        return f"{self.scheme} {self.form}".strip()


class Effort(Struct, frozen=True):
    """How much is measured. A sample is `least` seconds long or one launch, whichever is more;
    where it is `fresh`, it is one launch on the first contents of the buffers, of which nothing is
    in the second-level cache."""

    warm_up: int = 3
    samples: int = 15  # of each of the two series
    least: float = 1e-3
    fresh: bool = False


_USUAL = Effort()


class Measured(Struct, frozen=True):
    """A variant on one problem.

    `seconds` is the median of a launch over both series, `quartiles` are those of all samples,
    `noise` is how far the medians of the two are apart, as a share of the smaller. `wrong` says
    what differs from the original's results, or why the variant could not be run; nothing is timed
    then. `speedup` is the original's time over this one's.
    """

    kernel: str
    scheme: str
    form: str
    grid: Shape
    block: Shape
    seconds: float | None
    noise: float | None
    speedup: float | None
    registers: int = 0
    local: int = 0  # bytes per thread
    wrong: str | None = None
    bound: bool = False
    quartiles: tuple[float, float] | None = None

    @property
    def name(self) -> str:
        return f"{self.scheme} {self.form}".strip()


class Scratch(OnDevice):
    """Memory to write over, so that nothing of a problem is left in the second-level cache."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._size = max(driver.device.l2, 1 << 20)
        self._places = [driver.allocate(self._size) for _ in range(2)]

    def free(self) -> None:
        for place in self._places:
            self._driver.free(place)

    def evict(self) -> None:
        """Starts a copy that fills the cache twice."""
        self._driver.copy(self._places[0], self._places[1], self._size)

    def needed_for(self, problem: PreparedLaunch) -> bool:
        """Would the problem's data be found in the cache when it is run again?"""
        return problem.bytes < 2 * self._driver.device.l2


def measure(
    driver: Driver,
    function: Function,
    variants: Sequence[Variant],
    problem: PreparedLaunch,
    arch: str | None = None,
    effort: Effort = _USUAL,
    step: Callable[[str], None] = lambda _: None,
) -> list[Measured]:
    """One line for each variant, the first of which is the original; `step` is called before each.
    `arch` is what the cubins are made for (default: the device's own).

    Raises AssemblyError and GpuError where the original can't be run, or a kernel failed in a
    way that leaves the device unusable.
    """
    original, *others = variants
    assert original.scheme == ORIGINAL
    arch = arch or driver.device.arch
    with Stage(driver, function, problem) as stage, Scratch(driver) as scratch:
        kernels = {original: driver.load(original.text, function.name, arch, original.cubin)}
        _fits(kernels[original], problem)
        expected = stage.results(kernels[original])
        steady = _same(expected, stage.results(kernels[original]))
        wrong: dict[Variant, str] = {}
        for variant in others:
            step(variant.name)
            try:
                kernels[variant] = driver.load(variant.text, function.name, arch, variant.cubin)
                _fits(kernels[variant], problem)
            except Unfit as error:
                wrong[variant] = str(error)
                continue
            try:
                results = stage.results(kernels[variant])
            except GpuError as error:
                raise GpuError(f"{function.name} as {variant.name}: {error}") from error
            if variant.bound:
                continue
            difference = _same(expected, results)
            if steady is not None:
                wrong[variant] = f"the original's own results vary from run to run: {steady}"
            elif difference is not None:
                wrong[variant] = difference
        good = [v for v in variants if v not in wrong]
        series = _series(driver, stage, scratch, problem, {v: kernels[v] for v in good}, effort)
    base = median([*series[original][0], *series[original][1]])
    return [
        _measured(function.name, v, problem, series.get(v), wrong.get(v), base, kernels.get(v))
        for v in variants
    ]


class Unfit(Exception):
    """A kernel that can't be run with the blocks that are asked for."""


def _fits(kernel: LoadedKernel, problem: PreparedLaunch) -> None:
    threads = problem.block[0] * problem.block[1] * problem.block[2]
    if threads > kernel.threads:
        raise Unfit(f"it needs too many registers for {threads} threads a block")


def _same(expected: Sequence[Array], results: Sequence[Array]) -> str | None:
    """None where all bytes are equal, else the first that is not."""
    for number, (one, other) in enumerate(zip(expected, results, strict=True)):
        apart = np.flatnonzero(one != other)
        if apart.size:
            at = int(apart[0])
            return (
                f"buffer {number}: {apart.size} of {one.size} bytes differ, the first at {at}: "
                f"{int(one[at]):#04x} in the original, {int(other[at]):#04x} here"
            )
    return None


def _series(
    driver: Driver,
    stage: Stage,
    scratch: Scratch,
    problem: PreparedLaunch,
    kernels: dict[Variant, LoadedKernel],
    effort: Effort,
) -> dict[Variant, tuple[list[float], list[float]]]:
    """Seconds of a launch: two series of samples for each kernel, the kernels taking turns."""
    cold = effort.fresh or scratch.needed_for(problem)
    series: dict[Variant, tuple[list[float], list[float]]] = {v: ([], []) for v in kernels}
    for turn in (0, 1):
        for variant, kernel in kernels.items():
            stage.reset()

            def once(kernel: LoadedKernel = kernel) -> None:
                stage.launch(kernel)

            for _ in range(max(effort.warm_up, 1)):
                seconds = driver.seconds(once)
            # Launches that follow each other would find the problem in the cache.
            times = 1 if cold else max(1, round(effort.least / max(seconds, 1e-7)))

            def work(once: Callable[[], None] = once, times: int = times) -> None:
                for _ in range(times):
                    once()

            for _ in range(effort.samples):
                if effort.fresh:
                    stage.reset()
                if cold:
                    scratch.evict()
                series[variant][turn].append(driver.seconds(work) / times)
    return series


def _measured(
    name: str,
    variant: Variant,
    problem: PreparedLaunch,
    series: tuple[list[float], list[float]] | None,
    wrong: str | None,
    base: float,
    kernel: LoadedKernel | None,
) -> Measured:
    registers, local = (kernel.registers, kernel.local) if kernel else (0, 0)
    seconds = noise = speedup = quartiles = None
    if series is not None:
        one, other = median(series[0]), median(series[1])
        seconds = median([*series[0], *series[1]])
        quartiles = _quartiles([*series[0], *series[1]])
        noise = abs(one - other) / max(min(one, other), 1e-12)
        speedup = base / max(seconds, 1e-12)
    return Measured(
        name, variant.scheme, variant.form, problem.grid, problem.block, seconds, noise, speedup,
        registers, local, wrong, variant.bound, quartiles,
    )  # fmt: skip


def _quartiles(samples: Sequence[float]) -> tuple[float, float]:
    if len(samples) == 1:
        return samples[0], samples[0]
    low, _, high = quantiles(samples, n=4, method="inclusive")
    return low, high
