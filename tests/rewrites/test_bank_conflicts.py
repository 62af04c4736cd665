"""Bank conflicts: shared memory permuted inside rows, so that a warp's words lie in all banks."""

from __future__ import annotations

import re

import numpy as np
import pytest

from ptxsw.analysis.banks import wavefronts
from ptxsw.changes.assumptions import DEFAULT_ASSUME, IN_ARRAYS
from ptxsw.changes.permutation import Permutation
from ptxsw.driver.pipeline import Options, Result, optimize
from ptxsw.parser import parse
from ptxsw.report.text import optimization_text
from ptxsw.rewrites.bank_choice import NONE_HELPS
from ptxsw.simt import Race, RunError, launch
from ptxsw.validate import Outcome, Proved, validate
from tests.heads import head
from tests.parsed import parsed
from tests.rewrites.pair import is_proved, kernel, new_lines, reasons, rewritten

pytestmark = pytest.mark.usefixtures("no_ptxas")


TILE = """
    .shared .align 4 .b8 tile[{size}];
    mov.u32 %r3, %tid.y;
    mov.u32 %r4, tile;
    mad.lo.u32 %r5, %r3, {row}, %r4;
    mad.lo.u32 %r6, %r2, {element}, %r5;
    mad.lo.u32 %r7, %r2, {row}, %r4;
    mad.lo.u32 %r8, %r3, {element}, %r7;
    mov.u32 %r9, %ntid.x;
    mad.lo.u32 %r10, %r3, %r9, %r2;
    mul.wide.u32 %rd6, %r10, {element};
    add.s64 %rd7, %rd1, %rd6;
    add.s64 %rd8, %rd2, %rd6;
    ld.global.{type} {value}, [%rd7];
    st.shared.{type} [%r6], {value};
    bar.sync 0;
    ld.shared.{type} {value}, [%r8];
    st.global.{type} [%rd8], {value};
"""


def transpose(rows: int, element: int, pad: int = 0) -> str:
    """A square tile that is stored by rows and read by columns; elements of 4 or 8 bytes."""
    row = (rows + pad) * element
    types = {4: ("b32", "%r12"), 8: ("b64", "%rd12")}
    return kernel(
        TILE.format(
            size=row * rows, row=row, element=element, type=types[element][0],
            value=types[element][1],
        )
    ).replace("%r<20>", "%r<30>")  # fmt: skip


# What nvcc 13.0 makes of the reduction whose threads add elements 2*k*t and 2*k*t + k.
DYNAMIC = (
    head()
    + """.extern .shared .align 16 .b8 s[];
.visible .entry k(.param .u64 in, .param .u64 out)
{
	.reg .pred %p<5>;
	.reg .b32 %r<20>;
	.reg .b64 %rd<10>;
	ld.param.u64 %rd2, [in];
	ld.param.u64 %rd1, [out];
	mov.u32 %r1, %ntid.x;
	mov.u32 %r3, %tid.x;
	cvta.to.global.u64 %rd3, %rd2;
	mul.wide.u32 %rd4, %r3, 4;
	add.s64 %rd5, %rd3, %rd4;
	ld.global.u32 %r4, [%rd5];
	shl.b32 %r8, %r3, 2;
	mov.u32 %r9, s;
	add.s32 %r10, %r9, %r8;
	st.shared.u32 [%r10], %r4;
	bar.sync 0;
	setp.lt.u32 %p1, %r1, 2;
	@%p1 bra $DONE;
	mov.u32 %r18, 1;
$LOOP:
	shl.b32 %r5, %r18, 1;
	mul.lo.s32 %r6, %r5, %r3;
	add.s32 %r12, %r6, %r18;
	setp.ge.u32 %p2, %r12, %r1;
	@%p2 bra $NEXT;
	shl.b32 %r13, %r12, 2;
	add.s32 %r15, %r9, %r13;
	shl.b32 %r16, %r6, 2;
	add.s32 %r17, %r9, %r16;
	ld.shared.u32 %r2, [%r17];
	ld.shared.u32 %r7, [%r15];
	add.u32 %r11, %r2, %r7;
	st.shared.u32 [%r17], %r11;
$NEXT:
	bar.sync 0;
	setp.lt.u32 %p3, %r5, %r1;
	mov.u32 %r18, %r5;
	@%p3 bra $LOOP;
$DONE:
	ld.shared.u32 %r14, [%r10];
	cvta.to.global.u64 %rd6, %rd1;
	add.s64 %rd8, %rd6, %rd4;
	st.global.u32 [%rd8], %r14;
	ret;
}
"""
)


