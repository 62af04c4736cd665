"""Instructions as the lines of a local rule; `changes/rule.py` says how a rule is written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ptxsw.changes.change import Change, Line
from ptxsw.changes.rule import LocalRule
from ptxsw.codegen.builder import Builder, written
from ptxsw.ptx.ir import Int, Operand, Reg
from ptxsw.ptx.patterns import pattern

_LOW_HALF = (1 << 32) - 1
_BLANK = pattern(r"\{(\w+)(?::(\w+))?\}")


class LocalChange(Struct, frozen=True):
    """A rule is applied to instruction `at`, and to the one `beside` it, where it is for two;
    `number` is what the rule computes of a literal."""

    at: int
    rule: LocalRule
    number: int | None = None
    beside: int | None = None

    def facts(self, line: Line) -> Mapping[str, Any]:
        """What a report says of it."""
        told = self.number if self.beside is None else line(self.beside)
        return {self.rule.fact: self.rule.said or told} if self.rule.fact else {}


def lower(builder: Builder, changes: Iterable[Change]) -> None:
    """Write all changes."""
    for change in changes:
        detail = change.detail
        assert isinstance(detail, LocalChange)
        writer = _Writer(builder, detail)
        if detail.beside is None:
            builder.replace(detail.at, *writer.lines(detail.rule.result))
            continue
        first = min(detail.at, detail.beside)
        for at, lines in ((detail.at, detail.rule.result), (detail.beside, detail.rule.other)):
            writer.texts[at] = (*(detail.rule.shared if at == first else ()), *lines)
        for at in sorted(writer.texts):
            builder.replace(at, *writer.lines(writer.texts[at]))


class _Writer:
    """Fills the blanks of one rule."""

    def __init__(self, builder: Builder, detail: LocalChange) -> None:
        self.builder, self.low = builder, detail.rule.low
        self.guard = builder.guard(detail.at)
        self.texts: dict[int, tuple[str, ...]] = {}
        instruction = builder.instructions[detail.at]
        dest, *sources = instruction.operands
        self.conversions: list[str] = []
        self.names = {
            "d": written(dest),
            "n": str(detail.number),
            "type": instruction.modifiers[-1],
        }
        self.names |= {letter: self._source(o) for letter, o in zip("abc", sources, strict=False)}
        if detail.beside is not None:
            self.names["e"] = written(builder.instructions[detail.beside].operands[0])

    def lines(self, templates: Sequence[str]) -> Iterator[str]:
        """The lines as they stand in PTX, conversions of the sources first."""
        yield from self.conversions
        self.conversions = []
        for template in templates:
            # Nothing but the old destination needs the guard: no line has another effect.
            guard = self.guard if "{d}" in template else ""
            yield guard + _BLANK.sub(self._filled, template)

    def _filled(self, blank: re.Match[str]) -> str:
        name, kind = blank.groups()
        if name not in self.names:
            self.names[name] = self.builder.register(name, kind)
        return self.names[name]

    def _source(self, operand: Operand) -> str:
        """A source, or its low half."""
        if not self.low:
            return written(operand)
        if isinstance(operand, Int):
            value = operand.value & _LOW_HALF
            return str(value - (1 << 32) if self.low == "s32" and value >> 31 else value)
        half = self.builder.register("low", "b32")
        self.conversions.append(f"cvt.u32.u64 {half}, {written(operand)};")
        return half


def takes(operands: Sequence[Operand]) -> bool:
    """Can a rule be written for an instruction with these operands?"""
    return all(isinstance(operand, Reg | Int) for operand in operands)
