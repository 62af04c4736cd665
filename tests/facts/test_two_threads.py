"""Two threads: which accesses have a byte in common, and which surely have none."""

from __future__ import annotations

from functools import cache

import pytest

from ptxsw.emulator.run import emulate
from ptxsw.emulator.trace import Trace
from ptxsw.facts.launch_conditions import agree, is_promise
from ptxsw.facts.two_threads import Answer, Apart, Meet, Meeting, TwoThreads
from ptxsw.parser import parse
from ptxsw.terms.evaluate import evaluate
from ptxsw.terms.node import Variance
from ptxsw.terms.origin import Origin
from ptxsw.terms.polynomial import Polynomial
from ptxsw.terms.solver import Solver
from ptxsw.terms.terms import Terms
from tests.heads import head

START = """.visible .entry k(.param .u64 out, .param .u64 in, .param .u32 n, .param .u32 m)
{
	.reg .pred %p<20>;
	.reg .b32 %r<80>;
	.reg .b64 %rd<40>;
	.shared .align 8 .b8 s[8192];
	.shared .align 8 .b8 other[1024];
	ld.param.u64 %rd1, [out];
	ld.param.u64 %rd2, [in];
	cvta.to.global.u64 %rd1, %rd1;
	cvta.to.global.u64 %rd2, %rd2;
	ld.param.u32 %r1, [n];
	ld.param.u32 %r2, [m];
	mov.u32 %r3, %tid.x;
	mov.u32 %r7, s;
	mov.u32 %r8, other;
"""
END = "\nEND:\n\tret;\n}\n"
TWO_DIMENSIONS = "mov.u32 %r4, %tid.y;"
GRID = "mov.u32 %r5, %ctaid.x; mov.u32 %r6, %ntid.x; mad.lo.s32 %r10, %r5, %r6, %r3;"


@cache
def trace(body: str, dynamic: str = "") -> Trace:
    module = parse(head() + dynamic + START + body + END)
    return emulate(module, module.functions[-1])


def asked(
    body: str,
    *,
    same_block: bool = True,
    shape: tuple[int, int, int] | None = None,
    counters: dict[int, int | None] | None = None,
    first: int = 0,
    second: int = -1,
    dynamic: str = "",
    other_warp: bool = False,
) -> Answer:
    """The first and the last access of a text but to parameters, by two threads."""
    one = trace(body, dynamic)
    accesses = [a for a in one.accesses if a.space != "param"]
    threads, terms = TwoThreads(one, shape, Solver()), one.terms
    warp = terms.lshr(terms.special("%tid.x"), terms.const(5, 32))
    known = (warp,) if other_warp else ()
    pair = accesses[first], accesses[second]
    return threads.ask(Meeting(*pair, same_block, counters or {}, differs=known))


APART = {
    "a word for each thread": "shl.b32 %r9, %r3, 2; add.s32 %r9, %r7, %r9;st.shared.u32 [%r9], 0;",
    "a vector for each thread": "shl.b32 %r9, %r3, 4; add.s32 %r9, %r7, %r9;"
    "st.shared.v4.u32 [%r9], {%r3, %r3, %r3, %r3};",
    "bytes": "add.s32 %r9, %r7, %r3; st.shared.u8 [%r9], 0;",
    "the even and the odd words": "shl.b32 %r9, %r3, 3; add.s32 %r9, %r7, %r9;"
    "st.shared.u32 [%r9], 0; st.shared.u32 [%r9+4], 0;",
    "one thread": "setp.ne.s32 %p1, %r3, 0; @%p1 bra END; st.shared.u32 [%r7], 0;",
    "one thread, under a predicate": "setp.eq.s32 %p1, %r3, 0; @%p1 st.shared.u32 [%r7], 0;",
    "lane 0 of each warp": "and.b32 %r9, %r3, 31; setp.ne.s32 %p1, %r9, 0; @%p1 bra END;"
    "shr.u32 %r9, %r3, 5; shl.b32 %r9, %r9, 2; add.s32 %r9, %r7, %r9; st.shared.u32 [%r9], 0;",
    "a warp and a lane": "and.b32 %r9, %r3, 31; shr.u32 %r10, %r3, 5;"
    "mad.lo.s32 %r9, %r10, 33, %r9; shl.b32 %r9, %r9, 2; add.s32 %r9, %r7, %r9;"
    "st.shared.u32 [%r9], 0;",
    "a step of a tree": "setp.ge.s32 %p1, %r3, %r1; @%p1 bra END; shl.b32 %r9, %r3, 2;"
    "add.s32 %r9, %r7, %r9; shl.b32 %r10, %r1, 2; add.s32 %r10, %r9, %r10;"
    "ld.shared.u32 %r11, [%r10]; st.shared.u32 [%r9], %r11;",
    "a butterfly's own word": "xor.b32 %r9, %r3, 8; shl.b32 %r9, %r9, 2; add.s32 %r9, %r7, %r9;"
    "st.shared.u32 [%r9], 0;",
    "a comparison of partners": "and.b32 %r9, %r1, 255; xor.b32 %r9, %r3, %r9;"
    "setp.le.u32 %p1, %r9, %r3; @%p1 bra END;"
    "shl.b32 %r9, %r9, 2; add.s32 %r9, %r7, %r9; shl.b32 %r10, %r3, 2; add.s32 %r10, %r7, %r10;"
    "st.shared.u32 [%r10], 0; st.shared.u32 [%r9], 0;",
    "other variables": "st.shared.u32 [%r7], 0; ld.shared.u32 %r9, [%r8];",
    "other pointers": "st.global.u32 [%rd1], 0; ld.global.u32 %r9, [%rd2];",
}


