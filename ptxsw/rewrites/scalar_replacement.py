"""Scalar replacement (NVCUDA, 3.4): values that a loop carries from iteration to iteration stay in
registers.

    LOOP:                                      ld.global.nc.f32 %sw_held1, [%rd4];
      ld.global.nc.f32 %f1, [%rd4];      =>  LOOP:
      ld.global.nc.f32 %f2, [%rd4+4];          mov.b32 %f1, %sw_held1;
      ...                                      ld.global.nc.f32 %f2, [%rd4+4];
      add.s64 %rd4, %rd4, 4;                   ...
      @%p1 bra LOOP;                           mov.b32 %sw_held1, %f2;
                                               @%p1 bra LOOP;

A load whose address stays, or that reads what another load has read an iteration before, takes a
register; what the first iteration needs is loaded in front of the loop. Stores to an address that
stays are made once, behind the loop:

    LOOP:                                    LOOP:
      ...                                      ...
      st.global.f32 [%rd4], %f3;         =>    mov.b32 %sw_held1, %f3;
      @%p1 bra LOOP;                           @%p1 bra LOOP;
                                               st.global.f32 [%rd4], %sw_held1;

No store of the loop may touch what is carried: loads by `.nc` are safe, others where addresses are
known to differ. That the values are those of memory is claimed at the loop's begin, and checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

from msgspec.structs import replace

from ptxsw.analysis.lane_reuse import candidates
from ptxsw.changes.change import Change, Refusal
from ptxsw.codegen.builder import Builder
from ptxsw.codegen.carried_claims import claims
from ptxsw.codegen.entry_guard import EntryGuard
from ptxsw.codegen.loop_registers import Carried, DeferredStores, Repeated
from ptxsw.codegen.lower_scalar_replacement import lower
from ptxsw.codegen.splice import Edit
from ptxsw.emulator.trace import Access
from ptxsw.flow.cfg import Cfg
from ptxsw.rewrites.base import FOR_SHUFFLES, SHUFFLE, Kernel, Outcome, RefusedSource
from ptxsw.rewrites.entry_guard import LIMITS, SupposedFacts, obstacle_to_versions
from ptxsw.rewrites.loop_reuse import NAME, Kept, LoopReuse, count, served

_TOLD = "the loops' stores are disjoint from what they keep in registers"
_ROTATED = "is rotated: a shuffle cannot use a register that a loop carries"


class ScalarReplacement:
    """See above."""

    name: ClassVar[str] = NAME
    summary: ClassVar[str] = (
        "What a loop loads or stores again in every iteration stays in registers."
    )

    def find(self, kernel: Kernel) -> Iterator[Outcome]:
        """Loads and stores of innermost loops whose values stay in registers."""
        if kernel.trace.statistics.timed_out:
            return
        # First without a test, then with one at entry for the whole grid, last with one before
        # each loop. A later kind is taken only if it serves more accesses, since it costs more: the
        # kernel or the loop exists twice, and the last kind adds a branch that may diverge.
        loops = list(_innermost(kernel))
        details, refusals = _together(loop.outcome for loop in loops)
        if refusals and self._may_test(kernel):
            details, refusals = _tested(kernel, loops, details, refusals)
        if refusals:
            more, left = _together(loop.tested() for loop in loops)
            if count(more) > count(details):
                details, refusals = more, left
            else:
                why = {refusal.at: refusal for refusal in left}
                refusals = [why.get(refusal.at, refusal) for refusal in refusals]
        yield from refusals
        if details:
            yield from _without_source(kernel, [detail for detail, _ in details])
            yield from self._changes(kernel, details)

    def _may_test(self, kernel: Kernel) -> bool:
        """May the kernel be duplicated, and has it not been duplicated yet?"""
        return not _copies(kernel.trace.cfg) and obstacle_to_versions(kernel) is None

    def _changes(self, kernel: Kernel, details: Sequence[Kept]) -> Iterator[Change]:
        function, cfg = kernel.function, kernel.trace.cfg
        told = claims(
            kernel.text, function, cfg, self._builder(kernel), [detail for detail, _ in details]
        )
        for detail, proof in details:
            at = detail.stores[-1] if isinstance(detail, DeferredStores) else detail.at
            source = None if isinstance(detail, DeferredStores) else detail.source
            tests = () if detail.test is None else (_TOLD,)
            yield Change(
                self.name, at, served(detail), replace(proof, tests=tests), detail, source,
                claims=told.get(detail, ()),
            )  # fmt: skip

    def nothing(self, kernel: Kernel) -> str:
        """See `OwnSearch`."""
        return "no innermost loop loads or stores the same bytes in two iterations"

    def lower(self, kernel: Kernel, changes: Sequence[Change]) -> tuple[Edit, ...]:
        """The edits that make the changes."""
        builder = self._builder(kernel)
        lower(builder, kernel.text, kernel.function, kernel.trace.cfg, changes)
        return builder.edits()

    def _builder(self, kernel: Kernel) -> Builder:
        return Builder(kernel.text, kernel.function, kernel.trace.cfg.instructions)


def _together(
    outcomes: Iterable[tuple[list[Kept], list[Refusal]]],
) -> tuple[list[Kept], list[Refusal]]:
    """What can stay in registers in some loops, and why other reuse is left alone."""
    details: list[Kept] = []
    refusals: list[Refusal] = []
    for kept, refused in outcomes:
        details += kept
        refusals += refused
    return details, refusals


def _innermost(kernel: Kernel) -> Iterator[LoopReuse]:
    """The loops that are looked at."""
    trace, cfg = kernel.trace, kernel.trace.cfg
    if not cfg.loops:
        return
    inside: dict[int, list[Access]] = {header: [] for header in cfg.innermost_loops}
    for access in trace.accesses:
        header = cfg.loop_of.get(cfg.block_of[access.index])
        if header in inside:
            inside[header].append(access)
    left_out = cfg.irreducible | _copies(cfg)
    for header, accesses in inside.items():
        if header not in left_out:
            yield LoopReuse(kernel, header, accesses)


def _tested(
    kernel: Kernel, loops: Sequence[LoopReuse], details: list[Kept], refusals: list[Refusal]
) -> tuple[list[Kept], list[Refusal]]:
    """What can stay in registers behind a test at entry, and the rest: without a test, where it
    would serve no more than what is known without. The narrowest one supposes the most: where that
    tells nothing the wider ones do not either."""
    if all(loop.is_settled for loop in loops):
        return details, refusals

    def found_below(bits: int) -> tuple[SupposedFacts, list[Kept], list[Refusal]]:
        supposed = SupposedFacts(kernel, bits)
        again = (LoopReuse(kernel, o.header, o.accesses, supposed, o) for o in loops)
        return supposed, *_together(search.outcome for search in again)

    _, most, _ = found_below(LIMITS[-1])
    for bits in LIMITS if count(most) > count(details) else ():
        supposed, more, left = found_below(bits)
        if count(more) > count(details):
            test = supposed.guard()
            if isinstance(test, EntryGuard):
                return [(replace(detail, test=test), proof) for detail, proof in more], left
    return details, refusals


def _without_source(
    kernel: Kernel, details: Sequence[Carried | Repeated | DeferredStores]
) -> Iterator[Refusal]:
    """The loads that find no lane to take their value from, because the load of that lane is
    rotated. A shuffle from the register would save no load: a lane at the end of the warp makes
    it still, and rotation saves one for fewer instructions."""
    asked = SHUFFLE in kernel.considered and kernel.options.scheme != "keep"
    if not asked or FOR_SHUFFLES.missing(kernel.module) is not None:
        return
    rotated = {d.at: d for d in details if isinstance(d, Carried) and d.source is not None}
    giving_way = frozenset().union(*map(served, details))
    cfg = kernel.trace.cfg
    for load, parts in candidates(kernel.trace, kernel.options.max_delta) if rotated else ():
        crossing = [c for several in parts for c in several if c.crosses]
        sources = {c.source.index for c in crossing}
        if not crossing or load.index in giving_way or not sources <= rotated.keys():
            continue
        nearest = crossing[0]
        at = nearest.source.index
        if cfg.block_of[load.index] in cfg.loops[rotated[at].header].blocks:
            source = RefusedSource(at, nearest.delta)
            reason = f"its source, the load at line {kernel.line(at)}, {_ROTATED}"
            yield Refusal(SHUFFLE, load.index, reason, source, because_of=at)


def _copies(cfg: Cfg) -> frozenset[int]:
    """Headers of loops that stand there once more, as they were: where arrays overlap."""
    seen: set[str] = set()
    copies: set[int] = set()
    for block in cfg.blocks:
        if block.number in cfg.loops and not seen.isdisjoint(block.labels):
            copies.add(block.number)
        seen.update(block.labels)
    return frozenset(copies)
