"""The stores of an epoch as a chain: what memory is after each of them.

    st [v], a;      memory behind a
    st [v+4], b;    memory behind a and b: the same for both texts, if they have stored the same

Each link is there once, whichever text has made it, so what was found out about it is kept: a load
behind many stores need not look at all of them again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from weakref import ref

from msgspec import Struct

from ptxsw.ptx.bits import wrapped
from ptxsw.terms.node import Term, split
from ptxsw.terms.terms import Terms
from ptxsw.validate.history import ADDRESS, NARROW, Layer, Written, add, joined, written_out

Base = tuple[str, int, tuple[tuple[Term, int], ...]]
"""What addresses are built on: space, width, and a sum without its constant."""


_MAX_OBJECTS = 4
"""So many objects that stand for a store are known by their numbers, without a look into them."""


class Bytes(Struct, frozen=True):
    """`size` bytes at `place`, counted from the start of `space` ("generic": not known)."""

    space: str
    place: Term
    size: int


class Store(Struct, frozen=True):
    """A plain store of `value` (8·size bits), made where `guard` holds."""

    target: Bytes
    value: Term
    guard: Term
    index: int  # of the instruction


CLAIMED = -1
"""The instruction of a store that tells how the memories of the two texts differ."""

StoreDifference = tuple[Sequence[Store], Sequence[Store]]
"""Stores by which the first text's memory, and the second's, differs from a common one."""
NOTHING: StoreDifference = ((), ())


def byte_distance(a: Term, b: Term) -> int | None:
    """`a - b` in bytes where it is one number, read as signed; else None."""
    if a.width != b.width:
        return None
    (constant, items), (other, others) = split(a), split(b)
    return wrapped(constant - other, a.width) if items == others else None


def bytes_behind(a: Bytes, b: Bytes) -> int | None:
    """The same of the places of two accesses to one space."""
    distance = byte_distance(a.place, b.place)
    return distance if distance is None else in_space(a.space, distance)


def in_space(space: str, distance: int) -> int:
    """The distance of two places in a space, from that of their addresses."""
    return wrapped(distance, ADDRESS) if space in NARROW else distance


def multiple(terms: Terms, place: Term, size: int) -> Term:
    """The condition that an address is a multiple of a power of two."""
    low = terms.extract(place, 0, size.bit_length() - 1)
    return terms.eq(low, terms.const(0, low.width))


def based(part: Bytes) -> tuple[Base, int]:
    """What an address is built on, and how far from there it begins."""
    constant, items = split(part.place)
    return (part.space, part.place.width, items), constant


class Link:
    """Memory behind a store, and behind all those before it."""

    __slots__ = (
        "__weakref__", "_behind", "_by_object", "_joined", "_layers", "_parent", "_parts", "base",
        "bases", "store", "widest",
    )  # fmt: skip

    def __init__(self, parent: Link | None = None, store: Store | None = None) -> None:
        # The first link is held by whose memory it is, and holds the others.
        self._parent, self.store = None if parent is None else ref(parent), store
        self.base: Base | None = None  # of the store
        self.bases: dict[Base, None] = {}
        self.widest = 0
        if parent is not None and store is not None:
            base, _ = based(store.target)
            self.base = base
            self.bases = parent.bases if base in parent.bases else {**parent.bases, base: None}
            self.widest = max(parent.widest, store.target.size)
        self._parts: dict[int, tuple[Written, ...]] = {}
        self._by_object: dict[int, tuple[Store, Link]] = {}
        self._behind: dict[Written, Link] = {}
        self._layers: list[Layer] | None = [] if parent is None else None
        self._joined: dict[tuple[int, frozenset[Base]], tuple[Written, ...]] = {}

    @property
    def parent(self) -> Link | None:
        """Memory before the store."""
        return None if self._parent is None else self._parent()

    def behind(self, stores: Iterable[Store]) -> Link:
        """Memory behind more stores."""
        link = self
        for store in stores:
            own = link._by_object.get(id(store))
            link = link._next(store) if own is None else own[1]
        return link

    def _next(self, store: Store) -> Link:
        """Memory behind a store, whoever made it."""
        written = as_written(store)
        child = self._behind.get(written)
        if child is None:
            child = self._behind[written] = Link(self, store)
        if len(self._by_object) < _MAX_OBJECTS:
            # The store is kept with it, so that its number is not given to another one.
            self._by_object[id(store)] = store, child
        return child

    def _links(self) -> Iterator[Link]:
        """Those of the stores, the last one first."""
        link: Link | None = self
        while link is not None and link.store is not None:
            yield link
            link = link.parent

    def _cut(
        self, size: int, parts: Callable[[Store, int], Iterable[Store]]
    ) -> tuple[Written, ...]:
        """The store as `parts` of at most `size` bytes."""
        cut = self._parts.get(size)
        if cut is None:
            assert self.store is not None
            cut = self._parts[size] = tuple(map(as_written, parts(self.store, size)))
        return cut

    def joined(
        self,
        terms: Terms,
        size: int,
        without: frozenset[Base],
        parts: Callable[[Store, int], Iterable[Store]],
    ) -> tuple[Written, ...]:
        """What the stores leave (`history.joined`), but for those built on some bases; each as
        `parts` of at most `size` bytes."""
        size = size if size < self.widest else 0
        answer = self._joined.get((size, without))
        if answer is None:
            if size or without:
                links = reversed([one for one in self._links() if one.base not in without])
                cut = (part for one in links for part in one._cut(size or self.widest, parts))
                answer = joined(terms, cut)
            else:
                answer = written_out(terms, self._taken())
            self._joined[size, without] = answer
        return answer

    def _taken(self) -> list[Layer]:
        """The layers that the stores make: those of an earlier link, which has no more use for
        them, and what was stored since."""
        # Each link adds one store to the layers of the link before. The layers are handed on, not
        # copied: copying would make n² steps of a chain of n stores.
        link, since = self, list[Store]()
        while link._layers is None:
            assert link.parent is not None and link.store is not None
            since.append(link.store)
            link = link.parent
        layers = link._layers
        link._layers = None if link.parent is not None else []
        for store in reversed(since):
            add(layers, as_written(store))
        self._layers = layers
        return layers


def as_written(store: Store) -> Written:
    """A store without the instruction that made it."""
    target = store.target
    return target.space, target.place, target.size, store.value, store.guard