@pytest.mark.parametrize("name", APART)
def test_threads_of_a_block_are_apart(name: str) -> None:
    assert isinstance(asked(APART[name]), Apart)


MEET = {
    "one word for all": "st.shared.u32 [%r7], 0;",
    "the next thread's word": "shl.b32 %r9, %r3, 2; add.s32 %r9, %r7, %r9;"
    "st.shared.u32 [%r9], 0; ld.shared.u32 %r10, [%r9+4];",
    "words that overlap": "add.s32 %r9, %r7, %r3; st.shared.u32 [%r9], 0;",
    "half a word of the next thread's": "shl.b32 %r9, %r3, 2; add.s32 %r9, %r7, %r9;"
    "st.shared.u32 [%r9], 0; ld.shared.u16 %r10, [%r9+6];",
    "remainders": "and.b32 %r9, %r3, 31; shl.b32 %r9, %r9, 2; add.s32 %r9, %r7, %r9;"
    "st.shared.u32 [%r9], 0;",
    "lanes 0": "and.b32 %r9, %r3, 31; setp.ne.s32 %p1, %r9, 0; @%p1 st.shared.u32 [%r7], 0;",
    "a partner's word": "xor.b32 %r9, %r3, 1; shl.b32 %r9, %r9, 2; add.s32 %r9, %r7, %r9;"
    "shl.b32 %r10, %r3, 2; add.s32 %r10, %r7, %r10;"
    "st.shared.u32 [%r10], 0; ld.shared.u32 %r11, [%r9];",
    "a tile and its transpose": f"{TWO_DIMENSIONS} mad.lo.s32 %r9, %r4, 33, %r3;"
    "mad.lo.s32 %r10, %r3, 33, %r4; shl.b32 %r9, %r9, 2; shl.b32 %r10, %r10, 2;"
    "add.s32 %r9, %r7, %r9; add.s32 %r10, %r7, %r10;"
    "st.shared.u32 [%r9], 0; ld.shared.u32 %r11, [%r10];",
    "a scan": "setp.lt.s32 %p1, %r3, %r1; @%p1 bra END; shl.b32 %r9, %r3, 2; shl.b32 %r10, %r1, 2;"
    "add.s32 %r9, %r7, %r9; sub.s32 %r10, %r9, %r10;"
    "ld.shared.u32 %r11, [%r10]; st.shared.u32 [%r9], %r11;",
}


@pytest.mark.parametrize("name", MEET)
def test_threads_of_a_block_meet(name: str) -> None:
    answer = asked(MEET[name])
    assert isinstance(answer, Meet)
    assert answer.certain


def test_a_model_holds_what_it_promises() -> None:
    """Both threads are at one byte, and both get there."""
    answer = asked(MEET["a scan"])
    assert isinstance(answer, Meet)
    values = {str(term.value): value for term, value in answer.values.items()}
    assert values["%tid.x"] != values["u %tid.x"]
    assert values["%tid.x"] - values["n"] == values["u %tid.x"]
    assert all(evaluate(condition, answer.values) for condition in answer.first.conditions)


def test_a_place_that_no_thread_of_the_block_gets_to() -> None:
    body = "setp.lt.u32 %p1, %r3, 64; @%p1 bra END; st.shared.u32 [%r7], 0;"
    assert isinstance(asked(body), Meet)
    assert isinstance(asked(body, shape=(64, 1, 1)), Apart)
    alone = "setp.eq.u32 %p1, %r3, 0; @%p1 bra END; mov.u32 %r5, %ctaid.x; st.global.u32 [%rd1], 0;"
    assert isinstance(asked(alone, same_block=False), Meet)
    assert isinstance(asked(alone, same_block=False, shape=(1, 1, 1)), Apart)


