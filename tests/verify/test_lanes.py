"""From which lane a shuffle takes its value: the check of written lines and the interpreter, two
readings of the manual, agree."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ptxsw.parser import parse
from ptxsw.simt import launch
from ptxsw.verify.lanes import source_lane
from tests.heads import head

TEXT = (
    head("7.0", "sm_70")
    + """.visible .entry move(.param .u64 out, .param .u32 by, .param .u32 clamp)
{
	.reg .b32 %r<6>; .reg .b64 %rd<4>;
	ld.param.u64 %rd1, [out];
	ld.param.u32 %r1, [by];
	ld.param.u32 %r2, [clamp];
	mov.u32 %r3, %laneid;
	mul.wide.u32 %rd2, %r3, 4;
	add.s64 %rd3, %rd1, %rd2;
	shfl.sync.MODE.b32 %r4, %r3, %r1, %r2, -1;
	st.global.u32 [%rd3], %r4;
	ret;
}
"""
)


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
def test_lanes_agree_with_the_interpreter(mode: str) -> None:
    module = parse(TEXT.replace("MODE", mode))
    distances = (0, 1, 2, 15, 16, 31, 33, 0xFFFFFFFF)
    clamps = (0, 31, 7, 0x1000, 0x101F, 0x181F, 0x1C1B)
    for by, clamp in itertools.product(distances, clamps):
        done = launch(module, "move", 1, 32, [np.zeros(32, np.uint32), by, clamp])
        expected = [source_lane(mode, lane, by, clamp) for lane in range(32)]
        assert done.buffers[0].tolist() == expected, (by, clamp)
