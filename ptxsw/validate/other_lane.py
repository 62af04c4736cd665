"""A lane's values in terms of another lane's: the same text on other numbers.

A term becomes the other lane's by putting its numbers for `%laneid` and `%tid.x`; what is the same
for the whole warp stays, and so does memory that nobody writes. Every other value that may differ
between lanes becomes an unknown of which nothing is known.

At a generic address another lane finds what this lane finds there unless the address lies in local
memory, of which each lane has its own. So such a value holds where a test says that the pointer on
which the other lane's address is built does not.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from ptxsw.emulator.spaces import may_hold_pointer
from ptxsw.facts.loads import CONSTANT
from ptxsw.terms import op
from ptxsw.terms.evaluate import evaluate
from ptxsw.terms.node import Term, Variance, split, unknowns
from ptxsw.terms.substitution import substitute
from ptxsw.terms.terms import Terms
from ptxsw.validate.evaluate import BY_ZERO, IN_SPACE, lies_in
from ptxsw.validate.memory import Memory
from ptxsw.validate.memory_ssa import Bytes, Store

LANES = 32
_SHARED = ("global", "generic")
_LANE_BITS = 5


class Read(Struct, frozen=True):
    """Bytes that another lane has read in an epoch of a segment, at an address in this lane's words
    and in its `own`; behind `stores` of this lane, which may have hit them."""

    epoch: int
    target: Bytes
    own: Bytes
    stores: tuple[Bytes, ...] = ()


class SampleAddresses:
    """What addresses are for some numbers: twice in one lane, and then in the next one."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._samples: dict[Term, tuple[int, int, int]] = {}

    def of(self, place: Term) -> tuple[int, int, int]:
        """An address for these numbers."""
        samples = self._samples.get(place)
        if samples is None:
            first, other, after = (self._value(place, *t) for t in ((8, 3), (8, 11), (9, 3)))
            samples = self._samples[place] = first, other, after
        return samples

    def _value(self, place: Term, lane: int, factor: int) -> int:
        numbers = {node: factor * node.id % 4093 + 2048 for node in unknowns(place)}
        for name, number in (("%tid.x", 512 + lane), ("%laneid", lane)):
            numbers[self._terms.special(name)] = number
        return evaluate(place, numbers)


class Place(Struct, frozen=True):
    """Where in the warp another lane is: lane i + `total`, or lane `total` - i if `mirrored`."""

    total: int
    mirrored: bool = False

    def exists(self, terms: Terms) -> Term:
        """The condition that there is such a lane."""
        lane = lane_number(terms)
        if self.mirrored:
            least, most = self.total - LANES + 1, self.total
        else:
            least, most = -self.total, LANES - 1 - self.total
        low = terms.ule(terms.const(max(least, 0), 32), lane)
        return terms.and_(low, terms.ule(lane, terms.const(max(min(most, LANES - 1), 0), 32)))

    def number(self, terms: Terms, lane: Term) -> Term:
        """The other lane's number from this one's. No step of it wraps where there is the lane."""
        total = terms.const(self.total, lane.width)
        return terms.sub(total, lane) if self.mirrored else terms.add(lane, total)

    def __str__(self) -> str:
        return f"{self.total}-lane" if self.mirrored else f"lane{self.total:+}"


class _Moved(Struct, frozen=True):
    """A term in another lane, and what that rests on."""

    term: Term
    in_row: bool
    assumed: frozenset[str]
    tests: frozenset[Term]


MovedTerms = dict[tuple[Place, Term], _Moved]