REVERSED = (
    head()
    + """.extern .shared .align 16 .b8 s[];
.visible .entry k(.param .u64 in, .param .u64 out)
{
	.reg .pred %p<3>;
	.reg .b32 %r<20>;
	.reg .b64 %rd<10>;
	ld.param.u64 %rd1, [in];
	ld.param.u64 %rd2, [out];
	mov.u32 %r1, %ntid.x;
	mov.u32 %r2, %tid.x;
	mov.u32 %r3, s;
	mul.wide.u32 %rd3, %r2, 4;
	add.s64 %rd4, %rd1, %rd3;
	add.s64 %rd5, %rd2, %rd3;
	ld.global.u32 %r4, [%rd4];
	shl.b32 %r5, %r2, 2;
	add.s32 %r6, %r3, %r5;
	st.shared.u32 [%r6], %r4;
	bar.sync 0;
	sub.s32 %r7, %r1, %r2;
	shl.b32 %r8, %r7, 2;
	add.s32 %r9, %r3, %r8;
	ld.shared.u32 %r10, [%r9+-4];
	setp.eq.u32 %p1, %r10, 0;
	@!%p1 bra $END;
	shl.b32 %r11, %r2, 7;
	add.s32 %r12, %r3, %r11;
	ld.shared.u32 %r10, [%r12];
$END:
	st.global.u32 [%rd5], %r10;
	ret;
}
"""
)
"""Of the two loads one goes down a column, which no thread does whose elements are not 0."""


WHOLE = DEFAULT_ASSUME - {IN_ARRAYS}
"""All shared memory is permuted, or none: of arrays one by one tells `test_own_arrays.py`, of their
padding `test_padded_arrays.py`."""


def made(text: str, **options: object) -> Result:
    return rewritten("bank-conflicts", text, **{"assume": WHOLE, **options})


def detail(result: Result) -> dict[str, object]:
    (entry,) = result.report.kernels[0].rewrites or ()
    return dict(entry.detail)


def worst(result: Result) -> tuple[float, float]:
    """The wavefronts of the access that takes most, before and after."""
    accesses = detail(result)["accesses"]
    assert isinstance(accesses, list | tuple)
    return (
        max(a["wavefronts"] for a in accesses),
        max(a["wavefronts_after"] for a in accesses),
    )


def run(text: str, block: object, elements: np.ndarray, shared: int = 0) -> bytes:
    out = np.zeros(elements.size, elements.dtype)
    arguments = [elements.copy(), out, 0][: text.count(".param .")]
    result = launch(parsed(text), "k", 1, block, arguments, shared=shared)  # type: ignore[arg-type]
    return bytes(result.buffers[1].tobytes())


def proof(before: str, after: str, permutation: Permutation) -> Outcome:
    old, new = parse(before), parse(after)
    return validate((old, old.kernels[0]), (new, new.kernels[0]), shared_layout=permutation)


# ---------------------------------------------------------------- lines before and after


def test_a_column_of_a_tile() -> None:
    text = kernel("""
        .shared .align 4 .b8 tile[4100];
        mov.u32 %r4, tile;
        mad.lo.u32 %r5, %r2, 128, %r4;
        ld.shared.b32 %r6, [%r5];
    """)
    assert new_lines(text, made(text)) == [
        ".shared .align 128 .b8 tile[4224];",
        "shr.u32 %sw_row1, %r5, 5;",
        "and.b32 %sw_swap1, %sw_row1, 124;",
        "xor.b32 %sw_bank1, %r5, %sw_swap1;",
        "ld.shared.b32 %r6, [%sw_bank1];",
    ]


def test_what_follows_in_a_row_takes_one_instruction_more() -> None:
    text = kernel("""
        .shared .align 4 .b8 tile[4096];
        mov.u32 %r4, tile;
        mad.lo.u32 %r5, %r2, 128, %r4;
        ld.shared.b32 %r6, [%r5+4];
        @%p1 st.shared.b32 [%r5+8], %r6;
        st.shared.b32 [%r5+4], %r6;
    """)
    assert new_lines(text, made(text))[1:] == [
        "shr.u32 %sw_row1, %r5, 5;",
        "and.b32 %sw_swap1, %sw_row1, 124;",
        "xor.b32 %sw_bank1, %r5, %sw_swap1;",
        "xor.b32 %sw_bank2, %sw_bank1, 4;",
        "ld.shared.b32 %r6, [%sw_bank2];",
        "xor.b32 %sw_bank3, %sw_bank1, 8;",
        "@%p1 st.shared.b32 [%sw_bank3], %r6;",
        "st.shared.b32 [%sw_bank2], %r6;",
    ]


def test_rows_further_on_share_the_shift() -> None:
    text = kernel("""
        .shared .align 128 .b8 tile[8192];
        mov.u32 %r4, tile;
        mad.lo.u32 %r5, %r2, 128, %r4;
        ld.shared.b32 %r6, [%r5];
        ld.shared.b32 %r7, [%r5+256];
        ld.shared.b32 %r8, [%r5+4096];
    """)
    assert new_lines(text, made(text)) == [
        "shr.u32 %sw_row1, %r5, 5;",
        "and.b32 %sw_swap1, %sw_row1, 124;",
        "xor.b32 %sw_bank1, %r5, %sw_swap1;",
        "ld.shared.b32 %r6, [%sw_bank1];",
        "add.s32 %sw_row2, %sw_row1, 8;",
        "and.b32 %sw_swap2, %sw_row2, 124;",
        "xor.b32 %sw_bank2, %r5, %sw_swap2;",
        "ld.shared.b32 %r7, [%sw_bank2+256];",
        "ld.shared.b32 %r8, [%sw_bank1+4096];",
    ]


