"""Strength reduction (gpucc, 3.4): addresses in loops from bases that no iteration changes.

    LOOP:                                      test that no index wraps in any iteration
    add.s32 %r5, %r4, -1;                      @!%sw_exact1 bra $sw_slow1;
    mul.wide.u32 %rd5, %r5, 4;                 {
    add.s64 %rd6, %rd1, %rd5;                  LOOP:
    ld.global.f32 %f1, [%rd6];                 mul.wide.u32 %sw_far1, %r4, 4;
    mul.wide.u32 %rd7, %r4, 4;        =>       add.s64 %sw_address1, %rd1, %sw_far1;
    add.s64 %rd8, %rd1, %rd7;                  ld.global.f32 %f1, [%sw_address1+-4];
    ld.global.f32 %f2, [%rd8];                 ld.global.f32 %f2, [%sw_address1];
    …                                          …
    @%p1 bra LOOP;                             @%p1 bra LOOP;
                                               }
                                               bra.uni $sw_done1;
                                               $sw_slow1:
                                               LOOP:          and the loop as it was
                                               $sw_done1:

An index of 32 bits that is extended to 64 wraps, or may, and so do its neighbours: a compiler that
lost the knowledge that they do not has to extend each by itself. Where `index + left · growth` is
small when a loop begins, `left` being how far its counter has to go, no index of the loop wraps.
The sum does not grow from iteration to iteration, so this stays true; a claim says so to the check.

All that is left for an iteration is one product and sum (one IMAD.WIDE) for each base that differs.
An address with a product of 64 bits is carried as a pointer, which grows by the same in each
iteration. Where its index has 64 bits, too, this needs no test, and the loop stands once:

    LOOP:                                      mad.lo.s64 %sw_base1, …;     a + 4·y·n
    mul.lo.s64 %rd5, %rd4, %rd2;               mov.b64 %sw_pointer1, %sw_base1;
    shl.b64 %rd6, %rd5, 2;                     LOOP:
    add.s64 %rd7, %rd1, %rd6;         =>       mov.b64 %rd7, %sw_pointer1;
    ld.global.f32 %f1, [%rd7];                 ld.global.f32 %f1, [%rd7];
    add.s64 %rd4, %rd4, %rd3;                  add.s64 %rd4, %rd4, %rd3;
    @%p1 bra LOOP;                             add.s64 %sw_pointer1, %sw_pointer1, %sw_step1;
                                               @%p1 bra LOOP;

Without a loop, and in loops that stay, addresses are made from one another (`straight_line.py`).

Dead arithmetic stays in the text: `ptxas` removes it. A loop is left alone unless what it needs by
then, counted as SASS, is less than before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import ClassVar

from msgspec.structs import replace

from ptxsw.analysis.loop_sums import LoopSums
from ptxsw.analysis.straight_sums import ACCESSES
from ptxsw.analysis.trip_count import TRIPS, times_in_loops
from ptxsw.changes.change import Change, Refusal, Worth
from ptxsw.changes.claim import Claim
from ptxsw.changes.plan import Proof
from ptxsw.codegen.builder import Builder, Names, fresh_prefix
from ptxsw.codegen.loop_guard import (
    AddressPart,
    Condition,
    declared,
    guard_claim,
    written_parts,
)
from ptxsw.codegen.lower_straight_line import SharedBases, write
from ptxsw.codegen.lower_strength_reduction import ReducedLoop, ShiftedTest, lower
from ptxsw.codegen.splice import Edit
from ptxsw.codegen.versioning import LoopPlace, loop_place
from ptxsw.flow.cfg import Cfg
from ptxsw.flow.flow_graph import Loop
from ptxsw.ptx import isa
from ptxsw.rewrites.address_bases import (
    NO_BASES,
    TOO_LARGE,
    Addresses,
    LoopBases,
    why_left_alone,
)
from ptxsw.rewrites.base import Kernel, Outcome
from ptxsw.rewrites.entry_guard import obstacle_to_loop_copy
from ptxsw.rewrites.iteration_cost import IterationCost
from ptxsw.rewrites.loop_counter import Counting, UncountedLoop
from ptxsw.rewrites.loop_guard import LoopGuard
from ptxsw.rewrites.pointer_guard import PointerGuards, ending_comparison
from ptxsw.rewrites.shared_index import SharedIndex, may_share_index
from ptxsw.rewrites.straight_line import NO_SHARED_BASE, StraightLine

_TEST = 12.0  # instructions before a loop, about
_START = 8.0  # the same for a pointer
_APART = 4.0  # and for how far an address is from another

_NOT_RUN = "the symbolic run ran out of time"
_NO_SAVING = "no base or pointer would make the addresses of the loop cheaper"


class StrengthReduction:
    """See above."""

    name: ClassVar[str] = "strength-reduction"
    summary: ClassVar[str] = (
        "Addresses are computed from a few bases, if a test finds that no index wraps."
    )

    def find(self, kernel: Kernel) -> Iterator[Outcome]:
        """Innermost loops whose addresses can be made with less; in a kernel without one, addresses
        that can be made from one another."""
        outcomes = list(self._loops(kernel))
        cfg = kernel.trace.cfg
        # A kernel whose loops change is left with that: the others gain little beside it.
        if not any(isinstance(outcome, Change) for outcome in outcomes):
            straight = list(self._straight(kernel))
            indexed: list[Change | Refusal] = list(self._indexed(kernel))
            better = indexed and _instructions(indexed) <= _instructions(straight)
            more = indexed if better else straight
            loops = {_loop_of(cfg, at) for o in more if isinstance(o, Change) for at in o.replaces}
            outcomes = [o for o in outcomes if _loop_of(cfg, o.at) not in loops]
            outcomes += more
        for outcome in outcomes:
            if kernel.explains or isinstance(outcome, Change):
                yield outcome

    def _loops(self, kernel: Kernel) -> Iterator[Change | Refusal]:
        """What becomes of each innermost loop."""
        cfg = kernel.trace.cfg
        reduced = pointers = tests = 0
        for header in sorted(cfg.innermost_loops):
            loop = cfg.loops[header]
            body = cfg.indices(sorted(loop.blocks))
            known = header in kernel.trace.loop_facts
            reason = why_left_alone(cfg, loop, body) if known else _NOT_RUN
            comparison = None
            if reason not in (TOO_LARGE, _NOT_RUN):
                comparison = ending_comparison(cfg, loop, short=kernel.options.mode == "auto")
            if reason is not None and comparison is None:
                yield from _refused(cfg, body, reason)
                continue
            search = _Search(kernel, loop, reduced + 1, pointers)
            outcome = search.change() if reason is None else None
            if comparison is not None and not isinstance(outcome, Change):
                outcome = search.without_counter(comparison, tests + 1) or outcome
            if isinstance(outcome, Change) and isinstance(outcome.detail, ReducedLoop):
                reduced, pointers = reduced + 1, pointers + len(outcome.detail.pointers)
            elif isinstance(outcome, Change):
                tests += 1
            if outcome is None:
                yield from _refused(cfg, body, reason or _NO_SAVING)
            else:
                yield outcome

    def _straight(self, kernel: Kernel) -> Iterator[Change | Refusal]:
        """Addresses made from one another, wherever they stand."""
        cfg, found = kernel.trace.cfg, False
        for outcome in StraightLine(kernel).find():
            found = True
            # Of loops there is a reason already.
            if isinstance(outcome, Change) or cfg.block_of[outcome.at] not in cfg.loop_of:
                yield outcome
        if not found and not cfg.loops:
            yield from _refused(cfg, range(len(cfg.instructions)), NO_SHARED_BASE)

    def _indexed(self, kernel: Kernel) -> Iterator[Change]:
        """Pointers of innermost loops made from one of them."""
        cfg, named = kernel.trace.cfg, 0
        for header in sorted(cfg.innermost_loops):
            loop = cfg.loops[header]
            if header in kernel.trace.loop_facts and may_share_index(cfg, loop):
                change = _Search(kernel, loop, 0, 0).indexed(named)
                if change is not None:
                    named += len(change.claims)
                    yield change

    def nothing(self, kernel: Kernel) -> str:
        """See `OwnSearch`."""
        return _NO_SAVING

    def lower(self, kernel: Kernel, changes: Sequence[Change]) -> tuple[Edit, ...]:
        """The edits that make the changes."""
        builder = Builder(kernel.text, kernel.function, kernel.trace.cfg.instructions)
        # The stretches that stand twice come last: what is before them goes into both copies.
        shared = [c.detail for c in changes if isinstance(c.detail, SharedBases)]
        for detail in sorted(shared, key=lambda detail: bool(detail.extremes)):
            write(builder, kernel.text, detail)
        return lower(builder, kernel.text, changes)


def _accesses(cfg: Cfg, body: Iterable[int]) -> Iterator[int]:
    """Where memory is accessed, but for arguments of calls."""
    for at in body:
        instruction = cfg.instructions[at]
        if instruction.opcode in ACCESSES and isa.space(instruction) != "param":
            yield at


def _refused(cfg: Cfg, body: Iterable[int], reason: str) -> Iterator[Refusal]:
    """The reason at the first access, where there is one."""
    first = next(_accesses(cfg, body), None)
    if first is not None:
        yield Refusal("strength-reduction", first, reason)


class _Search:
    """Looks for the change of one loop. `number` is that of the change in the kernel, `pointers`
    the count of pointers in earlier loops: new names are numbered on from them."""

    def __init__(self, kernel: Kernel, loop: Loop, number: int, pointers: int) -> None:
        self.kernel, self.loop = kernel, loop
        self.number, self.pointers = number, pointers
        self.cfg = kernel.trace.cfg

    @cached_property
    def cost(self) -> IterationCost:
        return IterationCost(self.cfg, self.loop)

    @cached_property
    def sums(self) -> LoopSums:
        return LoopSums(self.kernel.trace, self.loop)

    def change(self) -> Change | Refusal | None:
        """The change; a refusal if one would gain but cannot be made; None if none would gain."""
        counting = Counting(self.sums)
        addresses = Addresses(self.sums, counting, self.cfg, self.cost)
        bases = addresses.bases()
        if bases.gain <= 0 and not addresses.has_products():
            return None
        reason: UncountedLoop | None = None
        changes: list[Change | None] = []
        try:
            changes.append(self._reduced(bases, addresses, counting))
        except UncountedLoop as unfit:
            reason = unfit
        changes.append(self._carried(addresses))
        possible = [change for change in changes if change is not None]
        if possible:
            return min(possible, key=lambda change: change.worth.instructions)
        if reason is None or not bases.bases or bases.gain <= 0:
            return None
        return Refusal("strength-reduction", min(bases.moved), str(reason))

    # ------------------------------------------------------------ the change

    def _reduced(self, bases: LoopBases, addresses: Addresses, counting: Counting) -> Change | None:
        """Bases where they gain, and pointers, under a test. Raises UncountedLoop."""
        counter = counting.counter()
        chosen = bases if bases.gain > 0 else NO_BASES
        # A pointer grows before the branch back, so there has to be one such branch.
        if len(self.loop.latches) == 1:
            chosen = addresses.with_pointers(chosen, counter)
        if chosen.gain <= 0 or not chosen.needs_test:
            return None
        place = self._place()
        obstacle = obstacle_to_loop_copy(self.kernel, place)
        if obstacle is not None:
            raise UncountedLoop(obstacle)
        conditions = counting.conditions(chosen.indices, counter)
        worth = Worth(_TEST + 2 * len(conditions) - chosen.gain * TRIPS)
        if worth.instructions >= 0:
            raise UncountedLoop("the test before the loop would cost more than the loop saves")
        exact = f"{fresh_prefix(self.kernel.text)}exact{self.number}"
        detail = self._detail(
            place, chosen, exact, conditions, self._shifted(chosen, addresses.sums)
        )
        return self._change(detail, worth, ("no index of the loop wraps in any iteration",))

    def _carried(self, addresses: Addresses) -> Change | None:
        """Pointers that need no test: the loop stays where it is."""
        if len(self.loop.latches) != 1:
            return None
        chosen = addresses.with_pointers(NO_BASES, None)
        worth = Worth(_START * len(chosen.pointers) - chosen.gain * TRIPS)
        if chosen.gain <= 0 or worth.instructions >= 0:
            return None
        try:
            place = self._place()
        except UncountedLoop:
            return None
        return self._change(self._detail(place, chosen), worth)

    def indexed(self, named: int) -> Change | None:
        """The change by which pointers share an index; `named` distances have a register in earlier
        loops."""
        prefix = fresh_prefix(self.kernel.text)
        try:
            place = self._place()
        except UncountedLoop:
            return None
        chosen = SharedIndex(
            self.sums, self.cfg, self.cost, self.loop.header,
            lambda number: f"{prefix}apart{named + number + 1}",
        ).bases()  # fmt: skip
        saved = chosen.gain * TRIPS - _APART * len(chosen.bases)
        if saved <= 0 or self.cost.is_hardly_less(chosen.gain, self.kernel.options.mode):
            return None
        around = len(self.cfg.loops_around(self.loop.header)) - 1
        worth = Worth(-saved * times_in_loops(around))
        return replace(self._change(self._detail(place, chosen), worth), shortens=True)

    def without_counter(self, comparison: int, number: int) -> Change | None:
        """The change by which the loop ends when a pointer reaches its end, the kernel's
        `number`-th of this kind; None if there is no such pointer."""
        place = loop_place(self.cfg, self.loop)
        if isinstance(place, str):
            return None
        tests = PointerGuards(self.cfg, self.loop, place, comparison, self.sums, self.cost)
        outcome = tests.find(fresh_prefix(self.kernel.text), number)
        if outcome is None:
            return None
        test, claims = outcome
        return Change(
            "strength-reduction", comparison, frozenset({comparison}), Proof(), test,
            worth=Worth(1 - TRIPS), claims=claims,
        )  # fmt: skip

    def _detail(
        self, place: LoopPlace, chosen: LoopBases, exact: str = "",
        conditions: tuple[Condition, ...] = (), shifted: ShiftedTest | None = None,
    ) -> ReducedLoop:  # fmt: skip
        prefix, first = fresh_prefix(self.kernel.text), self.pointers + 1
        return ReducedLoop(
            place, self.cfg.blocks[self.loop.latches[0]].end - 1, exact,
            conditions, chosen.bases, chosen.pointers,
            tuple(f"{prefix}pointer{n}" for n in range(first, first + len(chosen.pointers))),
            shifted,
        )  # fmt: skip

    def _change(self, detail: ReducedLoop, worth: Worth, tests: tuple[str, ...] = ()) -> Change:
        moved = {at for base in detail.bases for at, _ in base.members}
        replaced = frozenset(moved | {pointer.at for pointer in detail.pointers})
        return Change(
            "strength-reduction", min(replaced), replaced, Proof(tests=tests), detail,
            worth=worth, claims=tuple(self._claims(detail)),
        )  # fmt: skip

    def _shifted(self, chosen: LoopBases, sums: LoopSums) -> ShiftedTest | None:
        """The loop's test without a sum that nothing else needs any more."""
        small = frozenset(index.carried for index in chosen.indices)
        kept = frozenset(base.index for base in chosen.bases)
        return LoopGuard(self.cfg, self.loop, sums, small, self.cost, chosen.moved, kept).shifted()

    def _claims(self, detail: ReducedLoop) -> Iterator[Claim]:
        """What the test has found remains true, and what the pointers are where it has."""
        label = self.cfg.name(self.loop.header)
        if detail.exact:
            yield guard_claim(label, detail.exact, detail.conditions, self.kernel.text)
        for pointer, carried in zip(detail.pointers, detail.carried, strict=True):
            yield self._held(label, carried, pointer.start, detail.exact)
        for base in detail.bases:
            if base.register:
                yield self._held(label, base.register, base.parts)

    def _held(
        self, label: str, register: str, parts: Sequence[AddressPart], where: str = ""
    ) -> Claim:
        """A register holds a sum as each iteration begins."""
        names = Names(f"{fresh_prefix(self.kernel.text)}claim_")
        lines: list[str] = []
        value = written_parts(parts, names.new, lines)
        return Claim(label, register, "\n".join(lines), value, declared(names), where=where)

    # ------------------------------------------------------------ where it stands

    def _place(self) -> LoopPlace:
        """Raises UncountedLoop where nothing can stand before the loop."""
        place = loop_place(self.cfg, self.loop)
        if isinstance(place, str):
            raise UncountedLoop(place)
        return place


def _instructions(outcomes: Iterable[Change | Refusal]) -> float:
    """What the changes among these add."""
    return sum(o.worth.instructions for o in outcomes if isinstance(o, Change))


def _loop_of(cfg: Cfg, at: int) -> int | None:
    return cfg.loop_of.get(cfg.block_of[at])
