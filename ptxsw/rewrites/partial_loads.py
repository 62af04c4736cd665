"""Loads at a join of several paths, of bytes that the thread already holds on some of them.

    @%p1 bra ELSE;                          @%p1 bra ELSE;
    ld.global.f32 %f1, [%rd4];              ld.global.f32 %f1, [%rd4];
    …                                       mov.b32 %sw_joined1, %f1;
    bra JOIN;                       =>      …
    ELSE: …                                 bra JOIN;
    JOIN:                                   ELSE: …
    ld.global.f32 %f2, [%rd4];              ld.global.f32 %sw_joined1, [%rd4];
                                            JOIN:
                                            mov.b32 %f2, %sw_joined1;

On the other paths the load moves up to the end of the path. It would be executed anyway: nothing
may stop a thread between the join and the load. If all paths hold the bytes, no load is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ptxsw.changes.change import Change, Refusal
from ptxsw.changes.plan import Proof
from ptxsw.codegen.builder import Builder
from ptxsw.codegen.lower_load_elimination import JoinedLoad, join_claims
from ptxsw.emulator.budget import PLANNING
from ptxsw.emulator.trace import Access
from ptxsw.flow.dataflow import defs
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Reg
from ptxsw.rewrites.access_groups import AccessGroups
from ptxsw.rewrites.available_loads import NAME
from ptxsw.rewrites.base import Kernel

_MOST_PREDECESSORS = 8
_MOST_ALIKE = 32  # accesses to the same bytes
MOVED = "other paths would still load it: no load is saved for certain; force moves it"


def joined_loads(
    kernel: Kernel, groups: AccessGroups, served: frozenset[int]
) -> Iterator[Change | Refusal]:
    """The loads that can take a value from the paths that join before them, except those `served`
    by one source on every path."""
    cfg = kernel.trace.cfg
    if kernel.trace.statistics.timed_out or kernel.budget.spent(PLANNING):
        return
    if not groups.written:
        return
    builder = Builder(kernel.text, kernel.function, cfg.instructions)
    for detail in sorted(_Joins(groups).find(served), key=lambda each: each.at):
        if detail.predecessors and kernel.options.mode != "force":
            yield Refusal(NAME, detail.at, MOVED)
            continue
        label = cfg.name(cfg.block_of[detail.at])
        yield Change(
            NAME, detail.at, frozenset({detail.at}), Proof(), detail,
            detail.sources[0], claims=join_claims(builder, kernel.text, detail, label),
        )  # fmt: skip


class _Joins:
    """The joins of one kernel."""

    def __init__(self, groups: AccessGroups) -> None:
        self.groups, self.cfg = groups, groups.cfg

    def find(self, served: frozenset[int]) -> Iterator[JoinedLoad]:
        """The loads that can be joined."""
        for accesses in self.groups.written:
            if len(accesses) > _MOST_ALIKE:
                continue
            for access in accesses:
                if access.kind == "load" and access.index not in served:
                    detail = self._joined(access, accesses)
                    if detail is not None:
                        yield detail

    def _joined(self, load: Access, alike: Sequence[Access]) -> JoinedLoad | None:
        join = self.cfg.block_of[load.index]
        predecessors = [n for n in self.cfg.predecessors[join] if n in self.cfg.rank]
        few = 2 <= len(predecessors) <= _MOST_PREDECESSORS
        if not few or not self._stands_at_join(load, predecessors):
            return None
        sources = {n: self._source(load, n, alike) for n in predecessors}
        held = {source for source in sources.values() if source is not None}
        left = [predecessor for predecessor, source in sources.items() if source is None]
        # One source on all paths dominates the join: that is a plain repeat, found elsewhere.
        if not held or not (left or len(held) > 1):
            return None
        guards = [self._guard(predecessor, join) for predecessor in left]
        ends = [self.cfg.blocks[predecessor].end - 1 for predecessor in left]
        if None in guards:
            return None
        loaded_ends = tuple((end, guard or "") for end, guard in zip(ends, guards, strict=True))
        return JoinedLoad(load.index, tuple(sorted(held)), loaded_ends)

    def _stands_at_join(self, load: Access, predecessors: Sequence[int]) -> bool:
        """Is the load executed whenever control arrives on these paths, in the same iteration, and
        is its address already set where they end?"""
        # At a loop header, the path over the back edge belongs to the previous iteration.
        join = self.cfg.block_of[load.index]
        base = isa.address(load.instruction).base
        before = self.cfg.instructions[self.cfg.blocks[join].start : load.index]
        loops = self.cfg.loops_around(join)
        return (
            join not in self.cfg.loops
            and join not in self.cfg.irreducible
            and all(self.cfg.loops_around(predecessor) == loops for predecessor in predecessors)
            and not any(base in defs(instruction) for instruction in before)
            and not (isinstance(base, Reg) and base.scope)
        )

    def _source(self, load: Access, predecessor: int, alike: Sequence[Access]) -> int | None:
        """The last access to the bytes on a path, if nothing after it can change them."""
        end = self.cfg.blocks[predecessor].end - 1
        start = self.cfg.blocks[self.cfg.block_of[load.index]].start
        passed = range(end, end + 1), range(start, load.index)
        if self.groups.is_cut(passed):
            return None
        on_path = [a for a in alike if a is not load and self._is_on(a, predecessor, end)]
        last = [a for a in on_path if all(self._before(other, a) for other in on_path)]
        if not last or not self.groups.fits(last[0], load):
            return None
        source = last[0].index
        spans = [*self.groups.paths.between(source, end), *passed]
        if self.groups.is_cut(spans) or self.groups.stores.in_spans(load.index, source, spans):
            return None
        return source

    def _is_on(self, access: Access, predecessor: int, end: int) -> bool:
        """Is an access made on each path that ends with a block, in the same iteration?"""
        above = self.cfg.block_of[access.index]
        if above == predecessor:
            return True
        return (
            self.cfg.dominates(above, predecessor)
            and self.cfg.loops_around(above) == self.cfg.loops_around(predecessor)
            and self.groups.paths.same_instance(access.index, end) is None
        )

    def _before(self, one: Access, other: Access) -> bool:
        above, below = (self.cfg.block_of[a.index] for a in (one, other))
        return one.index <= other.index if above == below else self.cfg.dominates(above, below)

    def _guard(self, predecessor: int, join: int) -> str | None:
        """The guard under which control goes on from a block to the join; None where no
        instruction can stand there that is executed only then."""
        block = self.cfg.blocks[predecessor]
        last = self.cfg.instructions[block.end - 1]
        if block.successors == (join,) and last.guard is None and last.opcode != "brx":
            return ""
        if last.opcode != "bra" or last.guard is None or block.successors.count(join) != 1:
            return None
        # The load goes before the branch, under the condition on which control goes to the join:
        # that of the branch if it is taken, else the opposite.
        taken = block.successors[0] == join
        return f"@{'!' if last.guard.negated == taken else ''}{last.guard.reg.name} "
