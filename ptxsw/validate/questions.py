"""What the comparison of two paths asks of the kernel around them.

A load may be made before a loop only if the loop would make it in any case. So the first text is
run on from where a comparison ends: every path has to come to the load, before anything that may
wait or end.

    @%p ld.global.f32 %f9, [%rd4+128];     lane 0, in place of lane 31, which reads [%rd4+4]

Where all lanes are here and go on together, they do in the first text what this lane does, each at
its own address. So this lane may read what it finds such a lane to read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from ptxsw.analysis.instruction_kinds import may_part, may_write, passes
from ptxsw.changes.assumptions import NO_ALIAS, NO_FAULT_IN_STRUCT, NO_OUTSIDE_WRITER
from ptxsw.facts.conditions import assumed
from ptxsw.facts.equality import Equality
from ptxsw.ptx import isa
from ptxsw.ptx.bits import wrapped
from ptxsw.terms import op
from ptxsw.terms.node import Term, walk
from ptxsw.terms.terms import Terms
from ptxsw.validate.basis import Basis
from ptxsw.validate.cut_point_map import CutPointMap
from ptxsw.validate.cuts import Cut
from ptxsw.validate.lanes import KernelLanes
from ptxsw.validate.low_bits import BITS, LowBits, Multiples
from ptxsw.validate.memory_ssa import Bytes, byte_distance, known_distance
from ptxsw.validate.other_lane import LANES, Place, SampleAddresses, neighbours
from ptxsw.validate.path import Event, Path, Touch
from ptxsw.validate.runner import Runner
from ptxsw.validate.spaces import Declared
from ptxsw.validate.waiting_lanes import WaitingLanes
from ptxsw.validate.warp import WarpView
from ptxsw.validate.written_memory import WrittenMemory

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


_MAX_STEPS = 2000  # instructions of all paths
_MAX_PATHS = 32
_MAX_ITERATIONS = 4  # jumps back on a path: what is read for the first time later is rare


class Ahead:
    """Looks ahead from the end of a path of the first text for what reads the bytes of `touch`,
    where `given` holds."""

    def __init__(
        self, equality: Equality, runner: Runner, touch: Touch, given: Sequence[Term]
    ) -> None:
        self._equality, self._runner = equality, runner
        self._touch, self._given = touch, tuple(given)

    def reads(self, old: Path) -> bool:
        """Is the first text, from the end of its path on, certain to read these bytes, by an access
        at least as wide, before anything that may wait or end? Addresses mostly are identical
        terms; only if that does not suffice are different terms compared."""
        if old.ended.kind != "cut":
            return False
        # Comparing addresses may ask the solver at every access on the way.
        start = Path(old.get, self._given, old.ended.position, forked=True)
        looks = (False,) if self._touch.nc else (False, True)
        return any(self._reads(start.copy(), closely=closely) for closely in looks)

    def _reads(self, start: Path, *, closely: bool) -> bool:
        work, steps, paths = [start], 0, 0
        while work:
            path = work.pop()
            paths += 1
            iterations = 0
            while not self._reached(path, closely=closely):
                steps += 1
                at_end = path.position >= len(self._runner.cfg.instructions)
                # A thread that may wait or end first is not certain to make the access, so making
                # it now could fault.
                stays = any(not passes(event.instruction) for event in path.events)
                if path.end is not None or stays or at_end:
                    return False
                if steps > _MAX_STEPS or paths + len(work) > _MAX_PATHS:
                    return False
                if iterations > _MAX_ITERATIONS:
                    return False
                before = path.position
                fork = self._runner.step(path)
                iterations += path.position <= before
                if fork is not None:
                    if not self._goes_nowhere(fork):
                        work.append(fork)
                    if self._goes_nowhere(path):
                        break
        return True

    def _goes_nowhere(self, path: Path) -> bool:
        return self._equality.prover.contradictory(self._given, path.conditions)

    def _reached(self, path: Path, *, closely: bool) -> bool:
        touch = self._touch
        if not path.touches:
            return False
        last = path.touches[-1]
        if last.guard.kind is not op.CONST or last.target.space != touch.target.space:
            return False
        distance = known_distance(touch.target, last.target)
        if closely and distance is None and last.target.size == touch.target.size:
            same = last.target.place.width == touch.target.place.width and self._equality.same(
                last.target.place, touch.target.place, path.conditions
            )
            distance = 0 if same else None
        if touch.nc and not last.nc:
            return False
        # The wide access is aligned to its size, so a part at a multiple of the part's own size is
        # aligned, too. That is what a load made early has to show beside being mapped.
        size = touch.target.size
        if distance is None or last.target.size % size or distance % size:
            return False
        return 0 <= distance <= last.target.size - size


class Questions:
    """Answers from the first text and its declarations. `assumptions` collects what an answer
    rests on."""

    def __init__(
        self,
        basis: Basis,
        images: CutPointMap,
        waiting_lanes: WaitingLanes,
        declared: Declared,
        lanes: KernelLanes,
    ) -> None:
        self._basis, self._terms, self._prover = basis, basis.terms, basis.prover
        self.equality, self.memory, self.old = basis.equality, basis.memory, basis.old
        self.common, self.lost, self.new = basis.common, basis.lost, basis.new
        self.images, self._waiting_lanes = images, waiting_lanes
        self._declared, self._lanes = declared, lanes
        self._multiples_where: dict[tuple[Term, ...], Multiples] = {}

    @cached_property
    def _written(self) -> WrittenMemory:
        return WrittenMemory(self._lanes, self._prover)

    @cached_property
    def _low_bits(self) -> LowBits:
        return LowBits(self.old, self.memory, self.old.is_lasting)

    @cached_property
    def _samples(self) -> SampleAddresses:
        return SampleAddresses(self._terms)

    def aligned(self, cut: Cut, place: Term, given: Sequence[Term]) -> Iterator[Term]:
        """What is known of alignment, and of the low bits of registers that an address is made
        of."""
        yield from self._declared.aligned
        nodes = {node for node in walk(place) if node.kind is op.ATOM}
        asked = {r: v for r, v in cut.old.values.items() if v in nodes}
        if not self.old.begins(cut.old_position) or not asked:
            return
        for multiples in dict.fromkeys(((), self._multiples(tuple(given)))):
            bits = self._low_bits.at(cut.old_position, multiples)
            for reg, value in asked.items():
                if reg in bits:
                    low = bits[reg]
                    yield self._terms.eq(self._terms.extract(value, 0, low.width), low)

    def _multiples(self, given: tuple[Term, ...]) -> Multiples:
        """Parameters that are multiples of powers of two where some conditions hold."""
        multiples = self._multiples_where.get(given)
        if multiples is None:
            values = self._low_bits.parameters
            powers = ((value, self._power(value, given)) for value in values)
            multiples = tuple((value, bits) for value, bits in powers if bits)
            self._multiples_where[given] = multiples
        return multiples

    def _power(self, value: Term, given: tuple[Term, ...]) -> int:
        """The largest power of two that a value is a multiple of, as its exponent."""
        for bits in range(BITS, 0, -1):
            low = self._terms.extract(value, 0, bits)
            if self._prover.holds(self._terms.eq(low, self._terms.const(0, bits)), given):
                return bits
        return 0

    def reads_later(self, cut: Cut, old: Path, touch: Touch, given: Sequence[Term]) -> bool:
        """Does the first text surely read these bytes right behind a path?"""
        return Ahead(self.equality, cut.old.runner, touch, given).reads(old)

    def may_wait(self, cut: Cut, old: Path, new: Path, given: Sequence[Term]) -> bool:
        """May the first text stand still where its path ends, while the second runs on?"""
        return self._waiting_lanes.may_wait((cut.old_position, cut.new_position), old, new, given)

    def others_read(self, cut: Cut, old: Path, touch: Touch, given: Sequence[Term]) -> Touch | None:
        """A load of the first text that reads these bytes in another lane."""
        if cut.view is None:
            return None
        search = ReadByOthers(self._terms, self.equality, cut.view, self._samples)
        return search.find(old, touch, given)

    def beside(self) -> bool:
        """May bytes next to those that the first text reads be read, too? If so, the proof rests on
        that assumption."""
        return self._basis.rest_on(NO_FAULT_IN_STRUCT)

    def _bases(self, old: Path, touch: Touch) -> frozenset[Term | None]:
        """The parameters on which an address may be built; None stands for all else. What a
        register held where a loop begins tells none. But where the first text surely loads these
        bytes, too, its symbolic run has followed the address from where the kernel begins."""
        base = self._written.base(touch.target.place)
        if base is not None:
            return frozenset({base})
        for other in old.touches:
            sure = other.guard is touch.guard or other.guard.kind is op.CONST
            if other.loads and sure and other.target == touch.target:
                return self._written.bases_of(other.index)
        return frozenset()

    def read_only(self, old: Path, touch: Touch, given: Sequence[Term]) -> bool:
        """Does nobody write these bytes while the kernel runs?"""
        if NO_OUTSIDE_WRITER not in self._basis.allowed or touch.target.space != "global":
            return False
        if any(map(may_write, self.old.cfg.instructions)):
            # By ranges of the whole grid, of the first text's own load of these bytes; else by the
            # assumption that other parameters lead elsewhere.
            twins = {t.index for t in old.touches if t.loads and t.target == touch.target}
            if not self._written.apart(twins, given):
                if NO_ALIAS not in self._basis.allowed:
                    return False
                bases = self._bases(old, touch)
                if not bases or None in bases:
                    return False
                if not {None, *bases}.isdisjoint(self._written.bases):
                    return False
                self._basis.rest_on(NO_ALIAS)
        return self._basis.rest_on(NO_OUTSIDE_WRITER)
