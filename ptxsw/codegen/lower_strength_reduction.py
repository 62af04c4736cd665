"""A loop that stands twice: with addresses made from bases that are computed before it, where a
test says that no index wraps in any iteration, and else as it was; or once, with pointers that need
no test. `rewrites/strength_reduction.py` has the lines before and after."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from ptxsw.changes.change import Change, Line
from ptxsw.codegen.builder import Builder, Insertions, with_operands
from ptxsw.codegen.loop_guard import (
    AddressPart,
    AddressSum,
    Condition,
    write_test,
    written_parts,
)
from ptxsw.codegen.lower_straight_line import relocated
from ptxsw.codegen.splice import Edit
from ptxsw.codegen.versioning import LoopPlace, before_loop, loop_twice


class Base(Struct, frozen=True):
    """The sum `parts` is computed before the loop; each iteration begins with `base + index ·
    scale`. Accesses `members` (each with an offset in bytes) are made relative to that. An index
    of 64 bits is a pointer itself: `register` then names the one that holds how far the addresses
    are from it, and the sum is made before instruction `at`."""

    parts: tuple[AddressPart, ...]
    index: str
    scale: int
    members: tuple[tuple[int, int], ...]
    register: str = ""
    at: int | None = None


class Pointer(Struct, frozen=True):
    """The sum `start` is computed before the loop, and grows by `step` in each iteration.
    Instruction `at`, which would leave it in `register`, takes it from there."""

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
    relied on in every iteration, and `carried` the registers of the pointers. Where `exact` is
    empty, there is nothing to test, and the loop stands once."""

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


class PointerGuard(Struct, frozen=True):
    """Comparison `at`, in the loop at a `place`, compares the low 32 bits of `pointer` with
    register `stop`, which is set before the loop to what these bits are then, and `distance`.
    It moves up to instruction `before`, or stays where that is itself."""

    place: LoopPlace
    at: int
    pointer: str
    stop: str
    distance: int
    before: int

    def facts(self, line: Line) -> Mapping[str, Any]:
        """What a report says of it."""
        return {"lines": [line(self.at)], "pointers": 1}


def lower(builder: Builder, text: str, changes: Iterable[Change]) -> tuple[Edit, ...]:
    """The edits that make all changes; `text` is that of the whole module."""
    details = [change.detail for change in changes]
    edits = [_pointer_guard(builder, text, d) for d in details if isinstance(d, PointerGuard)]
    edits += [_loop(builder, text, d) for d in details if isinstance(d, ReducedLoop)]
    return (*builder.edits(), *(edit for edit in edits if edit is not None))


def _loop(builder: Builder, text: str, loop: ReducedLoop) -> Edit | None:
    lines: list[str] = []
    if loop.exact:
        lines = _two_ways(builder, text, loop)
    else:
        _pointers(builder, loop, lines, builder.lines)
        _bases(builder, text, loop, lines, builder.lines)
    return before_loop(builder, text, loop.place, lines)


def _two_ways(builder: Builder, text: str, loop: ReducedLoop) -> list[str]:
    """What stands before the loop: the test, and the loop with its new addresses."""
    exact = builder.register("exact", "pred")
    assert exact == loop.exact, "claims speak of this predicate"
    test = write_test(loop.conditions, builder.register, exact)
    ahead: list[str] = []
    fast = _fast(builder, text, loop, ahead)
    return [*test, *loop_twice(builder, text, loop.place, fast, ahead, f"!{exact}")]


def _pointers(builder: Builder, loop: ReducedLoop, ahead: list[str], lines: Insertions) -> None:
    """Lines of the loop that take addresses from pointers; `ahead` gets what stands before it."""
    steps: dict[tuple[AddressPart, ...], str] = {}
    for pointer, carried in zip(loop.pointers, loop.carried, strict=True):
        assert builder.register("pointer", "b64") == carried, "a claim speaks of this register"
        # The argument adds its lines to `ahead` before the move is appended.
        ahead.append(f"mov.b64 {carried}, {written_parts(pointer.start, builder.register, ahead)};")
        if pointer.step not in steps:
            steps[pointer.step] = written_parts(pointer.step, builder.register, ahead)
        lines.replace(pointer.at, f"mov.b64 {pointer.register}, {carried};")
        lines.put_before(loop.latch, f"add.s64 {carried}, {carried}, {steps[pointer.step]};")


def _bases(
    builder: Builder, text: str, loop: ReducedLoop, ahead: list[str], lines: Insertions
) -> None:
    """Lines of the loop that make its addresses; `ahead` gets what stands before it."""
    first: list[str] = []
    for base in loop.bases:
        register = written_parts(base.parts, builder.register, ahead)
        if base.at is None:
            far, address = builder.register("far", "b64"), builder.register("address", "b64")
            # Unsigned, whatever the extension was: the test has bounded the index by 2^30.
            first.append(f"mul.wide.u32 {far}, {base.index}, {base.scale};")
            first.append(f"add.s64 {address}, {register}, {far};")
        else:
            assert builder.register("apart", "b64") == base.register, "a claim speaks of it"
            address = builder.register("address", "b64")
            ahead.append(f"mov.b64 {base.register}, {register};")
            lines.put_before(base.at, f"add.s64 {address}, {base.index}, {base.register};")
        for at, offset in base.members:
            lines.replace(at, relocated(text, builder.instructions[at], address, offset))
    lines.put_before(loop.place.header, *first)


def _fast(builder: Builder, text: str, loop: ReducedLoop, ahead: list[str]) -> Insertions:
    """Lines of the loop with its new addresses; `ahead` gets what stands before it."""
    fast = Insertions()
    _pointers(builder, loop, ahead, fast)
    _bases(builder, text, loop, ahead, fast)
    if loop.shifted is not None:
        fast.replace(loop.shifted.at, _shifted(builder, text, loop.shifted, ahead))
    return fast


def _shifted(builder: Builder, text: str, test: ShiftedTest, ahead: list[str]) -> str:
    """The text of a comparison of other operands; `ahead` gets what computes the bound."""
    bound = AddressSum(test.bound.items, test.bound.constant - test.number)
    other = bound.written(builder.register, ahead)
    operands = {test.operand: test.register, 3 - test.operand: other}
    return with_operands(text, builder.instructions[test.at], operands)


def _pointer_guard(builder: Builder, text: str, guard: PointerGuard) -> Edit | None:
    start, now = builder.register("low", "b32"), builder.register("low", "b32")
    stop = builder.register("stop", "b32")
    assert stop == guard.stop, "a claim speaks of this register"
    comparison = builder.instructions[guard.at]
    lines = (
        f"cvt.u32.u64 {now}, {guard.pointer};",
        with_operands(text, comparison, {1: now, 2: stop}),
    )
    if guard.before == guard.at:
        builder.replace(guard.at, *lines)
    else:
        builder.before(guard.before, *lines)
        builder.replace(guard.at)
    # The sum may wrap modulo 2^32. That does no harm, since it is only compared for equality.
    ahead = [
        f"cvt.u32.u64 {start}, {guard.pointer};",
        f"add.s32 {stop}, {start}, {guard.distance};",
    ]
    return before_loop(builder, text, guard.place, ahead)
