"""New code for a body: its registers and labels, its lines, and where they stand."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field

from ptxsw.codegen.splice import Edit, edited_part, indentation, insert, insert_lines, line_end
from ptxsw.flow.cfg import build
from ptxsw.parser import operand_spans
from ptxsw.ptx import isa
from ptxsw.ptx.ir import (
    Body,
    Directive,
    Float,
    Function,
    Instruction,
    Int,
    Label,
    Mem,
    Operand,
    Reg,
    Special,
    Symbol,
    Vec,
)
from ptxsw.ptx.source import Source, Span

_PREFIX = "%sw_"
OVERLAP = "overlap"
FALLBACKS = ("slow", OVERLAP)
"""Stems of labels behind which stands the code as it was, for where a test of ours fails."""


def is_label_of(label: str, *stems: str) -> bool:
    """Was a label made from one of these stems?"""
    return re.match(rf"\$sw\d*_(?:{'|'.join(stems)})\d+$", label) is not None


def fresh_prefix(text: str) -> str:
    """A prefix with which no register in the text begins; less its `%`, no other name either."""
    # Labels and parameters have no `%`. A text that went through ptxsw before holds `%sw_` names:
    # the second time the prefix is `%sw1_`.
    prefix, number = _PREFIX, 0
    while prefix[1:] in text:
        number += 1
        prefix = f"{_PREFIX[:-1]}{number}_"
    return prefix


class Names(Struct):
    """The registers and labels that a rewriting adds to one body."""

    prefix: str
    registers: dict[str, list[str]] = field(default_factory=dict)  # type -> names
    entry: list[str] = field(default_factory=list)  # lines at the body's begin
    _counts: dict[str, int] = field(default_factory=dict)

    def new(self, stem: str, kind: str) -> str:
        """A register of type `.kind` that nothing else uses."""
        return self.declare(f"{self.prefix}{self._number(stem)}", kind)

    def declare(self, name: str, kind: str) -> str:
        """A register of type `.kind` whose name has been chosen before."""
        self.registers.setdefault(kind, []).append(name)
        return name

    def kind(self, name: str) -> str:
        """The type, without its dot, of a register that was made here."""
        return next(kind for kind, names in self.registers.items() if name in names)

    def label(self, stem: str) -> str:
        """A label that nothing else uses."""
        return f"${self.prefix[1:]}{self._number(stem)}"

    def once(self, stem: str, kind: str, lines: Iterable[str]) -> str:
        """A register set at the entry of the body by `lines`, in which `$` stands for it."""
        name = self.prefix + stem
        names = self.registers.setdefault(kind, [])
        if name not in names:
            names.append(name)
            self.entry.extend(line.replace("$", name) for line in lines)
        return name

    def _number(self, stem: str) -> str:
        self._counts[stem] = self._counts.get(stem, 0) + 1
        return f"{stem}{self._counts[stem]}"

    def head(self, text: str, body: Body) -> Iterator[Edit]:
        """Declarations and what is computed once, behind the body's own declarations."""
        # Behind the leading declarations, since lines of the entry may name the kernel's variables.
        at, indent = body.span.start + 1, "\t"
        if body.leading:
            last = body.leading[-1].span
            at, indent = last.end, indentation(text, last.start)
        end = line_end(text)
        declared = [f".reg .{kind} {', '.join(names)};" for kind, names in self.registers.items()]
        yield insert(at, "".join(f"{end}{indent}{line}" for line in (*declared, *self.entry)))


class Insertions(Struct):
    """What is collected for each instruction, by its position in the body.

    `before` and `after` are lines around it, `replaced` those in its place, and `guards` the
    predicate (`%p1`, `!%p1`) under which an unguarded instruction that stays is to run.
    """

    before: dict[int, list[str]] = field(default_factory=dict)
    after: dict[int, list[str]] = field(default_factory=dict)
    replaced: dict[int, list[str]] = field(default_factory=dict)
    guards: dict[int, str] = field(default_factory=dict)

    def put_before(self, index: int, *lines: str) -> None:
        self.before.setdefault(index, []).extend(lines)

    def put_after(self, index: int, *lines: str) -> None:
        self.after.setdefault(index, []).extend(lines)

    def replace(self, index: int, *lines: str) -> None:
        self.replaced[index] = list(lines)

    def over(self, other: Insertions) -> Insertions:
        """Both sets of lines: those of `other` come first, and where both replace an instruction,
        `self` wins."""
        return Insertions(
            {i: [*other.before.get(i, ()), *self.before.get(i, ())]
             for i in {**other.before, **self.before}},
            {i: [*other.after.get(i, ()), *self.after.get(i, ())]
             for i in {**other.after, **self.after}},
            {**other.replaced, **self.replaced},
            {**other.guards, **self.guards},
        )  # fmt: skip

    def edits(self, text: str, body: Body, within: range | None = None) -> Iterator[Edit]:
        """The edits that splice the lines into the text, around the instructions of a body; only
        those of the instructions `within`, if given."""
        touched = {*self.before, *self.after, *self.replaced, *self.guards}
        for index in sorted(touched):
            if within is not None and index not in within:
                continue
            instruction = body.instructions[index]
            start = instruction.span.start
            # An edit at `start` comes before the one that replaces the instruction (`splice`).
            if self.before.get(index):
                yield insert_lines(text, body.begin(index), self.before[index])
            if index in self.replaced:
                yield Edit(instruction.span, joined(text, start, self.replaced[index]))
            elif index in self.guards:
                yield insert(start, f"@{self.guards[index]} ")
            if self.after.get(index):
                lines = joined(text, start, ["", *self.after[index]])
                yield insert(instruction.span.end, lines)


def joined(text: str, start: int, lines: Sequence[str]) -> str:
    """Lines as they stand behind each other where the statement at offset `start` stands: on
    lines of their own, or on one line if it shares its line with others."""
    begin = text.rfind("\n", 0, start) + 1
    lead = text[begin:start]
    if lead.strip(" \t"):
        return " ".join(lines)
    return f"{line_end(text)}{lead}".join(lines)


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


def place(operand: Mem) -> str:
    """An address as it stands in an access."""
    base = operand.base
    name = base.name if isinstance(base, (Reg, Symbol)) else written(base)
    offset = operand.offset + (base.offset if isinstance(base, Symbol) else 0)
    return f"[{name}+{offset}]" if offset else f"[{name}]"


def with_operands(text: str, instruction: Instruction, operands: Mapping[int, str]) -> str:
    """An instruction as it stands in the text, less its guard, with other operands in the place of
    some, by their numbers."""
    spans = operand_spans(Source(text), instruction)
    edits = (Edit(spans[number], operand) for number, operand in operands.items())
    return edited_part(text, Span(instruction.start, instruction.end), edits)
