"""Loads that take what their thread has loaded or stored before, from a register of their own;
`rewrites/load_elimination.py` has the lines before and after."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ptxsw.changes.change import Line
from ptxsw.changes.claim import Claim
from ptxsw.codegen.builder import Builder, elements, place, with_operands
from ptxsw.codegen.entry_guard import EntryGuard, write_guarded
from ptxsw.codegen.overflow_checks import computed_again, renamed
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Function, Reg


class KeptValue(Struct, frozen=True):
    """Load `at` takes what `source` has loaded or stored: outright, or in the copy of the body
    behind a test."""

    at: int
    source: int
    test: EntryGuard | None = None

    def facts(self, line: Line) -> Mapping[str, Any]:
        """What a report says of it."""
        return {"source_line": line(self.source), "tested": self.test is not None}


class JoinedLoad(Struct, frozen=True):
    """Load `at` stands at a join of several paths. On some of them it takes what `sources` have
    loaded or stored. On the others it is made at the path's end: `ways` has the last instruction of
    each, with the guard to put before the load (`@%p1 ` or nothing)."""

    at: int
    sources: tuple[int, ...]
    predecessors: tuple[tuple[int, str], ...]

    def facts(self, line: Line) -> Mapping[str, Any]:
        """What a report says of it."""
        ways = [line(end) for end, _ in self.predecessors]
        return {"source_line": line(self.sources[0]), "ways": ways}


class LoadBeforeBranch(Struct, frozen=True):
    """All ways behind the branch `before` make one of `loads`: the first of them is made before the
    branch, where the instructions `computed` make its address."""

    before: int
    loads: tuple[int, ...]
    computed: tuple[int, ...]

    def facts(self, line: Line) -> Mapping[str, Any]:
        """What a report says of it."""
        return {"branch_line": line(self.before), "load_lines": sorted(map(line, self.loads))}


def lower_hoisted(
    builder: Builder, text: str, function: Function, details: Iterable[LoadBeforeBranch]
) -> None:
    """Write loads before branches; `text` is that of the whole module."""
    for detail in details:
        names: dict[str, str] = {}
        lines = [
            computed_again(
                text, function, builder.instructions[position], names,
                lambda kind: builder.register("ahead", kind),
            )
            for position in detail.computed
        ]  # fmt: skip
        load = builder.instructions[detail.loads[0]]
        early = tuple(
            builder.register("before", f"b{builder.width(reg)}")
            for reg in elements(load)
            if isinstance(reg, Reg)
        )
        dest = early[0] if len(early) == 1 else f"{{{', '.join(early)}}}"
        where = renamed(place(isa.address(load)), names)
        lines.append(f"{load.name} {dest}, {where};")
        builder.before(detail.before, *lines)
        for at in detail.loads:
            builder.replace(at, *_moves(builder, at, early))


def lower_joins(builder: Builder, text: str, details: Iterable[JoinedLoad]) -> None:
    """Write loads at joins; `text` is that of the whole module."""
    for detail in details:
        held = _joined(builder, detail)
        for source in detail.sources:
            _keep(builder, source, held)
        line = _load_into(builder, text, detail.at, held)
        for end, guard in detail.predecessors:
            if builder.instructions[end].opcode == "bra":
                builder.before(end, guard + line)
            else:
                builder.lines.put_after(end, guard + line)
        builder.replace(detail.at, *_moves(builder, detail.at, held))


def join_claims(builder: Builder, text: str, detail: JoinedLoad, label: str) -> tuple[Claim, ...]:
    """What has to hold at a join: in the names that `lower_joins` gives to the same details in the
    same order."""
    held = _joined(builder, detail)
    own = tuple(f"%claimed{number}" for number in range(1, len(held) + 1))
    widths = [builder.names.kind(name) for name in held]
    declared = "".join(f".reg .{w} {name};\n" for w, name in zip(widths, own, strict=True))
    code = _load_into(builder, text, detail.at, own)
    return tuple(
        Claim(label, name, code, value, declared)
        for name, value in zip(held, own, strict=True)
    )  # fmt: skip


def _joined(builder: Builder, detail: JoinedLoad) -> tuple[str, ...]:
    """New registers for what a load at a join would leave."""
    dests = elements(builder.instructions[detail.at])
    return tuple(
        builder.register("joined", f"b{builder.width(reg)}")
        for reg in dests
        if isinstance(reg, Reg)
    )


def _load_into(builder: Builder, text: str, at: int, names: Sequence[str]) -> str:
    """The text of a load, into other registers."""
    dest = names[0] if len(names) == 1 else f"{{{', '.join(names)}}}"
    return with_operands(text, builder.instructions[at], {0: dest})


def lower(builder: Builder, text: str, details: Iterable[KeptValue]) -> None:
    """Write all of them; `text` is that of the whole module."""
    details = list(details)
    source_of = {detail.at: detail.source for detail in details}
    held: dict[int, tuple[str, ...]] = {}
    for detail in details:
        # The source may itself take a kept value; all of a chain share the first one's register.
        first = detail.source
        while first in source_of:
            first = source_of[first]
        if first not in held:
            held[first] = _kept(builder, first)
        builder.replace(detail.at, *_moves(builder, detail.at, held[first]))
    write_guarded(builder, (detail.test for detail in details))


def _kept(builder: Builder, at: int) -> tuple[str, ...]:
    """New registers that hold what an access has loaded or stored."""
    instruction = builder.instructions[at]
    registers = [operand for operand in elements(instruction) if isinstance(operand, Reg)]
    names = tuple(builder.register("held", f"b{builder.width(reg)}") for reg in registers)
    _keep(builder, at, names)
    return names


def _keep(builder: Builder, at: int, names: tuple[str, ...]) -> None:
    """Have registers hold what an access loads or stores."""
    instruction = builder.instructions[at]
    registers = [operand for operand in elements(instruction) if isinstance(operand, Reg)]
    lines = [
        f"mov.b{builder.width(reg)} {name}, {reg.name};"
        for name, reg in zip(names, registers, strict=True)
    ]
    if isa.defs(instruction):
        builder.lines.put_after(at, *lines)
    else:
        builder.before(at, *lines)


def _moves(builder: Builder, at: int, held: tuple[str, ...]) -> list[str]:
    return [
        f"mov.b{builder.width(reg)} {reg.name}, {name};"
        for reg, name in zip(elements(builder.instructions[at]), held, strict=True)
        if isinstance(reg, Reg)
    ]
