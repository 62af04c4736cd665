"""Vectorize (NVCUDA, 3.3): accesses of one thread to adjacent addresses become one vector access.

    ld.global.f32 %f1, [%rd4];             ld.global.v2.f32 {%f1, %f2}, [%rd4];
    add.f32 %f3, %f1, %f9;          =>     add.f32 %f3, %f1, %f9;
    ld.global.f32 %f2, [%rd4+4];

A vector has to be aligned to its size. That is proved from what is declared (`.align`,
`.ptr .align`), constants and strides; or tested once where the kernel begins, on pointers and
strides among the parameters. Then the stretch from the first to the last of these accesses stands
twice, with the vectors and as it was, and the whole grid takes the same way:

    @%sw_misaligned1 bra $sw_slow1;
    ld.global.v2.f32 {%f1, %f2}, [%rd4];
    bra.uni $sw_done1;
    $sw_slow1:
    ld.global.f32 %f1, [%rd4];
    ld.global.f32 %f2, [%rd4+4];
    $sw_done1:

An innermost loop around such vectors stands twice as a whole, so that no iteration has to branch.
Two ways that are short ptxas makes one after the other, under predicates. Before loads from a
pointer that comes from memory each thread asks for itself, and makes both ways so. A vector covers
exactly the bytes of its elements: no byte is read or written that was not before. Only under the
assumption `no-fault-in-struct` a load may cover some that nobody reads.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import ClassVar, Generic, TypeVar

from msgspec import Struct

from ptxsw.analysis.coalescing import LANES, lane_stride, touched
from ptxsw.analysis.trip_count import times_in_loops
from ptxsw.changes.assumptions import NO_FAULT_IN_STRUCT
from ptxsw.changes.change import Change, Refusal, Worth
from ptxsw.changes.plan import Proof
from ptxsw.codegen.builder import Builder
from ptxsw.codegen.lower_vectorize import WideAccess, lower
from ptxsw.codegen.splice import Edit
from ptxsw.codegen.versioning import LoopPlace, loop_place
from ptxsw.emulator.trace import Access
from ptxsw.facts.alignment import Alignment, Test
from ptxsw.ptx import isa
from ptxsw.rewrites.adjacent_accesses import (
    AdjacentAccess,
    Joining,
    adjacent_accesses,
    by_offset,
)
from ptxsw.rewrites.base import Kernel, Outcome
from ptxsw.rewrites.entry_guard import obstacle_to_loop_copy
from ptxsw.rewrites.own_variables import alignable
from ptxsw.rewrites.vector_gain import cannot_pay
from ptxsw.terms.node import split

_LINE = 128  # bytes

# Where alignment is tested, a warp that makes the vector may have to pass the single accesses, too:
# of two ways that are short ptxas makes no branch. Each thread that asks for itself takes three
# instructions more.
_QUESTION = 3

# An SM issues four instructions in the time of a wavefront. As with bank conflicts, one that is
# saved outweighs two of them.
_FOR_A_WAVEFRONT = 2

_LONGEST_LOOP = 256
"""Instructions of a loop that is not worth writing twice."""

_T = TypeVar("_T")

Cost = tuple[float, float]
"""Wavefronts, then instructions."""


class Vectorize:
    """See above."""

    name: ClassVar[str] = "vectorize"
    summary: ClassVar[str] = (
        "Accesses of one thread to adjacent addresses become one vector access."
    )

    def find(self, kernel: Kernel) -> Iterator[Outcome]:
        """Vectors that are aligned, or may be tested to be."""
        groups = list(adjacent_accesses(kernel))
        if not groups:
            return
        search = _Search(kernel)
        outcomes = [o for number, group in enumerate(groups) for o in search.cover(number, group)]
        changes = [outcome for outcome in outcomes if isinstance(outcome, Change)]
        auto = kernel.options.mode == "auto"
        reason = cannot_pay(kernel, changes) if auto and changes else None
        for outcome in outcomes:
            given_up = reason is not None and isinstance(outcome, Change)
            yield Refusal(self.name, outcome.at, str(reason)) if given_up else outcome

    def nothing(self, kernel: Kernel) -> str:
        """See `OwnSearch`."""
        return "no adjacent accesses of a thread form an aligned vector"

    def lower(self, kernel: Kernel, changes: Sequence[Change]) -> tuple[Edit, ...]:
        """The edits that make the changes."""
        builder = Builder(kernel.text, kernel.function, kernel.trace.cfg.instructions)
        lower(builder, kernel.text, changes)
        return builder.edits()


# ---------------------------------------------------------------- which vectors


class _Search:
    """The vectors of one kernel, group by group."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.joining = Joining(kernel)
        self.alignment = Alignment(kernel.module, kernel.function)
        self.aligned: dict[tuple[object, int], tuple[tuple[Test, ...] | None, bool]] = {}
        self.strides: dict[object, int | None] = {}  # by the sum in an address
        self.loops: dict[int, LoopPlace | None] = {}  # by header, if they may stand twice
        self.holes = NO_FAULT_IN_STRUCT in kernel.options.assume

    def _loop_around(self, at: int) -> LoopPlace | None:
        """The innermost loop around an instruction, if it may stand twice."""
        cfg = self.kernel.trace.cfg
        for header in cfg.loops_around(cfg.block_of[at])[:1]:
            if header not in self.loops:
                self.loops[header] = self._copied_loop(header)
            return self.loops[header]
        return None

    def _copied_loop(self, header: int) -> LoopPlace | None:
        cfg = self.kernel.trace.cfg
        if header not in cfg.innermost_loops or header in cfg.irreducible:
            return None
        place = loop_place(cfg, cfg.loops[header])
        if isinstance(place, str) or place.end - place.start >= _LONGEST_LOOP:
            return None
        return place if obstacle_to_loop_copy(self.kernel, place) is None else None

    def cover(self, number: int, group: Sequence[AdjacentAccess]) -> Iterator[Change | Refusal]:
        """The best vectors for the accesses of a group, and why others stay as they are."""
        at = by_offset(group)
        lead = group[0].access
        ranges = {place: list(self._ranges(lead, at, place)) for place in at}
        if not any(ranges.values()):
            return
        vectors: dict[int, list[CandidateVector[Change]]] = {place: [] for place in at}
        refused: list[tuple[list[AdjacentAccess], Refusal]] = []
        for place in reversed(at):
            for start, count in ranges[place]:
                members = [at.get(start + lead.bytes * n) for n in range(count)]
                vector = self._vector(number, start, members)
                if isinstance(vector, Refusal):
                    refused.append(([m for m in members if m is not None], vector))
                elif vector is not None:
                    vectors[place].append(vector)
        single = (float(self._wavefronts(lead, lead.bytes)), 1.0)
        chosen = [c.what for c in best_cover(list(at), single, vectors.__getitem__)]
        for change in chosen:
            self.joining.join(change.replaces, change.at)
            yield change
        told = {index for change in chosen for index in change.replaces}
        for blocked, refusal in sorted(refused, key=lambda each: -len(each[0])):
            if told.isdisjoint(m.index for m in blocked):
                told.update(m.index for m in blocked)
                yield refusal

    def _ranges(
        self, lead: Access, at: dict[int, AdjacentAccess], place: int
    ) -> Iterator[tuple[int, int]]:
        """Where vectors may begin of which a place is the first that is accessed, and how many
        elements they have. Alignment is proved or tested for the common part of the addresses:
        where that is a multiple of the vector's size, the offset has to be one, too."""
        size, is_global = lead.bytes, isa.space(lead.instruction) == "global"
        module = self.kernel.module
        has_wide = is_global and module.sm >= 100 and module.version >= (8, 8)
        holes = self.holes and lead.kind == "load" and is_global
        for count in (2, 4, 8):
            # The most bytes of a vector (manual 9.7.9.8).
            if count * size > (32 if has_wide else 16) or (count == 8 and size != 4):
                continue
            for start in range(place - size * (count - 1) if holes else place, place + 1, size):
                if start % (count * size):
                    continue
                inside = [start + size * n for n in range(count) if start + size * n in at]
                whole = len(inside) == count
                if inside[0] == place and (whole or (holes and len(inside) > 1)):
                    yield start, count

    def _vector(
        self, number: int, start: int, members: Sequence[AdjacentAccess | None]
    ) -> CandidateVector[Change] | Refusal | None:
        """The members as one vector that begins at an offset; None where it would not be
        aligned."""
        present = [m for m in members if m is not None]
        first = present[0]
        size = first.access.bytes * len(members)
        # Loads move up to the first, so that every value is there for its readers; stores move
        # down to the last, when all values to be stored have been computed.
        order = sorted(m.index for m in present)
        at = order[0] if first.access.kind == "load" else order[-1]
        tests, divergent = self._tests(first, start, size)
        address = first.access.variants[0].address
        raised = alignable(self.kernel, address, size) if divergent else None
        divergent = divergent and raised is None
        if raised is None:
            left = self._left_alone(first, size, tests, divergent)
            if left is not None:  # most accesses are, so only who asks is told
                return Refusal("vectorize", at, left) if self.kernel.explains else None
        assert tests is not None
        loop = self._loop_around(at) if tests else None
        reason = self.joining.obstacle(present, at)
        if reason is None and tests and loop is None:
            reason = self.joining.obstacle_to_branch(present)
        if reason is not None:
            return Refusal("vectorize", at, reason)
        # Besides the vector itself.
        branches = len(present) if tests and loop is None else 0
        added = _QUESTION + len(present) if divergent else branches
        wavefronts = self._wavefronts(first.access, size)
        worth = self._worth(present, wavefronts, added)
        auto = self.kernel.options.mode == "auto"
        if auto and worth.instructions > -worth.wavefronts * _FOR_A_WAVEFRONT:
            return Refusal(
                "vectorize", at, "the added instructions would outweigh the wavefronts saved"
            )
        lead = next(m for m in present if m.index == at)
        detail = WideAccess(
            tuple(None if m is None else m.index for m in members), at, start - lead.offset, size,
            tuple((t.parameters, t.width, t.size) for t in tests),
            self.joining.stretches[at], number if divergent else None,
            loop, raised,
        )  # fmt: skip
        told = (f"the address is a multiple of {size}",) if divergent else tuple(map(str, tests))
        assumptions = (NO_FAULT_IN_STRUCT,) if None in members else ()
        proof = Proof(tests=told, assumptions=assumptions)
        change = Change("vectorize", at, frozenset(order), proof, detail, worth=worth)
        return CandidateVector(start, start + size, (float(wavefronts), 1.0 + added), change)

    def _left_alone(
        self, first: AdjacentAccess, size: int, tests: tuple[Test, ...] | None, divergent: bool
    ) -> str | None:
        """Why alignment decides against a vector."""
        if tests is None:
            return (
                f"its address may not be a multiple of {size}, and no test of parameters can "
                f"decide it"
            )
        ins = first.access.instruction
        if not tests and not divergent and isa.space(ins) == "shared":
            return "ptxas itself joins accesses to shared memory that it knows to be aligned"
        if divergent and (ins.guard is not None or first.access.kind == "store"):
            return f"each thread would have to test whether its address is a multiple of {size}"
        return None

    def _tests(
        self, first: AdjacentAccess, start: int, size: int
    ) -> tuple[tuple[Test, ...] | None, bool]:
        """What is to be tested on parameters, and whether each thread has to ask for itself;
        None where neither would tell."""
        terms = self.kernel.trace.terms
        address = first.access.variants[0].address
        key = split(address)[1], size
        if key not in self.aligned:
            begin = terms.add(address, terms.const(start - first.offset, address.width))
            tests = self.alignment.tests(begin, size)
            asks = tests is None and self.alignment.unknown_pointer(begin, size)
            self.aligned[key] = ((), True) if asks else (tests, False)
        return self.aligned[key]

    # ------------------------------------------------------------ worth

    def _worth(self, members: Sequence[AdjacentAccess], wavefronts: int, added: int) -> Worth:
        """What joining adds for a warp: loops around it are taken 16 times."""
        cfg = self.kernel.trace.cfg
        times = times_in_loops(len(cfg.loops_around(cfg.block_of[members[0].index])))
        single = sum(self._wavefronts(m.access, m.access.bytes) for m in members)
        return Worth((1 + added - len(members)) * times, (wavefronts - single) * times)

    def _wavefronts(self, access: Access, size: int) -> int:
        """The lines of 128 bytes that a warp touches, and no fewer than its bytes fill."""
        # A constant in the address changes nothing: members of a group have one stride.
        key = split(access.variants[0].address)[1]
        if key not in self.strides:
            self.strides[key] = lane_stride(self.kernel.trace.unwrapped, access)
        stride = self.strides[key]
        if stride is None:
            return LANES
        return _wavefronts(stride, size)


