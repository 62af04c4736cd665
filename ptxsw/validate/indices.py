"""Addresses compared by what bounds their indices.

Inside a loop an index does not wrap since the last one does not. That follows from how often the
loop goes round and from tests that the text has made, and is read off a symbolic run of the first
text (`facts.grid_facts`). So is that two accesses have no byte in common, where a test has
found the bytes of the whole grid apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from msgspec import Struct

from ptxsw.facts.grid import FARTHEST, Unbounded
from ptxsw.facts.grid_facts import GridFacts, as_offset
from ptxsw.facts.prover import Prover
from ptxsw.facts.ranges import Range, place_range
from ptxsw.terms.node import Term, walk
from ptxsw.terms.polynomial import Polynomial
from ptxsw.terms.substitution import substitute
from ptxsw.validate.alias_analysis import AliasAnalysis
from ptxsw.validate.lanes import KernelLanes
from ptxsw.validate.memory_ssa import ADDRESS, NARROW, Bytes

_Ranges = tuple[Range, ...]
"""Of which one holds the bytes."""


class Indices:
    """Compares places over what the symbolic run of the first text knows. `header` is that of a
    loop that surely goes round once more, where there is one."""

    def __init__(self, lanes: KernelLanes, prover: Prover, aliases: AliasAnalysis) -> None:
        self._lanes, self._prover, self._aliases = lanes, prover, aliases
        self._within: dict[int | None, Within] = {}
        self._facts: dict[tuple[frozenset[Term], int | None], GridFacts] = {}
        self._ranges: dict[tuple[Bytes, frozenset[Term], int | None], list[_Ranges]] = {}

    def within(self, header: int | None) -> Within:
        """A comparison where the loop with this header surely goes round once more (None: any
        place)."""
        if header not in self._within:
            self._within[header] = Within(self, header)
        return self._within[header]

    def same(self, a: Term, b: Term, given: tuple[Term, ...], header: int | None) -> bool:
        """Are two sums equal?"""
        facts = self._known(given, header)
        return facts is not None and facts.same(a, b)

    def distance(
        self, a: Term, b: Term, given: tuple[Term, ...], header: int | None
    ) -> Polynomial | None:
        """`a - b`, modulo 2^64; None where nothing is known."""
        facts = self._known(given, header) if a.width == b.width == 64 else None
        return None if facts is None else facts.polynomial(a) - facts.polynomial(b)

    def _known(self, given: tuple[Term, ...], header: int | None) -> GridFacts | None:
        trace = self._lanes.trace
        if trace.statistics.timed_out:
            return None
        key = (frozenset(given), header)
        if key not in self._facts:
            self._facts[key] = GridFacts.of(trace, given, self._holds, self._count(header))
        return self._facts[key]

    def _count(self, header: int | None) -> Term | None:
        if header is None:
            return None
        return self._lanes.terms.iteration(self._lanes.trace.cfg.name(header))

    def apart(self, a: Bytes, b: Bytes, given: tuple[Term, ...], header: int | None) -> bool:
        """Do bytes have none in common?"""
        facts = self._known(given, header)
        if facts is None:
            return False
        if a.space == b.space and _miss(facts, a, b):
            return True
        if not a.space == b.space == "global":
            return False
        firsts, seconds = (
            [*self._by_place(facts, one, given, header), *self._by_access(facts, one, given)]
            for one in (a, b)
        )
        return any(
            # Each of `firsts` is a set of ranges that holds the bytes: any one of them will do.
            all(facts.apart(x, y) for x in one for y in other)
            for one in firsts
            for other in seconds
        )

    def _by_place(
        self, facts: GridFacts, bytes_: Bytes, given: tuple[Term, ...], header: int | None
    ) -> list[_Ranges]:
        """Ranges over the whole grid that hold some bytes: as their place is written in the count
        of this iteration, and in that of the next."""
        key = (bytes_, frozenset(given), header)
        if key not in self._ranges:
            self._ranges[key] = []
            for place, conditions in self._written(bytes_.place, given, self._count(header)):
                with suppress(Unbounded):
                    ranges = place_range(facts.grid, place, bytes_.size, conditions)
                    self._ranges[key].append((ranges,))
        return self._ranges[key]

    def _by_access(
        self, facts: GridFacts, bytes_: Bytes, given: tuple[Term, ...]
    ) -> Iterator[_Ranges]:
        """Ranges of accesses of the first text to some bytes, on the path that is looked at: of
        the paths to it, one is taken."""
        indices = self._aliases.accessed(bytes_, given)
        for access in self._lanes.trace.accesses if indices else ():
            ranges = facts.touched(access) if access.index in indices else ""
            if not isinstance(ranges, str):
                yield ranges

    def _written(
        self, place: Term, given: tuple[Term, ...], count: Term | None
    ) -> Iterator[tuple[Term, tuple[Term, ...]]]:
        yield place, given
        if count is not None and count in walk(place):
            terms = self._lanes.terms
            # The next iteration is certain to come, so it is within the bounds of the loop. With
            # the count less 1 its place is written as that of the iteration before. Conditions on
            # the count do not hold there and are dropped.
            before = terms.sub(count, terms.const(1, count.width))
            earlier = substitute(terms, place, lambda node: before if node is count else None)
            yield earlier, tuple(c for c in given if count not in walk(c))

    def _holds(self, claim: Term, given: Iterable[Term]) -> bool:
        return self._prover.holds(claim, tuple(given))


class Within(Struct, frozen=True):
    """The same for one loop. As a function it says whether two sums are equal."""

    indices: Indices
    header: int | None

    def __call__(self, a: Term, b: Term, given: tuple[Term, ...]) -> bool:
        return self.indices.same(a, b, given, self.header)

    def distance(self, a: Term, b: Term, given: tuple[Term, ...]) -> int | None:
        """`a - b` in bytes, where that is one number."""
        distance = self.indices.distance(a, b, given, self.header)
        return None if distance is None else as_offset(distance, a.width)

    def apart(self, a: Bytes, b: Bytes, given: tuple[Term, ...]) -> bool:
        """Do the two have no byte in common?"""
        return self.indices.apart(a, b, given, self.header)


def _miss(facts: GridFacts, a: Bytes, b: Bytes) -> bool:
    """Is the distance of two places known to be large enough?"""
    if a.place.width != 64 or b.place.width != 64:
        return False
    distance = facts.polynomial(a.place) - facts.polynomial(b.place)
    farthest = 1 << ADDRESS - 1 if a.space in NARROW else FARTHEST
    return facts.misses(distance, b.size, a.size, 64, farthest)
