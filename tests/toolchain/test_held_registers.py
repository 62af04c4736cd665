"""How many registers a kernel holds at once, told from its text."""

from __future__ import annotations

import pytest

from ptxsw.toolchain.held_registers import CROWDED, held_at_once, is_crowded, mostly_crowded
from tests.crowded import SUMS, crowded, crowded_kernel
from tests.heads import head


@pytest.mark.parametrize(
    ("body", "registers"),
    [
        ("", 0),
        (".reg .b32 %r<9>; mov.b32 %r1, 1; add.s32 %r2, %r1, %r1; add.s32 %r3, %r2, %r2;", 2),
        (".reg .b32 %r<9>; mov.b32 %r1, 1; mov.b32 %r2, 1; add.s32 %r3, %r2, %r1;", 2),
        (".reg .b64 %r<9>; mov.b64 %r1, 1; mov.b64 %r2, 1; add.s64 %r3, %r2, %r1;", 4),
        (".reg .b16 %r<9>; mov.b16 %r1, 1; mov.b16 %r2, 1; add.s16 %r3, %r2, %r1;", 1),
        (".reg .f16x2 %h<9>; mov.b32 %h1, 1; add.f16x2 %h2, %h1, %h1;", 1),
        (".reg .pred %p<9>; setp.eq.s32 %p1, 1, 1; @%p1 ret;", 0),
        (".reg .u32 %r22, %v; mov.u32 %r22, 1; mov.u32 %v, 2; add.u32 %r22, %r22, %v;", 2),
        (".reg .b32 %r<9>; mov.b32 %r1, %tid.x; add.s32 %r2, %tid.x, %r1;", 1),
    ],
)  # fmt: skip
def test_registers(body: str, registers: float) -> None:
    assert held_at_once(body.encode()) == registers


def test_what_is_crowded() -> None:
    """The rule of thumb, on both sides of it."""
    assert held_at_once(crowded_kernel("k").encode()) >= CROWDED > 100
    assert is_crowded(crowded_kernel("k").encode())
    assert not is_crowded(crowded_kernel("k", SUMS - 2).encode())


def test_most_of_a_text() -> None:
    assert mostly_crowded(crowded(2).encode())
    assert not mostly_crowded(crowded(2, SUMS - 2).encode())
    assert not mostly_crowded(head().encode())
    free = crowded_kernel("free", SUMS - 2) + crowded_kernel("too", SUMS - 2)
    assert not mostly_crowded((crowded() + free).encode())
