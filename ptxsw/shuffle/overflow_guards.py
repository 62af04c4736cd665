"""Where an index can be tested at run time: a register that holds it, or its quotient, and a place
to ask it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

from ptxsw.changes.plan import WrapGuard
from ptxsw.emulator.trace import RegisterValue, Trace, Widening
from ptxsw.facts.overflow import NoOverflow
from ptxsw.facts.same_row import HeldValue
from ptxsw.flow.cfg import ends_block
from ptxsw.ptx.bits import wrapped
from ptxsw.terms.digits import digits_in
from ptxsw.terms.node import Term, split


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
