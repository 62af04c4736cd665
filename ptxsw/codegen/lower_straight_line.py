"""Addresses that are made from one another: those of a body where they stand, or those of a stretch
of a block, which then stands twice, behind a test of the least and the largest index.
`rewrites/straight_line.py` has the lines before and after."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from ptxsw.changes.change import Line
from ptxsw.codegen.builder import Builder, Insertions, with_operands
from ptxsw.codegen.loop_guard import New
from ptxsw.codegen.versioning import stretch_twice
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Instruction, Reg

FARTHEST = 1 << 23
"""Bytes: the offset of a memory instruction in SASS is a signed number of 24 bits."""

Value = str | int
"""A register, or the number of a value in the list of those that are made."""


class Summand(Struct, frozen=True):
    """`factor · value`. A value of 32 bits in a sum of 64 is extended by its `sign`: "s" or "u"."""

    factor: int
    value: Value
    sign: str = ""


class MaterializedValue(Struct, frozen=True):
    """A value that is made before instruction `at`: what the later instruction `hoisted` computes,
    with other values as some of its `operands`, by their numbers; or the product of `factors`,
    where there are any; or the sum of the summands. One summand of factor 1 alone is a copy."""

    at: int
    width: int
    summands: tuple[Summand, ...] = ()
    factors: tuple[Value, ...] = ()
    hoisted: int | None = None
    operands: tuple[tuple[int, Value], ...] = ()

    @property
    def values(self) -> tuple[Value, ...]:
        """What it is made of."""
        summands = (summand.value for summand in self.summands)
        return (*self.factors, *summands, *(value for _, value in self.operands))


class ExtremeIndices(Struct, frozen=True):
    """An index and what lies around it do not wrap: all `sizes` are at most `largest`, and the
    index is at most `most`, and at least `below` plus `least`. All values have 32 bits and are read
    as unsigned, their factors are above 0."""

    index: Value
    sizes: tuple[Value, ...]
    largest: int
    most: int
    below: tuple[Summand, ...] = ()
    least: int = 0


class SharedBases(Struct, frozen=True):
    """Accesses (each with the value and the offset in bytes that make its new address), and the
    values that are made for them. Where there are `extremes`, the instructions of `stretch` stand
    twice, its last one included, and what is made for the test comes first: `tested` values."""

    moved: tuple[tuple[int, Value, int], ...]
    made: tuple[MaterializedValue, ...]
    stretch: tuple[int, int] = (0, 0)
    extremes: tuple[ExtremeIndices, ...] = ()
    tested: int = 0

    def facts(self, line: Line) -> Mapping[str, Any]:
        """What a report says of it."""
        bases = {value for _, value, _ in self.moved}
        return {"lines": sorted(line(at) for at, _, _ in self.moved), "bases": len(bases)}


def write(builder: Builder, text: str, bases: SharedBases) -> None:
    """Write the new addresses of one body, or of a stretch of it."""
    twice = bool(bases.extremes)
    fast = Insertions() if twice else builder.lines
    names: list[str] = []
    for number, value in enumerate(bases.made):
        lines: list[str] = []
        if value.hoisted is None:
            names.append(_made(builder.register, value, names, lines))
        else:
            names.append(_hoisted(builder, text, value, names, lines, fast))
        # What is tested is made in front of both copies.
        (builder.lines if number < bases.tested else fast).put_before(value.at, *lines)
    for at, address, offset in bases.moved:
        name = _name(address, names)
        fast.replace(at, relocated(text, builder.instructions[at], name, offset))
    if twice:
        start, _ = bases.stretch
        test: list[str] = []
        holds = _tested(builder.register, bases.extremes, names, test)
        builder.before(start, *test)
        stretch_twice(builder, bases.stretch, fast, f"!{holds}")


def _hoisted(
    builder: Builder, text: str, value: MaterializedValue, names: Sequence[str], lines: list[str],
    fast: Insertions,
) -> str:  # fmt: skip
    """The register that an instruction sets which is made earlier; it becomes a move."""
    assert value.hoisted is not None
    instruction = builder.instructions[value.hoisted]
    old = instruction.operands[0]
    assert isinstance(old, Reg), "it sets one register"
    new = builder.register("early", f"b{value.width}")
    operands = {number: _name(each, names) for number, each in value.operands}
    lines.append(with_operands(text, instruction, {0: new, **operands}))
    fast.replace(value.hoisted, f"mov.b{value.width} {old.name}, {new};")
    return new


def relocated(text: str, access: Instruction, address: str, offset: int) -> str:
    """The text of an access, at another address."""
    operand = isa.address(access)
    line = text[access.start : access.end]
    begin, end = line.index("["), line.index("]")
    assert "[" not in line[begin + 1 :], operand
    return f"{line[:begin]}[{address}{f'+{offset}' if offset else ''}]{line[end + 1 :]}"


def _name(value: Value, names: Sequence[str]) -> str:
    return value if isinstance(value, str) else names[value]


# ---------------------------------------------------------------- values


def _made(new: New, value: MaterializedValue, names: Sequence[str], lines: list[str]) -> str:
    """The register of a value; `lines` get what makes it."""
    bits = f"b{value.width}"
    if value.factors:
        total, *others = (_name(factor, names) for factor in value.factors)
        for other in others:
            so_far, total = total, new("product", bits)
            lines.append(f"mul.lo.s{value.width} {total}, {so_far}, {other};")
        return total
    total = ""
    # A sum can begin with a value as it is.
    for summand in sorted(value.summands, key=lambda s: (s.factor != 1, s.sign)):
        total = _added(partial(new, "base", bits), value.width, total, summand, names, lines)
    if len(value.summands) == 1 and total == _name(value.summands[0].value, names):
        so_far, total = total, new("base", bits)
        lines.append(f"mov.{bits} {total}, {so_far};")
    return total


def _added(
    new: partial[str], width: int, total: str, summand: Summand, names: Sequence[str],
    lines: list[str],
) -> str:  # fmt: skip
    """The register of a sum and one more summand."""
    value, factor, sign = _name(summand.value, names), summand.factor, summand.sign
    if not total and factor == 1 and not sign:
        return value
    result = new()
    size = abs(factor)
    if sign and (factor > 0 or sign == "s"):
        lines.append(f"mad.wide.{sign}32 {result}, {value}, {factor}, {total or 0};")
    elif sign:
        far = new()
        lines.append(f"mul.wide.{sign}32 {far}, {value}, {size};")
        lines.append(f"sub.s{width} {result}, {total or 0}, {far};")
    elif total and size == 1:
        lines.append(f"{'add' if factor > 0 else 'sub'}.s{width} {result}, {total}, {value};")
    elif not total and factor > 0 and size & (size - 1) == 0:
        lines.append(f"shl.b{width} {result}, {value}, {size.bit_length() - 1};")
    else:
        lines.append(f"mad.lo.s{width} {result}, {value}, {factor}, {total or 0};")
    return result


# ---------------------------------------------------------------- the test


def _tested(
    new: New, extremes: Iterable[ExtremeIndices], names: Sequence[str], lines: list[str]
) -> str:
    """The predicate that no index wraps; `lines` get the test."""
    holds = ""
    for one in extremes:
        for kind, test in _tests(new, one, names, lines):
            so_far, holds = holds, new("exact", "pred")
            name, _, width = kind.partition(".")
            if so_far:
                lines.append(f"setp.{name}.and.{width} {holds}, {test}, {so_far};")
            else:
                lines.append(f"setp.{kind} {holds}, {test};")
    return holds


def _tests(
    new: New, one: ExtremeIndices, names: Sequence[str], lines: list[str]
) -> Iterator[tuple[str, str]]:
    """The comparisons of one index and its sizes."""
    index = _name(one.index, names)
    if one.most < (1 << 32) - 1:
        yield "le.u32", f"{index}, {one.most}"
    for size in one.sizes:
        yield "le.u32", f"{_name(size, names)}, {one.largest}"
    if one.below:
        low = ""
        for summand in one.below:
            low = _added(partial(new, "low", "b32"), 32, low, summand, names, lines)
        if one.least:
            so_far, low = low, new("low", "b32")
            lines.append(f"add.s32 {low}, {so_far}, {one.least};")
        yield "ge.u32", f"{index}, {low}"
    elif one.least:
        yield "ge.u32", f"{index}, {one.least}"
