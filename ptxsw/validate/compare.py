"""One path of each text, side by side: do they do the same where both are taken?

Stores of one epoch may change places, merge or be split: what counts is that both texts write the
same bytes, under the same conditions, and that each of these bytes holds the same in the end.

Where the second text has put stores off, the memories differ at either end of a path by what a
claim says. Such a store counts for what memory holds. It is not made: it stands for one that the
first text makes, but allows none of the second.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice

from ptxsw.terms import op
from ptxsw.terms.node import Term, walk
from ptxsw.terms.substitution import substitute
from ptxsw.validate.contraction import CHOICE, rounded_apart
from ptxsw.validate.cuts import Cut
from ptxsw.validate.edit_map import Pair
from ptxsw.validate.memory_ssa import (
    CLAIMED,
    NOTHING,
    Bytes,
    Store,
    StoreDifference,
    known_distance,
    multiple,
)
from ptxsw.validate.outcome import Differ
from ptxsw.validate.path import End, Event, Path, Touch, TouchesBySum, uncovered
from ptxsw.validate.questions import Questions

_MAX_PAIRS = 250_000
_MAX_FACTS = 32
_NEAR = 63  # nodes
_MAX_VECTOR = 32  # bytes


class PathComparison:
    """Compares two paths where `given`, which holds the conditions of both, is true."""

    def __init__(
        self,
        questions: Questions,
        cut: Cut,
        old: Path,
        new: Path,
        given: Sequence[Term],
        pending: StoreDifference = NOTHING,
    ) -> None:
        """`pending` is by what the memories of the two texts differ behind the paths, which begin
        at a cut."""
        self._questions, self._cut, self._memory = questions, cut, questions.memory
        self._equality = equality = questions.equality
        self._terms = self._memory.terms
        self._prover, self._simplifier = equality.prover, equality.simplifier
        self._pending = pending
        self._old, self._new = old, new
        self._given = tuple(given)
        self._by_sum = TouchesBySum(old.touches)
        self._facts: dict[tuple[int, tuple[Term, ...]], tuple[Term, ...]] = {}

    def compare(self) -> Sequence[tuple[Event, Event]]:
        """The events of the two paths, one of each. Raises Differ."""
        # What the first text surely reads by `.nc` on this path is not written while the kernel
        # runs. So any load of these bytes gives the same, in whichever epoch.
        self._equality.unwritten = self._touched(t for t in self._old.touches if t.nc)
        try:
            return self._compare()
        finally:
            self._equality.unwritten = frozenset()

    @property
    def accessed(self) -> frozenset[tuple[str, Term, int]]:
        """What the first text surely accesses, where stores were put off: only then it is asked."""
        return self._touched(self._old.touches if self._cut.stores else ())

    def _touched(self, touches: Iterable[Touch]) -> frozenset[tuple[str, Term, int]]:
        """The bytes of those that are surely made."""
        return frozenset(
            (t.target.space, t.target.place, t.target.size)
            for t in touches
            if self._is_sure(t, self._given)
        )

    def _compare(self) -> Sequence[tuple[Event, Event]]:
        self._ends()
        met = self._events()
        last = len(self._old.stores) - 1
        for epoch, (old, new) in enumerate(zip(self._old.stores, self._new.stores, strict=True)):
            first, second = self._pending if epoch == last else NOTHING
            self._stores([*old, *first], [*new, *second], epoch)
        for touch in self._new.touches:
            self._touch(touch)
        for pair in zip(self._old.places, self._new.places, strict=True):
            self._registers(pair)
        return met

    def _same(self, a: Term, b: Term) -> bool:
        return self._equality.same(a, b, self._given)

    def _choice(self, a: Term, b: Term) -> str:
        """Whether it is ptxas alone that may tell two values apart, in words."""
        one, other = (rounded_apart(self._terms, value) for value in (a, b))
        open_ = (one, other) != (a, b) and self._same(one, other)
        return f": {CHOICE}" if open_ else ""

    # ------------------------------------------------------------ ends and events

    def _ends(self) -> None:
        old, new = self._old.ended, self._new.ended
        if old.kind != new.kind:
            raise Differ("the paths go to different places", old.index, new.index)
        apart = old.kind == "cut" and new.position not in self._questions.images.of(old.position)
        if apart and not self._questions.may_wait(self._cut, self._old, self._new, self._given):
            raise Differ("the paths go to different places", old.index, new.index)
        if old.kind == "brx":
            self._tables(old, new)

    def _tables(self, old: End, new: End) -> None:
        assert old.chosen is not None and new.chosen is not None
        related = len(old.targets) == len(new.targets) and all(
            n in self._questions.images.of(o) for o, n in zip(old.targets, new.targets, strict=True)
        )
        if not related or not self._same(old.chosen, new.chosen):
            raise Differ("an indirect branch goes elsewhere", old.index, new.index)

    def _events(self) -> Sequence[tuple[Event, Event]]:
        old, new = self._old.events, self._new.events
        for a, b in zip(old, new, strict=False):
            self._event(a, b)
        if len(old) != len(new):
            first = min(len(old), len(new))
            missing = old[first] if len(old) > first else new[first]
            which = (missing.index, None) if len(old) > first else (None, missing.index)
            raise Differ(f"{missing.instruction.name} is not in both kernels", *which)
        return [*zip(old, new, strict=True)]

    def _event(self, old: Event, new: Event) -> None:
        where = old.index, new.index
        if old.what != new.what:
            name = f"{old.instruction.name} in the first, {new.instruction.name} in the second"
            raise Differ(f"different events: {name}", *where)
        if not self._same(old.guard, new.guard):
            raise Differ(
                f"{old.instruction.name} happens under a different condition",
                *where,
                self._prover.example,
            )
        for a, b in zip(old.operands, new.operands, strict=True):
            if not self._same(a, b):
                reason = f"an operand of {old.instruction.name} has a different value"
                raise Differ(reason, *where, self._prover.example)

    # ------------------------------------------------------------ registers

    def _registers(self, pair: Pair) -> None:
        """Live registers that either text wrote, or that were not the same before, have the same
        value. Where the second text does not need them, they may be given up."""
        old, new, questions = self._old, self._new, self._questions
        begin = self._cut.old_position, self._cut.new_position
        looked_at = {*old.written, *new.written, *questions.lost.get(begin, ())}
        differing = [
            reg
            for reg in questions.common(pair)
            if reg in looked_at and not self._same(old.get(reg), new.get(reg))
        ]
        if not differing:
            return
        needed = questions.new.live(pair[1])
        reg = next((r for r in differing if r in needed), differing[0])
        why = self._choice(old.get(reg), new.get(reg))
        raise Differ(
            f"{reg.name} has a different value where the paths join{why}",
            old.ended.index,
            new.ended.index,
            self._prover.example,
            {} if reg in needed else {pair: frozenset(differing)},
        )

    # ------------------------------------------------------------ stores

    def _stores(self, old: Sequence[Store], new: Sequence[Store], epoch: int) -> None:
        """Raises Differ where two lists of stores may leave different bytes."""
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
            reason = "the second kernel stores bytes that the first does not"
            self._stored(store, own[0], reason, True)
        for store in own[0]:
            self._stored(
                store, new, "the second kernel does not store bytes that the first stores", False
            )
        for store in new:
            self._left(store, old, new, epoch, True)
        for store in old:
            self._left(store, old, new, epoch, False)

    def _possible(self, stores: Sequence[Store]) -> list[Store]:
        never = self._terms.not_
        return [s for s in stores if never(s.guard) not in self._given]

    def _identical(self, a: Store, b: Store) -> bool:
        if (a.index == CLAIMED) != (b.index == CLAIMED):
            return False
        if a.target.space != b.target.space or a.target.size != b.target.size:
            return False
        pairs = (a.target.place, b.target.place), (a.guard, b.guard), (a.value, b.value)
        return all(x is y for x, y in pairs) or all(self._same(x, y) for x, y in pairs)

    def _stored(self, store: Store, others: Sequence[Store], reason: str, new: bool) -> None:
        """Every byte of a store is written by one of the others whenever the store is made. Only
        where those at a known distance do not cover all are the others compared."""
        given = (*self._given, store.guard)
        for distance in (known_distance, partial(self._distance, most=None)):
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

    def _left(
        self, store: Store, old: Sequence[Store], new: Sequence[Store], epoch: int, is_new: bool
    ) -> None:
        """What the bytes of a store hold in the end."""
        target, given = store.target, self._given
        held = [self._memory.load(stores, epoch, target, given) for stores in (old, new)]
        if not self._same(*held):
            raise Differ(
                f"memory may differ after the stores{self._choice(*held)}",
                None if is_new else store.index,
                store.index if is_new else None,
                self._prover.example,
            )

    # ------------------------------------------------------------ accesses

    def _touch(self, touch: Touch) -> None:
        """An access of the second text touches only bytes that the first one does, too, before
        anything between may end or wait for ever; and it is aligned."""
        given, guard = self._given, touch.guard
        if guard.kind is not op.CONST:
            if self._simplifier.facts(given).truth(guard) is False:
                return
            given = (*given, guard)
        elif not guard.value:
            return
        if self._memory.is_in_parameter(touch.target):
            return
        if any(self._twin(other, touch) for other in self._by_sum.beginning_with(touch)):
            self._check_nc(touch, given)
            return
        lent = (
            self._questions.others_read(self._cut, self._old, touch, given) if touch.loads else None
        )
        # What another lane reads in the first text, by a load of the same size, is mapped and
        # aligned for this lane, too.
        if lent is None:
            self._reads_own(touch, given)
        if lent is None or not lent.nc:
            self._check_nc(touch, given)

    def _reads_own(self, touch: Touch, given: Sequence[Term]) -> None:
        mapped = not touch.loads or self._mapped(touch, given)
        if not (mapped and self._aligned(touch, given)):
            example = self._prover.example if mapped else None
            if not (
                touch.loads and self._questions.reads_later(self._cut, self._old, touch, given)
            ):
                why = f"an access of {touch.target.size} bytes is not known to be aligned"
                if not mapped:
                    why = "the second kernel reads bytes that the first does not read here"
                raise Differ(why, None, touch.index, example)

    def _twin(self, old: Touch, new: Touch) -> bool:
        """The same access in the first text?"""
        return old.target == new.target and (old.guard is new.guard or old.guard.kind is op.CONST)

    def _check_nc(self, touch: Touch, given: Sequence[Term]) -> None:
        """A load by `.nc` reads what nobody writes, or what the first text reads by `.nc`, too."""
        if not touch.nc or self._questions.read_only(self._old, touch, self._given):
            return
        others = [other for other in self._old.touches if other.nc]
        if not others or self._uncovered(touch, others, given):
            raise Differ(".nc reads bytes that may be written", None, touch.index)

    def _before(self, touch: Touch) -> Iterator[Touch]:
        """The accesses of the first text by the time of one of the second."""
        return (other for other in self._old.touches if other.before <= touch.before)

    def _mapped(self, touch: Touch, given: Sequence[Term]) -> bool:
        """Can all bytes of a load be read, since the first text reads them? Only for those that no
        access at a known distance covers are all the others compared."""
        target = touch.target
        left = self._uncovered(touch, self._by_sum.meeting(touch), given)
        rest = left and self._uncovered(touch, self._before(touch), given)
        some = len(rest) < target.size <= _MAX_VECTOR
        return not rest or (some and target.space == "global" and self._questions.beside())

    def _uncovered(
        self, touch: Touch, others: Iterable[Touch], given: Sequence[Term]
    ) -> frozenset[int]:
        """The bytes of an access that none of the others surely touches."""
        return uncovered(
            touch.target,
            ((other.target, other.guard) for other in others),
            self._distance,
            lambda guard: self._prover.holds(guard, given),
        )

    def _distance(self, a: Bytes, b: Bytes, most: int | None = _NEAR) -> int | None:
        """`a - b` in bytes, where the two are built on the same sum or are equal: looked into where
        their difference has at most so many nodes."""
        distance = known_distance(a, b)
        if distance is not None or a.space != b.space or a.place.width != b.place.width:
            return distance
        if most is not None and self._terms.sub(a.place, b.place).size > most:
            return None
        return 0 if self._same(a.place, b.place) else None

    def _aligned(self, touch: Touch, given: Sequence[Term]) -> bool:
        """Is the address a multiple of the access's size? Accesses of the first text are."""
        size = touch.target.size
        if size == 1:
            return True
        if any(self._is_sure(other, given) for other in self._by_sum.aligning(touch)):
            return True
        claim = multiple(self._terms, touch.target.place, size)
        before = self._aligned_before(touch, given)
        if self._simplifier.facts((*given, *before)).truth(claim):
            return True
        facts = [*given, *before, *self._questions.aligned(self._cut, touch.target.place, given)]
        whatever = self._without_quotients(claim)
        if whatever is not claim and self._prover.holds(whatever, facts):
            return True
        return self._prover.holds(claim, facts)

    def _aligned_before(self, touch: Touch, given: Sequence[Term]) -> Sequence[Term]:
        """Misaligned accesses trap. So wherever the first text goes on, all its accesses so far
        were aligned: each is a fact about its address."""
        key = touch.before, tuple(given)
        facts = self._facts.get(key)
        if facts is None:
            wide = (t for t in self._before(touch) if t.target.size > 1 and self._is_sure(t, given))
            targets = (other.target for other in islice(wide, _MAX_FACTS))
            aligned = (multiple(self._terms, t.place, t.size) for t in targets)
            facts = self._facts[key] = tuple(aligned)
        return facts

    def _without_quotients(self, claim: Term) -> Term:
        """A stronger claim: for all values that quotients may have. The solver gives up products
        of these, and `q·n` is a multiple of 4 whatever `q` is, where `n` is one."""
        if op.QUOTIENTS.isdisjoint(node.kind for node in walk(claim)):
            return claim

        def leaf(node: Term) -> Term | None:
            if node.kind not in op.QUOTIENTS and node.kind is not op.ITE:
                return None
            return self._terms.atom(f"any value of {node.id}", node.width, node.variance)

        return substitute(self._terms, claim, leaf)

    def _is_sure(self, other: Touch, given: Sequence[Term]) -> bool:
        return other.guard in given or other.guard.kind is op.CONST
