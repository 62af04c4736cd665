"""Loads that may get their value from an earlier load of a lane nearby.

Loads are grouped by the class of their address: its polynomial without the constant. Within a
class the offset and the lane stride give N. Two classes that differ in the sign of the lane
stride alone hold one another's mirror images. Nothing is proved here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from msgspec import Struct

from ptxsw.emulator.trace import Access, Trace
from ptxsw.facts.lane_views import is_lane_bits, thread_bits
from ptxsw.ptx import isa
from ptxsw.ptx.bits import wrapped
from ptxsw.ptx.ir import type_width
from ptxsw.terms import op
from ptxsw.terms.digits import is_digit, is_remainder
from ptxsw.terms.node import Term, Variance, split
from ptxsw.terms.polynomial import Monomial, Polynomial
from ptxsw.terms.readings import MAX_MONOMIALS, UnwrappedReading, is_lane_atom
from ptxsw.terms.terms import Terms

Key = frozenset[tuple[Monomial, int]]
Class = frozenset[tuple[Key, int]]

_SOURCES_TRIED = 4
"""Of several earlier loads at one address the newest few are tried, and the first: it is the
likeliest to lie on every path."""

_MIRRORS = range(1, 62)
"""Lane K - i exists for two lanes at least; for K = 31 it does for all of them."""


class Place(Struct, frozen=True):
    """Where an access lies in its class of addresses: `offset` and `stride` in bytes; stride 0
    where the address does not grow with the lane."""

    key: Class
    offset: int
    stride: int

    @property
    def mirrored(self) -> Class:
        """The class of the addresses that grow the other way from lane to lane."""
        return frozenset(
            (frozenset((m, -c if any(map(is_lane_index, m)) else c) for m, c in key), offset)
            for key, offset in self.key
        )


class View(Struct, frozen=True):
    """Where one path sees an access: `alone` is its class where no other path sees another."""

    key: Key
    alone: Class
    offset: int
    stride: int

    def moved(self, by: int) -> View:
        return View(self.key, self.alone, self.offset + by, self.stride)


class Candidate(Struct, frozen=True):
    """Element `dest_element` of `dest` in lane i may equal element `element` of `source` in lane
    i + `delta`, or `delta` - i where `mirror` is set, read `displacement` bytes further on.

    The claim about addresses: source (other lane) + `displacement` == dest (lane i). A
    displacement belongs to a load that is made for others, as the halo of a row is: it stands
    where the source stands, at the source's own address and that many bytes.
    """

    dest: Access
    source: Access
    delta: int
    element: int = 0
    dest_element: int = 0
    mirror: bool = False
    displacement: int = 0

    @property
    def crosses(self) -> bool:
        """Is it a value of another lane?"""
        return self.mirror or self.delta != 0


def is_lane_index(term: Term) -> bool:
    """Does the term grow by one from lane to lane of a warp? `%laneid` does, and where rows do
    not wrap inside the warp `%tid.x` and `%tid.x & 31`, too."""
    return is_lane_atom(term) or is_lane_bits(term)


# In classes `%tid.x` counts as 32 times its upper bits and its lower five. Terms of no trace.
_UPPER, _LOWER = thread_bits(Terms())


class Places:
    """The places of the global loads of one trace."""

    def __init__(self, trace: Trace) -> None:
        self._unwrapped = trace.unwrapped
        self._known: dict[int, Place | None] = {}
        self._growths: dict[Monomial, int | None] = {}
        # Of sums without their constants: terms and coefficients.
        self._views: dict[tuple[tuple[Term, int], ...], View | None] = {}

    def of(self, load: Access) -> Place | None:
        """The place of a load; None where the stride is no constant, or not the same on every
        path. Where paths see different addresses, the class holds them all, each by its distance
        from the lowest."""
        if load.index not in self._known:
            self._known[load.index] = self._of(load)
        return self._known[load.index]

    def _of(self, access: Access) -> Place | None:
        views = [self._view(variant.address) for variant in access.variants]
        if len(views) == 1:  # mostly
            (view,) = views
            return None if view is None else Place(view.alone, view.offset, view.stride)
        told = [view for view in views if view is not None]
        strides = {view.stride for view in told}
        if len(told) < len(views) or len(strides) != 1:
            return None
        lowest = min(view.offset for view in told)
        key = frozenset((view.key, view.offset - lowest) for view in told)
        return Place(key, lowest, strides.pop())

    def _view(self, address: Term) -> View | None:
        """Where one path sees an address. Of sums that differ in a constant, so do the offsets."""
        constant, items = split(address)
        constant = wrapped(constant, address.width)
        if items in self._views:
            view = self._views[items]
            return None if view is None else view.moved(constant)
        whole = self._unwrapped.polynomial(address)
        view = self._read(whole)
        # A constant makes one monomial more, and may be what makes a polynomial too long.
        if (address,) not in whole.coefficients and len(whole.items) < MAX_MONOMIALS:
            self._views[items] = None if view is None else view.moved(-constant)
        return view

    def _read(self, whole: Polynomial) -> View | None:
        polynomial, stride = _split(whole), 0
        for monomial, coefficient in polynomial:
            growth = self._growth(monomial)
            if growth is None:
                return None
            stride += coefficient * growth
        key = polynomial.varying
        return View(key, frozenset({(key, 0)}), polynomial.offset, stride)

    def _growth(self, monomial: Monomial) -> int | None:
        """What a monomial grows by from lane to lane; None where that is no constant, as in
        tid.x · n."""
        if monomial not in self._growths:
            varying = [term for term in monomial if term.variance is not Variance.UNIFORM]
            grown = sum(_growth(self._unwrapped, term) for term in varying)
            self._growths[monomial] = None if grown and len(monomial) > 1 else grown
        return self._growths[monomial]


def _growth(unwrapped: UnwrappedReading, term: Term) -> int:
    """What a term grows by from lane to lane; a remainder, inside a row."""
    if is_lane_index(term):
        return 1
    if not (is_digit(term) and is_remainder(term)):
        return 0
    step = unwrapped.lane_step(term.args[0])
    return (step.number or 0) if step is not None else 0


def _split(polynomial: Polynomial) -> Polynomial:
    """The polynomial with the whole of `%tid.x` in its two parts."""
    if not any([len(m) == 1 and _is_of_thread(m[0]) for m, _ in polynomial]):
        return polynomial
    split: list[tuple[Monomial, int]] = []
    for monomial, coefficient in polynomial:
        parts: tuple[tuple[Monomial, int], ...] = ((monomial, coefficient),)
        if len(monomial) == 1:
            (term,) = monomial
            if _is_thread(term):
                parts = (((_UPPER,), 32 * coefficient), ((_LOWER,), coefficient))
            elif is_lane_bits(term):
                parts = (((_LOWER,), coefficient),)
            elif term.kind is op.EXTRACT and term.value == 5 and _is_thread(term.args[0]):
                parts = (((_UPPER,), coefficient),)
        split += parts
    return Polynomial.of(split)


def _is_of_thread(term: Term) -> bool:
    """Is it `%tid.x`, or bits of it?"""
    return _is_thread(term) or (term.kind is op.EXTRACT and _is_thread(term.args[0]))


def _is_thread(term: Term) -> bool:
    return term.kind is op.ATOM and term.value == "%tid.x"


_Element = tuple[Access, int]  # a load and the number of one of its elements


class _Earlier:
    """Elements of the loads seen so far, by class, stride and offset."""

    def __init__(self, max_delta: int) -> None:
        self._deltas = range(-max_delta, max_delta + 1)
        # A mirrored lane may be up to 31 lanes away: with a smaller limit mirrors are not wanted.
        self._mirrors = _MIRRORS if max_delta >= 31 else range(0)
        self._elements: dict[tuple[Class, int], dict[int, list[_Element]]] = {}
        self._strides: set[int] = set()

    def candidates(self, dest: Access, where: Place) -> tuple[list[Candidate], ...]:
        """Where each element may come from: nearest lanes first, newest sources first."""
        reuses: tuple[list[Candidate], ...] = tuple([] for _ in range(dest.elements))
        stride = where.stride
        same = self._elements.get((where.key, stride), {})
        other: Mapping[int, list[_Element]] = {}
        if stride and self._mirrors and -stride in self._strides:
            other = self._elements.get((where.mirrored, -stride), {})
        for element, own in enumerate(reuses if same or other else ()):
            offset = where.offset + element * dest.bits // 8
            deltas = _multiples(same, offset, -stride, self._deltas) if stride else (0,)
            for delta in sorted(deltas, key=lambda n: (abs(n), n)):
                for source, number in reversed(same.get(offset - delta * stride, ())):
                    own.append(Candidate(dest, source, delta, number, element))
            totals = _multiples(other, offset, stride, self._mirrors)
            for total in sorted(totals, key=lambda n: (abs(n - 31), n)):
                for source, number in reversed(other[offset + total * stride]):
                    own.append(Candidate(dest, source, total, number, element, mirror=True))
        return reuses

    def add(self, access: Access, where: Place) -> None:
        self._strides.add(where.stride)
        here = self._elements.setdefault((where.key, where.stride), {})
        for element in range(access.elements):
            loads = here.setdefault(where.offset + element * access.bits // 8, [])
            loads.append((access, element))
            del loads[1 : 1 - _SOURCES_TRIED]  # keeps the first and the newest


def _multiples(offsets: Collection[int], start: int, step: int, among: range) -> list[int]:
    """The numbers n of a range for which `start + n * step` is one of some offsets."""
    if len(offsets) < len(among):
        pairs = (divmod(offset - start, step) for offset in offsets)
        return [n for n, rest in pairs if not rest and n in among]
    return [n for n in among if start + n * step in offsets]


def candidates(
    trace: Trace, max_delta: int, places: Places | None = None
) -> Iterator[tuple[Access, tuple[list[Candidate], ...]]]:
    """For each global load, in program order, and for each of its elements (one, unless it is a
    vector load), where the value may come from: this lane, the nearest lanes, mirrored lanes.
    Linear in the number of loads for a fixed `max_delta`. Others may ask for the same `places`."""
    places = places or Places(trace)
    earlier = _Earlier(max_delta)
    for access in trace.global_loads:
        where = places.of(access)
        if where is None:
            yield access, tuple([] for _ in range(access.elements))
            continue
        yield access, earlier.candidates(access, where)
        earlier.add(access, where)


_PLAIN = frozenset({"weak", "global", "nc", "ca", "cg", "cs", "lu", "v2", "v4", "v8"})
_HINTS = ("L1::", "L2::", "level::")


def is_plain(access: Access) -> bool:
    """Is it an ordinary load: `ld`, weak, with nothing but a space, a cache operator, hints, and
    what it loads? `.cv` is not: it asks for the memory as it is now."""
    instruction = access.instruction
    if isa.effects(instruction.opcode, instruction.modifiers) & ~isa.Effect.READ:
        return False
    return instruction.opcode == "ld" and all(
        m in _PLAIN or m.startswith(_HINTS) or type_width(m) for m in instruction.modifiers
    )
