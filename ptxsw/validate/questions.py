"""What the comparison of two paths asks of the kernel around them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ptxsw.analysis.instruction_kinds import may_write
from ptxsw.changes.assumptions import NO_ALIAS, NO_FAULT_IN_STRUCT, NO_OUTSIDE_WRITER
from ptxsw.facts.equality import Equality
from ptxsw.terms import op
from ptxsw.terms.node import Term, walk
from ptxsw.terms.terms import Terms
from ptxsw.validate.ahead import Ahead
from ptxsw.validate.cut_point_map import CutPointMap
from ptxsw.validate.cuts import Cut
from ptxsw.validate.declared import Declared
from ptxsw.validate.epoch_accesses import SampleAddresses
from ptxsw.validate.lanes import KernelLanes
from ptxsw.validate.low_bits import BITS, LowBits, Multiples
from ptxsw.validate.memory import Memory
from ptxsw.validate.path import Path, Touch
from ptxsw.validate.read_by_others import ReadByOthers
from ptxsw.validate.text import Text
from ptxsw.validate.waiting_lanes import WaitingLanes
from ptxsw.validate.written_ranges import WrittenRanges


class Questions:
    """Answers from the first text and its declarations. `assumptions` collects what an answer
    rests on."""

    def __init__(
        self,
        equality: Equality,
        memory: Memory,
        old: Text,
        images: CutPointMap,
        waiting_lanes: WaitingLanes,
        declared: Declared,
        lanes: KernelLanes,
        allowed: frozenset[str],
        assumptions: dict[str, None],
    ) -> None:
        self._terms: Terms = memory.terms
        self.equality, self._prover, self.memory = equality, equality.prover, memory
        self.old, self.images, self._waiting_lanes = old, images, waiting_lanes
        self._declared, self._lanes = declared, lanes
        self._allowed, self._assumptions = allowed, assumptions
        self._written = WrittenRanges(lanes, equality.prover)
        self._low_bits = LowBits(old, memory, old.is_lasting)
        self._samples = SampleAddresses(memory.terms)
        self._multiples_where: dict[tuple[Term, ...], Multiples] = {}

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
        if NO_FAULT_IN_STRUCT in self._allowed:
            self._assumptions[NO_FAULT_IN_STRUCT] = None
        return NO_FAULT_IN_STRUCT in self._allowed

    def _bases(self, old: Path, touch: Touch) -> frozenset[Term | None]:
        """The parameters on which an address may be built; None stands for all else. What a
        register held where a loop begins tells none. But where the first text surely loads these
        bytes, too, its symbolic run has followed the address from where the kernel begins."""
        base = self._lanes.base(touch.target.place)
        if base is not None:
            return frozenset({base})
        for other in old.touches:
            sure = other.guard is touch.guard or other.guard.kind is op.CONST
            if other.loads and sure and other.target == touch.target:
                return self._lanes.bases_of(other.index)
        return frozenset()

    def read_only(self, old: Path, touch: Touch, given: Sequence[Term]) -> bool:
        """Does nobody write these bytes while the kernel runs?"""
        if NO_OUTSIDE_WRITER not in self._allowed or touch.target.space != "global":
            return False
        if any(map(may_write, self.old.cfg.instructions)):
            # By ranges of the whole grid, of the first text's own load of these bytes; else by the
            # assumption that other parameters lead elsewhere.
            twins = {t.index for t in old.touches if t.loads and t.target == touch.target}
            if not self._written.apart(twins, given):
                if NO_ALIAS not in self._allowed:
                    return False
                bases = self._bases(old, touch)
                if not bases or None in bases:
                    return False
                if not {None, *bases}.isdisjoint(self._lanes.written_bases):
                    return False
                self._assumptions[NO_ALIAS] = None
        self._assumptions[NO_OUTSIDE_WRITER] = None
        return True
