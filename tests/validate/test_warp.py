"""What a shuffle brings is proved lane by lane; a shuffle that is wrong by one detail is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ptxsw.parser import parse
from ptxsw.ptx.errors import Unsupported
from ptxsw.simt import RunError, launch
from ptxsw.validate import Outcome, Proved, validate
from tests.heads import head
from tests.parsed import parsed
from tests.validate.stories import Twin as T

HEAD = (
    head("8.3")
    + """.visible .entry k(.param .u64 a, .param .u64 b, .param .u32 n)
{
.reg .pred %p<8>;
.reg .f32 %f<8>;
.reg .b32 %r<20>;
.reg .b64 %rd<12>;
.reg .pred %sw_rows, %sw_part, %sw_own, %sw_wrap;
.reg .b32 %sw_x, %sw_y, %sw_z, %sw_lane, %sw_mask, %sw_src, %sw_index, %sw_near;
"""
)
ROWS = """
mov.u32 %sw_x, %ntid.x;
mov.u32 %sw_y, %ntid.y;
mov.u32 %sw_z, %ntid.z;
and.b32 %sw_x, %sw_x, 31;
or.b32 %sw_y, %sw_y, %sw_z;
setp.ne.u32 %sw_rows, %sw_x, 0;
setp.ne.and.u32 %sw_rows, %sw_y, 1, %sw_rows;
mov.u32 %sw_lane, %laneid;
"""
START = """
ld.param.u64 %rd1, [a];
ld.param.u64 %rd2, [b];
ld.param.u32 %r1, [n];
cvta.to.global.u64 %rd3, %rd1;
cvta.to.global.u64 %rd4, %rd2;
mov.u32 %r2, %tid.x;
mov.u32 %r3, %tid.y;
mad.lo.u32 %r4, %r3, 64, %r2;
setp.ge.u32 %p1, %r2, %r1;
@%p1 bra END;
mul.wide.u32 %rd5, %r4, 4;
add.s64 %rd6, %rd3, %rd5;
add.s64 %rd7, %rd4, %rd5;
"""
LOADS = """
ld.global.nc.f32 %f1, [%rd6];
ld.global.nc.f32 %f2, [%rd6+4];
"""
SHUFFLE = """
ld.global.nc.f32 %f1, [%rd6];
mov.b32 %sw_src, %f1;
activemask.b32 %sw_mask;
setp.ne.or.b32 %sw_part, %sw_mask, -1, %sw_rows;
setp.gt.or.u32 %sw_own, %sw_lane, 30, %sw_part;
shfl.sync.down.b32 %f2, %sw_src, 1, 31, %sw_mask;
@%sw_own ld.global.nc.f32 %f2, [%rd6+4];
"""
END = """
sub.f32 %f3, %f2, %f1;
st.global.f32 [%rd7], %f3;
END:
ret;
}
"""

BEFORE = HEAD + START + LOADS + END
AFTER = HEAD + ROWS + START + SHUFFLE + END
PLAIN = BEFORE.replace(".nc", ""), AFTER.replace(".nc", "")

TWINS = (
    T("two lanes on", "%sw_src, 1, 31", "%sw_src, 2, 31"),
    T(
        "a lane down",
        "shfl.sync.down.b32 %f2, %sw_src, 1, 31",
        "shfl.sync.up.b32 %f2, %sw_src, 1, 0",
    ),
    T("exchanged by pairs", "shfl.sync.down.b32", "shfl.sync.bfly.b32"),
    T("the last lane takes its own", "%sw_lane, 30", "%sw_lane, 31"),
    T("no own load", "@%sw_own ld.global.nc.f32 %f2, [%rd6+4];\n", ""),
    T("the own load of others", "@%sw_own ld", "@!%sw_own ld"),
    T("another own load", "%f2, [%rd6+4]", "%f2, [%rd6+8]"),
    T("rows may wrap", "%sw_mask, -1, %sw_rows", "%sw_mask, -1, %p1"),
    T(
        "lanes may be missing",
        "setp.ne.or.b32 %sw_part, %sw_mask, -1, %sw_rows;",
        "mov.pred %sw_part, %sw_rows;",
    ),
    T("some lanes may be missing", "%sw_mask, -1, %sw_rows", "%sw_mask, 0x7fffffff, %sw_rows"),
    T("only whole rows of 16", "%sw_x, %sw_x, 31", "%sw_x, %sw_x, 15"),
    T("blocks of several rows", "%sw_y, 1, %sw_rows", "%sw_y, 3, %sw_rows"),
    T("a segment of 16", "1, 31, %sw_mask", "1, 0x101f, %sw_mask"),
    T("the address is shuffled", "mov.b32 %sw_src, %f1", "mov.b32 %sw_src, %r4"),
    T("asked before the branch", "activemask.b32 %sw_mask;\n", ""),
    T("a guarded shuffle", "shfl.sync", "@!%sw_part shfl.sync"),
    T(
        "the sum for the load",
        "mov.b32 %sw_src, %f1",
        "add.f32 %f4, %f1, %f1;\nmov.b32 %sw_src, %f4",
    ),
    T("the other element", "%f1, [%rd6]", "%f1, [%rd6+4]"),
    T("of another row", "mad.lo.u32 %r4, %r3, 64", "mad.lo.u32 %r4, %r3, 63"),
)
MASKED = "asked before the branch"


def judged(before: str, after: str, **options: Any) -> Outcome:
    first, second = parse(before), parse(after)
    return validate((first, first.kernels[0]), (second, second.functions[0]), **options)


def twin(of: T, text: str = AFTER) -> str:
    assert of.find in text, of.name
    if of.name == MASKED:
        text = text.replace("ld.param.u64 %rd1", "activemask.b32 %sw_mask;\nld.param.u64 %rd1", 1)
        return text.replace("%sw_mask;\nsetp", "%sw_mask;\nsetp").replace(
            "mov.b32 %sw_src, %f1;\nactivemask.b32 %sw_mask;\n", "mov.b32 %sw_src, %f1;\n"
        )
    return text.replace(of.find, of.replace, 1)


def test_a_shuffle_of_what_nobody_writes() -> None:
    assert judged(BEFORE, AFTER) == Proved()


def test_a_shuffle_of_what_may_be_written() -> None:
    """Nothing is stored before, nor ordered; more in test_shared_views.py."""
    assert judged(*PLAIN) == Proved()


def test_in_a_loop_lanes_have_to_be_in_the_same_iteration() -> None:
    def looping(text: str, step: int = 127) -> str:
        text = text.replace("mul.wide.u32 %rd5", "mov.u32 %r5, 0;\nLOOP:\nmul.wide.u32 %rd5")
        again = f"add.u32 %r5, %r5, 1;\nadd.u32 %r4, %r4, {step};\nsetp.lt.u32 %p2, %r5, %r1;\n"
        text = text.replace("END:", again + "@%p2 bra LOOP;\nEND:")
        return text.replace(
            "mad.lo.u32 %r4, %r3, 64", "and.b32 %r3, %r3, 7;\nmad.lo.u32 %r4, %r3, 64"
        )

    guarded = looping(AFTER).replace(
        "setp.gt.or.u32 %sw_own",
        "setp.gt.u32 %sw_wrap, %r4, 4294967290;\nor.pred %sw_part, %sw_part, %sw_wrap;\n"
        "setp.gt.or.u32 %sw_own",
    )
    assert judged(looping(BEFORE), guarded) == Proved(("lockstep-iterations",))
    assert not isinstance(judged(looping(BEFORE), looping(AFTER)), Proved)
    # The index of a whole warp's first lane stays a multiple of 32: it does not wrap in the warp.
    assert isinstance(judged(looping(BEFORE, 128), looping(AFTER, 128)), Proved)


@pytest.mark.parametrize("of", TWINS, ids=lambda t: t.name)
def test_what_is_wrong_is_refused(of: T) -> None:
    assert not isinstance(judged(BEFORE, twin(of)), Proved)


ONES = T("a mask of ones", "31, %sw_mask", "31, -1")
LATE = "END:\nst.global.f32 [%rd4+2048], %f4;\n"


def test_a_mask_of_ones_does_not_wait_for_lanes_that_have_exited() -> None:
    """Those that have left for other code may be waited for, but come too late to be asked."""
    assert judged(BEFORE, twin(ONES)) == Proved()
    before, after = (text.replace("END:\n", LATE) for text in (BEFORE, twin(ONES)))
    assert judged(before, AFTER.replace("END:\n", LATE)) == Proved()
    assert not isinstance(judged(before, after), Proved)


WRAPPING = BEFORE.replace("64, %r2", "%r1, %r2")
TWICE = """
ld.global.nc.f32 %f1, [%rd6];
mov.b32 %sw_src, %f1;
setp.gt.u32 %sw_wrap, %r4, 4294967290;
activemask.b32 %sw_mask;
setp.ne.or.b32 %sw_part, %sw_mask, -1, %sw_rows;
vote.sync.any.pred %sw_own, %sw_wrap, %sw_mask;
or.pred %sw_part, %sw_part, %sw_own;
@%sw_part bra SLOW;
setp.gt.u32 %sw_own, %sw_lane, 30;
shfl.sync.down.b32 %f2, %sw_src, 1, 31, -1;
@%sw_own ld.global.nc.f32 %f2, [%rd6+4];
bra.uni DONE;
SLOW:
ld.global.nc.f32 %f2, [%rd6+4];
DONE:
"""
VERSIONED = HEAD + ROWS + START.replace("64, %r2", "%r1, %r2") + TWICE + END
COPIES = (
    T("the copies change places", "@%sw_part bra", "@!%sw_part bra"),
    T("no test", "@%sw_part bra SLOW;\n", ""),
    T(
        "each lane by itself",
        "vote.sync.any.pred %sw_own, %sw_wrap, %sw_mask",
        "mov.pred %sw_own, %sw_wrap",
    ),
    T("only if all wrap", "vote.sync.any", "vote.sync.all"),
    T("a vote on something else", "%sw_own, %sw_wrap, %sw_mask", "%sw_own, %sw_rows, %sw_mask"),
    T("the vote is not asked", "or.pred %sw_part, %sw_part, %sw_own;\n", ""),
    T(
        "only the vote is asked",
        "or.pred %sw_part, %sw_part, %sw_own",
        "mov.pred %sw_part, %sw_own",
    ),
    T("the last lane", "%sw_lane, 30", "%sw_lane, 31"),
    T("two lanes on", "%sw_src, 1, 31", "%sw_src, 2, 31"),
    T("the slow copy is empty", "SLOW:\nld.global.nc.f32 %f2, [%rd6+4];", "SLOW:"),
    T(
        "the slow copy loads something else",
        "SLOW:\nld.global.nc.f32 %f2, [%rd6+4]",
        "SLOW:\nld.global.nc.f32 %f2, [%rd6]",
    ),
    T(
        "some go the slow way by themselves",
        "@%sw_part bra SLOW;",
        "@%sw_part bra SLOW;\n@%sw_wrap bra SLOW;",
    ),
    T("wraps nobody asks for", "4294967290", "4294967295"),
)


def test_a_stretch_that_stands_twice_under_a_branch_of_the_warp() -> None:
    assert judged(WRAPPING, VERSIONED) == Proved()


def test_a_vote_of_all_lanes_asks_those_that_have_not_exited() -> None:
    of = T("a vote with a mask of ones", "%sw_wrap, %sw_mask", "%sw_wrap, -1")
    assert judged(WRAPPING, twin(of, VERSIONED)) == Proved()
    before, after = (text.replace("END:\n", LATE) for text in (WRAPPING, twin(of, VERSIONED)))
    assert not isinstance(judged(before, after), Proved)


@pytest.mark.parametrize("of", COPIES, ids=lambda t: t.name)
def test_wrong_copies_are_refused(of: T) -> None:
    assert not isinstance(judged(WRAPPING, twin(of, VERSIONED)), Proved)


STORED = """
ld.global.f32 %f1, [%rd6];
st.global.f32 [%rd6], %f5;
ld.global.f32 %f2, [%rd6+4];
"""


def test_a_store_between_hits_the_next_lane() -> None:
    """It misses this lane's load, and hits the one whose value the lane before would take."""
    before = PLAIN[0].replace(LOADS.replace(".nc", ""), STORED)
    shuffled = SHUFFLE.replace(".nc", "").replace(
        "activemask", "st.global.f32 [%rd6], %f5;\nactivemask"
    )
    early = SHUFFLE.replace(".nc", "") + "st.global.f32 [%rd6], %f5;\n"
    for after in (shuffled, early):
        assert not isinstance(judged(before, HEAD + ROWS + START + after + END), Proved)


