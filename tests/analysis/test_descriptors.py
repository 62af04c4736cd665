"""How operands of tensor cores lie in shared memory, by their descriptors."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptxsw.analysis.descriptors import descriptors
from ptxsw.parser import parse
from tests.command_line import ptxsw
from tests.heads import head

WGMMA = """wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd1, %rd2,
        1, 1, 1, 0, 0;"""
TCGEN05 = "tcgen05.mma.cta_group::1.kind::f16 [%r8], %rd1, %rd2, %r9, %p1;"
FIXED = "mov.u64 %rd2, 0;"
ADDRESS = "mov.u32 %r1, tile; and.b32 %r2, %r1, 262112; shr.u32 %r3, %r2, 4;"
STRIDE = 64 << 32  # 1024 bytes


def kernel(before: str, multiply: str = WGMMA, arch: str = "sm_90a") -> str:
    return f"""{head("8.7", arch)}
.visible .entry k(.param .u64 given, .param .u32 n)
.reqntid 128, 1, 1
{{
    .reg .pred %p<9>;
    .reg .b32 %r<20>;
    .reg .f32 %f<9>;
    .reg .b64 %rd<20>;
    .shared .align 1024 .b8 tile[16384];
    ld.param.u64 %rd9, [given];
    ld.param.u32 %r8, [n];
    {before}
    {multiply}
    ret;
}}
"""


def modes(text: str) -> list[tuple[str, int | None, int, int | None]]:
    module = parse(text)
    [function] = module.kernels
    return [(d.matrix, d.swizzle, d.chunk, d.stride) for d in descriptors(module, function)]


@pytest.mark.parametrize(("mode", "swizzle"), [(0, 0), (1, 128), (2, 64), (3, 32)])
@pytest.mark.parametrize(
    "form",
    [
        "cvt.u64.u32 %rd3, %r3; or.b64 %rd1, %rd3, {bits};",
        "cvt.u64.u32 %rd3, %r3; add.s64 %rd1, %rd3, {bits};",
        "mov.b64 %rd1, {{%r3, {high}}};",
        "cvt.u64.u32 %rd3, %r3; or.b64 %rd4, %rd3, {bits}; add.s64 %rd1, %rd4, 2;",
        "cvt.u64.u32 %rd3, %r3; or.b64 %rd4, %rd3, {bits}; mov.b64 {{%r4, %r5}}, %rd4; "
        "add.s32 %r6, %r4, 4; mov.b64 %rd1, {{%r6, %r5}};",
        "mov.u64 %rd1, {bits};",
    ],
)
def test_modes_of_wgmma(mode: int, swizzle: int, form: str) -> None:
    bits = mode << 62 | STRIDE
    text = kernel(FIXED + ADDRESS + form.format(bits=bits, high=bits >> 32))
    assert modes(text) == [("A", swizzle, 16, 1024), ("B", 0, 16, 0)]


@pytest.mark.parametrize(
    ("mode", "swizzle", "chunk"),
    [(0, 0, 16), (1, 128, 32), (2, 128, 16), (4, 64, 16), (6, 32, 16), (3, None, 16)],
)
def test_modes_of_tcgen05(mode: int, swizzle: int | None, chunk: int) -> None:
    bits = mode << 61 | 1 << 46 | STRIDE
    text = kernel(f"{FIXED} mov.u64 %rd1, {bits};", TCGEN05, "sm_100a")
    assert modes(text) == [("A", swizzle, chunk, 1024), ("B", 0, 16, 0)]


@pytest.mark.parametrize(
    "form",
    [
        "mov.u64 %rd1, %rd9;",
        "cvt.u64.u32 %rd3, %r8; shl.b64 %rd4, %rd3, 40; or.b64 %rd1, %rd4, 5;",
        f"add.s64 %rd1, %rd9, {STRIDE};",  # what is carried may be anything
        f"mov.u64 %rd1, {STRIDE}; mov.u64 %rd1, {1 << 62 | STRIDE};",
    ],
)
def test_what_the_text_does_not_say_is_not_known(form: str) -> None:
    [(name, swizzle, _, _), _] = modes(kernel(FIXED + form))
    assert (name, swizzle) == ("A", None)


def test_a_matrix_in_registers_or_tensor_memory_has_none() -> None:
    text = kernel(FIXED, WGMMA.replace("%rd1", "{%r1, %r2, %r3, %r4}").replace(", 0, 0;", ", 0;"))
    assert [matrix for matrix, *_ in modes(text)] == ["B"]
    text = kernel(FIXED, TCGEN05.replace("%rd1", "[%r7]"), "sm_100a")
    assert [matrix for matrix, *_ in modes(text)] == ["B"]


def test_analyze_tells_them(tmp_path: Path) -> None:
    bits = 1 << 62 | STRIDE
    twice = WGMMA + "\n    " + WGMMA
    (tmp_path / "k.ptx").write_text(kernel(f"{FIXED} mov.u64 %rd1, {bits};", twice))
    told = ptxsw("analyze", tmp_path / "k.ptx").stdout.decode()
    [table] = told.split("Operands by descriptor\n")[1:]
    assert [line.split() for line in table.splitlines()] == [
        ["line", "instruction", "matrix", "swizzle", "8", "rows"],
        ["16", "and", "1", "more", "wgmma", "A", "128", "bytes", "1024", "bytes"],
        ["16", "and", "1", "more", "wgmma", "B", "none", "0", "bytes"],
    ]
