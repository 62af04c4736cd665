"""Facts from declarations: where variables and parameters lie, and how they are aligned."""

from __future__ import annotations

from ptxsw.facts.loads import CONSTANT
from ptxsw.ptx.ir import Variable, type_width
from ptxsw.terms.node import Term, Variance
from ptxsw.terms.specials import SPECIALS
from ptxsw.terms.terms import Terms
from ptxsw.validate.memory import Memory
from ptxsw.validate.memory_ssa import Bytes, multiple
from ptxsw.validate.text import Text


class Declared:
    """Facts from the declarations of the first text: the `spaces` that addresses point to, the
    values of pointer-sized `parameters`, the atoms that are `windows`, facts about alignment
    (`aligned`) and about the shape of the block (`facts`).

    What the `second` text declares of its variables counts, too, where there is one: wherever they
    lie then, those of the first might lie."""

    def __init__(self, terms: Terms, memory: Memory, old: Text, second: Text | None = None) -> None:
        self.terms, self.memory, self.old = terms, memory, old
        self._second: dict[str, int] = {}
        if second is not None:
            declared = (*second.module.variables, *second.function.body.variables)
            self._second = {v.name: v.align or 1 for v in declared if not v.scope}
        self.spaces: dict[Term, str] = {}
        self.aligned: list[Term] = []
        self.facts: list[Term] = []
        self._blocks_have_threads()
        self.parameters: set[Term] = set()
        for variable in self.old.module.variables:
            self._variable(variable, 0)
        for variable in self.old.function.body.variables:
            if variable.space != "reg":
                self._variable(variable, variable.scope)
        for parameter in self.old.function.params:
            self._parameter(parameter)
        self.windows = {
            self.old.evaluator.window(space, width): space
            for space in ("shared", "local", "const")
            for width in (32, 64)  # addresses of both sizes are converted
        }

    def _blocks_have_threads(self) -> None:
        """No side of a block is empty, and `.reqntid` gives its length."""
        shape = self.old.function.block_shape or (0, 0, 0)
        for axis, size in zip("xyz", shape, strict=True):
            name = f"%ntid.{axis}"
            side = self.terms.atom(name, 32, Variance.UNIFORM, SPECIALS[name][1])
            equation = self.terms.eq(side, self.terms.const(size, 32))
            self.facts.append(equation if size else self.terms.not_(equation))
            if size:
                number = self.terms.atom(f"%tid.{axis}", 32, *SPECIALS[f"%tid.{axis}"])
                self.facts.append(self.terms.ult(number, self.terms.const(size, 32)))

    def _variable(self, variable: Variable, scope: int) -> None:
        address = self.old.evaluator.symbol(variable.name, scope)
        self.spaces[address] = variable.space
        natural = type_width(variable.type) * variable.vector // 8
        second = 1 if scope else self._second.get(variable.name, 1)
        self._aligned(address, max(variable.align or natural, second))

    def _parameter(self, parameter: Variable) -> None:
        address = self.old.evaluator.symbol(parameter.name)
        self.spaces[address] = "param"
        self.memory.names_parameter(address, parameter)
        if parameter.dims or type_width(parameter.type) != self.old.module.address_size:
            return
        size = type_width(parameter.type) // 8
        # The term that every `ld.param` of it gives.
        value = self.memory.load((), CONSTANT, Bytes("param", address, size), ())
        self.parameters.add(value)
        if "ptr" in parameter.attributes:
            for attribute in parameter.attributes:
                if attribute == "global":
                    self.spaces[value] = "global"
                elif attribute.startswith("align "):
                    self._aligned(value, int(attribute.split()[1]))

    def _aligned(self, address: Term, size: int) -> None:
        if size > 1 and size & (size - 1) == 0:
            self.aligned.append(multiple(self.terms, address, size))
