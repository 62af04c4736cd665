"""What is no fault is not called one, and what is said names what it stands on."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ptxsw.analysis.trip_count import most_iterations
from ptxsw.driver import pipeline
from ptxsw.emulator.run import emulate
from ptxsw.findings.kernel_source import KernelSource
from ptxsw.parser import parse
from ptxsw.report.model import Finding
from tests.heads import head

REGISTERS = """.reg .pred %p<9>;
    .reg .b32 %r<40>;
    .reg .f32 %f<9>;
    .reg .b64 %rd<20>;"""


def kernel(body: str, parameters: str = ".param .u64 a, .param .u64 b, .param .u32 n") -> str:
    return f"""{head("8.0", "sm_80")}
.visible .entry k({parameters})
{{
    {REGISTERS}
    ld.param.u64 %rd1, [a];
    ld.param.u64 %rd2, [b];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x;
    mov.u32 %r3, %ctaid.x;
{body}
    ret;
}}
"""


def found(text: str, *rules: str) -> Sequence[Finding]:
    report = pipeline.check(text, rules=rules or None, ptxas=False)
    assert report.kernels[0].failed is None
    return report.kernels[0].findings or ()


# ---------------------------------------------------------------- strides that parameters decide

COLUMN = """
    mul.lo.s32 %r4, %r2, %r1;
    {index}
    mul.wide.s32 %rd3, %r4, 4;
    add.s64 %rd4, %rd1, %rd3;
    ld.global.f32 %f1, [%rd4];
    mul.wide.u32 %rd5, %r2, 4;
    add.s64 %rd6, %rd2, %rd5;
    st.global.f32 [%rd6], %f1;
"""


def test_a_parameter_that_may_be_1_is_no_fault() -> None:
    """`b[i] = a[i * n]`: nobody knows `n`, so both cases are said."""
    [one] = found(kernel(COLUMN.format(index="")), "column", "uncoalesced")
    assert one.level == "note" and one.measure == "4 sectors or 32"
    assert one.what == (
        "How far the lanes of this load are apart depends on `n`: if it is 1, a warp moves "
        "4 sectors; if it is large, 32."
    )


def test_a_parameter_that_is_the_length_of_rows_is_one() -> None:
    """`b[i] = a[i * n + block]`: elements of a row are adjacent, so `n` is how many there are."""
    [one] = found(kernel(COLUMN.format(index="add.s32 %r4, %r4, %r3;")), "column", "uncoalesced")
    assert (one.level, one.rule, one.measure) == ("warning", "ptxsw-column", "32 sectors, not 4")


# ---------------------------------------------------------------- vectors

VECTORS = """
    mul.wide.u32 %rd3, %r2, 32;
    add.s64 %rd4, %rd1, %rd3;
    ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd4];
    ld.global.v4.f32 {%f5, %f6, %f7, %f8}, [%rd4+16];
    st.global.v4.f32 [%rd4], {%f1, %f2, %f3, %f5};
    st.global.v4.f32 [%rd4+16], {%f4, %f6, %f7, %f8};
"""


def test_two_vectors_side_by_side_are_no_structs() -> None:
    """All bytes are used by the widest accesses there are: a note, and no advice on structs."""
    [one] = found(kernel(VECTORS))
    assert (one.level, one.rule) == ("note", "ptxsw-uncoalesced")
    assert "let lane i access vectors i and i + 32" in one.advice


# ---------------------------------------------------------------- what is loaded again

AGAIN = """
    mul.wide.u32 %rd3, %r2, 4;
    add.s64 %rd4, %rd1, %rd3;
    mov.u32 %r5, 0;
LOOP:
    ld.global.f32 %f1, [%rd4];
    setp.lt.s32 %p2, %r5, %r1;
    {branch}
    ld.global.f32 %f2, [%rd4+512];
    add.f32 %f1, %f1, %f2;
NEXT:
    st.global.f32 [%rd2], %f1;
    add.s64 %rd4, %rd4, 512;
    add.s32 %r5, %r5, 1;
    setp.ne.s32 %p1, %r5, %r1;
    @%p1 bra LOOP;
"""


@pytest.mark.parametrize(("branch", "count"), [("", 1), ("@%p2 bra NEXT;", 0)])
def test_a_load_that_some_iterations_skip_is_not_had_in_the_next(branch: str, count: int) -> None:
    assert len(found(kernel(AGAIN.format(branch=branch)), "repeated-loads")) == count


@pytest.mark.parametrize(("guard", "count"), [("", 1), ("@%p1 ", 0)])
def test_a_load_under_a_guard_is_not_had_without_it(guard: str, count: int) -> None:
    body = f"""
    setp.lt.s32 %p1, %r2, %r1;
    mul.wide.u32 %rd3, %r2, 4;
    add.s64 %rd4, %rd1, %rd3;
    {guard}ld.global.f32 %f1, [%rd4];
    bar.sync 0;
    ld.global.f32 %f2, [%rd4];
    add.f32 %f2, %f1, %f2;
    st.global.f32 [%rd2], %f2;
"""
    assert len(found(kernel(body), "repeated-loads")) == count


# ---------------------------------------------------------------- local memory

LOCAL = """
    .local .align 8 .b8 frame[16];
    mov.u64 %rd7, frame;
    st.local.u32 [%rd7], %r2;
    {more}
    ld.local.u32 %r6, [%rd7];
    st.global.u32 [%rd1], %r6;