class OtherLane:
    """Terms as the lane at a place has them, where there is one. `shared` tells which addresses
    are the same for all lanes, `assumptions` what has to be assumed so that both lanes find the
    same bytes in memory, or None. `assumed` collects that; `in_row` tells whether the values hold
    only where a warp lies in one row of the block, and `tests` are conditions without which they
    may not hold. `moved` keeps values, from one lane to the next."""

    def __init__(
        self,
        memory: Memory,
        place: Place,
        shared: Callable[[Term], bool],
        assumptions: Callable[[Read], frozenset[str] | None],
        moved: MovedTerms,
    ) -> None:
        self._moved = moved
        self._memory, self._place = memory, place
        self._terms = terms = memory.terms
        self._shared, self._assumptions = shared, assumptions
        self.assumed: frozenset[str] = frozenset()
        self.in_row = False
        self.tests: frozenset[Term] = frozenset()
        self._lane = lane_number(terms)
        self._column = terms.special("%tid.x")
        high = terms.extract(self._column, _LANE_BITS, 32 - _LANE_BITS)
        self._warp = high  # the same in all lanes that lie in one row
        self._low = terms.extract(self._column, 0, _LANE_BITS)  # in a row, the lane's number

    def value(self, term: Term) -> Term:
        """The value of a term in the other lane, in this lane's terms."""
        moved = self._moved.get((self._place, term))
        if moved is None:
            before = self.in_row, self.assumed, self.tests
            self.in_row, self.assumed, self.tests = False, frozenset(), frozenset()
            value = substitute(self._terms, term, self._leaf)
            moved = _Moved(value, self.in_row, self.assumed, self.tests)
            self._moved[self._place, term] = moved
            self.in_row, self.assumed, self.tests = before
        self.in_row = self.in_row or moved.in_row
        self.assumed |= moved.assumed
        self.tests |= moved.tests
        return moved.term

    def _leaf(self, node: Term) -> Term | None:
        inner = node.args[0] if node.kind is op.ZEXT else node
        if inner in (self._lane, self._low):
            self.in_row = self.in_row or inner is self._low
            return self._place.number(self._terms, node)
        if _is_of_warp(inner, self._column):
            self.in_row = True
            return node
        if inner is self._column:
            self.in_row = True
            return self._moved_column(node.width)
        if node.kind is op.ATOM:
            return self._atom(node)
        if node.kind is not op.APPLY or self._same_function(node):
            return None
        return self._read(node) or self._unknown(node)

    def _atom(self, node: Term) -> Term:
        if node.variance is Variance.UNIFORM or self._shared(node):
            return node
        if node.variance is Variance.ROW:
            self.in_row = True
            return node
        return self._unknown(node)

    def _moved_column(self, width: int) -> Term:
        """`%tid.x` of the other lane: no step wraps, since that is a thread of the same row."""
        if not self._place.mirrored:
            return self._place.number(self._terms, self._terms.zext(self._column, width))
        first = self._terms.scale(self._terms.zext(self._warp, width), LANES)
        lane = self._place.number(self._terms, self._terms.zext(self._low, width))
        return self._terms.add(first, lane)

    def _unknown(self, node: Term) -> Term:
        return self._terms.atom(f"{self._place}: {node.id}", node.width, Variance.LANE)

    def _same_function(self, node: Term) -> bool:
        """Do equal arguments give another lane the equal value?"""
        name = node.value[0]
        if name[0] in (BY_ZERO, IN_SPACE):
            return True
        if name[0] != "load" or name[1] not in ("global", "const", "param"):
            return False
        if len(name) == 2:  # of the symbolic run: memory that nobody writes
            return True
        return len(name) == 4 and name[2] == CONSTANT and not name[3]

    def _read(self, node: Term) -> Term | None:
        """What the other lane has read from memory that may be written, as this lane finds it; None
        where it may find something else. Stores before it are this lane's own: behind them, both
        find the same."""
        name = node.value[0]
        if len(name) != 4 or name[0] != "load" or name[1] not in _SHARED or name[2] < 0:
            return None
        place, *written = node.args
        parts = zip(name[3], written[0::3], written[1::3], written[2::3], strict=True)
        stores = [
            Store(Bytes(space, at, size), value, guard, 0)
            for (space, size), at, value, guard in parts
        ]
        here = Bytes(name[1], self.value(place), node.width // 8)
        pointer = _pointer(here.place) if here.space == "generic" else None
        if here.space == "generic" and pointer is None:
            return None
        # Whether two lanes find the same at one address depends on what the first text stores.
        targets = tuple(store.target for store in stores)
        own = Bytes(name[1], place, here.size)
        loaded = self._assumptions(Read(name[2], here, own, targets))
        if loaded is None:
            return None
        self.assumed |= loaded
        if pointer is not None:
            local = lies_in(self._terms, "local", pointer)
            self.tests |= {self._terms.not_(local)}
        return self._memory.load(stores, name[2], here, ())


def _pointer(place: Term) -> Term | None:
    """The pointer on which a generic address is built, if nothing else in it may be one."""
    pointers = [item for item in split(place)[1] if may_hold_pointer(item[0])]
    return pointers[0][0] if len(pointers) == 1 and pointers[0][1] == 1 else None


def _is_of_warp(node: Term, column: Term) -> bool:
    """Is it some bits of `%tid.x` that are the same in all lanes that lie in one row?"""
    return node.kind is op.EXTRACT and node.args[0] is column and node.value >= _LANE_BITS


def lane_number(terms: Terms) -> Term:
    return terms.special("%laneid")


def in_step(terms: Terms) -> Term:
    """The condition that a lane's number is what `%tid.x` is behind whole warps: so it is where
    lanes follow each other along `%tid.x`."""
    column = terms.special("%tid.x")
    low = terms.extract(column, 0, _LANE_BITS)
    return terms.eq(terms.zext(low, 32), lane_number(terms))


def neighbours(terms: Terms) -> Term:
    """The condition that lanes of a warp follow each other along `%tid.x`: rows hold whole warps,
    or there is one row. No size is 0, so one row is where no bit above the lowest is set in
    either."""
    x, y, z = (terms.special(f"%ntid.{axis}") for axis in "xyz")
    whole = terms.eq(terms.extract(x, 0, _LANE_BITS), terms.const(0, _LANE_BITS))
    flat = terms.eq(terms.or_(y, z), terms.const(1, 32))
    return terms.or_(whole, flat)
