"""A path through one text: what it has computed, accessed and asked, and how it ends.

A path of thousands of accesses is compared with another one. Of each access only those matter, as
a rule, that lie at a known distance: their addresses are sums of the same terms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from typing import Any

from msgspec import Struct, field

from ptxsw.emulator.operand_reader import Get
from ptxsw.facts.conditions import assumed
from ptxsw.ptx.bits import wrapped
from ptxsw.ptx.ir import Instruction, Reg
from ptxsw.terms.node import Term
from ptxsw.terms.terms import Terms
from ptxsw.validate.memory_ssa import Base, Bytes, Store, based


class Touch(Struct, frozen=True):
    """A plain load or store. `before` is how many events the path had seen; `nc`: a load that
    says that nobody writes these bytes; `parted`: lanes of a warp may have gone other ways before;
    `mask`: which lanes are here, if that has been asked. `fresh`: may a load give some of what
    memory held when the epoch began? `behind`: the stores that may have hit all that it gives."""

    target: Bytes
    guard: Term
    index: int
    before: int
    loads: bool
    nc: bool = False
    parted: bool = False
    mask: Term | None = None
    fresh: bool = True
    behind: frozenset[Bytes] = frozenset()


class Event(Struct, frozen=True):
    """Something both texts must do: what it is, with which operands, and whether it happens.
    `mask`: which lanes are here, if that has been asked."""

    index: int
    instruction: Instruction
    what: tuple[Any, ...]
    operands: tuple[Term, ...]
    guard: Term
    epoch: int  # the epoch of memory that it ends or leaves alone
    mask: Term | None = None


class End(Struct, frozen=True):
    """How a path ends: "cut" at a place of comparison, "exit", "trap", or "brx", whose index
    chooses among `targets`."""

    kind: str
    index: int  # of the last instruction
    position: int = 0
    chosen: Term | None = None
    targets: tuple[int, ...] = ()


class Path(Struct):
    """A path through one text and what happened on it."""

    base: Get
    conditions: tuple[Term, ...]
    position: int
    written: dict[Reg, Term] = field(default_factory=dict)
    stores: list[list[Store]] = field(default_factory=lambda: [[]])  # by epoch
    touches: list[Touch] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    end: End | None = None
    forked: bool = False  # has a condition decided where it goes?
    parted: bool = False  # may lanes of a warp have decided differently?
    mask: Term | None = None  # which lanes were here at the last question, if they still are

    def get(self, reg: Reg) -> Term:
        """The value of a register here."""
        value = self.written.get(reg)
        return self.base(reg) if value is None else value

    @property
    def ended(self) -> End:
        """How it has ended."""
        assert self.end is not None
        return self.end

    @property
    def places(self) -> tuple[int, ...]:
        """The places of comparison to which it leads."""
        return (self.ended.position,) if self.ended.kind == "cut" else self.ended.targets

    def fork(self, condition: Term, terms: Terms) -> Path:
        """The same path where a condition holds as well."""
        other = self.copy()
        other.conditions = assumed(self.conditions, condition, terms)
        return other

    def copy(self) -> Path:
        """The same path, which may go on in another way."""
        stores = [list(epoch) for epoch in self.stores]
        return Path(
            self.base, self.conditions, self.position, dict(self.written), stores,
            list(self.touches), list(self.events), self.end, self.forked, self.parted, self.mask,
        )  # fmt: skip


# ---------------------------------------------------------------- accesses that meet


class TouchesBySum:
    """Accesses, in their order, by space and by the sum in their address without its constant."""

    def __init__(self, touches: Iterable[Touch]) -> None:
        self._starts: dict[Base, dict[int, list[tuple[int, Touch]]]] = {}
        self._longest = 0
        for number, touch in enumerate(touches):
            group, at = based(touch.target)
            self._starts.setdefault(group, {}).setdefault(at, []).append((number, touch))
            self._longest = max(self._longest, touch.target.size)

    def beginning_with(self, touch: Touch) -> list[Touch]:
        """Those that begin where another access does, by its time."""
        group, at = based(touch.target)
        touches = self._starts.get(group, {}).get(at, ())
        return [other for _, other in touches if other.before <= touch.before]

    def aligning(self, touch: Touch) -> Iterator[Touch]:
        """Those by the time of another access that are known to lie multiples of its size away, and
        are as large as such a multiple: it is aligned if one of them is."""
        group, at = based(touch.target)
        size, width, before = touch.target.size, touch.target.place.width, touch.before
        return (
            t
            for other, touches in self._starts.get(group, {}).items()
            if wrapped(other - at, width) % size == 0
            for _, t in touches
            if t.before <= before and t.target.size % size == 0
        )

    def meeting(self, touch: Touch) -> list[Touch]:
        """Those by the time of another access that are known to have bytes in common with it."""
        return [t for t in self.overlapping(touch.target) if t.before <= touch.before]

    def overlapping(self, target: Bytes) -> list[Touch]:
        """Those that are known to have bytes in common with some, at any time."""
        group, at = based(target)
        starts, top = self._starts.get(group, {}), 1 << target.place.width
        numbered = [
            (number, t)
            for distance in range(1 - self._longest, target.size)
            for number, t in starts.get((at + distance) % top, ())
            if -distance < t.target.size
        ]
        return [t for _, t in sorted(numbered, key=itemgetter(0))]


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