"""
CALL = """{
    .param .b64 p0;
    st.param.b64 [p0], %rd7;
    .param .b32 r0;
    call.uni (r0), vprintf, (p0);
    }"""
INDEXED = "and.b32 %r7, %r1, 12; cvt.u64.u32 %rd8, %r7; add.s64 %rd7, %rd7, %rd8;"


@pytest.mark.parametrize(("more", "level"), [("", "note"), (CALL, None), (INDEXED, "warning")])
def test_local_memory_is_a_fault_if_it_is_indexed(more: str, level: str | None) -> None:
    """The arguments of `printf` lie there by the calling convention."""
    text = kernel(LOCAL.format(more=more)).replace(
        ".visible", ".extern .func (.param .b32 r) vprintf (.param .b64 p);\n.visible"
    )
    assert [one.level for one in found(text, "local-array")] == ([level] if level else [])


# ---------------------------------------------------------------- loops over what is left

REST = """
    and.b32 %r4, %r1, {mask};
    setp.eq.s32 %p1, %r4, 0;
    @%p1 bra DONE;
LOOP:
    st.global.u32 [%rd1], %r4;
    add.s32 %r4, %r4, {step};
    setp.ne.s32 %p2, %r4, 0;
    @%p2 bra LOOP;
DONE:
"""


@pytest.mark.parametrize(
    ("mask", "step", "most"), [(3, -1, 3), (7, -1, 7), (3, -2, None), (255, -1, 255)]
)
def test_a_loop_over_a_remainder_is_short(mask: int, step: int, most: int | None) -> None:
    module = parse(kernel(REST.format(mask=mask, step=step)))
    trace = emulate(module, module.kernels[0])
    [loop] = trace.cfg.loops.values()
    assert most_iterations(trace, loop, {}) == most


# ---------------------------------------------------------------- tables

TABLE = """
    mul.wide.u32 %rd3, %r2, 4;
    add.s64 %rd4, {written}, %rd3;
    mov.u32 %r5, 0;
LOOP:
    ld.global.f32 %f1, [%rd1];
    st.global.f32 [%rd4], %f1;
    add.s64 %rd1, %rd1, 4;
    add.s32 %r5, %r5, 1;
    setp.ne.s32 %p1, %r5, %r1;
    @%p1 bra LOOP;
"""


@pytest.mark.parametrize(("written", "constant"), [("%rd1", False), ("%rd2", True)])
def test_what_the_kernel_writes_cannot_be_constant(written: str, constant: bool) -> None:
    text = kernel(TABLE.format(written=written))
    [one] = found(text, "uniform-loads")
    assert ("__constant__" in one.advice) is constant


# ---------------------------------------------------------------- the source

SOURCE = """
#define TILE 32
constexpr int ROWS = TILE / 4; // kernel<<<1, 7>>>
template <class T> __global__ void
kernel(const T *__restrict__ A, float (*table)[4], int K = 3)
{
    __shared__ float As[TILE][TILE], Bs[2][ROWS][TILE + 1], line[TILE];
}
void run() {
    dim3 block(TILE, ROWS), grid = dim3(4);
    kernel<float><<<grid, block>>>(a, b, 3);
}
"""


def test_names_of_the_source() -> None:
    source = KernelSource.read("_Z6kernelIfEvPKT_PA4_fi", SOURCE.split("\n"))
    assert source.named("4*param_2 of param_0, param_9") == "4*K of A, param_9"
    assert source.variable("_ZZ6kernelIfEvPKT_PA4_fiE2As") == "As"
    assert source.variable("_ZZ6kernelIfEvPKT_PA4_fiE2As_0") == "As"
    assert source.padded("_ZZ6kernelE2As", elements=1, row=32) == "As[TILE][TILE + 1]"
    assert (
        source.padded("_ZZ6kernelE2As", elements=1, row=64) is None
    )  # its rows are of another length
    assert source.padded("_ZZ6kernelE2Bs", elements=2, row=33) == "Bs[2][ROWS][TILE + 1 + 2]"
    assert source.padded("_ZZ6kernelE4line", elements=1, row=32) is None


@pytest.mark.parametrize(
    ("launch", "block"),
    [
        ("kernel<float><<<grid, block>>>(x);", (32, 8, 1)),
        ("kernel<<<n / 256, 256>>>(x);", (256, 1, 1)),
        ("kernel<<<n, dim3(TILE, ROWS / 2), 0, stream>>>(x);", (32, 4, 1)),
        ("const int threads = 4 * TILE; kernel<<<n, threads>>>(x);", (128, 1, 1)),
        ("kernel<<<n, threads_of(n)>>>(x);", None),
        ("kernel<<<n, 64>>>(x); kernel<<<n, 128>>>(x);", None),
        ("kernel<<<n, 2048>>>(x);", None),
        ("kernel<<<n, 1 << 99999999>>>(x);", None),
        ("other<<<n, 64>>>(x);", None),
    ],
)
def test_blocks_of_literal_launches(launch: str, block: tuple[int, int, int] | None) -> None:
    text = SOURCE.replace("kernel<float><<<grid, block>>>(a, b, 3);", launch)
    source = KernelSource.read("kernel", text.split("\n"))
    assert (source.launch and source.launch.block) == block
