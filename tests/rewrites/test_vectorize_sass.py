"""What ptxas makes of vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from ptxsw.cost.machine_code import MachineInstruction
from ptxsw.cost.sass import Sass
from ptxsw.driver.pipeline import Options, optimize
from tests.cost.conftest import made, tools

__all__ = ["made", "tools"]  # fixtures

# What nvcc 13.0 makes of
#     struct P { float x, y, z, w, vx, vy, vz, m; };
#     P p = in[i]; out[i].x = p.x*dt; out[i].y = p.y+dt; out[i].z = p.z-dt; out[i].w = p.w+p.x;
PUSH = """.version {version}
.target {arch}
.address_size 64
.visible .entry push(.param .u64 in, .param .u64 out, .param .f32 dt, .param .u32 n)
{{
	.reg .pred 	%p<2>;
	.reg .f32 	%f<30>;
	.reg .b32 	%r<6>;
	.reg .b64 	%rd<8>;
	ld.param.u64 	%rd1, [in];
	ld.param.u64 	%rd2, [out];
	ld.param.f32 	%f1, [dt];
	ld.param.u32 	%r2, [n];
	mov.u32 	%r3, %ntid.x;
	mov.u32 	%r4, %ctaid.x;
	mov.u32 	%r5, %tid.x;
	mad.lo.s32 	%r1, %r4, %r3, %r5;
	setp.ge.s32 	%p1, %r1, %r2;
	@%p1 bra 	$L__BB0_2;
	cvta.to.global.u64 	%rd3, %rd1;
	mul.wide.s32 	%rd4, %r1, 32;
	add.s64 	%rd5, %rd3, %rd4;
	ld.global.f32 	%f2, [%rd5+4];
	ld.global.f32 	%f3, [%rd5+8];
	ld.global.f32 	%f4, [%rd5+12];
	ld.global.f32 	%f5, [%rd5];
	{more_loads}
	mul.f32 	%f6, %f5, %f1;
	cvta.to.global.u64 	%rd6, %rd2;
	add.s64 	%rd7, %rd6, %rd4;
	st.global.f32 	[%rd7], %f6;
	add.f32 	%f7, %f2, %f1;
	st.global.f32 	[%rd7+4], %f7;
	sub.f32 	%f8, %f3, %f1;
	st.global.f32 	[%rd7+8], %f8;
	add.f32 	%f9, %f5, %f4;
	st.global.f32 	[%rd7+12], %f9;
	{more_stores}
$L__BB0_2:
	ret;
}}
"""
WHOLE = {
    "more_loads": "\n".join(f"ld.global.f32 %f{n + 10}, [%rd5+{4 * n}];" for n in range(4, 8)),
    "more_stores": "\n".join(
        f"add.f32 %f{n + 20}, %f{n + 10}, %f1;\nst.global.f32 [%rd7+{4 * n}], %f{n + 20};"
        for n in range(4, 8)
    ),
}
PART = {"more_loads": "", "more_stores": ""}


def straight(instructions: Sequence[MachineInstruction]) -> tuple[int, int, int]:
    """Up to the first exit of all threads, where branches are not taken: how many instructions,
    LDG and STG there are."""
    end = next(n for n, i in enumerate(instructions) if i.root == "EXIT" and not i.predicate)
    roots = [i.root for i in instructions[: end + 1]]
    return len(roots), roots.count("LDG"), roots.count("STG")


@pytest.mark.parametrize(
    ("arch", "version", "parts", "before", "after"),
    [
        ("sm_75", "8.0", PART, (4, 4), (1, 1)),
        ("sm_80", "8.0", PART, (4, 4), (1, 1)),
        ("sm_90", "8.0", PART, (4, 4), (1, 1)),
        ("sm_100", "8.8", PART, (4, 4), (1, 1)),
        ("sm_80", "8.0", WHOLE, (8, 8), (2, 2)),
        ("sm_100", "8.7", WHOLE, (8, 8), (2, 2)),
        ("sm_100", "8.8", WHOLE, (8, 8), (1, 1)),
        ("sm_120", "8.8", WHOLE, (8, 8), (1, 1)),
    ],
)
def test_a_struct(
    made: Callable[[str, str], Sass],
    arch: str,
    version: str,
    parts: dict[str, str],
    before: tuple[int, int],
    after: tuple[int, int],
) -> None:
    text = PUSH.format(version=version, arch=arch, **parts)
    new = optimize(text, Options(rewrites=("vectorize",))).text
    count, *accesses = straight(made(text, arch).kernel("push").instructions)
    new_count, *new_accesses = straight(made(new, arch).kernel("push").instructions)
    assert (tuple(accesses), tuple(new_accesses)) == (before, after)
    assert new_count <= count + 3
