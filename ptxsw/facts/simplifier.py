"""Terms where some conditions hold: simplified, with equal terms in place, with choices decided."""

from __future__ import annotations

from collections.abc import Iterator

from ptxsw.facts.condition_facts import ConditionFacts
from ptxsw.facts.conditions import assumed
from ptxsw.facts.structure import choosing_conditions
from ptxsw.terms import op
from ptxsw.terms.digits import unextended
from ptxsw.terms.node import Term, Variance, signed, split, walk, walk_until
from ptxsw.terms.substitution import substitute
from ptxsw.terms.terms import Terms

MAX_SIZE = 3000
"""Nodes of a term that is looked into."""
_MAX_MORE = 8  # conditions that are learned beside others


class Simplifier:
    """What conditions make of terms of one table, without the solver."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self._nothing = ConditionFacts(terms, ())
        self._facts: dict[tuple[Term, ...], ConditionFacts] = {}
        self._choices: dict[Term, frozenset[Term]] = {}
        self._settled: dict[tuple[Term, ...], tuple[Term, ...]] = {}
        self._memos: dict[ConditionFacts, dict[Term, Term]] = {}
        self._looked_at: set[Term] = set()  # for conditions in them,
        self._deciding: set[Term] = set()  # which these have
        self._equations: dict[tuple[Term, ...], tuple[Solved, ...]] = {}

    def facts(self, given: tuple[Term, ...]) -> ConditionFacts:
        """What conditions tell without the solver."""
        facts = self._facts.get(given)
        if facts is None:
            facts = self._facts[given] = self._learned(given)
        return facts

    def _learned(self, given: tuple[Term, ...]) -> ConditionFacts:
        """The same, built on what some conditions fewer have told."""
        for more in range(1, min(len(given), _MAX_MORE) + 1):
            before = self._facts.get(given[:-more])
            if before is not None:
                return ConditionFacts(self.terms, given[-more:], before)
        return ConditionFacts(self.terms, given, self._nothing)

    def simplified(self, term: Term, given: tuple[Term, ...]) -> Term:
        """A term in which conditions that are known to be true or false are replaced by that."""
        if not given or term.kind is op.CONST or term.size > 20 * MAX_SIZE:
            return term
        facts = self.facts(given)
        memo = self._memos.setdefault(facts, {})
        done = memo.get(term)
        if done is not None:
            return done
        decides = self._deciding
        for node in walk_until(self._looked_at, term):
            self._looked_at.add(node)
            own = node.width == 1 and node.kind is not op.CONST
            if own or not decides.isdisjoint(node.args):
                decides.add(node)
        if term not in decides:
            return term

        def leaf(node: Term) -> Term | None:
            if node not in decides:
                return node
            if node.width != 1:
                return None
            truth = facts.truth(node)
            return None if truth is None else self.terms.const(int(truth), 1)

        return substitute(self.terms, term, leaf, memo)

    def by_equations(self, term: Term, given: tuple[Term, ...]) -> Term:
        """A term with what conditions tell to be equal put in its place."""
        if given not in self._equations:
            self._equations[given] = tuple(self._solved(given))
        for equation in self._equations[given]:
            term = equation(term)
        return term

    def _solved(self, given: tuple[Term, ...]) -> Iterator[Solved]:
        """The equations among some conditions, solved for a term each."""
        for condition in given:
            # Only equations of two computed values, such as the quotients of two lanes.
            if condition.kind is not op.EQ or any(not t.args for t in condition.args):
                continue
            sides = [self.simplified(t, given) for t in condition.args]
            newest = sorted(sides, key=lambda t: t.id, reverse=True)
            solution = solved(self.terms, *newest) or solved(self.terms, *newest[::-1])
            if solution is not None:
                yield solution

    def settled(self, given: tuple[Term, ...]) -> tuple[Term, ...]:
        """Conditions, and what those come to in which the others decide a choice: that an index
        does not wrap may mean something else on each of two paths."""
        more = self._settled.get(given)
        if more is None:
            more, facts = given, self.facts(given)
            for condition in given:
                truths = {choice: facts.truth(choice) for choice in self._choices_in(condition)}
                sides = {
                    choice: self.terms.const(int(truth), 1)
                    for choice, truth in truths.items()
                    if truth is not None
                }
                if sides:
                    simpler = substitute(self.terms, condition, sides.get, {})
                    more = assumed(more, simpler, self.terms)
            self._settled[given] = more
        return more

    def _choices_in(self, condition: Term) -> frozenset[Term]:
        """By what values are chosen in a condition."""
        choices = self._choices.get(condition)
        if choices is None:
            small = condition.size <= MAX_SIZE
            choices = choosing_conditions(condition) if small else frozenset()
            self._choices[condition] = choices
        return choices


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
