"""Conditions on registers as a loop begins, and sums of them, ready to be written as PTX.

What such a test has found remains true from iteration to iteration, so that a claim may say it at
the loop's header in the same words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

from ptxsw.changes.claim import Claim
from ptxsw.codegen.builder import Names, fresh_prefix
from ptxsw.codegen.versioning import LoopPlace

New = Callable[[str, str], str]
"""`new(stem, kind)`: a register of type `.kind` that nothing else uses."""


class AddressSum(Struct, frozen=True):
    """`constant + Σ factor · register`, modulo 2^32."""

    items: tuple[tuple[str, int], ...]
    constant: int = 0

    def written(self, new: New, lines: list[str]) -> str:
        """A register or number that holds the sum; `lines` get what computes it."""
        total = ""
        # Starting with a register of factor 1 saves an instruction.
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
    a: AddressSum
    b: AddressSum

    def test(self, new: New, lines: list[str]) -> tuple[str, str]:
        a, b = (each.written(new, lines) for each in (self.a, self.b))
        if not self.a.items:
            register = new("sum", "b32")
            lines.append(f"mov.b32 {register}, {a};")
            a = register
        return self.kind, f"{a}, {b}"


class Multiple(Struct, frozen=True):
    """`value` is a multiple of a power of two."""

    value: AddressSum
    size: int

    def test(self, new: New, lines: list[str]) -> tuple[str, str]:
        value, rest = self.value.written(new, lines), new("rest", "b32")
        lines.append(f"and.b32 {rest}, {value}, {self.size - 1};")
        return "eq.s32", f"{rest}, 0"


class Bounded(Struct, frozen=True):
    """`index + left · growth` is at most `limit`, all of them read as numbers that are not
    negative: so far an index gets in what is left of a loop."""

    index: str
    left: AddressSum
    growth: AddressSum
    limit: int

    def test(self, new: New, lines: list[str]) -> tuple[str, str]:
        start, end = new("start", "b64"), new("end", "b64")
        lines.append(f"cvt.u64.u32 {start}, {self.index};")
        left, growth = (each.written(new, lines) for each in (self.left, self.growth))
        # In 64 bits: (2^32 - 1)^2 + 2^32 - 1 fits, so the test itself cannot wrap.
        lines.append(f"mad.wide.u32 {end}, {left}, {growth}, {start};")
        return "le.u64", f"{end}, {self.limit}"


class NotNegative(Struct, frozen=True):
    """`index + more + constant` is not negative, `more` read as a signed number, `index` as one
    that is not."""

    index: str
    more: AddressSum
    constant: int

    def test(self, new: New, lines: list[str]) -> tuple[str, str]:
        start = new("start", "b64")
        lines.append(f"cvt.u64.u32 {start}, {self.index};")
        if self.more.items:
            wide, total = self.more.wide(new, lines, "s"), new("start", "b64")
            lines.append(f"add.s64 {total}, {start}, {wide};")
            start = total
        return "ge.s64", f"{start}, {-self.constant}"


class Extended(Struct, frozen=True):
    """A sum extended to 64 bits."""

    sum: AddressSum
    sign: Literal["s", "u"]


class AddressPart(Struct, frozen=True):
    """A summand of an address: `factor` times the product of values, each a register of 64 bits or
    an extended sum."""

    factor: int
    values: tuple[str | Extended, ...]

    @property
    def only(self) -> str | Extended | None:
        """The value, where there is one alone."""
        return self.values[0] if len(self.values) == 1 else None


def written_parts(parts: Sequence[AddressPart], new: New, lines: list[str]) -> str:
    """A register or number of 64 bits that holds a sum; `lines` get what computes it."""
    total = ""
    for part in parts:
        value, factor = part.only, part.factor
        if isinstance(value, str) and factor == 1 and not total:
            total = value
            continue
        if not part.values and not total:
            total = str(factor)
            continue
        so_far, total = total, new("base", "b64")
        if not part.values:
            lines.append(f"add.s64 {total}, {so_far}, {factor};")
        elif isinstance(value, str) and abs(factor) == 1 and so_far:
            name = "add" if factor == 1 else "sub"
            lines.append(f"{name}.s64 {total}, {so_far}, {value};")
        # Extends, multiplies and adds in one IMAD.WIDE.
        elif isinstance(value, Extended) and value.sign == "s" and -(1 << 31) <= factor < 1 << 31:
            narrow = value.sum.written(new, lines)
            lines.append(f"mad.wide.s32 {total}, {narrow}, {factor}, {so_far or 0};")
        else:
            wide = _product(part.values, new, lines)
            lines.append(f"mad.lo.s64 {total}, {wide}, {factor}, {so_far or 0};")
    return total


def _product(values: Sequence[str | Extended], new: New, lines: list[str]) -> str:
    """A register with the product of some values, modulo 2^64."""
    total = ""
    for value in values:
        wide = value if isinstance(value, str) else value.sum.wide(new, lines, value.sign)
        so_far, total = total, wide
        if so_far:
            total = new("product", "b64")
            lines.append(f"mul.lo.s64 {total}, {so_far}, {wide};")
    return total


class Apart(Struct, frozen=True):
    """Bytes that come nearer to others from iteration to iteration do not reach them. Modulo 2^64
    the `distance` is at least `bytes + nearer · of · (left - last)`: they come nearer by `nearer`
    bytes, or so many times `of`, while `left` falls by 1, and go on until that is `last`. Without
    `left` the distance stays."""

    distance: tuple[AddressPart, ...]
    bytes: int
    nearer: int = 0
    left: AddressSum | None = None
    last: int = 0
    of: AddressSum | None = None

    def test(self, new: New, lines: list[str]) -> tuple[str, str]:
        distance = written_parts(self.distance, new, lines)
        return "ge.u64", f"{distance}, {self._least(new, lines)}"

    def _least(self, new: New, lines: list[str]) -> str:
        if self.left is None:
            return str(self.bytes)
        least = new("reach", "b64")
        if self.of is None:
            wide = self.left.wide(new, lines, "u")
            more = self.bytes - self.nearer * self.last
            lines.append(f"mad.lo.s64 {least}, {wide}, {self.nearer}, {more};")
        else:
            reach = new("reach", "b64")
            left = AddressSum(self.left.items, self.left.constant - self.last)
            iterations, of = (each.written(new, lines) for each in (left, self.of))
            lines.append(f"mul.wide.u32 {reach}, {iterations}, {of};")
            lines.append(f"mad.lo.s64 {least}, {reach}, {self.nearer}, {self.bytes};")
        return least


Condition = Compared | Multiple | Bounded | NotNegative | Apart


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


class GuardedLoop(Struct, frozen=True):
    """A loop that stands twice: changed where all conditions hold as it begins, else as it was."""

    place: LoopPlace
    conditions: tuple[Condition, ...]


def guard_claim(label: str, predicate: str, conditions: Sequence[Condition], text: str) -> Claim:
    """That a predicate implies conditions wherever a loop's iteration begins; `text` is that of the
    whole module."""
    names = Names(f"{fresh_prefix(text)}claim_")
    result = names.new("holds", "pred")
    lines = write_test(conditions, names.new, result)
    return Claim(label, predicate, "\n".join(lines), result, declared(names), "implies")


def declared(names: Names) -> str:
    """The declarations of a claim's own registers."""
    return " ".join(f".reg .{kind} {', '.join(n)};" for kind, n in names.registers.items())
