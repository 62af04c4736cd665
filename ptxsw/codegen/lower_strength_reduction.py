"""A loop that stands twice: with addresses made from bases that are computed before it, where a
test says that no index wraps in any turn, and else as it was. `rewrites/strength_reduction.py` has
the lines before and after."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from ptxsw.change import Change, Line
from ptxsw.codegen.builder import Builder
from ptxsw.codegen.insertions import Insertions
from ptxsw.codegen.splice import Edit, insert_lines, line_end
from ptxsw.codegen.splice import apply as splice
from ptxsw.ir import Instruction, Mem
from ptxsw.source import Span

New = Callable[[str, str], str]
"""`new(stem, kind)`: a register of type `.kind` that nothing else uses."""


class Sum(Struct, frozen=True):
    """`constant + Σ factor · register`, modulo 2^32."""

    items: tuple[tuple[str, int], ...]
    constant: int = 0

    def written(self, new: New, lines: list[str]) -> str:
        """A register or number that holds the sum; `lines` get what computes it."""
        total = ""
        for name, factor in sorted(self.items, key=lambda item: item[1] != 1):
            if factor == 1 and not total:
                total = name
                continue
            so_far, total = total, new("sum", "b32")
            if factor == 1:
                lines.append(f"add.s32 {total}, {so_far}, {name};")
            elif factor == -1 and so_far:
                lines.append(f"sub.s32 {total}, {so_far}, {name};")
            else:
                lines.append(f"mad.lo.s32 {total}, {name}, {factor}, {so_far or 0};")
        if total and not self.constant:
            return total
        if not total:
            return str(self.constant)
        so_far, total = total, new("sum", "b32")
        lines.append(f"add.s32 {total}, {so_far}, {self.constant};")
        return total

    def wide(self, new: New, lines: list[str], sign: Literal["s", "u"]) -> str:
        """The same extended to 64 bits."""
        narrow = self.written(new, lines)
        if not self.items:
            return narrow
        wide = new("wide", "b64")
        lines.append(f"cvt.{sign}64.{sign}32 {wide}, {narrow};")
        return wide


class Compared(Struct, frozen=True):
    """`a kind b`, such as "le.s32" or "ne.s32"."""

    kind: str
    a: Sum
    b: Sum

    def test(self, new: New, lines: list[str]) -> tuple[str, str]:
        a, b = (each.written(new, lines) for each in (self.a, self.b))
        if not self.a.items:
            register = new("sum", "b32")
            lines.append(f"mov.b32 {register}, {a};")
            a = register
        return self.kind, f"{a}, {b}"


class Multiple(Struct, frozen=True):
    """`value` is a multiple of a power of two."""

    value: Sum
    size: int

    def test(self, new: New, lines: list[str]) -> tuple[str, str]:
        value, rest = self.value.written(new, lines), new("rest", "b32")
        lines.append(f"and.b32 {rest}, {value}, {self.size - 1};")
        return "eq.s32", f"{rest}, 0"


class Bounded(Struct, frozen=True):
    """`index + left · growth` is at most `limit`, all of them read as numbers that are not
    negative: so far an index gets in what is left of a loop."""

    index: str
    left: Sum
    growth: Sum
    limit: int

    def test(self, new: New, lines: list[str]) -> tuple[str, str]:
        start, end = new("start", "b64"), new("end", "b64")
        lines.append(f"cvt.u64.u32 {start}, {self.index};")
        left, growth = (each.written(new, lines) for each in (self.left, self.growth))
        lines.append(f"mad.wide.u32 {end}, {left}, {growth}, {start};")
        return "le.u64", f"{end}, {self.limit}"


class NotNegative(Struct, frozen=True):
    """`index + more + constant` is not negative, `more` read as a signed number, `index` as one
    that is not."""

    index: str
    more: Sum
    constant: int

    def test(self, new: New, lines: list[str]) -> tuple[str, str]:
        start = new("start", "b64")
        lines.append(f"cvt.u64.u32 {start}, {self.index};")
        if self.more.items:
            wide, total = self.more.wide(new, lines, "s"), new("start", "b64")
            lines.append(f"add.s64 {total}, {start}, {wide};")
            start = total
        return "ge.s64", f"{start}, {-self.constant}"


Condition = Compared | Multiple | Bounded | NotNegative


def write_test(conditions: Sequence[Condition], new: New, result: str) -> list[str]:
    """Lines that leave in predicate `result` whether all conditions hold."""
    lines: list[str] = []
    so_far = ""
    for number, condition in enumerate(conditions, 1):
        kind, operands = condition.test(new, lines)
        target = result if number == len(conditions) else new("so_far", "pred")
        comparison, _, width = kind.partition(".")
        if so_far:
            lines.append(f"setp.{comparison}.and.{width} {target}, {operands}, {so_far};")
        else:
            lines.append(f"setp.{comparison}.{width} {target}, {operands};")
        so_far = target
    return lines


class Part(Struct, frozen=True):
    """A summand of a base: `factor · value`, a register of 64 bits or a sum extended to them."""

    factor: int
    value: str | Sum
    sign: Literal["s", "u"] = "s"


class Base(Struct, frozen=True):
    """The sum `parts` is computed before the loop; each turn begins with `base + index · scale`.
    Accesses `members` (each with an offset in bytes) are made relative to that."""

    parts: tuple[Part, ...]
    index: str
    scale: int
    members: tuple[tuple[int, int], ...]


class ReducedLoop(Struct, frozen=True):
    """The loop of one block from instruction `start` to `end`, its branch back, begins at `label`
    and gets addresses from `bases`, where all `conditions` hold at the start of the loop.
    `before` is the unguarded branch by which control comes to it, None where it falls into it.
    `exact` names the predicate that says so: it may be relied on in every turn."""

    start: int
    end: int
    label: str
    before: int | None
    exact: str
    conditions: tuple[Condition, ...]
    bases: tuple[Base, ...]

    def facts(self, line: Line) -> Mapping[str, Any]:
        """What a report says of it."""
        lines = sorted({line(at) for base in self.bases for at, _ in base.members})
        return {"lines": lines, "bases": len(self.bases)}


def lower(builder: Builder, text: str, changes: Iterable[Change]) -> tuple[Edit, ...]:
    """The edits that make all changes; `text` is that of the whole module."""
    more = [_loop(builder, text, c.detail) for c in changes if isinstance(c.detail, ReducedLoop)]
    return (*builder.edits(), *(edit for edit in more if edit is not None))


def _loop(builder: Builder, text: str, loop: ReducedLoop) -> Edit | None:
    exact = builder.register("exact", "pred")
    assert exact == loop.exact, "claims speak of this predicate"
    slow, done = builder.names.label("slow"), builder.names.label("done")
    lines = [
        *write_test(loop.conditions, builder.register, exact),
        f"@!{exact} bra {slow};",
        *_fast(builder, text, loop),
        f"bra.uni {done};",
        f"{slow}:",
    ]
    builder.lines.put_after(loop.end, f"{done}:")
    if loop.before is not None:
        builder.before(loop.before, *lines)
        return None
    return insert_lines(text, builder.label_offset(loop.label), lines)


def _fast(builder: Builder, text: str, loop: ReducedLoop) -> Iterator[str]:
    """The loop with its new addresses, in braces so that its label is its own."""
    ahead: list[str] = []
    first: list[str] = []
    fast = Insertions()
    for base in loop.bases:
        register = _base(base, builder.register, ahead)
        far, address = builder.register("far", "b64"), builder.register("address", "b64")
        first.append(f"mul.wide.u32 {far}, {base.index}, {base.scale};")
        first.append(f"add.s64 {address}, {register}, {far};")
        for at, offset in base.members:
            fast.replace(at, _relocated(text, builder.instructions[at], address, offset))
    fast.put_before(loop.start, *first)
    begin = builder.label_offset(loop.label)
    span = Span(begin, builder.instructions[loop.end].end)
    edits = fast.edits(text, builder.instructions, range(loop.start, loop.end + 1))
    copy = splice(
        text[span.start : span.end],
        [Edit(Span(e.span.start - begin, e.span.end - begin), e.text) for e in edits],
    )
    yield from ahead
    yield from ("{", copy + line_end(text), "}")


def _base(base: Base, new: New, lines: list[str]) -> str:
    """A register with the part of an address that no turn changes."""
    total = ""
    for part in base.parts:
        value = part.value
        if isinstance(value, str) and part.factor == 1 and not total:
            total = value
            continue
        so_far, total = total, new("base", "b64")
        if isinstance(value, str):
            lines.append(f"mad.lo.s64 {total}, {value}, {part.factor}, {so_far or 0};")
            continue
        narrow = value.written(new, lines)
        factor = part.factor
        if -(1 << 31) <= factor < 1 << 31 and part.sign == "s":
            lines.append(f"mad.wide.s32 {total}, {narrow}, {factor}, {so_far or 0};")
        else:
            wide = value.wide(new, lines, part.sign)
            lines.append(f"mad.lo.s64 {total}, {wide}, {factor}, {so_far or 0};")
    return total


def _relocated(text: str, access: Instruction, address: str, offset: int) -> str:
    """The text of an access, at another address."""
    operand = next(o for o in access.operands if isinstance(o, Mem))
    line = text[access.start : access.end]
    begin, end = line.index("["), line.index("]")
    assert "[" not in line[begin + 1 :], operand
    return f"{line[:begin]}[{address}{f'+{offset}' if offset else ''}]{line[end + 1 :]}"