def test_an_address_register_that_changes_is_computed_again() -> None:
    text = kernel("""
        .shared .align 128 .b8 tile[8192];
        mov.u32 %r4, tile;
        mad.lo.u32 %r5, %r2, 128, %r4;
        ld.shared.b32 %r6, [%r5];
        add.u32 %r5, %r5, 4096;
        ld.shared.b32 %r7, [%r5];
    """)
    assert new_lines(text, made(text)).count("shr.u32 %sw_row2, %r5, 5;") == 1


BRANCHES = """
    .shared .align 128 .b8 tile[8192];
    mov.u32 %r4, tile;
    mad.lo.u32 %r5, %r2, 128, %r4;
    st.shared.b32 [%r5], %r2;
    setp.lt.u32 %p1, %r2, 9;
    @%p1 bra $LOW;
    st.shared.b32 [%r5+36], %r2;
    bra $BOTH;
$LOW:
    st.shared.b32 [%r5+36], %r1;
    add.u32 %r6, %r5, 4;
    st.shared.b32 [%r6+4], %r2;
$BOTH:
    bar.sync 0;
    ld.shared.b32 %r7, [%r5+36];
    ld.shared.b32 %r8, [%r5];
    add.u32 %r9, %r7, %r8;
    {
        .reg .b32 %r5;
        add.u32 %r5, %r4, 8;
        ld.shared.b32 %r7, [%r5];
    }
    add.u32 %r9, %r9, %r7;
    st.global.u32 [%rd5], %r9;
    bra $DONE;
    ld.shared.b32 %r7, [%r5];
$DONE:
"""


def test_blocks_use_what_those_that_dominate_them_computed() -> None:
    """What one arm of a branch computed is not there in the other, nor behind both; another scope
    has another register of the name; and what nobody reaches is permuted, too."""
    text = kernel(BRANCHES)
    result = made(text)
    found = new_lines(text, result)
    assert found.count("xor.b32 %sw_bank1, %r5, %sw_swap1;") == 1
    images = [line for line in found if line.endswith("%sw_bank1, 36;")]
    assert len(images) == 3  # in each arm, and behind them
    elements = np.zeros(2 * 40, "u4")
    assert run(text, 40, elements) == run(result.text, 40, elements)


def test_dynamic_memory_is_permuted_where_it_has_whole_rows() -> None:
    # Beside an array of whole rows; alone it is permuted from its own start (test_own_arrays.py).
    beside = ".shared .align 128 .b8 odd[128];\n\t.reg .pred"
    text = DYNAMIC.replace(".reg .pred", beside).replace(
        "\tret;", "\tst.shared.u32 [odd], %r3;\n\tret;"
    )
    found = new_lines(text, made(text))
    assert found[:6] == [
        "mov.u32 %sw_ends1, %dynamic_smem_size;",
        "mov.u32 %sw_start1, s;",
        "or.b32 %sw_ends2, %sw_ends1, %sw_start1;",
        "and.b32 %sw_rest1, %sw_ends2, 127;",
        "setp.eq.u32 %sw_whole1, %sw_rest1, 0;",
        "selp.b32 %sw_mask1, 124, 0, %sw_whole1;",
    ]


TWO_TILES = """
    .shared .align 4 .b8 tiles[8192];
    mov.u32 %r3, %tid.y;
    mov.u32 %r4, tiles;
    mad.lo.u32 %r5, %r3, 32, %r2;
    mad.lo.u32 %r6, %r2, 32, %r3;
    mad.lo.u32 %r7, %r5, 4, %r4;
    mad.lo.u32 %r8, %r6, 4, %r4;
    st.shared.b32 [%r7+1024], %r2;
    st.shared.b32 [%r7+5120], %r3;
    bar.sync 0;
    ld.shared.b32 %r9, [%r8+32];
    ld.shared.b32 %r10, [%r8+4128];
    add.u32 %r11, %r9, %r10;
    st.global.u32 [%rd5], %r11;
"""


def test_two_tiles_in_one_array() -> None:
    """As of double buffers: one is as far behind the other as a whole tile takes."""
    text = kernel(TWO_TILES)
    found = new_lines(text, made(text))
    assert "add.s32 %sw_row2, %sw_row1, 64;" in found
    assert "st.shared.b32 [%sw_bank1+1024], %r2;" in found
    assert "st.shared.b32 [%sw_bank1+5120], %r3;" in found


def test_two_tiles_in_dynamic_memory() -> None:
    text = kernel(TWO_TILES).replace(".shared .align 4 .b8 tiles[8192];", "")
    text = text.replace(".visible", ".extern .shared .align 16 .b8 tiles[];\n.visible", 1)
    result = made(text)
    assert reasons(result) == []
    assert "st.shared.b32 [%sw_bank1+5120], %r3;" in new_lines(text, result)


