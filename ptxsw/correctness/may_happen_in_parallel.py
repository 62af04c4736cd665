"""Which two instructions may run at a time when nothing orders two threads of a block?

    bar.sync 0;                  a barrier in a loop: one instance in each iteration
    ld.shared.f32 %f1, [a];      may run with itself, and with the store, of one iteration
    st.shared.f32 [b], %f1;
    @%p1 bra LOOP;

Threads that have passed the same barrier, in the same iteration, run until the next one as they
like. So all that lies on paths from one instance to the next, and on no path over a barrier, is
unordered: before the loop and in it, where the loop has no barrier on some path, this iteration and
the next. For each two such places it is known how far the counts of the loops around them are
apart, if every path to them goes round these loops a known number of times.

What a thread did before it ended is in order with nothing that others do later.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import combinations_with_replacement, product
from typing import NamedTuple

from msgspec import Struct

from ptxsw.correctness.barriers import BlockBarriers
from ptxsw.correctness.segments import AGAIN, BARRIER, END, Edge, Event

MOST_ROUNDS = 4
"""Times that a path goes round a loop until it is no longer counted."""

_MANY = 150
"""Of paths from one barrier, past which all that is said is where they lead."""

_MOST_PLACES = 20_000
"""Of paths from all barriers, until it is given up."""

HERE, _START = "here", "start"
"""From where rounds are counted: the barrier where paths begin, or the loop's own beginning."""


class Count(NamedTuple):
    """How often a loop was gone round: `rounds` more than at the barrier where the paths begin, or
    in all since it was entered."""

    since: str
    rounds: int


Counts = tuple[Count | None, ...]
"""Of each loop that holds a barrier, in the order of `Intervals.loops`. None: not known."""


class Reached(NamedTuple):
    """A segment on a path from a barrier. `events` are those on the path; None: too many."""

    segment: int
    counts: Counts
    events: tuple[Event, ...] | None


AHEAD, FIRST, SECOND = "ahead", "first", "second"

IterationFact = tuple[str, int, int]
"""Of a loop by its header: how far the second thread is ahead, or how often one of both has gone
round it."""

_Facts = frozenset[IterationFact]

Found = dict[tuple[int, int], set[_Facts]]
"""By two instructions, the smaller one first, what is known of their counts, way by way."""


class UnorderedPair(Struct, frozen=True):
    """Instructions that nothing orders, of two threads of one block, and what is known of their
    counts of iterations."""

    first: int
    second: int
    facts: tuple[IterationFact, ...]


class TooMany(Exception):
    """There are too many paths between barriers."""


