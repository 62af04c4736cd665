"""Generic addresses, resolved by `cvta` and by the variables they come from."""

from __future__ import annotations

import pytest

from ptxsw.emulator.run import emulate
from ptxsw.emulator.trace import Access, Trace
from ptxsw.parser import parse
from ptxsw.terms.node import Variance
from ptxsw.terms.show import show
from tests.heads import head

HEAD = (
    head("8.0", "sm_90")
    + """.global .align 4 .b8 table[4096];
.const .align 4 .b8 fixed[4096];
.extern .shared .align 4 .b8 dynamic[];
.visible .entry k(.param .u64 a, .param .u64 .ptr .global .align 4 g, .param .u64 .ptr .align 4 h,
                  .param .align 8 .b8 s[64], .param .u32 n)
{
.shared .align 16 .b8 tile[4096];
.local .align 16 .b8 own[64];
.reg .pred %p<9>; .reg .b32 %r<29>; .reg .b64 %rd<29>;
ld.param.u64 %rd1, [a]; ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x; mul.wide.u32 %rd3, %r2, 4;
"""
)


def trace_of(body: str) -> Trace:
    module = parse(f"{HEAD}{body}\nret;\n}}\n")
    return emulate(module, module.functions[-1])


def last(body: str) -> Access:
    return trace_of(body).accesses[-1]


@pytest.mark.parametrize(
    ("make", "space", "address"),
    [
        ("mov.u64 %rd4, tile; cvta.shared.u64 %rd5, %rd4;", "shared", "&tile"),
        ("mov.u64 %rd4, tile; cvta.shared::cta.u64 %rd5, %rd4;", "shared", "&tile"),
        ("mov.u64 %rd4, dynamic; cvta.shared.u64 %rd5, %rd4;", "shared", "&dynamic"),
        ("mov.u64 %rd4, own; cvta.local.u64 %rd5, %rd4;", "local", "&own"),
        ("mov.u64 %rd4, fixed; cvta.const.u64 %rd5, %rd4;", "const", "&fixed"),
        ("mov.u64 %rd4, table; cvta.global.u64 %rd5, %rd4;", "global", "&table"),
        ("mov.u64 %rd4, s; cvta.param.u64 %rd5, %rd4;", "param", "&s"),
        ("mov.u64 %rd5, table;", "global", "&table"),
        ("ld.param.u64 %rd5, [g];", "global", "g"),
        ("ld.param.u64 %rd5, [h];", "generic", "h"),
        ("mov.u64 %rd5, %rd1;", "generic", "a"),
        ("mov.u64 %rd5, tile;", "generic", "&tile"),  # no generic address at all
        ("mov.u64 %rd4, table; add.s64 %rd5, %rd4, %rd1;", "generic", "&table + a"),
        (
            "mov.u64 %rd4, tile; cvta.shared.u64 %rd6, %rd4; add.s64 %rd5, %rd6, %rd1;",
            "generic",
            "&tile + a + window(shared)",
        ),
        (
            "mov.u64 %rd4, tile; cvta.shared.u64 %rd6, %rd4; cvta.to.shared.u64 %rd7, %rd6;"
            "cvta.shared.u64 %rd5, %rd7;",
            "shared",
            "&tile",
        ),
    ],
)
def test_space(make: str, space: str, address: str) -> None:
    access = last(f"{make}\nadd.s64 %rd6, %rd5, %rd3;\nld.u32 %r3, [%rd6+8];")
    assert access.space == space
    (variant,) = access.variants
    assert show(variant.address) == f"0x8 + {address} + %tid.x << 0x2"


def test_paths_of_one_space_and_of_two() -> None:
    """Addresses count from the start of a space only where it is the same on all paths."""
    text = (
        "mov.u64 %rd4, tile;\ncvta.shared.u64 %rd5, %rd4;\nsetp.lt.s32 %p1, %r2, %r1;\n"
        "@%p1 bra OUT;\n{}\nOUT:\nst.u32 [%rd5], %r1;"
    )
    near = last(text.format("add.s64 %rd5, %rd5, 64;"))
    assert near.space == "shared"
    assert {show(v.address) for v in near.variants} == {"&tile", "0x40 + &tile"}
    far = last(text.format("mov.u64 %rd5, %rd1;"))
    assert far.space == "generic"
    assert {show(v.address) for v in far.variants} == {"a", "&tile + window(shared)"}


def test_one_value_by_both_addresses() -> None:
    """What is loaded by its generic address is what its own space holds there, and a generic
    store to shared memory ends no epoch of global memory."""
    trace = trace_of(
        "mov.u64 %rd4, tile; cvta.shared.u64 %rd5, %rd4; ld.u32 %r3, [%rd5];"
        "ld.shared.u32 %r4, [tile]; sub.s32 %r5, %r3, %r4; mul.wide.s32 %rd6, %r5, 4;"
        "add.s64 %rd7, %rd1, %rd6; ld.global.u32 %r6, [%rd7]; st.u32 [%rd5], %r1;"
        "ld.global.u32 %r7, [%rd1]; sub.s32 %r8, %r6, %r7; mul.wide.s32 %rd8, %r8, 4;"
        "add.s64 %rd9, %rd1, %rd8; ld.global.u32 %r9, [%rd9];"
    )
    loads = [a for a in trace.accesses if a.space == "global"]
    assert {show(v.address) for a in loads for v in a.variants} == {"a"}


def test_a_parameter_by_its_generic_address() -> None:
    trace = trace_of(
        "mov.u64 %rd4, s; cvta.param.u64 %rd5, %rd4; ld.u32 %r3, [%rd5+4];"
        "ld.param.u32 %r4, [s+4]; sub.s32 %r5, %r3, %r4; mul.wide.s32 %rd6, %r5, 4;"
        "add.s64 %rd7, %rd1, %rd6; ld.global.u32 %r6, [%rd7];"
    )
    (variant,) = trace.accesses[-1].variants
    assert show(variant.address) == "a"


def test_local_windows_vary() -> None:
    """The generic address of a thread's own variable is another byte in each thread."""
    trace = trace_of(
        "mov.u64 %rd4, own; cvta.local.u64 %rd5, %rd4; mov.u64 %rd6, tile;"
        "cvta.shared.u64 %rd7, %rd6; setp.lt.s32 %p1, %r1, 3; selp.b64 %rd8, %rd5, %rd1, %p1;"
        "selp.b64 %rd9, %rd7, %rd1, %p1; ld.u32 %r3, [%rd8]; ld.u32 %r4, [%rd9];"
    )
    own, shared = trace.accesses[-2:]
    assert own.space == shared.space == "generic"
    assert own.variants[0].address.variance is Variance.LANE
    assert shared.variants[0].address.variance is Variance.UNIFORM


def test_names_of_parameters_as_gcc_makes_them() -> None:
    """A parameter may be called like a special register, and be a pointer."""
    text = HEAD.replace(".param .u64 a,", ".param .u64 %in_ar0,").replace("[a]", "[%in_ar0]")
    body = "mov.u64 %rd4, tile; cvta.shared.u64 %rd5, %rd4; add.s64 %rd6, %rd5, %rd1;"
    module = parse(f"{text}{body}\nld.u32 %r3, [%rd6];\nret;\n}}\n")
    assert emulate(module, module.functions[-1]).accesses[-1].space == "generic"