# ---------------------------------------------------------------- wavefronts


def test_wavefronts() -> None:
    assert wavefronts(tuple(4 * n for n in range(32)), 4) == 1
    assert wavefronts(tuple(128 * n for n in range(32)), 4) == 32
    assert wavefronts((0,) * 32, 4) == 1
    assert wavefronts(tuple(8 * n for n in range(32)), 8) == 2
    assert wavefronts(tuple(128 * n for n in range(16)), 8) == 16
    assert wavefronts(tuple(16 * n for n in range(32)), 16) == 4


@pytest.mark.parametrize(
    ("text", "block", "before", "after"),
    [
        (transpose(32, 4), "32, 32, 1", 32, 1),
        (transpose(16, 8), "16, 16, 1", 32, 2),  # 2 is what 256 bytes take
        (transpose(16, 4), "16, 16, 1", 8, 1),
    ],
)
def test_columns_end_without_conflict(text: str, block: str, before: int, after: int) -> None:
    text = text.replace("\n{", f"\n.reqntid {block}\n{{", 1)
    for mode in ("force", "auto"):
        result = made(text) if mode == "force" else auto(text)
        assert worst(result) == (before, after), mode


def auto(text: str) -> Result:
    return optimize(text, Options(mode="auto", rewrites=("bank-conflicts",)))


def test_the_steps_of_a_reduction() -> None:
    text = DYNAMIC.replace("\n{", "\n.reqntid 1024, 1, 1\n{", 1)
    before, after = worst(auto(text))
    assert before > 3  # on average over the steps
    assert after == 1


def test_the_report_has_wavefronts_and_banks() -> None:
    text = transpose(32, 4)
    result = made(text, block=(32, 32, 1))
    accesses = detail(result)["accesses"]
    assert isinstance(accesses, list)
    store, load = accesses
    line = 1 + text[: text.index("ld.shared")].count("\n")
    assert store == {"line": line - 2, "wavefronts": 1, "wavefronts_after": 1}
    assert (load["line"], load["wavefronts"], load["wavefronts_after"]) == (line, 32, 1)
    assert (load["banks"], load["banks_after"]) == ([32, *[0] * 31], [1] * 32)
    told = optimization_text(result.report).splitlines()
    assert told[2].endswith("bank-conflicts  permutation a ^ ((a >> 5) & 0x7c); granule 4  proved")
    assert [row.split() for row in told[3:]] == [
        ["line", "wavefronts", "after"], [str(line), "32", "1"],
    ]  # fmt: skip


def test_padded_rows_keep_their_text() -> None:
    none = "no access to shared memory has a bank conflict in blocks of 32x32"
    for block, why in (("", NONE_HELPS), ("\n.reqntid 32, 32, 1", none)):
        text = transpose(32, 4, pad=1).replace("\n{", f"{block}\n{{", 1)
        result = made(text)
        assert result.text == text
        assert reasons(result) == [why]


def test_lanes_that_meet_at_one_atomic_are_no_conflict() -> None:
    text = kernel("""
        .shared .align 4 .b8 count[4];
        mov.u32 %r4, count;
        atom.shared.add.u32 %r5, [%r4], 1;
    """)
    result = made(text)
    assert result.text == text
    assert reasons(result) == ["no access to shared memory has a bank conflict in blocks of 256x1"]


def test_auto_leaves_what_instructions_would_outweigh() -> None:
    text = kernel("""
        .shared .align 4 .b8 tile[1024];
        mov.u32 %r4, tile;
        mad.lo.u32 %r5, %r2, 8, %r4;
        mad.lo.u32 %r6, %r2, 4, %r4;
        ld.shared.b32 %r7, [%r5];
        ld.shared.b32 %r8, [%r6];
    """)
    assert made(text).text != text
    result = auto(text)
    assert result.text == text
    assert reasons(result) == [
        "no clear gain by count: a warp would execute up to 6 instructions more for 1 "
        "wavefronts less"
    ]


def test_what_ptxas_joins_is_counted_as_one() -> None:
    """Eight words of one thread: ptxas makes two loads of 16 bytes of them, which ask twice as
    often as they need to. Granules of 16 bytes keep them together."""
    loads = "".join(f"ld.shared.b32 %r{10 + n}, [%r5+{4 * n}];\n" for n in range(8))
    text = kernel(
        ".shared .align 4 .b8 tile[8192];\nmov.u32 %r4, tile;\n"
        "shl.b32 %r5, %r2, 5;\nadd.u32 %r5, %r4, %r5;\n".replace("%r5, %r4, %r5", "%r6, %r4, %r5")
        + loads.replace("[%r5", "[%r6")
    )
    result = auto(text)
    assert detail(result)["granule"] == 16
    assert worst(result) == (2, 1)  # of 8 and 4 wavefronts a quarter for each word
    found = new_lines(text, result)
    assert "ld.shared.b32 %r13, [%sw_bank1+12];" in found
    assert "ld.shared.b32 %r17, [%sw_bank2+12];" in found


