"""Bounds hold for every value of small unknowns, and are as close as kernels need them."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from ptxsw.facts.number_bounds import Bounds
from ptxsw.ptx.bits import wrapped
from ptxsw.terms.evaluate import evaluate
from ptxsw.terms.node import Term, Variance
from ptxsw.terms.terms import Terms

WIDTH = 4
_OPERATIONS = (
    "mul", "udiv", "urem", "sdiv", "srem", "and_", "or_", "xor", "shl", "lshr", "ashr",
)  # fmt: skip


class RandomValues:
    """Random values and conditions on two unknowns of four bits."""

    def __init__(self, seed: int) -> None:
        self.terms, self.random = Terms(), Random(seed)
        self.x, self.y = (self.terms.atom(n, WIDTH, Variance.LANE) for n in "xy")

    def value(self, depth: int = 3) -> Term:
        terms, pick = self.terms, self.random.choice
        if depth == 0:
            number = terms.const(self.random.randrange(16), WIDTH)
            return pick((self.x, self.y, number))
        a, b = self.value(depth - 1), self.value(depth - 1)
        match pick(("sum", "sum", "scaled", "wide", "sext", "high", "low", "choice", "op", "op")):
            case "sum":
                return terms.add(a, b)
            case "scaled":
                return terms.scale(a, self.random.randrange(16))
            case "wide":
                return terms.extract(terms.zext(a, 2 * WIDTH), self.random.randrange(3), WIDTH)
            case "sext":
                return terms.extract(terms.sext(a, 2 * WIDTH), self.random.randrange(3), WIDTH)
            case "high":
                return terms.zext(terms.extract(a, 1, 2), WIDTH)
            case "low":
                low = terms.zext(terms.extract(a, 0, 2), WIDTH)
                scaled = terms.scale(low, self.random.randrange(16))
                return terms.add(terms.scale(a, self.random.randrange(16)), scaled)
            case "choice":
                return terms.ite(self.condition(depth - 1), a, b)
        made: Term = getattr(terms, pick(_OPERATIONS))(a, b)
        return made

    def condition(self, depth: int = 1) -> Term:
        sides = self.value(depth), self.value(depth - 1 if depth else 0)
        made: Term = getattr(self.terms, self.random.choice(("ult", "ule", "slt", "sle", "eq")))(
            *(sides if self.random.random() < 0.5 else sides[::-1])
        )
        return self.terms.not_(made) if self.random.random() < 0.3 else made


@pytest.mark.parametrize("seed", range(400))
def test_no_value_lies_outside(seed: int) -> None:
    made = RandomValues(seed)
    given = [made.condition() for _ in range(made.random.randrange(4))]
    limits = {made.x: (made.random.randrange(4), 15 - made.random.randrange(4))}
    bounds = Bounds(made.terms, given, limits.get)
    values = [made.value() for _ in range(4)]
    found = [(bounds.unsigned(v), bounds.signed(v)) for v in values]
    asked = [(condition, bounds.truth(condition)) for condition in map(made.condition, range(3))]
    low, high = limits[made.x]
    for x, y in product(range(low, high + 1), range(16)):
        at = {made.x: x, made.y: y}
        if all(evaluate(condition, at) for condition in given):
            for value, (unsigned, signed) in zip(values, found, strict=True):
                number = int(evaluate(value, at))
                assert unsigned[0] <= number <= unsigned[1]
                assert signed[0] <= wrapped(number, value.width) <= signed[1]
            assert all(told in (None, bool(evaluate(each, at))) for each, told in asked)


class Kernel:
    """Unknowns of a kernel with blocks of 64 threads."""

    def __init__(self) -> None:
        self.terms = Terms()
        self.tid = self.terms.special("%tid.x")
        self.n = self.terms.atom("n", 32, Variance.UNIFORM)
        self.count = self.terms.iteration("L")

    def limits(self, term: Term) -> tuple[int, int] | None:
        return {self.tid: (0, 63), self.count: (0, 7)}.get(term)

    def bounds(self, *given: Term) -> Bounds:
        return Bounds(self.terms, given, self.limits)

    def number(self, value: int) -> Term:
        return self.terms.const(value, 32)


def test_a_comparison_bounds_multiples_of_what_it_compares() -> None:
    kernel = Kernel()
    terms = kernel.terms
    along = terms.extract(kernel.count, 0, 32)
    index = terms.add(kernel.tid, terms.scale(along, 128))
    bounds = kernel.bounds(terms.slt(index, kernel.number(512)))
    assert bounds.signed(index) == (0, 447)
    assert bounds.unsigned(terms.scale(index, 4)) == (0, 1788)
    beyond = terms.add(terms.scale(index, 4), terms.scale(kernel.tid, 8))
    assert bounds.unsigned(beyond) == (0, 1788 + 8 * 63)


def test_an_index_that_may_wrap_has_no_bound() -> None:
    kernel = Kernel()
    terms = kernel.terms
    assert kernel.bounds().unsigned(terms.add(kernel.n, kernel.tid)) == (0, (1 << 32) - 1)
    below = terms.slt(kernel.n, kernel.number(10))
    assert kernel.bounds(below).signed(kernel.n) == (-(1 << 31), 9)
    assert kernel.bounds(below).unsigned(kernel.n) == (0, (1 << 32) - 1)


def test_parts_of_a_sum_are_bounded_by_it() -> None:
    kernel = Kernel()
    terms = kernel.terms
    distance = terms.and_(kernel.n, kernel.number(31))
    both = terms.add(kernel.tid, distance)
    bounds = kernel.bounds(terms.ult(both, kernel.number(40)))
    assert bounds.unsigned(kernel.tid) == (0, 39)
    assert bounds.unsigned(distance) == (0, 31)


def test_a_clamped_index_stays_in_its_row() -> None:
    kernel = Kernel()
    terms = kernel.terms
    zero, last = kernel.number(0), kernel.number(99)
    low = terms.ite(terms.slt(zero, kernel.n), kernel.n, zero)
    clamped = terms.ite(terms.slt(low, last), low, last)
    assert kernel.bounds().signed(clamped) == (0, 99)


def test_conditions_that_contradict_each_other_bound_nothing_wrongly() -> None:
    kernel = Kernel()
    terms = kernel.terms
    never = terms.ult(kernel.tid, kernel.number(5)), terms.ult(kernel.number(9), kernel.tid)
    low, high = kernel.bounds(*never).unsigned(kernel.tid)
    assert low <= high


def test_low_bits_are_known_to_be_of_the_value_beside_them() -> None:
    kernel = Kernel()
    terms = kernel.terms
    low = terms.zext(terms.extract(kernel.tid, 0, 5), 32)
    place = terms.sub(terms.scale(kernel.tid, 8), terms.scale(low, 4))
    assert kernel.bounds().unsigned(place) == (0, 8 * 32 + 4 * 31)
