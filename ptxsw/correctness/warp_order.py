"""Barriers of a warp: they order its lanes, and nobody else.

    st.shared.f32 [%r1], %f1;
    bar.warp.sync -1;
    ld.shared.f32 %f2, [%r2];         the store of another lane of the warp comes first

What is unordered although warps wait is so for two threads of different warps: at most for lanes of
one warp, where no barrier of it lies between. So it is with tiles of a warp.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ptxsw.correctness.barriers import BlockBarriers
from ptxsw.correctness.lane_tiles import WARP_BITS, tile_bits
from ptxsw.correctness.subject import Subject
from ptxsw.ptx.ir import Instruction
from ptxsw.terms.node import Term, Variance, unknowns
from ptxsw.terms.substitution import substitute


def orders(
    subject: Subject, barriers: BlockBarriers
) -> Iterator[tuple[BlockBarriers, tuple[Term, ...]]]:
    """The places where threads meet, those of a tile of lanes first, then of a warp, then of the
    block; and what is another one in threads that have not met in less."""
    cfg = subject.cfg
    waits = [at for at in cfg.indices(cfg.order) if _keeps_lanes(cfg.instructions[at])]
    bits = {at: size for at in waits if (size := tile_bits(subject, at)) is not None}
    differs: tuple[Term, ...] = ()
    for size in sorted({*bits.values()}):
        syncs = [at for at, other in bits.items() if other >= size]
        found = barriers.more(syncs, WarpValues(subject).same)
        if not found.parting:
            yield found, differs
            differs = (_tile_number(subject, size),)
    yield barriers, differs


def _keeps_lanes(instruction: Instruction) -> bool:
    named = instruction.opcode == "bar" and "warp" in instruction.modifiers
    return named and instruction.guard is None


def _tile_number(subject: Subject, bits: int) -> Term:
    """What is the same in all lanes of a tile alone."""
    linear = subject.two_threads.views.linear()
    return subject.trace.terms.extract(linear, bits, linear.width - bits)


class WarpValues:
    """Values that all lanes of a warp share."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._terms = subject.trace.terms
        self._known: dict[Term, bool] = {}

    def same(self, term: Term, counters: Mapping[int, int]) -> bool:
        """Is it the same in all lanes that are at a place in the same iterations?"""
        if term.variance is Variance.UNIFORM:
            return True
        known = self._known.get(term)
        if known is None:
            known = self._known[term] = self._by_warp(term)
        return known

    def _by_warp(self, term: Term) -> bool:
        """Does it depend on the number of the warp alone, as `%tid.x < 32` does in blocks of one
        dimension?"""
        terms, place = self._terms, self._terms.special("%tid.x")
        if self._subject.two_threads.dimensions.block != ("x",):
            return False
        varying = [a for a in unknowns(term) if a.variance is not Variance.UNIFORM]
        if varying != [place]:
            return False
        warp = terms.concat(
            terms.atom("warp", 32 - WARP_BITS, Variance.UNIFORM), terms.const(0, WARP_BITS)
        )
        sides = []
        for name in ("one lane", "another lane"):
            lane = terms.zext(terms.atom(name, WARP_BITS, Variance.LANE), 32)
            sides.append(substitute(terms, term, {place: terms.or_(warp, lane)}.get))
        return sides[0] is sides[1] or self._subject.solver.proves(terms.eq(*sides))
