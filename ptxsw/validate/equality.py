"""Are two terms equal where some conditions hold? Normal forms first, Z3 last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Literal

from ptxsw.analysis.address_equality import Same, assume_no_overflow
from ptxsw.analysis.equation import Solved, solved
from ptxsw.emulator.node import OPAQUE, Term, Variance, bottom_up, split, unknowns, walk, walk_until
from ptxsw.emulator.solver import Proved, Refuted, Solver
from ptxsw.emulator.substitution import rebuild, substitute
from ptxsw.emulator.terms import Terms
from ptxsw.validate.extensions import vanishes, written_out
from ptxsw.validate.known import Known
from ptxsw.validate.memory import is_constant_load, is_load
from ptxsw.validate.numbers import Numbers
from ptxsw.validate.steady import compared_places, steady

Ask = Literal["all", "plain", "none"]

_MAX_SIZE = 3000
_MAX_DEPTH = 32
_DEEP = 200  # nodes
_SMALL = 60  # nodes
_MAX_PAIRS = 4000  # of parts of two values
_MAX_CHOICES = 12  # values inside each other
_MAX_MATCHED = 8  # terms of a sum
_MAX_MORE = 8  # conditions that are learned beside others

_ORDERLESS = frozenset({"and", "or", "xor", "mul"})
"""Operations of two arguments whose order and grouping do not matter."""

Exact = Callable[[Term, Term, tuple[Term, ...]], bool]
"""Are two sums the same where some conditions hold?"""


def assumed(conditions: tuple[Term, ...], condition: Term, terms: Terms) -> tuple[Term, ...]:
    """Conditions and one more; of a conjunction the parts are known, too."""
    work, facts = [condition], dict.fromkeys(conditions)
    while work:
        term = work.pop()
        if term.kind == "const" and term.value:
            continue
        facts[term] = None
        if term.kind == "and":
            work.extend(term.args)
        elif term.kind == "not" and term.args[0].kind == "or":
            work.extend(map(terms.not_, term.args[0].args))
    return tuple(facts)


class Equality:
    """Compares terms of one table. `example` holds values for which the last terms that were
    compared differ, where the solver found some. `exact`: read values as whole numbers, too, as
    claims about inequalities want it. `unwraps`, where that may be assumed, notes that signed sums
    do not overflow. `alike` tells more of sums, while it is set, and `unwritten` names bytes that
    nobody writes: the space, the first one's place, and how many.
    `check` is called before each comparison, and may raise."""

    def __init__(
        self,
        terms: Terms,
        solver: Solver,
        *,
        exact: bool = False,
        unwraps: Callable[[], None] | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._terms = terms
        self._solver = solver
        self._nothing = Known(terms, ())
        self._facts: dict[tuple[Term, ...], Known] = {}
        self._spoken: dict[tuple[Term, ...], frozenset[Term]] = {}
        self._unknowns: dict[Term, frozenset[Term]] = {}
        self._choices: dict[Term, frozenset[Term]] = {}
        self._settled: dict[tuple[Term, ...], tuple[Term, ...]] = {}
        self._exact, self._unwraps = exact, unwraps
        self._check = check
        self._memos: dict[tuple[Term, ...], dict[Term, Term]] = {}
        self._looked_at: set[Term] = set()  # for conditions in them,
        self._deciding: set[Term] = set()  # which these have
        self._written: dict[tuple[Term, ...], dict[Term, Term]] = {}
        self._known: dict[tuple[object, ...], bool] = {}
        self._equations: dict[tuple[Term, ...], tuple[Solved, ...]] = {}
        self._numbers: dict[tuple[Term, ...], Numbers] = {}
        self._whole: tuple[Term, ...] = ()  # what holds in all cases of a comparison
        self.example: Mapping[str, int] = {}
        self.alike: Exact | None = None
        self.unwritten: frozenset[tuple[str, Term, int]] = frozenset()

    def same(self, a: Term, b: Term, given: Sequence[Term]) -> bool:
        """Are the values equal wherever all of `given` hold? A no may mean that it is not known."""
        self.example = {}
        self._check()
        known = tuple(given)
        a, b = self.simplified(a, known), self.simplified(b, known)
        a, b = steady(self._terms, a, b)
        around, self._whole = self._whole, known
        try:
            if min(a.size, b.size) > _DEEP:
                self._from_below(a, b, known)
            return self._same(a, b, known, 0)
        finally:
            self._whole = around

    def _from_below(self, a: Term, b: Term, given: tuple[Term, ...]) -> None:
        """Compare what two values are computed from before they are compared themselves: terms may
        be deeper than Python's stack, and what is found to be the same need not be compared again
        in each case."""

        def parts(pair: tuple[Term, Term]) -> Iterable[tuple[Term, Term]]:
            x, y = pair
            if x is y or x.width != y.width or len(seen) > _MAX_PAIRS:
                return ()
            if (x.kind == "ite") != (y.kind == "ite"):
                choice, other = (x, y) if x.kind == "ite" else (y, x)
                found = ((other, arm) for arm in choice.args[1:])
                return [pair if choice is y else pair[::-1] for pair in found]
            deep = x.kind in ("float", "apply") and self._alike(x, y)
            return zip(x.args, y.args, strict=True) if deep else ()

        seen: set[tuple[Term, Term]] = set()
        for pair in bottom_up(seen, parts, (a, b)):
            seen.add(pair)
            if pair[0].kind == "float" and pair[1].kind == "float":
                self._same(*pair, given, 0)

    def holds(self, claim: Term, given: Sequence[Term]) -> bool:
        """Is the condition proved from `given`?"""
        self.example = {}
        if claim.kind == "const":
            return bool(claim.value)
        if claim in given:
            return True
        self._check()
        claim = self.simplified(claim, tuple(given))
        if claim.kind == "const":
            return bool(claim.value)
        if claim.kind == "and":
            return all(self.holds(part, given) for part in claim.args)
        return self.ordered(claim, tuple(given)) or self._proved(claim, given)

    def ordered(self, claim: Term, given: tuple[Term, ...]) -> bool:
        """Is an inequality read off others, as claims about such want it?"""
        return self._exact and self._numbers_of(given).holds(claim)

    def contradictory(
        self, given: Sequence[Term], more: Sequence[Term], *, ask: Ask = "all"
    ) -> bool:
        """Can the conditions surely not all hold together? `more` are those behind `given`. Z3 is
        asked about "all" of them, about those that are "plain", no disjunctions, or about "none":
        a disjunction seldom contradicts anything, and takes Z3 long."""
        if self.known((*given, *more)).impossible:
            return True
        known = set(given)
        for condition in more:
            if condition.kind == "const":
                if not condition.value:
                    return True
            elif condition not in known:
                negated = self._terms.not_(condition)
                if negated in known:
                    return True
                asked = ask == "all" or (ask == "plain" and condition.kind != "or")
                if asked and self._solver.contradicts(condition, tuple(known)):
                    return True
                known.add(condition)
        return False

    def known(self, given: tuple[Term, ...]) -> Known:
        """What conditions tell without the solver."""
        facts = self._facts.get(given)
        if facts is None:
            facts = self._facts[given] = self._learned(given)
        return facts

    def _learned(self, given: tuple[Term, ...]) -> Known:
        """The same, built on what some conditions fewer have told."""
        for more in range(1, min(len(given), _MAX_MORE) + 1):
            before = self._facts.get(given[:-more])
            if before is not None:
                return Known(self._terms, given[-more:], before)
        return Known(self._terms, given, self._nothing)

    def simplified(self, term: Term, given: tuple[Term, ...]) -> Term:
        """A term in which conditions that are known to be true or false are replaced by that."""
        if not given or term.kind == "const" or term.size > 20 * _MAX_SIZE:
            return term
        memo = self._memos.setdefault(given, {})
        known = self.known(given)

        def leaf(node: Term) -> Term | None:
            if node not in decides:
                return node
            if node.width != 1:
                return None
            truth = known.truth(node)
            return None if truth is None else self._terms.const(int(truth), 1)

        decides = self._deciding
        for node in walk_until(self._looked_at, term):
            self._looked_at.add(node)
            own = node.width == 1 and node.kind != "const"
            if own or not decides.isdisjoint(node.args):
                decides.add(node)
        return substitute(self._terms, term, leaf, memo)

    def _same(self, a: Term, b: Term, given: tuple[Term, ...], depth: int) -> bool:
        if a is b:
            return True
        if a.width != b.width:
            return False
        if self._known.get((a, b, self._whole, self.alike, self.unwritten)):
            return True  # in all cases
        key = (a, b, given, self.alike, self.unwritten)
        answer = self._known.get(key)
        if answer is None:
            answer = self._known[key] = self._compared(a, b, given, depth)
        return answer

    def _compared(self, a: Term, b: Term, given: tuple[Term, ...], depth: int) -> bool:
        a, b = self.simplified(a, given), self.simplified(b, given)
        if a is b:
            return True
        sums = a.width == 64 and "sum" in (a.kind, b.kind)
        if sums and self.alike is not None and self.alike(a, b, given):
            return True
        if a.kind == b.kind and a.kind in _ORDERLESS and depth < _MAX_DEPTH:
            if self._matched(a, b, given, depth):
                return True
        elif self._alike(a, b) and depth < _MAX_DEPTH:
            pairs = zip(a.args, b.args, strict=True)
            if all(self._same(x, y, given, depth + 1) for x, y in pairs):
                return True
        if self.unwritten and self._lasting(a, b, given, depth):
            return True
        places = compared_places(self._terms, a, b)
        if places is not None and self._same(*places, given, depth + 1):
            return True
        a, b = self._lifted(a), self._lifted(b)
        if "ite" in (a.kind, b.kind) and depth < _MAX_DEPTH:
            return self._case_by_case(a, b, given, depth)
        if sums and self._unwrapped(a, b):
            return True
        parted = self._split(a, b, given, depth) if depth < _MAX_DEPTH else None
        if parted:
            return True
        if a.kind not in _ORDERLESS and depth < _MAX_DEPTH and self._matched(a, b, given, depth):
            return True
        if depth < _MAX_DEPTH and self._equated(a, b, given, depth):
            return True
        if sums and depth < _MAX_CHOICES:
            x, y = self._chosen(a, b), self._chosen(b, a)
            if (x, y) != (a, b):
                return self._case_by_case(x, y, given, depth)
        if self._unrelated(a, b, given):
            return False
        if "sum" in (a.kind, b.kind) and self._extended(a, b, given):
            return True
        if self._written_out(a, given) is self._written_out(b, given):
            return True
        if self._exact and self._numbers_of(given).same(a, b):
            return True
        return parted is None and self._proved(self._terms.eq(a, b), given)

    def _lasting(self, a: Term, b: Term, given: tuple[Term, ...], depth: int) -> bool:
        """Is one side what memory holds that nobody writes, and the other what it holds there at
        some time?"""
        for lasting, other in ((a, b), (b, a)):
            if is_constant_load(lasting) and is_load(other) and depth < _MAX_DEPTH:
                (_, space, *_), size = lasting.value[0], lasting.width // 8
                same_kind = other.value[0][1] == space and other.width == lasting.width
                if same_kind and self._is_unwritten(space, lasting.args[0], size):
                    return self._same(lasting.args[0], other.args[0], given, depth + 1)
        return False

    def _is_unwritten(self, space: str, place: Term, size: int) -> bool:
        for whose, begin, count in self.unwritten:
            if whose == space and begin.width == place.width:
                distance = self._terms.sub(place, begin)
                if distance.kind == "const" and distance.value <= count - size:
                    return True
        return False

    def _equated(self, a: Term, b: Term, given: tuple[Term, ...], depth: int) -> bool:
        """Are two values the same because two lanes' registers are, as a comparison has shown?"""
        x, y = self._by_equations(a, given), self._by_equations(b, given)
        changed = x is not a or y is not b
        return changed and self._same(x, y, given, depth + 1)

    def _by_equations(self, term: Term, given: tuple[Term, ...]) -> Term:
        """A term with what conditions tell to be equal put in its place."""
        if given not in self._equations:
            self._equations[given] = tuple(self._solved(given))
        for equation in self._equations[given]:
            term = equation(term)
        return term

    def _solved(self, given: tuple[Term, ...]) -> Iterator[Solved]:
        """The equations among some conditions, solved for a term each."""
        for condition in given:
            if condition.kind != "eq" or any(not t.args for t in condition.args):
                continue
            sides = [self.simplified(t, given) for t in condition.args]
            newest = sorted(sides, key=lambda t: t.id, reverse=True)
            solution = solved(self._terms, *newest) or solved(self._terms, *newest[::-1])
            if solution is not None:
                yield solution

    def _unwrapped(self, a: Term, b: Term) -> bool:
        """Are two addresses the same if no signed sum in them overflows?"""
        if self._unwraps is None or a.size + b.size > _MAX_SIZE:
            return False
        same = isinstance(assume_no_overflow(self._terms, a, b), Same)
        if same:
            self._unwraps()
        return same

    def _unrelated(self, a: Term, b: Term, given: tuple[Term, ...]) -> bool:
        """Is one side an unknown of which neither the other side nor a condition tells anything?
        Then the solver cannot prove them equal."""
        if given not in self._spoken:
            self._spoken[given] = frozenset().union(*map(self._unknowns_of, given))
        spoken = self._spoken[given]
        return any(
            x.kind in OPAQUE and x not in spoken and x not in unknowns(y)
            for x, y in ((a, b), (b, a))
        )

    def _unknowns_of(self, condition: Term) -> frozenset[Term]:
        atoms = self._unknowns.get(condition)
        if atoms is None:
            atoms = self._unknowns[condition] = frozenset(unknowns(condition))
        return atoms

    def _extended(self, a: Term, b: Term, given: tuple[Term, ...]) -> bool:
        difference = self._terms.sub(a, b)
        span = self.known(given).span
        return vanishes(
            self._terms, difference, lambda claim, index: self._fits(claim, index, given), span
        )

    def numbers(self, given: tuple[Term, ...]) -> Callable[[Term], Term] | None:
        """Writes values in a form that equal ones share, where some conditions hold."""
        numbers = self._numbers_of(given)
        return None if numbers.tells_nothing else numbers.written_out

    def _numbers_of(self, given: tuple[Term, ...]) -> Numbers:
        numbers = self._numbers.get(given)
        if numbers is None:
            ask = partial(self._proved, given=[c for c in given if _is_small(c)])
            numbers = self._numbers[given] = Numbers(self._terms, given, ask)
        return numbers

    def _written_out(self, term: Term, given: tuple[Term, ...]) -> Term:
        """A term with a product, of which the solver can tell little, with sums written out."""
        if term.size > _MAX_SIZE or not any(node.kind == "mul" for node in walk(term)):
            return term
        memo = self._written.setdefault(given, {})
        return written_out(self._terms, term, lambda claim: self.holds(claim, given), memo)

    def _fits(self, claim: Term, index: Term, given: tuple[Term, ...]) -> bool:
        """Is a condition about one index proved? What the index is made of seldom matters, and
        hides from the solver that the conditions speak of the same sum: it is asked first with
        an unknown in its stead."""
        told = self.known(given).truth(claim)
        if told is not None:
            return told
        terms = self._terms
        items = split(index)[1]
        whole = terms.atom(f"index {index.id}", index.width, Variance.LANE)

        def leaf(node: Term) -> Term | None:
            if node.kind != "sum" or node.width != index.width:
                return None
            shift, others = split(node)
            return terms.add(whole, terms.const(shift, node.width)) if others == items else None

        if len(items) < 2:
            return self._proved(claim, given)
        memo: dict[Term, Term] = {}
        known = [substitute(terms, c, leaf, memo) for c in given if c.size <= _MAX_SIZE]
        if self._proved(substitute(terms, claim, leaf, memo), known):
            return True
        return self._proved(claim, given)

    def _lifted(self, term: Term) -> Term:
        """An extension or part of a choice as a choice of extensions or parts."""
        if term.kind not in ("zext", "sext", "extract") or term.args[0].kind != "ite":
            return term
        condition, *arms = term.args[0].args
        yes, no = (rebuild(self._terms, term, (arm,)) for arm in arms)
        return self._terms.ite(condition, yes, no)

    def _chosen(self, address: Term, other: Term) -> Term:
        """A sum with a choice in it, which another one does not have, as a choice of sums."""
        theirs = split(other)[1]
        for item in split(address)[1]:
            term, factor = item
            if term.kind == "ite" and item not in theirs:
                terms = self._terms
                rest = terms.sub(address, terms.scale(term, factor))
                yes, no = (terms.add(rest, terms.scale(arm, factor)) for arm in term.args[1:])
                return terms.ite(term.args[0], yes, no)
        return address

    def _case_by_case(self, a: Term, b: Term, given: tuple[Term, ...], depth: int) -> bool:
        """Compare a choice with something, in each of its cases that may come."""
        if a.kind != "ite":
            a, b = b, a
        condition, yes, no = a.args
        for arm, case in ((yes, condition), (no, self._terms.not_(condition))):
            if arm is b:
                continue
            more = self.settled(assumed(given, case, self._terms))
            if self.known(more).impossible or self._same(arm, b, more, depth + 1):
                continue
            if not self._proved(self._terms.not_(case), given):
                return False
        return True

    def settled(self, given: tuple[Term, ...]) -> tuple[Term, ...]:
        """Conditions, and what those come to in which the others decide a choice: that an index
        does not wrap may mean something else on each of two ways."""
        more = self._settled.get(given)
        if more is None:
            more, known = given, self.known(given)
            for condition in given:
                truths = {choice: known.truth(choice) for choice in self._choices_in(condition)}
                sides = {
                    choice: self._terms.const(int(truth), 1)
                    for choice, truth in truths.items()
                    if truth is not None
                }
                if sides:
                    told = substitute(self._terms, condition, sides.get, {})
                    more = assumed(more, told, self._terms)
            self._settled[given] = more
        return more

    def _choices_in(self, condition: Term) -> frozenset[Term]:
        """By what values are chosen in a condition."""
        choices = self._choices.get(condition)
        if choices is None:
            nodes = walk(condition) if condition.size <= _MAX_SIZE else ()
            choices = frozenset(n.args[0] for n in nodes if n.kind == "ite" and n.width > 1)
            self._choices[condition] = choices
        return choices

    def _split(self, a: Term, b: Term, given: tuple[Term, ...], depth: int) -> bool | None:
        """Compare a concatenation part by part; None where neither side is one, or the parts say
        nothing of the whole."""
        if b.kind == "concat" and a.kind != "concat":
            a, b = b, a
        if a.kind != "concat":
            return None
        high, low = a.args
        return self._same(low, self._terms.extract(b, 0, low.width), given, depth + 1) and (
            self._same(high, self._terms.extract(b, low.width, high.width), given, depth + 1)
        )

    def _matched(self, a: Term, b: Term, given: tuple[Term, ...], depth: int) -> bool:
        """Are two sums, or two of another operation for which order does not count, the same but
        for some of their terms, and are these the same in twos?"""
        if a.kind == b.kind and a.kind in _ORDERLESS:
            mine, theirs = (Counter((t, 1) for t in _flattened(side)) for side in (a, b))
        elif "sum" in (a.kind, b.kind):
            (constant, items), (other, others) = split(a), split(b)
            if constant != other:
                return False
            mine, theirs = Counter(items), Counter(others)
        else:
            return False
        left, right = [*(mine - theirs).elements()], [*(theirs - mine).elements()]
        if len(left) != len(right) or len(left) > _MAX_MATCHED:
            return False
        if a.kind not in _ORDERLESS and not any(
            n.kind == "ite" for n in walk(*(t for t, _ in (*left, *right)))
        ):
            return False
        for x, factor in left:
            at = next(
                (
                    at
                    for at, (y, times) in enumerate(right)
                    if factor == times and self._same(x, y, given, depth + 1)
                ),
                None,
            )
            if at is None:
                return False
            del right[at]
        return True

    def _alike(self, a: Term, b: Term) -> bool:
        """The same operation, so that equal arguments make equal values?"""
        kinds = a.kind == b.kind and a.value == b.value and len(a.args) == len(b.args)
        return kinds and bool(a.args) and [x.width for x in a.args] == [x.width for x in b.args]

    def _proved(self, claim: Term, given: Sequence[Term]) -> bool:
        known = self.known(tuple(given))
        told = known.truth(claim)
        if told is None and claim.kind != "eq" and claim.size <= _MAX_SIZE:
            told = known.truth(self._by_equations(claim, tuple(given)))
        if told is not None:
            return told
        if claim.size > _MAX_SIZE:
            return False
        self._check()  # here, too: one comparison may ask many questions
        verdict = self._solver.prove(claim, [c for c in given if c.size <= _MAX_SIZE])
        if isinstance(verdict, Refuted):
            self.example = verdict.example
        return isinstance(verdict, Proved)


def _flattened(term: Term) -> Iterator[Term]:
    """What a chain of one operation is made of, in no order."""
    work = [term]
    while work:
        node = work.pop()
        if node.kind == term.kind and node.width == term.width:
            work.extend(node.args)
        else:
            yield node


def _is_small(condition: Term) -> bool:
    """Can the solver say much of it in little time? Conjunctions are given in parts as well."""
    if condition.size > _SMALL or condition.kind == "and":
        return False
    return not any(node.kind == "mul" and node.width > 32 for node in walk(condition))
