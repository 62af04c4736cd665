"""How often machine code is executed, whatever ptxas unrolled, and how long it stalls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from ptxsw.cost.executions import executions, fallback_blocks
from ptxsw.cost.gpu import of_target
from ptxsw.cost.machine_code import Control, MachineInstruction, MachineKernel, Routine
from ptxsw.cost.sass import Sass
from ptxsw.cost.stalls import pace, stall_cycles
from ptxsw.flow.cfg import build
from ptxsw.flow.flow_graph import Block, FlowGraph
from ptxsw.parser import parse
from ptxsw.ptx.ir import Reg
from tests.cost.conftest import KERNELS
from tests.heads import head

Made = Callable[[str, str], Sass]

LOOP = (
    head()
    + """.visible .entry k(.param .u64 in, .param .u32 n)
{
	.reg .pred %p<4>;
	.reg .b32 %r<8>;
	.reg .f32 %f<8>;
	.reg .b64 %rd<4>;
	ld.param.u64 %rd1, [in];
	ld.param.u32 %r1, [n];
	mov.u32 %r2, 0;
	mov.f32 %f1, 0f00000000;
LOOP:
	PRAGMA
	ld.global.f32 %f2, [%rd1];
	mul.f32 %f3, %f2, %f2;
	st.global.f32 [%rd1], %f3;
	add.s64 %rd1, %rd1, 4;
	add.s32 %r2, %r2, 1;
	setp.lt.u32 %p1, %r2, BOUND;
	@%p1 bra LOOP;
	ret;
}
"""
)


def executed(made: Made, text: str, arch: str = "sm_80", trips: float = 16) -> Counter[str]:
    """Executions of each opcode, altogether."""
    kernel = made(text, arch).kernels[0]
    times = executions(kernel, build(parse(text).kernels[0].body), trips)
    found: Counter[str] = Counter()
    for instruction, often in zip(kernel.instructions, times, strict=True):
        found[instruction.root] += often  # type: ignore[assignment]
    return found


@pytest.mark.parametrize("pragma", ["", '.pragma "nounroll";'])
@pytest.mark.parametrize("bound", ["%r1", "4", "1000"])
def test_unrolling_changes_nothing(made: Made, pragma: str, bound: str) -> None:
    """One load, one product and one store for each of 16 iterations; in the machine code there are
    loops of one iteration, of four and a rest, or none at all."""
    found = executed(made, LOOP.replace("PRAGMA", pragma).replace("BOUND", bound))
    for opcode in ("LDG", "FMUL", "STG"):
        assert found[opcode] == pytest.approx(16, rel=0.25), found
    assert found["EXIT"] <= 2


def test_the_loops_are_those_of_the_ptx(made: Made) -> None:
    """nvcc made a loop of four iterations of five loads, and one for the rest."""
    found = executed(made, (KERNELS / "stencil.ptx").read_text())
    assert found["LDG"] == pytest.approx((20 + 5) * 16)
    assert found["STG"] == pytest.approx((4 + 1) * 16)


def test_a_routine_is_executed_where_it_is_called(made: Made) -> None:
    found = executed(made, (KERNELS / "quotient.ptx").read_text())
    assert found["CALL"] == found["RET"] > 1


SLOW = """	ret;
$sw_overlap1:
	ld.global.f32 %f2, [%rd1];
	st.global.f32 [%rd1+8], %f2;
	ret;"""
TEST = "setp.eq.u32 %p2, %r1, 7;\n@%p2 bra $sw_overlap1;\n"


def test_the_way_of_a_failed_test_does_not_count(made: Made) -> None:
    text = LOOP.replace("LOOP:", f"{TEST}LOOP:").replace("\tret;", SLOW)
    text = text.replace("PRAGMA", "").replace("BOUND", "%r1")
    assert fallback_blocks(build(parse(text).kernels[0].body))
    counted = executed(made, text.replace("$sw_overlap1", "$other"))
    assert executed(made, text)["STG"] == counted["STG"] - 1


MERGED = (
    head()
    + """.visible .entry k(.param .u64 in)
{
	.reg .pred %p<2>;
	.reg .b32 %r<4>;
	.reg .f32 %f<8>;
	.reg .b64 %rd<4>;
	ld.param.u64 %rd1, [in];
	cvt.u32.u64 %r1, %rd1;
	and.b32 %r1, %r1, 7;
	setp.ne.s32 %p1, %r1, 0;
	@%p1 bra $sw_slow1;
	ld.global.v2.f32 {%f1, %f2}, [%rd1];
	bra.uni $sw_done1;
$sw_slow1:
	ld.global.f32 %f1, [%rd1];
	ld.global.f32 %f2, [%rd1+4];
$sw_done1:
	ld.global.f32 %f3, [%rd1];
	ld.global.f32 %f4, [%rd1+4];
	fma.rn.f32 %f1, %f1, %f3, %f2;
	add.f32 %f1, %f1, %f4;
	st.global.f32 [%rd1+8], %f1;
	ret;
}
"""
)


def test_what_serves_both_ways_counts(made: Made) -> None:
    """ptxas makes one load of that of a failed test and the one behind it, for all threads: then it
    is no way of a failed test, and neither is what stands beside it."""
    found = executed(made, MERGED)
    assert (found["LDG"], found["STG"], found["EXIT"]) == (3, 1, 1)


@pytest.mark.parametrize("access", [True, False])
def test_a_product_that_is_made_again_is_no_copy_of_the_loop(access: bool) -> None:
    """ptxas makes one once more where it is needed again, to save a register. Where a loop has no
    access, what most of its arithmetic shows decides."""
    sums = "".join(f"\tadd.f32 %f{n}, %f2, %f{n};\n" for n in (4, 5))
    text = LOOP.replace("PRAGMA", sums).replace("BOUND", "%r1")
    body = parse(text).kernels[0].body
    at = {r.name: i.start for i in body.instructions for r in i.operands[:1] if type(r) is Reg}
    lines = [("FMUL", "%f3"), ("FMUL", "%f3"), ("FADD", "%f4"), ("FADD", "%f5")]
    lines += [("LDG", "%f2")] if access else []
    code = (instruction(opcode, "fma", 1, ptx=at[place]) for opcode, place in lines)
    times = executions(kernel(*code, loops=True), build(body), 16)
    assert times == (16.0,) * len(lines)


# ---------------------------------------------------------------- stalls


def kernel(*instructions: MachineInstruction, loops: bool = False) -> MachineKernel:
    block = Block(0, 0, len(instructions), (), (0,) if loops else ())
    routine = Routine("k", FlowGraph((block,), (0,)), frozenset())
    return MachineKernel(
        name="k", registers=32, stack=0, spill_stores=0, spill_loads=0, shared=0,
        barriers=0, instructions=instructions, routines=(routine,),
    )  # fmt: skip


def instruction(
    opcode: str,
    pipe: str,
    stall: int,
    *,
    write: int | None = None,
    wait: int = 0,
    ptx: int | None = None,
) -> MachineInstruction:
    return MachineInstruction(
        0, opcode, "", "", Control(stall, False, write, None, wait, 0), pipe, None, ptx
    )


def stalled(*instructions: MachineInstruction, occupancy: float = 1.0) -> float:
    made = kernel(*instructions)
    return stall_cycles(made, 80, occupancy, [1.0] * len(instructions))


def test_a_stall_grows_with_contention() -> None:
    """The FMA pipe of sm_80 serves half of the lanes for which instructions are issued, the one
    for doubles a quarter."""
    a100 = of_target("sm_80")
    assert [a100.lanes(p).low for p in ("fma", "fp64", "unknown")] == [64, 32, 128]
    assert stalled(instruction("FFMA", "fma", 4)) == 8
    assert stalled(instruction("DFMA", "fp64", 4)) == 16
    assert stalled(instruction("MOV", "unknown", 4), occupancy=0.5) == 2


def test_a_wait_takes_what_is_left_of_the_latency() -> None:
    load = instruction("LDG.E", "lsu", 1, write=2)
    between = instruction("MOV", "unknown", 15)
    waits = instruction("MOV", "unknown", 1, wait=1 << 2)
    assert stalled(load, waits) == 4 + 196 + 1
    assert stalled(load, between, waits) == 4 + 15 + 181 + 1
    shared = instruction("LDS", "lsu", 1, write=2)
    assert stalled(shared, waits) == 4 + 20 + 1
    assert stalled(shared, between, between, waits) == 4 + 15 + 15 + 1


def test_one_wait_serves_two_loads() -> None:
    """While the warp waits for the first, the second arrives, too."""
    loads = [instruction("LDG.E", "lsu", 1, write=n) for n in (0, 1)]
    first, second = (instruction("MOV", "unknown", 1, wait=1 << n) for n in (0, 1))
    assert stalled(*loads, first, second) == 4 + 4 + 192 + 1 + 3 + 1


def test_warps_share_what_a_warp_waits() -> None:
    made = kernel(instruction("LDG.E", "lsu", 1, write=0), instruction("MOV", "unknown", 1, wait=1))
    full, half = (pace(made, 80, share, [10.0, 10.0]) for share in (1.0, 0.5))
    assert full == 10 * (4 + 196 + 1)
    assert half == 10 * (2 + 198 + 0.5) / 0.5
