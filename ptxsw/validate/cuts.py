"""What is known where a comparison begins: equal registers, equations, branches, claims.

At a cut, every register that lives on in the first text has the same value in both. A value is
written out over others as far as the equations of the text allow it, down to unknowns that bear
the registers' names; so addresses that are made before a loop are still sums of parameters in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct, field

from ptxsw.facts.conditions import assumed
from ptxsw.flow.dataflow import uses
from ptxsw.flow.pointer_spaces import Points
from ptxsw.ptx.ir import Reg
from ptxsw.terms import op
from ptxsw.terms.node import Term
from ptxsw.terms.terms import Terms
from ptxsw.validate.memory_ssa import Store
from ptxsw.validate.path import End, Path
from ptxsw.validate.runner import Runner
from ptxsw.validate.text import Text
from ptxsw.validate.warp import WarpView

# Values are written out over this many instructions, and conditions kept from as many branches.
_MAX_EQUATIONS = 4000
_MAX_BRANCHES = 24


class Registers(Struct, dict=True):
    """The values of one text's registers at a place. `given` is asked for a value first, then the
    equations of the text. A register without either becomes an unknown; `points` says where such a
    register points."""

    runner: Runner
    text: Text
    position: int
    given: Callable[[Reg], Term | None]
    values: dict[Reg, Term] = field(default_factory=dict)
    points: Mapping[Reg, Points] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._equations = self.text.equations
        self._held = self._equations.at(self.position)
        self._evaluated = 0

    def get(self, reg: Reg) -> Term:
        """The value of a register."""
        value = self.values.get(reg)
        return self._resolved(reg) if value is None else value

    def _resolved(self, reg: Reg) -> Term:
        values, read = self.values, self.runner.cfg.read
        stack = [reg]
        while stack:
            top = stack[-1]
            if top in values:
                stack.pop()
                continue
            told = self.given(top)
            writer = None if told is not None else self._writer(top)
            if writer is None:
                values[top] = self._unknown(top) if told is None else told
                continue
            # An explicit stack: chains of equations are longer than Python's stack is deep.
            missing = [r for r in read[writer] if r not in values]
            if missing and self._evaluated < _MAX_EQUATIONS:
                stack.extend(missing)
            else:
                self._evaluate(writer, top)
        return values[reg]

    def _evaluate(self, writer: int, reg: Reg) -> None:
        self._evaluated += 1
        path = Path(self._value_or_unknown, (), self.position)
        self.runner.run(path, self.runner.cfg.instructions[writer], writer)
        for other, value in path.written.items():
            self.values.setdefault(other, value)
        self.values.setdefault(reg, self._unknown(reg))

    def _value_or_unknown(self, reg: Reg) -> Term:
        value = self.values.get(reg)
        return self._unknown(reg) if value is None else value

    def _writer(self, reg: Reg) -> int | None:
        """The instruction whose result a register still holds, if that is no plain load."""
        if self._evaluated >= _MAX_EQUATIONS:
            return None
        writer = self._equations.writer(self._held, reg)
        if writer is None:
            return None
        return writer if self.runner.tells(self.runner.cfg.instructions[writer]) else None

    def _unknown(self, reg: Reg) -> Term:
        unknown = self.text.unknown(reg)
        self.runner.windows.points(unknown, self.points.get(reg))
        return unknown

    def conditions(self, terms: Terms) -> Iterator[Term]:
        """What branches on the path here have decided."""
        # The last branches in the text, which are nearest to this place as a rule.
        decided = list(self._equations.branches(self._held))
        for reg, value in decided[-_MAX_BRANCHES:]:
            term = self.get(reg)
            yield term if value else terms.not_(term)

    def note_conversions(self) -> None:
        """Let conversions of pointers on the path here show which space they point to."""
        for index in self._equations.conversions(self._held):
            instruction = self.runner.cfg.instructions[index]
            for reg in uses(instruction):
                self.get(reg)
            self.runner.run(Path(self._value_or_unknown, (), self.position), instruction, index)


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
        if condition.kind is not op.CONST:
            terms = self.old.runner.evaluator.terms
            self.conditions = assumed(self.conditions, condition, terms)
