"""What `predict` says, as frozen data; the JSON has the same fields.

Times are seconds of a launch, or without one cycles of a multiprocessor for each warp and iteration
of a loop. `low` is where all resources overlap, `high` where nothing does.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING, Any

from msgspec import Struct, to_builtins

from ptxsw.ptx.failures import Failure
from ptxsw.report.model import Figures, Role

if TYPE_CHECKING:
    from ptxsw.cost.account import Interval
    from ptxsw.cost.estimate import Estimate
    from ptxsw.cost.iterations import Stretch as CodeStretch
    from ptxsw.cost.occupancy import Occupancy as Resident

SCHEMA = 2


class Range(Struct, frozen=True):
    """Bounds of a number; `high` None where there is none, as of work that is not modelled."""

    low: float
    high: float | None

    @property
    def limit(self) -> float:
        """The upper bound, infinite where there is none."""
        return inf if self.high is None else self.high


class Load(Struct, frozen=True):
    """How long one resource would be busy by itself."""

    name: str  # "compute", "shared", "l1", "l2", "dram", "tensor", "latency"
    time: Range  # never open
    busy_with: str


class Stretch(Struct, frozen=True):
    """A launch, or one iteration of a loop (all of a kernel without loops) for one warp. `label` is
    that of the loop's header, None for a whole kernel or a launch. `expected` is None without a
    launch, when nothing is known of what overlaps, and where the upper end of `time` is open."""

    label: str | None
    line: int
    unit: str  # "s" or "cycles"
    time: Range
    likely: Range
    expected: float | None
    resources: tuple[Load, ...]  # the busiest first
    unknown: tuple[int, ...] = ()  # lines of accesses whose sectors or banks are not known
    unmodelled: tuple[str, ...] = ()  # work without figures, for which `time` is open


class OccupancyStep(Struct, frozen=True):
    """A value of a resource with which another number of blocks is resident."""

    resource: str  # "registers" or "shared"
    at: int
    blocks: int
    fraction: float


class Occupancy(Struct, frozen=True, kw_only=True):
    """What one multiprocessor holds of a kernel."""

    registers: int
    shared: int  # bytes of a block
    threads: int  # of a block
    blocks: int
    warps: int
    fraction: float
    limiter: str
    next_steps: tuple[OccupancyStep, ...]


class RewriteEffect(Struct, frozen=True):
    """What a rewrite, made wherever it is proved, would change in the stretch that takes longest:
    each end of its time (None where that is open) and its registers, before and after."""

    rewrite: str
    changes: int
    low: tuple[float, float]
    high: tuple[float | None, float | None]
    registers: tuple[int | None, int | None]
    unit: str = "cycles"


class RegisterCandidate(Struct, frozen=True, kw_only=True):
    """What ptxas makes of a kernel under a limit of registers (`limit` None: as it is): registers a
    thread, bytes that a thread spills, bytes of a block in shared memory, the share of resident
    warps, and stall cycles of a warp over that share, of which the fewest are predicted to be
    best."""

    limit: int | None
    spills_to_shared: bool
    registers: int
    local: int
    shared: int
    fraction: float
    pace: float


class Kernel(Struct, frozen=True):
    """One kernel. `notes` say what is not known, and what it would take to know it."""

    name: str
    readable: str | None
    launch: bool
    stretches: tuple[Stretch, ...]
    occupancy: Occupancy | None
    effects: tuple[RewriteEffect, ...]
    notes: tuple[str, ...]
    against: tuple[Stretch, ...] = ()  # the same of the other text
    candidates: tuple[RegisterCandidate, ...] = ()  # for registers, the kernel as it is first
    failed: Failure | None = None  # why ptxsw could not finish it
    pairs: tuple[tuple[int, int], ...] = ()
    """Which of `stretches` stands for which of `against`, by their numbers."""
    figures: Figures | None = None  # of all its code, no loop weighed
    roles: tuple[Role, ...] = ()  # of warps that run beside each other


def failed_kernel(name: str, shown: str | None, failed: Failure) -> Kernel:
    """A kernel that was not finished for a fault of ptxsw."""
    return Kernel(name, shown, False, (), None, (), (), failed=failed)


class Prediction(Struct, frozen=True):
    """All kernels of a text on one GPU."""

    file: str
    gpu: str
    arch: str
    kernels: tuple[Kernel, ...]
    notes: tuple[str, ...] = ()
    schema: int = SCHEMA


def to_json(prediction: Prediction) -> dict[str, Any]:
    """Objects and lists of the same fields."""
    data: dict[str, Any] = to_builtins(prediction)
    return data


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
