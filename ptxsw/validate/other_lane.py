"""A lane's values in terms of another lane's: the same text on other numbers.

A term becomes the other lane's by putting its numbers for `%laneid` and `%tid.x`; what is the same
for the whole warp stays, and so does memory that nobody writes. Every other value that may differ
between lanes becomes an unknown of which nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from ptxsw.emulator.node import Term, Variance
from ptxsw.emulator.specials import SPECIALS
from ptxsw.emulator.terms import Terms
from ptxsw.validate.evaluate import BY_ZERO
from ptxsw.validate.memory import CONSTANT

LANES = 32
_LANE_BITS = 5


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


class OtherLane:
    """Terms as the lane at a place has them, where there is one. `shared` tells which addresses
    are the same for all lanes. Plain loads are followed where memory is `quiet` at their address;
    `raced` tells whether one was, and `in_row` whether the values hold only where a warp lies in
    one row of the block."""

    def __init__(
        self,
        terms: Terms,
        place: Place,
        shared: Callable[[Term], bool],
        quiet: Callable[[Term], bool],
    ) -> None:
        self._terms, self._place = terms, place
        self._shared, self._quiet = shared, quiet
        self._memo: dict[Term, Term] = {}
        self.raced = self.in_row = False
        self._lane = lane_number(terms)
        self._column = terms.atom("%tid.x", 32, *SPECIALS["%tid.x"])
        high = terms.extract(self._column, _LANE_BITS, 32 - _LANE_BITS)
        self._warp = high  # the same in all lanes that lie in one row
        self._low = terms.extract(self._column, 0, _LANE_BITS)  # in a row, the lane's number

    def value(self, term: Term) -> Term:
        """The value of a term in the other lane, said in this lane's words."""
        return self._terms.substitute(term, self._leaf, self._memo)

    def _leaf(self, node: Term) -> Term | None:
        inner = node.args[0] if node.kind == "zext" else node
        if inner in (self._lane, self._low):
            self.in_row = self.in_row or inner is self._low
            return self._place.number(self._terms, node)
        if inner is self._warp:
            self.in_row = True
            return node
        if inner is self._column:
            self.in_row = True
            return self._moved_column(node.width)
        if node.kind == "atom":
            return self._atom(node)
        if node.kind == "apply" and not self._same_function(node):
            return self._unknown(node)
        return None

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
        if name[0] == BY_ZERO:
            return True
        if name[0] != "load" or name[1] not in ("global", "const", "param"):
            return False
        if len(name) == 2:  # of the symbolic run: memory that nobody writes
            return True
        if len(name) != 4 or not isinstance(name[3], tuple) or name[3]:
            return False
        if name[2] == CONSTANT:
            return True
        quiet = name[1] == "global" and self._quiet(node.args[0])
        self.raced = self.raced or quiet
        return quiet


def lane_number(terms: Terms) -> Term:
    return terms.atom("%laneid", 32, *SPECIALS["%laneid"])


def neighbours(terms: Terms) -> Term:
    """The condition that lanes of a warp follow each other along `%tid.x`: rows hold whole warps,
    or there is one row. No size is 0, so one row is where no bit above the lowest is set in
    either."""

    def size(axis: str) -> Term:
        name = f"%ntid.{axis}"
        return terms.atom(name, 32, *SPECIALS[name])

    whole = terms.eq(terms.extract(size("x"), 0, _LANE_BITS), terms.const(0, _LANE_BITS))
    flat = terms.eq(terms.or_(size("y"), size("z")), terms.const(1, 32))
    return terms.or_(whole, flat)
