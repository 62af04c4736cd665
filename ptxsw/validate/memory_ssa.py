"""The stores of an epoch in memory SSA: a version of memory stands behind each of them.

    st [v], a;      a version behind the first one
    st [v+4], b;    one behind that: the same for both texts, if they have stored the same

Each version is there once, whichever text has made it, so what was found out about it is kept: a
load behind many stores need not look at all of them again. What stores leave is said in a form that
does not depend on how many instructions made it:

    st.u32 [a], x;  st.u32 [a+4], y;  st.u32 [b], z;
    st.v2.u32 [a], {x, y};            st.u32 [b], z;        the same list

Stores to one base under one guard are joined, as long as none in between may hit the same bytes.
Only what shows in the addresses counts: no solver is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from weakref import ref

from msgspec import Struct, field

from ptxsw.ptx.bits import wrapped
from ptxsw.terms import op
from ptxsw.terms.node import Term, split
from ptxsw.terms.terms import Terms

NARROW = frozenset({"shared", "local"})
"""Spaces whose addresses have 32 bits: of a wider register the low ones count (manual 6.4.1)."""
ADDRESS = 32
"""Bits of an address in such a space."""

Written = tuple[str, Term, int, Term, Term]
"""The space, place and size of a store, its value and its guard."""

Base = tuple[str, int, tuple[tuple[Term, int], ...]]
"""What addresses are built on: space, width, and a sum without its constant."""


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


def known_distance(a: Bytes, b: Bytes) -> int | None:
    """The same of the places of two accesses; None where their spaces differ."""
    distance = byte_distance(a.place, b.place) if a.space == b.space else None
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


class Version:
    """Memory behind a store, and behind all those before it."""

    __slots__ = (
        "__weakref__", "_behind", "_joined", "_layers", "_parent", "base",
        "bases", "store", "widest",
    )  # fmt: skip

    def __init__(self, parent: Version | None = None, store: Store | None = None) -> None:
        # The first version is held by whose memory it is, and holds the others.
        self._parent, self.store = None if parent is None else ref(parent), store
        self.base: Base | None = None  # of the store
        self.bases: dict[Base, None] = {}
        self.widest = 0
        if parent is not None and store is not None:
            base, _ = based(store.target)
            self.base = base
            self.bases = parent.bases if base in parent.bases else {**parent.bases, base: None}
            self.widest = max(parent.widest, store.target.size)
        self._behind: dict[Written, Version] = {}
        self._layers: list[Layer] | None = [] if parent is None else None
        self._joined: dict[tuple[int, frozenset[Base]], tuple[Written, ...]] = {}

    @property
    def parent(self) -> Version | None:
        """Memory before the store."""
        return None if self._parent is None else self._parent()

    def behind(self, stores: Iterable[Store]) -> Version:
        """Memory behind more stores, whoever made them."""
        version = self
        for store in stores:
            written = as_written(store)
            child = version._behind.get(written)
            if child is None:
                child = version._behind[written] = Version(version, store)
            version = child
        return version

    def _versions(self) -> Iterator[tuple[Base | None, Store]]:
        """The stores, the last one first, each with what its address is built on."""
        version: Version | None = self
        while version is not None and version.store is not None:
            yield version.base, version.store
            version = version.parent

    def joined(
        self,
        terms: Terms,
        size: int,
        without: frozenset[Base],
        parts: Callable[[Store, int], Iterable[Store]],
    ) -> tuple[Written, ...]:
        """What the stores leave (`joined`), but for those built on some bases; each as
        `parts` of at most `size` bytes."""
        size = size if size < self.widest else 0
        answer = self._joined.get((size, without))
        if answer is None:
            if size or without:
                stores = [store for base, store in self._versions() if base not in without]
                cut = (p for store in reversed(stores) for p in parts(store, size or self.widest))
                answer = joined(terms, map(as_written, cut))
            else:
                answer = written_out(terms, self._taken())
            self._joined[size, without] = answer
        return answer

    def _taken(self) -> list[Layer]:
        """The layers that the stores make: those of an earlier one, which has no more use for
        them, and what was stored since."""
        # Each version adds one store to the layers of the one before. The layers are handed on, not
        # copied: copying would make n² steps of a chain of n stores.
        version, since = self, list[Store]()
        while version._layers is None:
            assert version.parent is not None and version.store is not None
            since.append(version.store)
            version = version.parent
        layers = version._layers
        version._layers = None if version.parent is not None else []
        for store in reversed(since):
            add(layers, as_written(store))
        self._layers = layers
        return layers


def as_written(store: Store) -> Written:
    """A store without the instruction that made it."""
    target = store.target
    return target.space, target.place, target.size, store.value, store.guard


# ---------------------------------------------------------------- what stores leave


class Layer(Struct, frozen=True):
    """Bytes stored to one base under one guard: values by their offsets."""

    space: str
    width: int
    items: tuple[tuple[Term, int], ...]
    guard: Term
    pieces: dict[int, Term] = field(default_factory=dict)
    numbers: set[int] = field(default_factory=set)  # of all bytes of the pieces

    def is_for(self, other: Layer) -> bool:
        return self.is_near(other) and self.guard is other.guard

    def is_near(self, other: Layer) -> bool:
        """Is the distance of the two known?"""
        return (self.space, self.width, self.items) == (other.space, other.width, other.items)

    def is_apart(self, other: Layer) -> bool:
        """Have the two surely no byte in common?"""
        if self.space != other.space:
            return "generic" not in (self.space, other.space)
        return self.is_near(other) and self.numbers.isdisjoint(other.numbers)


def joined(terms: Terms, stores: Iterable[Written]) -> tuple[Written, ...]:
    """The same stores with adjacent ones joined, each at the earliest position possible."""
    layers: list[Layer] = []
    for store in stores:
        add(layers, store)
    return written_out(terms, layers)


def add(layers: list[Layer], store: Written) -> None:
    """Let layers hold one more store."""
    new = _layer(store)
    place: Layer | None = None
    # A store may move up past layers that it certainly misses, to the earliest layer of its own
    # base. It must not pass one that it may hit, since the later store wins.
    for layer in reversed(layers):
        if not layer.is_apart(new):
            break
        place = layer if layer.is_for(new) else place
    if place is None:
        layers.append(new)
    else:
        place.pieces.update(new.pieces)
        place.numbers.update(new.numbers)


def written_out(terms: Terms, layers: Iterable[Layer]) -> tuple[Written, ...]:
    """The stores that layers stand for."""
    return tuple(one for layer in layers for one in _written(terms, layer))


def _layer(store: Written) -> Layer:
    """One store alone. Its value is taken apart where it was put together from parts."""
    space, place, _, value, guard = store
    constant, items = split(place)
    begin = at = wrapped(constant, place.width)
    width = ADDRESS if space in NARROW else place.width
    # Offsets are compared as whole numbers. Below a quarter of the address space no difference of
    # two of them is a multiple of 2^width.
    # (A text that ptxas refuses may have a predicate for an address.)
    if abs(at) >= (1 << width) // 4:
        begin, at, items = 0, 0, ((place, 1),)  # so far off that offsets might wrap
    pieces: dict[int, Term] = {}
    work = [value]
    while work:
        part = work.pop()
        if part.kind is op.CONCAT and all(p.width % 8 == 0 for p in part.args):
            work.extend(part.args)  # the high part first, so that the low one is next
        else:
            pieces[at] = part
            at += part.width // 8
    return Layer(space, place.width, items, guard, pieces, set(range(begin, at)))


def _written(terms: Terms, layer: Layer) -> Iterator[Written]:
    """The runs of bytes without gaps."""
    base = terms.const(0, layer.width)
    for term, factor in layer.items:
        base = terms.add(base, terms.scale(term, factor))
    runs: list[tuple[int, Term]] = []
    for at, value in sorted(layer.pieces.items()):
        if runs and runs[-1][0] + runs[-1][1].width // 8 == at:
            start, before = runs.pop()
            runs.append((start, terms.concat(value, before)))
        else:
            runs.append((at, value))
    for at, value in runs:
        place = terms.add(base, terms.const(at, layer.width))
        yield layer.space, place, value.width // 8, value, layer.guard
