"""Terms as exclusive sums of bits: what is said to be equal is, and permuted addresses are told."""

from __future__ import annotations

from random import Random

import pytest

from ptxsw.facts.bit_sums import BitSums
from ptxsw.terms.evaluate import evaluate
from ptxsw.terms.node import Term, Variance
from ptxsw.terms.origin import Origin
from ptxsw.terms.terms import Terms

WIDTH = 32
ROW = 7  # zero bits of the array's address


class Scene:
    """An array `s` and an index `i`."""

    def __init__(self, zeros: int = ROW) -> None:
        self.terms = Terms()
        self.array = self.terms.atom("&s", 64, Variance.LANE, None, Origin.SYMBOL, ("s",))
        self.index = self.terms.atom("%tid.x", WIDTH, Variance.LANE)
        self.place = self.terms.extract(self.array, 0, WIDTH)
        self.zeros, self.sums = zeros, BitSums(self.terms, {self.array: zeros})

    def const(self, value: int) -> Term:
        return self.terms.const(value, WIDTH)

    def plus(self, a: Term, number: int) -> Term:
        return self.terms.add(a, self.const(number))

    def at(self, step: int) -> Term:
        """The array's element `i` of `step` bytes."""
        return self.terms.add(self.place, self.terms.scale(self.index, step))

    def permuted(self, place: Term, shift: int = 7, mask: int = 0x70) -> Term:
        terms, moved = self.terms, self.const(shift - (mask & -mask).bit_length() + 1)
        field = terms.and_(terms.lshr(place, moved), self.const(mask))
        return terms.xor(place, field)


@pytest.mark.parametrize("number", [4, 8, 12, 48, 60])
def test_a_number_below_all_bits(number: int) -> None:
    """π(x + 4) is π(x) with bits more, or π(x) + 4 where that carries nothing."""
    scene = Scene()
    inside = scene.permuted(scene.plus(scene.at(64), number))
    with_bits = scene.terms.xor(scene.permuted(scene.at(64)), scene.const(number))
    assert scene.sums.same(inside, with_bits)
    added = scene.plus(scene.permuted(scene.at(64)), number)
    assert scene.sums.same(inside, added) is (number < 16)


@pytest.mark.parametrize("number", [128, 256, 1024, 4096])
def test_a_number_above_the_row(number: int) -> None:
    """π(x + 128) as the field of x + 128 in x + 128 behind the permutation."""
    scene = Scene()
    terms, x = scene.terms, scene.at(256)
    whole = terms.zext(terms.extract(x, 5, 27), WIDTH)
    field = terms.extract(scene.plus(whole, number >> 5), 2, 5)
    moved = terms.xor(x, terms.scale(terms.zext(field, WIDTH), 4))
    inside = scene.permuted(scene.plus(x, number), 7, 0x7C)
    assert scene.sums.same(inside, scene.plus(moved, number))
    assert not scene.sums.same(inside, scene.plus(moved, number + 128))


def test_what_a_number_has_above_a_bit() -> None:
    """Two tiles of 4 KiB in one array: the field of x + 1024 is also that of x + 5120."""
    scene = Scene()
    terms, x = scene.terms, scene.at(4)

    def field(number: int) -> Term:
        return terms.and_(terms.lshr(scene.plus(x, number), scene.const(5)), scene.const(0x7C))

    far = terms.xor(scene.plus(x, 5120), field(5120))
    assert scene.sums.same(far, scene.plus(terms.xor(x, field(1024)), 5120))
    for number in (0, 2048, 3072):
        assert not scene.sums.same(far, scene.plus(terms.xor(x, field(number)), 5120))


@pytest.mark.parametrize(
    ("zeros", "step", "number"),
    [(ROW, 32, 36), (5, 64, 36), (ROW, 64, 64), (ROW, 4, 4), (0, 64, 4)],
)
def test_what_may_carry(zeros: int, step: int, number: int) -> None:
    """A bit of the number that the address may have, too; an array that is not aligned."""
    scene = Scene(zeros)
    inside = scene.permuted(scene.plus(scene.at(step), number))
    for other in (scene.terms.xor, scene.terms.add):
        behind = other(scene.permuted(scene.at(step)), scene.const(number))
        assert not scene.sums.same(inside, behind)


def test_equal_means_equal() -> None:
    """Random terms: where two have one sum they have one value, for any index and aligned array."""
    random, equal = Random(7), 0
    for _ in range(400):
        scene = Scene(random.choice([4, 7, 8]))
        pool = [scene.at(random.choice([4, 12, 16, 64, 256])), scene.place, scene.index]
        for _ in range(12):
            pool.append(_grown(scene, random, pool))
        groups: dict[object, list[Term]] = {}
        for term in pool:
            groups.setdefault((term.width, scene.sums._sum(term, 0)), []).append(term)
        for terms in groups.values():
            for one in dict.fromkeys(terms[1:]):
                equal += one is not terms[0]
                _hold_against(scene, random, one, terms[0])
        for term in pool:  # each sum by itself has the value of its term
            _hold_sum(scene, random, term)
    assert equal > 20


def _grown(scene: Scene, random: Random, pool: list[Term]) -> Term:
    terms, one, other = scene.terms, random.choice(pool), random.choice(pool)
    number = random.choice([1, 4, 8, 12, 16, 20, 32, 64, 96, 128, 132, 256, -4, -128])
    match random.randrange(7):
        case 0:
            return scene.plus(one, number)
        case 1:
            return terms.xor(one, scene.const(abs(number)))
        case 2:
            low, width = random.randrange(12), random.randrange(3, 20)
            return terms.zext(terms.extract(one, low, width), WIDTH)
        case 3:
            return terms.scale(one, random.choice([2, 4, 16, 3]))
        case 4:
            return terms.xor(one, other)
        case 5:
            return terms.add(one, other)
        case _:
            return scene.permuted(one)


def _values(scene: Scene, random: Random) -> dict[Term, int]:
    array = random.getrandbits(random.choice([16, 64])) >> scene.zeros << scene.zeros
    return {scene.array: array, scene.index: random.getrandbits(random.choice([4, 10, 32]))}


def _hold_against(scene: Scene, random: Random, one: Term, other: Term) -> None:
    for _ in range(20):
        values = _values(scene, random)
        assert evaluate(one, values) == evaluate(other, values), (one, other, values)


def _hold_sum(scene: Scene, random: Random, term: Term) -> None:
    number, bits = scene.sums._sum(term, 0)
    for _ in range(4):
        values = _values(scene, random)
        total = number
        for leaf, bit, at in bits:
            total ^= (evaluate(leaf, values) >> bit & 1) << at
        assert total == evaluate(term, values), (term, values)
