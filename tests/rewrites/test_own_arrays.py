"""Bank conflicts of one array beside others that stay: it is permuted from its own start."""

from __future__ import annotations

import numpy as np
import pytest

from ptxsw.changes.permutation import Permutation
from ptxsw.driver.pipeline import Result
from ptxsw.parser import parse
from ptxsw.report.model import Kernel
from ptxsw.simt import launch
from ptxsw.validate import Outcome, Proved, Unproved, validate
from tests.parsed import parsed
from tests.rewrites.pair import kernel, new_lines, reasons, rewritten

pytestmark = pytest.mark.usefixtures("no_ptxas")

TILE = """
    .shared .align 4 .b8 tile[4096];
    .shared .align 16 .b8 beside[512];
    mov.u32 %r3, %tid.y;
    mov.u32 %r4, tile;
    mov.u32 %r15, beside;
    mad.lo.u32 %r5, %r3, 32, %r2;
    mad.lo.u32 %r6, %r2, 32, %r3;
    shl.b32 %r7, %r5, 2;
    add.s32 %r8, %r4, %r7;
    mad.lo.s32 %r9, %r6, 4, %r4;
    mul.wide.u32 %rd6, %r5, 4;
    add.s64 %rd7, %rd1, %rd6;
    add.s64 %rd8, %rd2, %rd6;
    {more}
    ld.global.b32 %r10, [%rd7];
    st.shared.b32 [%r8], %r10;
    bar.sync 0;
    ld.shared.b32 %r11, [%r9];
    st.global.b32 [%rd8], %r11;
"""
COPY = "cp.async.ca.shared.global [%r15], [%rd1], 16;\ncp.async.wait_all;"
LOADED = "ld.global.u64 %rd9, [%rd1];\n@%p1 ld.u32 %r12, [%rd9];"


def tile(more: str = COPY) -> str:
    """A transpose, beside an array of which an address gets away."""
    return kernel(TILE.format(more=more)).replace("\n{", "\n.reqntid 32, 32, 1\n{", 1)


def made(text: str, **options: object) -> Result:
    return rewritten("bank-conflicts", text, **options)


def told(result: Result) -> Kernel:
    return result.report.kernels[0]


def proof(before: str, after: str, permutation: Permutation, **how: object) -> Outcome:
    old, new = parse(before), parse(after)
    return validate((old, old.kernels[0]), (new, new.kernels[0]), shared_layout=permutation, **how)  # type: ignore[arg-type]


def run(text: str) -> bytes:
    memory = {1 << 40: np.arange(1024, dtype="u4"), 1 << 44: np.zeros(1024, "u4")}
    done = launch(parsed(text), "k", 1, (32, 32), (1 << 40, 1 << 44, 64), memory=memory)
    return done.memory[1 << 44].tobytes()


OWN = Permutation((5,), 124, arrays=("tile",))


def test_the_number_of_an_element_is_permuted() -> None:
    """So `ptxas` folds its product and the start of the array as before."""
    text = tile()
    result = made(text)
    assert new_lines(text, result) == [
        "mov.u32 %sw_array1, tile;",
        "shr.u32 %sw_row1, %r5, 5;",
        "and.b32 %sw_swap1, %sw_row1, 31;",
        "xor.b32 %sw_bank1, %r5, %sw_swap1;",
        "shl.b32 %sw_scaled1, %sw_bank1, 2;",
        "add.s32 %sw_placed1, %sw_scaled1, %sw_array1;",
        "st.shared.b32 [%sw_placed1], %r10;",
        "shr.u32 %sw_row2, %r6, 5;",
        "and.b32 %sw_swap2, %sw_row2, 31;",
        "xor.b32 %sw_bank2, %r6, %sw_swap2;",
        "shl.b32 %sw_scaled2, %sw_bank2, 2;",
        "add.s32 %sw_placed2, %sw_scaled2, %sw_array1;",
        "ld.shared.b32 %r11, [%sw_placed2];",
    ]
    (change,) = told(result).rewrites or ()
    assert change.proof is not None
    assert change.proof.assumptions == ("access-in-array",)


