"""A loop that stands twice: with addresses made from bases that are computed before it, where a
test says that no index wraps in any turn, and else as it was; or once, with pointers that need no
test. `rewrites/strength_reduction.py` has the lines before and after."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from ptxsw import isa
from ptxsw.change import Change, Line
from ptxsw.codegen.builder import Builder
from ptxsw.codegen.insertions import Insertions
from ptxsw.codegen.loop_copy import LoopPlace, in_two_ways, put_before
from ptxsw.codegen.lower_pointer_test import lower as lower_pointer_tests
from ptxsw.codegen.lower_pointer_test import of_other_operands
from ptxsw.codegen.splice import Edit
from ptxsw.ir import Instruction

New = Callable[[str, str], str]
"""`new(stem, kind)`: a register of type `.kind` that nothing else uses."""


class AddressSum(Struct, frozen=True):
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


class Base(Struct, frozen=True):
    """The sum `parts` is computed before the loop; each turn begins with `base + index · scale`.
    Accesses `members` (each with an offset in bytes) are made relative to that."""

    parts: tuple[AddressPart, ...]
    index: str
    scale: int
    members: tuple[tuple[int, int], ...]


class Pointer(Struct, frozen=True):
    """The sum `start` is computed before the loop, and grows by `step` in each turn. Instruction
    `at`, which would leave it in `register`, takes it from there."""

    at: int
    register: str
    start: tuple[AddressPart, ...]
    step: tuple[AddressPart, ...]


class ShiftedTest(Struct, frozen=True):
    """Comparison `at` has `register` as its operand number `operand`, where it had that plus
    `number`, and as its other operand `bound - number`, which is computed before the loop."""

    at: int
    operand: int
    register: str
    bound: AddressSum
    number: int


class ReducedLoop(Struct, frozen=True):
    """The loop at a `place` gets addresses from `bases` and `pointers`, where all `conditions` hold
    as it begins, and `shifted` tests whether it goes on, if that saves a sum. `latch` is the branch
    back. `exact` names the predicate that tells whether they hold, which may be
    relied on in every turn, and `carried` the registers of the pointers. Where `exact` is empty,
    there is nothing to test, and the loop stands once."""

    place: LoopPlace
    latch: int
    exact: str
    conditions: tuple[Condition, ...]
    bases: tuple[Base, ...]
    pointers: tuple[Pointer, ...] = ()
    carried: tuple[str, ...] = ()
    shifted: ShiftedTest | None = None

    def facts(self, line: Line) -> Mapping[str, Any]:
        """What a report says of it."""
        at = {at for base in self.bases for at, _ in base.members} | {p.at for p in self.pointers}
        facts = {"lines": sorted(map(line, at)), "bases": len(self.bases)}
        return facts | ({"pointers": len(self.pointers)} if self.pointers else {})


def lower(builder: Builder, text: str, changes: Iterable[Change]) -> tuple[Edit, ...]:
    """The edits that make all changes; `text` is that of the whole module."""
    every = tuple(changes)
    more = lower_pointer_tests(builder, text, every)
    loops = [_loop(builder, text, c.detail) for c in every if isinstance(c.detail, ReducedLoop)]
    return (*builder.edits(), *more, *(edit for edit in loops if edit is not None))


def _loop(builder: Builder, text: str, loop: ReducedLoop) -> Edit | None:
    lines: list[str] = []
    if loop.exact:
        lines = _two_ways(builder, text, loop)
    else:
        _pointers(builder, loop, lines, builder.lines)
    return put_before(builder, text, loop.place, lines)


def _two_ways(builder: Builder, text: str, loop: ReducedLoop) -> list[str]:
    """What stands before the loop: the test, and the loop with its new addresses."""
    exact = builder.register("exact", "pred")
    assert exact == loop.exact, "claims speak of this predicate"
    test = write_test(loop.conditions, builder.register, exact)
    ahead: list[str] = []
    fast = _fast(builder, text, loop, ahead)
    return [*test, *in_two_ways(builder, text, loop.place, fast, ahead, f"!{exact}")]


def _pointers(builder: Builder, loop: ReducedLoop, ahead: list[str], lines: Insertions) -> None:
    """Lines of the loop that take addresses from pointers; `ahead` gets what stands before it."""
    steps: dict[tuple[AddressPart, ...], str] = {}
    for pointer, carried in zip(loop.pointers, loop.carried, strict=True):
        assert builder.register("pointer", "b64") == carried, "a claim speaks of this register"
        ahead.append(f"mov.b64 {carried}, {written_parts(pointer.start, builder.register, ahead)};")
        if pointer.step not in steps:
            steps[pointer.step] = written_parts(pointer.step, builder.register, ahead)
        lines.replace(pointer.at, f"mov.b64 {pointer.register}, {carried};")
        lines.put_before(loop.latch, f"add.s64 {carried}, {carried}, {steps[pointer.step]};")


def _fast(builder: Builder, text: str, loop: ReducedLoop, ahead: list[str]) -> Insertions:
    """Lines of the loop with its new addresses; `ahead` gets what stands before it."""
    first: list[str] = []
    fast = Insertions()
    _pointers(builder, loop, ahead, fast)
    for base in loop.bases:
        register = written_parts(base.parts, builder.register, ahead)
        far, address = builder.register("far", "b64"), builder.register("address", "b64")
        first.append(f"mul.wide.u32 {far}, {base.index}, {base.scale};")
        first.append(f"add.s64 {address}, {register}, {far};")
        for at, offset in base.members:
            fast.replace(at, _relocated(text, builder.instructions[at], address, offset))
    if loop.shifted is not None:
        fast.replace(loop.shifted.at, _shifted(builder, text, loop.shifted, ahead))
    fast.put_before(loop.place.header, *first)
    return fast


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


def _shifted(builder: Builder, text: str, test: ShiftedTest, ahead: list[str]) -> str:
    """The text of a comparison of other operands; `ahead` gets what computes the bound."""
    bound = AddressSum(test.bound.items, test.bound.constant - test.number)
    instruction = builder.instructions[test.at]
    operands = [bound.written(builder.register, ahead)] * 2
    operands[test.operand - 1] = test.register
    return of_other_operands(text, instruction, *operands)


def _relocated(text: str, access: Instruction, address: str, offset: int) -> str:
    """The text of an access, at another address."""
    operand = isa.address(access)
    line = text[access.start : access.end]
    begin, end = line.index("["), line.index("]")
    assert "[" not in line[begin + 1 :], operand
    return f"{line[:begin]}[{address}{f'+{offset}' if offset else ''}]{line[end + 1 :]}"
