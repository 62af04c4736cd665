"""Indices that are no sums: their figures, worked out by hand, and why others have none."""

from __future__ import annotations

import pytest

from ptxsw.driver import pipeline
from ptxsw.report import Access
from tests.heads import head

KERNEL = (
    head()
    + """\
.visible .entry k(.param .u64 p, .param .u32 n, .param .u64 wide, .param .u64 q) {{
    .reg .pred %p<9>;
    .reg .b32 %r<19>;
    .reg .f64 %fd<9>;
    .reg .b64 %rd<29>;
    ld.param.u64 %rd1, [p];
    ld.param.u32 %r1, [n];
    ld.param.u64 %rd20, [wide];
    ld.param.u64 %rd21, [q];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;      // i
    {index}
    mul.wide.s32 %rd2, %r6, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.u32 %r7, [%rd3];
    ret;
}}
"""
)

NARROW = """\
    cvt.s64.s32 %rd4, %r5;
    {test}
    @%p1 bra $wide;
    cvt.u32.u64 %r8, %rd4;
    cvt.u32.u64 %r9, %rd20;
    div.u32 %r10, %r8, %r9;
    mul.lo.s32 %r11, %r10, %r9;
    sub.s32 %r12, %r8, %r11;
    cvt.u64.u32 %rd8, %r12;
    bra $both;
$wide:
    div.s64 %rd7, %rd4, %rd20;
    mul.lo.s64 %rd9, %rd7, %rd20;
    sub.s64 %rd8, %rd4, %rd9;
$both:
    cvt.u32.u64 %r6, %rd8;
"""
FITS = "or.b64 %rd5, %rd4, %rd20; {field} setp.ne.s64 %p1, %rd6, 0;"


def load(index: str) -> Access:
    [kernel] = pipeline.analyze(KERNEL.format(index=index)).kernels
    return (kernel.accesses or ())[-1]


@pytest.mark.parametrize(
    ("what", "index", "sectors"),
    [
        ("i % n", "rem.u32 %r6, %r5, %r1;", 4),
        ("i / n", "div.u32 %r6, %r5, %r1;", 1),
        ("i - n * (i / n)", "div.s32 %r8, %r5, %r1; mul.lo.s32 %r9, %r8, %r1;"
         "sub.s32 %r6, %r5, %r9;", 4),
        ("i % n * n + i / n", "div.s32 %r8, %r5, %r1; rem.s32 %r9, %r5, %r1;"
         "mad.lo.s32 %r6, %r9, %r1, %r8;", 32),
        ("max(i - 1, 0)", "add.s32 %r8, %r5, -1; max.s32 %r6, %r8, 0;", 5),
        ("min(i + 1, n - 1)", "add.s32 %r8, %r5, 1; add.s32 %r9, %r1, -1;"
         "min.s32 %r6, %r8, %r9;", 5),
        ("n > 7 ? i : 2 * i", "setp.gt.s32 %p1, %r1, 7; shl.b32 %r8, %r5, 1;"
         "selp.b32 %r6, %r5, %r8, %p1;", 8),
        ("i < 0 ? i + n : i", "add.s32 %r8, %r5, %r1; setp.lt.s32 %p1, %r5, 0;"
         "selp.b32 %r6, %r8, %r5, %p1;", 4),
        ("what lane 0 has, + i", "and.b32 %r9, %r4, 7; shfl.sync.idx.b32 %r8, %r9, 0, 31, -1;"
         "add.s32 %r6, %r8, %r5;", 4),
        ("what lane 3 has, + i", "and.b32 %r9, %r4, 7;"
         "shfl.sync.idx.b32 %r8, %r9, 3, 31, 0xffffffff; add.s32 %r6, %r8, %r5;", 4),
        ("what lane 0 of each half has, + i", "and.b32 %r9, %r4, 7;"
         "shfl.sync.idx.b32 %r8, %r9, 0, 0x101f, -1; add.s32 %r6, %r8, %r5;", None),
        ("what lane 0 has, if the clamp let it", "and.b32 %r9, %r4, 7;"
         "shfl.sync.idx.b32 %r8, %r9, 3, 2, -1; add.s32 %r6, %r8, %r5;", None),
        ("of some lanes", "and.b32 %r9, %r4, 7;"
         "shfl.sync.idx.b32 %r8, %r9, 0, 31, 0xffff; add.s32 %r6, %r8, %r5;", None),
        ("of no given lane", "and.b32 %r9, %r4, 7;"
         "shfl.sync.idx.b32 %r8, %r9, %r1, 31, -1; add.s32 %r6, %r8, %r5;", None),
        ("in every iteration of one loop", "mov.u32 %r10, 0; $L: and.b32 %r9, %r4, 7;"
         "shfl.sync.idx.b32 %r8, %r9, 0, 31, -1; add.s32 %r6, %r8, %r5; add.s32 %r10, %r10, 1;"
         "setp.lt.s32 %p1, %r10, %r1; @%p1 bra $L;", 4),
        ("in some iterations", "mov.u32 %r10, 0; $L: and.b32 %r9, %r4, 7;"
         "setp.gt.s32 %p2, %r4, %r10;"
         "@%p2 bra $M; shfl.sync.idx.b32 %r8, %r9, 0, 31, -1; $M: add.s32 %r6, %r8, %r5;"
         "add.s32 %r10, %r10, 1; setp.lt.s32 %p1, %r10, %r1; @%p1 bra $L;", None),
        ("i & n", "and.b32 %r6, %r5, %r1;", None),
        ("i ^ n", "xor.b32 %r6, %r5, %r1;", None),
        ("i << n", "shl.b32 %r6, %r5, %r1;", None),
    ],
)  # fmt: skip
def test_sectors(what: str, index: str, sectors: int | None) -> None:
    assert load(index).sectors == sectors


