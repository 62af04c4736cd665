"""Read-only loads (NVCUDA, 3.4, by way of ptxas): loads of bytes that nobody writes get `.nc`.

    ld.global.f32 %f2, [%rd3];     =>     ld.global.nc.f32 %f2, [%rd3];

ptxas then moves and merges them over stores by itself. No store or atomic of any thread may write
the bytes while the kernel runs: that is proved for the ranges of the whole grid, or tested once
where the kernel begins, on the parameters and the size of the grid. All threads then take the same
way, and where ranges meet, that is the kernel as it was:

    setp.lt.u32 %sw_apart1, %sw_shared1, 1073741824;
    ...
    @!%sw_apart1 bra $sw_overlap1;

Other kernels and the host are the assumption `no-outside-writer`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from ptxsw.analysis.pointers import pointers
from ptxsw.analysis.reloads import may_repeat
from ptxsw.changes.assumptions import NO_ALIAS, NO_OUTSIDE_WRITER
from ptxsw.changes.change import Change, Refusal, Worth
from ptxsw.changes.plan import Proof
from ptxsw.codegen.builder import Builder
from ptxsw.codegen.entry_guard import EntryGuard
from ptxsw.codegen.lower_read_only_loads import ReadOnlyLoad, lower
from ptxsw.codegen.splice import Edit
from ptxsw.emulator.trace import Access
from ptxsw.facts.grid_facts import GridFacts
from ptxsw.facts.ranges import MAY_WRAP, Range
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Instruction, type_width
from ptxsw.ptx.isa import Effect
from ptxsw.rewrites.base import Kernel, Outcome
from ptxsw.rewrites.entry_guard import LIMITS, entry_guard, grid_below, obstacle_to_versions

_NOTHING_AGAIN = "nothing is loaded twice, so ptxas could save nothing; force rewrites it"
_MOST_COMPARED = 1 << 14  # pairs of a load and a store
_ORDERING = frozenset({"volatile", "mmio", "acquire", "release", "acq_rel", "sc"})
_FENCES = isa.opcodes(isa.Trait.FENCE)


class ReadOnlyLoads:
    """See above."""

    name: ClassVar[str] = "read-only-loads"
    summary: ClassVar[str] = "Loads of global memory that no thread writes become `.nc`."

    def find(self, kernel: Kernel) -> Iterator[Outcome]:
        """Loads of bytes that no thread writes, as is proved or as a test at entry can tell."""
        loads = [access for access in kernel.trace.accesses if _is_plain(access.instruction)]
        if not loads:
            return
        reason = _obstacle(kernel)
        if reason is None and kernel.options.mode == "auto" and not may_repeat(kernel.trace, loads):
            reason = _NOTHING_AGAIN
        if reason is not None:
            yield from (Refusal(self.name, load.index, reason) for load in loads)
            return
        yield from _Finder(kernel, loads).find()

    def nothing(self, kernel: Kernel) -> str:
        """See `OwnSearch`."""
        return "it has no plain load of global memory: they name a cache, or are read-only already"

    def lower(self, kernel: Kernel, changes: Sequence[Change]) -> tuple[Edit, ...]:
        """The edits that make the changes."""
        builder = Builder(kernel.text, kernel.function, kernel.trace.cfg.instructions)
        lower(builder, kernel.text, changes)
        return builder.edits()


def _is_plain(instruction: Instruction) -> bool:
    """A weak load of global memory without hints?"""
    if instruction.opcode != "ld" or instruction.modifiers[:1] != ("global",):
        return False
    *vector, kind = instruction.modifiers[1:] or ("",)
    return vector in ([], ["v2"], ["v4"]) and type_width(kind) >= 8


class _Sizes:
    """The ranges of accesses where numbers among the parameters are below 2^`bits`; None: where
    they may be anything."""

    def __init__(self, kernel: Kernel, accesses: Sequence[Access], bits: int | None) -> None:
        self.facts = GridFacts(grid_below(kernel, accesses, bits))
        self._apart: dict[tuple[Range, Range], bool] = {}

    def _are_apart(self, a: Range, b: Range) -> bool:
        """Do two ranges have no byte in common, whatever the pointers are?"""
        key = (a, b)
        if key not in self._apart:
            self._apart[key] = a.base is b.base and self.facts.apart(a, b)
        return self._apart[key]

    def overlapping(self, load: Access, writer: Access) -> list[tuple[Range, Range]] | str:
        """The pairs of ranges that may meet; a text where that is not known."""
        read, written = self.facts.touched(load), self.facts.touched(writer)
        if isinstance(read, str) or isinstance(written, str):
            return read if isinstance(read, str) else str(written)
        return [(a, b) for a in read for b in written if not self._are_apart(a, b)]


class _Finder:
    """Decides about the loads of one kernel."""

    def __init__(self, kernel: Kernel, loads: Sequence[Access]) -> None:
        self.kernel, self.loads = kernel, loads
        self.writers = [
            access
            for access in kernel.trace.accesses
            if isa.may_write_global(access.instruction) and access.space not in isa.WITHIN_BLOCK
        ]

    def find(self) -> Iterator[Outcome]:
        """A change or a refusal for each load."""
        if len(self.loads) * len(self.writers) > _MOST_COMPARED:
            reason = "there are too many loads and stores to compare"
            yield from (Refusal(ReadOnlyLoads.name, load.index, reason) for load in self.loads)
            return
        always = self._sizes(None)
        rest = []
        for load in self.loads:
            proof = self._outright(load, always)
            if proof is None:
                rest.append(load)
            else:
                yield self._change(load, proof, None)
        yield from self._tested(rest)

    def _sizes(self, bits: int | None) -> _Sizes:
        return _Sizes(self.kernel, [*self.loads, *self.writers], bits)

    def _change(self, load: Access, proof: Proof, test: EntryGuard | None) -> Change:
        at, name = load.index, ReadOnlyLoads.name
        detail = ReadOnlyLoad(at, test)
        return Change(name, at, frozenset({at}), proof, detail, worth=Worth())

    # ------------------------------------------------------------ without a test

    def _outright(self, load: Access, always: _Sizes) -> Proof | None:
        """Why nobody writes what a load reads; None where that is not known."""
        assumptions = {NO_OUTSIDE_WRITER: None}
        for writer in self.writers:
            pairs = always.overlapping(load, writer)
            if pairs == []:
                continue
            if NO_ALIAS not in self.kernel.options.assume or not self._unrelated(load, writer):
                return None
            assumptions[NO_ALIAS] = None
        return Proof(assumptions=tuple(assumptions))

    def _unrelated(self, load: Access, writer: Access) -> bool:
        """Are the two built on different parameters?"""
        read, written = pointers(load), pointers(writer)
        return (
            read is not None
            and written is not None
            and len(read) == len(written) == 1
            and read.isdisjoint(written)
        )

    # ------------------------------------------------------------ with a test

    def _tested(self, loads: Sequence[Access]) -> Iterator[Outcome]:
        """The loads that a test at entry can show to be read-only, all in one test."""
        below = {bits: self._sizes(bits) for bits in LIMITS}
        sizes, served = below[LIMITS[0]], list[Access]()
        test: EntryGuard | str = "no test was found"
        # From wide limits to narrow ones: the first test that frees all loads fails least often.
        for bits in LIMITS if loads else ():
            narrower = below[bits]
            free = [load for load in loads if self._blocker(load, narrower) is None]
            if not free and bits == LIMITS[0] and self._none_is_free(loads, below[LIMITS[-1]]):
                break
            if not free:
                continue
            test_or_reason = self._not_worth(free) or self._test(narrower, free)
            if (isinstance(test_or_reason, EntryGuard), len(free)) > (
                isinstance(test, EntryGuard),
                len(served),
            ):
                sizes, served, test = narrower, free, test_or_reason
            if isinstance(test_or_reason, EntryGuard) and len(free) == len(loads):
                break
        for load in loads:
            if load in served and isinstance(test, EntryGuard):
                told = ("the kernel writes none of the bytes that it loads here",)
                proof = Proof(assumptions=(NO_OUTSIDE_WRITER,), tests=told)
                yield self._change(load, proof, test)
            elif self.kernel.explains:
                blocker = self._blocker(load, sizes) or str(test)
                yield Refusal(ReadOnlyLoads.name, load.index, blocker)

    def _none_is_free(self, loads: Sequence[Access], sizes: _Sizes) -> bool:
        """Is no load free, whatever is tested? `sizes` are those of the narrowest limits, which
        suppose the most: what they do not free, wider limits do not free either. The exception is
        an index such as `n - 2^20`, which always wraps below 2^15 but not below 2^30."""
        blocked = all(self._blocker(load, sizes) is not None for load in loads)
        return blocked and not any(
            sizes.facts.touched(access) == MAY_WRAP for access in (*loads, *self.writers)
        )

    def _blocker(self, load: Access, sizes: _Sizes) -> str | None:
        """The writer that may write what a load reads, where no test could tell."""
        for writer in self.writers:
            named = f"{writer.instruction.name} at line {self.kernel.line(writer.index)}"
            pairs = sizes.overlapping(load, writer)
            if isinstance(pairs, str):
                own = isinstance(sizes.facts.touched(load), str)
                which = "the load" if own else "the store"
                return f"{named} may write these bytes (of {which}: {pairs})"
            # A test compares two pointers. For ranges on the same pointer there are not two.
            if any(a.base is b.base for a, b in pairs):
                return f"{named} may write these bytes"
        return None

    def _not_worth(self, loads: Sequence[Access]) -> str | None:
        """Why mode auto makes no second copy of the kernel."""
        cfg = self.kernel.trace.cfg
        looped = any(cfg.loops_around(cfg.block_of[load.index]) for load in loads)
        if self.kernel.options.mode == "force" or looped:
            return None
        return (
            "a test and a second copy of the code cost more than the certain saving; "
            "force rewrites it"
        )

    def _test(self, sizes: _Sizes, loads: Sequence[Access]) -> EntryGuard | str:
        """One test for all loads; a text where there can be none."""
        obstacle = obstacle_to_versions(self.kernel)
        if obstacle is not None:
            return obstacle
        pairs: dict[tuple[Range, Range], None] = {}
        for load in loads:
            for writer in self.writers:
                ranges = sizes.overlapping(load, writer)
                assert not isinstance(ranges, str)
                pairs.update(dict.fromkeys(ranges))
        return entry_guard(sizes.facts.grid, list(pairs))


# ---------------------------------------------------------------- what else may write

# The kernel's own plain stores and atomics have an address each, and are compared with the load.
# All else that writes, or waits for what others write, forbids every assumption about the bytes.


def _obstacle(kernel: Kernel) -> str | None:
    """Why no load of the kernel may be made read-only."""
    if NO_OUTSIDE_WRITER not in kernel.options.assume:
        return f"others may write while the kernel runs: {NO_OUTSIDE_WRITER} is not assumed"
    if kernel.trace.statistics.timed_out:
        return "the symbolic run of the kernel did not finish"
    reached = {access.index for access in kernel.trace.accesses}
    for index, instruction in enumerate(kernel.trace.cfg.instructions):
        reason = _hazard(instruction.opcode, instruction.modifiers)
        if reason is None and isa.may_write_global(instruction):
            block = kernel.trace.cfg.block_of[index]
            if index not in reached and block in kernel.trace.cfg.rank:
                reason = "may write anywhere"
        if reason is not None:
            return f"{instruction.name} (line {kernel.line(index)}) {reason}"
    return None


@isa.by_name
def _hazard(opcode: str, modifiers: tuple[str, ...]) -> str | None:
    """What an instruction does, if others than this kernel's plain accesses may write, or wait
    for what is written."""
    if isa.row(opcode, modifiers) is None:
        return "is unknown and may do anything"
    effects = isa.effects(opcode, modifiers)
    if effects & Effect.CALL:
        return "may call code that writes these bytes"
    if opcode == "griddepcontrol":
        return "waits for another kernel, which may write these bytes"
    if not _ORDERING.isdisjoint(modifiers) and effects & (Effect.READ | Effect.WRITE):
        return "is volatile or ordered: others may write what is read after it"
    # A fence or barrier of the block only orders what this kernel's own threads write, and their
    # stores are compared with the load one by one.
    if opcode in _FENCES and "cta" not in modifiers:
        return "is a device-wide fence: others may write what is read after it"
    single = opcode in ("st", "atom", "red") and any(map(type_width, modifiers))
    if effects & Effect.WRITE and (not single or effects & Effect.ASYNC):
        return "may write these bytes by itself"
    return None
