"""A loop that goes on until a pointer has come to its end, and needs no counter.
`rewrites/pointer_test.py` has the lines before and after."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from ptxsw.changes.change import Change, Line
from ptxsw.codegen.builder import Builder
from ptxsw.codegen.loop_copy import LoopPlace, put_before
from ptxsw.codegen.splice import Edit
from ptxsw.parser import operand_spans
from ptxsw.ptx.ir import Instruction
from ptxsw.ptx.source import Source


class PointerTest(Struct, frozen=True):
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
    """What stands before the loops of some changes, where that is at no instruction; `builder`
    gets all else. `text` is that of the whole module."""
    edits = [_loop(builder, text, c.detail) for c in changes if isinstance(c.detail, PointerTest)]
    return tuple(edit for edit in edits if edit is not None)


def _loop(builder: Builder, text: str, test: PointerTest) -> Edit | None:
    start, now = builder.register("low", "b32"), builder.register("low", "b32")
    stop = builder.register("stop", "b32")
    assert stop == test.stop, "a claim speaks of this register"
    comparison = builder.instructions[test.at]
    lines = (
        f"cvt.u32.u64 {now}, {test.pointer};",
        of_other_operands(text, comparison, now, stop),
    )
    if test.before == test.at:
        builder.replace(test.at, *lines)
    else:
        builder.before(test.before, *lines)
        builder.replace(test.at)
    # The sum may wrap modulo 2^32. That does no harm, since it is only compared for equality.
    ahead = [
        f"cvt.u32.u64 {start}, {test.pointer};",
        f"add.s32 {stop}, {start}, {test.distance};",
    ]
    return put_before(builder, text, test.place, ahead)


def of_other_operands(text: str, comparison: Instruction, first: str, second: str) -> str:
    """The text of a comparison of two other operands."""
    one, two = operand_spans(Source(text), comparison)[1:]
    return (
        f"{text[comparison.start : one.start]}{first}"
        f"{text[one.end : two.start]}{second}{text[two.end : comparison.end]}"
    )