class Intervals:
    """The pairs of a kernel. `budget` is asked from time to time, and may raise."""

    def __init__(self, barriers: BlockBarriers, check: Callable[[], None] = lambda: None) -> None:
        self.barriers, self.cfg = barriers, barriers.cfg
        self.segments = barriers.segments
        self.loops = tuple(sorted(self.segments.synced))
        self._check = check
        self._around = {n: frozenset(self.cfg.loops_around(n)) for n in self.cfg.order}

    # ------------------------------------------------------------ places

    @cached_property
    def places(self) -> tuple[tuple[Reached, ...], ...]:
        """By the barrier instance or the entry where they begin: where paths without a barrier
        lead."""
        starts = [self._entry()]
        for segment in self.segments.all:
            starts += [
                self._behind(segment.block, edge.to)
                for edge in segment.edges
                if edge.event is not None and edge.event[0] == BARRIER and edge.to is not None
            ]
        found: list[tuple[Reached, ...]] = []
        total = 0
        for start in starts:
            found.append(self._from(start))
            total += len(found[-1])
            if total > _MOST_PLACES:
                raise TooMany
        return tuple(found)

    def _entry(self) -> Reached:
        return Reached(0, tuple([None] * len(self.loops)), ())

    def _behind(self, block: int, segment: int) -> Reached:
        """Behind a barrier, which all threads pass in one iteration of the loops around it."""
        around = self._around[block]
        return Reached(
            segment, tuple(Count(HERE, 0) if h in around else None for h in self.loops), ()
        )

    def from_barrier(self, block: int, segment: int) -> tuple[Reached, ...]:
        """Where paths without a barrier lead from behind one in a block, at a segment."""
        return self._from(self._behind(block, segment))

    def _from(self, start: Reached) -> tuple[Reached, ...]:
        seen = {start}
        work = [start]
        while work:
            self._check()
            place = work.pop()
            for edge in self.segments.all[place.segment].edges:
                if edge.to is None or (edge.event is not None and edge.event[0] == BARRIER):
                    continue
                new = self._along(place, edge)
                if new not in seen:
                    seen.add(new)
                    work.append(new)
                    if len(seen) > _MANY:
                        return self._anyhow(start)
        return tuple(seen)

    def _anyhow(self, start: Reached) -> tuple[Reached, ...]:
        """The same without a word on the ways, where these are many."""
        unknown = tuple([None] * len(self.loops))
        behind = sorted(self.segments.after([start.segment]))
        return tuple(Reached(number, unknown, None) for number in behind)

    def _along(self, place: Reached, edge: Edge) -> Reached:
        assert edge.to is not None
        before, after = self.segments.all[place.segment].block, self.segments.all[edge.to].block
        counts = list(place.counts)
        for at, header in enumerate(self.loops):
            if edge.event == (AGAIN, header):
                counts[at] = _more(counts[at])
            elif header not in self._around[before] and header in self._around[after]:
                counts[at] = Count(_START, 0)
        events = place.events
        if edge.event is not None and events is not None:
            events = (*events, edge.event) if len(events) < MOST_ROUNDS else None
        return Reached(edge.to, tuple(counts), events)

    # ------------------------------------------------------------ pairs

    def pairs(
        self, instructions: Iterable[int], wanted: Callable[[int, int], bool]
    ) -> Iterator[UnorderedPair]:
        """Of some instructions, those of which `wanted` holds; none that another one includes."""
        inside: dict[int, list[int]] = {}
        for at in instructions:
            if at in self.segments.of:
                inside.setdefault(self.segments.of[at], []).append(at)
        found: Found = {}
        met: set[tuple[int, int, _Facts]] = set()
        for places in self.places:
            here = [place for place in places if place.segment in inside]
            for one, two in combinations_with_replacement(here, 2):
                self._check()
                if not self._meet(one, two):
                    continue
                related = self._related(one, two)
                if related is None or (one.segment, two.segment, related) in met:
                    continue
                met.add((one.segment, two.segment, related))
                for a, b in product(inside[one.segment], inside[two.segment]):
                    if wanted(a, b):
                        note(found, a, b, related)
        for a, b in self._early(inside):
            if wanted(a, b):
                note(found, a, b, frozenset())
        for (a, b), ways in found.items():
            for way in widest(ways):
                yield UnorderedPair(a, b, tuple(sorted(way)))

    def _meet(self, one: Reached, two: Reached) -> bool:
        """May two threads be at these places, of which all have passed the same barrier and go
        through the same events?"""
        if one.events is None or two.events is None:
            return True
        if len(one.events) > len(two.events):
            one, two = two, one
        assert one.events is not None and two.events is not None
        done = len(one.events)
        if two.events[:done] != one.events:
            return False
        mine = self.segments.next[one.segment]
        theirs = self.segments.next[two.segment]
        if done < len(two.events):
            theirs = frozenset({two.events[done]})
        if not mine or not theirs or mine & theirs:
            return True
        return bool(self.barriers.leaving) and END in mine | theirs

    def _related(self, one: Reached, two: Reached) -> _Facts | None:
        """What is known of the counts of both; None where both cannot be."""
        known: dict[int, int] = {}
        first = self._around[self.segments.all[one.segment].block]
        second = self._around[self.segments.all[two.segment].block]
        for at, header in enumerate(self.loops):
            a, b = one.counts[at], two.counts[at]
            if a is not None and b is not None and a.since == b.since:
                known[header] = b.rounds - a.rounds
        for header in reversed(tuple(self.cfg.loops)):  # outer ones first
            if header in first or header in second or header not in self.barriers.uniform_loops:
                continue
            if all(known.get(h) == 0 for h in self._outside(header)):
                if known.get(header, 0):
                    return None
                known[header] = 0
        facts = {(AHEAD, header, count) for header, count in known.items()}
        for kind, place in ((FIRST, one), (SECOND, two)):
            for header, count in zip(self.loops, place.counts, strict=True):
                if count is not None and count.since == _START:
                    facts.add((kind, header, count.rounds))
        return frozenset(facts)

    def _outside(self, header: int) -> Collection[int]:
        return [h for h in self.cfg.loops_around(header) if h != header]

    def _early(self, inside: Mapping[int, list[int]]) -> Iterator[tuple[int, int]]:
        """What a thread may do before it ends early, and what others may do later."""
        for leaving in self.barriers.leaving:
            behind = self.segments.after(
                e.to for e in leaving.edges if e.event is None and e.to is not None
            )
            ending = self._ending
            first = [
                s
                for s in inside
                if s in ending and (s in behind or leaving.number in self.segments.after([s]))
            ]
            later = self._later(leaving.number)
            for one, two in product(first, [s for s in inside if s in later]):
                yield from product(inside[one], inside[two])

    @cached_property
    def _ending(self) -> frozenset[int]:
        """Segments from which a thread may come to its end without a barrier."""
        return frozenset(
            s.number
            for s in self.segments.all
            if any(
                edge.event == END
                for behind in self.segments.after([s.number])
                for edge in self.segments.all[behind].edges
            )
        )

    def _later(self, segment: int) -> frozenset[int]:
        """Segments behind a barrier that may follow a segment."""
        all_of_them = self.segments.all
        found: set[int] = set()
        work = [
            edge.to
            for behind in self.segments.after([segment])
            for edge in all_of_them[behind].edges
            if edge.event is not None and edge.event[0] == BARRIER and edge.to is not None
        ]
        while work:
            number = work.pop()
            if number not in found:
                found.add(number)
                work += [e.to for e in all_of_them[number].edges if e.to is not None]
        return frozenset(found)


def _more(count: Count | None) -> Count | None:
    if count is None or count.rounds >= MOST_ROUNDS:
        return None
    return Count(count.since, count.rounds + 1)


def note(found: Found, a: int, b: int, related: _Facts) -> None:
    if a > b:
        a, b, related = b, a, frozenset(map(_swapped, related))
    found.setdefault((a, b), set()).add(related)


def _swapped(fact: IterationFact) -> IterationFact:
    kind, header, count = fact
    if kind == AHEAD:
        return AHEAD, header, -count
    return SECOND if kind == FIRST else FIRST, header, count


def widest(ways: Iterable[_Facts]) -> Iterator[_Facts]:
    """Those that say no more than another one: who is apart there is apart in the other, too."""
    kept: list[_Facts] = []
    for way in sorted(ways, key=len):
        if not any(other <= way for other in kept):
            kept.append(way)
            yield way
