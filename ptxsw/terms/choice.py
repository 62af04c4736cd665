"""Several values as one: a choice by the conditions that tell which it is."""

from __future__ import annotations

from collections.abc import Mapping

from ptxsw.terms.node import Term
from ptxsw.terms.terms import Terms

MAX_CHOICES = 4  # values


def choice(terms: Terms, facts: Mapping[Term, frozenset[Term]]) -> Term | None:
    """One of several values, by what holds where it is the one; None where that does not tell."""
    if len(facts) == 1:
        return next(iter(facts))
    for condition in sorted(next(iter(facts.values())), key=lambda c: c.id):
        contrary = terms.not_(condition)
        yes = {value: conditions for value, conditions in facts.items() if condition in conditions}
        no = {value: conditions for value, conditions in facts.items() if contrary in conditions}
        if no and len(yes) + len(no) == len(facts):
            sides = choice(terms, yes), choice(terms, no)
            if sides[0] is not None and sides[1] is not None:
                return terms.ite(condition, sides[0], sides[1])
    return None
