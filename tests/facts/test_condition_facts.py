"""What conditions tell without a solver is true, for every value of small terms."""

from __future__ import annotations

from random import Random

import pytest

from ptxsw.facts.condition_facts import ConditionFacts, WrappedRange
from ptxsw.facts.extensions import vanishes
from ptxsw.terms import op
from ptxsw.terms.node import Term, Variance
from ptxsw.terms.substitution import substitute
from ptxsw.terms.terms import Terms

WIDTH = 4
ALL = frozenset(range(1 << WIDTH))


def numbers(found: WrappedRange) -> frozenset[int]:
    return frozenset((found.low + at) % (1 << WIDTH) for at in range(found.count))


def test_ranges_are_sets_of_numbers() -> None:
    ranges = [WrappedRange(low, count, WIDTH) for low in range(0, 16, 3) for count in range(1, 17)]
    for a in ranges:
        assert numbers(a.others()) == ALL - numbers(a)
        assert numbers(a.mirrored()) == {-x % 16 for x in numbers(a)}
        for b in ranges:
            assert a.within(b) == (numbers(a) <= numbers(b))
            both = numbers(a.both(b))
            assert numbers(a) & numbers(b) <= both
            assert both <= numbers(a) or both <= numbers(b)


class Random4:
    """Random conditions on two unknowns of four bits."""

    def __init__(self, seed: int) -> None:
        self.terms, self.random = Terms(), Random(seed)
        self.x, self.y = (self.terms.atom(n, WIDTH, Variance.LANE) for n in "xy")

    def comparison(self) -> Term:
        terms, pick = self.terms, self.random.choice
        sums = self.x, self.y, terms.add(self.x, self.y), terms.sub(self.x, self.y)
        number = terms.const(self.random.randrange(16), WIDTH)
        value = pick((*sums, terms.sub(number, self.x)))
        value = terms.add(value, terms.const(pick((0, 0, 1, 7, 15)), WIDTH))
        sides = (value, terms.const(self.random.randrange(16), WIDTH))
        made = getattr(terms, pick(("ult", "ule", "slt", "sle", "eq")))
        condition: Term = made(*(sides if self.random.random() < 0.5 else reversed(sides)))
        return terms.not_(condition) if self.random.random() < 0.4 else condition

    def condition(self, depth: int = 0) -> Term:
        if depth > 2 or self.random.random() < 0.4:
            return self.comparison()
        join = self.random.choice((self.terms.and_, self.terms.or_))
        joined = join(self.condition(depth + 1), self.condition(depth + 1))
        return self.terms.not_(joined) if self.random.random() < 0.3 else joined

    def holds(self, term: Term, x: int, y: int) -> bool:
        atoms = {self.x: self.terms.const(x, WIDTH), self.y: self.terms.const(y, WIDTH)}
        value = substitute(self.terms, term, atoms.get)
        assert value.kind is op.CONST
        return bool(value.value)


@pytest.mark.parametrize("seed", range(2))
def test_what_is_told_is_true(seed: int) -> None:
    made = Random4(seed)
    told = impossible = 0
    for _ in range(60):
        given = [made.condition() for _ in range(made.random.randrange(5))]
        known = ConditionFacts(made.terms, given)
        values = [(x, y) for x in ALL for y in ALL if all(made.holds(c, x, y) for c in given)]
        if known.impossible:
            assert not values
            impossible += 1
            continue
        for _ in range(4):
            asked = made.condition()
            answer = known.truth(asked)
            if answer is not None:
                told += 1
                assert all(made.holds(asked, x, y) == answer for x, y in values)
    assert told > 20 and impossible > 2


@pytest.mark.parametrize("seed", range(2))
def test_what_is_learned_in_steps_is_true(seed: int) -> None:
    made = Random4(seed)
    told = impossible = later = 0
    for _ in range(60):
        given = [made.condition() for _ in range(made.random.randrange(2, 6))]
        at = made.random.randrange(len(given))
        before = ConditionFacts(made.terms, given[:at])
        asked = [made.condition() for _ in range(4)]
        answers = [before.truth(condition) for condition in asked]
        known = ConditionFacts(made.terms, given[at:], before)
        values = [(x, y) for x in ALL for y in ALL if all(made.holds(c, x, y) for c in given)]
        if known.impossible:
            assert not values
            impossible += 1
            continue
        for condition, answer in zip(asked, answers, strict=True):
            now = known.truth(condition)
            if now is not None:
                told += 1
                later += answer is None
                assert all(made.holds(condition, x, y) == now for x, y in values)
    assert told > 20 and impossible > 2 and later > 5


def test_a_choice_is_made_by_what_is_learned_later() -> None:
    terms = Terms()
    p, q, r = (terms.atom(name, 1, Variance.LANE) for name in "pqr")
    index = terms.atom("i", 32, Variance.LANE)
    small = terms.ult(index, terms.const(4, 32))
    first = ConditionFacts(terms, [terms.or_(p, small), terms.or_(terms.not_(small), r)])
    second = ConditionFacts(terms, [q], first)
    assert [second.truth(c) for c in (p, q, small, r)] == [None, True, None, None]
    third = ConditionFacts(terms, [terms.not_(p)], second)
    assert [third.truth(c) for c in (p, q, small, r)] == [False, True, True, True]
    fourth = ConditionFacts(terms, [terms.eq(index, terms.const(4, 32))], second)
    assert [fourth.truth(c) for c in (p, small, r)] == [True, False, None]
    assert ConditionFacts(terms, [terms.not_(r)], third).impossible
    assert second.truth(p) is None and not second.impossible  # as it was