PARTNERS = MEET["a partner's word"]


@pytest.mark.parametrize("shape", [None, (256, 1, 1), (32, 1, 1)])
def test_partners_are_in_one_warp(shape: tuple[int, int, int] | None) -> None:
    assert isinstance(asked(PARTNERS, shape=shape), Meet)
    assert isinstance(asked(PARTNERS, shape=shape, other_warp=True), Apart)


def test_neighbours_may_be_in_two_warps() -> None:
    neighbour = MEET["the next thread's word"]
    answer = asked(neighbour, other_warp=True)
    assert isinstance(answer, Meet)
    values = {str(term.value): value for term, value in answer.values.items()}
    assert values["%tid.x"] // 32 != values["u %tid.x"] // 32
    assert isinstance(asked(neighbour, shape=(32, 1, 1), other_warp=True), Apart)


# ---------------------------------------------------------------- blocks and their shapes

TILE = (
    f"{TWO_DIMENSIONS} mad.lo.s32 %r9, %r4, 33, %r3; shl.b32 %r9, %r9, 2; add.s32 %r9, %r7, %r9;"
    "st.shared.u32 [%r9], 0;"
)


def test_a_tile_has_rows_as_long_as_the_block_is_wide() -> None:
    answer = asked(TILE)
    assert isinstance(answer, Apart)
    assert answer.conditions == ("blockDim.x <= 33",)
    answer = asked(TILE, shape=(32, 8, 1))
    assert isinstance(answer, Apart)
    assert not answer.conditions
    assert isinstance(asked(TILE, shape=(64, 8, 1)), Meet)


def test_what_a_launch_may_be_asked_for() -> None:
    """Not for one row or column, as in `w*h + 4*w <= w`: that would make a proof of every race."""
    terms = Terms()
    w, h, block = (
        Polynomial.atom(terms.atom(name, 32, Variance.UNIFORM, None, Origin.PARAMETER))
        for name in ("w", "h", "b")
    )
    for never in (w * h + w * 4 - w, w * h + h - w * 1, w * w + h - w, w * h * 4, w - 1, w + h - 3):
        assert not is_promise(never)
    for short in (w * h - h * 8 - 1, w * h + w - h * 31):
        assert not is_promise(short)  # w <= 8, for any number of rows
    for plain in (
        w * h - h * 1024,
        w * h - h - block,
        w * 4 - 132,
        w - h,
        block * 16 + w * 4 - h,
        w * h - 4,
        w - 2,
    ):
        assert is_promise(plain)
    for one, two in ((w * h + 2 - block, block - w), (w * h - block * 2, block * 4 - w)):
        assert is_promise(one)
        assert is_promise(two)
        assert not agree(one, [h - w, two])
        assert not agree(two, [one])
    assert agree(w - block, [block - h, h * 2 - 64])


def test_an_address_that_wraps_is_no_other() -> None:
    """2^31 times the number of a thread is one of two addresses."""
    answer = asked("shl.b32 %r9, %r3, 31; st.shared.u32 [%r9], 0;")
    assert isinstance(answer, Apart)
    assert answer.conditions == ("blockDim.x <= 2",)
    wide = asked("shl.b32 %r9, %r3, 31; st.shared.u32 [%r9], 0;", shape=(4, 1, 1))
    assert isinstance(wide, Meet)


# ---------------------------------------------------------------- the grid

OWN = f"{GRID} mul.wide.s32 %rd3, %r10, 4; add.s64 %rd3, %rd1, %rd3; st.global.u32 [%rd3], 0;"
GUARDED = (
    f"{GRID} setp.ge.s32 %p1, %r10, %r1; @%p1 bra END; mul.wide.s32 %rd3, %r10, 4;"
    "add.s64 %rd3, %rd1, %rd3; st.global.u32 [%rd3], 0;"
)
ROWS = (
    f"{GRID} {TWO_DIMENSIONS} mov.u32 %r20, %ctaid.y; mov.u32 %r21, %ntid.y;"
    "mad.lo.s32 %r11, %r20, %r21, %r4; mad.lo.s32 %r12, %r11, %r2, %r10;"
    "mul.wide.s32 %rd3, %r12, 4; add.s64 %rd3, %rd1, %rd3; st.global.u32 [%rd3], 0;"
)
STRIDED = (
    f"{GRID} mov.u32 %r20, %nctaid.x; mul.lo.s32 %r21, %r20, %r6;"
    "setp.ge.s32 %p1, %r10, %r1; @%p1 bra END;"
    "LOOP: mul.wide.s32 %rd3, %r10, 4; add.s64 %rd3, %rd1, %rd3; st.global.u32 [%rd3], 0;"
    "add.s32 %r10, %r10, %r21; setp.lt.s32 %p2, %r10, %r1; @%p2 bra LOOP;"
)


