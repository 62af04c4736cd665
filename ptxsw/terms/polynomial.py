"""Polynomials with rational coefficients over the atoms of terms, as frozen values.

Unlike `emulator.affine`, which reads a term and guesses, nothing here knows of terms' meaning: an
atom is a name for a whole number that is not negative.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from ptxsw.terms.node import Term

if TYPE_CHECKING:
    from fractions import Fraction

Number: TypeAlias = "int | Fraction"
Monomial = tuple[Term, ...]  # its factors in the order of their ids; the empty one is 1


def reciprocal(number: Number) -> Fraction:
    """1 / number. Few kernels need it, and to import fractions takes longer than to read most."""
    from fractions import Fraction

    return Fraction(1) / number  # a plain `/` of two ints would be a float


class Polynomial(Struct, frozen=True, dict=True):
    """`Σ coefficient · monomial`, without zeros, in the order of the monomials."""

    items: tuple[tuple[Monomial, Number], ...] = ()

    @staticmethod
    def of(items: Iterable[tuple[Monomial, Number]]) -> Polynomial:
        """The sum of some monomials, of which several may be the same."""
        total: dict[Monomial, Number] = {}
        for monomial, coefficient in items:
            ordered = monomial if len(monomial) < 2 else tuple(sorted(monomial, key=_id))
            total[ordered] = total.get(ordered, 0) + coefficient
        return Polynomial(_in_order(total))

    @staticmethod
    def constant(value: Number) -> Polynomial:
        return Polynomial((((), _whole(value)),)) if value else Polynomial()

    @staticmethod
    def atom(term: Term) -> Polynomial:
        return Polynomial((((term,), 1),))

    def __add__(self, other: Polynomial | int) -> Polynomial:
        more = other if isinstance(other, Polynomial) else Polynomial.constant(other)
        if not (self.items and more.items):
            return self if self.items else more
        total = dict(self.items)
        for monomial, coefficient in more.items:
            total[monomial] = total.get(monomial, 0) + coefficient
        return Polynomial(_in_order(total))

    def __sub__(self, other: Polynomial | int) -> Polynomial:
        less = other if isinstance(other, Polynomial) else Polynomial.constant(other)
        total = dict(self.items)
        for monomial, coefficient in less.items:
            total[monomial] = total.get(monomial, 0) - coefficient
        return Polynomial(_in_order(total))

    def __mul__(self, other: Polynomial | Number) -> Polynomial:
        if not isinstance(other, Polynomial):
            scaled = tuple((m, _whole(c * other)) for m, c in self.items) if other else ()
            return Polynomial(scaled)
        return Polynomial.of((m + n, a * b) for m, a in self.items for n, b in other.items)

    def __iter__(self) -> Iterator[tuple[Monomial, Number]]:
        return iter(self.items)

    @cached_property
    def atoms(self) -> frozenset[Term]:
        return frozenset(atom for monomial, _ in self.items for atom in monomial)

    @property
    def is_whole(self) -> bool:
        """Are all coefficients whole numbers?"""
        return all(coefficient.denominator == 1 for _, coefficient in self.items)

    def parted(self, atom: Term) -> tuple[Polynomial, Polynomial] | None:
        """`factor` and `rest` of `factor · atom + rest`; None where the atom has a power."""
        factor: list[tuple[Monomial, Number]] = []
        rest: list[tuple[Monomial, Number]] = []
        for monomial, coefficient in self.items:
            if atom not in monomial:
                rest.append((monomial, coefficient))
                continue
            without = tuple(other for other in monomial if other is not atom)
            if len(without) < len(monomial) - 1:
                return None
            factor.append((without, coefficient))
        return Polynomial.of(factor), Polynomial.of(rest)

    def span(self, ranges: Mapping[Term, tuple[int, int]]) -> tuple[Number, Number]:
        """Bounds of the value, where each atom has its range of numbers, none negative."""
        low: Number = 0
        high: Number = 0
        for monomial, coefficient in self.items:
            least = most = 1
            for atom in monomial:
                least, most = least * ranges[atom][0], most * ranges[atom][1]
            # No atom is negative, so a monomial is least and most where all its atoms are.
            ends = coefficient * least, coefficient * most
            low, high = low + min(ends), high + max(ends)
        return low, high


def _id(term: Term) -> int:
    return term.id


def _ids(item: tuple[Monomial, Number]) -> tuple[int, ...]:
    return tuple(map(_id, item[0]))


def _whole(value: Number) -> Number:
    """A number as `int` where it is one."""
    return value if value.denominator > 1 else int(value)


def _in_order(total: Mapping[Monomial, Number]) -> tuple[tuple[Monomial, Number], ...]:
    return tuple(sorted(((m, _whole(c)) for m, c in total.items() if c), key=_ids))
