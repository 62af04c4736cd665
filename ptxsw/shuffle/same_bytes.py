"""Do two lanes' loads read the same bytes (rule 1)?

Every path that one lane may have come is held against every path of the other. Addresses that
normal form does not show to be equal are asked of Z3; sums that must not overflow are proved from
the conditions of the path, or tested at run time, or assumed by name. Rows of a flat index end at
run time, too: that no row ends between the lanes is tested by comparing their quotients.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

from ptxsw.analysis.lane_reuse import Candidate
from ptxsw.analysis.pointers import pointer_bases
from ptxsw.changes.assumptions import NO_WRAP
from ptxsw.changes.claim import Obligation
from ptxsw.changes.plan import LaneStep, Proof, Refused, WrapGuard
from ptxsw.emulator.trace import Access, AccessView, RegisterValue, Trace, Widening
from ptxsw.facts.extensions import NoOverflow, discharge
from ptxsw.facts.lane_equality import (
    UNPROVED,
    NoOverflowView,
    Same,
    Unequal,
    assume_no_overflow,
    prove_equal,
)
from ptxsw.facts.lane_views import Mentioned, ShiftedLane, needs_rows
from ptxsw.facts.same_row import HeldValue, InsideRow, inside_row
from ptxsw.flow.cfg import ends_block
from ptxsw.ptx.bits import wrapped
from ptxsw.shuffle.plain_loads import NOT_GLOBAL, surely_global
from ptxsw.terms.digits import digits_in
from ptxsw.terms.node import Term, Variance, split
from ptxsw.terms.solver import Solver

_UNPROVED_ASKED = 4
"""So often Z3 may fail to tell that addresses are equal before it is asked no more."""


class SameBytes:
    """The addresses of one trace."""

    def __init__(self, trace: Trace, solver: Solver, assume: frozenset[str]) -> None:
        self._trace, self._terms = trace, trace.terms
        self._solver, self._assume = solver, assume
        self.one_row = one_row(trace)  # is lane i + N the thread with tid.x + N?
        self._guards = OverflowGuards(trace)
        self._unwrapped = NoOverflowView(self._terms)
        self._unproved = 0  # addresses that Z3 could not tell to be equal
        self._mentioned = Mentioned()

    def compared(
        self, candidate: Candidate, before: int
    ) -> tuple[Proof, list[Obligation]] | Refused:
        """May the bytes be taken to be the same, with tests that can stand before instruction
        `before`? On what that rests, and what was proved."""
        guards: list[WrapGuard] = []
        obligations: list[Obligation] = []
        assumptions: list[str] = []
        steps: list[LaneStep] = []
        rows = False
        for dest_view, source_view in self._pairs(candidate):
            other = self.other_lane(candidate)
            source, dest = self._addresses(candidate, source_view, dest_view)
            inside = self._inside_row(candidate, source, dest, dest_view.conditions, before)
            outcome = self._compared(source, dest, other, dest_view.conditions, assumptions, inside)
            if isinstance(outcome, Refused):
                return outcome
            if candidate.crosses and not self._one_memory(
                candidate.dest, dest_view.address, inside
            ):
                return Refused(NOT_GLOBAL)
            if inside is not None:
                steps += [LaneStep(reg, candidate.delta, step) for reg, step in inside.steps]
                steps += [LaneStep(p.reg, candidate.delta, 0, True) for p in inside.pointers]
            rows = rows or (other is not None and needs_rows(self._mentioned, source, dest))
            obligations.append(outcome.proved)
            given = dest_view.conditions | (other.exists(source, dest) if other else frozenset())
            for need in outcome.needs:
                match self._discharge(need, given, candidate, before):
                    case Refused() as refused:
                        return refused
                    case WrapGuard() as guard:
                        guards.append(guard)
                    case Obligation() as proved:
                        obligations.append(proved)
                    case assumed:
                        assumptions.append(assumed)
        proof = Proof(
            tuple(dict.fromkeys(guards)),
            rows and not self.one_row,
            tuple(assumptions),
            steps=tuple(dict.fromkeys(steps)),
        )
        return proof, obligations

    def _inside_row(
        self, candidate: Candidate, source: Term, dest: Term, given: frozenset[Term], before: int
    ) -> InsideRow | None:
        """The source's address in the other lane, where it has to be in this lane's row of a flat
        index. The test stands at the load, too late for a halo, which is made before."""
        terms, other = self._terms, self.other_lane(candidate)
        if other is None or other.mirror or before != candidate.dest.index:
            return None
        held, pointers = self._guards.held(given, before), self._guards.pointers(given, before)
        if not held and not pointers:
            return None
        # Equal by normal form already: no test of rows is needed.
        if isinstance(prove_equal(terms, None, source, dest, other, given), Same):
            return None
        return inside_row(terms, source, other, held, pointers)

    def _one_memory(self, access: Access, address: Term, inside: InsideRow | None) -> bool:
        """Do equal addresses in two lanes lead to the same bytes? Those in local memory do not."""
        if access.space != "generic" or surely_global(self._trace, access):
            return True
        tested = {p.value for p in inside.pointers} if inside is not None else set()
        bases = pointer_bases(address)
        return bool(bases) and bases <= tested

    def _compared(
        self,
        source: Term,
        dest: Term,
        other: ShiftedLane | None,
        conditions: frozenset[Term],
        assumptions: list[str],
        inside: InsideRow | None,
    ) -> Same | Refused:
        """Are the addresses equal? Z3 is not asked where the user has vouched for it, nor when
        it has given up on this kernel often enough, nor about quotients."""
        terms, unwraps = self._terms, NO_WRAP in self._assume
        moved = other(source) if other is not None else source
        asked = not unwraps and self._unproved < _UNPROVED_ASKED and inside is None
        if inside is not None:
            moved = inside.address
        outcome = prove_equal(
            terms, self._solver if asked else None, source, dest, other, conditions, moved
        )
        if outcome == UNPROVED:
            self._unproved += asked
            unwrapped = assume_no_overflow(self._unwrapped, moved, dest)
            if isinstance(unwrapped, Same) and not unwraps:
                return Refused(
                    f"the index may wrap, and no test is possible here (--assume {NO_WRAP})"
                )
            if isinstance(unwrapped, Same):
                assumptions.append(NO_WRAP)
                return unwrapped
            if unwraps and self._unproved < _UNPROVED_ASKED and inside is None:
                outcome = prove_equal(terms, self._solver, source, dest, other, conditions)
                self._unproved += outcome == UNPROVED
        return Refused(outcome.reason) if isinstance(outcome, Unequal) else outcome

    def other_lane(self, candidate: Candidate) -> ShiftedLane | None:
        if not candidate.crosses:
            return None
        return ShiftedLane(self._terms, candidate.delta, candidate.mirror, self._mentioned)

    def _addresses(
        self, candidate: Candidate, source_view: AccessView, dest_view: AccessView
    ) -> tuple[Term, Term]:
        """Of the two elements, each as its own lane computes it."""
        ahead = candidate.displacement + candidate.element * candidate.source.bits // 8
        behind = candidate.dest_element * candidate.dest.bits // 8
        terms, width = self._terms, dest_view.address.width
        return (
            terms.add(source_view.address, terms.const(ahead, source_view.address.width)),
            terms.add(dest_view.address, terms.const(behind, width)),
        )

    def _pairs(self, candidate: Candidate) -> Iterator[tuple[AccessView, AccessView]]:
        """The views of the two lanes that can meet: any two for different lanes, unless only
        warp-uniform conditions tell the paths apart; for a copy, those of one path."""
        # Different lanes may come by different paths. Only where all that tells two paths apart is
        # the same for the whole warp can no pair of lanes be split between them.
        for dest_view in candidate.dest.variants:
            for source_view in candidate.source.variants:
                together = not candidate.crosses or self._uniformly_apart(dest_view, source_view)
                if not (together and self._contradict(dest_view, source_view)):
                    yield dest_view, source_view

    def _uniformly_apart(self, a: AccessView, b: AccessView) -> bool:
        apart = a.conditions ^ b.conditions
        return all(c.variance == Variance.UNIFORM for c in apart)

    def _contradict(self, a: AccessView, b: AccessView) -> bool:
        return any(self._terms.not_(c) in b.conditions for c in a.conditions)

    def _discharge(
        self, need: NoOverflow, given: frozenset[Term], candidate: Candidate, before: int
    ) -> Obligation | WrapGuard | Refused | str:
        """Prove, else guard, or assume what the user said: the assumption's name."""
        proved = discharge(self._terms, self._solver, need, given)
        if proved is not None:
            return proved
        if need.signed and NO_WRAP in self._assume:
            return NO_WRAP
        guard = self._guards.place(need, given, before)
        if guard is None:
            return Refused("the index may wrap, and no register holds it for a test")
        # A copy is made outright: there is no load of its own for a test to fall back to.
        if not candidate.crosses:
            return Refused("the index may wrap")
        return guard