@pytest.mark.parametrize("same_block", [True, False])
@pytest.mark.parametrize("body", [OWN, GUARDED, STRIDED], ids=["own", "guarded", "strided"])
def test_each_thread_of_a_grid_has_its_word(body: str, same_block: bool) -> None:
    answer = asked(body, same_block=same_block)
    assert isinstance(answer, Apart)
    assert "grid-fits" in answer.assumptions or answer.conditions


def test_blocks_that_are_not_told_apart_meet() -> None:
    own = "mul.wide.u32 %rd3, %r3, 4; add.s64 %rd3, %rd1, %rd3; st.global.u32 [%rd3], 0;"
    answer = asked(own, same_block=False)
    assert answer == Apart(frozenset({"unused-dimensions"}))
    assert isinstance(asked(own + "mov.u32 %r5, %ctaid.x;", same_block=False), Meet)


@pytest.mark.parametrize("same_block", [True, False])
def test_a_pitch_is_at_least_a_row(same_block: bool) -> None:
    """That is the caller's to see to: it is a condition, and nothing that threads meet by."""
    answer = asked(ROWS, same_block=same_block)
    assert isinstance(answer, Apart)
    row = "blockDim.x <= m" if same_block else "blockDim.x·gridDim.x <= m"
    assert row in answer.conditions


FURTHER = """and.b32 %r9, %r3, 7;
bfe.u32 %r10, %r3, 3, 4; mov.u32 %r5, %ctaid.x; shl.b32 %r12, %r5, 6;
add.s32 %r10, %r10, %r12; mad.lo.s32 %r11, %r10, %r2, %r9; mul.wide.s32 %rd3, %r11, 4;
add.s64 %rd4, %rd1, %rd3; st.global.u32 [%rd4], %r3; {0} mad.lo.s32 %r11, %r10, %r2, %r9;
mul.wide.s32 %rd3, %r11, 4; add.s64 %rd4, %rd1, %rd3; st.global.u32 [%rd4], %r3;"""


@pytest.mark.parametrize("further", ["add.s32 %r10, %r10, 32;", "or.b32 %r10, %r10, 32;"])
def test_rows_of_a_tile_further_on_have_the_same_pitch(further: str) -> None:
    """128 threads write eight words of 16 rows, and of 16 others that lie 32 rows on."""
    answer = asked(FURTHER.format(further), shape=(128, 1, 1))
    assert isinstance(answer, Apart) and "m >= 8" in answer.conditions
    row_of_another = asked(FURTHER.format("add.s32 %r10, %r10, 1;"), shape=(128, 1, 1))
    assert not isinstance(row_of_another, Apart)


def test_a_row_that_a_guard_binds_needs_no_condition() -> None:
    guard = f"{GRID} setp.ge.s32 %p1, %r10, %r2; @%p1 bra END;"
    answer = asked(ROWS.replace(GRID, guard), same_block=False)
    assert isinstance(answer, Apart)
    assert not any("gridDim" in condition for condition in answer.conditions)


# ---------------------------------------------------------------- rows that are far apart

ROW_8_BELOW = (
    f"{GRID} {TWO_DIMENSIONS} setp.ge.s32 %p1, %r10, %r2; @%p1 bra END;"
    "mov.u32 %r20, %ctaid.y; mad.lo.s32 %r11, %r20, 16, %r4; add.s32 %r13, %r11, 8;"
    "mad.lo.s32 %r12, %r11, %r2, %r10; mul.wide.s32 %rd3, %r12, 4; add.s64 %rd3, %rd1, %rd3;"
    "mad.lo.s32 %r12, %r13, %r2, %r10; mul.wide.s32 %rd4, %r12, 4; add.s64 %rd4, %rd1, %rd4;"
    "st.global.u32 [%rd3], 0; st.global.u32 [%rd4], 0;"
)


