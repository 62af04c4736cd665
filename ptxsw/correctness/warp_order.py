"""Barriers of a warp: they order its lanes, and nobody else.

    st.shared.f32 [%r1], %f1;
    bar.warp.sync -1;
    ld.shared.f32 %f2, [%r2];         the store of another lane of the warp comes first

What is unordered although warps wait is so for two threads of different warps: at most for lanes of
one warp, where no barrier of it lies between.
"""

from __future__ import annotations

from collections.abc import Mapping

from ptxsw.correctness.barriers import BlockBarriers, meets_warp
from ptxsw.correctness.subject import Subject
from ptxsw.terms.node import Term, Variance, unknowns
from ptxsw.terms.substitution import substitute

_LANE_BITS = 5


def barriers_of_warps(subject: Subject, barriers: BlockBarriers) -> BlockBarriers | None:
    """The places where all lanes of a warp meet, those of the block among them; None where there
    are no others, or lanes may part on the way to them."""
    cfg = subject.cfg
    syncs = [at for at in cfg.indices(cfg.order) if meets_warp(cfg.instructions[at])]
    if not syncs:
        return None
    found = barriers.more(syncs, WarpValues(subject).same)
    return None if found.parting else found


def warp_number(subject: Subject) -> Term:
    """What is the same in all lanes of a warp alone."""
    return subject.trace.terms.extract(
        subject.two_threads.views.linear(), _LANE_BITS, 32 - _LANE_BITS
    )


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
            terms.atom("warp", 32 - _LANE_BITS, Variance.UNIFORM), terms.const(0, _LANE_BITS)
        )
        sides = []
        for name in ("one lane", "another lane"):
            lane = terms.zext(terms.atom(name, _LANE_BITS, Variance.LANE), 32)
            sides.append(substitute(terms, term, {place: terms.or_(warp, lane)}.get))
        return sides[0] is sides[1] or self._subject.solver.proves(terms.eq(*sides))
