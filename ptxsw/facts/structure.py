"""How values are made: by one operation, with arguments that have to be the same in twos, or by
choices, which are moved outward: a sum of a choice becomes a choice of sums.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ptxsw.terms import op
from ptxsw.terms.node import Term, split, walk
from ptxsw.terms.terms import Terms

_MAX_MATCHED = 8  # terms of a sum

ORDERLESS = op.BITWISE | {op.MUL}
"""Operations of two arguments whose order and grouping do not matter."""

Items = list[tuple[Term, int]]
"""Terms of a sum with their coefficients, or arguments of another operation."""


def same_operation(a: Term, b: Term) -> bool:
    """Are they of the same operation, so that equal arguments make equal values?"""
    kinds = a.kind == b.kind and a.value == b.value and len(a.args) == len(b.args)
    return kinds and bool(a.args) and [x.width for x in a.args] == [x.width for x in b.args]


def unmatched(a: Term, b: Term) -> tuple[Items, Items] | None:
    """Of two sums, or two of another operation for which order does not count, what only the one
    has, and what only the other. None where that cannot be the same in twos, or where two sums
    differ in nothing that is a choice, and in more than products, which the solver gives up."""
    if a.kind == b.kind and a.kind in ORDERLESS:
        first, second = (Counter((t, 1) for t in _flattened(side)) for side in (a, b))
    elif op.SUM in (a.kind, b.kind):
        (constant, items), (other, others) = split(a), split(b)
        if constant != other:
            return None
        first, second = Counter(items), Counter(others)
    else:
        return None
    left, right = [*(first - second).elements()], [*(second - first).elements()]
    if len(left) != len(right) or len(left) > _MAX_MATCHED:
        return None
    terms = [t for t, _ in (*left, *right)]
    comparable = a.kind in ORDERLESS or all(t.kind is op.MUL for t in terms)
    return (left, right) if comparable or any(n.kind is op.ITE for n in walk(*terms)) else None


def _flattened(term: Term) -> Iterator[Term]:
    """The operands of a chain of one operation, in no particular order."""
    work = [term]
    while work:
        node = work.pop()
        if node.kind == term.kind and node.width == term.width:
            work.extend(node.args)
        else:
            yield node


def choosing_conditions(term: Term) -> frozenset[Term]:
    """By what values are chosen in a term."""
    return frozenset(n.args[0] for n in walk(term) if n.kind is op.ITE and n.width > 1)


def condition_within(term: Term) -> Term | None:
    """By what is chosen between values from which a term is computed, where it is no choice itself.
    What memory holds at a chosen address is not looked into."""
    work, seen = [*term.args] if term.kind not in op.OPAQUE else [], set[Term]()
    while work:
        node = work.pop()
        if node in seen or node.width == 1 or node.kind in op.OPAQUE:
            continue
        if node.kind is op.ITE:
            return node.args[0]
        seen.add(node)
        work.extend(node.args)
    return None


def lifted_sum(terms: Terms, address: Term, other: Term) -> Term:
    """A sum with a choice in it, which another one does not have, as a choice of sums."""
    others = split(other)[1]
    for item in split(address)[1]:
        term, factor = item
        if term.kind is op.ITE and item not in others:
            rest = terms.sub(address, terms.scale(term, factor))
            yes, no = (terms.add(rest, terms.scale(arm, factor)) for arm in term.args[1:])
            return terms.ite(term.args[0], yes, no)
    return address
