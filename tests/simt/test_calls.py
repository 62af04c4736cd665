"""Calls, recursion, local memory, generic addresses, printf; what is refused."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from ptxsw.flow.cfg import build
from ptxsw.ptx.errors import Unsupported
from ptxsw.simt import Poisoned, launch
from tests.simt.programs import SEEDS, from_body, program

CALLS = program("calls")
seeds = pytest.mark.parametrize("seed", SEEDS[:5])


def ackermann(m: int, n: int) -> int:
    if m == 0:
        return n + 1
    return ackermann(m - 1, 1 if n == 0 else ackermann(m, n - 1))


@seeds
def test_recursion(seed: int | None) -> None:
    data = np.arange(20, dtype=np.int32) % 4
    result = launch(CALLS, "recursion", 1, 20, [data, np.zeros(20, np.int32)], seed=seed)
    assert result.buffers[1].tolist() == [ackermann(i % 3, n) for i, n in enumerate(data.tolist())]


@seeds
def test_function_pointers(seed: int | None) -> None:
    result = launch(CALLS, "indirect", 1, 33, [np.zeros(33, np.int32)], seed=seed)
    functions = (lambda x: 2 * x, lambda x: x * x, lambda x: 0 if x > 20 else -x)
    assert result.buffers[0].tolist() == [functions[i % 3](i) for i in range(33)]


def test_structures_by_value() -> None:
    pair = struct.pack("<i3f", 7, 0.5, 1.5, 2.5)
    result = launch(CALLS, "structs", 1, 6, [np.zeros(6, np.float32), pair])
    assert result.buffers[0].tolist() == [7.5, 8.5, 9.5] * 2


@seeds
def test_local_arrays(seed: int | None) -> None:
    data = np.random.default_rng(1).integers(0, 99, (40, 8)).astype(np.int32)
    result = launch(CALLS, "sorted", 1, 40, [data, np.zeros_like(data)], seed=seed)
    assert np.array_equal(result.buffers[1], np.sort(data, axis=1))


@seeds
def test_generic_addresses(seed: int | None) -> None:
    data = np.arange(96, dtype=np.int32)
    result = launch(CALLS, "generic", 1, 32, [data], seed=seed)
    out = result.buffers[0]
    want = {0: lambda i: 1101 + (i & 31), 1: lambda i: 1001 + (i & 3), 2: lambda i: 1064 + i}
    want[0] = lambda i: 1100 + (i + 1 & 31)
    assert out[:32].tolist() == [want[i % 3](i) for i in range(32)]
    assert out[32:64].tolist() == [(4, 2, 1)[i % 3] for i in range(32)]


def test_printf() -> None:
    data = np.array([0.5, 1.25, 2.0, -3.0005])
    result = launch(CALLS, "speak", 1, 4, [data])
    assert result.printed == [
        "thread 1 of 4: 1.250 text 1099511627776|x   |%\n",
        "thread 3 of 4: -3.001 text 3298534883328|x   |%\n",
    ]


@seeds
def test_heap(seed: int | None) -> None:
    result = launch(CALLS, "borrowed", 1, 20, [np.zeros(20, np.int32)], seed=seed, races=True)
    assert result.buffers[0].tolist() == [i * i + 1 for i in range(20)]


def test_textures_are_refused() -> None:
    with pytest.raises(Unsupported) as caught:
        launch(program("numbers"), "textured", 1, 4, [0, np.zeros(4, np.float32)])
    assert "the interpreter does not know tex.1d.v4.f32.s32" in str(caught.value)
    assert "^" in str(caught.value)


def test_code_that_is_not_reached_is_not_refused() -> None:
    module = from_body(
        "setp.ne.u32 %p1, 1, 1;\n@%p1 bra L;\nret;\nL:\n"
        "tex.1d.v4.f32.s32 {%f1,%f2,%f3,%f4}, [out, {%r1}];\nret;"
    )
    launch(module, "k", 1, 4, [0])


@pytest.mark.parametrize(
    ("args", "kernel", "message"),
    [
        ([], "k", "1 parameters, but 0 arguments"),
        ([b"abc"], "k", "takes 8 bytes, not 3"),
        ([1], "other", "no kernel 'other'; available: k"),
    ],
)
def test_bad_launches(args: list[object], kernel: str, message: str) -> None:
    with pytest.raises(Unsupported, match=message):
        launch(from_body("ret;"), kernel, 1, 4, args)


def test_branch_tables() -> None:
    module = from_body(
        "ld.param.u64 %rd1, [out];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %rd2, %r1, 4;\n"
        "add.s64 %rd1, %rd1, %rd2;\nrem.u32 %r2, %r1, 3;\n"
        "T: .branchtargets A, B, C;\nbrx.idx %r2, T;\n"
        "A: mov.u32 %r3, 10; bra D;\nB: mov.u32 %r3, 20; bra D;\nC: mov.u32 %r3, 30;\n"
        "D: activemask.b32 %r4;\nadd.u32 %r3, %r3, %r4;\nst.global.u32 [%rd1], %r3;\nret;"
    )
    result = launch(module, "k", 1, 9, [np.zeros(9, np.uint32)])
    assert result.buffers[0].tolist() == [511 + 10 * (i % 3 + 1) for i in range(9)]


def test_clocks_only_go_forward_and_repeat() -> None:
    module = from_body(
        "ld.param.u64 %rd1, [out];\nmov.u64 %rd2, %clock64;\nmov.u64 %rd3, %clock64;\n"
        "st.global.v2.u64 [%rd1], {%rd2, %rd3};\nret;"
    )
    first, second = (launch(module, "k", 1, 1, [np.zeros(2, np.uint64)]) for _ in range(2))
    a, b = first.buffers[0].tolist()
    assert a < b
    assert second.buffers[0].tolist() == [a, b]


def test_labels_of_scopes_are_apart() -> None:
    """Inline assembly repeats its labels, each in its own braces."""
    module = from_body(
        "ld.param.u64 %rd1, [out];\nmov.u32 %r1, 1;\n"
        "{\nL: add.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, 5;\n@%p1 bra L;\nbra M;\nM:\n}\n"
        "{\nL: add.u32 %r1, %r1, 100;\nsetp.lt.u32 %p1, %r1, 300;\n@%p1 bra L;\nbra M;\nM:\n}\n"
        "st.global.u32 [%rd1], %r1;\nret;"
    )
    result = launch(module, "k", 1, 1, [np.zeros(1, np.uint32)])
    assert result.buffers[0].tolist() == [305]


def test_a_label_after_the_last_instruction() -> None:
    """Who branches there returns; who does not, runs what is before it."""
    module = from_body(
        "ld.param.u64 %rd1, [out];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %rd2, %r1, 4;\n"
        "add.s64 %rd1, %rd1, %rd2;\nsetp.gt.u32 %p1, %r1, 3;\n@%p1 bra E;\n"
        "st.global.u32 [%rd1], 7;\nE:"
    )
    result = launch(module, "k", 1, 6, [np.zeros(6, np.uint32)])
    assert result.buffers[0].tolist() == [7, 7, 7, 7, 0, 0]
    flow = build(module.functions[0].body)
    assert [block.successors for block in flow.blocks] == [(2, 1), (2,), ()]
    assert flow.ipdom[0] == 2


def test_registers_of_scopes_are_apart() -> None:
    module = from_body(
        "ld.param.u64 %rd1, [out];\nmov.u32 %r1, 1;\n{ .reg .b32 %r1; mov.u32 %r1, 2; }\n"
        "st.global.u32 [%rd1], %r1;\nret;"
    )
    result = launch(module, "k", 1, 1, [np.zeros(1, np.uint32)])
    assert result.buffers[0].tolist() == [1]


@pytest.mark.parametrize(
    ("lines", "stored"),
    [
        ("mov.v2.u32 {%r1, %r2}, {%r1, 5};", "%r2"),  # only the other one is undefined
        ("add.cc.u32 %r1, 1, 2; addc.u32 %r2, 2, 3;", "%r2"),
    ],
)
def test_what_is_defined_may_be_stored(lines: str, stored: str) -> None:
    module = from_body(f"ld.param.u64 %rd1, [out];\n{lines}\nst.global.u32 [%rd1], {stored};\nret;")
    assert launch(module, "k", 1, 1, [np.zeros(1, np.uint32)]).buffers[0].tolist() == [5]


@pytest.mark.parametrize(
    "lines",
    [
        "mov.v2.u32 {%r2, %r1}, {%r1, 5};",
        "addc.u32 %r2, 2, 3;",  # nobody has set the carry
        "add.cc.u32 %r1, %r1, 2; addc.u32 %r2, 2, 3;",  # the carry of what is undefined
        "add.cc.u32 %r1, 1, 2; call f; addc.u32 %r2, 2, 3;",  # calls do not preserve it
    ],
)
def test_what_is_not_defined_may_not(lines: str) -> None:
    module = from_body(
        f"ld.param.u64 %rd1, [out];\n{lines}\nst.global.u32 [%rd1], %r2;\nret;\n}}\n"
        ".func f() { ret;"
    )
    with pytest.raises(Poisoned, match="an undefined value is stored"):
        launch(module, "k", 1, 1, [np.zeros(1, np.uint32)])


def test_a_guard_that_is_never_set() -> None:
    module = from_body("@%p1 bra E;\nE:\nret;")
    with pytest.raises(Poisoned, match="decides what happens"):
        launch(module, "k", 1, 1, [np.zeros(1, np.uint32)])


def test_a_call_with_too_few_arguments() -> None:
    module = from_body("call f, (%r1);\nret;\n}\n.func f(.reg .b32 a, .reg .b32 b) { ret;")
    with pytest.raises(Unsupported, match="f takes 2 arguments, not 1"):
        launch(module, "k", 1, 1, [np.zeros(1, np.uint32)])


def test_a_guard_that_is_no_predicate() -> None:
    module = from_body("mov.u32 %r1, 1;\n@%r1 add.u32 %r2, %r1, 1;\nret;")
    with pytest.raises(Unsupported, match=r"add\.u32: its guard %r1 is not a predicate"):
        launch(module, "k", 1, 1, [np.zeros(1, np.uint32)])
