"""One of two kernels, and the facts about it that do not depend on the other one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property

from ptxsw.flow.cfg import build
from ptxsw.flow.dataflow import live_at, liveness
from ptxsw.flow.pointer_spaces import PointerSpaces, Points
from ptxsw.ptx.ir import Function, Module, Reg
from ptxsw.terms import op
from ptxsw.terms.node import Term, Variance, walk
from ptxsw.terms.origin import Origin
from ptxsw.terms.specials import SPECIALS
from ptxsw.terms.terms import Terms
from ptxsw.validate.equations import Equations
from ptxsw.validate.evaluate import Computed, Evaluator

MAX_KNOWN = 1000
"""Nodes of a term that is kept from one place to another."""
_FIXED = frozenset({Origin.SYMBOL, Origin.WINDOW})  # where variables and state spaces lie


class Text:
    """One of the two kernels and what is known of it for good."""

    def __init__(
        self,
        terms: Terms,
        module: Module,
        function: Function,
        prefix: str = "register ",
        computed: Computed | None = None,
    ) -> None:
        """`prefix` is that of the names of unknowns; `computed` as for an `Evaluator`."""
        self.module, self.function = module, function
        self.cfg = build(function.body)
        self.evaluator = Evaluator(terms, module, function, computed)
        self._prefix = prefix
        self._live_at: dict[int, frozenset[Reg]] = {}
        self._unknowns: dict[Reg, Term] = {}

    @cached_property
    def equations(self) -> Equations:
        return Equations(self.cfg)

    @cached_property
    def named(self) -> frozenset[Reg]:
        """The registers that instructions name."""
        return frozenset(r for registers in (*self.cfg.written, *self.cfg.read) for r in registers)

    @cached_property
    def _live(self) -> Mapping[int, frozenset[Reg]]:
        return liveness(self.cfg)

    def live(self, position: int) -> frozenset[Reg]:
        """The registers that live on before an instruction."""
        live = self._live_at.get(position)
        if live is None:
            nothing: frozenset[Reg] = frozenset()
            live = live_at(self.cfg, lambda number: self._live.get(number, nothing), position)
            self._live_at[position] = live
        return live

    def unknown(self, reg: Reg) -> Term:
        """The unknown that bears a register's name, for what it holds where nothing is known."""
        unknown = self._unknowns.get(reg)
        if unknown is None:
            name = f"{reg.name}@{reg.scope}" if reg.scope else reg.name
            unknown = self._unknowns[reg] = self.evaluator.terms.atom(
                f"{self._prefix}{name}", self.evaluator.width(reg), Variance.LANE
            )
        return unknown

    def is_lasting(self, value: Term) -> bool:
        """Does a value mean the same at all times: is it made of parameters and of what a thread
        is given for good?"""
        return value.size <= MAX_KNOWN and all(map(self.lasts, walk(value)))

    def lasts(self, node: Term) -> bool:
        """Does a node mean the same at all times, if its arguments do?"""
        if node.kind not in op.OPAQUE:
            return True
        if node.kind is not op.ATOM or node.value in SPECIALS or node.origin in _FIXED:
            return node.kind is op.ATOM
        return node.variance is Variance.UNIFORM and node.origin is Origin.PARAMETER

    @cached_property
    def _parameters(self) -> frozenset[str]:
        return frozenset(p.name for p in self.function.params)

    def loops_gone_on(self, start: int, end: int, stops: Collection[int]) -> frozenset[str] | None:
        """The names of the loops whose last iteration may be another one behind a path, in some
        lane of those that are together there. It leads from one place, where a block begins, to the
        next one of some stops; None where it may be in other blocks between.

        These are the loops in which it is, and what lies in a loop that it leaves or goes round
        once more: lanes may have left that one in other iterations, or not have been in the inner
        one in this iteration."""
        cfg = self.cfg
        if not (self.begins(start) and self.begins(end)):
            return None
        first, last = self.block(start), self.block(end)
        successors = cfg.blocks[first].successors
        # A block without an image is run through, so the path may have been in others after it.
        if any(cfg.blocks[number].start not in stops for number in successors):
            return None
        if last != first and last not in successors:
            return None
        over = [
            loop.blocks
            for header, loop in cfg.loops.items()
            if first in loop.blocks and (last not in loop.blocks or last == header)
        ]
        return frozenset(
            cfg.name(header)
            for header, loop in cfg.loops.items()
            if not loop.blocks.isdisjoint({first, last}) or any(loop.blocks <= o for o in over)
        )

    def labels(self, position: int) -> tuple[str, ...]:
        """What the block that begins at a position is called: its labels, and its name."""
        return self._labels.get(position, ())

    @cached_property
    def _labels(self) -> Mapping[int, tuple[str, ...]]:
        return {b.start: (*b.labels, self.cfg.name(b.number)) for b in self.cfg.blocks}

    def points(self, position: int) -> Mapping[Reg, Points]:
        """Where registers point before an instruction."""
        return self._points.before(position)

    def points_at(self, position: int, reg: Reg) -> Points:
        """Where a register points before an instruction."""
        return self._points.at(position, reg)

    @cached_property
    def _points(self) -> PointerSpaces:
        return PointerSpaces(self.cfg, self._parameters, self.module.address_size)

    def block(self, position: int) -> int:
        """The block that begins at a position, or else holds it."""
        begun = self._block_at.get(position)
        return self.cfg.block_of[position] if begun is None else begun

    def begins(self, position: int) -> bool:
        """Does a block begin there?"""
        return position in self._block_at

    @cached_property
    def _block_at(self) -> Mapping[int, int]:
        return {b.start: b.number for b in self.cfg.blocks}

    def in_cycle(self, position: int) -> bool:
        """May control come again to the block that begins at a position, from its end?"""
        number = self.block(position)
        return number in self.cfg.reached_from(self.cfg.blocks[number].successors)
