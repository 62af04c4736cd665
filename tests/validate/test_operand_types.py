"""Registers have types: ptxas takes no .u32 register for a float, nor a .f32 register for an
integer, and a text that it does not take is equal to none."""

from __future__ import annotations

import re

import pytest

from ptxsw.parser import parse
from ptxsw.toolchain import ptxas
from ptxsw.validate.operand_types import ill_typed
from ptxsw.verify import Undecided, verify
from tests.heads import head

TYPES = (
    "u16", "s16", "b16", "f16", "u32", "s32", "b32", "f32", "f16x2", "u64", "s64", "b64", "f64",
    "pred",
)  # fmt: skip
WRONG = """
add.u32 %b32_1, %f32_1, 1;
add.s32 %f32_1, %b32_1, 1;
add.u64 %b64_1, %b64_2, %f64_3;
add.f32 %b32_1, %u32_1, %f32_1;
add.f32 %s32_1, %f32_1, %f32_2;
add.f64 %f64_1, %f64_2, %s64_3;
add.f32 %f32_1, %f32_2, %f16x2_1;
add.f16 %f16_1, %u16_2, %f16_1;
add.f16x2 %f32_1, %b32_1, %b32_2;
add.f32 %f32_1, %f32_2, 1;
add.u32 %u32_1, %u32_2, 0f3F800000;
mul.wide.u32 %b64_1, %f32_1, 3;
mul.wide.u32 %f64_1, %b32_1, 3;
mad.lo.s32 %b32_1, %b32_2, %b32_3, %f32_1;
fma.rn.f32 %f32_1, %f32_1, %f32_2, %u32_1;
mov.u32 %f32_1, %b32_1;
mov.f32 %f32_1, 0;
mov.f64 %f64_1, %s64_1;
selp.f32 %f32_1, %f32_2, %s32_1, %pred_1;
selp.u32 %u32_1, %f32_2, %u32_1, %pred_1;
setp.lt.s32 %pred_1, %f32_1, 0;
setp.lt.f32 %pred_1, %u32_1, %f32_1;
set.eq.u32.f32 %f32_1, %f32_2, %f32_3;
set.eq.u32.f32 %u32_1, %u32_2, %f32_3;
slct.f32.s32 %f32_1, %f32_2, %f32_3, %f32_4;
slct.u32.f32 %u32_1, %f32_2, %u32_3, %f32_4;
shr.u32 %f32_1, %b32_1, 2;
min.s32 %b32_1, %f32_1, %b32_2;
neg.f32 %u32_1, %f32_1;
rcp.rn.f32 %f32_1, %s32_1;
ld.global.u32 %f32_1, [%b64_5];
ld.global.u16 %f32_1, [%b64_5];
ld.global.f32 %s32_1, [%b64_5];
ld.global.v2.f32 {%f32_1, %u32_2}, [%b64_5];
st.global.u32 [%b64_5], %f32_1;
st.global.f64 [%b64_5], %u64_1;
atom.global.add.f32 %u32_1, [%b64_5], %f32_1;
red.global.add.u32 [%b64_5], %f32_1;
cvt.rn.f32.s32 %u32_1, %s32_1;
cvt.rn.f32.s32 %f32_1, %f32_2;
cvt.rzi.s32.f32 %s32_1, %s32_2;
testp.notanumber.f32 %pred_1, %u32_1;
""".strip().splitlines()
RIGHT = """
add.u32 %b32_1, %s32_1, %u32_2;
add.u32 %u32_1, %f16x2_1, 1;
add.f32 %b32_1, %b32_2, %f32_1;
add.f16x2 %b32_1, %f16x2_1, %b32_2;
and.b32 %f32_1, %f32_2, 0f3F800000;
mov.b32 %f32_1, %u32_1;
mov.b32 %f32_1, {%b16_1, %b16_2};
mov.f32 %f32_1, 0f3F800000;
selp.b32 %u32_1, %f32_2, 0f3F800000, %pred_1;
setp.eq.b32 %pred_1, %f32_1, %u32_1;
slct.f32.s32 %f32_1, %f32_2, %f32_3, %b32_4;
set.eq.u32.f32 %b32_1, %f32_2, %f32_3;
shl.b32 %f32_1, %u32_1, %u32_2;
prmt.b32 %f32_1, %u32_1, %s32_2, 1;
ld.global.b32 %f32_1, [%b64_5];
ld.global.b16 %f32_1, [%b64_5];
ld.global.u8 %s64_1, [%b64_5];
ld.global.v2.f32 {%f32_1, %b32_2}, [%u64_5];
st.global.b64 [%b64_5], %f64_1;
atom.global.exch.b32 %f32_1, [%b64_5], %u32_1;
cvt.rn.f32.s32 %b32_1, %u32_1;
cvt.u32.u8 %s32_1, %u16_1;
cvt.rn.f16.f32 %b16_1, %f32_1;
mul.wide.u32 %s64_1, %s32_1, 3;
""".strip().splitlines()
REGISTERS = " ".join(f".reg .{name} %{name}_<9>;" for name in TYPES)


def kernel(*lines: str) -> str:
    body = "\n".join(lines)
    return f"{head('8.3', 'sm_90')}.visible .entry k()\n{{ {REGISTERS}\n{body}\nret;\n}}\n"


@pytest.mark.parametrize("line", [*WRONG, *RIGHT])
def test_operands_are_of_the_type_of_their_instruction(line: str) -> None:
    first, second = (parse(text).kernels[0] for text in (kernel(), kernel(line)))
    assert (ill_typed(first, second) is not None) is (line in WRONG)


def test_ptxas_refuses_the_same() -> None:
    text = kernel(*WRONG, *RIGHT)
    try:
        ptxas.assemble(text, "sm_90", options=("-O0",))
    except ptxas.NoPtxas as missing:
        pytest.skip(str(missing))
    except ptxas.AssemblyError as error:
        named = {int(line) for line in re.findall(r"line (\d+); error", str(error))}
    lines = text.splitlines()
    assert {lines[number - 1] for number in named} == set(WRONG)


def test_a_text_that_ptxas_refuses_is_neither_proved_nor_accepted() -> None:
    """`ptxsw verify` asks ptxas first; where there is none, and in Python, types are looked at."""
    loads = "mov.u64 %b64_5, 4294967296;", "ld.global.b32 %f32_1, [%b64_5];"
    store = "st.global.b32 [%b64_5+4], %b32_1;"
    first = kernel(*loads, "mov.b32 %b32_2, %f32_1;", "add.u32 %b32_1, %b32_2, 1;", store)
    second = kernel(*loads, "add.u32 %b32_1, %f32_1, 1;", store)
    verdict = verify(first, second)
    assert isinstance(verdict, Undecided) and not verdict.runs_tell
    refusal = "ptxas rejects it: add.u32 takes no register of type .f32, as %f32_1"
    assert refusal in verdict.reason
