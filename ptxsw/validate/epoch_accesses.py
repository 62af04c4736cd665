"""What a path accesses in one epoch, found by the bytes that it may be of.

A path of thousands of loads is asked about each of them. So loads are kept by what their addresses
are for some numbers: where no comparison between lanes counts, equal addresses are equal for any.
"""

from __future__ import annotations

from msgspec import Struct, field

from ptxsw.analysis.instruction_kinds import clobbers
from ptxsw.ptx import isa
from ptxsw.ptx.bits import wrapped
from ptxsw.terms.digits import is_digit
from ptxsw.terms.evaluate import evaluate
from ptxsw.terms.node import Term, Variance, unknowns, walk
from ptxsw.terms.specials import SPECIALS
from ptxsw.terms.terms import Terms
from ptxsw.validate.memory_ssa import Bytes
from ptxsw.validate.path import Path, Touch

_MAX_KEPT = 64  # paths


class Read(Struct, frozen=True):
    """Bytes that another lane has read in an epoch of a segment, at an address in this lane's words
    and in its `own`; behind `stores` of this lane, which may have hit them."""

    epoch: int
    target: Bytes
    own: Bytes
    stores: tuple[Bytes, ...] = ()


class Accesses(Struct):
    """What a path does in an epoch to memory that others see: its stores, its loads with how many
    stores stand before each, and the numbers of the loads by try and address tried."""

    stores: list[Touch] = field(default_factory=list)
    loads: list[tuple[Touch, int]] = field(default_factory=list)
    by_address: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    longest: int = 0
    widths: set[int] = field(default_factory=set)


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
            numbers[self._terms.atom(name, 32, *SPECIALS[name])] = number
        return evaluate(place, numbers)


class EpochAccesses:
    """The accesses of the paths of one text, by epoch."""

    def __init__(self, terms: Terms) -> None:
        self._terms, self._samples = terms, SampleAddresses(terms)
        self._accesses: dict[tuple[int, int], tuple[Path, int, Accesses]] = {}

    def of(self, old: Path, epoch: int) -> Accesses:
        """What a path accesses in an epoch; kept for the paths of one segment."""
        kept = self._accesses.get((id(old), epoch))
        if kept is None or kept[0] is not old or kept[1] != len(old.touches):
            if len(self._accesses) > _MAX_KEPT:
                self._accesses.clear()
            kept = old, len(old.touches), self._sorted(old, epoch)
            self._accesses[id(old), epoch] = kept
        return kept[2]

    def _sorted(self, old: Path, epoch: int) -> Accesses:
        begin, end = events_of(old, epoch)
        accesses = Accesses()
        for touch in old.touches:
            if touch.target.space in isa.WITHIN_BLOCK or not begin <= touch.before <= end:
                continue
            if not touch.loads:
                accesses.stores.append(touch)
                continue
            number = len(accesses.loads)
            accesses.loads.append((touch, len(accesses.stores)))
            accesses.longest = max(accesses.longest, touch.target.size)
            width = touch.target.place.width
            accesses.widths.add(width)
            for trial, address in enumerate(self._samples.of(touch.target.place)):
                accesses.by_address.setdefault((trial, address), []).append(number)
        return accesses

    def candidates(self, accesses: Accesses, read: Read) -> list[tuple[Touch, int]]:
        """The loads behind a store that may be of the bytes that were read, each with how many
        stores stand before it."""
        place, size = read.target.place, read.target.size
        compared = self._may_be_compared(read)
        if compared or accesses.widths - {place.width}:
            return [
                (touch, count)
                for touch, count in accesses.loads
                if count and (compared or self._may_be(touch.target, read))
            ]
        near = {
            number
            for trial, address in enumerate(self._samples.of(place))
            # Evaluated for sample values, loads that may cover the bytes are found by address.
            for at in range(address - accesses.longest + 1, address + size)
            for number in accesses.by_address.get((trial, at % (1 << place.width)), ())
        }
        loads = [accesses.loads[number] for number in sorted(near)]
        return [(t, count) for t, count in loads if count and self._may_be(t.target, read)]

    def _may_be(self, load: Bytes, read: Read) -> bool:
        """Is a load likely to be of these bytes, where no comparison between lanes counts? Where no
        index wraps, equal addresses are equal for any numbers."""
        place, size = read.target.place, read.target.size
        if load.place.width != place.width:
            return True
        tried = zip(self._samples.of(load.place), self._samples.of(place), strict=True)
        distances = (wrapped(x - y, place.width) for x, y in tried)
        return any(-load.size < distance < size for distance in distances)

    def _may_be_compared(self, read: Read) -> bool:
        """Is there anything in an address of another lane that may be equal to this lane's by a
        test alone: one that has shown two lanes' pointers or quotients to be the same?"""
        place, own = read.target.place, unknowns(read.own.place)
        new = (node for node in unknowns(place) if node not in own)
        lanes = {self._terms.atom(n, 32, *SPECIALS[n]) for n in ("%tid.x", "%laneid")}
        varying = (node for node in walk(place) if node.variance is Variance.LANE)
        return any(node not in lanes for node in new) or any(map(is_digit, varying))


def events_of(path: Path, epoch: int) -> tuple[int, int]:
    """How many events a path has seen where an epoch begins, and where it ends."""
    ends = [number for number, e in enumerate(path.events) if clobbers(e.instruction)]
    begin = ends[epoch - 1] + 1 if 0 < epoch <= len(ends) else 0
    return begin, ends[epoch] if epoch < len(ends) else len(path.events)
