"""Instructions as the lines of a local rule; `changes/rule.py` says how a rule is written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ptxsw.changes.change import Change, Line
from ptxsw.changes.rule import Condition, LocalRule, RunTimeTest
from ptxsw.codegen.builder import Builder, written
from ptxsw.ptx.ir import Int, Operand, Reg
from ptxsw.ptx.patterns import pattern

_LOW_HALF = (1 << 32) - 1
_BLANK = pattern(r"\{(\w+)(?::(\w+))?\}")


class LocalChange(Struct, frozen=True):
    """A rule is applied to instruction `at`, and to the one `beside` it, where it is for two;
    `number` is what the rule computes of a literal. Conditions that the rule's test has to find are
    `tested`, each of the sources with some letters."""

    at: int
    rule: LocalRule
    number: int | None = None
    beside: int | None = None
    tested: tuple[tuple[Condition, str], ...] = ()

    def facts(self, line: Line) -> Mapping[str, Any]:
        """What a report says of it."""
        told = self.number if self.beside is None else line(self.beside)
        return {self.rule.fact: self.rule.said or told} if self.rule.fact else {}


def lower(builder: Builder, changes: Iterable[Change]) -> None:
    """Write all changes."""
    for change in changes:
        detail = change.detail
        assert isinstance(detail, LocalChange)
        writer, rule = _Writer(builder, detail), detail.rule
        if detail.beside is None:
            builder.replace(detail.at, *writer.lines(writer.tested(rule.result)))
            continue
        texts = {detail.at: rule.result, detail.beside: rule.other}
        first, second = sorted(texts)
        writer.read(first)
        builder.replace(first, *writer.lines((*writer.tested(rule.shared), *texts[first])))
        writer.read(second)
        builder.replace(second, *writer.lines(texts[second]))


class _Writer:
    """Fills the blanks of one rule."""

    def __init__(self, builder: Builder, detail: LocalChange) -> None:
        self.builder, self.rule = builder, detail.rule
        self.guard = builder.guard(detail.at)
        self.asked = dict(detail.tested)
        instruction = builder.instructions[detail.at]
        self.conversions: list[str] = []
        self.names = {
            "d": written(instruction.operands[0]),
            "n": str(detail.number),
            "type": instruction.modifiers[-1],
        }
        if detail.beside is None:
            self.read(detail.at)
        else:
            self.names["e"] = written(builder.instructions[detail.beside].operands[0])

    def read(self, at: int) -> None:
        """The sources are those of instruction `at`. Where the rule reads their low halves, these
        are made once."""
        for letter, source in zip("abc", self.builder.instructions[at].operands[1:], strict=False):
            self.names[letter.upper()] = written(source)
            if not self.rule.low or letter not in self.names:
                self.names[letter] = self._source(source)

    def tested(self, fast: Sequence[str]) -> tuple[str, ...]:
        """Lines with the sources as the rule reads them, under its test if the change asks for
        it."""
        if not self.asked or self.rule.test is None:
            return (*self.conversions, *fast)
        far, near = (self.builder.names.label(stem) for stem in ("wide", "divided"))
        return (
            *self.conversions, *self._test(self.rule.test), f"@{{fails}} bra {far};",
            *fast, f"bra {near};",
            f"{far}:", *self.rule.slow, f"{near}:",
        )  # fmt: skip

    def _test(self, test: RunTimeTest) -> Iterator[str]:
        """The lines that set `{fails}`."""
        sources = [f"{{{letter.upper()}}}" for letter in self.asked[test.condition]]
        tested = sources[0] if len(sources) == 1 else "{joined}"
        if tested not in sources:
            yield f"or.b64 {{joined:b64}}, {', '.join(sources)};"
        yield from (line.replace("{tested}", tested) for line in test.lines)
        for condition, line in test.further:
            for letter in self.asked.get(condition, ""):
                yield line.replace("{tested}", f"{{{letter}}}")

    def lines(self, templates: Sequence[str]) -> Iterator[str]:
        """The lines as they stand in PTX."""
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
        if not self.rule.low:
            return written(operand)
        if isinstance(operand, Int):
            value = operand.value & _LOW_HALF
            return str(value - (1 << 32) if self.rule.low == "s32" and value >> 31 else value)
        half = self.builder.register("low", "b32")
        self.conversions.append(f"cvt.u32.u64 {half}, {written(operand)};")
        return half


def takes(operands: Sequence[Operand]) -> bool:
    """Can a rule be written for an instruction with these operands?"""
    return all(isinstance(operand, Reg | Int) for operand in operands)
