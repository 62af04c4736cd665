"""What the equations of one text give, from place to place.

At each place the values of registers are written out anew, since what their equations begin with
may be something else there. Mostly it is not, and an instruction computes what it did before.
"""

from __future__ import annotations

from collections.abc import Sequence

from ptxsw.analysis.instruction_kinds import Kind, kinds
from ptxsw.ptx.ir import Reg
from ptxsw.terms.node import Term
from ptxsw.validate.evaluate import Get
from ptxsw.validate.runner import Runner
from ptxsw.validate.text import Text

_Written = Sequence[tuple[Reg, Term]]


class EquationValues:
    """Computes what instructions of one text do at any place."""

    def __init__(self, text: Text) -> None:
        self.text = text
        self._kinds = kinds(text.cfg)
        self._computed: dict[tuple[object, ...], _Written] = {}
        self._tells: dict[int, bool] = {}

    def tells(self, index: int, runner: Runner) -> bool:
        """Does the result of an instruction follow from its operands at any time?"""
        told = self._tells.get(index)
        if told is None:
            told = self._tells[index] = runner.tells(self.text.cfg.instructions[index])
        return told

    def computed(self, index: int, get: Get) -> _Written | None:
        """What an instruction without a guard writes, from the values that it reads; None where
        running it does more than that."""
        cfg = self.text.cfg
        instruction = cfg.instructions[index]
        if self._kinds[index] is not Kind.COMPUTE or instruction.opcode == "cvta":
            return None
        key = (index, *map(get, cfg.read[index]))
        written = self._computed.get(key)
        if written is None:
            values = dict(self.text.evaluator.compute(instruction, get))
            written = self._computed[key] = tuple(values.items())
        return written
