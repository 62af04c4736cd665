"""Loads that take what their thread has loaded or stored before, from a register of their own;
`rewrites/load_elimination.py` has the lines before and after."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from ptxsw import isa
from ptxsw.change import Line
from ptxsw.codegen.accesses import elements
from ptxsw.codegen.builder import Builder
from ptxsw.codegen.entry_test import EntryTest, in_two_versions
from ptxsw.ir import Function, Reg


class KeptValue(Struct, frozen=True):
    """Load `at` takes what `source` has loaded or stored: outright, or in the copy of the body
    behind a test."""

    at: int
    source: int
    test: EntryTest | None = None

    def facts(self, line: Line) -> Mapping[str, Any]:
        """What a report says of it."""
        return {"source_line": line(self.source), "tested": self.test is not None}


def lower(builder: Builder, text: str, function: Function, details: Iterable[KeptValue]) -> None:
    """Write all of them; `text` is that of the whole module."""
    details = list(details)
    source_of = {detail.at: detail.source for detail in details}
    held: dict[int, tuple[str, ...]] = {}
    for detail in details:
        first = detail.source
        while first in source_of:
            first = source_of[first]
        if first not in held:
            held[first] = _kept(builder, first)
        builder.replace(detail.at, *_moves(builder, detail.at, held[first]))
    tests = {detail.test for detail in details} - {None}
    assert len(tests) <= 1, "all loads of a kernel share one test"
    for test in tests:
        assert test is not None
        in_two_versions(builder, text, function, test)


def _kept(builder: Builder, at: int) -> tuple[str, ...]:
    """New registers that hold what an access has loaded or stored."""
    instruction = builder.instructions[at]
    registers = [operand for operand in elements(instruction) if isinstance(operand, Reg)]
    names = tuple(builder.register("held", f"b{builder.width(reg)}") for reg in registers)
    lines = [
        f"mov.b{builder.width(reg)} {name}, {reg.name};"
        for name, reg in zip(names, registers, strict=True)
    ]
    if isa.defs(instruction):
        builder.lines.put_after(at, *lines)
    else:
        builder.before(at, *lines)
    return names


def _moves(builder: Builder, at: int, held: tuple[str, ...]) -> list[str]:
    return [
        f"mov.b{builder.width(reg)} {reg.name}, {name};"
        for reg, name in zip(elements(builder.instructions[at]), held, strict=True)
        if isinstance(reg, Reg)
    ]
