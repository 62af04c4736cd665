"""Do two different threads touch a common byte?

Two arbitrary threads t and u of one block, or of two blocks, make two accesses at times that
nothing orders. `TwoThreads.ask` proves that these have no byte in common, or finds values of all
that they depend on under which they have, or says what stood in the way.

A question is asked in the order in which answers get dear: different objects, strides and sums of
what is known (`thread_distances`), conditions that exclude each other, values that are tried, and
Z3 last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from ptxsw.emulator.recurrences import LoopEntry
from ptxsw.emulator.trace import Access, AccessView, Trace
from ptxsw.facts.address_readings import Spot, spot
from ptxsw.facts.block_collisions import colliding
from ptxsw.facts.conditions import conjuncts
from ptxsw.facts.grid import AXES, Grid
from ptxsw.facts.grid_facts import Facts, facts
from ptxsw.facts.launch_conditions import in_words, plain_condition, without_implied
from ptxsw.facts.loop_values import Assignment
from ptxsw.facts.memory_objects import (
    IN_BOUNDS,
    NO_ALIAS,
    Objects,
    ThreadSide,
    is_variable,
    not_one_object,
    same_object,
    touched_bytes,
)
from ptxsw.facts.ranges import most_trips
from ptxsw.facts.ring_turns import InTurn, Rings, in_each_turn
from ptxsw.facts.thread_bounds import DistanceProof
from ptxsw.facts.thread_columns import BlockColumns
from ptxsw.facts.thread_distances import Distance
from ptxsw.facts.thread_models import ModelSearch
from ptxsw.facts.thread_views import Dimensions, OtherThread, Shape, ThreadViews
from ptxsw.ptx.target import MOST_DEEP, MOST_THREADS
from ptxsw.terms import op
from ptxsw.terms.node import Term, walk
from ptxsw.terms.origin import Origin
from ptxsw.terms.polynomial import Polynomial
from ptxsw.terms.show import show
from ptxsw.terms.solver import Proved, Solver

UNUSED_DIMENSIONS = "unused-dimensions"
NO_ADDRESS_WRAP = "no-address-wrap"
GRID_FITS = "grid-fits"
NO_OUTSIDE_WRITER = "no-outside-writer"

_LARGEST = 600  # nodes of an address or condition that Z3 is asked about
_MOST_VIEWS = 64  # pairs of variants of two accesses
_MOST_CONDITIONS = 4
_LONG = 0.15  # seconds in which Z3 did not decide; it is not asked for values then
_NO_WRAP = "no 32-bit index wraps"


class Meeting(Struct, frozen=True):
    """Two accesses, by threads t and u of one block or of two different blocks, at times that
    nothing orders. `counters` says, by a loop's header, how many iterations u is ahead of t where
    that is known. Where more is known of the threads than that they are two, `differs` has values
    of the trace of which one at least is another one in u: `%tid.x >> 5` in another warp.
    `same_thread`: u is t at another time."""

    first: Access
    second: Access
    same_block: bool
    counters: Mapping[int, int | None] = field(default_factory=dict)
    iterations: tuple[tuple[int, int], ...] = ()  # tells apart accesses of one instruction
    differs: tuple[Term, ...] = ()
    same_thread: bool = False


class Apart(Struct, frozen=True):
    """Proved: no byte is touched by both, in any launch that meets the `conditions`, which a user
    can read ("blockDim.x <= 33"), under `assumptions` (named as `correctness.verdict` has them),
    while the rules `needs` are absent."""

    assumptions: frozenset[str] = frozenset()
    conditions: tuple[str, ...] = ()
    needs: frozenset[str] = frozenset()


class Meet(Struct, frozen=True):
    """Values of unknowns under which both threads touch a byte: of thread t as the trace names
    them, of thread u with "u " before the name. `certain` if none of them stands for something that
    the run decides, such as a value that paths merge; else it is no more than a candidate."""

    values: Mapping[Term, int]
    first: AccessView
    second: AccessView
    certain: bool


class Unsure(Struct, frozen=True):
    reason: str


Answer: TypeAlias = Apart | Meet | Unsure


class TwoThreads:
    """Questions about one kernel. `shape` are the threads of its block where that is declared; a
    kernel's own `.reqntid` counts before it."""

    def __init__(self, trace: Trace, shape: Shape | None, solver: Solver) -> None:
        self.trace, self._solver = trace, solver
        self.shape = trace.function.block_shape or shape
        self.dimensions = Dimensions(trace, self.shape)
        self._objects = Objects(trace)
        self.views = ThreadViews(trace, self.dimensions, self._objects.is_read_only)
        self._spots: dict[tuple[Term, int, frozenset[Term]], Spot | None] = {}
        self._sides: dict[tuple[AccessView, int, str], ThreadSide] = {}
        self._never: dict[ThreadSide, bool] = {}
        self._answers: dict[object, Answer] = {}
        self._models = ModelSearch(self.views, solver)

    # ------------------------------------------------------------ questions

    def ask(self, meeting: Meeting) -> Answer:
        """Do the accesses have a byte in common, made by two different threads?"""
        counters = frozenset((h, n) for h, n in meeting.counters.items() if n is not None)
        pair = tuple((a.index, a.kind) for a in (meeting.first, meeting.second))
        known = meeting.iterations, meeting.differs, meeting.same_thread
        key = pair, meeting.same_block, counters, known
        answer = self._answers.get(key)
        if answer is None:
            answer = self._answers[key] = self._asked(meeting)
        return answer

    def one_object(self, first: Access, second: Access) -> bool:
        """May one thread touch one object by both, as far as there is no aliasing?"""
        mine, theirs = (
            {self._objects.place(self.views, view.address).base for view in access.variants}
            for access in (first, second)
        )
        return None in mine | theirs or not mine.isdisjoint(theirs)

    # ------------------------------------------------------------ one pair of accesses

    def _asked(self, meeting: Meeting) -> Answer:
        answer = self._at_once(meeting)
        return answer if isinstance(answer, Apart) else self._by_turns(meeting) or answer

    def _by_turns(self, meeting: Meeting) -> Apart | None:
        """Are they apart in each turn of a ring that a loop goes round?"""
        for header, ahead in meeting.counters.items():
            if ahead is None or header not in self.trace.loop_facts:
                continue
            rings = Rings(self.views, header)
            trips = most_trips(self.grid, rings.label)
            cases = in_each_turn(rings, (meeting.first, meeting.second), ahead, trips)
            if cases:
                return self._in_all(meeting, header, cases)
        return None

    def _in_all(self, meeting: Meeting, header: int, cases: Iterable[InTurn]) -> Apart | None:
        parts: list[Apart] = []
        for case in cases:
            counters = {**meeting.counters, header: 0}
            there = replace(meeting, first=case.first, second=case.second, counters=counters)
            needs = self._settled(DistanceProof(dict.fromkeys(case.needs)), set())
            answer = None if needs is None else self._asked(there)
            if needs is None or not isinstance(answer, Apart):
                return None
            parts += [answer, needs] if case.needs else [answer]
        return _together(parts)

    def _at_once(self, meeting: Meeting) -> Answer:
        first, second = meeting.first, meeting.second
        if meeting.same_thread:
            pass
        elif not meeting.same_block and not self.dimensions.grid:
            return Apart(frozenset({UNUSED_DIMENSIONS}))
        elif meeting.same_block and not self.dimensions.block:
            return Apart(self._by_dimensions())
        spaces = {first.space, second.space}
        if spaces & {"local", "param"}:
            return Apart() if len(spaces) == 1 else Unsure("a generic address may lie anywhere")
        if "shared" in spaces and not meeting.same_block:
            return Apart() if spaces == {"shared"} else Unsure("a generic address may lie anywhere")
        if len(first.variants) * len(second.variants) > _MOST_VIEWS:
            return Unsure("too many paths lead to it")
        for access in (first, second):
            if not touched_bytes(access):
                return Unsure(f"how much {access.instruction.name} touches is not known")
        other = self.views.other(
            meeting.same_block, meeting.counters, meeting.differs, meeting.same_thread
        )
        parts = [
            self._pair(first, a, second, b, other) for a in first.variants for b in second.variants
        ]
        unsure = [part for part in parts if isinstance(part, Unsure)]
        found = [part for part in parts if isinstance(part, Meet)]
        if found:
            return max(found, key=lambda part: part.certain)
        return unsure[0] if unsure else _together(parts)

    def _by_dimensions(self) -> frozenset[str]:
        """What the number of threads that may differ stands on."""
        return frozenset() if self.shape is not None else frozenset({UNUSED_DIMENSIONS})

    def _pair(
        self, first: Access, a: AccessView, second: Access, b: AccessView, other: OtherThread
    ) -> Answer:
        """The same of one way to each access."""
        mine, theirs = self._side(first, a), self._side(second, b)
        if first.space != second.space and "generic" not in (first.space, second.space):
            return Apart()
        assumptions = set(self._by_dimensions())
        if mine.remembers or theirs.remembers:
            assumptions |= {NO_ALIAS, NO_OUTSIDE_WRITER}
        conditions = (*mine.conditions, *map(other, theirs.conditions))
        never = self._is_never(mine) or self._is_never(theirs)
        if never or self._excluded(mine.conditions, theirs.conditions, other):
            return Apart(frozenset(assumptions))
        if not_one_object(mine.place, theirs.place, other):
            both = is_variable(mine.place.base) and is_variable(theirs.place.base)
            if both:
                return Apart(frozenset(assumptions), needs=frozenset({IN_BOUNDS}))
            return Apart(frozenset({*assumptions, NO_ALIAS}))
        distance = self._distance(mine, theirs, other)
        if distance is None:
            return self._decided(first, a, second, b, other, conditions, assumptions, [])
        proof = self._settled(distance.by_strides(), assumptions)
        if proof is not None:
            return proof
        pairs, columns = None, self._columns
        if columns is not None and other.same_block and not other.same_thread:
            pairs = colliding(columns, self.views, distance, mine, theirs, other.differs)
        if pairs == []:
            proof = self._settled(DistanceProof(dict.fromkeys(distance.needs)), assumptions)
        proof = proof or self._settled(distance.proof(), assumptions)
        if proof is not None:
            return proof
        return self._decided(first, a, second, b, other, conditions, assumptions, pairs or [])

    def _side(self, access: Access, view: AccessView) -> ThreadSide:
        key = view, touched_bytes(access), access.kind
        side = self._sides.get(key)
        if side is None:
            own = self.views.own
            conditions = conjuncts({own(view.guard), *map(own, view.conditions)}, self.trace.terms)
            place = self._objects.place(self.views, view.address)
            told = tuple(c for c in conditions if c.kind is not op.CONST or not c.value)
            side = self._sides[key] = ThreadSide(
                place, told, touched_bytes(access), access.kind == "store"
            )
        return side

    def _is_never(self, side: ThreadSide) -> bool:
        """Is there no thread in the block that gets there?"""
        if side not in self._never:
            columns, conditions = self._columns, side.conditions
            nobody = columns is not None and not any(columns.taking(conditions))
            self._never[side] = nobody or any(c.kind is op.CONST for c in conditions)
        return self._never[side]

    def _excluded(self, mine: Iterable[Term], theirs: Iterable[Term], other: OtherThread) -> bool:
        """Does one thread need the contrary of what the other needs?"""
        contrary = set(map(self.trace.terms.not_, mine))
        return any(other(condition) in contrary for condition in theirs)

    # ------------------------------------------------------------ distances

    @cached_property
    def grid(self) -> Grid:
        """Bounds over the grid, in thread t's view."""
        own, terms = self.views.own, self.trace.terms
        entries = {
            own(count): tuple(
                LoopEntry(own(way.again), tuple(map(own, way.given)), way.inside) for way in ways
            )
            for count, ways in self.trace.entries.items()
        }
        threads = self.trace.function.most_threads or MOST_THREADS
        most = {terms.special(f"%ntid.{axis}"): threads for axis in "xy"}
        most[terms.special("%ntid.z")] = min(threads, MOST_DEEP)
        for axis in "yz":
            most[terms.special(f"%nctaid.{axis}")] = 0xFFFF
        shape = tuple(self.dimensions.size(axis) or 0 for axis in AXES)
        x, y, z = shape
        return Grid(terms, most, entries, self._holds, (x, y, z))

    def _holds(self, claim: Term, given: Iterable[Term]) -> bool:
        return self._solver.soon(claim, given)

    @cached_property
    def _fits(self) -> tuple[Polynomial, ...]:
        """That the number of a thread along each axis is below 2^31."""
        return tuple(
            self.grid.size(f"%ntid.{axis}") * self.grid.size(f"%nctaid.{axis}") - (1 << 31)
            for axis in AXES
        )

    def _spot(self, side: ThreadSide) -> Spot | None:
        key = side.place.offset, side.size, frozenset(side.conditions)
        if key not in self._spots:
            self._spots[key] = spot(self.grid, side.place.offset, side.size, side.conditions)
        return self._spots[key]

    def _distance(
        self, mine: ThreadSide, theirs: ThreadSide, other: OtherThread
    ) -> Distance | None:
        first, second = self._spot(mine), self._spot(theirs)
        if first is None or second is None or not same_object(mine.place, theirs.place, other):
            return None
        shared = facts((*mine.conditions, *theirs.conditions), self.grid)
        known = Facts((*shared.at_most_0, *self._fits), shared.one_of)
        return Distance(
            self.grid, (first, second), other, other.is_one_thread, known,
            same_block=other.same_block, both_write=mine.writes and theirs.writes,
            width=mine.place.offset.width,
        )  # fmt: skip

    @cached_property
    def _columns(self) -> BlockColumns | None:
        return BlockColumns.of(self.trace.terms, self.dimensions)

    def _settled(self, evidence: DistanceProof | None, assumptions: set[str]) -> Apart | None:
        """An answer, if all that a proof needs holds, or is for a launch to choose."""
        if evidence is None:
            return None
        conditions = [in_words(condition) for condition in without_implied(evidence.conditions)]
        used = {*assumptions, NO_ADDRESS_WRAP}
        for need in evidence.needs:
            low, high = self.grid.span(need)
            if high <= 0:
                continue
            if low > 0:
                return None
            names = {str(atom.value) for atom in need.atoms if atom.origin is Origin.SPECIAL}
            if len(names) == len(need.atoms):
                if any(name.startswith("%nctaid") for name in names):
                    used.add(GRID_FITS)
                else:
                    conditions.append(in_words(plain_condition(need)))
            elif _NO_WRAP not in conditions:
                conditions.append(_NO_WRAP)
        if len(conditions) > _MOST_CONDITIONS:
            return None
        return Apart(frozenset(used), tuple(conditions))

    # ------------------------------------------------------------ values and Z3

    def _decided(
        self, first: Access, a: AccessView, second: Access, b: AccessView,
        other: OtherThread, conditions: tuple[Term, ...], assumptions: set[str],
        pairs: Sequence[tuple[int, int, Assignment]],
    ) -> Answer:  # fmt: skip
        mine, theirs = self._side(first, a), self._side(second, b)
        if not same_object(mine.place, theirs.place, other):
            return Unsure("it is not known which array an address is in")
        here, there = mine.place.offset, other(theirs.place.offset)
        if max(here.size, there.size) > _LARGEST:
            return Unsure("an address is too complicated")
        meet = self._models.overlap(here, mine.size, there, theirs.size)
        small = [c for c in conditions if c.size <= _LARGEST]
        known = [*self._models.launch(other), *small]
        wanted = [*known, *self._models.promised(here, there), meet]
        threads = self._columns.threads if self._columns is not None else ()
        placed = [(threads[t], threads[u], chosen) for t, u, chosen in pairs]
        model = self._models.search(wanted, placed)
        if model is None and other.same_block and not other.same_thread:
            sides = (here, *mine.conditions), (there, *map(other, theirs.conditions))
            model = self._models.in_block(*sides, (mine.size, theirs.size), wanted, other)
        if model is None:
            claim, before = self.trace.terms.not_(meet), self._solver.seconds
            if isinstance(self._solver.prove(claim, known), Proved):
                return Apart(frozenset({*assumptions, GRID_FITS}))
            if self._solver.seconds - before < _LONG:
                model = self._models.solved(wanted)
        if model is not None:
            return Meet(model.values, a, b, model.certain)
        return Unsure(_reason(here, there))


def _together(parts: Iterable[Answer]) -> Apart:
    apart = [part for part in parts if isinstance(part, Apart)]
    return Apart(
        frozenset(a for part in apart for a in part.assumptions),
        tuple(dict.fromkeys(c for part in apart for c in part.conditions)),
        frozenset(n for part in apart for n in part.needs),
    )


def _reason(*addresses: Term) -> str:
    loads = [n for n in walk(*addresses) if n.origin is Origin.LOAD]
    if loads:
        return f"an address depends on data: {show(loads[0])}"
    return "it is not known whether the addresses differ"
