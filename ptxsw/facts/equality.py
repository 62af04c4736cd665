"""Are two terms equal where some conditions hold? Normal forms first, Z3 last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ptxsw.facts.conditions import assumed
from ptxsw.facts.lane_equality import NoOverflowView, Same, assume_no_overflow
from ptxsw.facts.loads import compared_places, is_constant_load, is_load, steady
from ptxsw.facts.prover import Prover
from ptxsw.facts.simplifier import MAX_SIZE
from ptxsw.facts.structure import ORDERLESS, condition_within, lifted_sum, same_operation, unmatched
from ptxsw.terms import op
from ptxsw.terms.node import Term, bottom_up

_COMPARED = frozenset({op.FLOAT, op.CONCAT})  # before what is computed from them
_DEEPER = _COMPARED | {op.APPLY}
_MAX_DEPTH = 32
_DEEP = 200  # nodes
_MAX_PAIRS = 4000  # of parts of two values
_MAX_CHOICES = 12  # values inside each other
_MAX_CASES = 64  # of values that are computed from choices

SameSum = Callable[[Term, Term, tuple[Term, ...]], bool]
"""Are two sums the same where some conditions hold?"""


def _commutes(a: Term) -> bool:
    """Is it a sum or product of singles? With a NaN it gives the same NaN whatever it is of (manual
    9.7.3); doubles keep which NaN it was."""
    name = str(a.value)
    return a.kind is op.FLOAT and name.startswith(("add.", "mul.")) and name.endswith(".f32")


class Equality:
    """Compares terms of one table. `unwraps`, where that may be assumed, notes that signed sums do
    not overflow. `by_bounds` tells more of sums, while it is set, and `unwritten` names bytes that
    nobody writes: the space, the first one's place, and how many; `accessed` in the same way what
    an access goes to. Where the solver has found values
    for which the last terms that were compared differ, they are the `prover`'s example."""

    def __init__(self, prover: Prover, unwraps: Callable[[], None] | None = None) -> None:
        self.prover, self._unwraps = prover, unwraps
        self.simplifier = prover.simplifier
        self._terms = self.simplifier.terms
        self._unwrapped_view = NoOverflowView(self._terms)
        self._answers: dict[tuple[object, ...], bool] = {}
        self._whole: tuple[Term, ...] = ()  # what holds in all cases of a comparison
        self._cases = 0  # into which it was divided
        self.by_bounds: SameSum | None = None
        self.unwritten: frozenset[tuple[str, Term, int]] = frozenset()
        self.accessed: frozenset[tuple[str, Term, int]] = frozenset()

    def same(self, a: Term, b: Term, given: Sequence[Term]) -> bool:
        """Are the values equal wherever all of `given` hold? A no may mean that it is not known."""
        self.prover.example, self._cases = {}, 0
        self.prover.check()
        if a is b:
            return True
        conditions = tuple(given)
        a, b = self.simplifier.simplified(a, conditions), self.simplifier.simplified(b, conditions)
        a, b = steady(self._terms, a, b)
        around, self._whole = self._whole, conditions
        try:
            if min(a.size, b.size) > _DEEP:
                self._from_below(a, b, conditions)
            return self._same(a, b, conditions, 0)
        finally:
            self._whole = around

    def _from_below(self, a: Term, b: Term, given: tuple[Term, ...]) -> None:
        """Compare what two values are computed from before they are compared themselves: terms may
        be deeper than Python's stack, and what is found to be the same need not be compared again
        in each case."""

        def parts(pair: tuple[Term, Term]) -> Iterable[tuple[Term, Term]]:
            x, y = pair
            if x is y or x.width != y.width or len(seen) > _MAX_PAIRS or self._is_known(x, y):
                return ()
            if (x.kind is op.ITE) != (y.kind is op.ITE):
                choice, other = (x, y) if x.kind is op.ITE else (y, x)
                arms = ((other, arm) for arm in choice.args[1:])
                return [pair if choice is y else pair[::-1] for pair in arms]
            deep = x.kind in _DEEPER and same_operation(x, y)
            return zip(x.args, y.args, strict=True) if deep else ()

        seen: set[tuple[Term, Term]] = set()
        for pair in bottom_up(seen, parts, (a, b)):
            seen.add(pair)
            if pair[0].kind == pair[1].kind and pair[0].kind in _COMPARED:
                self._same(*pair, given, 0)

    def _is_known(self, a: Term, b: Term) -> bool:
        """Has a comparison shown that two values are the same in all cases?"""
        always = self._whole, self.by_bounds, self.unwritten, self.accessed
        return bool(self._answers.get((a, b, *always)) or self._answers.get((b, a, *always)))

    def _same(self, a: Term, b: Term, given: tuple[Term, ...], depth: int) -> bool:
        if a is b:
            return True
        if a.width != b.width:
            return False
        if self._is_known(a, b):
            return True
        # All that an answer rests on beside the terms; `unwritten` differs from path to path.
        key = (a, b, given, self.by_bounds, self.unwritten, self.accessed)
        answer = self._answers.get(key)
        if answer is None:
            answer = self._answers[key] = self._compared(a, b, given, depth)
        return answer

    def _compared(self, a: Term, b: Term, given: tuple[Term, ...], depth: int) -> bool:
        a, b = self.simplifier.simplified(a, given), self.simplifier.simplified(b, given)
        if a is b:
            return True
        # Cheap methods first: normal forms and parts. Then case distinctions, each of which doubles
        # the work, then whole numbers, and the solver last.
        sums = a.width == 64 and op.SUM in (a.kind, b.kind)
        if sums and self.by_bounds is not None and self.by_bounds(a, b, given):
            return True
        if a.kind == b.kind and a.kind in ORDERLESS and depth < _MAX_DEPTH:
            if self._matched(a, b, given, depth):
                return True
        elif same_operation(a, b) and depth < _MAX_DEPTH:
            pairs = zip(a.args, b.args, strict=True)
            if all(self._same(x, y, given, depth + 1) for x, y in pairs):
                return True
            if _commutes(a):
                crossed = zip(a.args, reversed(b.args), strict=True)
                if all(self._same(x, y, given, depth + 1) for x, y in crossed):
                    return True
        if self.unwritten and self._lasting(a, b, given, depth):
            return True
        places = compared_places(self._terms, a, b)
        if places is not None and self._same(*places, given, depth + 1):
            return True
        if op.ITE in (a.kind, b.kind) and depth < _MAX_DEPTH:
            if self._forwarded(a, b, given, depth) or self._forwarded(b, a, given, depth):
                return True
            return self._case_by_case(a, b, given, depth)
        if sums and self._unwrapped(a, b):
            return True
        parted = self._split(a, b, given, depth) if depth < _MAX_DEPTH else None
        if parted:
            return True
        if a.kind not in ORDERLESS and depth < _MAX_DEPTH and self._matched(a, b, given, depth):
            return True
        if depth < _MAX_DEPTH and self._equated(a, b, given, depth):
            return True
        if sums and depth < _MAX_CHOICES:
            x, y = lifted_sum(self._terms, a, b), lifted_sum(self._terms, b, a)
            if (x, y) != (a, b):
                return self._case_by_case(x, y, given, depth)
        if depth < _MAX_CHOICES and self._in_cases(a, b, given, depth):
            return True
        if self.prover.unrelated(a, b, given):
            return False
        if op.SUM in (a.kind, b.kind) and self.prover.same_extended(a, b, given):
            return True
        if self.prover.written_out(a, given) is self.prover.written_out(b, given):
            return True
        return parted is None and self.prover.proved(self._terms.eq(a, b), given)

    def _lasting(self, a: Term, b: Term, given: tuple[Term, ...], depth: int) -> bool:
        """Is one side a load of unwritten memory, and the other a load of the same bytes at some
        time?"""
        for lasting, other in ((a, b), (b, a)):
            if is_constant_load(lasting) and is_load(other) and depth < _MAX_DEPTH:
                (_, space, *_), size = lasting.value[0], lasting.width // 8
                same_kind = other.value[0][1] == space and other.width == lasting.width
                if same_kind and self._is_unwritten(space, lasting.args[0], size):
                    return self._same(lasting.args[0], other.args[0], given, depth + 1)
        return False

    def _forwarded(self, load: Term, choice: Term, given: tuple[Term, ...], depth: int) -> bool:
        """Is one side a load behind stores to one place that may be its own, and the other a choice
        by whether it is? All are as wide and lie at multiples of that, as every access does: so
        they have all bytes in common, or none."""
        if not (self.accessed and is_load(load) and choice.kind is op.ITE and load.value[0][3]):
            return False
        (_, space, epoch, stores), own = load.value
        place, *written = load.args
        size, target, value = load.width // 8, written[-3], written[-2]  # the last one's
        accessed = {(space, place, size), (space, target, size)} <= self.accessed
        alike = {*stores, *written[::3], *written[2::3]}
        always = self._terms.const(1, 1)
        if space != "global" or not accessed or alike != {("global", size), target, always}:
            return False
        before = self._terms.apply(("load", space, epoch, ()), load.width, (place,), own)
        condition, yes, no = choice.args
        if condition.kind is op.NOT:
            (condition,), yes, no = condition.args, no, yes
        return (
            condition.kind is op.EQ
            and condition.args[0].width == place.width
            and self._differ_alike(condition.args, (place, target), given, depth)
            and self._same(yes, value, given, depth + 1)
            and self._same(no, before, given, depth + 1)
        )

    def _differ_alike(
        self, one: Sequence[Term], other: Sequence[Term], given: tuple[Term, ...], depth: int
    ) -> bool:
        """Are two values the same if two others are?"""
        a, b = (self._terms.sub(*pair) for pair in (one, other))
        return self._same(a, b, given, depth + 1) or self._same(
            a, self._terms.neg(b), given, depth + 1
        )

    def _is_unwritten(self, space: str, place: Term, size: int) -> bool:
        for whose, begin, count in self.unwritten:
            if whose == space and begin.width == place.width:
                distance = self._terms.sub(place, begin)
                if distance.kind is op.CONST and distance.value <= count - size:
                    return True
        return False

    def _equated(self, a: Term, b: Term, given: tuple[Term, ...], depth: int) -> bool:
        """Are two values the same because two lanes' registers are, as a comparison has shown?"""
        x, y = self.simplifier.by_equations(a, given), self.simplifier.by_equations(b, given)
        changed = x is not a or y is not b
        return changed and self._same(x, y, given, depth + 1)

    def _unwrapped(self, a: Term, b: Term) -> bool:
        """Are two addresses the same if no signed sum in them overflows?"""
        if self._unwraps is None or a.size + b.size > MAX_SIZE:
            return False
        same = isinstance(assume_no_overflow(self._unwrapped_view, a, b), Same)
        if same:
            self._unwraps()
        return same

    def _case_by_case(self, a: Term, b: Term, given: tuple[Term, ...], depth: int) -> bool:
        """Compare a choice with something, in each of its cases that may come."""
        if a.kind is not op.ITE:
            a, b = b, a
        condition, yes, no = a.args
        for arm, case in ((yes, condition), (no, self._terms.not_(condition))):
            if arm is b:
                continue
            more = self.simplifier.settled(assumed(given, case, self._terms))
            if self.simplifier.facts(more).impossible or self._same(arm, b, more, depth + 1):
                continue
            # The arms differ, but the case may be one that never comes.
            if not self.prover.proved(self._terms.not_(case), given):
                return False
        return True

    def _in_cases(self, a: Term, b: Term, given: tuple[Term, ...], depth: int) -> bool:
        """Compare what is computed from a choice with something, in each of its cases."""
        if max(a.size, b.size) > MAX_SIZE or self._cases >= _MAX_CASES:
            return False
        condition = condition_within(a) or condition_within(b)
        if condition is None:
            return False
        self._cases += 1
        for case in (condition, self._terms.not_(condition)):
            more = self.simplifier.settled(assumed(given, case, self._terms))
            if self.simplifier.facts(more).impossible:
                continue
            x, y = self.simplifier.simplified(a, more), self.simplifier.simplified(b, more)
            if (x, y) == (a, b) or not self._same(x, y, more, depth + 1):
                return False
        return True

    def _split(self, a: Term, b: Term, given: tuple[Term, ...], depth: int) -> bool | None:
        """Compare a concatenation part by part; None where neither side is one, or the parts say
        nothing of the whole."""
        if b.kind is op.CONCAT and a.kind is not op.CONCAT:
            a, b = b, a
        if a.kind is not op.CONCAT:
            return None
        high, low = a.args
        return self._same(low, self._terms.extract(b, 0, low.width), given, depth + 1) and (
            self._same(high, self._terms.extract(b, low.width, high.width), given, depth + 1)
        )

    def _matched(self, a: Term, b: Term, given: tuple[Term, ...], depth: int) -> bool:
        """Are two sums, or two of another operation for which order does not count, the same but
        for some of their terms, and are these the same in twos?"""
        rest = unmatched(a, b)
        if rest is None:
            return False
        left, right = rest
        for x, factor in left:
            at = next(
                (
                    at
                    for at, (y, times) in enumerate(right)
                    if factor == times and self._same(x, y, given, depth + 1)
                ),
                None,
            )
            if at is None:
                return False
            del right[at]
        return True
