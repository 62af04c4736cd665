"""Choices between values, moved outward: a sum of a choice becomes a choice of sums."""

from __future__ import annotations

from ptxsw.terms import op
from ptxsw.terms.node import Term, split, walk
from ptxsw.terms.terms import Terms


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
