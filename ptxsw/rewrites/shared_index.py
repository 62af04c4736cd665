"""Pointers that a loop moves on by the same step, made from one of them.

    LOOP:                                     sub.s64 %sw_base1, %rd5, %rd4;
    ld.global.f32 %f1, [%rd4];                mov.b64 %sw_apart1, %sw_base1;
    ld.global.f32 %f2, [%rd5];                LOOP:
    …                                         add.s64 %sw_address1, %rd4, %sw_apart1;
    add.s64 %rd4, %rd4, 128;                  ld.global.f32 %f1, [%rd4];
    add.s64 %rd5, %rd5, 128;          =>      ld.global.f32 %f2, [%sw_address1];
    @%p1 bra LOOP;                            …
                                              add.s64 %rd4, %rd4, 128;
                                              @%p1 bra LOOP;

How far they are apart stays the same, modulo 2^64, as addresses are: no test is needed. A sum takes
what moving a pointer on took, but of every other pointer `ptxas` keeps a copy, too. An address that
is several sums with one register of the loop, as GCC writes them, becomes one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ptxsw.analysis.loop_sums import LoopAccess, LoopSums
from ptxsw.analysis.straight_sums import ACCESSES
from ptxsw.codegen.lower_straight_line import FARTHEST
from ptxsw.codegen.lower_strength_reduction import Base
from ptxsw.flow.cfg import Cfg
from ptxsw.flow.flow_graph import Loop
from ptxsw.ptx import isa
from ptxsw.ptx.bits import wrapped
from ptxsw.ptx.ir import Reg
from ptxsw.rewrites.address_bases import NO_BASES, LoopBases, is_too_large, plain_first
from ptxsw.rewrites.iteration_cost import IterationCost
from ptxsw.rewrites.loop_counter import Counting, signed_number
from ptxsw.terms.node import Term, split

_SUM = 2.0  # instructions: a sum of 64 bits
_COPY = 0.75  # of a pointer that a loop carries, on average: two instructions of every third one
_FEWEST = 3  # addresses that differ, and sums of 64 bits
_MOST = 24  # that are made in a loop: two registers each


Groups = dict[Term, list[tuple[int, int]]]


def may_share_index(cfg: Cfg, loop: Loop) -> bool:
    """May a loop have addresses that are sums with one index?"""
    if is_too_large(cfg, loop):
        return False
    code = map(cfg.instructions.__getitem__, cfg.indices(loop.blocks))
    sums = (i for i in code if i.opcode == "add" and i.modifiers[-1:] in (("s64",), ("u64",)))
    return sum(1 for _ in sums) >= _FEWEST


class SharedIndex:
    """Looks for the index that addresses of one loop can share. `name` gives the registers that
    hold how far each is from it."""

    def __init__(
        self, sums: LoopSums, cfg: Cfg, cost: IterationCost, header: int,
        name: Callable[[int], str],
    ) -> None:  # fmt: skip
        self._sums, self._counting, self._cfg, self._cost = sums, Counting(sums), cfg, cost
        self._header, self._name = header, name

    def bases(self) -> LoopBases:
        """The bases that addresses are made from; none where that takes no less."""
        before, best = self._priced(frozenset(), frozenset()), NO_BASES
        for step, places in self._by_step().items():
            index = self._cheapest(step, places)
            if index is None:
                continue
            kept = frozenset({self._counting.register(index)})
            groups = self._worth_it(self._groups(index, places), kept)
            gain = before - self._priced(_members(groups), kept) - _SUM * len(groups)
            if gain > best.gain and len(groups) <= _MOST:
                best = LoopBases(tuple(self._made(index, groups)), (), (), gain)
        return best

    def _by_step(self) -> Mapping[Term, list[LoopAccess]]:
        """The accesses that move on by the same from iteration to iteration, by that."""
        found: dict[Term, list[LoopAccess]] = {}
        for place in self._sums.places:
            instruction = self._cfg.instructions[place.index]
            known = instruction.opcode in ACCESSES and isa.space(instruction) != "param"
            if known and place.address.width == 64:
                step = self._sums.step(place.address)
                if step is not None and signed_number(step) != 0:
                    found.setdefault(step, []).append(place)
        return {
            step: places
            for step, places in found.items()
            if len({split(place.address)[1] for place in places}) >= _FEWEST
        }

    def _cheapest(self, step: Term, places: list[LoopAccess]) -> Term | None:
        """The register with this step from which it is cheapest to make the addresses."""
        best: tuple[float, Term] | None = None
        for index, register in self._sums.registers.items():
            if index.width == 64 and self._sums.step(index) is step:
                groups = self._groups(index, places)
                price = self._priced(_members(groups), frozenset({register.name}))
                price += _SUM * len(groups)
                if best is None or price < best[0]:
                    best = price, index
        return None if best is None else best[1]

    def _groups(self, index: Term, places: list[LoopAccess]) -> Groups:
        """The accesses, with their offsets, by how far they are from an index, where that is more
        than a number."""
        terms, groups = self._sums.terms, Groups()
        for place in places:
            number, items = split(terms.sub(place.address, index))
            offset = wrapped(number, 64)
            if items and abs(offset) < FARTHEST:
                groups.setdefault(terms.sum(64, 0, items), []).append((place.index, offset))
        return groups

    def _worth_it(self, groups: Groups, kept: frozenset[str]) -> Groups:
        """The same without those whose own arithmetic takes no more than making them anew."""
        chosen, moved = dict(groups), _members(groups)
        now = self._priced(moved, kept)
        for apart in reversed(groups):
            less = moved - _members({apart: groups[apart]})
            more = self._priced(less, kept)
            if more - now <= _SUM:
                del chosen[apart]
                moved, now = less, more
        return chosen

    def _priced(self, moved: frozenset[int], kept: frozenset[str]) -> float:
        """Instructions of an iteration, and copies of the pointers that it moves on."""
        return self._cost.of(moved, kept=kept) + _COPY * self._cost.carried(moved, kept)

    def _made(self, index: Term, groups: Groups) -> Iterator[Base]:
        register = self._sums.registers[index]
        for number, (apart, members) in enumerate(groups.items()):
            parts = plain_first(self._counting.parts(apart))
            at = self._place(register, min(at for at, _ in members))
            yield Base(parts, register.name, 1, tuple(members), self._name(number), at)

    def _place(self, index: Reg, first: int) -> int:
        """Before which instruction an address is made: the first one that needs it, where that is
        in the block with which an iteration begins, and before the index changes."""
        block = self._cfg.blocks[self._header]
        changed = any(index in self._cfg.written[at] for at in range(block.start, first))
        return first if block.start <= first < block.end and not changed else block.start


def _members(groups: Groups) -> frozenset[int]:
    return frozenset(at for group in groups.values() for at, _ in group)
