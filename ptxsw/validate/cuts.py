"""What is known where a comparison begins: equal registers, equations, branches, claims.

At a cut, every register that lives on in the first text has the same value in both. A value is
written out over others as far as the equations of the text allow it, down to unknowns that bear
the registers' names; so addresses that are made before a loop are still sums of parameters in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct, field

from ptxsw.analysis.instruction_kinds import Kind, kind
from ptxsw.emulator.node import Term, Variance
from ptxsw.emulator.terms import Terms
from ptxsw.flow.cfg import Cfg
from ptxsw.flow.dataflow import uses
from ptxsw.flow.pointer_spaces import Points
from ptxsw.ir import Instruction, Reg
from ptxsw.validate.chain import Store
from ptxsw.validate.conditions import assumed
from ptxsw.validate.equations import Equations
from ptxsw.validate.evaluate import Evaluator
from ptxsw.validate.path import End, Path
from ptxsw.validate.runner import Runner
from ptxsw.validate.warp import WarpView

# Values are written out over this many instructions, and conditions kept from as many branches.
_MAX_EQUATIONS = 4000
_MAX_BRANCHES = 24


class Registers(Struct, dict=True):
    """The values of one text's registers at a place. `given` is asked for a value first, then the
    equations of the text. A register without either becomes an unknown named with `prefix`;
    `points` says where such a register points."""

    runner: Runner
    equations: Equations
    position: int
    given: Callable[[Reg], Term | None]
    prefix: str
    values: dict[Reg, Term] = field(default_factory=dict)
    points: Mapping[Reg, Points] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._held = self.equations.at(self.position)
        self._evaluated = 0

    def get(self, reg: Reg) -> Term:
        """The value of a register."""
        value = self.values.get(reg)
        return self._resolved(reg) if value is None else value

    def _resolved(self, reg: Reg) -> Term:
        stack = [reg]
        while stack:
            top = stack[-1]
            if top in self.values:
                stack.pop()
                continue
            told = self.given(top)
            writer = None if told is not None else self._writer(top)
            if writer is None:
                self.values[top] = self._unknown(top) if told is None else told
                continue
            # An explicit stack: chains of equations are longer than Python's stack is deep.
            instruction = self.runner.cfg.instructions[writer]
            missing = [r for r in uses(instruction) if r not in self.values]
            if missing and self._evaluated < _MAX_EQUATIONS:
                stack.extend(missing)
            else:
                self._evaluate(instruction, writer, top)
        return self.values[reg]

    def _evaluate(self, instruction: Instruction, writer: int, reg: Reg) -> None:
        self._evaluated += 1
        path = Path(self._value_or_unknown, (), self.position)
        self.runner.run(path, instruction, writer)
        for written, value in path.written.items():
            self.values.setdefault(written, value)
        self.values.setdefault(reg, self._unknown(reg))

    def _value_or_unknown(self, reg: Reg) -> Term:
        value = self.values.get(reg)
        return self._unknown(reg) if value is None else value

    def _writer(self, reg: Reg) -> int | None:
        """The instruction whose result a register still holds, if that is no plain load."""
        if self._evaluated >= _MAX_EQUATIONS:
            return None
        writer = self.equations.writer(self._held, reg)
        if writer is None:
            return None
        return writer if self.runner.tells(self.runner.cfg.instructions[writer]) else None

    def load(self, reg: Reg) -> int | None:
        """The plain load whose result a register still holds."""
        writer = self.equations.writer(self._held, reg)
        if writer is None or kind(self.runner.cfg.instructions[writer]) is not Kind.LOAD:
            return None
        return writer

    def _unknown(self, reg: Reg) -> Term:
        unknown = unknown_of(self.runner.evaluator, reg, self.prefix)
        self.runner.windows.points(unknown, self.points.get(reg))
        return unknown

    def conditions(self, terms: Terms) -> Iterator[Term]:
        """What branches on the path here have decided."""
        # The last branches in the text, which are nearest to this place as a rule.
        decided = list(self.equations.branches(self._held))
        for reg, value in decided[-_MAX_BRANCHES:]:
            term = self.get(reg)
            yield term if value else terms.not_(term)

    def note_conversions(self) -> None:
        """Let conversions of pointers on the path here show which space they point to."""
        for index in self.equations.conversions(self._held):
            instruction = self.runner.cfg.instructions[index]
            for reg in uses(instruction):
                self.get(reg)
            self.runner.run(Path(self._value_or_unknown, (), self.position), instruction, index)


def unknown_of(evaluator: Evaluator, reg: Reg, prefix: str = "register ") -> Term:
    """The unknown that bears a register's name: of the first text, if no other prefix is given."""
    name = f"{reg.name}@{reg.scope}" if reg.scope else reg.name
    return evaluator.terms.atom(f"{prefix}{name}", evaluator.width(reg), Variance.LANE)


def live_at(cfg: Cfg, live: Callable[[int], frozenset[Reg]], position: int) -> frozenset[Reg]:
    """The registers that live on before an instruction, from those at the starts of blocks."""
    if position >= len(cfg.instructions):
        return frozenset()
    block = cfg.blocks[cfg.block_of[position]]
    if position == block.start:
        return live(block.number)
    now: set[Reg] = set()
    for successor in block.successors:
        now |= live(successor)
    for at in range(block.end - 1, position - 1, -1):
        now.difference_update(cfg.surely_written[at])
        now.update(cfg.read[at])
    return frozenset(now)


class Cut(Struct):
    """One place in each text, and what is known there. `view`: the other lanes of the warp. The
    first text's memory is the second's behind `stores`, which the second has put off."""

    old_position: int
    new_position: int
    old: Registers
    new: Registers
    conditions: tuple[Term, ...] = ()
    view: WarpView | None = None
    stores: tuple[Store, ...] = ()

    def start(self, position: int, conditions: tuple[Term, ...], end: End | None = None) -> Path:
        """A path of the first text that begins here."""
        return Path(self.old.get, conditions, position, stores=[list(self.stores)], end=end)

    def assume(self, condition: Term) -> None:
        if condition.kind != "const":
            terms = self.old.runner.evaluator.terms
            self.conditions = assumed(self.conditions, condition, terms)
