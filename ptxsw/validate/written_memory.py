"""What the first text writes: is what is newly read by `.nc` apart from it?

The bytes of each write are bounded over the whole grid, from a symbolic run of the first text
(`facts.ranges`). That they lie apart from those of a load has to follow from conditions on what
all threads share: such as a test that the second text makes where it begins. The test is read as it
stands in the text, whoever wrote it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cached_property

from ptxsw.analysis.instruction_kinds import may_write, written_address
from ptxsw.emulator.spaces import may_hold_pointer, may_point
from ptxsw.emulator.trace import Access
from ptxsw.facts.conditions import conjuncts
from ptxsw.facts.grid import Grid
from ptxsw.facts.grid_facts import GridFacts
from ptxsw.facts.prover import Prover
from ptxsw.facts.ranges import Range
from ptxsw.ptx import isa
from ptxsw.terms.node import Term, split
from ptxsw.validate.lanes import KernelLanes

_MOST_PAIRS = 4096


class WrittenMemory:
    """What the first text writes: as ranges under the conditions of a path, and by the parameters
    on which addresses are built."""

    def __init__(self, lanes: KernelLanes, prover: Prover) -> None:
        self._lanes, self._prover = lanes, prover
        self._answers: dict[tuple[tuple[Range, ...], frozenset[Term]], bool] = {}
        self._shared: dict[tuple[Term, ...], frozenset[Term]] = {}
        self._facts: dict[frozenset[Term], GridFacts] = {}

    def apart(self, loads: Collection[int], given: Sequence[Term]) -> bool:
        """Does no thread write what one of the loads, instructions of the first text, reads?"""
        if self._writers is None:
            return False
        shared = self._shared_among(tuple(given))
        if shared not in self._facts:
            self._facts[shared] = GridFacts.of(self._lanes.trace, shared, self._holds)
        facts = self._facts[shared]
        for access in self._lanes.trace.accesses:
            ranges = facts.touched(access) if access.index in loads else ""
            if isinstance(ranges, str):
                continue
            key = (ranges, shared)
            if key not in self._answers:
                self._answers[key] = self._is_apart(ranges, self._writers, facts)
            if self._answers[key]:
                return True
        return False

    def _shared_among(self, given: tuple[Term, ...]) -> frozenset[Term]:
        """Those conditions that speak of what all threads share, and of nothing else. No other one
        says anything of the whole grid."""
        if given not in self._shared:
            parts = conjuncts(given, self._lanes.terms)
            self._shared[given] = frozenset(filter(self._no_facts.is_uniform, parts))
        return self._shared[given]

    @cached_property
    def _no_facts(self) -> Grid:
        return Grid.of(self._lanes.trace, {}, self._holds)

    def _is_apart(
        self, ranges: tuple[Range, ...], writers: Iterable[Access], facts: GridFacts
    ) -> bool:
        for writer in writers:
            written = facts.touched(writer)
            if isinstance(written, str) or len(ranges) * len(written) > _MOST_PAIRS:
                return False
            if not all(facts.apart(a, b) for a in ranges for b in written):
                return False
        return True

    def _holds(self, claim: Term, given: Iterable[Term]) -> bool:
        return self._prover.holds(claim, tuple(given))

    # ------------------------------------------------------------ by parameters

    @cached_property
    def _writers(self) -> tuple[Access, ...] | None:
        """What writes global memory in the first text, each to one address; None where something
        may write anywhere."""
        if self._lanes.trace.statistics.timed_out:
            return None
        writers = tuple(a for a in self._lanes.trace.accesses if may_write(a.instruction))
        addressed = {a.index for a in writers if written_address(a.instruction) is not None}
        for index, instruction in enumerate(self._lanes.old.cfg.instructions):
            reached = self._lanes.old.cfg.block_of[index] in self._lanes.old.cfg.rank
            if may_write(instruction) and reached and index not in addressed:
                return None
        return tuple(access for access in writers if access.space not in isa.WITHIN_BLOCK)

    @cached_property
    def bases(self) -> frozenset[Term | None]:
        """The parameters on which the addresses are built that the first text writes; None
        stands for all else."""
        if self._writers is None:
            return frozenset({None})
        return frozenset(self.base(v.address) for a in self._writers for v in a.variants)

    def bases_of(self, index: int) -> frozenset[Term | None]:
        """The parameters on which the addresses of an instruction of the first text are built, on
        all paths to it; None stands for all else. Empty if nothing is known of it."""
        if self._lanes.trace.statistics.timed_out:
            return frozenset()
        accesses = (access for access in self._lanes.trace.accesses if access.index == index)
        return frozenset(self.base(v.address) for access in accesses for v in access.variants)

    def base(self, place: Term) -> Term | None:
        """The parameter that an address is built on, if nothing else in it may be a pointer."""
        parameters = self._lanes.declared.parameters
        items = [
            (term, factor)
            for term, factor in split(place)[1]
            if may_point(term)
            or term in parameters
            # What a loop has computed may be the distance from one array to another one.
            or (factor in (1, (1 << place.width) - 1) and may_hold_pointer(term))
        ]
        if len(items) != 1 or items[0][1] != 1 or items[0][0] not in parameters:
            return None
        return items[0][0]
