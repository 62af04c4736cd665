"""Warps with roles: threads of a block that meet at barriers with a number and a count.

    warp 0:  LOOP: st.shared slot; bar.arrive 1, 64; bar.sync 2, 64;
    warp 1:  LOOP: bar.sync 1, 64; ld.shared slot; bar.arrive 2, 64;

Which threads come to a barrier is told by their place in the block. Where these are as many as its
count, each of its instances needs them all, once. So of two threads `t` and `u` that use it, who
waits for the k-th time goes on once the other has come for the k-th time. All states that two such
threads may be in together are walked through (segments of code, how many times each has come to a
barrier more than the other, iterations): what nobody finds at one time is in order. That other
threads hold them up, too, only takes states away.

A thread that comes again to a barrier at which the other has not been as often would fill its
place: then nothing is said. By induction on the first time, all instances before that are whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import combinations, product

from ptxsw.correctness.barrier_counts import (
    BarrierRole,
    Coming,
    are_whole,
    by_barriers,
    by_turns,
    columns_of,
    coming_to,
    needed,
    number_read,
    operands_of,
)
from ptxsw.correctness.barriers import BlockBarriers, of_block
from ptxsw.correctness.may_happen_in_parallel import (
    Found,
    Intervals,
    IterationFact,
    TooMany,
    UnorderedPair,
    note,
    widest,
)
from ptxsw.correctness.role_places import Counts, RolePlace, Turns, facts_of, related
from ptxsw.correctness.segments import BARRIER, Edge, Segment
from ptxsw.correctness.subject import Subject
from ptxsw.correctness.warp_order import WarpValues
from ptxsw.terms import op
from ptxsw.terms.node import Term

_MOST_ROLES = 8
_MOST_STATES = 20_000  # of one pair of roles
_ENDED = -1

_Meeting = tuple[int, int, frozenset[IterationFact]]
"""Two segments, and what is known of the counts of loops."""


class _Overrun(Exception):
    """A thread may come to a barrier again before all others have come."""


class Roles:
    """The roles of a kernel whose barriers are understood."""

    def __init__(self, subject: Subject, coming: dict[int, Coming]) -> None:
        self._subject, self._coming, self._cfg = subject, coming, subject.cfg
        self.barriers = subject.barriers.more(set(coming), WarpValues(subject).same)
        self._segments = self.barriers.segments
        self._loops = self._segments.synced
        self.roles = by_barriers(coming)
        columns = columns_of(subject)
        assert columns is not None
        self._columns = columns
        self._ending = self._ends()
        self._decided: dict[int, tuple[tuple[int, bool | None, bool | None], ...]] = {}
        self._inside: dict[int, frozenset[int]] = {}  # threads that may come to a block

    @property
    def for_all(self) -> frozenset[int]:
        """The barriers for all that live."""
        return frozenset(at for at, one in self._coming.items() if one.count is None)

    @property
    def computed(self) -> tuple[Term, ...]:
        """The numbers of barriers that are computed: of threads that meet at others, one at least
        differs."""
        numbers = (number_read(self._subject, at, 0, operands_of(self._cfg.instructions[at])[0])
                   for at in self._coming)  # fmt: skip
        return tuple(dict.fromkeys(n for n in numbers if n is not None and n.kind is not op.CONST))

    @cached_property
    def problem(self) -> str:
        """Why nothing is said of the roles; "" where all that is asked of them holds."""
        try:
            for role in self.roles:
                self._of_one(role)
            self._meetings  # noqa: B018 (walks through all states)
        except _Overrun as overrun:
            line = self._subject.line(overrun.args[0])
            return f"a thread may reach the barrier at line {line} before all others have arrived"
        except TooMany:
            return "there are too many paths through its barriers"
        return ""

    @cached_property
    def _meetings(self) -> list[tuple[BarrierRole, BarrierRole, list[_Meeting]]]:
        return [(a, b, [*self._together(a, b)]) for a, b in combinations(self.roles, 2)]

    # ------------------------------------------------------------ pairs

    def pairs(
        self, instructions: Sequence[int], wanted: Callable[[int, int], bool]
    ) -> Iterator[tuple[UnorderedPair, bool]]:
        """Of some instructions those that two threads may execute at one time; and whether these
        have barriers of other numbers."""
        for role in self.roles:
            if len(role.threads) > 1:
                here = [at for at in instructions if self._comes(role, self._cfg.block_of[at])]
                check = self._subject.budget.check
                for pair in Intervals(self._of_one(role), check).pairs(here, wanted):
                    yield pair, False
        inside: dict[int, list[int]] = {}
        for at in instructions:
            if at in self._segments.of:
                inside.setdefault(self._segments.of[at], []).append(at)
        for first, second, meetings in self._meetings:
            found: Found = {}
            for one, two, facts in meetings:
                for a, b in product(inside.get(one, ()), inside.get(two, ())):
                    if wanted(a, b):
                        note(found, a, b, facts)
            other = any(second.numbers.get(at, n) != n for at, n in first.numbers.items())
            for (a, b), ways in found.items():
                for way in widest(ways):
                    yield UnorderedPair(a, b, tuple(sorted(way))), other

    # ------------------------------------------------------------ threads of one role

    def _of_one(self, role: BarrierRole) -> BlockBarriers:
        """The barriers at which all threads of a role meet, in the same order."""
        syncs = {at for at in role.numbers if self._coming[at].waits}
        plain = self._subject.barriers.less(self._subject.barriers.meeting)
        together = plain.more(syncs, partial(self._is_told, role))
        for at in sorted(role.numbers.keys() - syncs):
            if together.parting or self._comes_again(role, at):
                raise _Overrun(at)
        return together.less(syncs) if together.parting else together

    def _is_told(self, role: BarrierRole, term: Term, _: Mapping[int, int]) -> bool:
        """Has a term one value in all threads of a role?"""
        term = self._subject.two_threads.views.own(term)
        if not self._columns.is_told(term):
            return False
        values = self._columns.of_each(term)
        return len({values[thread] for thread in role.threads}) == 1

    def _comes_again(self, role: BarrierRole, arrives: int) -> bool:
        """May a thread come to a barrier twice, and not wait anywhere in between?"""
        number, start = role.numbers[arrives], self._segments.all[self._segments.of[arrives]]
        around = [h for h in self._cfg.loops_around(start.block) if h in self._loops][::-1]
        work = [
            RolePlace(edge.to, False, False, tuple((h, Turns(None, True, first)) for h in around))
            for edge in start.edges for first in (True, False) if edge.to is not None
        ]  # fmt: skip
        seen = set(work)
        while work:
            place = work.pop()
            segment = self._segments.all[place.segment]
            for at, edge in enumerate(segment.edges):
                if edge.to is None or not self._goes(segment, at, place.counts):
                    continue
                if edge.event is not None and edge.event[0] == BARRIER:
                    if role.numbers.get(edge.event[1]) == number:
                        return True
                    if self._coming[edge.event[1]].waits:
                        continue
                new = self._moved(place, edge)
                if new not in seen:
                    seen.add(new)
                    work.append(new)
        return False

    # ------------------------------------------------------------ threads of two roles

    def _together(self, first: BarrierRole, second: BarrierRole) -> Iterator[_Meeting]:
        """The segments that two threads of these roles may be in at one time."""
        start = RolePlace(0, False, False, ())
        numbers = sorted({*first.numbers.values(), *second.numbers.values()})
        begin = start, start, (0,) * len(numbers)
        seen, work = {begin}, [begin]
        told: set[_Meeting] = set()
        while work:
            self._subject.budget.check()
            t, u, more = work.pop()
            if not (t.waits or u.waits or _ENDED in (t.segment, u.segment)):
                met = t.segment, u.segment, facts_of(t.counts, u.counts)
                if met not in told:
                    told.add(met)
                    yield met
            less = tuple(-n for n in more)
            after = [(p, u, m) for p, m in self._moves(t, u, more, numbers, first, second)]
            after += [
                (t, p, tuple(-n for n in m))
                for p, m in self._moves(u, t, less, numbers, second, first)
            ]
            for one, two, ahead in after:
                state = (*related(one, two), ahead)
                if state not in seen:
                    seen.add(state)
                    work.append(state)
                    if len(seen) > _MOST_STATES:
                        raise TooMany

    def _moves(
        self, me: RolePlace, other: RolePlace, ahead: tuple[int, ...], numbers: Sequence[int],
        role: BarrierRole, others: BarrierRole,
    ) -> Iterator[tuple[RolePlace, tuple[int, ...]]]:  # fmt: skip
        """Where a thread may go on to. `ahead`: how much oftener it has come to each barrier than
        the other one."""
        if me.segment == _ENDED:
            return
        segment = self._segments.all[me.segment]
        barrier = segment.end - 1
        if me.waits:
            at = numbers.index(role.numbers[barrier])
            if self._passes(barrier, at, other, ahead, role, others):
                for edge in segment.edges:
                    if edge.event == (BARRIER, barrier):
                        yield self._moved(me, edge), ahead
            return
        if not me.leaves and me.segment in self._ending:
            yield me._replace(leaves=True), ahead
        for number, edge in enumerate(segment.edges):
            if not self._goes(segment, number, me.counts):
                continue
            if edge.event is None or edge.event[0] != BARRIER:
                if edge.to is None or self._comes(role, self._segments.all[edge.to].block):
                    yield self._moved(me, edge), ahead
            elif not me.leaves and barrier in role.numbers:
                at = numbers.index(role.numbers[barrier])
                if numbers[at] in others.numbers.values():
                    if ahead[at] > 0 and not (other.leaves and self._is_for_all(barrier)):
                        raise _Overrun(barrier)
                    come = (*ahead[:at], min(ahead[at] + 1, 1), *ahead[at + 1 :])
                else:
                    come = ahead
                if self._coming[barrier].waits:
                    yield me._replace(waits=True), come
                else:
                    yield self._moved(me, edge), come

    def _goes(self, segment: Segment, edge: int, counts: Counts) -> bool:
        """May a thread leave a segment that way, in the first iteration or in a later one?"""
        if len(segment.edges) != 2:
            return True
        known = self._decided.get(segment.number)
        if known is None:
            known = self._decided[segment.number] = tuple(
                by_turns(self._subject, self._loops, segment.end - 1)
            )
        turns = dict(counts)
        for header, first, later in known:
            if header in turns:
                truth = first if turns[header].first else later
                if truth is not None and truth != (edge == 0):
                    return False
        return True

    def _is_for_all(self, barrier: int) -> bool:
        return self._coming[barrier].count is None

    def _passes(
        self,
        barrier: int,
        at: int,
        other: RolePlace,
        ahead: tuple[int, ...],
        role: BarrierRole,
        others: BarrierRole,
    ) -> bool:
        """Does the other thread not hold up who waits at a barrier?"""
        if self._is_for_all(barrier) and (other.leaves or other.segment == _ENDED):
            return True
        if role.numbers[barrier] in others.numbers.values():
            return ahead[at] <= 0
        return not self._is_for_all(barrier)

    def _moved(self, me: RolePlace, edge: Edge) -> RolePlace:
        """A thread that has gone along an edge."""
        if edge.to is None:
            return RolePlace(_ENDED, False, True, ())
        before = self._segments.all[me.segment].block
        after = self._segments.all[edge.to].block
        known, counts = dict(me.counts), list[tuple[int, Turns]]()
        back = (before, after) in self._cfg.retreating and edge.to == self._segments.first[after]
        for header in reversed(tuple(self._cfg.loops_around(after))):
            if header in self._loops:
                turns = known.get(header, Turns())
                if back and after == header:
                    more = None if turns.number is None else turns.number + 1
                    turns = Turns(more, turns.relative, False)
                counts.append((header, turns))
        return RolePlace(edge.to, False, me.leaves, tuple(counts))

    # ------------------------------------------------------------ who comes where

    def _comes(self, role: BarrierRole, block: int) -> bool:
        inside = self._inside.get(block)
        if inside is None:
            given = needed(self._subject, self._cfg.blocks[block].start)
            inside = frozenset(n for n, comes in enumerate(self._columns.taking(given)) if comes)
            self._inside[block] = inside
        return not inside.isdisjoint(role.threads)

    def _ends(self) -> frozenset[int]:
        """Segments from which a thread may come to its end without a barrier, where there are
        barriers for all that live."""
        if all(one.count is not None for one in self._coming.values()):
            return frozenset()
        ends = {s.number for s in self._segments.all if any(e.to is None for e in s.edges)}
        return frozenset(
            s.number for s in self._segments.all
            if not ends.isdisjoint(self._segments.after([s.number]))
        )  # fmt: skip


def roles_of(subject: Subject) -> Roles | None:
    """Who meets at the barriers of a kernel, where these are not all for the whole block. None
    where they are, or not all are understood, or lanes of a warp may part at them."""
    known = vars(subject)
    if "roles" not in known:
        plain = not subject.barriers.others and not subject.barriers.parting
        known["roles"] = None if plain else _found(subject)
    found: Roles | None = known["roles"]
    return found


def _found(subject: Subject) -> Roles | None:
    columns = columns_of(subject)
    if columns is None or subject.shape is None:
        return None
    cfg = subject.cfg
    coming: dict[int, Coming] = {}
    for at in cfg.indices(cfg.order):
        if of_block(cfg.instructions[at]):
            one = coming_to(subject, columns, at)
            if one is None:
                return None
            coming[at] = one
    if not coming or not are_whole(coming):
        return None
    roles = Roles(subject, coming)
    return None if roles.barriers.parting or len(roles.roles) > _MOST_ROLES else roles
