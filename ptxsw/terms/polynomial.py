"""Polynomials over the atoms of terms, as frozen values.

Nothing here knows of terms' meaning: an atom is a name for a whole number. How terms are read as
polynomials stands in `readings`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from math import gcd, lcm

from msgspec import Struct

from ptxsw.terms.node import Term

Monomial = tuple[Term, ...]  # its factors in the order of their ids; the empty one is 1
Items = tuple[tuple[Monomial, int], ...]


class Polynomial(Struct, frozen=True, dict=True):
    """`Σ coefficient · monomial / denominator`: without zeros, in the order of the monomials, and
    in lowest terms. Few have a denominator: whoever asks for coefficients must know that his have
    none, or ask whether it `is_whole`."""

    items: Items = ()
    denominator: int = 1

    @staticmethod
    def of(items: Iterable[tuple[Monomial, int]], denominator: int = 1) -> Polynomial:
        """The sum of some monomials, of which several may be the same."""
        total: dict[Monomial, int] = {}
        for monomial, coefficient in items:
            ordered = monomial if len(monomial) < 2 else tuple(sorted(monomial, key=_id))
            total[ordered] = total.get(ordered, 0) + coefficient
        return _reduced(total, denominator)

    @staticmethod
    def constant(value: int) -> Polynomial:
        return Polynomial((((), value),)) if value else Polynomial()

    @staticmethod
    def atom(term: Term) -> Polynomial:
        return Polynomial((((term,), 1),))

    @staticmethod
    def sum(parts: Iterable[tuple[Polynomial, int]]) -> Polynomial:
        """The sum of some polynomials, each with a factor."""
        scaled = list(parts)
        denominator = lcm(*[part.denominator for part, _ in scaled])
        total: dict[Monomial, int] = {}
        for part, factor in scaled:
            times = factor * (denominator // part.denominator)
            for monomial, coefficient in part.items:
                total[monomial] = total.get(monomial, 0) + coefficient * times
        return _reduced(total, denominator)

    def __add__(self, other: Polynomial | int) -> Polynomial:
        more = other if isinstance(other, Polynomial) else Polynomial.constant(other)
        if not (self.items and more.items):
            return self if self.items else more
        return Polynomial.sum(((self, 1), (more, 1)))

    def __sub__(self, other: Polynomial | int) -> Polynomial:
        less = other if isinstance(other, Polynomial) else Polynomial.constant(other)
        return Polynomial.sum(((self, 1), (less, -1)))

    def __mul__(self, other: Polynomial | int) -> Polynomial:
        if not isinstance(other, Polynomial):
            return Polynomial.sum(((self, other),))
        products = ((m + n, a * b) for m, a in self.items for n, b in other.items)
        return Polynomial.of(products, self.denominator * other.denominator)

    def __truediv__(self, number: int) -> Polynomial:
        """Divided by a number that is not 0."""
        sign = -1 if number < 0 else 1
        scaled = {monomial: sign * coefficient for monomial, coefficient in self.items}
        return _reduced(scaled, self.denominator * abs(number))

    def __iter__(self) -> Iterator[tuple[Monomial, int]]:
        """Monomials with coefficients: those of the polynomial times its denominator."""
        return iter(self.items)

    @cached_property
    def coefficients(self) -> Mapping[Monomial, int]:
        """Those of the polynomial times its denominator, by monomial."""
        return dict(self.items)

    @property
    def offset(self) -> int:
        """The constant, times the denominator."""
        return 0 if not self.items or self.items[0][0] else self.items[0][1]

    @property
    def varying(self) -> frozenset[tuple[Monomial, int]]:
        """All but the constant, times the denominator."""
        return frozenset(item for item in self.items if item[0])

    @property
    def number(self) -> int | None:
        """The whole number that this is; None where it is none."""
        fixed = self.denominator == 1 and not any(monomial for monomial, _ in self.items)
        return self.offset if fixed else None

    @property
    def is_whole(self) -> bool:
        """Are all coefficients whole numbers?"""
        return self.denominator == 1

    @cached_property
    def atoms(self) -> frozenset[Term]:
        return frozenset(atom for monomial, _ in self.items for atom in monomial)

    def parted(self, atom: Term) -> tuple[Polynomial, Polynomial] | None:
        """`factor` and `rest` of `factor · atom + rest`; None where the atom has a power."""
        factor: dict[Monomial, int] = {}
        rest: dict[Monomial, int] = {}
        for monomial, coefficient in self.items:
            without = tuple([other for other in monomial if other is not atom])
            if len(without) < len(monomial) - 1:
                return None
            (rest if len(without) == len(monomial) else factor)[without] = coefficient
        return _reduced(factor, self.denominator), _reduced(rest, self.denominator)

    def span(self, limits: Callable[[Term], tuple[int, int]]) -> tuple[int, int]:
        """Bounds of the value, as whole numbers, where each atom lies between two numbers."""
        low = high = 0
        for monomial, coefficient in self.items:
            least = most = coefficient
            for atom in monomial:
                a, b = limits(atom)
                if a >= 0:  # as mostly: only one end counts on each side
                    least, most = least * (a if least >= 0 else b), most * (b if most >= 0 else a)
                else:
                    ends = least * a, least * b, most * a, most * b
                    least, most = min(ends), max(ends)
            low, high = low + least, high + most
        return low // self.denominator, -(-high // self.denominator)


def _id(term: Term) -> int:
    return term.id


def _ids(item: tuple[Monomial, int]) -> tuple[int, ...]:
    return tuple([term.id for term in item[0]])


def _reduced(total: Mapping[Monomial, int], denominator: int) -> Polynomial:
    """A polynomial in its normal form."""
    items = [item for item in total.items() if item[1]]
    if len(items) > 1:
        items.sort(key=_ids)
    if denominator != 1:
        shared = gcd(denominator, *(coefficient for _, coefficient in items))
        items = [(monomial, coefficient // shared) for monomial, coefficient in items]
        denominator //= shared
    return Polynomial(tuple(items), denominator)
