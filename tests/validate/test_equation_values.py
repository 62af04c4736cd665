"""What is remembered from place to place is what is computed there anew."""

from __future__ import annotations

import random

import pytest

from ptxsw.parser import parse
from ptxsw.ptx.ir import Instruction, Reg
from ptxsw.terms.node import Term, Variance
from ptxsw.terms.solver import Solver
from ptxsw.terms.terms import Terms
from ptxsw.validate.cuts import Registers
from ptxsw.validate.declared import Declared
from ptxsw.validate.equation_values import EquationValues
from ptxsw.validate.evaluate import Evaluator, Get
from ptxsw.validate.memory import Memory
from ptxsw.validate.runner import Runner
from ptxsw.validate.text import Text
from ptxsw.validate.windows import Windows
from tests.shuffle.test_uniform_random import program


class Kernel:
    """A random kernel, with what its registers are read with."""

    def __init__(self, seed: int) -> None:
        module = parse(program(seed))
        self.terms = Terms()
        self.text = Text(self.terms, module, module.functions[0])
        self.memory = Memory(self.terms, Solver())
        self.declared = Declared(self.terms, self.memory, self.text)

    def registers(self, values: EquationValues, position: int, told: dict[Reg, Term]) -> Registers:
        windows = Windows(self.terms, self.declared.spaces, self.declared.windows)
        text = self.text
        runner = Runner(text.cfg, text.evaluator, self.memory, windows, witness=True)
        return Registers(runner, values, position, told.get)


@pytest.mark.parametrize("seed", range(24))
def test_values_at_all_places(seed: int) -> None:
    rng, kernel = random.Random(seed), Kernel(seed)
    cfg = kernel.text.cfg
    named = sorted({reg for several in (*cfg.written, *cfg.read) for reg in several})
    remembered = EquationValues(kernel.text)
    for _ in range(3):  # what is told differs from time to time
        for block in cfg.blocks:
            told = {
                reg: kernel.terms.atom(
                    f"told {reg.name}", kernel.text.evaluator.width(reg), Variance.LANE
                )
                for reg in rng.sample(named, rng.randrange(4))
            }
            here = kernel.registers(remembered, block.start, told)
            anew = kernel.registers(EquationValues(kernel.text), block.start, told)
            for reg in rng.sample(named, len(named)):
                assert here.get(reg) is anew.get(reg)


def test_a_value_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, calls = Kernel(3), list[int]()
    compute = Evaluator.compute

    def counted(self: Evaluator, instruction: Instruction, get: Get) -> list[tuple[Reg, Term]]:
        calls.append(1)
        return compute(self, instruction, get)

    monkeypatch.setattr(Evaluator, "compute", counted)
    values, counts = EquationValues(kernel.text), []
    for _ in range(2):
        for block in kernel.text.cfg.blocks:
            registers = kernel.registers(values, block.start, {})
            for several in kernel.text.cfg.written:
                for reg in several:
                    registers.get(reg)
        counts.append(len(calls))
    assert 0 < counts[0] == counts[1]
