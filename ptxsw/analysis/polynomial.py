"""Polynomials with rational coefficients over the atoms of terms, as frozen values.

Unlike `emulator.affine`, which reads a term and guesses, nothing here knows of terms' meaning: an
atom is a name for a whole number that is not negative.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from functools import cached_property

from msgspec import Struct

from ptxsw.emulator.node import Term

Number = int | Fraction
Monomial = tuple[Term, ...]  # its factors in the order of their ids; the empty one is 1


class Polynomial(Struct, frozen=True, dict=True):
    """`Σ coefficient · monomial`, without zeros, in the order of the monomials."""

    items: tuple[tuple[Monomial, Number], ...] = ()

    @staticmethod
    def of(items: Iterable[tuple[Monomial, Number]]) -> Polynomial:
        """The sum of some monomials, of which several may be the same."""
        total: dict[Monomial, Number] = {}
        for monomial, coefficient in items:
            ordered = tuple(sorted(monomial, key=_id))
            total[ordered] = total.get(ordered, 0) + coefficient
        kept = [(m, c if c.denominator > 1 else int(c)) for m, c in total.items() if c]
        return Polynomial(tuple(sorted(kept, key=lambda item: tuple(map(_id, item[0])))))

    @staticmethod
    def constant(value: Number) -> Polynomial:
        return Polynomial.of([((), value)])

    @staticmethod
    def atom(term: Term) -> Polynomial:
        return Polynomial.of([((term,), 1)])

    def __add__(self, other: Polynomial | int) -> Polynomial:
        more = other if isinstance(other, Polynomial) else Polynomial.constant(other)
        return Polynomial.of((*self.items, *more.items))

    def __sub__(self, other: Polynomial | int) -> Polynomial:
        return self + other * -1

    def __mul__(self, other: Polynomial | Number) -> Polynomial:
        more = other if isinstance(other, Polynomial) else Polynomial.constant(other)
        return Polynomial.of((m + n, a * b) for m, a in self.items for n, b in more.items)

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
            ends = coefficient * least, coefficient * most
            low, high = low + min(ends), high + max(ends)
        return low, high


def _id(term: Term) -> int:
    return term.id
