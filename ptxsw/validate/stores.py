"""Do two lists of plain stores leave the same bytes in memory?

Stores of one epoch may change places, merge or be split: what counts is that both lists write the
same bytes, under the same conditions, and that each of these bytes holds the same in the end.

Where the second text has put stores off, the memories differ at either end of a path by what a
claim says. Such a store counts for what memory holds. It is not made: it stands for one that the
first text makes, but allows none of the second.
"""

from __future__ import annotations

from collections.abc import Sequence

from ptxsw.facts.equality import Equality
from ptxsw.terms.node import Term
from ptxsw.validate.memory import Memory
from ptxsw.validate.memory_ssa import CLAIMED, Bytes, Store, known_distance
from ptxsw.validate.outcome import Differ
from ptxsw.validate.path import uncovered

_MAX_PAIRS = 250_000


class StoreComparison:
    """Compares the stores of one epoch where `given` holds."""

    def __init__(self, memory: Memory, equality: Equality, given: Sequence[Term]) -> None:
        self._memory, self._given = memory, given
        self._equality, self._prover = equality, equality.prover

    def compare(self, old: Sequence[Store], new: Sequence[Store], epoch: int) -> None:
        """Raises Differ where the lists may leave different bytes."""
        old, new = self._possible(old), self._possible(new)
        # The usual case: nothing was done to the stores.
        if len(old) == len(new) and all(map(self._identical, old, new)):
            return
        if len(old) * len(new) > _MAX_PAIRS:
            raise Differ("too many stores are in a different order")
        # First the same bytes are written, under the same conditions; a store that was put off
        # counts as one of the second text, but allows it none. Then what these bytes hold.
        own = [[s for s in stores if s.index != CLAIMED] for stores in (old, new)]
        for store in own[1]:
            reason = "the second text stores bytes that the first does not"
            self._covered(store, own[0], reason, True)
        for store in own[0]:
            self._covered(
                store, new, "the second text does not store bytes that the first stores", False
            )
        for store in new:
            self._left(store, old, new, epoch, True)
        for store in old:
            self._left(store, old, new, epoch, False)

    def _possible(self, stores: Sequence[Store]) -> list[Store]:
        never = self._memory.terms.not_
        return [s for s in stores if never(s.guard) not in self._given]

    def _identical(self, a: Store, b: Store) -> bool:
        if (a.index == CLAIMED) != (b.index == CLAIMED):
            return False
        if a.target.space != b.target.space or a.target.size != b.target.size:
            return False
        pairs = (a.target.place, b.target.place), (a.guard, b.guard), (a.value, b.value)
        return all(x is y for x, y in pairs) or all(
            self._equality.same(x, y, self._given) for x, y in pairs
        )

    def _covered(self, store: Store, others: Sequence[Store], reason: str, new: bool) -> None:
        """Every byte of a store is written by one of the others whenever the store is made. Only
        where those at a known distance do not cover all are the others compared."""
        given = (*self._given, store.guard)
        for distance in (known_distance, self._distance):
            rest = uncovered(
                store.target,
                ((other.target, other.guard) for other in others),
                distance,
                lambda guard: self._prover.holds(guard, given),
            )
            if not rest:
                return
        example = self._prover.example
        raise Differ(reason, None if new else store.index, store.index if new else None, example)

    def _distance(self, a: Bytes, b: Bytes) -> int | None:
        """`a - b` in bytes, where the two are built on the same sum or are equal."""
        distance = known_distance(a, b)
        if distance is None and a.space == b.space:
            return 0 if self._equality.same(a.place, b.place, self._given) else None
        return distance

    def _left(
        self, store: Store, old: Sequence[Store], new: Sequence[Store], epoch: int, is_new: bool
    ) -> None:
        """What the bytes of a store hold in the end."""
        given = tuple(self._given)
        held = [self._memory.load(stores, epoch, store.target, given) for stores in (old, new)]
        if not self._equality.same(held[0], held[1], given):
            raise Differ(
                "memory may differ after the stores",
                None if is_new else store.index,
                store.index if is_new else None,
                self._prover.example,
            )
