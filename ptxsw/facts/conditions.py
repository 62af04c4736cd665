"""The conditions of a path: what is known to hold on it, and what that decides."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ptxsw.terms import op
from ptxsw.terms.node import Term
from ptxsw.terms.terms import Terms


def assumed(conditions: tuple[Term, ...], condition: Term, terms: Terms) -> tuple[Term, ...]:
    """Conditions and one more; of a conjunction the parts are known, too."""
    work, facts = [condition], dict.fromkeys(conditions)
    while work:
        term = work.pop()
        if term.kind is op.CONST and term.value:
            continue
        facts[term] = None
        if term.kind is op.AND:
            work.extend(term.args)
        elif term.kind is op.NOT and term.args[0].kind is op.OR:
            work.extend(map(terms.not_, term.args[0].args))
    return tuple(facts)


def together(conditions: Iterable[Term], more: Iterable[Term]) -> tuple[Term, ...]:
    """All of the conditions, each once."""
    return tuple(dict.fromkeys((*conditions, *more)))


def decided(terms: Terms, condition: Term, conditions: Collection[Term]) -> bool | None:
    """Is a condition true or false on a path, judging only by the known conditions themselves?"""
    if condition.kind is op.CONST:
        return bool(condition.value)
    if condition in conditions:
        return True
    return False if terms.not_(condition) in conditions else None
