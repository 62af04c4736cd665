"""Random kernels that take a flat index apart, as collapsed loops do, and load around what they
get: by parameters and by numbers, signed and not, with what a compiler makes of a division by a
number. Where rows end is anywhere in a warp, and what is divided may wrap or be negative."""

from __future__ import annotations

import random

HEAD = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(
	.param .u64 from, .param .u64 to, .param .u32 n, .param .u32 width, .param .u32 first
)
{
	.reg .pred %p<4>;
	.reg .b32 %r<40>;
	.reg .f32 %f<40>;
	.reg .b64 %rd<60>;
	ld.param.u64 %rd1, [from];
	ld.param.u64 %rd2, [to];
	ld.param.u32 %r1, [n];
	ld.param.u32 %r2, [width];
	ld.param.u32 %r3, [first];
	mov.u32 %r4, %tid.x;
	mov.u32 %r5, %ctaid.x;
	mov.u32 %r6, %ntid.x;
	mad.lo.s32 %r7, %r5, %r6, %r4;
	mul.wide.u32 %rd3, %r7, 4;
	add.s64 %rd4, %rd2, %rd3;
	mov.f32 %f0, 0f00000000;
	add.s64 %rd1, %rd1, 65536;
"""
TAIL = """	st.global.f32 [%rd4], %f0;
	ret;
}
"""

LAUNCHES = (
    # n, width, first
    (1, 3, 0), (2, 5, 0), (7, 9, 3), (31, 33, 1), (32, 34, 0), (33, 35, 40), (100, 102, 0),
    (0, 3, 0), (64, 0, 5), (7, 0, -20), (16, 0, -16), (100, 3, -50), (-7, 4, -30), (4096, 7, 11),
)  # fmt: skip
"""A negative `first` is an unsigned index that wraps, or a signed one below zero."""

_BY_NUMBER = {
    # what to divide in %r10, the quotient to %r11
    "u100": "mul.wide.u32 %rd10, %r10, 1374389535;\nshr.u64 %rd11, %rd10, 37;\n"
    "cvt.u32.u64 %r11, %rd11;",
    "u10": "mul.hi.u32 %r20, %r10, -858993459;\nshr.u32 %r11, %r20, 3;",
    "u7": "mul.hi.u32 %r20, %r10, 613566757;\nsub.s32 %r21, %r10, %r20;\nshr.u32 %r22, %r21, 1;\n"
    "add.s32 %r23, %r22, %r20;\nshr.u32 %r11, %r23, 2;",
    "s10": "mul.hi.s32 %r20, %r10, 1717986919;\nshr.u32 %r21, %r20, 31;\nshr.s32 %r22, %r20, 2;\n"
    "add.s32 %r11, %r22, %r21;",
    "u16": "shr.u32 %r11, %r10, 4;",
    "s8": "shr.s32 %r20, %r10, 31;\nshr.u32 %r21, %r20, 29;\nadd.s32 %r22, %r10, %r21;\n"
    "shr.s32 %r11, %r22, 3;",
}


def _in_parts(to: int, quotient: bool) -> list[str]:
    """A row and a column that are extended one by one, as clang does."""
    row = [] if quotient else ["mul.lo.s32 %r16, %r11, %r2;"]
    return [
        *row,
        f"cvt.s64.s32 %rd{to + 20}, {'%r11' if quotient else '%r16'};",
        f"cvt.s64.s32 %rd{to + 25}, %r12;",
        f"add.s64 %rd{to + 25}, %rd{to + 20}, %rd{to + 25};",
        f"shl.b64 %rd{to}, %rd{to + 25}, 2;",
    ]


def kernel(seed: int) -> str:
    """One kernel; everything follows from the seed."""
    pick = random.Random(seed)
    lines = ["mov.u32 %r10, %r4;" if pick.random() < 0.3 else "add.s32 %r10, %r7, %r3;"]
    number = pick.choice((*_BY_NUMBER, "n", "n", "n", "n", "n", "n"))
    if number == "n":
        sign = pick.choice("us")
        lines.append(f"div.{sign}32 %r11, %r10, %r1;")
        rest = f"rem.{sign}32 %r12, %r10, %r1;"
        divisor = "%r1"
    else:
        lines.append(_BY_NUMBER[number])
        divisor = number[1:]
        rest = "and.b32 %r12, %r10, 15;" if number == "u16" else ""
    if not rest or pick.random() < 0.5:
        rest = f"mul.lo.s32 %r13, %r11, {divisor};\nsub.s32 %r12, %r10, %r13;"
    lines += [rest, "mad.lo.s32 %r14, %r11, %r2, %r12;", "add.s32 %r15, %r11, %r12;"]
    for base, index in enumerate(("%r14", "%r12", "%r15")):
        widen = pick.choice(("mul.wide.s32", "mul.wide.u32", "parts"))
        if widen == "parts" and base != 1:
            lines += _in_parts(20 + base, base != 0)
        else:
            kind = "mul.wide.s32" if widen == "parts" else widen
            lines.append(f"{kind} %rd{20 + base}, {index}, {pick.choice((4, 4, 8))};")
        lines.append(f"add.s64 %rd{30 + base}, %rd1, %rd{20 + base};")
    for at in range(pick.randint(2, 6)):
        if pick.random() < 0.15:
            lines.append(f"setp.lt.u32 %p1, %r4, {pick.choice((5, 40, 90))};\n@!%p1 bra OVER{at};")
        offset = pick.choice((0, 4, -4, 8, -8, 12, 16, 128))
        base = pick.choice((30, 30, 30, 31, 32))
        nc = pick.choice(("", ".nc"))
        lines.append(f"ld.global{nc}.f32 %f{at + 1}, [%rd{base}+{offset}];")
        lines.append(f"fma.rn.f32 %f0, %f0, 0f3F000000, %f{at + 1};")
        if "bra" in lines[-3]:
            lines.append(f"OVER{at}:")
    return HEAD + "\n".join(lines) + "\n" + TAIL
