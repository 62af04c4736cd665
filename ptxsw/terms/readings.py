"""Terms read as polynomials over whole numbers. There are two ways, and they have to differ.

`modulo` is exact: the polynomial is equal to the term modulo 2^width. What stands in an extension
is a number of its own there: whether `sext(x + 1)` is `sext(x) + 1` is a question of facts, and the
modules of `facts` that read terms so (`ranges`, `grid_facts`, `integer_facts`) answer it, each from
what it knows.

`UnwrappedReading` is a guess: nothing ever wraps, `sext(x + 1)` and `sext(x) + 1` get the same
polynomial. It finds what may be equal, and describes addresses; the prover decides what is.
"""

from __future__ import annotations

from collections.abc import Callable

from ptxsw.ptx.bits import wrapped
from ptxsw.terms import op
from ptxsw.terms.node import Term, bottom_up, split
from ptxsw.terms.polynomial import Polynomial

MAX_MONOMIALS = 256
"""Of a polynomial that is read off a term; what has more counts as one unknown."""
_LANE_ATOMS = ("%tid.x", "%laneid")


def modulo(term: Term, read: Callable[[Term], Polynomial]) -> Polynomial | None:
    """A polynomial equal to a number, sum or product modulo 2^width, its parts as `read` has them;
    None for any other term, and for what is too long."""
    result: Polynomial | None = None
    match term.kind:
        case op.CONST | op.SUM:
            constant, items = split(term)
            parts = [(read(part), wrapped(factor, term.width)) for part, factor in items]
            parts.append((Polynomial.constant(wrapped(constant, term.width)), 1))
            result = Polynomial.sum(parts)
        case op.MUL:
            result = Polynomial.constant(1)
            for part in term.args:
                factor = read(part)
                if len(result.items) * len(factor.items) > 4 * MAX_MONOMIALS:
                    return None
                result *= factor
    return None if result is None or len(result.items) > MAX_MONOMIALS else result


class UnwrappedReading:
    """Polynomials of terms as if nothing wrapped, remembered by term."""

    def __init__(self) -> None:
        self._memo: dict[Term, Polynomial] = {}

    def polynomial(self, term: Term) -> Polynomial:
        """The polynomial of a term over its atoms; coefficients are read as signed."""
        polynomial = self._memo.get(term)
        if polynomial is None:
            for node in bottom_up(self._memo, _read_further, term):
                self._memo[node] = self._read(node)
            polynomial = self._memo[term]
        return polynomial

    def _read(self, term: Term) -> Polynomial:
        parts = _read_parts(term)
        if parts and term.kind not in (op.SUM, op.MUL):
            return self._part(parts[0])
        polynomial = modulo(term, self._part)
        return Polynomial.atom(term) if polynomial is None else polynomial

    def _part(self, term: Term) -> Polynomial:
        """That of a part of a term: most are atoms, of which nothing is remembered."""
        polynomial = self._memo.get(term)
        return self._read(term) if polynomial is None else polynomial

    def lane_step(self, term: Term) -> Polynomial | None:
        """What the term grows by from one lane to the next in a row: the polynomial's
        difference. None where another atom varies over the lanes or the growth is not linear."""
        step = []
        for monomial, coefficient in self.polynomial(term):
            lanes = [t for t in monomial if is_lane_atom(t)]
            if any(t.variance > 1 and not is_lane_atom(t) for t in monomial) or len(lanes) > 1:
                return None
            if lanes:
                step.append((tuple(t for t in monomial if not is_lane_atom(t)), coefficient))
        return Polynomial.of(step)


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
