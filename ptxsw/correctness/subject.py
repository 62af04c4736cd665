"""A kernel that rules of correctness look at, with what is given of its launch."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, partial
from math import prod

from msgspec import Struct
from msgspec.structs import replace

from ptxsw.analysis.warps import Block
from ptxsw.correctness.barriers import BlockBarriers, of_block
from ptxsw.correctness.block_values import BlockValues
from ptxsw.correctness.built_ins import built_in, takes_no_offset
from ptxsw.correctness.verdict import Assumption
from ptxsw.emulator.budget import Budget
from ptxsw.emulator.run import emulate
from ptxsw.emulator.trace import Trace
from ptxsw.facts.two_threads import TwoThreads
from ptxsw.flow.cfg import Cfg
from ptxsw.flow.convergence import waits_for
from ptxsw.flow.inlining import inlined, with_body
from ptxsw.flow.promotion import promoted
from ptxsw.ptx.ir import Function, Module, Operand, Reg
from ptxsw.report.source_places import SourcePlace, source_places
from ptxsw.terms.solver import Solver
from ptxsw.verify.launches import Launch


class Subject(Struct, frozen=True, dict=True, eq=False):
    """`block` is the shape that the caller declares (`--block`, `--launch`); `.reqntid` is the
    function's own. `launch` is a launch that the user gives. `without` are assumptions that are
    switched off."""

    module: Module
    function: Function
    budget: Budget
    block: Block | None = None
    launch: Launch | None = None
    without: frozenset[Assumption] = frozenset()

    @property
    def shape(self) -> Block | None:
        """The block, where anybody declares it."""
        if self.function.block_shape is not None:
            return self.function.block_shape
        return self.block if self.launch is None else self.launch.block

    @cached_property
    def whole(self) -> Function:
        """The kernel with what it calls, and with registers for its variables."""
        known = partial(built_in, size=self.module.address_size)
        function = inlined(self.module, self.function, known)
        body = promoted(function.body)
        return function if body is function.body else with_body(function, body)

    @cached_property
    def assumed(self) -> frozenset[Assumption]:
        """What every proof about it takes for granted."""
        host = takes_no_offset(self.module.source.text)
        return frozenset({Assumption.NO_OFFSET}) if host else frozenset()

    @cached_property
    def trace(self) -> Trace:
        """Of the `whole`. Raises ParseError."""
        code = self.whole.body.instructions
        computed = {i.name for i in code if of_block(i) and any(map(_is_register, i.operands))}
        return emulate(
            self.module, self.whole, budget_s=self.budget.seconds / 3, follow=frozenset(computed)
        )

    @cached_property
    def masks(self) -> Trace:
        """The same, with the masks that are computed of the lanes for which instructions wait."""
        code = self.cfg.instructions
        names = {i.name for i in code if isinstance(waits_for(i), Reg) and not of_block(i)}
        seconds = self.budget.seconds / 6
        return emulate(self.module, self.whole, budget_s=seconds, follow=frozenset(names))

    @property
    def cfg(self) -> Cfg:
        return self.trace.cfg

    @cached_property
    def solver(self) -> Solver:
        """For all questions about this kernel."""
        return Solver(self.budget.seconds / 3)

    @cached_property
    def two_threads(self) -> TwoThreads:
        return TwoThreads(self.trace, self.shape, self.solver)

    @cached_property
    def barriers(self) -> BlockBarriers:
        threads = None if self.shape is None else prod(self.shape)
        values = BlockValues(self.trace, threads, self.shape)
        return BlockBarriers(self.trace, self.shape, values.same)

    @cached_property
    def places(self) -> Mapping[int, SourcePlace]:
        """Where in the source instructions are from, as far as that is known."""
        return source_places(self.trace)

    @cached_property
    def standing_at(self) -> Mapping[int, int]:
        """The instructions of the whole by where they begin in the text: of several the first."""
        places: dict[int, int] = {}
        for index, instruction in enumerate(self.cfg.instructions):
            places.setdefault(instruction.start, index)
        return places

    def with_block(self, block: Block) -> Subject:
        """The same kernel, run symbolically once, with blocks of another shape."""
        other = replace(self, block=block)
        vars(other).update(trace=self.trace, solver=self.solver)
        return other

    def line(self, index: int) -> int:
        """Of an instruction, in the PTX."""
        return self.module.source.line(self.cfg.instructions[index].span.start)

    def assumes(self, assumption: Assumption) -> bool:
        return assumption not in self.without


def _is_register(operand: Operand) -> bool:
    return isinstance(operand, Reg)