def test_it_gives_the_same() -> None:
    text = tile()
    result = made(text)
    assert run(text) == run(result.text) == np.arange(1024, dtype="u4").reshape(32, 32).T.tobytes()


@pytest.mark.parametrize(
    "more",
    [
        COPY,
        LOADED,  # a pointer from somewhere: nobody got an address of the tile
        "st.shared.u32 [%r15], %r15;",
        "mbarrier.init.shared.b64 [%r15], 1;",
        "mov.u64 %rd9, beside;\ncvta.shared.u64 %rd9, %rd9;\nst.global.u64 [%rd2], %rd9;",
        "setp.eq.u32 %p1, %r15, 0;",
    ],
)
def test_what_may_happen_to_others(more: str) -> None:
    text = tile(more)
    assert "add.s32 %sw_placed1, %sw_scaled1, %sw_array1;" in new_lines(text, made(text))


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("st.shared.u32 [%r15], %r8;", "stores a shared address"),
        ("cp.async.ca.shared.global [%r8], [%rd1], 16;", "a different layout"),
        (f"{COPY}\nselp.b32 %r8, %r8, %r15, %p1;", "a different layout"),
        ("mov.u32 %r12, 64;\nld.shared.u32 %r13, [%r12];", "not derive from an array"),
        ("cvt.u64.u32 %rd9, %r8;\nshfl.sync.bfly.b32 %r12, %r8, 1, 31, -1;", "passes"),
    ],
)
def test_what_must_not_happen_to_its_own_address(more: str, reason: str) -> None:
    text = tile(more)
    result = made(text)
    assert result.text == text
    assert reason in reasons(result)[0]


def test_it_rests_on_an_assumption() -> None:
    text = tile()
    good = made(text).text
    assert made(text, assume=frozenset()).text == text
    assert isinstance(proof(text, good, OWN), Proved)
    assert isinstance(proof(text, good, OWN, assume=()), Unproved)


def test_alone_it_rests_on_nothing() -> None:
    """Where the only array is all of shared memory, even what lies behind it is permuted alike."""
    text = tile("").replace(".shared .align 16 .b8 beside[512];", "").replace(
        "mov.u32 %r15, beside;", ""
    )  # fmt: skip
    result = made(text)
    (change,) = told(result).rewrites or ()
    assert change.proof is not None
    assert change.proof.assumptions == ()
    assert isinstance(proof(text, result.text, OWN, assume=()), Proved)


DYNAMIC = tile("st.shared.b32 [%r15], %r2;").replace("tile", "s")


def dynamic() -> str:
    text = DYNAMIC.replace("\t.shared .align 4 .b8 s[4096];\n", "")
    text = text.replace(".align 16 .b8 beside[512]", ".align 4 .b8 beside[132]")
    return text.replace(".visible", ".extern .shared .align 16 .b8 s[];\n.visible", 1)


def test_dynamic_memory_behind_an_array_of_odd_size() -> None:
    """It begins at no multiple of a row, which does not matter; and no array grows."""
    text = dynamic()
    found = new_lines(text, made(text))
    assert found[:4] == [
        "mov.u32 %sw_ends1, %dynamic_smem_size;",
        "and.b32 %sw_rest1, %sw_ends1, 127;",
        "setp.eq.u32 %sw_whole1, %sw_rest1, 0;",
        "selp.b32 %sw_mask1, 31, 0, %sw_whole1;",
    ]
    assert not any(".shared .align" in line for line in found)


