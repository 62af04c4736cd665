"""Terms made anew from changed parts: one operation on other arguments, or other leaves below."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ptxsw.terms import op
from ptxsw.terms.node import Term, split
from ptxsw.terms.terms import Terms


def rebuild(terms: Terms, term: Term, args: tuple[Term, ...]) -> Term:
    """The same operation on other arguments, in normal form."""
    match term.kind:
        case op.SUM:
            constant, coefficients = term.value
            items: list[tuple[Term, int]] = []
            for arg, coefficient in zip(args, coefficients, strict=True):
                other, inner = split(arg)
                constant += other * coefficient
                items.extend((part, factor * coefficient) for part, factor in inner)
            return terms.sum(term.width, constant, items)
        case op.MUL:
            product = args[0]
            for arg in args[1:]:
                product = terms.mul(product, arg)
            return product
        case op.EXTRACT:
            return terms.extract(args[0], term.value, term.width)
        case op.ZEXT | op.SEXT:
            return getattr(terms, term.kind)(args[0], term.width)  # type: ignore[no-any-return]
        case op.FLOAT:
            return terms.floating(term.value, term.width, args)
        case op.APPLY:
            name, own = term.value
            return terms.apply(name, term.width, args, own)
        case op.AND | op.OR | op.NOT:
            return getattr(terms, term.kind + "_")(*args)  # type: ignore[no-any-return]
        case _:
            return getattr(terms, term.kind)(*args)  # type: ignore[no-any-return]


def substitute(
    terms: Terms,
    term: Term,
    leaf: Callable[[Term], Term | None],
    memo: dict[Term, Term] | None = None,
) -> Term:
    """Replace every subterm for which `leaf` gives another term, outermost first. `memo`
    carries results from one call to the next under the same `leaf`."""
    done: dict[Term, Term] = {} if memo is None else memo
    stack, opened = [term], set[Term]()
    while stack:
        node = stack[-1]
        if node in done:
            stack.pop()
            continue
        if node not in opened:
            new = leaf(node)
            if new is not None or not node.args:
                done[node] = node if new is None else new
                stack.pop()
                continue
            opened.add(node)
            missing = [a for a in node.args if a not in done]
            if missing:
                stack += missing
                continue
        args = tuple([done[a] for a in node.args])
        done[node] = node if args == node.args else rebuild(terms, node, args)
        stack.pop()
    return done[term]


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
