"""New instructions for a body: their registers, and where they stand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ptxsw.codegen.insertions import Insertions
from ptxsw.codegen.names import Names, fresh_prefix
from ptxsw.codegen.splice import Edit, insert_lines
from ptxsw.flow.cfg import build
from ptxsw.ptx import isa
from ptxsw.ptx.ir import (
    Directive,
    Float,
    Function,
    Instruction,
    Int,
    Label,
    Operand,
    Reg,
    Special,
    Vec,
)

_ENDS = isa.opcodes(isa.Trait.LEAVE) | {"bra"}
"""Nothing behind them is run, where they have no guard."""


class Builder:
    """Collects what is written into one body, and makes edits of it."""

    def __init__(self, text: str, function: Function, instructions: Sequence[Instruction]) -> None:
        """`text` is that of the whole module, `instructions` those of the function's body."""
        self.text = text
        self.body = function.body
        self.instructions = instructions
        self.names = Names(fresh_prefix(text))
        self.lines = Insertions()
        self._tail: list[str] = []
        self._more: list[Edit] = []

    def register(self, stem: str, kind: str) -> str:
        """A register of type `.kind` that nothing else uses."""
        return self.names.new(stem, kind)

    def is_named(self, register: Reg, start: int, end: int) -> bool:
        """Is a register read or written from one instruction to before another?"""
        cfg = build(self.body)
        return any(register in cfg.read[i] or register in cfg.written[i] for i in range(start, end))

    def before(self, index: int, *lines: str) -> None:
        """Lines before an instruction, under no guard."""
        self.lines.put_before(index, *lines)

    def replace(self, index: int, *lines: str) -> None:
        """Lines in place of an instruction; each has to repeat its guard where that matters."""
        self.lines.replace(index, *lines)

    def at_entry(self, *lines: str) -> None:
        """Lines at the begin of the body, behind its declarations."""
        self.names.entry.extend(lines)

    def at_end(self, *lines: str) -> None:
        """Lines behind the last instruction of the body, reached by branches alone."""
        self._tail.extend(lines)

    def also(self, edit: Edit) -> None:
        """Add an edit that belongs to no instruction."""
        self._more.append(edit)

    def labels_before(self, index: int) -> int:
        """The offset in the text of an instruction's first label, or its own if it has none."""
        # A jump to the label must not run what is inserted, so that goes before the first label,
        # and before a `.loc` between label and instruction.
        begin = self.body.begin(index)
        for statement in reversed(self.body.code):
            if statement.span.start >= begin:
                continue
            if isinstance(statement, Label):
                begin = statement.span.start
            elif not isinstance(statement, Directive):
                break
        return begin

    def width(self, register: Reg) -> int:
        """The width of a register of the body, in bits."""
        return self.body.width(register)

    def guard(self, index: int) -> str:
        """The guard of an instruction as it is written before an opcode: `@%p1 `, `@!%p1 ` or
        nothing."""
        guard = self.instructions[index].guard
        return "" if guard is None else f"@{'!' if guard.negated else ''}{guard.reg.name} "

    def edits(self) -> tuple[Edit, ...]:
        """The edits of the module's text."""
        head = self.names.head(self.text, self.body) if self.names.registers else ()
        head = (*head, *self._more)
        return (*head, *self.lines.edits(self.text, self.body), *self._end())

    def _end(self) -> Iterator[Edit]:
        if not self._tail:
            return
        # Control must not fall from the old end into what is appended.
        last = self.instructions[-1]
        ends = last.opcode in _ENDS and last.guard is None
        lines = self._tail if ends else ["ret;", *self._tail]
        yield insert_lines(self.text, self.body.span.end - 1, lines)


def written(operand: Operand) -> str:
    """A register or a number as it stands in PTX."""
    match operand:
        case Reg(name) | Special(name):
            return name
        case Int(value):
            return str(value)
        case Float(bits, width):
            return f"0{'f' if width == 32 else 'd'}{bits:0{width // 4}X}"
        case _:
            raise TypeError(f"{operand!r} is no plain operand")


def elements(instruction: Instruction) -> tuple[Operand, ...]:
    """The registers that a load writes, or the values that a store writes, in order."""
    operand = instruction.operands[0 if instruction.opcode == "ld" else 1]
    return operand.elements if isinstance(operand, Vec) else (operand,)