def test_own_stores_come_before() -> None:
    """What a lane has stored it has to see, and another lane may have loaded before."""
    store = "st.global.f32 [%rd6+4], %f5;\n"
    before = PLAIN[0].replace("ld.global.f32 %f1", store + "ld.global.f32 %f1")
    after = PLAIN[1].replace("ld.global.f32 %f1", store + "ld.global.f32 %f1")
    assert not isinstance(judged(before, after), Proved)


DECIDES = "setp.lt.f32 %p2, %f2, %f1;\n@%p2 bra LESS;\nst.global.f32 [%rd7+2048], %f1;\nLESS:\n"


@pytest.mark.parametrize(
    ("find", "replace", "right"),
    [
        ("", "", True),
        ("lt.f32 %p2", "le.f32 %p2", False),
        ("%f2, %f1;\n@", "%f1, %f2;\n@", False),
        ("@%p2 bra", "@!%p2 bra", False),
        ("1, 31, %sw_mask", "2, 31, %sw_mask", False),
    ],
)
def test_a_branch_on_what_came_by_a_shuffle(find: str, replace: str, right: bool) -> None:
    """Both texts compare equal numbers, so they go the same way."""
    before, after = (text.replace("sub.f32", f"{DECIDES}sub.f32") for text in (BEFORE, AFTER))
    assert isinstance(judged(before, after.replace(find, replace)), Proved) == right


