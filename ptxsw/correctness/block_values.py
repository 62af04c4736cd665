"""Values that all threads of a block share, wherever they are in step.

    %ctaid.x * 4 + iter(LOOP)      one value in the block, in one iteration of LOOP
    %tid.y                         one in a warp, perhaps

`Variance.UNIFORM` speaks of the lanes of one warp: it says enough for blocks of one warp alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ptxsw.analysis.coalescing import LANES
from ptxsw.analysis.warps import Block
from ptxsw.correctness.barriers import meets_all, of_block
from ptxsw.emulator.trace import Trace
from ptxsw.facts.thread_views import COMMON
from ptxsw.terms import op
from ptxsw.terms.node import Term, Variance, bottom_up, walk
from ptxsw.terms.origin import Origin
from ptxsw.terms.specials import SPECIALS, THREAD
from ptxsw.terms.substitution import substitute
from ptxsw.terms.terms import Terms


def same_in_warps(terms: Terms, term: Term, shape: Block) -> bool:
    """Has a term one value in all lanes of each warp, in blocks of a shape? `%tid.x < 32` has. All
    threads are tried, with what warps share as it is."""
    if not all(_is_tried(node) for node in walk(term)):
        return False
    x, y, z = shape
    place = [terms.special(f"%tid.{axis}") for axis in "xyz"]
    first = term
    for thread in range(x * y * z):
        at = (thread % x, thread // x % y, thread // (x * y))
        numbers = {a: terms.const(n, a.width) for a, n in zip(place, at, strict=True)}
        value = substitute(terms, term, numbers.get)
        if thread % LANES == 0:
            first = value
        elif value is not first:
            return False
    return True


def _is_tried(node: Term) -> bool:
    if node.kind is op.APPLY:
        return node.value[1] is Variance.UNIFORM
    shared = node.variance is Variance.UNIFORM or node.value in THREAD
    return node.kind is not op.ATOM or shared


class BlockValues:
    """Of one kernel. `threads` are those of a block at most, and `shape` is its shape, where that
    is known."""

    def __init__(
        self, trace: Trace, threads: int | None, shape: Sequence[int] | None = None
    ) -> None:
        self._trace = trace
        self._one_warp = threads is not None and threads <= LANES
        votes = [i for i in trace.cfg.instructions if of_block(i) and "red" in i.modifiers]
        self._all_vote = all(meets_all(vote, shape) for vote in votes)
        self._headers = {facts.label: header for header, facts in trace.loop_facts.items()}

    def same(self, term: Term, counters: Mapping[int, int]) -> bool:
        """Has a term one value in all threads of a block that are in step? `counters` are the loops
        by header whose counts are related: 0 where they are the same."""
        if self._one_warp and term.variance is Variance.UNIFORM:
            return True
        done: dict[Term, bool] = {}
        for node in bottom_up(done, lambda n: self._parts(n), term):
            done[node] = all(done[part] for part in self._parts(node)) and self._is_shared(
                node, counters
            )
        return done[term]

    def _parts(self, term: Term) -> tuple[Term, ...]:
        if term.origin is Origin.LOOP_VALUE:
            # Its first two values say what all follow from (`recurrences`).
            return tuple(i.value for i in self._trace.iterations.get(term, ())[:2])
        return term.args

    def _is_shared(self, node: Term, counters: Mapping[int, int]) -> bool:
        """The same, where it is so of its parts."""
        if node.kind is op.APPLY:
            return node.value[1] is not Variance.LANE
        if node.kind is not op.ATOM:
            return True
        if node.origin is Origin.OF_BLOCK:
            return self._all_vote
        if node.origin in COMMON:
            return node.variance is Variance.UNIFORM  # else of a thread's local memory
        if node.origin in (Origin.ITERATION, Origin.LOOP_VALUE):
            header = self._headers.get(node.of[0])
            known = node.origin is Origin.ITERATION or node in self._trace.iterations
            return known and header is not None and counters.get(header) == 0
        name = str(node.value)
        return SPECIALS.get(name, (Variance.LANE, 0))[0] is Variance.UNIFORM
