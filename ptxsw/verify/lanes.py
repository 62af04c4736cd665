"""Terms as one lane of a whole warp sees them.

`Lanes.at(term, 5)` is the term in lane 5: its lane number is 5, a shuffle is what its source is
in the lane from which the hardware takes it (manual 9.7.9.6), and any other value that varies
over lanes is an unknown of its own, which remembers lane and value. What all lanes of a warp
share, such as the result of a vote, stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from ptxsw.emulator.node import Term, Variance, bottom_up, walk
from ptxsw.emulator.origin import Origin
from ptxsw.emulator.substitution import substitute
from ptxsw.emulator.terms import Terms

FULL = 0xFFFFFFFF
WARP = 32

Facts = frozenset[Term]
Pattern = int
"""A number for each of the things that lanes may do. What they are made of may be nested deeply;
so patterns are told apart by their numbers."""


class Shuffle(Struct, frozen=True):
    """A `shfl.sync`: its mode and its operands. `whole` is the condition under which all 32
    lanes are known to take part."""

    mode: str
    source: Term
    lane: Term
    clamp: Term
    whole: Term


class Vote(Struct, frozen=True):
    """A `vote.sync.any` or `.all` by all lanes that are here."""

    mode: str
    predicate: Term


_HOLES = (Origin.POISON, Origin.UNSET)
_Place = tuple[Term, int]  # a term and the lane that sees it


class Lanes:
    """The lanes of one warp. `shuffles` and `votes` say what certain atoms stand for."""

    def __init__(self, terms: Terms, lane: Term) -> None:
        self._terms, self.lane = terms, lane
        self.shuffles: dict[Term, Shuffle] = {}
        self.votes: dict[Term, Vote] = {}
        self._memo: list[dict[Term, Term]] = [{} for _ in range(WARP)]
        self._inside: dict[Term, tuple[Term, ...]] = {}
        self._from: dict[_Place, int | None] = {}
        self._moved: set[_Place] = set()  # shuffles of which the memo of the lane has the value
        self._origin: dict[Term, tuple[Term, int]] = {}
        self._patterns: dict[_Place, Pattern] = {}
        self._numbers: dict[tuple[object, ...], Pattern] = {}
        self._parts: dict[Term, tuple[Term, ...]] = {}

    def at(self, term: Term, lane: int) -> Term:
        """The term in a lane."""
        value = self._memo[lane].get(term)
        if value is not None:
            return value
        for shuffle, where in bottom_up(self._moved, self._sources, *self._shuffled(term, lane)):
            self._memo[where][shuffle] = self._move(shuffle, where)
            self._moved.add((shuffle, where))
        return self._in_lane(term, lane)

    def _in_lane(self, term: Term, lane: int) -> Term:
        """The same where the shuffles in it are known."""
        return substitute(self._terms, term, self._leaf(lane), self._memo[lane])

    def _shuffled(self, term: Term, lane: int) -> list[_Place]:
        """The shuffles in a term, as a lane sees them."""
        shuffles = self._inside.get(term)
        if shuffles is None:
            shuffles = tuple(node for node in walk(term) if node in self.shuffles)
            self._inside[term] = shuffles
        return [(shuffle, lane) for shuffle in shuffles]

    def _sources(self, place: _Place) -> list[_Place]:
        """The shuffles that have to be known to know what one gives a lane."""
        term, lane = place
        shuffle = self.shuffles[term]
        shuffles = [*self._shuffled(shuffle.lane, lane), *self._shuffled(shuffle.clamp, lane)]
        if all(one in self._moved for one in shuffles):
            other = self._other(term, lane)
            if other is not None:
                shuffles += self._shuffled(shuffle.source, other)
        return shuffles

    def _other(self, term: Term, lane: int) -> int | None:
        """The lane from which a shuffle takes what it gives `lane`, where that is known."""
        if (term, lane) not in self._from:
            self._from[term, lane] = self._taken_from(self.shuffles[term], lane)
        return self._from[term, lane]

    def _taken_from(self, shuffle: Shuffle, lane: int) -> int | None:
        by, clamp = self._in_lane(shuffle.lane, lane), self._in_lane(shuffle.clamp, lane)
        if by.kind != "const" or clamp.kind != "const":
            return None
        return source_lane(shuffle.mode, lane, by.value, clamp.value)

    def _move(self, term: Term, lane: int) -> Term:
        shuffle, width = self.shuffles[term], term.width
        poison = self._terms.atom(
            f"poison of {width} bits", width, Variance.LANE, None, Origin.POISON
        )
        other = self._other(term, lane)
        if other is None:
            return poison
        return self._terms.ite(shuffle.whole, self._in_lane(shuffle.source, other), poison)

    def origin(self, term: Term) -> tuple[Term, int] | None:
        """Of an unknown of one lane: which value it is, and the lane."""
        return self._origin.get(term)

    def pattern(self, term: Term, lane: int, fixed: Callable[[Term], bool]) -> Pattern:
        """What distinguishes a term in this lane from the same in others: two lanes with one
        pattern do the same, as far from each other as the lanes are. Values that are `fixed`
        tell their lane."""
        for place in bottom_up(self._patterns, self._chosen, (term, lane)):
            values = tuple(
                self._distinct(part, place[1], fixed) for part in self._varying(place[0])
            )
            self._patterns[place] = self._numbers.setdefault(values, len(self._numbers))
        return self._patterns[term, lane]

    def _chosen(self, place: _Place) -> list[_Place]:
        """The values of which a value of a lane is one, by choice or by shuffle."""
        term, lane = place
        chosen = (self._choice(part, lane) for part in self._varying(term))
        return [one for one in chosen if one is not None]

    def _choice(self, part: Term, lane: int) -> _Place | None:
        shuffle = self.shuffles.get(part)
        if shuffle is not None:
            self.at(part, lane)
            other = self._other(part, lane)
            return None if other is None else (shuffle.source, other)
        if part.kind == "ite" and not self._by_lane(part):
            return part.args[2 - self.at(part.args[0], lane).value], lane
        return None

    def _distinct(self, part: Term, lane: int, fixed: Callable[[Term], bool]) -> object:
        """What distinguishes one part in this lane; None where nothing does."""
        chosen = self._choice(part, lane)
        if chosen is not None:
            which = chosen[1] - lane if part in self.shuffles else chosen[0] is part.args[1]
            return which, self._patterns[chosen]
        if part in self.shuffles:
            return lane
        if part.kind != "atom" or part is self.lane:
            return self.at(part, lane).value
        return lane if fixed(part) else None

    def _varying(self, term: Term) -> tuple[Term, ...]:
        """The largest parts of a term that follow from the lane's number alone, choices that do,
        shuffles, and other unknowns."""
        parts = self._parts.get(term)
        if parts is None:
            varying: dict[Term, None] = {}
            seen: set[Term] = set()
            stack = [term]
            while stack:
                node = stack.pop()
                if node in seen or node.variance == Variance.UNIFORM:
                    continue
                seen.add(node)
                chosen = node.kind == "ite" and self._by_lane(node.args[0])
                if node in self.shuffles or not node.args or chosen or self._by_lane(node):
                    varying[node] = None
                else:
                    stack.extend(node.args)
            parts = self._parts[term] = tuple(varying)
        return parts

    def _by_lane(self, node: Term) -> bool:
        """Does its value follow from the lane's number alone?"""
        return all(
            leaf.kind == "const" or leaf is self.lane for leaf in walk(node) if not leaf.args
        )

    def is_poison(self, term: Term) -> bool:
        """Is it, or does it hold, what a shuffle gives where the warp may not be whole?"""
        return any(node.origin is Origin.POISON for node in walk(term))

    def is_unset(self, term: Term) -> bool:
        """Is it, or does it hold, what a register has where nothing that counts has set it?"""
        return any(node.origin is Origin.UNSET for node in walk(term))

    def _leaf(self, lane: int) -> Callable[[Term], Term | None]:
        terms = self._terms

        def leaf(node: Term) -> Term | None:
            if node.variance == Variance.UNIFORM or node in self._origin:
                return node
            if node is self.lane:
                return terms.const(lane, node.width)
            if node.kind == "atom" or (node.kind == "apply" and node.value[1] is Variance.LANE):
                shown = node.value if node.kind == "atom" else f"value {node.id}"
                kept = node.origin if node.origin in _HOLES else Origin.NAMED
                own = terms.atom(f"{shown} in lane {lane}", node.width, Variance.LANE, None, kept)
                self._origin[own] = (node, lane)
                return own
            return None

        return leaf

    # ------------------------------------------------------------ facts and cases

    def facts_of(self, condition: Term, lane: int) -> Iterator[Term]:
        """What follows for a lane from a condition of the warp or of this lane, which holds."""
        open_ones = [condition]
        while open_ones:
            for part in parts(self._terms, open_ones.pop()):
                yield self.at(part, lane)
                open_ones.extend(self._voted(part))

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
        open_ones = [(value, facts)]
        while open_ones:
            value, facts = open_ones.pop()
            choice = next((n for n in _outermost(value) if n.kind == "ite"), None)
            if choice is None:
                yield value, facts
                continue
            condition, yes, no = choice.args
            other = self._terms.not_(condition)
            for fact, against, arm in ((other, condition, no), (condition, other, yes)):
                new = frozenset((fact, *self.facts_of(fact, lane)))
                if against not in facts and self.possible(new, facts):
                    chosen = substitute(self._terms, value, {choice: arm}.get)
                    open_ones.append((chosen, facts | new))

    def possible(self, new: Facts, facts: Facts) -> bool:
        """May new facts hold beside others?"""
        together = facts | new
        return not any(
            (fact.kind == "const" and not fact.value) or self._terms.not_(fact) in together
            for fact in new
        )


def _outermost(value: Term) -> Iterator[Term]:
    seen: set[Term] = set()
    stack = [value]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            yield node
            stack.extend(node.args)


def parts(terms: Terms, fact: Term) -> Iterator[Term]:
    """A condition as conditions that all hold."""
    seen: set[Term] = set()
    stack = [fact]
    while stack:
        fact = stack.pop()
        if fact in seen:
            continue
        seen.add(fact)
        if fact.kind == "and":
            stack.extend(fact.args)
        elif fact.kind == "not" and fact.args[0].kind == "or":
            stack.extend(map(terms.not_, fact.args[0].args))
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
