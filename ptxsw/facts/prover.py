"""Conditions proved from others: by facts read off them, by whole numbers, and last by Z3."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal

from ptxsw.facts.conditions import together
from ptxsw.facts.extensions import NoOverflow, no_overflow, products_written_out, vanishes
from ptxsw.facts.integer_facts import Numbers
from ptxsw.facts.simplifier import MAX_SIZE, Simplifier
from ptxsw.terms import op
from ptxsw.terms.node import Term, Variance, split, walk
from ptxsw.terms.solver import Proved, Refuted, Solver
from ptxsw.terms.substitution import substitute

Ask = Literal["all", "plain", "none"]

_SMALL = 60  # nodes


class Prover:
    """Proves conditions. `example` holds values that refute the last one, where the solver found
    some. `exact`: read values as whole numbers, too, as claims about inequalities want it. `check`
    is called before each proof, and may raise."""

    def __init__(
        self,
        simplifier: Simplifier,
        solver: Solver,
        *,
        exact: bool = False,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self.simplifier, self._terms = simplifier, simplifier.terms
        self._solver, self._exact, self.check = solver, exact, check
        self._written: dict[tuple[Term, ...], dict[Term, Term]] = {}
        self._numbers: dict[tuple[Term, ...], Numbers] = {}
        self.example: Mapping[str, int] = {}

    def holds(self, claim: Term, given: Sequence[Term]) -> bool:
        """Is the condition proved from `given`?"""
        self.example = {}
        if claim.kind is op.CONST:
            return bool(claim.value)
        if claim in given:
            return True
        self.check()
        claim = self.simplifier.simplified(claim, tuple(given))
        if claim.kind is op.CONST:
            return bool(claim.value)
        if claim.kind is op.AND:
            return all(self.holds(part, given) for part in claim.args)
        return self.ordered(claim, tuple(given)) or self.proved(claim, given)

    def ordered(self, claim: Term, given: tuple[Term, ...]) -> bool:
        """Is an inequality read off others, as claims about such want it?"""
        return self._exact and self._numbers_of(given).holds(claim)

    def contradictory(
        self, given: Sequence[Term], more: Sequence[Term], *, ask: Ask = "all"
    ) -> bool:
        """Can the conditions surely not all hold together? `more` are those behind `given`. Z3 is
        asked about "all" of them, about those that are "plain", no disjunctions, or about "none":
        a disjunction seldom contradicts anything, and takes Z3 long."""
        if self.simplifier.facts(together(given, more)).impossible:
            return True
        assumed = set(given)
        for condition in more:
            if condition.kind is op.CONST:
                if not condition.value:
                    return True
            elif condition not in assumed:
                negated = self._terms.not_(condition)
                if negated in assumed:
                    return True
                asked = ask == "all" or (ask == "plain" and condition.kind is not op.OR)
                if asked and self._solver.contradicts(condition, tuple(assumed)):
                    return True
                assumed.add(condition)
        return False

    def proved(self, claim: Term, given: Sequence[Term]) -> bool:
        """Is the condition, as it stands, proved from `given`?"""
        facts = self.simplifier.facts(tuple(given))
        truth = facts.truth(claim)
        if truth is None and claim.kind is not op.EQ and claim.size <= MAX_SIZE:
            truth = facts.truth(self.simplifier.by_equations(claim, tuple(given)))
        if truth is not None:
            return truth
        if claim.size > MAX_SIZE:
            return False
        self.check()  # here, too: one comparison may ask many questions
        # Leaving conditions out is safe: what follows from fewer conditions follows from all.
        verdict = self._solver.prove(claim, [c for c in given if c.size <= MAX_SIZE])
        if isinstance(verdict, Refuted):
            self.example = verdict.example
        return isinstance(verdict, Proved)

    def _proved_nearby(self, claim: Term, given: Sequence[Term]) -> bool:
        """The same, first from conditions on nothing but what the claim is about: products of other
        unknowns cost the solver all its work."""
        about = self._solver.unknowns_in(claim)
        near = [c for c in given if self._solver.unknowns_in(c) <= about]
        return self.proved(claim, near) or (len(near) < len(given) and self.proved(claim, given))

    # ------------------------------------------------------------ values that are equal

    def unrelated(self, a: Term, b: Term, given: tuple[Term, ...]) -> bool:
        """Is one side an unknown that occurs neither in the other side nor in a condition? Then the
        solver cannot prove them equal."""
        unknowns_in = self._solver.unknowns_in
        return any(
            x.kind in op.OPAQUE and not any(x in unknowns_in(term) for term in (y, *given))
            for x, y in ((a, b), (b, a))
        )

    def same_extended(self, a: Term, b: Term, given: tuple[Term, ...]) -> bool:
        """Are two sums the same, however the indices in them are extended?"""
        difference = self._terms.sub(a, b)
        span = self.simplifier.facts(given).span
        return vanishes(self._terms, difference, lambda need: self._fits(need, given), span)

    def _fits(self, need: NoOverflow, given: tuple[Term, ...]) -> bool:
        """Is it proved that an index does not overflow? What it is made of seldom matters, and
        hides from the solver that the conditions speak of the same sum: it is asked first with
        an unknown in its stead."""
        index, claim = need.value, no_overflow(self._terms, need)
        truth = self.simplifier.facts(given).truth(claim)
        if truth is not None:
            return truth
        terms = self._terms
        items = split(index)[1]
        whole = terms.atom(f"index {index.id}", index.width, Variance.LANE)

        def leaf(node: Term) -> Term | None:
            if node.kind is not op.SUM or node.width != index.width:
                return None
            shift, others = split(node)
            return terms.add(whole, terms.const(shift, node.width)) if others == items else None

        if len(items) < 2:
            return self.proved(claim, given)
        memo: dict[Term, Term] = {}
        conditions = [substitute(terms, c, leaf, memo) for c in given if c.size <= MAX_SIZE]
        if self.proved(substitute(terms, claim, leaf, memo), conditions):
            return True
        return self.proved(claim, given)

    def written_out(self, term: Term, given: tuple[Term, ...]) -> Term:
        """A term with its extended sums written out, if it has a product: the solver can do little
        with products."""
        if term.size > MAX_SIZE or not any(node.kind is op.MUL for node in walk(term)):
            return term
        memo = self._written.setdefault(given, {})
        return products_written_out(self._terms, term, lambda claim: self.holds(claim, given), memo)

    def numbers(self, given: tuple[Term, ...]) -> Callable[[Term], Term] | None:
        """Writes values in a form that equal ones share, where some conditions hold."""
        numbers = self._numbers_of(given)
        return None if numbers.tells_nothing else numbers.written_out

    def _numbers_of(self, given: tuple[Term, ...]) -> Numbers:
        numbers = self._numbers.get(given)
        if numbers is None:
            ask = partial(self._proved_nearby, given=[c for c in given if _is_small(c)])
            numbers = self._numbers[given] = Numbers(self._terms, given, ask)
        return numbers


def _is_small(condition: Term) -> bool:
    """Can the solver say much of it in little time? Conjunctions are given in parts as well."""
    if condition.size > _SMALL or condition.kind is op.AND:
        return False
    return not any(node.kind is op.MUL and node.width > 32 for node in walk(condition))
