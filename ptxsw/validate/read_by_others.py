"""Bytes that a lane reads in the second text, and another lane of its warp in the first.

    @%p ld.global.f32 %f9, [%rd4+128];     lane 0, in place of lane 31, which reads [%rd4+4]

Where all lanes are here and go on together, they do in the first text what this lane does, each at
its own address. So this lane may read what it finds such a lane to read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ptxsw.analysis.instruction_kinds import may_part, passes
from ptxsw.facts.conditions import assumed
from ptxsw.facts.equality import Equality
from ptxsw.ptx import isa
from ptxsw.ptx.bits import wrapped
from ptxsw.terms import op
from ptxsw.terms.node import Term, walk
from ptxsw.terms.terms import Terms
from ptxsw.validate.epoch_accesses import SampleAddresses
from ptxsw.validate.memory_ssa import Bytes, byte_distance
from ptxsw.validate.other_lane import LANES, Place, neighbours
from ptxsw.validate.path import Event, Path, Touch
from ptxsw.validate.warp import WarpView

_MAX_CHOICES = 2  # of an address
_MASKED = isa.opcodes(isa.Trait.MASKED)


class ReadByOthers:
    """Asks which loads of the first text cover a load of the second in another lane."""

    def __init__(
        self, terms: Terms, equality: Equality, view: WarpView, samples: SampleAddresses
    ) -> None:
        self._terms, self._equality = terms, equality
        self._prover, self._simplifier = equality.prover, equality.simplifier
        self._view, self._samples = view, samples

    def find(self, old: Path, touch: Touch, given: Sequence[Term]) -> Touch | None:
        """A load of the first text that reads these bytes in some other lane, whichever lane this
        one is; None where it is not known that there is one."""
        mask = touch.mask
        facts = self._simplifier.facts(tuple(given))
        if mask is None or facts.truth(self._view.whole(mask)) is not True:
            return None
        near = [t for t in old.touches if _surely_comes(old.events[touch.before : t.before])]
        read: Touch | None = None
        for target, case in self._cases(touch.target, tuple(given), 0):
            # Those by `.nc` tell more: that nobody writes the bytes. Then the likely ones.
            likely = [(not t.nc, self._far(t.target.place, target.place)) for t in near]
            near = [near[n] for n in sorted(range(len(near)), key=likely.__getitem__)]
            read = next((t for t in near if self._covers(t, touch, target, case)), None)
            if read is None:
                return None
        return read

    def _cases(
        self, target: Bytes, given: tuple[Term, ...], depth: int
    ) -> Iterator[tuple[Bytes, tuple[Term, ...]]]:
        """The bytes, where each choice in their address is made."""
        place = self._simplifier.simplified(target.place, given)
        choice = next((n for n in walk(place) if n.kind is op.ITE), None)
        if choice is None or depth == _MAX_CHOICES:
            yield Bytes(target.space, place, target.size), given
            return
        condition = choice.args[0]
        for case in (condition, self._terms.not_(condition)):
            more = assumed(given, case, self._terms)
            if not self._simplifier.facts(more).impossible:
                yield from self._cases(target, more, depth + 1)

    def _covers(self, old: Touch, new: Touch, target: Bytes, given: tuple[Term, ...]) -> bool:
        """Does this load read the bytes in another lane?"""
        source = old.target
        if not old.loads or old.parted:
            return False
        if source.space != target.space or source.size != target.size:
            return False
        read = self._simplifier.simplified(source.place, given)
        # The lane is guessed from sample values; that it is the right one is proved below.
        stride, distance = self._stride(read), self._distance(target.place, read)
        if (
            not stride
            or distance is None
            or distance % stride
            or not 0 < abs(distance // stride) < LANES
        ):
            return False
        place = Place(distance // stride)
        if self._simplifier.facts(given).truth(place.exists(self._terms)) is not True:
            return False
        other = self._view.other(place)
        there, happens = other.value(source.place), other.value(old.guard)
        assert new.mask is not None
        given = self._simplifier.settled((*given, *self._view.told(other, new.mask)))
        if not self._equality.same(there, target.place, given):
            return False
        if not self._prover.holds(happens, given):
            return False
        if not all(self._prover.holds(test, given) for test in other.tests):
            return False
        if other.in_row and not self._prover.holds(neighbours(self._terms), given):
            return False
        self._view.rest_on(other)
        return True

    def _distance(self, a: Term, b: Term) -> int | None:
        """How far two addresses seem to be from each other, in bytes: where that is not plain,
        tried on numbers."""
        distance = byte_distance(a, b)
        if distance is not None or a.width != b.width:
            return distance
        tried = zip(self._samples.of(a), self._samples.of(b), strict=True)
        distances = {wrapped(x - y, a.width) for x, y in tried}
        return distances.pop() if len(distances) == 1 else None

    def _far(self, a: Term, b: Term) -> int:
        """How far two addresses are from each other for some numbers."""
        return abs(wrapped(self._samples.of(a)[0] - self._samples.of(b)[0], b.width))

    def _stride(self, place: Term) -> int:
        """How far the next lane's address seems to be, in bytes: tried on numbers, and proved
        later."""
        first, _, second = self._samples.of(place)
        return wrapped(second - first, place.width)


def _surely_comes(events: Sequence[Event]) -> bool:
    """Do all lanes of a whole warp that come together to some events come past them, whatever
    other threads do? Votes and shuffles wait for these lanes alone, fences and atomics for none."""
    return all(
        passes(event.instruction)
        or (
            event.guard.kind is op.CONST
            and event.instruction.opcode in _MASKED
            and "sync" in event.instruction.modifiers
            and not may_part(event.instruction)
        )
        for event in events
    )
