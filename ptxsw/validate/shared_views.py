"""Where two lanes of a warp find the same bytes in memory.

    ld.global.f32 %f1, [%rd4];           lane j reads what lane i reads below
    st.global.f32 [%rd4+8192], %f9;      misses it, whichever thread makes it
    ld.global.f32 %f2, [%rd4+4];         in lane i, j = i + 1

What lane j found at an address is what lane i finds there unless something was written that one of
them sees and the other does not. A write by a thread that neither barrier nor anything else orders
against lane j's load would be a race with it (`no-lane-race`), and one by lane j behind its load
races with lane i's, which may find the older value. But programs may count on it that lanes run in
step. So these stores must not be, whichever thread makes them:

- one from which control comes to where the epoch begins, with no barrier of the block between, and
  that may be to the same array. A store through another pointer could hit the bytes only in a race;
- one of the epoch itself, before the load that lane i makes in the first text, that may hit the
  bytes. Of stores through other pointers those are left out that both lanes have made before they
  load; and a load of lane i behind a store that may have hit all of it gives something else.

A path of thousands of loads is asked about each of them. So loads are kept by what their addresses
are for some numbers: where no comparison between lanes counts, equal addresses are equal for any.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property

from msgspec import Struct, field

from ptxsw.analysis.instruction_kinds import Kind, clobbers, kind, may_write, written_address
from ptxsw.analysis.pointers import Pointers, pointer_bases, pointers, unrelated
from ptxsw.analysis.reaching_stores import ORDER, ReachingStores, is_barrier
from ptxsw.changes.assumptions import NO_RACE
from ptxsw.emulator.trace import AccessView, Trace
from ptxsw.facts.lane_equality import prove_disjoint
from ptxsw.ptx import isa
from ptxsw.ptx.bits import wrapped
from ptxsw.ptx.ir import Instruction
from ptxsw.terms import op
from ptxsw.terms.digits import is_digit
from ptxsw.terms.node import Term, Variance, split, unknowns, walk
from ptxsw.terms.origin import Origin
from ptxsw.terms.solver import Solver
from ptxsw.terms.terms import Terms
from ptxsw.validate.memory_ssa import Bytes, known_distance
from ptxsw.validate.other_lane import Read, SampleAddresses
from ptxsw.validate.path import Path, Touch, uncovered

_MAX_KEPT = 64  # paths
_OF_GRID = ("global", "generic")
_NAMED = frozenset({Origin.PARAMETER, Origin.SYMBOL})
_MAX_CASES = 8
_MAX_STORES = 64  # before one load


class Accesses(Struct):
    """What a path does in an epoch to memory that others see: its stores, its loads with how many
    stores stand before each, and the numbers of the loads by try and address tried."""

    stores: list[Touch] = field(default_factory=list)
    loads: list[tuple[Touch, int]] = field(default_factory=list)
    by_address: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    longest: int = 0
    widths: set[int] = field(default_factory=set)


class EpochAccesses:
    """The accesses of the paths of one text, by epoch."""

    def __init__(self, terms: Terms) -> None:
        self._terms, self._samples = terms, SampleAddresses(terms)
        self._accesses: dict[tuple[int, int], tuple[Path, int, Accesses]] = {}

    def of(self, old: Path, epoch: int) -> Accesses:
        """What a path accesses in an epoch; kept for the paths of one segment."""
        kept = self._accesses.get((id(old), epoch))
        if kept is None or kept[0] is not old or kept[1] != len(old.touches):
            if len(self._accesses) > _MAX_KEPT:
                self._accesses.clear()
            kept = old, len(old.touches), self._sorted(old, epoch)
            self._accesses[id(old), epoch] = kept
        return kept[2]

    def _sorted(self, old: Path, epoch: int) -> Accesses:
        begin, end = events_of(old, epoch)
        accesses = Accesses()
        for touch in old.touches:
            if touch.target.space in isa.WITHIN_BLOCK or not begin <= touch.before <= end:
                continue
            if not touch.loads:
                accesses.stores.append(touch)
                continue
            number = len(accesses.loads)
            accesses.loads.append((touch, len(accesses.stores)))
            accesses.longest = max(accesses.longest, touch.target.size)
            accesses.widths.add(touch.target.place.width)
            for trial, address in enumerate(self._samples.of(touch.target.place)):
                accesses.by_address.setdefault((trial, address), []).append(number)
        return accesses

    def candidates(self, accesses: Accesses, read: Read) -> list[tuple[Touch, int]]:
        """The loads behind a store that may be of the bytes that were read, each with how many
        stores stand before it."""
        place, size = read.target.place, read.target.size
        if self._may_be_compared(read):
            return [(touch, count) for touch, count in accesses.loads if count]
        # Evaluated for sample values, loads that may cover the bytes are found by address.
        numbers = {
            number
            for trial, address in enumerate(self._samples.of(place))
            for at in range(address - accesses.longest + 1, address + size)
            for number in accesses.by_address.get((trial, at % (1 << place.width)), ())
        }
        if accesses.widths - {place.width}:
            numbers.update(range(len(accesses.loads)))
        loads = [accesses.loads[number] for number in sorted(numbers)]
        return [(t, count) for t, count in loads if count and self._may_be(t.target, read)]

    def _may_be(self, load: Bytes, read: Read) -> bool:
        """Is a load likely to be of these bytes, where no comparison between lanes counts? Where no
        index wraps, equal addresses are equal for any numbers."""
        place, size = read.target.place, read.target.size
        if load.place.width != place.width:
            return True
        tried = zip(self._samples.of(load.place), self._samples.of(place), strict=True)
        distances = (wrapped(x - y, place.width) for x, y in tried)
        return any(-load.size < distance < size for distance in distances)

    def _may_be_compared(self, read: Read) -> bool:
        """Is there anything in an address of another lane that may be equal to this lane's by a
        test alone: one that has shown two lanes' pointers or quotients to be the same?"""
        place, own = read.target.place, unknowns(read.own.place)
        new = (node for node in unknowns(place) if node not in own)
        lanes = {self._terms.special(name) for name in ("%tid.x", "%laneid")}
        varying = (node for node in walk(place) if node.variance is Variance.LANE)
        return any(node not in lanes for node in new) or any(map(is_digit, varying))


