"""Where registers point, by the flow graph alone."""

from __future__ import annotations

import pytest

from ptxsw.flow.cfg import build
from ptxsw.flow.pointer_spaces import PointerSpaces, Points
from ptxsw.parser import parse
from ptxsw.ptx.ir import Reg
from tests.rewrites.pair import kernel

LOOP = (
    "mov.u32 %r5, 0;\nLOOP:\n{}\nadd.s32 %r5, %r5, 1;\nsetp.lt.s32 %p1, %r5, %r1;\n@%p1 bra LOOP;"
)
RAW = "ld.param.u64 %rd6, [in];\n"


def at_the_end(body: str, register: str) -> Points:
    """What a register holds where the last block of a kernel begins."""
    (function,) = parse(kernel(f"{body}\nbra END;\nEND:")).kernels
    cfg = build(function.body)
    spaces = PointerSpaces(cfg, frozenset({"in", "out", "n"}))
    return spaces.at(cfg.blocks[-1].start, Reg(register))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (RAW, Points.PARAMETER),
        ("cvta.to.global.u64 %rd6, %rd1;", Points.GLOBAL),
        ("mov.u64 %rd6, %rd4;", Points.GLOBAL),
        (RAW + "add.s64 %rd6, %rd6, %rd3;", Points.PARAMETER),
        (RAW + "mad.wide.s32 %rd6, %r2, 4, %rd6;", Points.PARAMETER),
        (RAW + "mul.lo.s64 %rd6, %rd6, 4;", Points.NUMBER),
        # A pointer that a loop moves along.
        (RAW + LOOP.format("add.s64 %rd6, %rd6, 4;"), Points.PARAMETER),
        (RAW + LOOP.format("add.s64 %rd6, %rd6, %rd3;"), Points.PARAMETER),
        # One that the loop loads anew.
        (RAW + LOOP.format("ld.global.u64 %rd6, [%rd6];"), Points.ANYTHING),
        (RAW + "ld.global.u64 %rd7, [%rd4];\nadd.s64 %rd6, %rd6, %rd7;", Points.ANYTHING),
        ("{\n.param .b64 in;\nld.param.u64 %rd6, [in];\n}", Points.ANYTHING),  # of a call
        (RAW + "@%p1 mov.u64 %rd6, %rd4;", Points.PARAMETER),  # or to global memory
        (RAW + "@%p1 ld.global.u64 %rd6, [%rd4];", Points.ANYTHING),
        (RAW + "selp.b64 %rd6, %rd4, %rd5, %p1;", Points.GLOBAL),
        (RAW + "sub.s64 %rd6, %rd3, %rd6;", Points.ANYTHING),
        (RAW + "xor.b64 %rd6, %rd6, 64;", Points.ANYTHING),
        ("cvt.u32.u64 %r9, %rd4;\ncvt.u64.u32 %rd6, %r9;", Points.ANYTHING),  # half of a pointer
        ("ld.global.u32 %r9, [%rd4];\nmul.wide.s32 %rd6, %r9, 4;", Points.NUMBER),
        ("ld.param.u32 %r9, [n];\ncvt.u64.u32 %rd6, %r9;", Points.NUMBER),
    ],
)
def test_where_a_register_points(body: str, expected: Points) -> None:
    assert at_the_end(body, "%rd6") is expected


def test_windows() -> None:
    body = ".shared .align 4 .b8 tile[64];\nmov.u64 %rd7, tile;\ncvta.shared.u64 %rd6, %rd7;"
    assert at_the_end(body, "%rd6") is Points.SHARED
    assert at_the_end(body + "\ncvta.to.shared.u64 %rd6, %rd6;", "%rd6") is Points.ANYTHING