DIAGONALS = """
    .shared .align 4 .b8 tile[4096];
    mov.u32 %r4, tile;
    mad.lo.u32 %r5, %r2, 64, %r4;
    st.shared.b32 [%r5+0], %r2;
    st.shared.b32 [%r5+8], %r2;
    st.shared.b32 [%r5+16], %r2;
    st.shared.b32 [%r5+24], %r2;
    st.shared.b32 [%r5+32], %r2;
    mov.u32 %r9, 0;
$LOOP:
    add.u32 %r6, %r5, 4;
    ld.shared.b32 %r7, [%r6+-4];
    ld.shared.b32 %r8, [%r6+4];
    add.u32 %r7, %r7, %r8;
    st.shared.b32 [%r6], %r7;
    add.u32 %r5, %r5, 8;
    add.u32 %r9, %r9, 1;
    setp.lt.u32 %p1, %r9, 4;
    @%p1 bra $LOOP;
    st.global.u32 [%rd5], %r7;
"""


def test_a_pointer_that_a_loop_moves() -> None:
    """The iterations of the loop are known; that nothing carries is not told by the text alone."""
    text = kernel(DIAGONALS)
    result = made(text)
    before, after = worst(result)
    assert before > after
    assert any(
        re.fullmatch(r"add.s32 %sw_address\d+, %r6, -4;", s) for s in new_lines(text, result)
    )
    elements = np.zeros(2 * 60, "u4")
    assert run(text, 60, elements) == run(result.text, 60, elements)


# ---------------------------------------------------------------- what is refused

ARRAY = """
    .shared .align 4 .b8 tile[4096];
    mov.u32 %r4, tile;
    mad.lo.u32 %r5, %r2, 128, %r4;
    ld.shared.b32 %r6, [%r5];
"""


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("mov.u64 %rd6, tile;\ncvta.shared.u64 %rd7, %rd6;\nld.u32 %r7, [%rd7];", "a generic"),
        (
            "mov.u64 %rd6, tile;\ncvta.shared.u64 %rd7, %rd6;\nst.global.u64 [%rd5], %rd7;",
            "stores a shared address",
        ),
        ("st.global.u32 [%rd5], %r5;", "stores a shared address"),
        ("st.shared.u32 [%r5], %r4;", "stores a shared address"),
        ("atom.shared.exch.b32 %r7, [%r5], %r4;", "stores a shared address"),
        ("setp.eq.u32 %p1, %r5, %r4;", "compares a shared address"),
        ("shfl.sync.bfly.b32 %r7, %r5, 1, 31, -1;", "passes a shared address on"),
        ("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r7}, [%r5];", "a different layout"),
        (
            "wmma.load.c.sync.aligned.row.m16n16k16.shared.f32 "
            "{%f1, %f2, %f3, %f4, %f5, %f6, %f7, %f8}, [%r5];",
            "a different layout",
        ),
        ("cp.async.ca.shared.global [%r5], [%rd4], 4;", "a different layout"),
        (
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
            "[%r5], [%rd4], 128, [%r4];",
            "the shared memory of other blocks",
        ),
        (
            "cp.async.bulk.global.shared::cta.bulk_group [%rd4], [%r5], 128;",
            "a different layout",
        ),
        ("mbarrier.init.shared.b64 [%r5], 1;", "a different layout"),
        ("mapa.shared::cluster.u32 %r7, %r5, 0;", "passes a shared address on"),
        ("ld.shared::cluster.u32 %r7, [%r5];", "the shared memory of other blocks"),
        ("mov.u32 %r7, 64;\nld.shared.u32 %r8, [%r7];", "not derive from an array"),
        ("mov.u32 %r7, %total_smem_size;", "how much shared memory it has"),
    ],
)
def test_an_address_that_escapes(more: str, reason: str) -> None:
    text = kernel(ARRAY + more).replace("sm_80", "sm_90").replace("8.0", "8.3")
    result = made(text)
    assert result.text == text
    (told,) = reasons(result)
    assert reason in told


def test_a_generic_address_that_comes_back() -> None:
    """As of code without optimisation, once `memory-spaces` has named what it knows."""
    text = kernel("""
        .shared .align 4 .b8 tile[4096];
        mov.u64 %rd6, tile;
        cvta.shared.u64 %rd7, %rd6;
        mul.wide.u32 %rd8, %r2, 128;
        add.s64 %rd9, %rd7, %rd8;
        ld.f32 %f1, [%rd9+4];
        st.global.f32 [%rd5], %f1;
    """)
    result = optimize(text, Options(mode="force", rewrites=("memory-spaces", "bank-conflicts")))
    assert new_lines(text, result)[1:] == [
        "cvta.to.shared.u64 %sw_shared1, %rd9;",
        "cvt.u32.u64 %sw1_address1, %sw_shared1;",
        "shr.u32 %sw1_row1, %sw1_address1, 5;",
        "and.b32 %sw1_swap1, %sw1_row1, 124;",
        "xor.b32 %sw1_bank1, %sw1_address1, %sw1_swap1;",
        "xor.b32 %sw1_bank2, %sw1_bank1, 4;",
        "ld.shared.f32 %f1, [%sw1_bank2];",
    ]


