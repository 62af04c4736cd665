"""What conditions say, judging by themselves: their conjuncts, and the order of numbers in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

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
        sides = _conjuncts(term, terms)
        work += sides
        if not sides and term.size <= MAX_SIZE:
            operands[term] = None
    # To show a term takes time: most differ in size.
    sizes = Counter(term.size for term in operands)
    return sorted(
        operands, key=lambda term: (term.size, show(term) if sizes[term.size] > 1 else "")
    )


def assumed(conditions: tuple[Term, ...], condition: Term, terms: Terms) -> tuple[Term, ...]:
    """Conditions and one more; of a conjunction the parts are known, too."""
    work, facts = [condition], dict.fromkeys(conditions)
    while work:
        term = work.pop()
        if term.kind is op.CONST and term.value:
            continue
        facts[term] = None
        work += _conjuncts(term, terms)
    return tuple(facts)


def _conjuncts(condition: Term, terms: Terms) -> tuple[Term, ...]:
    """The sides of a conjunction; nothing for any other condition."""
    if condition.kind is op.NOT and condition.args[0].kind is op.OR:
        return tuple(map(terms.not_, condition.args[0].args))
    return condition.args if condition.kind is op.AND else ()


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
