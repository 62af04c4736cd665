"""Does a rewritten kernel certainly pay? Decided on what ptxas made of both texts.

A kernel takes at least as long as its busiest resource, and at most as long as all of them one
after the other. Resources are the issue slots, each pipe, and the wavefronts of memory, on the GPU
that stands for the target (`gpu`). A rewritten kernel is kept

1. if it dominates: one of these two ends falls by 5 % or more, the other does not rise by more than
   1 %, no fewer warps are resident, and nothing more is spilled to local memory; or
2. if it gains in spite of that: waiting counts as a resource, too (what a warp alone would wait
   over the warps that are resident), and the upper end of the new time is below the lower end of
   the old, by 5 % or more of the old; a resource that is as busy in both cancels.

Where tensor cores work, for which there are no figures, the upper end is open: only 1. can hold,
and only by the lower end.

What is known as a range (how fast a pipe is, where loads hit, what an access asks for whose
addresses are not known) is the same for both texts. So both ends of the ranges are tried, and each
has to give the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ptxsw.cost.dominance import FALLS, Ends, dominates, gains
from ptxsw.cost.gpu import Gpu, UnknownGpu, of_target
from ptxsw.cost.interval import Interval, exactly, total
from ptxsw.cost.occupancy import WARP, UnknownTarget, limits, resident_share
from ptxsw.cost.pipes import TENSOR

if TYPE_CHECKING:
    from ptxsw.cost.counted import Counted
    from ptxsw.cost.wavefronts import Wavefronts

PTXAS, COUNTS, TUNED = "ptxas", "counts", "tuned"
"""What a decision rests on: the machine code, what the rewrites counted themselves, or what
`ptxsw tune` measured."""

_USUAL_BLOCKS: Final = (64, 128, 256, 512, 1024)
_LINE: Final = 128  # bytes of a wavefront
_WAITING: Final = "waiting"


class Case(Struct, frozen=True):
    """Cycles of a multiprocessor for one warp, by resource, and those that a warp alone would wait:
    all at one end of what is known of the GPU. `tensor`: do tensor cores work, too?"""

    cycles: Mapping[str, float]
    waits: float = 0.0
    tensor: bool = False

    @property
    def ends(self) -> Ends:
        return Ends(max(self.cycles.values()), sum(self.cycles.values()), self.tensor)

    def beside(self, warps: float) -> Mapping[str, float]:
        """With waiting as a resource of so many resident warps."""
        return {**self.cycles, _WAITING: self.waits / warps}


class ResourceUse(Struct, frozen=True, kw_only=True):
    """What a kernel takes: registers a thread, bytes that a thread spills to local memory and that
    a block has in shared memory, the share of resident warps by the threads of a block, and how
    many warps all are; and what a warp does that runs through it once, each loop taken 16 times:
    instructions, wavefronts, and its time, at each end of what is known of accesses and the GPU."""

    registers: int
    local: int
    shared: int
    occupancy: Mapping[int, float]
    warps: int
    instructions: float
    wavefronts: Interval
    cases: tuple[Case, ...]

    @property
    def ends(self) -> Ends:
        """Of the time, in cycles of a multiprocessor."""
        ends = [case.ends for case in self.cases]
        return Ends(
            min(one.busiest for one in ends),
            max(one.sum for one in ends),
            any(one.is_open for one in ends),
        )


class Decision(Struct, frozen=True):
    """Whether what was made of a kernel is kept, and why. Without figures of ptxas `before` and
    `after` are None."""

    kept: bool
    by: str
    reason: str
    before: ResourceUse | None = None
    after: ResourceUse | None = None


def figures(
    counted: Counted, asked: Wavefronts, arch: str, block: tuple[int, int, int] | None
) -> ResourceUse:
    """The figures of a text, whose accesses ask for so many wavefronts. Raises UnknownTarget."""
    try:
        gpu = of_target(arch)
    except UnknownGpu as error:
        raise UnknownTarget(str(error)) from error
    waves = total(asked.of(use.index, width=use.width) * use.executions for use in counted.uses)
    waves += exactly(counted.spilled)
    resident = {
        threads: resident_share(
            arch, block_threads=threads, registers=counted.registers, shared=counted.shared
        )
        for threads in _threads(arch, block)
    }
    near, far = counted.waits
    tensor = not TENSOR.isdisjoint(counted.pipes)
    cases = [
        case
        for passes in (waves.high, waves.low)
        for case in (
            Case(_cycles(gpu, counted, passes, lambda rate: rate.low), far, tensor),
            Case(_cycles(gpu, counted, passes, lambda rate: rate.high), near, tensor),
        )
    ]
    return ResourceUse(
        registers=counted.registers, local=counted.local, shared=counted.shared,
        occupancy=resident, warps=limits(arch).warps, instructions=counted.instructions,
        wavefronts=waves, cases=tuple(cases),
    )  # fmt: skip


def _cycles(
    gpu: Gpu, counted: Counted, waves: float, rate: Callable[[Interval], float]
) -> Mapping[str, float]:
    """Cycles of a multiprocessor for one warp, by resource."""
    issue = gpu.of("issue")
    cycles = {
        "wavefronts": waves * _LINE / rate(gpu.of("shared")),
        "issue slots": counted.instructions / rate(issue),
    }
    for pipe, count in counted.pipes.items():
        lanes = gpu.lanes(pipe)
        if rate(lanes) < rate(issue) * WARP:
            cycles[pipe] = count * WARP / rate(lanes)
    return cycles


def _threads(arch: str, block: tuple[int, int, int] | None) -> Sequence[int]:
    if block is not None:
        return (block[0] * block[1] * block[2],)
    most = limits(arch).block_threads
    return tuple(threads for threads in _USUAL_BLOCKS if threads <= most)


def decide(before: ResourceUse, after: ResourceUse, falls: float = FALLS) -> Decision:
    """Is the rewritten kernel kept? The share `falls` is what it has to gain."""
    lost = _lost(before, after)
    change = _change(before, after)
    if lost is None:
        pairs = zip(after.cases, before.cases, strict=True)
        if all(dominates(new.ends, old.ends, falls) for new, old in pairs):
            return Decision(True, PTXAS, f"by what ptxas makes of it: {change}", before, after)
        reason = f"by what ptxas makes of it, it does not certainly pay: {change}"
        return Decision(False, PTXAS, reason, before, after)
    if _gains(before, after, falls):
        reason = f"although {lost}. It gains whatever overlaps: {change}"
        return Decision(True, PTXAS, reason, before, after)
    return Decision(False, PTXAS, lost, before, after)


def _lost(before: ResourceUse, after: ResourceUse) -> str | None:
    """What is given away: resident warps, or registers to local memory."""
    lost = [t for t in before.occupancy if after.occupancy[t] < before.occupancy[t]]
    if lost:
        threads = lost[0]
        share = f"{100 * after.occupancy[threads]:.0f} % of the warps are resident"
        return (
            f"ptxas takes {after.registers} registers for it in place of {before.registers}: "
            f"{share} in place of {100 * before.occupancy[threads]:.0f} % (blocks of {threads})"
        )
    if after.local > before.local:
        return f"ptxas spills {after.local} bytes a thread for it in place of {before.local}"
    return None


def _gains(before: ResourceUse, after: ResourceUse, falls: float) -> bool:
    """Whatever the block, and wherever in its ranges the GPU is."""
    return not after.ends.is_open and all(
        old > 0 < after.occupancy[threads]
        and gains(
            new_case.beside(after.occupancy[threads] * after.warps),
            old_case.beside(old * before.warps),
            falls,
        )
        for threads, old in before.occupancy.items()
        for new_case, old_case in zip(after.cases, before.cases, strict=True)
    )


def _change(before: ResourceUse, after: ResourceUse) -> str:
    exact = before.wavefronts.is_exact and after.wavefronts.is_exact
    pairs = (
        ("instructions", before.instructions, after.instructions),
        (
            "wavefronts" if exact else "wavefronts at least",
            before.wavefronts.low,
            after.wavefronts.low,
        ),
        ("cycles of an SM at least", before.ends.busiest, after.ends.busiest),
        ("at most", before.ends.sum, after.ends.sum),
    )
    is_open = before.ends.is_open or after.ends.is_open
    change = [f"{name} {old:.0f} to {new:.0f}" for name, old, new in pairs[: 3 if is_open else 4]]
    return ", ".join([*change, *["tensor work is not modelled"] * is_open])