CALL = """
    { .param .b64 p0; .param .b64 p1; .param .b32 r;
    st.param.b64 [p0], %rd6; st.param.b64 [p1], %rd7;
    call.uni (r), vprintf, (p0, p1); }
"""


def test_a_call_may_be_handed_an_address() -> None:
    declared = ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n.visible"
    text = kernel(ARRAY + CALL).replace(".visible", declared)
    assert reasons(made(text, assume=frozenset()))[0].endswith(
        "may receive an address of shared memory"
    )
    assert made(text, assume=DEFAULT_ASSUME).text != text  # it is handed none
    handed = kernel(f"{ARRAY}mov.u64 %rd6, tile;{CALL}").replace(".visible", declared)
    result = made(handed, assume=DEFAULT_ASSUME)
    assert result.text == handed
    (told,) = reasons(result)
    assert "stores a shared address" in told


OF_THE_MODULE = kernel(ARRAY.replace(".shared .align 4 .b8 tile[4096];", ""))
OTHER = ".visible .entry other() { .reg .b32 %r1; ld.shared.b32 %r1, [tile]; ret; }\n"


@pytest.mark.parametrize(
    ("declared", "reason"),
    [
        (".extern .shared .align 4 .b8 tile[4096];\n", "tile is shared with another module"),
        (".shared .align 4 .b8 tile[4096];\n" + OTHER, "tile is also named outside the kernel"),
    ],
)
def test_an_array_of_the_module_that_others_use(declared: str, reason: str) -> None:
    text = OF_THE_MODULE.replace(".visible", f"{declared}.visible")
    result = made(text)
    assert result.text == text
    (kernel,) = (each for each in result.report.kernels if each.name == "k")
    assert [refusal.reason for refusal in kernel.refusals or ()] == [reason]


def test_an_array_of_the_module() -> None:
    """As Numba declares them; another rewrite has changed the kernel before."""
    text = OF_THE_MODULE.replace(
        ".visible", "// tile is\n.visible .shared .align 8 .b8 tile[4000];\n.visible"
    )
    text = text.replace("\tret;", "\tld.f32 %f1, [%rd4];\n\tst.global.f32 [%rd5], %f1;\n\tret;")
    for names in (("bank-conflicts",), ("memory-spaces", "bank-conflicts")):
        result = optimize(text, Options(mode="force", rewrites=names))
        found = new_lines(text, result)
        assert (".visible .shared .align 128 .b8 tile[4096];" in found) == (len(names) == 2)
        assert ("ld.global.f32 %f1, [%rd4];" in found) == (len(names) == 2)
    parse(result.text)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("", None),
        (".shared .align 4 .b8 odd[100];", "the launch may have no room left for them"),
        (".shared .align 128 .b8 odd[128];", None),
    ],
)
def test_no_launch_gets_too_large(more: str, reason: str | None) -> None:
    """A launch may give all memory there is beside what the kernel declares. So the arrays stay as
    they are; or dynamic memory is permuted alone, if accesses stay in it."""
    text = DYNAMIC.replace("\tret;", "\tst.shared.u32 [odd], %r3;\n\tret;" if more else "\tret;")
    text = text.replace("\t.reg .pred", f"\t{more}\n\t.reg .pred")
    result = made(text, assume=frozenset())
    assert (result.text == text) == (reason is not None)
    assert [reason in told for told in reasons(result) if reason] == [True] * (reason is not None)
    alone = new_lines(text, made(text, assume=DEFAULT_ASSUME))
    declared = [line for line in alone if line.startswith(".shared")]
    assert declared == []


def test_arrays_stay_below_the_limit() -> None:
    text = kernel(ARRAY.replace("4096", "49100"))
    assert made(text).text != text
    text = kernel(ARRAY + ".shared .b8 more[45056];\nst.shared.b32 [more], %r6;")
    text = text.replace("more[45056]", "more[45050]")
    assert made(text).text != text
    text = text.replace("tile[4096]", "tile[4100]")
    assert reasons(made(text)) == ["its arrays would take more than 48 KiB"]


def test_addresses_that_nobody_knows_must_not_matter_most() -> None:
    text = kernel(
        ARRAY
        + """
    $LOOP:
        ld.global.u32 %r7, [%rd4];
        and.b32 %r7, %r7, 1020;
        add.u32 %r8, %r4, %r7;
        ld.shared.u32 %r9, [%r8];
        setp.eq.u32 %p1, %r9, 0;
        @%p1 bra $LOOP;
    """
    )
    (told,) = reasons(made(text))
    assert told == "the addresses of the most frequent accesses are not known"


