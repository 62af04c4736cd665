"""What statements refer to beyond themselves: predicates, and the declarations around a body."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ptxsw.parser.body_checks import Shape
from ptxsw.parser.line_reader import Heads, Opcodes
from ptxsw.parser.operands import BLANKS, Operands, Pool, Unreadable
from ptxsw.parser.scope import Scope
from ptxsw.parser.variables import Declaration
from ptxsw.ptx.ir import Guard, Reg, Variable
from ptxsw.ptx.source import Source


class Guards(dict[str, Guard]):
    """`@!%p1` -> Guard, in one scope. Unreadable where only the grammar can tell."""

    __slots__ = ("_registers",)

    def __init__(self, registers: Operands) -> None:
        self._registers = registers

    def __missing__(self, text: str) -> Guard:
        name = text[1:].lstrip(BLANKS)
        negated = name[:1] == "!"
        reg = self._registers[name[1:].lstrip(BLANKS) if negated else name]
        if type(reg) is not Reg:
            raise Unreadable(text)
        guard = Guard(reg, negated)
        if not self._registers.shared:  # a name that passes with its scope is not kept
            self[text] = guard
        return guard


class Surroundings:
    """What the bodies of a module share: its text, its variables, the opcodes met so far."""

    def __init__(
        self, source: Source, plain: bool, functions: Collection[str] | None = None
    ) -> None:
        self.source = source
        self.plain = plain  # no comment and no string holds a brace
        self.scope = Scope(0, None)
        self.types: dict[str, str] = {}
        self.functions = functions  # names of the module's; None: only a body of it is known
        self.shapes: set[Shape] = set()  # of instructions whose operands are of the right kinds
        self.opcodes = Opcodes()
        self.heads = Heads(self.opcodes)
        self.pool = Pool()
        # What stands before a name: number of blanks, state space and type.
        self.fronts: dict[str, tuple[int, str, str]] = {}
        # Declarations by their text, each with whether it initialises the name.
        self.declared: dict[str, tuple[tuple[Declaration, bool], ...]] = {}

    def add(self, variables: Iterable[Variable]) -> None:
        """Declare variables of the module."""
        for variable in variables:
            self.scope.declare(variable)
            self.types[variable.name] = variable.type
