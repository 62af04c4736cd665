"""Terms as one lane of a whole warp sees them.

`Lanes.at(term, 5)` is the term in lane 5: its lane number is 5, a shuffle is what its source is
in the lane from which the hardware takes it (manual 9.7.9.6), and any other value that varies
over lanes is an unknown of its own, which remembers lane and value. What all lanes of a warp
share, such as the result of a vote, stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ptxsw.emulator.node import Term, Variance, walk
from ptxsw.emulator.terms import Terms

FULL = 0xFFFFFFFF
WARP = 32

Facts = frozenset[Term]
Pattern = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Shuffle:
    """A `shfl.sync`: its mode and its operands. `whole` is the condition under which all 32
    lanes are known to take part."""

    mode: str
    source: Term
    lane: Term
    clamp: Term
    whole: Term


@dataclass(frozen=True, slots=True)
class Vote:
    """A `vote.sync.any` or `.all` by all lanes that are here."""

    mode: str
    predicate: Term


class Lanes:
    """The lanes of one warp. `shuffles` and `votes` say what certain atoms stand for."""

    def __init__(self, terms: Terms, lane: Term) -> None:
        self._terms, self.lane = terms, lane
        self.shuffles: dict[Term, Shuffle] = {}
        self.votes: dict[Term, Vote] = {}
        self._memo: list[dict[Term, Term]] = [{} for _ in range(WARP)]
        self._origin: dict[Term, tuple[Term, int]] = {}
        self._patterns: dict[tuple[Term, int], Pattern] = {}
        self._parts: dict[Term, tuple[Term, ...]] = {}

    def at(self, term: Term, lane: int) -> Term:
        """The term in a lane."""
        return self._terms.substitute(term, self._leaf(lane), self._memo[lane])

    def origin(self, term: Term) -> tuple[Term, int] | None:
        """Of an unknown of one lane: which value it is, and the lane."""
        return self._origin.get(term)

    def pattern(self, term: Term, lane: int, fixed: Callable[[Term], bool]) -> Pattern:
        """What distinguishes a term in this lane from the same in others: two lanes with one
        pattern do the same, as far from each other as the lanes are. Values that are `fixed`
        tell their lane."""
        known = self._patterns.get((term, lane))
        if known is None:
            found: list[object] = []
            for part in self._varying(term):
                shuffle = self.shuffles.get(part)
                if shuffle is not None:
                    found.append(self._taken(shuffle, lane, fixed))
                elif part.kind == "ite" and not self._by_lane(part):
                    taken = self.at(part.args[0], lane).value
                    found.append((taken, self.pattern(part.args[2 - taken], lane, fixed)))
                elif part.kind != "atom" or part is self.lane:
                    found.append(self.at(part, lane).value)
                elif fixed(part):
                    found.append(lane)
            known = self._patterns[term, lane] = tuple(found)
        return known

    def _taken(self, shuffle: Shuffle, lane: int, fixed: Callable[[Term], bool]) -> object:
        by, clamp = self.at(shuffle.lane, lane), self.at(shuffle.clamp, lane)
        if by.kind != "const" or clamp.kind != "const":
            return lane
        other = source_lane(shuffle.mode, lane, by.value, clamp.value)
        return other - lane, self.pattern(shuffle.source, other, fixed)

    def _varying(self, term: Term) -> tuple[Term, ...]:
        """The largest parts of a term that follow from the lane's number alone, choices that do,
        shuffles, and other unknowns."""
        known = self._parts.get(term)
        if known is None:
            found: dict[Term, None] = {}
            seen: set[Term] = set()
            stack = [term]
            while stack:
                node = stack.pop()
                if node in seen or node.variance == Variance.UNIFORM:
                    continue
                seen.add(node)
                chosen = node.kind == "ite" and self._by_lane(node.args[0])
                if node in self.shuffles or not node.args or chosen or self._by_lane(node):
                    found[node] = None
                else:
                    stack.extend(node.args)
            known = self._parts[term] = tuple(found)
        return known

    def _by_lane(self, node: Term) -> bool:
        """Does its value follow from the lane's number alone?"""
        return all(
            leaf.kind == "const" or leaf is self.lane for leaf in walk(node) if not leaf.args
        )

    def is_poison(self, term: Term) -> bool:
        """Is it, or does it hold, what a shuffle gives where the warp may not be whole?"""
        return any(str(node.value).startswith("poison") for node in walk(term))

    def _leaf(self, lane: int) -> Callable[[Term], Term | None]:
        terms = self._terms

        def leaf(node: Term) -> Term | None:
            if node.variance == Variance.UNIFORM or node in self._origin:
                return node
            if node is self.lane:
                return terms.const(lane, node.width)
            if node in self.shuffles:
                return self._moved(self.shuffles[node], node.width, lane)
            if node.kind == "atom" or (node.kind == "apply" and node.value[1] is Variance.LANE):
                shown = node.value if node.kind == "atom" else f"value {node.id}"
                own = terms.atom(f"{shown} in lane {lane}", node.width, Variance.LANE)
                self._origin[own] = (node, lane)
                return own
            return None

        return leaf

    def _moved(self, shuffle: Shuffle, width: int, lane: int) -> Term:
        terms = self._terms
        poison = terms.atom(f"poison of {width} bits", width, Variance.LANE)
        by, clamp = self.at(shuffle.lane, lane), self.at(shuffle.clamp, lane)
        if by.kind != "const" or clamp.kind != "const":
            return poison
        other = source_lane(shuffle.mode, lane, by.value, clamp.value)
        return terms.ite(shuffle.whole, self.at(shuffle.source, other), poison)

    # ------------------------------------------------------------ facts and cases

    def facts_of(self, condition: Term, lane: int) -> Iterator[Term]:
        """What follows for a lane from a condition of the warp or of this lane, which holds."""
        for part in parts(self._terms, condition):
            yield self.at(part, lane)
            for voted in self._voted(part):
                yield from self.facts_of(voted, lane)

    def _voted(self, fact: Term) -> Iterator[Term]:
        """What every lane that has voted knows from the outcome."""
        refuted = fact.kind == "not"
        vote = self.votes.get(fact.args[0] if refuted else fact)
        if vote is not None and vote.mode == "any" and refuted:
            yield self._terms.not_(vote.predicate)
        elif vote is not None and vote.mode == "all" and not refuted:
            yield vote.predicate

    def cases(self, value: Term, facts: Facts, lane: int) -> Iterator[tuple[Term, Facts]]:
        """A value of a lane, case by case: each without conditions, and the facts of its case."""
        choice = next((n for n in _outermost(value) if n.kind == "ite"), None)
        if choice is None:
            yield value, facts
            return
        condition, yes, no = choice.args
        other = self._terms.not_(condition)
        for fact, against, arm in ((condition, other, yes), (other, condition, no)):
            new = frozenset((fact, *self.facts_of(fact, lane)))
            if against not in facts and self.possible(new, facts):
                chosen = self._terms.substitute(value, {choice: arm}.get)
                yield from self.cases(chosen, facts | new, lane)

    def possible(self, new: Facts, facts: Facts) -> bool:
        """May new facts hold beside others?"""
        together = facts | new
        return not any(
            (fact.kind == "const" and not fact.value) or self._terms.not_(fact) in together
            for fact in new
        )


def _outermost(value: Term) -> Iterator[Term]:
    stack = [value]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(node.args)


def parts(terms: Terms, fact: Term) -> Iterator[Term]:
    """A condition as conditions that all hold."""
    if fact.kind == "and":
        for arg in fact.args:
            yield from parts(terms, arg)
    elif fact.kind == "not" and fact.args[0].kind == "or":
        for arg in fact.args[0].args:
            yield from parts(terms, terms.not_(arg))
    else:
        yield fact


def source_lane(mode: str, lane: int, by: int, clamp: int) -> int:
    """The lane from which `shfl` takes what it gives `lane` (manual 9.7.9.6): the lane itself
    where the other one is out of bounds."""
    by &= 31
    segment = clamp >> 8 & 31
    most = (lane & segment) | (clamp & 31 & ~segment)
    least = lane & segment
    if mode == "up":
        other = lane - by
        return other if other >= most else lane
    if mode == "down":
        other = lane + by
    elif mode == "bfly":
        other = lane ^ by
    else:
        other = least | (by & ~segment)
    return other if other <= most else lane
