"""Loads that every arm of a branch makes: they are made once, before it.

                                                ld.global.f32 %sw_before1, [%rd4];
    @%p1 bra ELSE;                              @%p1 bra ELSE;
    ld.global.f32 %f1, [%rd4];                  mov.b32 %f1, %sw_before1;
    …                                   =>      …
    ELSE:                                       ELSE:
    st.global.f32 [%rd5], %f9;                  st.global.f32 [%rd5], %f9;
    ld.global.f32 %f2, [%rd4];                  mov.b32 %f2, %sw_before1;

A warp whose lanes part makes the load once instead of twice, and sooner (NVCUDA, 3.4: expressions
that are very busy). An arm may branch again, if all its arms make the load. Nothing before the load
may write its bytes, order memory, wait or end a thread: so every thread makes it anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ptxsw.changes.change import Change, Refusal, Worth
from ptxsw.changes.plan import Proof
from ptxsw.codegen.lower_load_elimination import LoadBeforeBranch
from ptxsw.codegen.overflow_checks import computation
from ptxsw.emulator.budget import PLANNING
from ptxsw.emulator.trace import Access
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Reg
from ptxsw.rewrites.access_groups import AccessGroups, is_constant
from ptxsw.rewrites.available_loads import NAME
from ptxsw.rewrites.base import Kernel
from ptxsw.rewrites.hoist_obstacles import hazard

_MOST_ALIKE = 32  # accesses to the same bytes
_DEEPEST = 4  # branches behind each other


def hoisted_loads(
    kernel: Kernel, groups: AccessGroups, used: frozenset[int]
) -> Iterator[Change | Refusal]:
    """The loads that are made before a branch, and why others are not. Other changes
    need those `used` where they stand."""
    if kernel.trace.statistics.timed_out or kernel.budget.spent(PLANNING):
        return
    busy = _VeryBusyLoads(groups)
    for accesses in (*groups.written, *groups.constant):
        loads = [a for a in accesses if a.kind == "load" and a.index not in used]
        if 2 <= len(loads) <= _MOST_ALIKE:
            yield from busy.of(loads)


class _Way(NamedTuple):
    """A load on one of the ways behind a branch, and those of the instructions before it that make
    its address."""

    load: int
    computed: tuple[int, ...]


class _VeryBusyLoads:
    """The branches of one kernel behind which every way makes the same load."""

    def __init__(self, groups: AccessGroups) -> None:
        self.groups, self.kernel, self.cfg = groups, groups.kernel, groups.cfg
        self.reason = ""  # why the last way that was looked at makes no load

    def of(self, loads: Sequence[Access]) -> Iterator[Change | Refusal]:
        """What becomes of some loads of the same bytes."""
        left = {load.index: load for load in loads}
        for block in self.cfg.in_order(self.cfg.rank):
            arms = self._ahead(block)
            if len(arms) < 2 or len(left) < 2:
                continue
            self.reason = ""
            # Cheap first: each arm has to lead to one of the loads.
            if not all(any(self._leads(arm, at) for at in left) for arm in arms):
                continue
            found = [self._first(arm, left, (), _DEEPEST) for arm in arms]
            made = [way for arm in found if arm is not None for way in arm]
            if None not in found and self._alike([left[way.load] for way in made]):
                for way in made:
                    del left[way.load]
                yield self._change(block, made)
            elif self.reason and made and self.kernel.explains:
                yield Refusal(NAME, made[0].load, self.reason)

    def _change(self, block: int, ways: Sequence[_Way]) -> Change:
        end = self.cfg.blocks[block].end - 1
        # The first one is written before the branch: that with the shortest address.
        ways = sorted(ways, key=lambda way: (len(way.computed), way.load))
        loads = tuple(way.load for way in ways)
        detail = LoadBeforeBranch(end, loads, ways[0].computed)
        worth = Worth(1 - len(loads))
        return Change(NAME, min(loads), frozenset(loads), Proof(), detail, None, worth=worth)

    def _leads(self, arm: int, load: int) -> bool:
        block = self.cfg.block_of[load]
        same_loops = self.cfg.loops_around(arm) == self.cfg.loops_around(block)
        return same_loops and self.cfg.dominates(arm, block)

    def _ahead(self, block: int) -> tuple[int, ...]:
        """Where control goes from a block, if it comes there from nowhere else, and in the same
        iteration of the same loops."""
        code, around = self.cfg.blocks[block], self.cfg.loops_around(block)
        last = self.cfg.instructions[code.end - 1]
        ahead = tuple(dict.fromkeys(code.successors))
        single = all(
            self.cfg.predecessors[n] == (block,) and self.cfg.loops_around(n) == around
            for n in ahead
        )
        return ahead if single and last.opcode != "brx" else ()

    def _first(
        self, block: int, loads: dict[int, Access], passed: tuple[int, ...], depth: int
    ) -> list[_Way] | None:
        """The first of some loads on each way through a block and its arms, behind instructions
        that were `passed`; None where a way makes none, or something before it stands in the way:
        the reason is noted."""
        code = self.cfg.blocks[block]
        for at in range(code.start, code.end):
            if at in loads:
                computed = self._computed(at, (*passed, *range(code.start, at)))
                return None if computed is None else [_Way(at, computed)]
            if self._stands_in_the_way(at, next(iter(loads))):
                return None
        passed = (*passed, *range(code.start, code.end))
        arms = self._ahead(block) if depth else ()
        found = [self._first(arm, loads, passed, depth - 1) for arm in arms]
        ways = [way for arm in found if arm is not None for way in arm]
        return ways if found and None not in found else None

    def _computed(self, load: int, passed: Sequence[int]) -> tuple[int, ...] | None:
        """Those of the instructions that were passed that make a load's address, in order."""
        base = isa.address(self.cfg.instructions[load]).base
        registers = (base,) if isinstance(base, Reg) else ()
        found = computation(
            self.cfg.instructions, self.cfg.written, reversed(passed), registers
        )  # fmt: skip
        return None if found is None or any(reg.scope for reg in found[1]) else found[0]

    def _stands_in_the_way(self, at: int, load: int) -> bool:
        instruction, access = self.cfg.instructions[at], self.groups.stores.access_at.get(at)
        reason = hazard(instruction, access is not None)
        constant = is_constant(self.groups.stores.access_at[load])
        here = [range(at, at + 1)]
        if reason is None and not constant and self.groups.stores.in_spans(load, load, here):
            reason = "may write its bytes first"
        if reason is not None:
            self.reason = f"{instruction.name} (line {self.kernel.line(at)}) {reason}"
        return reason is not None

    def _alike(self, loads: Sequence[Access]) -> bool:
        """Can one load stand for all?"""
        return all(self.groups.fits(loads[0], other) for other in loads[1:])
