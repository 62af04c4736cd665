"""Terms read as polynomials over the integers, as if nothing ever wrapped.

The reading is a guess: `sext(x + 1)` and `sext(x) + 1` get the same polynomial although they
differ where `x + 1` overflows. It finds what may be equal; the prover decides what is.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ptxsw.ptx.bits import wrapped
from ptxsw.terms import op
from ptxsw.terms.node import Term, bottom_up, signed, split

Monomial = tuple[Term, ...]
Polynomial = Mapping[Monomial, int]  # the empty monomial holds the constant

MAX_MONOMIALS = 256
"""Of a polynomial; what has more counts as one unknown."""
_MAX_PRODUCTS = 1024  # of monomials in one multiplication
_LANE_ATOMS = ("%tid.x", "%laneid")


class Affine:
    """Polynomials of terms, remembered by term."""

    def __init__(self) -> None:
        self._memo: dict[Term, Polynomial] = {}

    def polynomial(self, term: Term) -> Polynomial:
        """The integer polynomial of a term over its atoms; coefficients are read as signed."""
        polynomial = self._memo.get(term)
        if polynomial is None:
            for node in bottom_up(self._memo, _read_further, term):
                self._memo[node] = MappingProxyType(self._read(node))
            polynomial = self._memo[term]
        return polynomial

    def _read(self, term: Term) -> dict[Monomial, int]:
        match term.kind:
            case op.CONST:
                return {(): signed(term)} if term.value else {}
            case op.SUM:
                constant, items = split(term)
                total: dict[Monomial, int] = {}
                _accumulate(total, {(): 1}, wrapped(constant, term.width))
                for atom, coefficient in items:
                    _accumulate(total, self._part(atom), wrapped(coefficient, term.width))
                return total if len(total) <= MAX_MONOMIALS else {(term,): 1}
            case op.MUL:
                product: dict[Monomial, int] = {(): 1}
                for factor in term.args:
                    other = self._part(factor)
                    if len(product) * len(other) > _MAX_PRODUCTS:
                        return {(term,): 1}
                    product = _multiply(product, other)
                    if len(product) > MAX_MONOMIALS:
                        return {(term,): 1}
                return product
            case _ if _read_parts(term):
                return dict(self._part(term.args[0]))
            case _:
                return {(term,): 1}

    def _part(self, term: Term) -> Polynomial:
        """That of a part of a term: most are atoms, of which nothing is remembered."""
        polynomial = self._memo.get(term)
        return self._read(term) if polynomial is None else polynomial

    def lane_step(self, term: Term) -> Polynomial | None:
        """What the term grows by from one lane to the next in a row: the polynomial's
        difference. None where another atom varies over the lanes or the growth is not linear."""
        step: dict[Monomial, int] = {}
        for monomial, coefficient in self.polynomial(term).items():
            lanes = [t for t in monomial if is_lane_atom(t)]
            if any(t.variance > 1 and not is_lane_atom(t) for t in monomial) or len(lanes) > 1:
                return None
            if lanes:
                rest = tuple(t for t in monomial if not is_lane_atom(t))
                _accumulate(step, {rest: 1}, coefficient)
        return step


def _read_parts(term: Term) -> tuple[Term, ...]:
    """The terms of whose polynomials that of a term is made."""
    low = term.kind is op.EXTRACT and term.value == 0 and term.width >= 16
    return term.args if low or term.kind in op.POLYNOMIAL else ()


def _read_further(term: Term) -> list[Term]:
    """Those of them that are made of others in turn."""
    return [part for part in _read_parts(term) if _read_parts(part)]


def is_lane_atom(term: Term) -> bool:
    """Does the atom grow by one from lane to lane in a row of the block?"""
    return term.kind is op.ATOM and term.value in _LANE_ATOMS


def constant(polynomial: Polynomial) -> int | None:
    """The value of a constant polynomial, None for any other."""
    if not polynomial:
        return 0
    return polynomial[()] if len(polynomial) == 1 and () in polynomial else None


def without_constant(polynomial: Polynomial) -> frozenset[tuple[Monomial, int]]:
    """What makes the class of an address: everything but the constant, hashable."""
    return frozenset(item for item in polynomial.items() if item[0])


def _accumulate(total: dict[Monomial, int], more: Polynomial, factor: int) -> None:
    for monomial, coefficient in more.items():
        new = total.get(monomial, 0) + coefficient * factor
        if new:
            total[monomial] = new
        else:
            total.pop(monomial, None)


def _multiply(a: Polynomial, b: Polynomial) -> dict[Monomial, int]:
    product: dict[Monomial, int] = {}
    for left, x in a.items():
        shifted = {tuple(sorted(left + right, key=_id)): y for right, y in b.items()}
        _accumulate(product, shifted, x)
    return product


def _id(term: Term) -> int:
    return term.id