REVERSAL = """
    .shared .align 4 .b8 tile[4096];
    mov.u32 %r4, tile;
    mad.lo.u32 %r5, %r2, 4, %r4;
    st.shared.u32 [%r5], %r2;
    bar.sync 0;
    sub.u32 %r6, 32, %r1;
    brev.b32 %r7, %r2;
    shr.u32 %r8, %r7, %r6;
    mad.lo.u32 %r9, %r8, 4, %r4;
    ld.shared.u32 %r10, [%r9];
    st.global.u32 [%rd5], %r10;
"""


@pytest.mark.parametrize("threads", [1024, 256])
def test_an_index_whose_bits_are_turned_round(threads: int) -> None:
    """By a number of bits that only the run knows: as many as tell the threads of a block apart.
    Mode auto guesses nothing."""
    text = kernel(REVERSAL).replace("\n{", f"\n.reqntid {threads}, 1, 1\n{{", 1)
    assert worst(made(text)) == (threads // 32, 1)
    options = Options(rewrites=("bank-conflicts",), assume=WHOLE)
    (told,) = reasons(optimize(text, options))
    assert told == "its bank conflicts depend on run-time values"


def test_what_no_block_executes_need_not_be_known() -> None:
    """As the rest of a loop that nvcc has unrolled, where the block divides the iterations."""
    text = kernel(
        ARRAY
        + """
        setp.lt.u32 %p1, %r2, 1024;
        @%p1 bra $DONE;
    $LOOP:
        ld.global.u32 %r7, [%rd4];
        and.b32 %r7, %r7, 1020;
        add.u32 %r8, %r4, %r7;
        ld.shared.u32 %r9, [%r8];
        setp.eq.u32 %p1, %r9, 0;
        @%p1 bra $LOOP;
    $DONE:
    """
    )
    assert made(text).text != text
    for last in (99, 200, 255):  # also if the first warps all leave it out
        assert reasons(made(text.replace("%r2, 1024", f"%r2, {last}")))


# ---------------------------------------------------------------- bit for bit


@pytest.mark.parametrize(
    ("text", "block", "kind"),
    [
        (transpose(32, 4), (32, 32), "u4"),
        (transpose(16, 8), (16, 16), "u8"),
        (transpose(16, 8), (16, 15), "u8"),  # the last warp has half its lanes
    ],
)
def test_a_transpose_gives_the_same(text: str, block: tuple[int, int], kind: str) -> None:
    elements = np.random.default_rng(1).integers(0, 1 << 31, block[0] * block[1]).astype(kind)
    result = made(text)
    assert result.text != text
    if block[0] == block[1]:
        assert run(text, block, elements) == run(result.text, block, elements)
        assert run(text, block, elements) == elements.reshape(block).T.tobytes()


@pytest.mark.parametrize("size", [4, 100, 128, 132, 4096])
def test_a_reduction_in_dynamic_memory_gives_the_same(size: int) -> None:
    threads = min(size // 4, 1024)
    elements = np.random.default_rng(size).integers(0, 1 << 20, threads).astype("u4")
    text = made(DYNAMIC).text
    assert text != DYNAMIC
    found = run(text, threads, elements, size)
    assert found == run(DYNAMIC, threads, elements, size)
    assert int(np.frombuffer(found, "u4")[0]) == int(elements.sum())


@pytest.mark.parametrize("size", [4, 100, 128, 132, 4096])
def test_atomics_in_dynamic_memory_give_the_same(size: int) -> None:
    """Each step adds by atomic operations what other threads have left before the barrier."""
    text = DYNAMIC.replace("st.shared.u32 [%r17], %r11;", "red.shared.add.u32 [%r17], %r7;")
    threads = min(size // 4, 1024)
    elements = np.random.default_rng(size).integers(0, 1 << 20, threads).astype("u4")
    result = made(text).text
    assert result.count("red.shared.add.u32 [%sw_placed") == 1
    found = run(result, threads, elements, size)
    assert found == run(text, threads, elements, size)
    assert int(np.frombuffer(found, "u4")[0]) == int(elements.sum())


@pytest.mark.parametrize("size", [100, 128, 132, 4096])
def test_what_other_threads_have_stored(size: int) -> None:
    """Thread t reads what the last but t-th has stored; a size of no whole rows moves nothing."""
    text = REVERSED
    threads = size // 4
    elements = np.arange(threads, dtype="u4") + 7
    result = made(text)
    assert result.text != text
    found = run(result.text, threads, elements, size)
    assert found == run(text, threads, elements, size) == elements[::-1].tobytes()


@pytest.mark.parametrize("size", [100, 128, 132, 4096])
def test_races_are_those_of_the_original(size: int) -> None:
    """Without the barrier: the same threads, at the same instruction."""
    text = REVERSED.replace("bar.sync 0;", "")
    told = []
    for one in (text, made(text).text):
        arguments = [np.ones(size // 4, "u4"), np.zeros(size // 4, "u4")]
        with pytest.raises(Race) as caught:
            launch(parsed(one), "k", 1, size // 4, arguments, shared=size, races=True)
        told.append(
            re.sub(r", line \d+", "", str(caught.value).partition(": k: ")[2].splitlines()[0])
        )
    assert told[0] == told[1]
    assert "a race with thread" in told[0]


def test_bytes_that_are_not_there_are_not_touched() -> None:
    """A row that is not whole would send word 128 beyond the end."""
    text = made(DYNAMIC).text
    always = text.replace("%sw_mask1, 31, 0,", "%sw_mask1, 31, 31,")
    assert always != text
    elements = np.arange(132, dtype="u4")
    assert run(text, 132, elements, 528) == run(DYNAMIC, 132, elements, 528)
    with pytest.raises(RunError):
        run(always, 132, elements, 528)
    assert not isinstance(proof(DYNAMIC, always, Permutation((5,), 124, ("s",), ("s",))), Proved)


ATOMICS = """
    .shared .align 4 .b8 bins[4096];
    mov.u32 %r4, bins;
    shl.b32 %r5, %r2, 5;
    and.b32 %r5, %r5, 992;
    mad.lo.u32 %r6, %r5, 4, %r4;
    mov.u32 %r7, 0;
    st.shared.u32 [%r6], %r7;
    bar.sync 0;
    atom.shared.add.u32 %r8, [%r6], %r2;
    red.shared.max.u32 [%r6], %r2;
    bar.sync 0;
    ld.volatile.shared.u32 %r9, [%r6];
    st.global.u32 [%rd5], %r9;
"""


def test_shared_atomics_give_the_same() -> None:
    text = kernel(ATOMICS)
    result = made(text)
    assert worst(result)[1] == 1
    elements = np.zeros(2 * 70, "u4")
    assert run(text, 70, elements) == run(result.text, 70, elements)


# ---------------------------------------------------------------- wrong texts

MUTANTS = [
    ("st.shared.b32 [%sw_bank1]", "st.shared.b32 [%r6]"),
    ("ld.shared.b32 %r12, [%sw_bank2]", "ld.shared.b32 %r12, [%r8]"),
    ("%sw_row2, %r8, 5;", "%sw_row2, %r8, 6;"),
    ("%sw_swap2, %sw_row2, 124;", "%sw_swap2, %sw_row2, 120;"),
    ("ld.shared.b32 %r12, [%sw_bank2]", "ld.shared.b32 %r12, [%sw_bank2+4]"),
]


@pytest.mark.parametrize(("right", "wrong"), MUTANTS)
def test_a_wrong_address_is_found_by_proof_and_by_running(right: str, wrong: str) -> None:
    text = transpose(32, 4).replace("\n{", "\n.reqntid 32, 32, 1\n{", 1)
    good = made(text).text
    assert good.count(right) == 1
    bad = good.replace(right, wrong)
    permutation = Permutation((5,), 124)
    assert isinstance(proof(text, good, permutation), Proved)
    assert not isinstance(proof(text, bad, permutation), Proved)
    elements = np.arange(1024, dtype="u4")
    try:
        found = run(bad, (32, 32), elements)
    except RunError:
        return
    assert found != run(text, (32, 32), elements)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (".align 128", ".align 64"),
        ("tile[4224]", "tile[4100]"),
        ("tile[4224]", "tile[4096]"),
    ],
)
def test_rows_have_to_be_whole(right: str, wrong: str) -> None:
    text = kernel(ARRAY.replace("4096", "4100"))
    good = made(text).text
    bad = good.replace(right, wrong)
    assert bad != good
    permutation = Permutation((5,), 124)
    assert isinstance(proof(text, good, permutation), Proved)
    assert not isinstance(proof(text, bad, permutation), Proved)


def test_wide_accesses_do_not_fit_a_small_granule() -> None:
    text = kernel(ARRAY + "ld.shared.v4.b32 {%r7, %r8, %r9, %r10}, [%r5];")
    good = made(text).text
    assert detail(made(text))["granule"] == 16
    bad = re.sub(r"shr.u32 (\S+), (\S+), 3;", r"shr.u32 \1, \2, 5;", good).replace(
        ", 112;", ", 124;"
    )
    assert not isinstance(proof(text, bad, Permutation((5,), 124)), Proved)


def test_without_the_relation_the_texts_differ() -> None:
    text = transpose(32, 4)
    assert not is_proved(text, made(text).text)


@pytest.mark.parametrize(
    ("shifts", "mask"), [((), 124), ((5,), 0), ((5,), 128), ((4,), 124), ((5, 3), 124)]
)
def test_only_exchanges_inside_a_row_are_permutations(shifts: tuple[int, ...], mask: int) -> None:
    with pytest.raises(ValueError):
        Permutation(shifts, mask)


def test_a_permutation_is_its_own_inverse() -> None:
    for permutation in (Permutation((5,), 124), Permutation((3, 6), 112), Permutation((4,), 120)):
        image = [permutation.of(a) for a in range(1 << 14)]
        assert sorted(image) == list(range(1 << 14))
        assert [permutation.of(a) for a in image] == list(range(1 << 14))
