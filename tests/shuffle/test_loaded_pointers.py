"""Loads through pointers that were loaded, from a table or from GCC's block of arguments: another
lane may have another pointer, or one to its own local memory."""

from __future__ import annotations

import numpy as np
import pytest

from ptxsw.driver.pipeline import Options, Result, optimize
from ptxsw.parser import parse
from ptxsw.simt import launch
from ptxsw.validate import Proved, validate
from tests.heads import head
from tests.parsed import parsed

# Each thread sums two neighbours of an array whose address it has from a table.
KERNEL = (
    head("7.0", "sm_80")
    + """.visible .entry k(.param .u64 table, .param .u64 out, .param .u32 spread)
{
	.local .align 16 .b8 own[256];
	.reg .pred %p<4>;
	.reg .f32 %f<9>;
	.reg .b32 %r<9>;
	.reg .b64 %rd<19>;
	ld.param.u64 %rd1, [table];
	ld.param.u64 %rd2, [out];
	ld.param.u32 %r1, [spread];
	mov.u32 %r2, %tid.x;
	BEFORE
	and.b32 %r3, %r2, %r1;
	mul.wide.u32 %rd3, %r3, 8;
	add.s64 %rd4, %rd1, %rd3;
	ld.global.u64 %rd5, [%rd4];
	mul.wide.u32 %rd6, %r2, 4;
	add.s64 %rd7, %rd5, %rd6;
	ld.SPACEf32 %f1, [%rd7];
	ld.SPACEf32 %f2, [%rd7+4];
	sub.f32 %f3, %f2, %f1;
	add.s64 %rd8, %rd2, %rd6;
	st.global.f32 [%rd8], %f3;
	ret;
}
"""
)
# The array is the thread's own, and holds numbers of its own at addresses that all threads share.
LOCAL = """mov.u64 %rd11, own;
	cvta.local.u64 %rd12, %rd11;
	mul.wide.u32 %rd13, %r2, 8;
	add.s64 %rd14, %rd1, %rd13;
	st.global.u64 [%rd14], %rd12;
	mul.wide.u32 %rd15, %r2, 4;
	add.s64 %rd16, %rd12, %rd15;
	mul.lo.s32 %r4, %r2, %r2;
	cvt.rn.f32.u32 %f5, %r4;
	st.f32 [%rd16], %f5;
	st.f32 [%rd16+4], 0f3F800000;
	bar.sync 0;"""
GENERIC = KERNEL.replace("SPACE", "").replace("BEFORE", "")
GLOBAL = KERNEL.replace("SPACE", "global.").replace("BEFORE", "")
OWN = KERNEL.replace("SPACE", "").replace("BEFORE", LOCAL)
THREADS = 40


def rewritten(text: str) -> Result:
    return optimize(text, Options("force", scheme="paper", rewrites=("shuffle",)))


