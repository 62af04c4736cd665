"""The results of `predict`, as frozen data; the JSON has the same fields.

Times are seconds of a launch or, without one, SM cycles per warp and iteration of a loop. At `low`
all resources overlap, at `high` none do.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING, Any

from ptxsw.ptx.documented import Documented
from ptxsw.ptx.failures import Failure
from ptxsw.report.model import Figures, Role

if TYPE_CHECKING:
    from ptxsw.cost.account import Interval
    from ptxsw.cost.estimate import Estimate
    from ptxsw.cost.iterations import Stretch as CodeStretch
    from ptxsw.cost.occupancy import Occupancy as Resident


class Range(Documented, frozen=True):
    """Bounds of a number; `high` is None if there is none, as for work that is not modelled."""

    low: float
    """Lower bound."""
    high: float | None
    """Upper bound; None: open."""

    @property
    def limit(self) -> float:
        """The upper bound, infinite if there is none."""
        return inf if self.high is None else self.high


class Load(Documented, frozen=True):
    """How long one resource would be busy by itself."""

    name: str
    """"compute", "shared", "l1", "l2", "dram", "tensor" or "latency"."""
    time: Range
    """In the unit of its stretch; never open."""
    busy_with: str
    """Its main work."""


class Stretch(Documented, frozen=True):
    """A launch, or one iteration of a loop (all of a kernel without loops) for one warp."""

    label: str | None
    """Label of the loop's header; None for a whole kernel or a launch."""
    line: int
    """First line in the PTX, from 1."""
    unit: str
    """"s" or "cycles", for all its times."""
    time: Range
    """Its bounds: all resources overlap, or none do."""
    likely: Range
    """A narrower, likely interval; for an iteration, the same as `time`."""
    expected: float | None
    """The most likely time. None without a launch, because the overlap is unknown, and if the upper
    end of `time` is open."""
    resources: tuple[Load, ...]
    """The busiest first."""
    unknown: tuple[int, ...] = ()
    """Lines of accesses with unknown sectors or banks."""
    unmodelled: tuple[str, ...] = ()
    """Work that is not modelled; `time` is then open."""


class OccupancyStep(Documented, frozen=True):
    """A value of a resource that changes the number of resident blocks."""

    resource: str
    """"registers" or "shared"."""
    at: int
    """Registers per thread, or bytes per block."""
    blocks: int
    """Resident blocks per multiprocessor then."""
    fraction: float
    """Share of resident warps then, 0 to 1."""


class Occupancy(Documented, frozen=True, kw_only=True):
    """Resident blocks and warps of a kernel on one multiprocessor."""

    registers: int
    """Of a thread."""
    shared: int
    """Bytes of a block."""
    threads: int
    """Of a block."""
    blocks: int
    """Resident on a multiprocessor."""
    warps: int
    """Resident on a multiprocessor."""
    fraction: float
    """Share of the maximum number of warps, 0 to 1."""
    limiter: str
    """The resource that limits the number of blocks."""
    next_steps: tuple[OccupancyStep, ...]
    """The nearest values of resources that change the number of resident blocks."""


class RewriteEffect(Documented, frozen=True):
    """The effect of a rewrite on the longest stretch, if applied wherever it is proved."""

    rewrite: str
    """As `ptxsw rewrites` names it."""
    changes: int
    """Number of changes."""
    low: tuple[float, float]
    """The lower end of the time, before and after."""
    high: tuple[float | None, float | None]
    """The upper end, before and after; None if open."""
    registers: tuple[int | None, int | None]
    """Registers per thread, before and after; None: unknown."""
    unit: str = "cycles"
    """"s" or "cycles"."""


class RegisterCandidate(Documented, frozen=True, kw_only=True):
    """ptxas's output for a kernel under a register limit."""

    limit: int | None
    """Registers per thread; None: no limit."""
    spills_to_shared: bool
    """True if it spills to shared memory instead of local memory."""
    registers: int
    """Registers per thread then."""
    local: int
    """Spill bytes per thread in local memory."""
    shared: int
    """Bytes of a block in shared memory."""
    fraction: float
    """Share of resident warps, 0 to 1."""
    pace: float
    """Stall cycles of a warp divided by that share; the smallest is predicted to be best."""


class Kernel(Documented, frozen=True):
    """One kernel."""

    name: str
    """As in the PTX."""
    readable: str | None
    """The C++ name behind a mangled one."""
    launch: bool
    """Was a launch given? Then times are seconds of it."""
    stretches: tuple[Stretch, ...]
    """The launch, or the loops."""
    occupancy: Occupancy | None
    """None where it is not known."""
    effects: tuple[RewriteEffect, ...]
    """Of each rewrite that would change something."""
    notes: tuple[str, ...]
    """What is not known, and what it would take to know it."""
    against: tuple[Stretch, ...] = ()
    """The stretches of the other text, where one was given."""
    candidates: tuple[RegisterCandidate, ...] = ()
    """For `registers`, the kernel as it is first."""
    failed: Failure | None = None
    """Why ptxsw could not finish it."""
    pairs: tuple[tuple[int, int], ...] = ()
    """Which of `stretches` stands for which of `against`, by their numbers."""
    figures: Figures | None = None
    """Of all its code, no loop weighed."""
    roles: tuple[Role, ...] = ()
    """Of warps that run beside each other."""


def failed_kernel(name: str, shown: str | None, failed: Failure) -> Kernel:
    """A kernel that was not finished for a fault of ptxsw."""
    return Kernel(name, shown, False, (), None, (), (), failed=failed)


# ---------------------------------------------------------------- from what was computed


def of_iteration(code: CodeStretch, estimate: Estimate) -> Stretch:
    """One iteration of a loop. Nothing is known of what is likely: the bounds are all there is."""
    time = _of_interval(estimate.time)
    resources = _of_resources(estimate)
    return Stretch(
        code.label, code.line, estimate.unit, time, time, None, resources, code.unknown,
        estimate.unmodelled,
    )  # fmt: skip


def of_launch(line: int, estimate: Estimate) -> Stretch:
    """A launch of a kernel that begins on a line."""
    return Stretch(
        None, line, estimate.unit, _of_interval(estimate.time), _of_interval(estimate.likely),
        None if estimate.is_open else estimate.expected, _of_resources(estimate),
        unmodelled=estimate.unmodelled,
    )  # fmt: skip


def of_occupancy(resident: Resident, *, registers: int, shared: int, threads: int) -> Occupancy:
    """What a multiprocessor holds of a kernel."""
    steps = tuple(OccupancyStep(*step) for step in resident.next_steps)
    return Occupancy(
        registers=registers, shared=shared, threads=threads, blocks=resident.blocks,
        warps=resident.warps, fraction=resident.fraction, limiter=resident.limiter,
        next_steps=steps,
    )  # fmt: skip


def of_candidate(facts: Mapping[str, Any]) -> RegisterCandidate:
    """An outcome of the rewrite `registers`, from its facts."""
    return RegisterCandidate(
        limit=facts["maxnreg"], spills_to_shared=facts["spills_to_shared"],
        registers=facts["registers"], local=facts["local"], shared=facts["shared"],
        fraction=facts["occupancy"], pace=facts["pace"],
    )  # fmt: skip


def _of_resources(estimate: Estimate) -> tuple[Load, ...]:
    return tuple(Load(r.name, _of_interval(r.time), r.busy_with) for r in estimate.resources)


def _of_interval(interval: Interval) -> Range:
    return Range(interval.low, None if interval.high == inf else interval.high)
