"""Lanes that have left a loop in the first text, and go round it with the others in the second.

    first text                         second text
    $LOOP:                             $LOOP:                      %in: not yet left the loop
        ...                                ...
        @%p bra $LOOP;                     and.pred %in, %in, %p;
                                           vote.sync.any.pred %go, %in, -1;
        st.global.f32 [%rd4], %f1;         @%go bra $LOOP;

Such a lane waits: the first text stands still at a place while the second runs on somewhere that
is no image of it, and does nothing that lasts. Pairs of places where lanes wait are proved as all
others are. Beside that,

- a lane begins to wait only where all lanes come together, and a predicate that is false in it is
  true in another lane; so there is always a lane for which the others wait, and the end of its
  loop ends their waiting;
- that lane's own end may not depend on what those who wait would do next;
- who waits through an iteration of a loop is outside of it in the first text, and no place of the
  second text's loop is one outside of the first text's. So all lanes in a loop are in the same
  iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ptxsw.analysis.trip_count import counted_iterations
from ptxsw.flow.flow_graph import Loop
from ptxsw.ptx.ir import Reg
from ptxsw.terms.node import Term
from ptxsw.validate.basis import Basis
from ptxsw.validate.cuts import Cut
from ptxsw.validate.edit_map import Pair
from ptxsw.validate.lanes import KernelLanes
from ptxsw.validate.merged_paths import MergedPaths, may_be_kept
from ptxsw.validate.outcome import GiveUp
from ptxsw.validate.path import Path


class WaitingLanes:
    """Which pairs of places are such where a lane waits, and what is known of predicates there.
    `images` are the places of the first text's blocks in the second."""

    def __init__(
        self,
        basis: Basis,
        lanes: KernelLanes,
        images: Callable[[int], frozenset[int]],
    ) -> None:
        self._simplifier = basis.prover.simplifier
        self._old, self._new, self._common = basis.old, basis.new, basis.common
        self._lanes, self._images = lanes, images
        self._truths: dict[Pair, dict[Reg, bool | None]] = {}
        self._headers: set[int] = set()
        self._goes_on: dict[Pair, set[Pair]] = {}  # from where a lane waits to where it does still

    def waits(self, pair: Pair) -> bool:
        """Does a lane at these places wait for others?"""
        return pair[1] not in self._images(pair[0])

    def begin(self, pair: Pair, cut: Cut) -> None:
        """Note which predicates that lanes vote on are known where a lane waits."""
        merged = self._lanes.merged
        if merged is not None:
            asked = merged.asked & (self._new.live(pair[1]) - self._common(pair))
            self._truths[pair] = {r: self._truth(cut.new.get(r), cut.conditions) for r in asked}

    def _truth(self, value: Term, given: tuple[Term, ...]) -> bool | None:
        return self._simplifier.facts(given).truth(value)

    # ------------------------------------------------------------ beginning to wait

    def may_wait(self, at: Pair, old: Path, new: Path, given: Sequence[Term]) -> bool:
        """May a lane that comes from `at` stand still in the first text, and go on in the
        second?"""
        merged = self._lanes.merged
        if merged is None:
            return False
        if self.waits(at):
            return True
        return any(
            self._truth(new.get(reg), tuple(given)) is False
            for reg in merged.true_somewhere(new.ended.position)
        )

    def goes_on(self, at: Pair, to: Pair) -> None:
        """A lane that waits may go on to another pair."""
        if self.waits(at) and self.waits(to):
            self._goes_on.setdefault(at, set()).add(to)

    # ------------------------------------------------------------ the whole

    @property
    def loops(self) -> int:
        """Of the first text, round which lanes go on in the second."""
        return len(self._headers)

    def check(self, pairs: Iterable[Pair]) -> None:
        """All that was proved for single pairs makes a proof of the whole. Raises GiveUp."""
        merged = self._lanes.merged
        seen = set(pairs)
        waiting_pairs = {pair for pair in seen if self.waits(pair)}
        if merged is None or not waiting_pairs:
            if waiting_pairs:
                raise GiveUp("lanes would wait, but there is no vote")
            return
        places = {q for _, q in waiting_pairs}
        for_others = {q for q in places if self._for_others(merged, q, waiting_pairs)}
        counted = {q: loop for q in places - for_others if (loop := self._counted(merged, q))}
        alone = {pair for pair in waiting_pairs if pair[1] not in for_others}
        if self._goes_round(alone, counted):
            raise GiveUp("lanes may wait for each other, and none of them goes on")
        for q in sorted(places):
            header = self._check_iterations(merged, q, waiting_pairs, seen - waiting_pairs)
            if header is not None and q not in counted:
                self._headers.add(header)

    def _for_others(self, merged: MergedPaths, place: int, waiting_pairs: Iterable[Pair]) -> bool:
        """Is there, whenever lanes wait at a place, another one that does not?"""
        here = [self._truths.get(pair, {}) for pair in waiting_pairs if pair[1] == place]
        return any(
            all(truths.get(reg) is False for truths in here) for reg in merged.true_somewhere(place)
        )

    def _counted(self, merged: MergedPaths, place: int) -> Loop | None:
        """A loop of the second text that begins at a place and goes round a fixed number of
        times, whatever a lane that waits holds."""
        text, loop = self._new, merged.loop_at(place)
        if loop is None or counted_iterations(text.module, text.function, text.cfg, loop) is None:
            return None
        return loop

    def _goes_round(self, pairs: set[Pair], counted: Mapping[int, Loop]) -> bool:
        """Is there a path from one of some pairs back to it that passes none but them, and is not
        an iteration of a loop whose iterations are counted?"""

        def again(a: Pair, b: Pair) -> bool:
            loop = counted.get(b[1])
            return loop is not None and self._new.block(a[1]) in loop.blocks

        # Remove pairs that lead to no other remaining pair. If some are left in the end, there is a
        # cycle among them.
        left = set(pairs)
        while left:
            ends = {
                pair
                for pair in left
                if not any(to in left and not again(pair, to) for to in self._goes_on.get(pair, ()))
            }
            if not ends:
                return True
            left -= ends
        return False

    def _check_iterations(
        self, merged: MergedPaths, place: int, waiting_pairs: set[Pair], others: set[Pair]
    ) -> int | None:
        """Lanes that wait where a loop of the second text begins are outside of that loop in the
        first, in which no lane is kept; and all places in the one are in the other. Gives the
        first text's loop."""
        loops = list(self._loops(place))
        loop = merged.loop_at(place)
        if loop is None:
            if loops:
                raise GiveUp(
                    "lanes wait where the first kernel begins a loop, and the second does not"
                )
            return None
        if len(loops) != 1:
            raise GiveUp("lanes wait in a loop that the first kernel does not have")
        (header,) = loops
        blocks = self._old.cfg.loops[header].blocks
        if any(self._old.block(p) in blocks for p, q in waiting_pairs if q == place):
            raise GiveUp("a lane waits through an iteration of the loop that it is in")
        inside = {self._new.cfg.blocks[number].start for number in loop.blocks}
        if any(q in inside and self._old.block(p) not in blocks for p, q in others):
            raise GiveUp("a lane may enter a loop while others are in it")
        kept = may_be_kept(self._old.cfg, header)
        if kept is not None:
            raise GiveUp(kept)
        return header

    def _loops(self, place: int) -> Iterator[int]:
        """The loops of the first text whose headers have an image at a place."""
        for header in self._old.cfg.loops:
            if place in self._images(self._old.cfg.blocks[header].start):
                yield header