def results(text: str, spread: int) -> bytes:
    """What threads leave that have `spread + 1` pointers by turns."""
    arrays = [np.arange(64, dtype=np.float32) ** power for power in (2, 3)]
    places = [1 << 40, 1 << 41]
    table = np.array(places * (THREADS // 2), np.int64)
    memory = dict(zip(places, arrays, strict=True))
    out = np.zeros(THREADS, np.float32)
    done = launch(parsed(text), "k", (1,), THREADS, [table, out, spread], memory=memory)
    return done.buffers[1].tobytes()


@pytest.mark.parametrize("text", [GENERIC, GLOBAL], ids=["generic", "global"])
def test_pointers_are_compared(text: str) -> None:
    result = rewritten(text)
    (rewrite,) = result.report.kernels[0].rewrites or ()
    guard = "%rd5 in lane i+1 is %rd5, and does not point to local memory"
    assert (rewrite.delta, guard in rewrite.proof.guards) == (1, True)
    for spread in (0, 1):  # one pointer for all, and another in the next lane
        assert results(result.text, spread) == results(text, spread)
    old, new = parse(text), parse(result.text)
    assert isinstance(validate((old, old.kernel("k")), (new, new.kernel("k"))), Proved)


def test_pointers_that_paths_load_from_different_places_are_not_compared() -> None:
    load = "ld.global.u64 %rd5, [%rd4];"
    either = f"{load} setp.eq.u32 %p1, %r1, 0; @%p1 bra JOINED; {load} JOINED:"
    text = GENERIC.replace(load, either.replace(load, "ld.global.u64 %rd5, [%rd4+8];", 1))
    (kernel,) = rewritten(text).report.kernels
    assert not kernel.rewrites
    (refusal,) = kernel.refusals or ()
    assert "differs from lane to lane" in refusal.reason


def test_a_pointer_to_local_memory_is_another_in_each_lane() -> None:
    """All have the same pointer. If it is taken for one to global memory, lanes get their
    neighbours' numbers."""
    result = rewritten(OWN)
    assert result.report.kernels[0].shuffles == 1
    before = results(OWN, 31)
    assert results(result.text, 31) == before
    test = "isspacep.local %sw_local1, %rd5;"
    assert test in result.text
    wrong = result.text.replace(test, "isspacep.const %sw_local1, %rd5;")
    assert results(wrong, 31) != before


MUTANTS = {
    "the pointer may be local": ("isspacep.local", "isspacep.const"),
    "half of it is not compared": (
        "%sw_other1, {%sw_there1, %sw_there2}",
        "%sw_other1, {%sw_there1, %sw_high1}",
    ),
    "another lane's is compared": ("%sw_there1, %sw_low1, 1", "%sw_there1, %sw_low1, 2"),
    "it need not be the same": ("setp.ne.or.b64", "setp.eq.or.b64"),
}


@pytest.mark.parametrize("what", MUTANTS)
def test_a_wrong_test_is_caught(what: str) -> None:
    right, wrong = MUTANTS[what]
    text = rewritten(GENERIC).text
    assert text.count(right) == 1
    old, new = parse(GENERIC), parse(text.replace(right, wrong))
    assert not isinstance(validate((old, old.kernels[0]), (new, new.kernels[0])), Proved)


def test_a_pointer_that_is_loaded_again_is_taken_for_the_same() -> None:
    """A store through what was loaded before may be to the array that is read."""
    stored = "ld.global.u64 %rd9, [%rd4];\n\tst.global.f32 [%rd9], 0f3F800000;\n\t"
    text = GLOBAL.replace("ld.global.u64 %rd5", stored + "ld.global.u64 %rd5")
    (kernel,) = rewritten(text).report.kernels
    reasons = [r.reason for r in kernel.refusals or ()]
    assert "st.global.f32 (line 20) before the source may write the same array" in reasons


def test_a_register_that_gets_another_value_is_not_compared() -> None:
    again = GENERIC.replace("ld.f32 %f2", "mov.u64 %rd5, 0;\n\tld.f32 %f2")
    (kernel,) = rewritten(again).report.kernels
    assert kernel.shuffles == 0


# All have the pointer to one array in shared memory, and write it by its name between the loads.
SHARED = """mov.u64 %rd11, tile;
	cvta.shared.u64 %rd12, %rd11;
	mul.wide.u32 %rd13, %r2, 8;
	add.s64 %rd14, %rd1, %rd13;
	st.global.u64 [%rd14], %rd12;
	mov.u32 %r5, tile;
	mad.lo.s32 %r6, %r2, 4, %r5;
	st.shared.f32 [%r6], 0f3F800000; st.shared.f32 [%r6+4], 0f3F800000;
	bar.sync 0;"""
BETWEEN = "st.shared.f32 [%r6], 0f40000000;\n\t"
TILE = GENERIC.replace(".local .align 16", ".shared .align 4 .b8 tile[512];\n\t.local .align 16", 1)
TILE = TILE.replace("and.b32 %r3", f"{SHARED}\n\tand.b32 %r3").replace(
    "ld.f32 %f2", f"{BETWEEN}ld.f32 %f2"
)


@pytest.mark.parametrize("distance", [4, 0])
def test_stores_to_shared_memory_count_for_generic_loads(distance: int) -> None:
    """Of the next lane's array, and of this thread's own."""
    text = TILE.replace("[%rd7+4]", f"[%rd7+{distance}]")
    result = optimize(text, Options("force", rewrites=("load-elimination", "shuffle")))
    assert result.text == text
    reason = "st.shared.f32 (line 33) between the two loads may change it"
    assert reason in {refusal.reason for refusal in result.report.kernels[0].refusals or ()}
    harmless = text.replace(BETWEEN, "")
    assert rewritten(harmless).report.kernels[0].shuffles == (distance > 0)
    assert results(text, 31) != results(harmless, 31)


def test_a_store_to_shared_memory_before_both_loads_may_be_unseen() -> None:
    text = TILE.replace(BETWEEN, "").replace("ld.f32 %f1", f"{BETWEEN}ld.f32 %f1")
    result = rewritten(text)
    reason = "st.shared.f32 (line 32) before the source may write the same array"
    assert [refusal.reason for refusal in result.report.kernels[0].refusals or ()] == [reason]
    assert result.text == text