def events_of(path: Path, epoch: int) -> tuple[int, int]:
    """How many events a path has seen where an epoch begins, and where it ends."""
    ends = [number for number, e in enumerate(path.events) if clobbers(e.instruction)]
    begin = ends[epoch - 1] + 1 if 0 < epoch <= len(ends) else 0
    return begin, ends[epoch] if epoch < len(ends) else len(path.events)


class SharedViews:
    """Asks the first text about its segments, which begin at positions of it. `trace` is its
    symbolic run."""

    def __init__(self, terms: Terms, solver: Solver, trace: Trace) -> None:
        self._terms, self._solver, self._trace = terms, solver, trace
        self._true = self._terms.const(1, 1)
        self._apart: dict[tuple[Bytes, Term, int], bool] = {}
        self._declared: dict[Term, frozenset[Term] | None] = {}
        self._accesses = EpochAccesses(terms)

    def rest_on(self, position: int, olds: Sequence[Path], read: Read) -> frozenset[str] | None:
        """What has to be assumed so that this lane finds the same bytes, in a segment that begins
        at a position and goes along one of some paths; None where it may find others."""
        if self._trace.statistics.timed_out:
            return None
        # Pointers among the parameters are named by declarations; a pointer that was loaded only
        # has the name that the symbolic run gave it, where the first text loads there.
        declared = self._bases(read.own.place)
        bases = declared or self._by_loads(olds, read.own)
        if bases is None or (
            read.target.space == "generic" and self._may_see_shared(position, olds, read.epoch)
        ):
            return None
        assumed: frozenset[str] = frozenset()
        for others in self._before(position, olds, read.epoch):
            if others != ORDER and (isinstance(others, str) or not unrelated(bases, others)):
                return None
            assumed = frozenset({NO_RACE})
        for store in read.stores:
            stored = self._bases(store.place)
            if declared is None:
                stored = self._by_stores(olds, store)
            if store.space not in _OF_GRID or not unrelated(bases, stored):
                return None
            assumed = frozenset({NO_RACE})
        return assumed if all(self._missed(old, read) for old in olds) else None

    def _by_loads(self, olds: Sequence[Path], target: Bytes) -> Pointers:
        """The pointers on which an address is built, as the symbolic run has named them where the
        first text loads there."""
        touches = (touch for old in olds for touch in old.touches if touch.loads)
        return self._of_instructions({t.index for t in touches if _covers(t.target, target)})

    def _by_stores(self, olds: Sequence[Path], target: Bytes) -> Pointers:
        """The same, where the first text stores: all bytes of a range that several stores may make
        up (`memory_ssa.py` joins them), each of which is built on pointers of its own."""
        stores = [
            touch
            for old in olds
            for touch in old.touches
            if not touch.loads and _overlap(touch.target, target)
        ]
        targets = ((store.target, self._true) for store in stores)
        if uncovered(target, targets, known_distance, lambda _: True):
            return None
        return self._of_instructions({store.index for store in stores})

    def _of_instructions(self, indices: Collection[int]) -> Pointers:
        """The pointers on which the addresses of some instructions are built."""
        several = [self._pointers(index) for index in sorted(indices)]
        if not several or None in several:
            return None
        return frozenset[Term]().union(*(one for one in several if one is not None))

    def _may_see_shared(self, position: int, olds: Sequence[Path], epoch: int) -> bool:
        """May lanes see different things in shared memory, where a generic address may lie, since
        it was written by its name: before the epoch with no barrier of the block between, or in
        it?"""
        writes = self._shared_writes
        if not writes:
            return False
        begins = {position}
        if epoch:
            ended = self._ends(olds, epoch)
            begins = {index for index in ended if not is_barrier(self._instruction(index))}
            if not ended:
                return True
        end = len(self._trace.cfg.instructions)
        if not all(map(_is_plain, map(self._instruction, writes))) or end in begins:
            return True
        if any(self._shared_reaching.reaching(index) for index in begins):
            return True
        return any(
            touch.index in writes and begin <= touch.before <= until
            for old in olds
            for begin, until in [events_of(old, epoch)]
            for touch in old.touches
        )

    @cached_property
    def _shared_writes(self) -> frozenset[int]:
        """What writes shared memory by its name."""
        return frozenset(
            index
            for index, i in enumerate(self._trace.cfg.instructions)
            if isa.space(i) == "shared" and isa.effects(i.opcode, i.modifiers) & isa.Effect.WRITE
        )

    @cached_property
    def _shared_reaching(self) -> ReachingStores:
        spans = {self._instruction(index).span for index in self._shared_writes}
        return ReachingStores(self._trace, lambda i: i.span in spans, lambda _: False)

    def _instruction(self, index: int) -> Instruction:
        return self._trace.cfg.instructions[index]

    def _bases(self, place: Term) -> frozenset[Term] | None:
        """The pointers of an address, if declarations name them all: what was read from memory has
        other names in the symbolic run."""
        if place not in self._declared:
            self._declared[place] = self._declared_bases(place)
        return self._declared[place]

    def _declared_bases(self, place: Term) -> frozenset[Term] | None:
        pointees: set[Term] = set()
        for case in self._cases(place):
            bases = pointer_bases(case)
            if not bases or any(t.origin not in _NAMED for t in bases):
                return None
            pointees |= bases
        return frozenset(pointees)

    def _cases(self, place: Term) -> list[Term]:
        """The addresses that one with a choice in it may be."""
        done: list[Term] = []
        work = [place]
        while work and len(work) + len(done) <= _MAX_CASES:
            case = work.pop()
            items = split(case)[1]
            choice = next(((t, c) for t, c in items if t.kind is op.ITE), None)
            if choice is None:
                done.append(case)
                continue
            term, factor = choice
            rest = self._terms.sub(case, self._terms.scale(term, factor))
            work += [self._terms.add(rest, self._terms.scale(a, factor)) for a in term.args[1:]]
        return done + work

    # ------------------------------------------------------------ before the epoch

    @cached_property
    def _reaching(self) -> ReachingStores:
        private = {a.instruction.span for a in self._trace.accesses if a.space in isa.WITHIN_BLOCK}

        def writes(instruction: Instruction) -> bool:
            elsewhere = instruction.span in private and written_address(instruction) is not None
            return may_write(instruction) and not elsewhere

        def orders(instruction: Instruction) -> bool:
            return kind(instruction) is Kind.EVENT and clobbers(instruction)

        return ReachingStores(self._trace, writes, orders)

    def _before(self, position: int, olds: Sequence[Path], epoch: int) -> Iterator[Pointers | str]:
        """Through which pointers was stored before an epoch, with no barrier of the block between;
        `ORDER` for what may have shown lanes different memory."""
        if epoch == 0:
            yield from self._at(position)
            return
        ends = self._ends(olds, epoch)
        if not ends:
            yield None  # nothing is known of such an epoch
        for index in sorted(ends):
            instruction = self._trace.cfg.instructions[index]
            if not is_barrier(instruction):
                yield from self._at(index)
                yield self._pointers(index) if may_write(instruction) else ORDER

    def _ends(self, olds: Sequence[Path], epoch: int) -> set[int]:
        """With what the epoch before ends."""
        return {
            event.index
            for old in olds
            for event in old.events
            if event.epoch == epoch - 1 and clobbers(event.instruction)
        }

    def _at(self, position: int) -> Iterable[Pointers | str]:
        if position >= len(self._trace.cfg.instructions):
            return (None,)
        return [named for named, _ in self._reaching.reaching(position)]

    def _pointers(self, index: int) -> Pointers:
        return pointers(next((a for a in self._trace.accesses if a.index == index), None))

    # ------------------------------------------------------------ in the epoch

    def _missed(self, old: Path, read: Read) -> bool:
        """Does every store of the epoch that a path makes before a load of these bytes miss
        them?"""
        accesses = self._accesses.of(old, read.epoch)
        # `shown` counts the stores already known to miss: each store is looked at once, though it
        # stands before many loads.
        left_out, shown = frozenset(read.stores), 0
        for touch, count in self._accesses.candidates(accesses, read):
            if not touch.fresh and not read.stores:
                continue  # what it gives is told from what memory held before the stores
            between = accesses.stores[shown:count]
            stores = [s for s in between if not _is_within(s.target, left_out)]
            if any(_is_within(store.target, touch.behind) for store in stores):
                continue  # it gives something else: what that store has left
            few = len(stores) <= _MAX_STORES
            if not few or not all(self._misses(s.target, read) for s in stores):
                return False
            shown = count
        return True

    def _misses(self, store: Bytes, read: Read) -> bool:
        """Does a store miss the bytes, whichever thread makes it?"""
        place, size = read.target.place, read.target.size
        if store.space not in _OF_GRID:
            return False
        key = (store, place, size)
        answer = self._apart.get(key)
        if answer is None:
            answer = self._apart[key] = all(
                self._apart_anywhere(stored, store.size, loaded, size)
                for stored in self._cases(store.place)
                for loaded in self._cases(place)
            )
        return answer

    def _apart_anywhere(self, stored: Term, stored_bytes: int, loaded: Term, size: int) -> bool:
        first, second = (AccessView(t, self._true, frozenset()) for t in (stored, loaded))
        proof = prove_disjoint(self._terms, self._solver, first, stored_bytes, second, size)
        return proof is not None


def _overlap(a: Bytes, b: Bytes) -> bool:
    """Have two ranges surely a byte in common?"""
    distance = known_distance(a, b)
    return distance is not None and -a.size < distance < b.size


def _covers(whole: Bytes, part: Bytes) -> bool:
    distance = known_distance(part, whole)
    return distance is not None and 0 <= distance <= whole.size - part.size


def _is_within(part: Bytes, ranges: Collection[Bytes]) -> bool:
    """Do some bytes lie in one of several ranges? Values name the stores behind which they were
    loaded as ranges, into which adjacent ones were joined."""
    return part in ranges or any(_covers(whole, part) for whole in ranges)


def _is_plain(write: Instruction) -> bool:
    """Is it a store to this block's shared memory, which its barriers order?"""
    own = "shared" in write.modifiers or "shared::cta" in write.modifiers
    return write.opcode == "st" and own
