"""Memory as both texts see it: what a load reads is a function of address and epoch.

An epoch lasts from one event that touches or orders memory to the next. Within one, a thread sees
its own plain stores and otherwise what was there when the epoch began. So a loaded value is, byte
by byte, either what a store of the epoch wrote, or an unknown that belongs to the bytes: the same
unknown for both texts and for every access that covers these bytes, whatever its width. Where a
store may or may not have hit the bytes, the unknown belongs to the bytes and to all such stores
in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Protocol

from ptxsw.bits import wrapped
from ptxsw.emulator.memory import Aliasing
from ptxsw.emulator.node import OPAQUE, Term, Variance, bottom_up, ones, split, walk
from ptxsw.emulator.origin import Origin
from ptxsw.emulator.solver import Solver
from ptxsw.emulator.terms import Terms
from ptxsw.validate.chain import Base, Bytes, Link, Store, based
from ptxsw.validate.history import Written, joined

# Older stores of an epoch are not compared with a load: they may all have hit it.
_MAX_STORES = 256
_MAX_DEPTH = 64

CONSTANT = -1
"""The epoch of what nobody writes: parameters, constants, and what is read by `.nc`."""
CLAIMED = -1
"""The instruction of a store that tells how the memories of the two texts differ."""


class Bounds(Protocol):
    """What bounds of indices tell of places, where some conditions hold."""

    def distance(self, a: Term, b: Term, given: tuple[Term, ...]) -> int | None:
        """`a - b` in bytes, where that is one number."""
        ...

    def apart(self, a: Bytes, b: Bytes, given: tuple[Term, ...]) -> bool:
        """Do the two have no byte in common?"""
        ...


def uncovered(
    target: Bytes,
    others: Iterable[tuple[Bytes, Term]],
    distance: Callable[[Bytes, Bytes], int | None],
    holds: Callable[[Term], bool],
) -> frozenset[int]:
    """The numbers of the target's bytes that none of the others surely covers. Each of these comes
    with the condition under which it is touched; `distance` is from the second to the first of
    two, in bytes, where it is known. `holds` is asked where that helps."""
    rest = frozenset(range(target.size))
    for other, guard in others:
        at = distance(other, target) if rest else None
        covers = range(0) if at is None else range(at, at + other.size)
        if not rest.isdisjoint(covers) and holds(guard):
            rest = rest.difference(covers)
    return rest


def stores_before(value: Term) -> frozenset[Bytes]:
    """Those stores that may have hit whatever a loaded value has of memory: each part of it is
    told by what they have left there."""
    behind: frozenset[Bytes] | None = None
    seen: set[Term] = set()
    for node in bottom_up(seen, lambda n: () if n.kind in OPAQUE else n.args, value):
        seen.add(node)
        if node.kind in OPAQUE:
            kinds = node.value[0][3] if is_load(node) else ()
            stores = zip(kinds, node.args[1::3], strict=True) if kinds else ()
            targets = frozenset(Bytes(space, place, size) for (space, size), place in stores)
            behind = targets if behind is None else behind & targets
    return behind or frozenset()


def is_load(node: Term) -> bool:
    """Is it what memory held at some time, behind some stores or none?"""
    name: Any = node.value[0] if node.kind == "apply" else ()
    return len(name) == 4 and name[0] == "load"


def is_constant_load(node: Term) -> bool:
    """Is it what memory holds that nobody writes?"""
    return _is_first(node, CONSTANT)


def is_first_load(node: Term) -> bool:
    """Is it what memory held where the comparison began?"""
    return _is_first(node, 0)


def holds_first(value: Term) -> bool:
    """Is some of a loaded value what memory held before any store of an epoch?"""
    seen: set[Term] = set()
    for node in bottom_up(seen, lambda n: () if n.kind in OPAQUE else n.args, value):
        seen.add(node)
        name: Any = node.value[0] if node.kind == "apply" else ()
        behind = node.kind == "float" or (len(name) == 4 and name[0] == "load" and name[3])
        if node.kind in OPAQUE and not behind:
            return True
    return False


def _is_first(node: Term, epoch: int) -> bool:
    """Is it a load of memory in an epoch, before any store of it?"""
    return is_load(node) and node.value[0][2] == epoch and not node.value[0][3]


class Memory:
    """The unknowns of memory, and which accesses meet. `bounds` tell more of that, while they are
    set. `ordered` tells of inequalities whether they hold where others do."""

    def __init__(
        self,
        terms: Terms,
        solver: Solver,
        ordered: Callable[[Term, tuple[Term, ...]], bool] = lambda *_: False,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """`check` ends what takes too long."""
        self.terms, self.check = terms, check
        self._ordered = ordered
        self._solver = solver
        self._aliasing = Aliasing(terms)
        self._cells: dict[Any, list[tuple[int, int, Term]]] = {}
        self._parameters: dict[Term, str] = {}
        self._claims: dict[tuple[Term, int, int], tuple[Term, ...]] = {}
        self._unknowns: dict[Term, frozenset[Term]] = {}
        self._true = terms.const(1, 1)
        self.bounds: Bounds | None = None
        # By the sum without its constant on which an address is built: instruction, the first byte
        # and how many, and the conditions.
        self._accesses: dict[Base, dict[tuple[int, int, int, frozenset[Term]], None]] = {}
        self._begin = Link()
        self._anywhere: dict[tuple[Base, Base, tuple[Term, ...]], bool | None] = {}
        self._noted = 0  # accesses, of all comparisons: what bounds tell may have changed since
        self._apart: dict[tuple[Bytes, Bytes, tuple[Term, ...], Bounds | None, int], bool] = {}

    def names_parameter(self, address: Term, name: str) -> None:
        """Note that an atom is the address of a kernel parameter."""
        self._parameters[address] = name

    def is_parameter(self, place: Term) -> bool:
        """Does the address lie in a kernel parameter?"""
        return any(t in self._parameters for t, _ in split(place)[1])

    # ------------------------------------------------------------ what the first text accesses

    def note_access(self, index: int, target: Bytes, given: Sequence[Term]) -> None:
        """An instruction of the first text accesses bytes where some conditions hold."""
        base, begin = based(target)
        accesses = self._accesses.setdefault(base, {})
        access = (index, begin, target.size, frozenset(given))
        if access not in accesses:
            accesses[access] = None
            self._noted += 1

    def forget_accesses(self) -> None:
        """Unknowns are about to mean something else."""
        self._accesses.clear()
        self._noted += 1

    def accessed(self, part: Bytes, given: Collection[Term]) -> frozenset[int]:
        """The instructions that access some bytes where some conditions hold."""
        base, begin = based(part)
        known = frozenset(given)
        return frozenset(
            index
            for index, first, size, told in self._accesses.get(base, ())
            if 0 <= wrapped(begin - first, part.place.width) <= size - part.size and told <= known
        )

    # ------------------------------------------------------------ where bytes lie

    def distance(self, a: Term, b: Term) -> int | None:
        """`a - b` in bytes where it is one number, read as signed; else None."""
        if a.width != b.width:
            return None
        (constant, items), (other, others) = split(a), split(b)
        return wrapped(constant - other, a.width) if items == others else None

    def _told_distance(self, a: Term, b: Term, given: Sequence[Term]) -> int | None:
        """The same, by what bounds tell, too."""
        known = self.distance(a, b)
        if known is None and self.bounds is not None:
            return self.bounds.distance(a, b, tuple(given))
        return known

    def apart(self, a: Bytes, b: Bytes, given: Sequence[Term]) -> bool:
        """Do the two surely have no byte in common?"""
        key = (a, b, tuple(given), self.bounds, 0 if self.bounds is None else self._noted)
        apart = self._apart.get(key)
        if apart is None:
            apart = self._apart[key] = self._are_apart(a, b, given)
        return apart

    def _are_apart(self, a: Bytes, b: Bytes, given: Sequence[Term]) -> bool:
        if a.space != b.space and "generic" not in (a.space, b.space):
            return True
        if a.space != b.space and not {a.space, b.space} <= {"generic", "global"}:
            return False  # the generic address may lie in the other's window
        if a.place.width != b.place.width:
            return False
        distance = self.distance(a.place, b.place)
        if distance is not None:
            return distance >= b.size or -distance >= a.size
        if self.bounds is not None and self.bounds.apart(a, b, tuple(given)):
            return True
        key = (self.terms.sub(a.place, b.place), b.size, a.size)
        claims = self._claims.get(key)
        if claims is None:
            claims = self._claims[key] = self._apart_claims(*key)
        told = tuple(given)
        return any(
            claim in told or self._ordered(claim, told) or self._soon(claim, key[0], told)
            if claim.kind != "const"
            else bool(claim.value)
            for claim in claims
        )

    def _soon(self, claim: Term, distance: Term, given: Sequence[Term]) -> bool:
        """Is a claim about a distance proved in a short while? Not where the conditions leave open
        what one of the values is that the distance is built on: then that may be any number."""
        return not self._is_free(distance, given) and self._solver.soon(claim, given)

    def _is_free(self, distance: Term, given: Sequence[Term]) -> bool:
        """Is an unknown added to a distance, or taken from it, of which nothing else speaks?"""
        _, items = split(distance)
        for value, factor in items:
            whole = value.kind in OPAQUE and ones(value) == (1 << value.width) - 1
            if factor & 1 and whole:
                others = (other for other, _ in items if other is not value)
                if not any(value in self._opaque_in(term) for term in (*others, *given)):
                    return True
        return False

    def _opaque_in(self, term: Term) -> frozenset[Term]:
        """The unknowns that a value is made of, or that others are made of which are in it."""
        unknowns = self._unknowns.get(term)
        if unknowns is None:
            unknowns = frozenset(node for node in walk(term) if node.kind in OPAQUE)
            self._unknowns[term] = unknowns
        return unknowns

    def _apart_claims(self, distance: Term, stored: int, loaded: int) -> tuple[Term, ...]:
        """Conditions under each of which ranges have no byte in common. Where their distance may
        be any number, what a text has tested may still tell: in one of two forms, of which the
        solver follows the one that resembles the test."""
        claim = self._aliasing.apart(distance, stored, loaded)
        if claim.kind != "const" or claim.value:
            return (claim,)
        terms, width = self.terms, distance.width
        reach = terms.const(stored + loaded - 1, width)
        return tuple(
            terms.not_(terms.ult(terms.add(signed, terms.const(size - 1, width)), reach))
            for signed, size in ((distance, loaded), (terms.neg(distance), stored))
        )

    # ------------------------------------------------------------ what they hold

    def load(
        self, stores: Sequence[Store], epoch: int, source: Bytes, given: Sequence[Term]
    ) -> Term:
        """The value of some bytes behind the stores of an epoch, where `given` holds: a term of
        8·size bits."""
        link = self._begin.behind(stores)
        without = None if self.bounds is not None else self._missed(link, source, tuple(given))
        if without is not None:
            left = link.joined(self.terms, source.size, without, self._parts)
            return self._cell((source.space, epoch), left, source)
        parts = [part for store in stores for part in self._parts(store, source.size)]
        return self._behind(parts, len(parts), epoch, source, given, 0)

    def _missed(self, link: Link, source: Bytes, given: tuple[Term, ...]) -> frozenset[Base] | None:
        """Of the stores of an epoch, what those are built on that surely do not hit some bytes,
        where it is plain of all others that they may be anywhere; else None."""
        base, _ = based(source)
        missed: list[Base] = []
        for other in link.bases:
            key = (base, other, given)
            if key not in self._anywhere:
                self._anywhere[key] = self._may_be_anywhere(base, other, given)
            anywhere = self._anywhere[key]
            if anywhere is None:
                return None
            if not anywhere:
                missed.append(other)
        return frozenset(missed)

    def _may_be_anywhere(self, base: Base, other: Base, given: tuple[Term, ...]) -> bool | None:
        """May what is built on one sum be at any distance from what is built on another? False
        where it lies elsewhere, and None where that takes a closer look."""
        (space, width, items), (stored, stored_width, stored_items) = base, other
        if space != stored and "generic" not in (space, stored):
            return False
        if space != stored and not {space, stored} <= {"generic", "global"}:
            return True
        if width != stored_width:
            return True
        if items == stored_items:
            return None
        distance = self.terms.sub(*(self.terms.sum(width, 0, i) for i in (stored_items, items)))
        return True if self._is_free(distance, given) else None

    def unread(
        self, stores: Sequence[Store], epoch: int, source: Bytes, given: Sequence[Term]
    ) -> Term:
        """As `load`, but nothing is found out about the stores: any of them may have hit."""
        return self._unknown(stores, epoch, source, None)

    def _parts(self, store: Store, size: int) -> Iterator[Store]:
        """A store as several of at most `size` bytes: which of them may hit the bytes that are
        looked at does not depend on how a text has merged them."""
        target, value = store.target, store.value
        if target.size <= size:
            yield store
            return
        for at in range(0, target.size, size):
            part = self.part(target, at, min(size, target.size - at))
            cut = self.terms.extract(value, 8 * at, 8 * part.size)
            yield Store(part, cut, store.guard, store.index)

    def _behind(
        self,
        stores: Sequence[Store],
        end: int,
        epoch: int,
        source: Bytes,
        given: Sequence[Term],
        depth: int,
    ) -> Term:
        for at in reversed(range(end)):
            store = stores[at]
            if end - at > _MAX_STORES or depth > _MAX_DEPTH:
                return self._unknown(stores[: at + 1], epoch, source, None)
            if self.apart(source, store.target, given):
                continue
            distance = None
            if store.target.space == source.space:
                distance = self._told_distance(source.place, store.target.place, given)
            if distance is None:
                return self._unknown(stores[: at + 1], epoch, source, given)
            return self._covered(stores, at, epoch, source, distance, given, depth + 1)
        return self._cell((source.space, epoch), (), source)

    def _covered(
        self,
        stores: Sequence[Store],
        at: int,
        epoch: int,
        source: Bytes,
        distance: int,
        given: Sequence[Term],
        depth: int,
    ) -> Term:
        """Bytes of which a store wrote some: those, and the rest from before it."""
        store, terms = stores[at], self.terms
        low, high = max(0, -distance), min(source.size, store.target.size - distance)

        def older(start: int, stop: int) -> Term:
            part = self.part(source, start, stop - start)
            return self._behind(stores, at, epoch, part, given, depth)

        value = terms.extract(store.value, 8 * (low + distance), 8 * (high - low))
        if store.guard is not self._true and store.guard not in given:
            value = terms.ite(store.guard, value, older(low, high))
        if low:
            value = terms.concat(value, older(0, low))
        if high < source.size:
            value = terms.concat(older(high, source.size), value)
        return value

    def part(self, whole: Bytes, start: int, size: int) -> Bytes:
        """Some of the bytes."""
        place = self.terms.add(whole.place, self.terms.const(start, whole.place.width))
        return Bytes(whole.space, place, size)

    def _unknown(
        self, stores: Sequence[Store], epoch: int, source: Bytes, given: Sequence[Term] | None
    ) -> Term:
        """What bytes hold after stores that may have hit them. Stores that surely did not are
        left out: a text may have moved them. Where some of a store's bytes are among these, each
        byte is looked at alone: a text may have split or merged the store."""
        met = [s for s in stores if given is None or not self.apart(source, s.target, given)]
        if not any(self._overlaps(source, s) for s in met):
            return self._left(met, epoch, source)
        value = self._left(met, epoch, self.part(source, 0, 1))
        for at in range(1, source.size):
            value = self.terms.concat(self._left(met, epoch, self.part(source, at, 1)), value)
        return value

    def _left(self, stores: Sequence[Store], epoch: int, source: Bytes) -> Term:
        """What stores leave in some bytes: of those at a known distance only what they store
        there counts, which is nothing or, of a single byte, all."""
        met: list[Written] = []
        for store in stores:
            target, value = store.target, store.value
            if self._overlaps(source, store):
                distance = self.distance(source.place, target.place)
                assert distance is not None and source.size == 1
                target, value = source, self.terms.extract(value, 8 * distance, 8)
            elif self._is_near(source, target):
                continue
            met.append((target.space, target.place, target.size, value, store.guard))
        return self._cell((source.space, epoch), joined(self.terms, met), source)

    def _is_near(self, source: Bytes, target: Bytes) -> bool:
        """Is it known how far apart the two are?"""
        near = source.space == target.space
        return near and self.distance(source.place, target.place) is not None

    def _overlaps(self, source: Bytes, store: Store) -> bool:
        """Does a store surely write some of the bytes?"""
        if not self._is_near(source, store.target):
            return False
        distance = self.distance(source.place, store.target.place)
        assert distance is not None
        return -source.size < distance < store.target.size

    def _cell(self, time: tuple[str, int], stores: tuple[Any, ...], source: Bytes) -> Term:
        """The unknown of some bytes. Each byte belongs to the unknown that covered it first."""
        constant, items = split(source.place)
        constant = wrapped(constant, source.place.width)
        cells = self._cells.setdefault((time, stores, source.place.width, items), [])
        pieces: list[Term] = []
        at, end = constant, constant + source.size
        while at < end:
            cell = next((c for c in cells if c[0] <= at < c[0] + c[1]), None)
            if cell is None:
                ends = [c[0] for c in cells if at < c[0] < end]
                cell = (at, min([end, *ends]) - at, self._fresh(time, stores, source, at, ends))
                cells.append(cell)
            begin, size, term = cell
            stop = min(end, begin + size)
            pieces.append(self.terms.extract(term, 8 * (at - begin), 8 * (stop - at)))
            at = stop
        value = pieces[0]
        for piece in pieces[1:]:
            value = self.terms.concat(piece, value)
        return value

    def _fresh(
        self,
        time: tuple[str, int],
        stores: tuple[Any, ...],
        source: Bytes,
        at: int,
        ends: Sequence[int],
    ) -> Term:
        constant, items = split(source.place)
        start = at - wrapped(constant, source.place.width)
        size = min([source.size, *(e - at + start for e in ends)]) - start
        if time[1] == CONSTANT and len(items) == 1 and items[0][0] in self._parameters:
            name = self._parameters[items[0][0]]
            shown = f"{name}+{at}" if at else name
            return self.terms.atom(shown, 8 * size, Variance.UNIFORM, None, Origin.PARAMETER)
        place = self.terms.add(source.place, self.terms.const(start, source.place.width))
        flattened = [t for _, place, _, value, guard in stores for t in (place, value, guard)]
        sizes = tuple((space, size) for space, _, size, _, _ in stores)
        name_of = ("load", *time, sizes)
        return self.terms.apply(name_of, 8 * size, (place, *flattened), Variance.LANE)
