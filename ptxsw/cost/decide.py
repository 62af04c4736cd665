"""Does a rewritten kernel certainly pay? Decided on what ptxas made of both texts.

A kernel takes at least as long as its busiest resource, and at most as long as all of them one
after the other, if it does not wait. Resources are the issue slots, each pipe, and the wavefronts
of memory, on the GPU that stands for the target (`gpu`). Waiting is what a warp alone would wait,
over the warps that are resident. A rewritten kernel is kept

1. if it dominates: one of these two ends falls by 5 % or more, the other does not rise by more than
   1 %, no fewer warps are resident, nothing more is spilled to local memory, and waiting does not
   cost what is saved: with it, too, the upper end does not rise by more than 1 %; or
2. if it gains in spite of that: waiting counts as a resource, too, and the upper end of the new
   time is below the lower end of the old, by 5 % or more of the old; a resource that is as busy in
   both cancels.

Where tensor cores work, for which there are no figures, the upper end is open: only 1. can hold,
and only by the lower end.

What is known as a range (how fast a pipe is, where loads hit, what an access asks for whose
addresses are not known) is the same for both texts. So both ends of the ranges are tried, and each
has to give the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ptxsw.analysis.coalescing import LANES, LINE
from ptxsw.cost.account import Account, Case, Ends, Interval, exactly, total
from ptxsw.cost.gpu import Gpu, UnknownGpu, of_target
from ptxsw.cost.machine_code import TENSOR
from ptxsw.cost.occupancy import UnknownTarget, limits, occupancy

if TYPE_CHECKING:
    from ptxsw.cost.accesses import KernelFigures
    from ptxsw.cost.counted import Counted
    from ptxsw.cost.wavefronts import Wavefronts

PTXAS, COUNTS, TUNED = "ptxas", "counts", "tuned"
"""What a decision rests on: the machine code, what the rewrites counted themselves, or what
`ptxsw tune` measured."""

_USUAL_BLOCKS: Final = (64, 128, 256, 512, 1024)

FALLS: Final = 0.05  # at least
_RISES: Final = 0.01  # at most
_SAME: Final = 1e-9  # relative; of what cannot differ
_ISSUED: Final = 4.0  # instructions a cycle
_WAVEFRONTS: Final = "wavefronts"


class Decision(Struct, frozen=True):
    """Whether what was made of a kernel is kept, and why. Without figures of ptxas `before` and
    `after` are None."""

    kept: bool
    by: str
    reason: str
    before: Account | None = None
    after: Account | None = None
    figures: tuple[KernelFigures | None, KernelFigures | None] = (None, None)
    """Of the same texts, no loop weighed."""


def account(
    counted: Counted, asked: Wavefronts, arch: str, block: tuple[int, int, int] | None
) -> Account:
    """The account of a text, whose accesses ask for so many wavefronts. Raises UnknownTarget."""
    try:
        gpu = of_target(arch)
    except UnknownGpu as error:
        raise UnknownTarget(str(error)) from error
    waves = total(asked.of(use.index, width=use.width) * use.executions for use in counted.uses)
    waves += exactly(counted.spilled)
    resident = {
        threads: occupancy(
            arch, block_threads=threads, registers=counted.registers, shared=counted.shared
        ).fraction
        for threads in _threads(arch, block)
    }
    tensor = not TENSOR.isdisjoint(counted.pipes)
    return Account(
        registers=counted.registers, local=counted.local, shared=counted.shared,
        instructions=exactly(counted.instructions),
        pipes={pipe: exactly(count) for pipe, count in counted.pipes.items()},
        wavefronts=waves, chain=Interval(*sorted(counted.waits)),
        unmodelled=("tensor work",) if tensor else (),
        occupancy=resident, warps=limits(arch).warps,
        cases=tuple(_cases(gpu, counted, waves)),
    )  # fmt: skip


def _cases(gpu: Gpu, counted: Counted, waves: Interval) -> Iterator[Case]:
    """At all ends of what is known. What a warp alone waits for are its own wavefronts, too."""
    near, far = counted.waits
    tensor = not TENSOR.isdisjoint(counted.pipes)
    for passes in (waves.high, waves.low):
        for wait, rate in ((far, attrgetter("low")), (near, attrgetter("high"))):
            cycles = _cycles(gpu, counted, passes, rate)
            yield Case(cycles, wait + cycles[_WAVEFRONTS], tensor)


def _cycles(
    gpu: Gpu, counted: Counted, waves: float, rate: Callable[[Interval], float]
) -> Mapping[str, float]:
    """Cycles of a multiprocessor for one warp, by resource."""
    issue = gpu.of("issue")
    cycles = {
        _WAVEFRONTS: waves * LINE / rate(gpu.of("shared")),
        "issue slots": counted.instructions / rate(issue),
    }
    for pipe, count in counted.pipes.items():
        lanes = gpu.lanes(pipe)
        if rate(lanes) < rate(issue) * LANES:
            cycles[pipe] = count * LANES / rate(lanes)
    return cycles


def _threads(arch: str, block: tuple[int, int, int] | None) -> Sequence[int]:
    if block is not None:
        return (block[0] * block[1] * block[2],)
    most = limits(arch).block_threads
    return tuple(threads for threads in _USUAL_BLOCKS if threads <= most)


# ---------------------------------------------------------------- which is better


def ends_by_counts(*, instructions: float, wavefronts: float) -> Ends:
    """Of what a warp does, where no machine code is known: a multiprocessor issues four
    instructions a cycle, and serves one wavefront."""
    return Case({"issue slots": instructions / _ISSUED, _WAVEFRONTS: wavefronts}).ends


def dominates(after: Ends, before: Ends, falls: float = FALLS) -> bool:
    """Does one end of the time fall by 5 % (or the share `falls`) or more, and the other rise by
    no more than 1 %?"""
    pairs = ((after.busiest, before.busiest), (after.sum, before.sum))
    certain = pairs[:1] if after.is_open or before.is_open else pairs
    fallen = any(new <= (1 - falls) * old for new, old in certain)
    return fallen and all(new <= (1 + _RISES) * old for new, old in pairs)


def gains(after: Mapping[str, float], before: Mapping[str, float], falls: float = FALLS) -> bool:
    """Is the upper end of the new time below the lower end of the old, by the share `falls`?
    Cycles are by resource; a resource that both keep busy for as long cancels."""
    differ = [
        name for name in before.keys() | after.keys()
        if abs(before.get(name, 0.0) - after.get(name, 0.0)) > _SAME * before.get(name, 0.0)
    ]  # fmt: skip
    most = sum(after.get(name, 0.0) for name in differ)
    least = max((before.get(name, 0.0) for name in differ), default=0.0)
    whole = max(before.values(), default=0.0)
    return most < least and least - most >= falls * whole


def decide(before: Account, after: Account, falls: float = FALLS) -> Decision:
    """Is the rewritten kernel kept? The share `falls` is what it has to gain."""
    lost = _lost(before, after)
    change = _change(before, after)
    if lost is None:
        pairs = zip(after.cases, before.cases, strict=True)
        longer = _longer_waits(before, after)
        if not longer and all(dominates(new.ends, old.ends, falls) for new, old in pairs):
            return Decision(True, PTXAS, f"by ptxas's output: {change}", before, after)
        reason = f"no clear gain in ptxas's output: {change}{longer}"
        return Decision(False, PTXAS, reason, before, after)
    if _gains(before, after, falls):
        reason = f"although {lost}. It gains whatever overlaps: {change}"
        return Decision(True, PTXAS, reason, before, after)
    return Decision(False, PTXAS, lost, before, after)


def _lost(before: Account, after: Account) -> str | None:
    """What is given away: resident warps, or registers to local memory."""
    lost = [t for t in before.occupancy if after.occupancy[t] < before.occupancy[t]]
    if lost:
        threads = lost[0]
        share = f"{100 * after.occupancy[threads]:.0f} % of the warps are resident"
        return (
            f"ptxas needs {after.registers} registers instead of {before.registers}: "
            f"{share} instead of {100 * before.occupancy[threads]:.0f} % (blocks of {threads})"
        )
    if after.local > before.local:
        return f"ptxas spills {after.local} bytes per thread instead of {before.local}"
    return None


def _longer_waits(before: Account, after: Account) -> str:
    """How much longer warps wait, if that is more than is saved, in blocks of some size; ""
    otherwise."""
    for threads, share in before.occupancy.items():
        warps = before.resident_warps(threads), after.resident_warps(threads)
        for old, new in zip(before.cases, after.cases, strict=True):
            if share and new.together(warps[1]) > (1 + _RISES) * old.together(warps[0]):
                return f", but waiting {old.waits / warps[0]:.0f} to {new.waits / warps[1]:.0f}"
    return ""


def _gains(before: Account, after: Account, falls: float) -> bool:
    """Whatever the block, and wherever in its ranges the GPU is."""
    return not after.ends.is_open and all(
        old > 0 < after.occupancy[threads]
        and gains(
            new_case.beside(after.resident_warps(threads)),
            old_case.beside(before.resident_warps(threads)),
            falls,
        )
        for threads, old in before.occupancy.items()
        for new_case, old_case in zip(after.cases, before.cases, strict=True)
    )


def _change(before: Account, after: Account) -> str:
    exact = before.wavefronts.is_exact and after.wavefronts.is_exact
    pairs = (
        ("instructions", before.instructions.low, after.instructions.low),
        (
            "wavefronts" if exact else "wavefronts at least",
            before.wavefronts.low,
            after.wavefronts.low,
        ),
        ("SM cycles at least", before.ends.busiest, after.ends.busiest),
        ("at most", before.ends.sum, after.ends.sum),
    )
    is_open = before.ends.is_open or after.ends.is_open
    change = [f"{name} {old:.0f} to {new:.0f}" for name, old, new in pairs[: 3 if is_open else 4]]
    return ", ".join([*change, *["tensor work is not modelled"] * is_open])