def test_parts_and_ranges() -> None:
    terms = Terms()
    i, p, q = (terms.atom(n, w, Variance.LANE) for n, w in (("i", 32), ("p", 1), ("q", 1)))

    def number(value: int) -> Term:
        return terms.const(value, 32)

    known = ConditionFacts(
        terms,
        [
            terms.not_(terms.or_(p, q)),
            terms.ult(i, number(30)),
            terms.or_(p, terms.ule(number(1), i)),
        ],
    )
    assert known.truth(p) is False
    assert known.truth(terms.ult(terms.sub(i, number(1)), number(30))) is True
    assert known.truth(terms.slt(i, number(0))) is False
    assert known.truth(terms.ult(i, number(20))) is None
    assert ConditionFacts(terms, [terms.ult(i, number(2)), terms.ult(number(2), i)]).impossible


def test_a_bitwise_or_that_is_zero_tells_of_both_sides() -> None:
    """As where several pointers are tested at once to be multiples of 16."""
    terms = Terms()
    x, y = (terms.extract(terms.atom(n, 64, Variance.UNIFORM), 0, WIDTH) for n in "xy")
    both = terms.or_(terms.zext(x, 32), terms.zext(y, 32))
    known = ConditionFacts(terms, [terms.eq(both, terms.const(0, 32))])
    for each in (x, y):
        assert known.truth(terms.eq(each, terms.const(0, WIDTH)))
    assert known.truth(terms.eq(terms.add(x, y), terms.const(0, WIDTH))) is None
    other = ConditionFacts(terms, [terms.eq(both, terms.const(3, 32))])
    assert other.truth(terms.eq(x, terms.const(0, WIDTH))) is None


def test_spans_and_the_sums_that_they_allow() -> None:
    """`sext(i + j + c)` is `sext(i) + zext(j) + c` as far as the ranges of both reach."""
    terms = Terms()
    i, j = (terms.atom(name, 32, Variance.LANE) for name in "ij")
    half = 1 << 31

    def known(low: int, high: int) -> ConditionFacts:
        least = terms.sle(terms.const(low, 32), i)
        most = terms.sle(i, terms.const(high, 32))
        return ConditionFacts(terms, [least, most, terms.ult(j, terms.const(100, 32))])

    def equal(kind: str, low: int, high: int, c: int) -> bool:
        extend = terms.sext if kind == "s" else terms.zext
        whole = extend(terms.sum(32, c, [(i, 1), (j, 1)]), 64)
        parts = terms.add(terms.sext(i, 64), terms.zext(j, 64))
        difference = terms.sub(whole, terms.add(parts, terms.const(c, 64)))
        told = known(low, high)
        return vanishes(terms, terms.scale(difference, 4), lambda need: False, told.span)

    told = known(-5, 7)
    assert told.span(terms.sext(i, 64)) == (-5, 7)
    assert told.span(terms.sext(terms.neg(i), 64)) == (-7, 5)
    assert told.span(terms.zext(j, 64)) == told.span(terms.sext(j, 64)) == (0, 99)
    assert told.span(terms.zext(i, 64)) is None
    assert ConditionFacts(terms, []).span(terms.sext(i, 64)) is None
    assert equal("s", -5, 7, 3)
    assert equal("s", -half + 1, half - 100, 0) and not equal("s", -half + 1, half - 99, 0)
    assert equal("s", -half + 3, -half + 8, -3) and not equal("s", -half + 2, -half + 8, -3)
    assert equal("u", -3, 7, 3) and not equal("u", -4, 7, 3)
    double = terms.sext(terms.sum(32, 1, [(i, -1), (j, 2)]), 64)
    parts = terms.sub(terms.scale(terms.zext(j, 64), 2), terms.sext(i, 64))
    difference = terms.sub(double, terms.add(parts, terms.const(1, 64)))
    for low, zero in ((-half + 199, False), (-half + 200, True)):
        told = known(low, half - 1)
        assert vanishes(terms, difference, lambda need: False, told.span) is zero


def test_bits_of_a_number_that_is_known() -> None:
    """A block of 256 threads a row has rows of whole warps."""
    terms = Terms()
    row = terms.atom("%ntid.x", 32, Variance.UNIFORM)
    low = terms.extract(row, 0, 5)
    whole = terms.eq(low, terms.const(0, 5))
    for threads, truth in ((256, True), (48, False)):
        known = ConditionFacts(terms, [terms.eq(row, terms.const(threads, 32))])
        assert known.truth(whole) is truth
        assert known.truth(terms.or_(whole, terms.atom("p", 1, Variance.UNIFORM))) is (
            truth or None
        )
    more = terms.add(row, terms.const(3, 32))
    known = ConditionFacts(terms, [terms.eq(row, terms.const(256, 32))])
    assert known.truth(terms.eq(terms.extract(more, 0, 5), terms.const(3, 5))) is True
    at_most = ConditionFacts(terms, [terms.ule(row, terms.const(256, 32))])
    assert at_most.truth(whole) is None
    # What is learned later decides what was open before.
    later = ConditionFacts(
        terms,
        [terms.eq(row, terms.const(256, 32))],
        ConditionFacts(terms, [terms.or_(terms.not_(whole), terms.atom("q", 1, Variance.UNIFORM))]),
    )
    assert later.truth(terms.atom("q", 1, Variance.UNIFORM)) is True
