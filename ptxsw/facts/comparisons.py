"""What conditions say of the order of numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from msgspec import Struct

from ptxsw.terms import op
from ptxsw.terms.node import Term
from ptxsw.terms.show import show
from ptxsw.terms.terms import Terms

MAX_SIZE = 2000  # nodes of an address or a condition


class Inequality(Struct, frozen=True):
    """`a <= b`, or `a < b` where it is `strict`."""

    a: Term
    b: Term
    strict: bool
    signed: bool


def comparisons(conditions: Iterable[Term], terms: Terms) -> Iterator[Inequality]:
    """What conditions say of the order of numbers."""
    for term in conjuncts(conditions, terms):
        if term.kind in op.ORDERS:
            a, b = term.args
            yield Inequality(a, b, term.kind in op.STRICT, term.kind in op.SIGNED)
        elif term.kind is op.EQ and term.args[0].width > 1:  # numbers, not predicates
            a, b = term.args
            # Equal numbers are at most each other.
            yield Inequality(a, b, False, False)
            yield Inequality(b, a, False, False)


def conjuncts(conditions: Iterable[Term], terms: Terms) -> list[Term]:
    """The conjuncts of conditions, in an order that does not depend on how these were built."""
    work, operands = list(conditions), dict[Term, None]()
    while work:
        term = work.pop()
        if term.kind is op.AND:
            work.extend(term.args)
        elif term.kind is op.NOT and term.args[0].kind is op.OR:
            work.extend(map(terms.not_, term.args[0].args))
        elif term.size <= MAX_SIZE:
            operands[term] = None
    # To show a term takes time: most differ in size.
    sizes = Counter(term.size for term in operands)
    return sorted(
        operands, key=lambda term: (term.size, show(term) if sizes[term.size] > 1 else "")
    )
