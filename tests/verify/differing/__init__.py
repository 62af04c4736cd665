"""Pairs of kernels that differ in one place, for `verify` to tell apart.

`instructions.txt` and `kernels.txt` are written by hand; `mutants.py` changes real programs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from msgspec import Struct

from tests.heads import head

HERE = Path(__file__).parent


class Pair(Struct, frozen=True):
    """Two texts of a kernel."""

    name: str
    first: str
    second: str
    kernel: str = "k"


# Registers of an element, how it is loaded, its bytes.
_ELEMENTS = {
    "u32": ("b32", "u32", 4), "b32": ("b32", "b32", 4), "f32": ("f32", "f32", 4),
    "u64": ("b64", "u64", 8), "b64": ("b64", "b64", 8), "f64": ("f64", "f64", 8),
    "u16": ("b16", "u16", 2), "f16": ("b16", "b16", 2), "bf16": ("b16", "b16", 2),
    "f16x2": ("b32", "b32", 4),
}  # fmt: skip

_INSTRUCTION = """.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 out,
    .param .u32 n, .param .f32 s)
{{
    .reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %a<4>, %t, %i, %n; .reg .b64 %q<6>;
    .reg .f32 %f<4>, %c; .reg .{register} %x, %y, %z, %d;
    ld.param.u64 %q0, [a]; ld.param.u64 %q1, [b]; ld.param.u64 %q2, [c]; ld.param.u64 %q3, [out];
    ld.param.u32 %n, [n]; ld.param.f32 %c, [s];
    mov.u32 %t, %tid.x; mov.u32 %a0, %ctaid.x; mov.u32 %a1, %ntid.x; mad.lo.u32 %i, %a0, %a1, %t;
    mul.wide.u32 %q4, %i, {size};
    add.s64 %q0, %q0, %q4; add.s64 %q1, %q1, %q4; add.s64 %q2, %q2, %q4; add.s64 %q3, %q3, %q4;
    ld.global.{loaded} %x, [%q0]; ld.global.{loaded} %y, [%q1]; ld.global.{loaded} %z, [%q2];
    setp.gt.u32 %p0, %t, 3; and.b32 %a0, %t, 1; setp.eq.u32 %p2, %a0, 1;{halves}
    {body};
    st.global.{loaded} [%q3], %d;
    ret;
}}
"""
_HALVES = " cvt.u32.u64 %a0, %x; cvt.u32.u64 %a1, %y;"

_KERNEL = """.const .align 4 .f32 weights[4];
.global .align 4 .u32 table[4];
.extern .shared .align 4 .b8 pool[];
.func (.reg .b32 %o) halve(.reg .b32 %v) {{ shr.u32 %o, %v, 1; ret; }}
.func (.reg .b32 %o) third(.reg .b32 %v) {{ div.u32 %o, %v, 3; ret; }}
.visible .entry k(.param .u64 out, .param .u64 a, .param .u64 b, .param .u32 n, .param .u64 w)
{{
    .shared .align 4 .b8 tile[512]; .local .align 4 .b8 stack[16];
    .reg .pred %p<4>; .reg .b32 %r<12>, %t, %i, %n, %w32; .reg .f32 %f<6>;
    .reg .b64 %rd<12>, %out, %a, %b, %w, %i64, %at, %out_i, %a_i, %b_i;
    ld.param.u64 %out, [out]; ld.param.u64 %a, [a]; ld.param.u64 %b, [b];
    ld.param.u32 %n, [n]; ld.param.u64 %w, [w]; cvt.u32.u64 %w32, %w;
    mov.u32 %t, %tid.x; mov.u32 %r10, %ctaid.x; mov.u32 %r11, %ntid.x;
    mad.lo.u32 %i, %r10, %r11, %t; cvt.u64.u32 %i64, %i; mul.wide.u32 %at, %i, 4;
    add.s64 %out_i, %out, %at; add.s64 %a_i, %a, %at; add.s64 %b_i, %b, %at;
    {body}
}}
"""
_CHANGE = re.compile(r"\{((?:[^{}]|\{[^{}]*\})*?) ?=>(?: ((?:[^{}]|\{[^{}]*\})*?))?\}", re.DOTALL)


def instructions() -> Iterator[Pair]:
    """Kernels of a few instructions on three loaded values."""
    for line in (HERE / "instructions.txt").read_text().splitlines():
        if "|" in line and not line.startswith("#"):
            type_, first, second = (piece.strip() for piece in line.split("|", 2))
            yield Pair(line, _instruction(type_, first), _instruction(type_, second))


def _instruction(type_: str, body: str) -> str:
    register, loaded, size = _ELEMENTS[type_]
    halves = _HALVES if size == 8 and "%a1" in body and register == "b64" else ""
    text = _INSTRUCTION.format(
        register=register, loaded=loaded, size=size, halves=halves, body=body
    )
    return head("8.5", "sm_90") + text


def kernels() -> Iterator[Pair]:
    """Kernels with branches, loops, memory of all spaces, atomics and calls."""
    for block in (HERE / "kernels.txt").read_text().split("== ")[1:]:
        name, _, body = block.partition("\n")
        body = re.sub(r"\$(\w+)", r"%\1", body.strip())
        texts = [_kernel(_CHANGE.sub(partial(_side, side), body)) for side in (1, 2)]
        yield Pair(name, *texts)


def _kernel(body: str) -> str:
    return head("8.5", "sm_90") + _KERNEL.format(body=body)


def _side(side: int, change: re.Match[str]) -> str:
    return change[side] or ""


def by_hand() -> list[Pair]:
    return [*instructions(), *kernels()]
