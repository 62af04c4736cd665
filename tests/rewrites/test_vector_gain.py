"""Vectors that mode auto leaves alone without asking ptxas, because the text shows that they cannot
pay. Mode force makes them."""

from __future__ import annotations

import pytest

from ptxsw.driver.pipeline import Options, optimize
from tests.heads import head
from tests.rewrites.pair import kernel, reasons, rewritten

pytestmark = pytest.mark.usefixtures("no_ptxas")

PAIR = """
    ld.global.f32 %f1, [%rd4];
    ld.global.f32 %f2, [%rd4+4];
"""
SPIN = """
    mov.u32 %r4, 0;
    LOOP:
    ld.global.f32 %f5, [%rd1];
    add.f32 %f4, %f4, %f5;
    {more}
    add.u32 %r4, %r4, 1;
    setp.lt.u32 %p1, %r4, %r1;
    @%p1 bra LOOP;
"""
SUM = "add.f32 %f3, %f1, %f2;\nadd.f32 %f3, %f3, %f4;\nst.global.f32 [%rd5], %f3;"
LITTLE = "the vectors save less than 1 % of the kernel's work"


def auto(text: str, **options: float) -> tuple[bool, list[str]]:
    """Are there vectors in what mode auto makes of a text, and why are others not?"""
    result = optimize(text, Options(rewrites=("vectorize",), **options))  # type: ignore[arg-type]
    return ".v2." in result.text, reasons(result)


def test_a_pair_beside_a_long_loop() -> None:
    """It saves a wavefront of hundreds."""
    much = "ld.global.f32 %f5, [%rd1];\nadd.f32 %f4, %f4, %f5;\n" * 40
    beside = kernel(PAIR + SPIN.format(more=much) + SUM)
    assert auto(beside) == (False, [LITTLE])
    assert ".v2." in rewritten("vectorize", beside).text
    assert auto(kernel(PAIR + SPIN.format(more="") + SUM))[0]


def test_the_same_pair_inside_the_loop() -> None:
    inside = SPIN.format(more=PAIR + "add.f32 %f4, %f4, %f1;\nadd.f32 %f4, %f4, %f2;\n" * 20)
    assert auto(kernel(inside + SUM))[0]


def test_who_asks_for_less_gain_gets_it() -> None:
    much = "ld.global.f32 %f5, [%rd1];\nadd.f32 %f4, %f4, %f5;\n" * 40
    beside = kernel(PAIR + SPIN.format(more=much) + SUM)
    assert auto(beside, min_gain=0.0) == (True, [])


def holding(values: int, instruction: str = "f64") -> str:
    """A kernel that loads values, keeps them, loads a pair, and needs them all."""
    size = int(instruction[1:]) // 8
    loads = [f"ld.global.{instruction} %h{n}, [%rd2+{4096 * (n + 1)}];" for n in range(values)]
    pair = [f"ld.global.{instruction} %h{values + n}, [%rd1+{size * n}];" for n in range(2)]
    sums = [f"add.{instruction} %h0, %h0, %h{n};" for n in range(1, values + 2)]
    body = "\n".join([*loads, *pair, *sums, f"st.global.{instruction} [%rd2], %h0;"])
    return (
        head()
        + f""".visible .entry k(.param .u64 .ptr .global .align 16 in, .param .u64 out)
{{
.reg .b64 %rd<9>;
.reg .{instruction} %h<{values + 2}>;
ld.param.u64 %rd1, [in];
ld.param.u64 %rd2, [out];
{body}
ret;
}}
"""
    )


@pytest.mark.parametrize(("kind", "many", "fewer"), [("f64", 99, 98), ("f32", 199, 198)])
def test_a_thread_full_of_values(kind: str, many: int, fewer: int) -> None:
    """204 registers: the values and the pair, or one of it, and pointers."""
    made, (reason,) = auto(holding(many, kind), min_gain=0.0)
    assert not made
    assert reason == "204 of 255 registers are in use there, and vectors need more at once"
    assert ".v2." in rewritten("vectorize", holding(many, kind)).text
    assert auto(holding(fewer, kind), min_gain=0.0) == (True, [])
