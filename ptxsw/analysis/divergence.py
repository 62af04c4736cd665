"""Where the lanes of a warp may be apart although no loop parted them: arms of divergent `if`s.

    @%p bra $else;         %p varies over the lanes
    ...                    an arm: ptxas does not know here that the warp is together
$else:
    ...                    here it is, again

Before Volta a warp is one thread of control. From sm_70 to sm_89 ptxas turns a shuffle in such an
arm into a call of a routine outside the kernel and each corner load into a branch, some 12
instructions for each shuffle; from sm_90 on it gathers the lanes with one instruction.

An early exit (`if (i >= n) return;`) parts nobody: the lanes that stay are together, as ptxas
knows. Nor does a loop count whose lanes leave at different times, or the test before it whether to
enter it at all: a shuffle there costs as much, but `uniform` is the form for it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ptxsw.emulator.trace import Trace
from ptxsw.flow.cfg import Cfg
from ptxsw.terms.node import Variance

CALLED = range(70, 90)
"""Compute capabilities for which ptxas makes a call of a shuffle among lanes that are apart."""


def divergent_regions(trace: Trace) -> frozenset[int]:
    """Blocks in an arm of an `if` that not all lanes of a warp need take."""
    return frozenset(n for n, branches in _arms(trace).items() if branches)


def arms(trace: Trace) -> dict[int, tuple[frozenset[int], frozenset[int]]]:
    """For each divergent branch, by its instruction, the blocks that only its taken side reaches
    before the join, and those that only its other side does. Branches that leave loops, or have one
    successor, are left out."""
    cfg = trace.cfg
    regions: dict[int, tuple[frozenset[int], frozenset[int]]] = {}
    for number, join in _divergent(trace):
        block = cfg.blocks[number]
        if len(block.successors) != 2 or any(
            number == source
            for header in cfg.loops_around(number)
            for source, _ in cfg.loops[header].exits
        ):
            continue
        # Blocks that both sides reach before the join belong to neither arm.
        one, other = (
            frozenset(cfg.reached_from([successor], {join})) for successor in block.successors
        )
        regions[block.end - 1] = one - other, other - one
    return regions


def _arms(trace: Trace) -> dict[int, list[int]]:
    """For each block the divergent branches in whose arms it lies."""
    branches: dict[int, list[int]] = {}
    for number, join in _divergent(trace):
        for inside in trace.cfg.reached_from(trace.cfg.blocks[number].successors, {number, join}):
            if not _of_a_loop(trace, number, inside):
                branches.setdefault(inside, []).append(number)
    return branches


def _divergent(trace: Trace) -> Iterator[tuple[int, int]]:
    """Blocks that end with a branch at which lanes may part, and where these meet again. An early
    exit is none."""
    cfg = trace.cfg
    for number in cfg.order:
        block = cfg.blocks[number]
        varies = trace.branches.get(block.end - 1, Variance.UNIFORM) is not Variance.UNIFORM
        if len(block.successors) < 2 or not varies:
            continue
        # -1 is the virtual exit: the two sides never meet again. If they meet at a block that only
        # returns, the branch is an early exit.
        join = cfg.ipdom.get(number, -1)
        if join != -1 and not ends_at_once(cfg, join):
            yield number, join


def ends_at_once(cfg: Cfg, number: int) -> bool:
    """Is there nothing left to do from a block on?"""
    block = cfg.blocks[number]
    return not block.successors and block.end - block.start <= 1


def _of_a_loop(trace: Trace, branch: int, inside: int) -> bool:
    """Is the branch one that a loop around the block leaves by, or the test before such a loop,
    whose trip count varies as much?"""
    cfg = trace.cfg
    for header in cfg.loops_around(inside):
        loop = cfg.loops[header]
        if branch in loop.blocks:
            if any(branch == number for number, _ in loop.exits):
                return True
        elif header not in trace.uniform_loops:
            return True
    return False