@pytest.mark.parametrize("same_block", [True, False])
def test_rows_of_a_width_that_nobody_knows(same_block: bool) -> None:
    """Rows m and 8·m apart, in blocks of 8 rows: what is multiplied with m is 0 or it is not."""
    answer = asked(ROW_8_BELOW, same_block=same_block, shape=(32, 8, 1), first=0)
    assert isinstance(answer, Apart)
    assert set(answer.conditions) <= {"no 32-bit index wraps"}
    answer = asked(ROW_8_BELOW, same_block=same_block, shape=(32, 9, 1), first=0)
    assert isinstance(answer, Meet) is same_block


def test_two_writes_of_a_thread_bind_the_block_along_their_distance() -> None:
    """A block of more threads would not fit the code; but what is read is bound by nothing."""
    writes = "mul.wide.u32 %rd3, %r3, 4; add.s64 %rd3, %rd1, %rd3; st.global.u32 [%rd3], 0;"
    answer = asked(writes + "st.global.u32 [%rd3+32], 0;")
    assert isinstance(answer, Apart)
    assert answer.conditions == ("blockDim.x <= 8",)
    assert isinstance(asked(writes + "ld.global.u32 %r9, [%rd3+32];"), Meet)


def test_no_launch_is_asked_to_be_of_one_block() -> None:
    own = "mul.wide.u32 %rd3, %r3, 4; add.s64 %rd3, %rd1, %rd3; st.global.u32 [%rd3], 0;"
    answer = asked(own + "mov.u32 %r5, %ctaid.x;", same_block=False)
    assert isinstance(answer, Meet)


# ---------------------------------------------------------------- loops

ROW_IN_STEPS = (
    "mov.u32 %r5, %ctaid.x; mul.lo.s32 %r6, %r5, %r1; mov.u32 %r9, %r3;"
    "setp.ge.s32 %p1, %r9, %r1; @%p1 bra END;"
    "LOOP: add.s32 %r11, %r6, %r9; mul.wide.s32 %rd3, %r11, 4; add.s64 %rd3, %rd1, %rd3;"
    "st.global.u32 [%rd3], 0;"
    "add.s32 %r9, %r9, 64; setp.lt.s32 %p2, %r9, %r1; @%p2 bra LOOP;"
)


@pytest.mark.parametrize("same_block", [True, False])
def test_a_row_that_a_block_goes_along(same_block: bool) -> None:
    """What a loop adds to a thread's place stays below the end of the row."""
    answer = asked(ROW_IN_STEPS, same_block=same_block, shape=(64, 1, 1))
    assert isinstance(answer, Apart)
    assert set(answer.conditions) <= {"no 32-bit index wraps"}


SORT = (
    "mov.u32 %r9, 64;"
    "LOOP: sub.s32 %r10, %r9, 1; and.b32 %r10, %r3, %r10; shl.b32 %r11, %r3, 1;"
    "sub.s32 %r11, %r11, %r10; add.s32 %r12, %r11, %r9; shl.b32 %r11, %r11, 2;"
    "shl.b32 %r12, %r12, 2; add.s32 %r11, %r7, %r11; add.s32 %r12, %r7, %r12;"
    "st.shared.u32 [%r11], 0; st.shared.u32 [%r12], 0; bar.sync 0;"
    "shr.u32 %r9, %r9, 1; setp.ne.u32 %p1, %r9, 0; @%p1 bra LOOP;"
)


def test_a_step_of_a_sort_in_each_iteration() -> None:
    """The pairs of a bitonic sort, for 64, 32, … 1, are no pairs for other numbers."""
    header = next(iter(trace(SORT).loop_facts))
    together = asked(SORT, first=0, shape=(64, 1, 1), counters={header: 0})
    assert isinstance(together, Apart)
    assert not isinstance(asked(SORT, first=0, shape=(64, 1, 1)), Apart)


# ---------------------------------------------------------------- what data decides

GATHER = (
    "mul.wide.u32 %rd3, %r3, 4; add.s64 %rd4, %rd2, %rd3; ld.global.u32 %r9, [%rd4];"
    "mul.wide.u32 %rd5, %r9, 4; add.s64 %rd6, %rd1, %rd5; st.global.u32 [%rd6], 0;"
)


def test_a_table_is_no_permutation() -> None:
    answer = asked(GATHER, first=-1)
    assert not isinstance(answer, Apart)
    assert not (isinstance(answer, Meet) and answer.certain)


def test_arrays_of_dynamic_shared_memory_begin_at_one_byte() -> None:
    dynamic = ".extern .shared .align 8 .b8 a[];\n.extern .shared .align 8 .b8 b[];\n"
    body = "mov.u32 %r20, a; mov.u32 %r21, b; st.shared.u32 [%r20], 0; ld.shared.u32 %r9, [%r21];"
    assert isinstance(asked(body, dynamic=dynamic), Meet)
