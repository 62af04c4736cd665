"""The effect of a list of stores, in a form that does not depend on how many instructions made it.

    st.u32 [a], x;  st.u32 [a+4], y;  st.u32 [b], z;
    st.v2.u32 [a], {x, y};            st.u32 [b], z;        the same list

Stores to one base under one guard are joined, as long as none in between may hit the same bytes.
Only what shows in the addresses counts: no solver is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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