def one_row(trace: Trace) -> bool:
    """Does `.reqntid` say that rows of the block do not wrap inside a warp?"""
    shape = trace.function.block_shape
    return shape is not None and whole_rows(shape)


def whole_rows(block: tuple[int, int, int]) -> bool:
    """Do the lanes of each warp of such a block lie in one row of it?"""
    return block[0] % 32 == 0 or block[1:] == (1, 1)


class OverflowGuards:
    """Finds tests for index sums: at an instruction that extends a register which holds the
    index up to a constant, on every way to the load, or, if that is in fewer loops, behind the
    only instruction that sets the register."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    @cached_property
    def _by_class(self) -> dict[object, list[Widening]]:
        by_class: dict[object, list[Widening]] = {}
        for widening in self._trace.widenings:
            for key in dict.fromkeys(map(_class, widening.terms)):
                by_class.setdefault(key, []).append(widening)
        return by_class

    def place(self, need: NoOverflow, given: frozenset[Term], before: int) -> WrapGuard | None:
        """The test for `need`, in a lane that knows `given`, at a place that dominates
        instruction `before`: in the fewest loops, and of those the newest."""
        best: tuple[int, int, WrapGuard] | None = None
        for widening in self._by_class.get(_class(need.value), []):
            # The test reads the register on the path that this lane took. If the register holds
            # something else on another path, the conditions have to rule that path out.
            values = widening.on_paths(given, self._trace.terms)
            if len(values) != 1 or _class(values[0]) != _class(need.value):
                continue
            width = need.value.width
            addend = wrapped(split(need.value)[0] - split(values[0])[0], width)
            for index in self._places(widening, before):
                guard = WrapGuard(index, widening.reg, width, addend, need.step, need.signed)
                depth = len(self._loops(index))
                if best is None or (-depth, index) > best[:2]:
                    best = (-depth, index, guard)
        return best[2] if best is not None else None

    def _places(self, widening: Widening, before: int) -> Iterator[int]:
        """Instructions before which the register holds what it holds at the extension."""
        if self.in_time(widening.index, before):
            yield widening.index
        # An index that is extended in an inner loop but set outside it is tested there, once.
        writer = self._trace.cfg.sole_writers.get(widening.reg)
        if writer is None or len(self._loops(writer)) >= len(self._loops(widening.index)):
            return
        end = self._trace.cfg.blocks[self._trace.cfg.block_of[writer]].end - 1
        if (
            end > writer
            and self._trace.function.body.means(widening.reg, end)
            and ends_block(self._trace.cfg.instructions[end])
            and self.in_time(end, before)
        ):
            yield end

    def held(self, given: frozenset[Term], before: int) -> tuple[HeldValue, ...]:
        """The registers that hold digits of a flat index at instruction `before`, in a lane that
        knows `given`; those that tell most first."""
        digits = self._held(self._trace.quotients, given, before)
        return tuple(sorted(digits, key=lambda one: -len(digits_in(one.value))))

    def pointers(self, given: frozenset[Term], before: int) -> tuple[HeldValue, ...]:
        """The registers that hold pointers that were loaded, likewise."""
        return tuple(self._held(self._trace.pointers, given, before))

    def _held(
        self, values_held: Iterable[RegisterValue], given: frozenset[Term], before: int
    ) -> Iterator[HeldValue]:
        writers, body = self._trace.cfg.sole_writers, self._trace.function.body
        for one in values_held:
            # With a second writer it might hold something else by the time of the load.
            stays = writers.get(one.reg) == one.index
            if stays and self.in_time(one.index, before) and body.means(one.reg, before):
                values = one.on_paths(given, self._trace.terms)
                if len(values) == 1:
                    yield HeldValue(one.reg, values[0])

    def in_time(self, index: int, before: int) -> bool:
        """Is it on every path to `before`, for the last time in the same iteration of every
        loop?"""
        cfg = self._trace.cfg
        own, block = cfg.block_of[index], cfg.block_of[before]
        if not (index < before if own == block else cfg.dominates(own, block)):
            return False
        # A place in a loop that the load is not in speaks of an earlier iteration.
        return set(self._loops(before)).issuperset(self._loops(index))

    def _loops(self, index: int) -> tuple[int, ...]:
        return self._trace.cfg.loops_around(self._trace.cfg.block_of[index])


def _class(term: Term) -> object:
    return term.width, split(term)[1]
