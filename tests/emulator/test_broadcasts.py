"""What all lanes of a warp get of one, where lanes come on several paths."""

from __future__ import annotations

import numpy as np
import pytest

from ptxsw.driver.pipeline import Options, optimize
from ptxsw.emulator.run import emulate
from ptxsw.parser import parse
from ptxsw.simt import launch
from ptxsw.terms.show import show
from tests.heads import head
from tests.parsed import parsed

HEAD = (
    head("7.0", "sm_80")
    + """.visible .entry k(.param .u64 in, .param .u64 out)
{
	.reg .pred %p<9>; .reg .f32 %f<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
	ld.param.u64 %rd1, [in];
	ld.param.u64 %rd2, [out];
	mov.u32 %r1, %tid.x;
"""
)
HANDED_OVER = """	shfl.sync.idx.b32 %r3, %r2, 0, 31, 0xffffffff;
	mul.wide.u32 %rd3, %r3, 4;
	add.s64 %rd4, %rd1, %rd3;
	ld.global.f32 %f2, [%rd4];
"""
END = "\tret;\n}\n"
LANE_5 = "\tsetp.ne.u32 %p1, %r1, 5;\n"


def addresses(before: str) -> set[str]:
    """Where the load of what was handed over may go, over all paths."""
    module = parse(HEAD + before + HANDED_OVER + END)
    load = emulate(module, module.kernels[0]).accesses[-1]
    return {show(variant.address) for variant in load.variants}


@pytest.mark.parametrize(
    ("before", "found"),
    [
        ("mov.u32 %r2, 7;", {"0x1c + in"}),
        # Each path has a number of its own. In all lanes it is that of lane 0.
        (LANE_5 + "mov.u32 %r2, 2;\n@%p1 bra L;\nmov.u32 %r2, 1;\nL:", {"in + shfl << 0x2"}),
    ],
    ids=["one path", "each its own"],
)
def test_what_lane_0_hands_over(before: str, found: set[str]) -> None:
    assert {name.replace("#1", "").replace("#2", "") for name in addresses(before)} == found


ONLY_LANE_5 = (
    HEAD
    + LANE_5
    + "\tmov.u32 %r2, 2;\n\t@%p1 bra L;\n\tmov.u32 %r2, 1;\nL:\n\tld.global.f32 %f1, [%rd1+4];\n"
    + HANDED_OVER.replace("ld.global", "@%p1 bra D;\n\tld.global")
    + """	sub.f32 %f1, %f1, %f2;
	st.global.f32 [%rd2], %f1;
D:
"""
    + END
)


def test_a_lane_on_another_path_does_not_read_its_own_number() -> None:
    """Lane 5 has the number 1, and reads `in[2]`, for lane 0 has 2: no copy of `in[1]`."""
    made = optimize(ONLY_LANE_5, Options(mode="force")).text
    numbers = np.arange(8, dtype=np.float32) ** 2
    results = []
    for text in (ONLY_LANE_5, made):
        buffers = [numbers.copy(), np.zeros(1, np.float32)]
        results.append(launch(parsed(text), "k", (1,), 32, buffers).buffers[1][0])
    assert results == [-3.0, -3.0]