@cache
def _wavefronts(stride: int, size: int) -> int:
    lines = touched((lane * stride for lane in range(LANES)), size, _LINE)
    return max(len(lines), LANES * size // _LINE if stride else 1)


# ---------------------------------------------------------------- the cheapest of them


class CandidateVector(Struct, Generic[_T], frozen=True):
    """A vector that stands for all places from `start` up to `end`, those excluded."""

    start: int
    end: int
    cost: Cost
    what: _T


def best_cover(
    places: Sequence[int],
    single: Cost,
    candidates: Callable[[int], Iterable[CandidateVector[_T]]],
) -> list[CandidateVector[_T]]:
    """The vectors to make over places in ascending order, each of which costs `single` alone, so
    that the fewest wavefronts are left, and of these the fewest instructions. `candidates(place)`
    are those of which this is the first place.

        places    4   8  12  16  20        floats at these offsets, vectors aligned to their size
        before    .  [8  12][16  20]       two vectors and a scalar load
    """
    # A dynamic programme over the places, from the last to the first.
    best: list[tuple[Cost, CandidateVector[_T] | None, int]] = [((0.0, 0.0), None, 0)]
    for at in reversed(range(len(places))):
        left = len(places) - at - 1  # how many lie behind this one: best[n] is for the last n
        choice = (_sum(single, best[left][0]), None, left)
        options: list[tuple[Cost, CandidateVector[_T] | None, int]] = [choice]
        for candidate in candidates(places[at]):
            rest = len(places) - bisect_left(places, candidate.end)
            options.append((_sum(candidate.cost, best[rest][0]), candidate, rest))
        best.append(min(options, key=lambda option: option[0]))
    cover: list[CandidateVector[_T]] = []
    left = len(places)
    while left:
        _, taken, left = best[left]
        if taken is not None:
            cover.append(taken)
    return cover


def _sum(one: Cost, other: Cost) -> Cost:
    return one[0] + other[0], one[1] + other[1]
