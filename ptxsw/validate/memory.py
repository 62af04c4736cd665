"""Memory as both texts see it: what a load reads is a function of address and epoch.

An epoch lasts from one event that touches or orders memory to the next. Within one, a thread sees
its own plain stores and otherwise what was there when the epoch began. So a loaded value is, byte
by byte, either what a store of the epoch wrote, or an unknown that belongs to the bytes: the same
unknown for both texts and for every access that covers these bytes, whatever its width. Where a
store may or may not have hit the bytes, the unknown belongs to the bytes and to all such stores
in their order: it is `("load", space, epoch, sizes)` over the address, then over place, value and
guard of each of these stores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from ptxsw.facts.loads import CONSTANT, is_load
from ptxsw.ptx.bits import wrapped
from ptxsw.ptx.ir import Variable, type_width
from ptxsw.terms import op
from ptxsw.terms.node import Term, Variance, split, unknowns
from ptxsw.terms.origin import Origin
from ptxsw.terms.solver import Solver
from ptxsw.terms.terms import Terms
from ptxsw.validate.alias_analysis import AliasAnalysis
from ptxsw.validate.memory_ssa import (
    Base,
    Bytes,
    Store,
    Version,
    Written,
    based,
    joined,
    known_distance,
)

# Older stores of an epoch are not compared with a load: they may all have hit it.
_MAX_STORES = 256
_MAX_DEPTH = 64


def _overlap(source: Bytes, store: Store, distance: int | None) -> bool:
    """Does a store surely write some bytes that begin at a distance from it?"""
    return distance is not None and -source.size < distance < store.target.size


class Memory:
    """The unknowns of memory. `aliases` decides which accesses overlap."""

    def __init__(
        self,
        terms: Terms,
        solver: Solver,
        ordered: Callable[[Term, tuple[Term, ...]], bool] = lambda *_: False,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """`ordered` decides whether an inequality follows from conditions; `check` raises if the
        proof takes too long."""
        self.terms, self.check = terms, check
        self.aliases = AliasAnalysis(terms, solver, ordered)
        # By time, stores and the sum in an address: of each byte the unknown, and where it begins.
        self._cells: dict[Any, dict[int, tuple[int, Term]]] = {}
        self._parameters: dict[Term, Variable] = {}
        self._true = terms.const(1, 1)
        self._begin = Version()
        self._anywhere: dict[tuple[Base, Base, tuple[Term, ...]], bool | None] = {}

    def names_parameter(self, address: Term, parameter: Variable) -> None:
        """Note that an atom is the address of a kernel parameter."""
        self._parameters[address] = parameter

    def is_parameter(self, place: Term) -> bool:
        """Is the address built on that of a kernel parameter?"""
        return any(t in self._parameters for t, _ in split(place)[1])

    def is_in_parameter(self, target: Bytes) -> bool:
        """Do these bytes surely lie in a kernel parameter, aligned as an access has to be?"""
        offset, items = split(target.place)
        if len(items) != 1 or items[0][1] != 1 or items[0][0] not in self._parameters:
            return False
        parameter, size = self._parameters[items[0][0]], target.size
        align = parameter.align or type_width(parameter.type) // 8
        return offset + size <= parameter.size and offset % size == 0 == align % size

    # ------------------------------------------------------------ what they hold

    def load(
        self, stores: Sequence[Store], epoch: int, source: Bytes, given: Sequence[Term]
    ) -> Term:
        """The value of some bytes behind the stores of an epoch, where `given` holds: a term of
        8·size bits."""
        # The fast path: if each store either certainly misses or may be anywhere, the unknown is
        # named by the list of those that may hit, which the version has ready. With bounds of
        # indices more may be known about a store, so each is looked at.
        version = self._begin.behind(stores)
        without = (
            None if self.aliases.bounds is not None else self._missed(version, source, tuple(given))
        )
        if without is not None:
            left = version.joined(self.terms, source.size, without, self._parts)
            return self._cell((source.space, epoch), left, source)
        parts = [part for store in stores for part in self._parts(store, source.size)]
        return self._behind(parts, len(parts), epoch, source, given, 0)

    def _missed(
        self, version: Version, source: Bytes, given: tuple[Term, ...]
    ) -> frozenset[Base] | None:
        """The bases of those stores of an epoch that certainly miss some bytes, if it is plain that
        all other stores may be anywhere; else None."""
        base, _ = based(source)
        missed: list[Base] = []
        for other in version.bases:
            key = (base, other, given)
            if key not in self._anywhere:
                self._anywhere[key] = self.aliases.may_be_anywhere(base, other, given)
            anywhere = self._anywhere[key]
            if anywhere is None:
                return None
            if not anywhere:
                missed.append(other)
        return frozenset(missed)

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
            if self.aliases.apart(source, store.target, given):
                continue
            distance = None
            if store.target.space == source.space:
                distance = self.aliases.distance(source, store.target, given)
            if distance is None:
                return self._unknown(stores[: at + 1], epoch, source, given)
            # Bounds may tell the distance of two places that they do not call apart.
            if distance >= store.target.size or -distance >= source.size:
                continue
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
        """The value of bytes that a store wrote in part: its bytes, and the rest as before it."""
        store, terms = stores[at], self.terms
        low, high = max(0, -distance), min(source.size, store.target.size - distance)

        def older(start: int, stop: int) -> Term:
            part = self.part(source, start, stop - start)
            return self._behind(stores, at, epoch, part, given, depth)

        # `distance` bytes into the store the load begins; it covers bytes `low` to `high` of it.
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
        met = [
            s for s in stores if given is None or not self.aliases.apart(source, s.target, given)
        ]
        distances = (known_distance(source, s.target) for s in met)
        if not any(map(partial(_overlap, source), met, distances)):
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
            distance = known_distance(source, target)
            if distance is not None and _overlap(source, store, distance):
                assert source.size == 1
                target, value = source, self.terms.extract(value, 8 * distance, 8)
            elif distance is not None:
                continue
            met.append((target.space, target.place, target.size, value, store.guard))
        return self._cell((source.space, epoch), joined(self.terms, met), source)

    def _cell(self, time: tuple[str, int], stores: tuple[Any, ...], source: Bytes) -> Term:
        """The unknown of some bytes. Each byte belongs to the unknown that covered it first."""
        constant, items = split(source.place)
        constant = wrapped(constant, source.place.width)
        cells = self._cells.setdefault((time, stores, source.place.width, items), {})
        pieces: list[Term] = []
        at, end = constant, constant + source.size
        while at < end:
            # A wide load after narrow ones is a concatenation of their unknowns, a narrow load
            # after a wide one is a part of its unknown. So equal bytes are always one term.
            if at not in cells:
                until = next((byte for byte in range(at, end) if byte in cells), end)
                cell = at, self._fresh(time, stores, source, at, until)
                cells.update(dict.fromkeys(range(at, until), cell))
            begin, value = cells[at]
            stop = min(end, begin + value.width // 8)
            pieces.append(self.terms.extract(value, 8 * (at - begin), 8 * (stop - at)))
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
        until: int,
    ) -> Term:
        """The unknown from one byte to another: counted as the constant of the place is."""
        constant, items = split(source.place)
        start, size = at - wrapped(constant, source.place.width), until - at
        if time[1] == CONSTANT and len(items) == 1 and items[0][0] in self._parameters:
            name = self._parameters[items[0][0]].name
            shown = f"{name}+{at}" if at else name
            of = (name, str(at))
            return self.terms.atom(shown, 8 * size, Variance.UNIFORM, None, Origin.PARAMETER, of)
        place = self.terms.add(source.place, self.terms.const(start, source.place.width))
        flattened = [t for _, place, _, value, guard in stores for t in (place, value, guard)]
        sizes = tuple((space, size) for space, _, size, _, _ in stores)
        name_of = ("load", *time, sizes)
        return self.terms.apply(name_of, 8 * size, (place, *flattened), Variance.LANE)


# ---------------------------------------------------------------- loaded values


def holds_first(value: Term) -> bool:
    """Is some of a loaded value what memory held before any store of an epoch?"""
    return any(node.kind is not op.FLOAT and not _stores_of(node) for node in unknowns(value))


def stores_before(value: Term) -> frozenset[Bytes]:
    """Those stores that may have hit whatever a loaded value has of memory: each part of it is
    told by what they have left there."""
    hits = [_stores_of(node) for node in unknowns(value)]
    return hits[0].intersection(*hits[1:]) if hits else frozenset()


def _stores_of(unknown: Term) -> frozenset[Bytes]:
    """The stores behind which an unknown is what memory held."""
    kinds = unknown.value[0][3] if is_load(unknown) else ()
    stores = zip(kinds, unknown.args[1::3], strict=True) if kinds else ()
    return frozenset(Bytes(space, place, size) for (space, size), place in stores)


def used_part(terms: Terms, value: Term, mask: int | None, at: int) -> Term:
    """What a load leaves of a value that lies `at` so many bytes behind its address. Where the mask
    says that some of its bytes are not used, nothing is known of it but that it is the same each
    time."""
    every = (1 << value.width // 8) - 1
    used = every if mask is None else (mask >> at) & every
    if used == every:
        return value
    return terms.apply(("used bytes", used), value.width, (value,), Variance.UNIFORM)