def test_what_is_kept_of_many_stores() -> None:
    """Each value is made of those before: they are compared from below, each but once."""
    iteration = "ld.global.f32 %f1, [%rd6];\nld.global.f32 %f2, [%rd6+4];\nsub.f32 %f3, %f2, %f1;\n"
    rest = "ld.global.f32 %f4, [%rd7];\nadd.f32 %f3, %f3, %f4;\nst.global.f32 [%rd7], %f3;\n"
    on = "add.s64 %rd6, %rd6, 1024;\nadd.s64 %rd7, %rd7, 1024;\n"
    old = f"{iteration}{rest}{on}" * 5
    asked = SHUFFLE.replace(".nc", "").partition("activemask")[2].splitlines()
    shuffle = "\n".join(asked[2:])
    shuffled = iteration.replace(
        "ld.global.f32 %f2, [%rd6+4];", f"mov.b32 %sw_src, %f1;\n{shuffle}"
    )
    ask = "activemask" + "\n".join(asked[:2]) + "\n"
    texts = [
        HEAD + START + old + END,
        HEAD + ROWS + START + ask + f"{shuffled}{rest}{on}" * 5 + END,
    ]
    assert isinstance(judged(*texts), Proved)
    wrong = texts[1][::-1].replace("mov.b32 %sw_src, %f1;"[::-1], "mov.b32 %sw_src, %f4;"[::-1], 1)
    assert not isinstance(judged(texts[0], wrong[::-1]), Proved)


BASE = 1 << 26
BLOCKS = ((64, 1, 1), (48, 1, 1), (16, 4, 1), (32, 2, 1), (33, 1, 1), (16, 3, 1), (20, 2, 1))


def done(text: str, block: tuple[int, int, int], n: int) -> bytes | None:
    memory = np.random.default_rng(3).random(1024, dtype=np.float32)
    arguments = [BASE, BASE + 2048, n]
    try:
        result = launch(parsed(text), None, 1, block, arguments, memory={BASE: memory})
    except (RunError, Unsupported):
        return None
    return result.memory[BASE].tobytes()


# The last row wraps nowhere here, or the machine that is imitated keeps all lanes together.
SILENT = {"a mask of ones", "a guarded shuffle", MASKED, "blocks of several rows"}


def test_the_interpreter_sees_the_difference() -> None:
    for block in BLOCKS:
        assert done(AFTER, block, 64) == done(BEFORE, block, 64) is not None
    unseen = {
        of.name
        for of in TWINS
        if all(done(twin(of), b, n) == done(BEFORE, b, n) for b in BLOCKS for n in (64, 31, 32))
    }
    assert unseen <= SILENT
