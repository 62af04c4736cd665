"""The accesses of a loop from iteration to iteration: where each goes in this iteration, what its
address grows by, which instructions make it, and which stores may write the same bytes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property

from msgspec import Struct

from ptxsw.changes.change import INDEX_MAY_WRAP
from ptxsw.codegen.overflow_checks import computation
from ptxsw.emulator.trace import Access
from ptxsw.facts.grid import FARTHEST
from ptxsw.facts.grid_facts import GridFacts
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Reg
from ptxsw.rewrites.base import Kernel
from ptxsw.rewrites.entry_guard import SupposedFacts
from ptxsw.rewrites.hoist_obstacles import SPACES, is_plain, shared_facts
from ptxsw.rewrites.loop_ranges import LoopRanges
from ptxsw.terms import op
from ptxsw.terms.node import Term, walk
from ptxsw.terms.origin import Origin
from ptxsw.terms.polynomial import Polynomial
from ptxsw.terms.substitution import substitute


class Stream(Struct, frozen=True):
    """An access that every iteration makes, at `place`, which grows by `growth` from iteration to
    iteration. Only accesses of one `shape` can stand for each other."""

    access: Access
    place: Polynomial
    growth: Polynomial
    computed: tuple[int, ...]

    @property
    def index(self) -> int:
        return self.access.index

    @property
    def stays(self) -> bool:
        return not self.growth.items

    @property
    def shape(self) -> tuple[object, ...]:
        return _shape(self.access)


class LoopStreams:
    """The accesses of one innermost loop, and for each that cannot be followed its reason in
    `reasons`, by instruction. What cannot be proved may be left to a test at entry (`supposed`) or
    before the loop (`ranges`). `earlier` is another search of the same loop. The loads `invariant`
    are supposed to read the same in all iterations, and to stand in these registers."""

    def __init__(
        self, kernel: Kernel, header: int, inside: Iterable[Access],
        supposed: SupposedFacts | None = None, earlier: LoopStreams | None = None,
        invariant: Mapping[int, Reg] | None = None,
    ) -> None:  # fmt: skip
        self.kernel, self.header, self.loop = kernel, header, kernel.trace.cfg.loops[header]
        self.supposed, self._earlier = supposed, earlier
        self.invariant: Mapping[int, Reg] = invariant or {}
        self.ranges: LoopRanges | None = None
        self.cfg, self.trace = kernel.trace.cfg, kernel.trace
        self.accesses = [a for a in inside if a.space not in ("param", "const")]
        self.stores = [a for a in self.accesses if a.kind != "load"]
        self.reasons: dict[int, str] = {}
        self._loads: dict[Reg, Term] = {}  # the first load of each register
        self._places: dict[int, tuple[Polynomial, Polynomial] | None] = {}

    def block(self, access: Access) -> int:
        return self.cfg.block_of[access.index]

    # ------------------------------------------------------------ what is known of addresses

    @cached_property
    def facts(self) -> GridFacts:
        """What holds where the conditions do that all accesses of the loop share."""
        return shared_facts(self.kernel, self.accesses, self.supposed)

    @cached_property
    def count(self) -> Term:
        return self.trace.terms.iteration(self.cfg.name(self.header))

    @cached_property
    def always(self) -> frozenset[int]:
        """The blocks that every iteration passes, before it ends or leaves the loop."""
        ends = {*self.loop.latches, *(source for source, _ in self.loop.exits)}
        return frozenset(
            n for n in self.loop.blocks if all(self.cfg.dominates(n, end) for end in ends)
        )

    @cached_property
    def streams(self) -> dict[int, Stream]:
        """The accesses that can be followed from iteration to iteration."""
        told = self.kernel.explains  # why the others cannot be followed
        each = (self._stream(a) for a in self.accesses if told or a.index in self.meeting)
        return {stream.index: stream for stream in each if stream is not None}

    @cached_property
    def meeting(self) -> frozenset[int]:
        """The accesses that may go to the same bytes in each iteration, and the loads that may go
        where another access of their shape goes, in the same iteration or the one before, together
        with that one: read as if no index wrapped. Nothing is kept of the others."""
        if self._earlier is not None:
            return self._earlier.meeting
        alike: dict[object, set[int]] = {}
        loads: list[tuple[int, object, object]] = []
        for access in self.accesses:
            addresses = {variant.address for variant in access.variants}
            if len(addresses) > 1 or not is_plain(access.instruction):
                continue
            now, later = self._guessed(addresses.pop())
            here: object = (_shape(access), now)
            ahead: object = (_shape(access), later)
            alike.setdefault(here, set()).add(access.index)
            if access.kind == "load" or here == ahead:
                loads.append((access.index, here, ahead))
        met: set[int] = set()
        for load, here, ahead in loads:
            others = (alike[here] | alike.get(ahead, set())) - {load}
            if others or here == ahead:
                met |= {load, *others}
        return frozenset(met)

    def _guessed(self, address: Term) -> tuple[Polynomial, Polynomial]:
        """The polynomial of an address in this iteration and in the next, as if nothing wrapped."""
        now = self.trace.unwrapped.polynomial(address)
        grown = Polynomial.of(
            (tuple(atom for atom in product if atom is not self.count), factor)
            for product, factor in now
            if self.count in product
        )
        return now, now + grown

    def _stream(self, access: Access) -> Stream | None:
        instruction = access.instruction
        if not is_plain(instruction) or self.block(access) not in self.always:
            return None
        split = self._place(access)
        computed = self._computed(access)
        if split is None or computed is None:
            if split is None and self._wraps(access):
                self.reasons[access.index] = INDEX_MAY_WRAP
            return None
        return Stream(access, *split, computed)

    def _place(self, access: Access) -> tuple[Polynomial, Polynomial] | None:
        """The address in this iteration, and what it grows by; None where it is no such sum."""
        if access.index not in self._places:
            self._places[access.index] = self._placed(access)
        return self._places[access.index]

    def _placed(self, access: Access) -> tuple[Polynomial, Polynomial] | None:
        addresses = {variant.address for variant in access.variants}
        if len(addresses) != 1:
            return None
        (place,) = addresses
        own = self.cfg.name(self.header)
        # A value that the loop changes in a way the trace has no formula for: in the next
        # iteration the same term stands for something else.
        if any(n.origin is Origin.LOOP_VALUE and n.of[0] == own for n in walk(place)):
            return None
        whole = self.facts.polynomial(self._on_one_load(access, place))
        parted = whole.parted(self.count)
        # An address such as k·k grows by another amount in each iteration.
        if parted is None or self.count in parted[0].atoms:
            return None
        for atom in whole.atoms - {self.count}:
            if self.count in walk(atom):
                return None  # such as zext(i + k): not i + zext(k) where the index wraps
        return whole, parted[0]

    def _on_one_load(self, access: Access, place: Term) -> Term:
        """An address that is built on what a load of the loop reads, which is supposed to be the
        same in all iterations: in words of one load where several read the same bytes."""
        facts = self.trace.loop_facts[self.header]
        registers = {facts.values[at]: register for at, register in self.invariant.items()}
        if not registers:
            return place
        address = facts.addresses[access.index]
        used = {registers[n] for n in _outermost(address, registers.__contains__)}
        loads = set(_outermost(place, lambda n: n.origin is Origin.LOAD))
        if len(used) != 1 or len(loads) != 1:
            return place
        (register,), (load,) = used, loads
        held = self._loads.setdefault(register, load)
        return substitute(self.trace.terms, place, lambda n: held if n is load else None)

    def _wraps(self, access: Access) -> bool:
        """Is an index that grows from iteration to iteration extended, and may overflow before?"""
        places = (variant.address for variant in access.variants)
        atoms = (atom for place in places for atom in self.facts.polynomial(place).atoms)
        return any(a.kind in op.EXTENSIONS and self.count in walk(a) for a in atoms)

    def _computed(self, access: Access) -> tuple[int, ...] | None:
        """The instructions of an iteration that make an address, in order; None where they do more
        than compute, or do not always stand before it."""
        base = isa.address(access.instruction).base
        at = bisect_left(self._iteration, self._when(access.index), key=self._when)
        found = computation(
            self.cfg.instructions, self.cfg.written, reversed(self._iteration[:at]),
            (base,) if isinstance(base, Reg) else (), self.invariant,
        )  # fmt: skip
        # What they begin with is read from before them. If a block that only some iterations pass
        # writes it, they would compute another address in front of the loop.
        if found is None or any(reg.scope or reg in self._sometimes for reg in found[1]):
            return None
        return found[0]

    def _when(self, index: int) -> tuple[int, int]:
        """When an instruction comes in an iteration that passes it."""
        return self.cfg.rank[self.cfg.block_of[index]], index

    @cached_property
    def _iteration(self) -> list[int]:
        """The instructions that every iteration passes, in order."""
        return self.cfg.indices(self.cfg.in_order(self.always))

    @cached_property
    def _sometimes(self) -> frozenset[Reg]:
        """What is written in blocks that not every iteration passes."""
        blocks = self.loop.blocks - self.always
        return frozenset(reg for at in self.cfg.indices(blocks) for reg in self.cfg.written[at])

    # ------------------------------------------------------------ who may write

    def writer(
        self, one: Stream, *, behind: Stream | None = None, before: Stream | None = None
    ) -> Access | None:
        """A store that may write what an access touches in an iteration, from behind one access of
        the iteration up to another."""
        if "nc" in one.access.instruction.modifiers:
            return None
        # A store in a block that only some iterations run counts as if all ran it.
        for store in self.stores:
            when = self._when(store.index)
            early = behind is not None and when <= self._when(behind.index)
            late = before is not None and when >= self._when(before.index)
            if not early and not late and not self.apart(one, store):
                return store
        return None

    def apart(self, one: Stream, store: Access) -> bool:
        """Does a store certainly miss the bytes of an access in the same iteration, or, if the
        access always goes to the same bytes, in all iterations?"""
        if {one.access.space, store.space} == SPACES or store.space == "local":
            return True
        other = self._place(store)
        if other is not None and one.access.space == store.space:
            place, growth = other
            # A register that stands for one address during the whole loop must survive the stores
            # of all iterations. If the store moves, comparing one iteration is not enough.
            moves = one.stays and growth.items
            distance, width = one.place - place, store.variants[0].address.width
            farthest = FARTHEST if store.space == "global" else 1 << 31
            if not moves and self.facts.misses(
                distance, store.bytes, one.access.bytes, width, farthest
            ):
                return True
        if self.facts.accesses_apart(one.access, store):
            return True
        return self.ranges is not None and self.ranges.apart(one.access, store)


def _outermost(term: Term, found: Callable[[Term], bool]) -> Iterator[Term]:
    """The nodes of a kind that lie in no other of that kind."""
    if found(term):
        yield term
    else:
        for arg in term.args:
            yield from _outermost(arg, found)


def _shape(access: Access) -> tuple[object, ...]:
    """Only accesses of one shape can stand for each other."""
    kind = isa.access_type(access.instruction)
    return access.space, kind, access.elements, "nc" in access.instruction.modifiers
