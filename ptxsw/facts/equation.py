"""An equation between sums, solved for one of its terms and put to use in others."""

from __future__ import annotations

from ptxsw.terms import op
from ptxsw.terms.digits import unextended
from ptxsw.terms.node import Term, Variance, signed, split, walk
from ptxsw.terms.substitution import substitute
from ptxsw.terms.terms import Terms


class Solved:
    """Puts what a term is equal to in its place, however either is extended."""

    def __init__(self, terms: Terms, item: Term, value: Term) -> None:
        self._terms, self._value = terms, value
        self._inner = unextended(item)
        self._kind = item.kind if self._inner is not item else None  # how it is extended
        self._memo: dict[Term, Term] = {}

    def __call__(self, term: Term) -> Term:
        return substitute(self._terms, term, self._leaf, self._memo)

    def _leaf(self, node: Term) -> Term | None:
        # The equation may be of `zext(q)` in 64 bits while an address has `q` itself, or a wider
        # extension: each gets the bits of the value that it stands for.
        if node is self._inner:
            return self._terms.extract(self._value, 0, node.width)
        if node.kind != self._kind or node.args[0] is not self._inner:
            return None
        if node.width <= self._value.width:
            return self._terms.extract(self._value, 0, node.width)
        extend = self._terms.zext if node.kind is op.ZEXT else self._terms.sext
        return extend(self._value, node.width)


def solved(terms: Terms, left: Term, right: Term) -> Solved | None:
    """`left == right` as what a term of `left` is equal to: one that differs between lanes, stands
    there once, unscaled, and in nothing else of either side; of several the newest."""
    width = left.width
    candidate: tuple[int, Term, int] | None = None
    for item, factor in split(left)[1]:
        inner, sign = unextended(item), signed(terms.const(factor, width))
        rest = terms.sub(right, terms.sub(left, terms.scale(item, factor)))
        # A term that occurs in its own value would be substituted for ever. The newest is mostly
        # the other lane's unknown, which this lane's terms then replace.
        fits = abs(sign) == 1 and item.variance is Variance.LANE and inner not in set(walk(rest))
        if fits and (candidate is None or inner.id > candidate[0]):
            candidate = inner.id, item, sign
    if candidate is None:
        return None
    _, item, sign = candidate
    rest = terms.sub(right, terms.sub(left, terms.scale(item, sign)))
    return Solved(terms, item, terms.scale(rest, sign))
