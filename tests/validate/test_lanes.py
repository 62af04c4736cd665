"""From which lane a shuffle takes its value: `validate` and the interpreter, two readings of the
manual, agree."""

from __future__ import annotations

import numpy as np
import pytest

from ptxsw.parser import parse
from ptxsw.ptx.ir import Reg
from ptxsw.simt import launch
from ptxsw.terms.evaluate import evaluate
from ptxsw.terms.terms import Terms
from ptxsw.validate.other_lane import lane_number
from ptxsw.validate.outcome import GiveUp
from ptxsw.validate.warp import source
from tests.heads import head

TEXT = (
    head("7.0", "sm_70")
    + """.visible .entry move(.param .u64 out, .param .u32 by)
{
	.reg .b32 %r<6>; .reg .b64 %rd<4>;
	ld.param.u64 %rd1, [out];
	ld.param.u32 %r1, [by];
	mov.u32 %r3, %laneid;
	mul.wide.u32 %rd2, %r3, 4;
	add.s64 %rd3, %rd1, %rd2;
	SUM
	shfl.sync.MODE.b32 %r4, %r3, BY, CLAMP, -1;
	st.global.u32 [%rd3], %r4;
	ret;
}
"""
)
WARP = range(32)


def told(mode: str, by: int, clamp: int, total: str = "") -> list[int]:
    """From which lane each takes, as `validate` tells: -1 where it tells nothing. `total` makes
    the number of a lane out of `by` and this lane's own."""
    text = TEXT.replace("MODE", mode).replace("BY", "%r2" if total else str(by))
    module = parse(text.replace("CLAMP", str(clamp)).replace("SUM", total))
    shuffle = next(i for i in module.kernels[0].body.instructions if i.opcode == "shfl")
    terms = Terms()
    lane, number = lane_number(terms), terms.const(by, 32)
    sums = {"add": terms.add(lane, number), "sub": terms.sub(number, lane)}
    values = {Reg("%r2"): sums.get(total[:3]), Reg("%r3"): lane}
    _, _, places = source(terms, shuffle, lambda reg: values[reg])  # type: ignore[arg-type, return-value]
    chosen = []
    for own in WARP:
        there = [p for p in places if evaluate(p.exists(terms), {lane: own})]
        assert len(there) <= 1
        chosen.append(evaluate(there[0].number(terms, lane), {lane: own}) if there else -1)
    taken = launch(module, "move", 1, 32, [np.zeros(32, np.uint32), by & 0xFFFFFFFF])
    for own, lanes in enumerate(zip(chosen, taken.buffers[0].tolist(), strict=True)):
        assert lanes[0] in (-1, lanes[1]), (mode, by, own)
    return chosen


@pytest.mark.parametrize("by", [1, 2, 15, 16, 31])
def test_neighbours(by: int) -> None:
    assert told("down", by, 31) == [n + by if n + by < 32 else -1 for n in WARP]
    assert told("up", by, 0) == [n - by if n >= by else -1 for n in WARP]


ADDED = "add.s32 %r2, %r3, %r1;"
MIRRORED = "sub.s32 %r2, %r1, %r3;"


@pytest.mark.parametrize("by", [0, 1, 16, 31, 33, -1, -31])
def test_lanes_by_their_number(by: int) -> None:
    """The low five bits count; so all lanes take from some lane."""
    assert told("idx", by, 31, ADDED) == [(n + by) % 32 for n in WARP]
    assert told("idx", by, 31, MIRRORED) == [(by - n) % 32 for n in WARP]


@pytest.mark.parametrize(
    ("mode", "by", "clamp"),
    [("down", 32, 31), ("down", 0, 31), ("down", 1, 7), ("down", 1, 0x181F), ("up", 1, 31),
     ("up", 1, 0x1000), ("up", 33, 0), ("bfly", 1, 31), ("idx", 3, 31), ("idx", 3, 7)],
)  # fmt: skip
def test_other_shuffles_are_not_followed(mode: str, by: int, clamp: int) -> None:
    with pytest.raises(GiveUp, match="is not followed"):
        told(mode, by, clamp)
