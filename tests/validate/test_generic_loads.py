"""What another lane has read through a pointer that was loaded: proved where the text tests that
the pointer is the same and does not lead to local memory, refused where it tests something else."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from benchmarks.kernelgen import operators
from benchmarks.programs.program import HERE
from ptxsw.changes.assumptions import DEFAULT_ASSUME as DEFAULT
from ptxsw.driver.pipeline import Options, optimize
from ptxsw.parser import parse
from ptxsw.validate import Outcome, Proved, validate
from tests.heads import head
from tests.validate.test_warp import ROWS, judged

# Two pointers from a block of arguments, as GCC passes them: one is read, one is written. Lanes may
# have different blocks.
OLD = (
    head("7.0", "sm_80")
    + """.visible .entry k(.param .u64 args, .param .u32 spread)
{
	.shared .align 4 .b8 own[256];
	.local .align 4 .b8 mine[256];
	.reg .pred %p<4>;
	.reg .f32 %f<9>;
	.reg .b32 %r<9>;
	.reg .b64 %rd<19>;
	ld.param.u64 %rd7, [args];
	ld.param.u32 %r2, [spread];
	mov.u32 %r1, %tid.x;
	and.b32 %r3, %r1, %r2;
	mul.wide.u32 %rd8, %r3, 16;
	add.s64 %rd1, %rd7, %rd8;
	mul.wide.u32 %rd2, %r1, 4;
	ld.global.u64 %rd3, [%rd1];
	ld.global.u64 %rd4, [%rd1+8];
	add.s64 %rd5, %rd3, %rd2;
	add.s64 %rd6, %rd4, %rd2;
	mov.f32 %f5, 0f3F800000;
	ABOVE
	ld.f32 %f1, [%rd5];
	BETWEEN
	ld.f32 %f2, [%rd5+4];
	sub.f32 %f3, %f2, %f1;
	st.f32 [%rd6], %f3;
	ret;
}
"""
)
ADDED = (
    """.reg .b32 %sw_mask, %sw_low, %sw_high, %sw_there1, %sw_there2, %sw_lane;
	.reg .b32 %sw_x, %sw_y, %sw_z;
	.reg .pred %sw_rows, %sw_part, %sw_local, %sw_jump, %sw_own1, %sw_own2;
	.reg .b64 %sw_other;"""
    + ROWS
    + "ld.param.u64 %rd7, [args];"
)
SERVED = """activemask.b32 %sw_mask;
	setp.ne.or.b32 %sw_part, %sw_mask, -1, %sw_rows;
	mov.b64 {%sw_low, %sw_high}, %rd3;
	shfl.sync.down.b32 %sw_there1, %sw_low, 1, 31, %sw_mask;
	shfl.sync.down.b32 %sw_there2, %sw_high, 1, 31, %sw_mask;
	mov.b64 %sw_other, {%sw_there1, %sw_there2};
	isspacep.local %sw_local, %rd3;
	setp.ne.or.b64 %sw_jump, %sw_other, %rd3, %sw_local;
	setp.gt.or.u32 %sw_own1, %sw_lane, 30, %sw_part;
	or.pred %sw_own2, %sw_own1, %sw_jump;
	shfl.sync.down.b32 %f2, %f1, 1, 31, %sw_mask;
	@%sw_own2 ld.f32 %f2, [%rd5+4];"""
NEW = OLD.replace("ld.param.u64 %rd7, [args];", ADDED).replace("ld.f32 %f2, [%rd5+4];", SERVED)
KERNELGEN = Path(operators.__file__).parent / "ptx"
FAR = 1 << 20  # further than any thread of a block reaches

NEVER, FREE, RACE = None, Proved(), Proved(("no-lane-race",))
ABOVE = {
    "": FREE,
    "st.f32 [%rd6+64], %f5;": RACE,  # through another pointer, if lanes do not race
    "st.global.f32 [%rd6], %f5;": RACE,
    "st.f32 [%rd6+64], %f5;\nst.f32 [%rd6+68], %f5;": RACE,  # which count as one
    "st.f32 [%rd6+64], %f5;\nst.f32 [%rd5+68], %f5;": NEVER,
    "st.f32 [%rd5+64], %f5;\nst.f32 [%rd5+68], %f5;": NEVER,
    "st.f32 [%rd5], %f5;": NEVER,  # lane i + 1 need not have seen lane i's
    "st.f32 [%rd5+4], %f5;": NEVER,
    f"st.f32 [%rd5+{FAR}], %f5;": NEVER,  # another thread may have another pointer
    "st.f32 [%rd5], %f5;\nbar.sync 0;": FREE,
    "ld.global.u64 %rd9, [%rd1];\nst.f32 [%rd9], %f5;": NEVER,  # the same pointer again
    "ld.global.u64 %rd9, [%rd1+8];\nst.f32 [%rd9], %f5;": RACE,
    "st.shared.f32 [%r1], %f5;": NEVER,  # a generic address may lie there
    "st.shared.f32 [%r1], %f5;\nbar.sync 0;": FREE,
    "st.shared.f32 [%r1], %f5;\nmembar.gl;": NEVER,
    "st.shared::cluster.f32 [%r1], %f5;\nbar.sync 0;": NEVER,  # another block's
    "atom.shared.add.u32 %r2, [%r1], 1;\nbar.sync 0;": NEVER,  # not followed
    "bar.sync 0;\nst.shared.f32 [%r1], %f5;": NEVER,
    "st.local.f32 [%r1], %f5;": NEVER,  # not followed
    "selp.b64 %rd9, %rd4, %rd3, %p1;\nst.f32 [%rd9], %f5;": NEVER,
    "membar.gl;": RACE,
}
BETWEEN = {
    f"st.f32 [%rd5+{FAR}], %f5;": NEVER,
    "st.local.f32 [%r1], %f5;": NEVER,
    "st.f32 [%rd5], %f5;": NEVER,  # hits what the next lane has read
    "st.f32 [%rd6], %f5;": NEVER,
    "st.global.f32 [%rd6], %f5;": NEVER,
    "st.shared.f32 [%r1], %f5;": NEVER,
    "membar.gl;": NEVER,
    "bar.sync 0;": NEVER,
}


def with_lines(text: str, above: str = "", between: str = "") -> str:
    return text.replace("ABOVE", above).replace("BETWEEN", between)


@pytest.mark.parametrize(
    ("line", "between", "answer"),
    [*((line, False, a) for line, a in ABOVE.items()), *((n, True, a) for n, a in BETWEEN.items())],
)
def test_a_line_beside_the_loads(line: str, between: bool, answer: Proved | None) -> None:
    above, below = ("", line) if between else (line, "")
    texts = [with_lines(text, above, below) for text in (OLD, NEW)]
    outcome = judged(*texts)
    assert outcome == answer if answer is not None else not isinstance(outcome, Proved)
    if answer == RACE:
        assert not isinstance(judged(*texts, assume=DEFAULT - {"no-lane-race"}), Proved)


WRONG = {
    "no test of the space": ("isspacep.local %sw_local, %rd3;", "setp.ne.u32 %sw_local, %r1, %r1;"),
    "the test is not used": (
        "setp.ne.or.b64 %sw_jump, %sw_other, %rd3, %sw_local;",
        "setp.ne.b64 %sw_jump, %sw_other, %rd3;",
    ),
    "the test is inverted": ("%rd3, %sw_local;", "%rd3, !%sw_local;"),
    "another space": ("isspacep.local", "isspacep.shared"),
    "all of generic memory but it": ("isspacep.local", "isspacep.global"),
    "another pointer is tested": ("%sw_local, %rd3;", "%sw_local, %rd4;"),
    "the argument block is tested": ("%sw_local, %rd3;", "%sw_local, %rd1;"),
    "another pointer is compared": ("%sw_other, %rd3, %sw_local", "%sw_other, %rd4, %sw_local"),
    "another pointer is sent": ("{%sw_low, %sw_high}, %rd3", "{%sw_low, %sw_high}, %rd4"),
    "half of it is compared": ("{%sw_there1, %sw_there2}", "{%sw_there1, %sw_high}"),
    "another lane's is compared": ("%sw_there1, %sw_low, 1", "%sw_there1, %sw_low, 2"),
    "it need not be the same": ("setp.ne.or.b64", "setp.eq.or.b64"),
    "either of both tests": ("setp.ne.or.b64", "setp.ne.and.b64"),
    "the other lane's number is not tested": ("%sw_lane, 30,", "%sw_lane, 31,"),
    "another lane's value is taken": ("%f2, %f1, 1,", "%f2, %f1, 2,"),
    "another pointer is loaded": ("ld.global.u64 %rd3, [%rd1];", "ld.global.u64 %rd3, [%rd1+8];"),
    "the own load is another": ("@%sw_own2 ld.f32 %f2, [%rd5+4]", "@%sw_own2 ld.f32 %f2, [%rd6+4]"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_test_is_refused(what: str) -> None:
    right, wrong = WRONG[what]
    assert NEW.count(right) == 1
    assert not isinstance(judged(with_lines(OLD), with_lines(NEW.replace(right, wrong))), Proved)


def test_a_test_of_the_first_text_is_the_same_in_the_second() -> None:
    """Whether an address lies in a space is a function of the address."""
    ask = "isspacep.SPACE %p1, %rd3;\n@%p1 mov.f32 %f5, 0f40000000;\nst.f32 [%rd6+512], %f5;"
    old = with_lines(OLD, ask.replace("SPACE", "local"))
    assert judged(old, old.replace("%p1", "%p2")) == Proved()
    assert not isinstance(judged(old, with_lines(OLD, ask.replace("SPACE", "shared"))), Proved)


# Quotients, remainders and pointers of GCC's OpenACC, with values that one lane has loaded for all.
# Where GCC leaves it to ptxas whether a product and a sum are fused, the proof says so.
FORMS = {
    ("collapsed-gcc", "paper", "keep"): {"lockstep-iterations", "no-lane-race"},
    ("collapsed-gcc", "early", "keep"): {"lockstep-iterations", "no-lane-race"},
    ("collapsed-gcc", "paper", "uniform"): {"no-lane-race"},
    ("wavelet-gcc", "paper", "keep"): {"lockstep-iterations", "no-lane-race", "same-contraction"},
    ("wavelet-gcc", "paper", "uniform"): {"no-lane-race", "same-contraction"},
    ("jacobi-gcc", "early", "keep"): {"lockstep-iterations", "no-lane-race"},
    ("jacobi-gcc", "paper", "uniform"): {"no-lane-race"},
    ("gameoflife", "paper", "keep"): {"lockstep-iterations", "no-lane-race", "same-contraction"},
    ("gaussblur", "early", "keep"): {"lockstep-iterations", "no-lane-race", "same-contraction"},
    ("jacobi", "paper", "versioned"): {"lockstep-iterations", "no-lane-race", "same-contraction"},
    ("whispering", "paper", "keep"): {"lockstep-iterations", "no-lane-race", "same-contraction"},
}
DROPPED = (
    "or.pred %sw_own3, %sw_own2, %sw_jump1;",  # a quotient
    "or.pred %sw_own4, %sw_own3, %sw_jump2;",  # a remainder
    "or.pred %sw_own5, %sw_own4, %sw_jump3;",  # the pointer
)


def compared(before: str, after: str) -> Outcome:
    """The kernels, which GCC declares before it defines them."""
    old, new = parse(before), parse(after)
    return validate((old, old.kernels[0]), (new, new.kernels[0]))


@cache
def shuffled(name: str, scheme: str, form: str) -> tuple[str, str]:
    folder = HERE / "ptx" if name.endswith("-gcc") else KERNELGEN / "gcc"
    text = (folder / f"{name}.ptx").read_text()
    options = Options("force", scheme=scheme, form=form, rewrites=("uniform-loops", "shuffle"))
    return text, optimize(text, options).text


@pytest.mark.parametrize(("name", "scheme", "form"), FORMS)
def test_what_gcc_compiles(name: str, scheme: str, form: str) -> None:
    before, after = shuffled(name, scheme, form)
    assert "isspacep.local" in after
    outcome = compared(before, after)
    assert isinstance(outcome, Proved)
    assert {*outcome.assumptions} == FORMS[name, scheme, form]


@pytest.mark.parametrize("line", DROPPED)
def test_a_test_is_dropped(line: str) -> None:
    before, after = shuffled("collapsed-gcc", "paper", "keep")
    left, known, _ = line.removeprefix("or.pred ").split(", ")
    assert line in after
    wrong = after.replace(line, f"mov.pred {left}, {known};")
    assert not isinstance(compared(before, wrong), Proved)


BROADCAST = "shfl.sync.idx.b32\t%r27, %r27, 0, 31, 0xffffffff;"


@pytest.mark.parametrize(
    "other",
    [
        "",  # each lane has what it had
        BROADCAST.replace("0xffffffff", "0x0000ffff"),
        BROADCAST.replace("31", "0x101f"),  # half warps have a value each
        BROADCAST.replace("%r27, 0,", "%r27, %r78,"),
        BROADCAST.replace("idx", "up"),
    ],
    ids=["as it was", "for a half warp", "half by half", "from lane to lane", "upwards"],
)
def test_what_not_all_lanes_have_from_one(other: str) -> None:
    """It may be another number in the next lane, and no test compares it."""
    texts = shuffled("collapsed-gcc", "paper", "keep")
    assert all(BROADCAST in text for text in texts)
    assert not isinstance(compared(*(t.replace(BROADCAST, other) for t in texts)), Proved)


# In the loop of `jacobi`, the first text needs the sums that are made of %r40, and not %r40 itself.
LOADED = "ld.u64\t%r40, [%r130];"
LOOP = "$L5:\n"
STORED = "st.f32\t[%r101], %r172;"
COUNTED = "add.u64\t%r101, %r101, 128;"
SECOND_ONLY = {
    "changed before the loop": (LOOP, f"add.u64 %r40, %r40, 128;\n{LOOP}"),
    "changed in the loop": (COUNTED, f"add.u64 %r40, %r40, 128;\n{COUNTED}"),
    "changed once it is tested": (STORED, f"{STORED}\nmov.u64 %r40, %r101;"),
    "another address": (LOADED, "ld.u64\t%r40, [%r130+8];"),
    "tested in another space": ("isspacep.local %sw_local1", "isspacep.shared %sw_local1"),
    "another pointer is tested": ("%sw_local1, %r40;", "%sw_local1, %r117;"),
    "a sum is tested": ("%sw_local1, %r40;", "%sw_local1, %r101;"),
}
ARRAY = "ld.u64\t%r140, [%r117+8];"
BOTH = {
    "nothing": (LOOP, LOOP, True),
    "the array that is read is written": (ARRAY, "ld.u64\t%r140, [%r117];", False),
    "a store before the loads": (LOOP, f"{LOOP}st.f32\t[%r66+-8], %r24;\n", False),
    "a store to the other array": (LOOP, f"{LOOP}st.f32\t[%r101], %r24;\n", True),
    "an inner store": ("add.f32\t%r153, %r154, %r155;", "st.f32 [%r66+4], %r24;", False),
    "two writers": (LOOP, f"@%r179 add.u64 %r40, %r40, 8;\n{LOOP}", False),
}


@pytest.mark.parametrize("what", SECOND_ONLY)
def test_a_register_that_the_first_text_no_longer_needs(what: str) -> None:
    before, after = shuffled("jacobi", "paper", "keep")
    right, wrong = SECOND_ONLY[what]
    assert after.count(right) == 1
    assert not isinstance(compared(before, after.replace(right, wrong)), Proved)


@pytest.mark.parametrize("what", BOTH)
def test_a_line_in_both_texts(what: str) -> None:
    line, other, proved = BOTH[what]
    texts = shuffled("jacobi", "paper", "keep")
    assert all(text.count(line) == 1 for text in texts)
    outcome = compared(*(text.replace(line, other) for text in texts))
    assert isinstance(outcome, Proved) == proved