@pytest.mark.parametrize(
    "test",
    [
        FITS.format(field="shr.u64 %rd6, %rd5, 32;"),
        FITS.format(field="and.b64 %rd6, %rd5, -4294967296;"),
        "or.b64 %rd5, %rd4, %rd20; setp.ge.u64 %p1, %rd5, 4294967296;",
    ],
)
def test_a_division_in_32_bits_where_both_fit_is_the_division(test: str) -> None:
    access = load(NARROW.format(test=test))
    assert access.address is not None, "both paths have one address"
    assert "/" in access.address
    assert access.sectors == 4


@pytest.mark.parametrize(
    "test",
    [
        "shr.u64 %rd6, %rd4, 32; setp.ne.s64 %p1, %rd6, 0;",  # the divisor may be large
        FITS.format(field="shr.u64 %rd6, %rd5, 33;"),
        FITS.format(field="shr.u64 %rd6, %rd5, 32;").replace(".ne.", ".eq."),
    ],
)
def test_a_division_of_what_may_not_fit_stays_another(test: str) -> None:
    access = load(NARROW.format(test=test))
    assert access.address is None
    assert access.hidden == "it differs by the path"


def test_a_path_that_all_lanes_take_together_hides_nothing() -> None:
    access = load(
        "setp.eq.u64 %p2, %rd21, 0; @%p2 bra $flat;"
        "and.b32 %r8, %r4, 1; setp.eq.s32 %p1, %r8, 0; @%p1 bra $odd; $odd:"
        "shl.b32 %r6, %r5, 1; bra $go; $flat: mov.u32 %r6, %r5; $go:"
    )
    assert access.address is None
    assert access.sectors == 8  # of the path with most


@pytest.mark.parametrize(
    ("index", "hidden"),
    [
        ("mul.wide.s32 %rd4, %r5, 4;\nadd.s64 %rd5, %rd21, %rd4;\nld.global.u32 %r6, [%rd5];",
         "index loaded at line 19"),
        ("mul.wide.s32 %rd4, %r5, 8;\nadd.s64 %rd5, %rd21, %rd4;\nld.global.f64 %fd1, [%rd5];"
         "cvt.rzi.s32.f64 %r6, %fd1;", "index loaded at line 19"),
        ("shfl.sync.bfly.b32 %r6, %r5, 1, 31, -1;", "shfl gives it"),
        ("and.b32 %r6, %r5, %r1;", "bits of it"),
    ],
)  # fmt: skip
def test_the_report_says_what_hides_an_address(index: str, hidden: str) -> None:
    access = load(index)
    assert (access.sectors, access.hidden) == (None, hidden)
