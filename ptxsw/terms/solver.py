"""The one place that asks Z3, with three answers: proved, refuted, unknown.

Before that, a few samples are tried (`samples.py`): many questions are refuted by one. A question
is first asked in a generalised form, in which every product, division and uninterpreted value is a
variable: quick, and a proof of the general claim proves the claim. Only where that fails is the
exact form tried, with little effort.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from math import inf
from time import thread_time
from typing import Any, TypeAlias

from msgspec import Struct, field

from ptxsw.terms import op
from ptxsw.terms.node import Term, bottom_up, ones, split, walk
from ptxsw.terms.samples import Samples
from ptxsw.terms.show import show
from ptxsw.terms.z3_terms import COSTLY, Z3Terms, is_too_large, variable_name


class Proved(Struct, frozen=True):
    """No values of the atoms contradict the claim."""


class Refuted(Struct, frozen=True):
    """Values of what is unknown, as the trace names it, under which the claim is false."""

    example: Mapping[str, int] = field(default_factory=dict)


class Unknown(Struct, frozen=True):
    """Neither proved nor refuted within the time allowed."""


Verdict: TypeAlias = Proved | Refuted | Unknown

# What a question may cost, in Z3's units of work (`rlimit`), of which a core does one to two
# thousand in a millisecond: answers are the same however busy the machine is. Over the corpus,
# KernelGen and the programs the hardest proofs take 196,847 units in general form, 30,049 in exact
# form, and 14,587 where paths are pruned.
GENERAL = 200_000
EXACT = 40_000
SMT2 = 10 * GENERAL

# Pruning paths and telling stores from loads saves work and sharpens what is known, but nothing
# depends on it: it may cost little.
PRUNING = 15_000
PRUNING_TOTAL = 500_000
_PRUNED_SIZE = 200
_PRUNED_FACTS = 16

# Where units are no measure of the work: on the clock, and in all that Z3 holds in this process.
_LAST_RESORT_MS = 5_000
_LAST_RESORT_MB = 400


class Solver:
    """Answers questions about terms of one table. Z3 is imported with the first question.

    `budget_s` bounds the CPU time spent in all questions together, `units` the work that Z3 does
    for them: after that every answer is Unknown.

    Each solver has a Z3 context of its own. Within one context, how much work a question takes
    depends on all that was ever asked there; so a kernel would be rewritten in one file, and in
    another file, behind other kernels, be left alone.
    """

    def __init__(self, budget_s: float = 5.0, units: float = inf) -> None:
        self.questions = 0
        self.seconds = 0.0
        self.slowest = 0.0
        self.pruning = 0  # units of work spent in `contradicts` and `soon`
        self.units = 0  # spent in all questions
        self._budget, self._most = budget_s, units
        self._is_full = False
        self._z3: Any = None
        self._solver: Any = None
        self._terms: Any = None  # Z3Terms
        self._atoms: dict[Term, frozenset[Term]] = {}
        self._answers: dict[tuple[Term, frozenset[Term]], Verdict] = {}
        self._asides: dict[tuple[Term, tuple[Term, ...], bool], bool] = {}

    @cached_property
    def _samples(self) -> Samples:
        return Samples()

    def prove(self, claim: Term, given: Iterable[Term] = ()) -> Verdict:
        """Does the condition `claim` hold wherever all conditions `given` do?"""
        if claim.kind is op.CONST:
            return Proved() if claim.value else Refuted()
        facts = self._relevant(claim, given)
        if claim in facts:
            return Proved()
        key = (claim, frozenset(facts))
        verdict = self._answers.get(key)
        if verdict is None:
            verdict = self._answers[key] = self._ask(claim, facts)
        return verdict

    def proves(self, claim: Term, given: Iterable[Term] = ()) -> bool:
        """Is that proved?"""
        return isinstance(self.prove(claim, given), Proved)

    def contradicts(self, condition: Term, given: Iterable[Term]) -> bool:
        """Can `condition` surely not hold where all of `given` do? A no may also mean that the
        question was too large or that enough time went into such questions: it only prunes."""
        if condition.kind is op.CONST:
            return not condition.value
        facts = self._small(condition, given)
        return bool(facts) and self._settled(facts, condition, negate=False)

    def soon(self, claim: Term, given: Iterable[Term]) -> bool:
        """Is `claim` proved in a short while to hold wherever all of `given` do? Asked on the
        side, like `contradicts`, where work is saved by a yes and nothing is lost by a no."""
        if claim.kind is op.CONST:
            return bool(claim.value)
        facts = self._small(claim, given)
        return claim in facts or self._settled(facts, claim, negate=True)

    def _small(self, claim: Term, given: Iterable[Term]) -> tuple[Term, ...]:
        """The newest conditions about the same unknowns, large ones left out."""
        facts = [f for f in self._relevant(claim, given) if f.size <= _PRUNED_SIZE]
        return tuple(facts[-_PRUNED_FACTS:])

    def _settled(self, facts: tuple[Term, ...], claim: Term, *, negate: bool) -> bool:
        """Do the facts contradict the claim (or its negation)? Z3 has little time to say so."""
        key = (claim, facts, negate)
        verdict = self._asides.get(key)
        if verdict is None:
            if self.pruning > PRUNING_TOTAL or claim.size > _PRUNED_SIZE:
                return False
            if self._samples.refutes(claim, facts, negated=not negate) is not None:
                self._asides[key] = False
                return False
            self._start()
            before = self.units
            answer = self._check(facts, claim, negate=negate, limit=PRUNING)
            self.pruning += self.units - before
            verdict = self._asides[key] = bool(answer == self._z3.unsat)
        return verdict

    def smt2(self, claim: Term, given: Iterable[Term] = ()) -> str:
        """The question as a stand-alone SMT-LIB 2 file that is unsat where the claim holds, in
        the generalised form if that suffices for a proof, else in the exact one."""
        facts = self._relevant(claim, given)
        self._start()
        for exact in (False, True):
            with _Scope(self._solver):
                self._state(facts, claim, negate=True, exact=exact)
                if exact or self._answer(SMT2) == self._z3.unsat:
                    return "(set-logic QF_BV)\n" + str(self._solver.to_smt2())
        raise AssertionError("the exact form was not reached")

    def _relevant(self, claim: Term, given: Iterable[Term]) -> tuple[Term, ...]:
        """The conditions that share an unknown with the claim, directly or through others."""
        pool = [(fact, self.unknowns_in(fact)) for fact in given]
        reached = set(self.unknowns_in(claim))
        chosen: set[Term] = set()
        grew = True
        while grew:
            grew = False
            rest = []
            for fact, names in pool:
                if names.isdisjoint(reached):
                    rest.append((fact, names))
                else:
                    chosen.add(fact)
                    reached |= names
                    grew = True
            pool = rest
        return tuple(sorted(chosen, key=lambda t: t.id))

    def unknowns_in(self, term: Term) -> frozenset[Term]:
        """All unknowns in a value, those inside other unknowns included."""
        atoms = self._atoms.get(term)
        if atoms is None:
            atoms = frozenset(n for n in walk(term) if n.kind in op.OPAQUE)
            self._atoms[term] = atoms
        return atoms

    def is_free(self, value: Term, given: Iterable[Term] = ()) -> bool:
        """Can a value surely be any number? It has an unbounded unknown, added or subtracted, such
        as another array's pointer, that occurs neither in its other terms nor in a condition."""
        items = split(value)[1]
        for term, factor in items:
            # Times an odd number modulo 2^width is one to one: the product takes every value, too.
            whole = term.kind in op.OPAQUE and ones(term) == (1 << term.width) - 1
            if factor & 1 and whole:
                others = (other for other, _ in items if other is not term)
                if not any(term in self.unknowns_in(one) for one in (*others, *given)):
                    return True
        return False

    def values(self, wanted: Sequence[tuple[Term, bool]]) -> Mapping[Term, int] | None:
        """Values of the unknowns under which each condition has the truth that is wanted of it;
        None where none were found. What is inside an unknown is not looked at."""
        terms = [term for term, _ in wanted]
        sample = self._samples.meets(wanted)
        if sample is not None:
            return {n: self._samples.value(n, sample) for n in _deciding(terms)}
        if any(map(_is_hopeless, walk(*terms))) or is_too_large(walk(*terms), exact=True):
            return None
        self._start()
        with _Scope(self._solver):
            for term, truth in wanted:
                said = self._terms.expression(term, exact=True)
                self._solver.add(said if truth else self._z3.Not(said))
            self._bound(terms, exact=True)
            if self._answer(EXACT) != self._z3.sat:
                return None
            model = self._solver.model()
            values = {str(d.name()): _number(model[d]) for d in model.decls()}
        return {n: values.get(variable_name(n), 0) for n in _deciding(terms)}

    # ------------------------------------------------------------ asking

    def _start(self) -> None:
        if self._is_full:  # what it holds is freed with its context
            self.rest()
        if self._z3 is None:
            import z3

            context = z3.Context()
            self._z3, self._terms = z3, Z3Terms(context)
            logic = z3.to_symbol("QF_BV", context)
            # z3.SolverFor makes its symbol in the main context, and so that, too.
            bare = z3.Z3_mk_solver_for_logic(context.ref(), logic)
            self._solver = z3.Solver(bare, context)
            self._solver.set("max_memory", _LAST_RESORT_MB)

    def rest(self) -> None:
        """Free the 17 MB that Z3's context takes; the next question makes a new one. What was
        answered is remembered."""
        self._z3 = self._solver = self._terms = None
        self._is_full = False

    def _ask(self, claim: Term, facts: Sequence[Term]) -> Verdict:
        sample = self._samples.refutes(claim, facts)
        if sample is not None:
            values = partial(self._samples.value, number=sample)
            return Refuted(_named(values, claim, *facts))
        self._start()
        z3 = self._z3
        if self._check(facts, claim, negate=True) == z3.unsat:
            return Proved()
        return self._exact(claim, facts)

    def _exact(self, claim: Term, facts: Sequence[Term]) -> Verdict:
        if any(map(_is_hopeless, walk(claim))) or is_too_large(walk(claim, *facts), exact=True):
            return Unknown()
        z3 = self._z3
        with _Scope(self._solver):
            self._state(facts, claim, negate=True, exact=True)
            answer = self._answer(EXACT)
            if answer == z3.unsat:
                return Proved()
            if answer == z3.sat:
                return Refuted(self._example(claim, facts))
        return Unknown()

    def _example(self, claim: Term, facts: Sequence[Term]) -> dict[str, int]:
        """The model that was found, in the words of the trace."""
        model = self._solver.model()
        values = {str(d.name()): _number(model[d]) for d in model.decls()}
        return _named(lambda node: values.get(variable_name(node)), claim, *facts)

    def _check(
        self,
        facts: Sequence[Term],
        claim: Term,
        *,
        negate: bool,
        limit: int = GENERAL,
    ) -> Any:
        if is_too_large(walk(claim, *facts), exact=False):
            return self._z3.unknown
        with _Scope(self._solver):
            self._state(facts, claim, negate=negate, exact=False)
            return self._answer(limit)

    def _answer(self, limit: int) -> Any:
        """What Z3 says of all that was stated, for at most `limit` units of work."""
        if self.seconds > self._budget or self.units > self._most:
            return self._z3.unknown
        self.questions += 1
        self._solver.set("rlimit", limit)
        self._solver.set("timeout", _LAST_RESORT_MS)
        before = _counted(self._solver)
        begin = thread_time()
        answer = self._solver.check()
        took = thread_time() - begin
        self.units += _counted(self._solver) - before
        self.seconds += took
        self.slowest = max(self.slowest, took)
        if answer == self._z3.unknown and "memory" in self._solver.reason_unknown():
            self._is_full = True
        return answer

    def _state(self, facts: Sequence[Term], claim: Term, *, negate: bool, exact: bool) -> None:
        z3 = self._z3
        target = self._terms.expression(claim, exact=exact)
        self._solver.add(z3.Not(target) if negate else target)
        for fact in facts:
            self._solver.add(self._terms.expression(fact, exact=exact))
        self._bound((claim, *facts), exact=exact)

    def _bound(self, terms: Sequence[Term], *, exact: bool) -> None:
        """State which bits of what Z3 takes for variables may be set."""
        for node in walk(*terms):
            limit = ones(node)
            bounded = node.kind in op.OPAQUE or (node.kind in COSTLY and not exact)
            if bounded and node.width > 1 and limit < (1 << node.width) - 1:
                self._solver.add(self._z3.ULE(self._terms.expression(node, exact=exact), limit))