@pytest.mark.parametrize("size", [4096, 4100, 8192])
def test_dynamic_memory_gives_the_same(size: int) -> None:
    memory = {1 << 40: np.arange(1024, dtype="u4"), 1 << 44: np.zeros(1024, "u4")}
    given = (1 << 40, 1 << 44, 64)
    results = [
        launch(parsed(one), "k", 1, (32, 32), given, memory=memory, shared=size).memory[1 << 44]
        for one in (dynamic(), made(dynamic()).text)
    ]
    assert results[0].tobytes() == results[1].tobytes()


# ---------------------------------------------------------------- what the proof must catch


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("%sw_row2, %r6, 5;", "%sw_row2, %r6, 6;"),
        ("%sw_swap2, %sw_row2, 31;", "%sw_swap2, %sw_row2, 15;"),
        ("%sw_scaled2, %sw_bank2, 2;", "%sw_scaled2, %sw_bank2, 3;"),
        ("%sw_placed2, %sw_scaled2, %sw_array1;", "%sw_placed2, %sw_scaled2, %r15;"),
        ("ld.shared.b32 %r11, [%sw_placed2]", "ld.shared.b32 %r11, [%sw_placed2+4]"),
        ("ld.shared.b32 %r11, [%sw_placed2]", "ld.shared.b32 %r11, [%r9]"),
        ("st.shared.b32 [%sw_placed1]", "st.shared.b32 [%r8]"),
    ],
)
def test_wrong_addresses_are_not_proved(right: str, wrong: str) -> None:
    text = tile()
    good = made(text).text
    assert isinstance(proof(text, good, OWN), Proved)
    assert good.count(right) == 1
    assert not isinstance(proof(text, good.replace(right, wrong), OWN), Proved)


@pytest.mark.parametrize(
    "more",
    [
        "st.shared.u32 [%r15], %r8;",
        "mov.u64 %rd9, tile;\ncvta.shared.u64 %rd9, %rd9;\nst.global.u64 [%rd2], %rd9;",
        "mov.u64 %rd9, tile;\ncvta.shared.u64 %rd9, %rd9;\nld.u32 %r12, [%rd9];",
        "cp.async.ca.shared.global [%r9], [%rd1], 4;",
        "shfl.sync.bfly.b32 %r12, %r8, 1, 31, -1;",
        "setp.lt.u32 %p1, %r8, %r15;",
        "selp.b32 %r12, %r8, %r15, %p1;\nld.shared.u32 %r13, [%r12];",
        "mov.u32 %r12, 64;\nst.shared.u32 [%r12], %r2;",
        "atom.shared.exch.b32 %r12, [%r15], %r9;",
        "mbarrier.init.shared.b64 [%r8], 1;",
        "mov.u32 %r12, %total_smem_size;",
    ],
)
def test_an_address_that_gets_away_is_not_proved(more: str) -> None:
    """Whoever has it would find the tile as it was, or another array in its place."""
    marked = f"{COPY}\nadd.s32 %r16, %r2, 0;"
    text = tile(marked)
    good = made(text).text
    assert isinstance(proof(text, good, OWN), Proved)
    wrong = [one.replace("add.s32 %r16, %r2, 0;", more) for one in (text, good)]
    assert wrong[0] != text
    assert not isinstance(proof(wrong[0], wrong[1], OWN), Proved)


def test_an_array_that_does_not_have_whole_rows() -> None:
    for size in (4092, 4100):
        text = tile().replace("tile[4096]", f"tile[{size}]")
        good = made(tile()).text.replace("tile[4096]", f"tile[{size}]")
        assert not isinstance(proof(text, good, OWN), Proved)


def test_others_are_not_permuted() -> None:
    text = tile(f"{COPY}st.shared.b32 [%r15+256], %r2;")
    good = made(text).text
    assert isinstance(proof(text, good, OWN), Proved)
    bad = good.replace("[%r15+256]", "[%r15+264]")
    assert not isinstance(proof(text, bad, OWN), Proved)
    assert not isinstance(proof(text, good, Permutation((5,), 124)), Proved)