def _deciding(terms: Sequence[Term]) -> list[Term]:
    """The unknowns that terms are made of, but for those inside unknowns."""
    seen: dict[Term, None] = {}
    for node in bottom_up(seen, lambda n: () if n.kind in op.OPAQUE else n.args, *terms):
        seen[node] = None
    return [node for node in seen if node.kind in op.OPAQUE]


class _Scope:
    """push on entry, pop on exit."""

    def __init__(self, solver: Any) -> None:
        self._solver = solver

    def __enter__(self) -> None:
        self._solver.push()

    def __exit__(self, *_: object) -> None:
        self._solver.pop()


def _is_hopeless(node: Term) -> bool:
    """A quotient by an unknown of more bits than Z3 can follow within its limits."""
    return node.kind in op.QUOTIENTS and node.args[1].kind is not op.CONST and node.width > 16


def _named(value_of: Callable[[Term], int | None], *terms: Term) -> dict[str, int]:
    """The values of the unknowns in some terms, as the trace names them."""
    ids: dict[str, int] = {}
    for node in walk(*terms):
        value = value_of(node) if node.kind in op.OPAQUE else None
        if value is not None:
            name = show(node)
            ids[f"{name}, another" if name in ids else name] = value
    return dict(sorted(ids.items()))


def _counted(solver: Any) -> int:
    """Units of work that Z3 has done in this process, for whatever solver."""
    statistics, name = solver.statistics(), "rlimit count"
    return int(statistics.get_key_value(name)) if name in set(statistics.keys()) else 0


def _number(value: Any) -> int:
    return value.as_long() if hasattr(value, "as_long") else int(bool(value))
