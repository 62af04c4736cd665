"""What is no fault is not called one, and what is said names what it stands on."""

from __future__ import annotations

from collections.abc import Sequence
from time import process_time

import pytest

from ptxsw.analysis.trip_count import most_iterations
from ptxsw.driver.checking import check
from ptxsw.emulator.run import emulate
from ptxsw.findings.kernel_source import KernelSource
from ptxsw.parser import parse
from ptxsw.report.model import Finding, SourceEdit
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
    report = check(text, select=rules or None, ptxas=False)
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
        "The distance between the lanes of this load depends on `n`: if it is 1, a warp moves "
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
    assert not KernelSource.read("kernel", SOURCE.split("\n"), 4).parameters  # another kernel
    assert source.variable("_ZZ6kernelIfEvPKT_PA4_fiE2As") == "As"
    assert source.variable("_ZZ6kernelIfEvPKT_PA4_fiE2As_0") == "As"
    written = source.padded("_ZZ6kernelE2As", elements=1, row=32)
    assert written == SourceEdit(7, "As[TILE][TILE]", "As[TILE][TILE + 1]")
    assert (
        source.padded("_ZZ6kernelE2As", elements=1, row=64) is None
    )  # its rows are of another length
    longer = source.padded("_ZZ6kernelE2Bs", elements=2, row=33)
    assert longer is not None and longer.new == "Bs[2][ROWS][TILE + 1 + 2]"
    assert source.restricted(["K"]) == ()  # no pointer
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


# ---------------------------------------------------------------- one lane of a group

LED = """
    and.b32 %r4, %r2, 31;
    mov.u32 %r5, %lanemask_lt;
    setp.lt.s32 %p1, %r2, %r1;
    {mask}
    {test}
    {branch}
    red.global.add.f32 [%rd1], 0f3F800000;
DONE:
"""
ACTIVE = "activemask.b32 %r6;"
BALLOT = "vote.sync.ballot.b32 %r6, %p1, -1;"
FIRST = "brev.b32 %r7, %r6; bfind.shiftamt.u32 %r8, %r7; setp.ne.s32 %p2, %r4, %r8;"
LAST = "bfind.u32 %r8, %r6; setp.ne.s32 %p2, %r8, %r4;"
RANK = "and.b32 %r7, %r6, %r5; setp.ne.s32 %p2, %r7, 0;"
COUNTED = "and.b32 %r7, %r5, %r6; popc.b32 %r8, %r7; setp.ne.s32 %p2, %r8, 0;"


@pytest.mark.parametrize(
    ("mask", "test", "branch", "count"),
    [
        (BALLOT, FIRST, "@%p2 bra DONE;", 0),
        (BALLOT, LAST, "@%p2 bra DONE;", 0),
        (ACTIVE, RANK, "@%p2 bra DONE;", 0),
        (ACTIVE, COUNTED, "@%p2 bra DONE;", 0),
        (ACTIVE, RANK, "@!%p2 bra DONE;", 1),  # all lanes but the leader
        (BALLOT, RANK, "@%p2 bra DONE;", 1),  # all lanes below the first of the mask, too
        ("mov.u32 %r6, %r1;", RANK, "@%p2 bra DONE;", 1),  # a mask that nobody knows
    ],
)
def test_a_leader_makes_an_operation_alone(mask: str, test: str, branch: str, count: int) -> None:
    text = kernel(LED.format(mask=mask, test=test, branch=branch))
    assert len(found(text, "atomic-contention")) == count


# ---------------------------------------------------------------- what others may have written


@pytest.mark.parametrize(
    ("between", "count"),
    [("bar.sync 0;", 1), ("griddepcontrol.wait;", 0), ("fence.acq_rel.gpu;", 0)],
)
def test_what_others_may_have_written_has_to_be_loaded_again(between: str, count: int) -> None:
    body = f"""
    mul.wide.u32 %rd3, %r2, 4;
    add.s64 %rd4, %rd1, %rd3;
    ld.global.f32 %f1, [%rd4];
    {between}
    ld.global.f32 %f2, [%rd4];
    add.f32 %f2, %f1, %f2;
    st.global.f32 [%rd2], %f2;
"""
    text = kernel(body).replace("sm_80", "sm_90")
    assert len(found(text, "repeated-loads")) == count


# ---------------------------------------------------------------- doubles

DOUBLES = """
    .reg .f64 %fd<9>;
    mul.wide.u32 %rd3, %r2, 8;
    add.s64 %rd4, %rd1, %rd3;
    ld.global.f32 %f1, [%rd4];
    cvt.f64.f32 %fd1, %f1;
    {work}
    cvt.rn.f32.f64 %f2, %fd2;
    st.global.f32 [%rd4], %f2;
"""
LITERAL = "mul.f64 %fd2, %fd1, 0d3FEFAE147AE147AE;"
LOADED = """ld.global.{type} %fd3, [%rd2]; add.f64 %fd4, %fd1, %fd3;
    mul.f64 %fd2, %fd4, 0d4000000000000000;"""
CARRIED = """mov.f64 %fd2, 0d0000000000000000; mov.u32 %r5, 0;
LOOP: fma.rn.f64 %fd2, %fd1, 0d3FEFAE147AE147AE, %fd2; add.s32 %r5, %r5, 1;
    setp.ne.s32 %p1, %r5, %r1; @%p1 bra LOOP;"""


@pytest.mark.parametrize(
    ("work", "count"),
    [
        (LITERAL, 1),
        ("mul.f64 %fd2, %fd1, %fd1;", 0),  # widened on purpose
        (LOADED.format(type="f64"), 0),
        (LOADED.format(type="b64"), 0),
        (CARRIED, 0),
    ],
)
def test_doubles_that_are_meant(work: str, count: int) -> None:
    assert len(found(kernel(DOUBLES.format(work=work)), "accidental-doubles")) == count


# ---------------------------------------------------------------- constant memory


@pytest.mark.parametrize(
    ("index", "most"), [("%r3", None), ("%r2", 32), ("%r4", 4), ("%r5", None), ("%r6", 32)]
)
def test_constants_that_lanes_read_apart(index: str, most: int | None) -> None:
    """By the number of the block, of the thread, of its row of eight or of its warp, by a loaded
    number."""
    body = f"""
    shr.u32 %r4, %r2, 3;
    shr.u32 %r5, %r2, 5;
    mul.wide.u32 %rd3, %r2, 4;
    add.s64 %rd4, %rd1, %rd3;
    ld.global.u32 %r6, [%rd4];
    mul.wide.u32 %rd5, {index}, 4;
    mov.u64 %rd6, table;
    add.s64 %rd7, %rd6, %rd5;
    ld.const.f32 %f1, [%rd7];
    st.global.f32 [%rd4], %f1;
"""
    text = kernel(body).replace(".visible", ".const .align 4 .b8 table[4096];\n.visible")
    assert [one.figures["addresses"] for one in found(text, "constant-by-lane")] == (
        [most] if most else []
    )


# ---------------------------------------------------------------- copies

STAGES = """
    .shared .align 16 .b8 tile[4096];
    mov.u32 %r4, tile;
    shl.b32 %r5, %r2, 4;
    add.s32 %r6, %r4, %r5;
    mul.wide.u32 %rd3, %r2, 16;
    add.s64 %rd4, %rd1, %rd3;
    mov.u32 %r7, 0;
LOOP:
    {before}
    cp.async.cg.shared.global [%r6], [%rd4], 16;
    cp.async.commit_group;
    {after}
    bar.sync 0;
    ld.shared.f32 %f1, [%r6];
    st.global.f32 [%rd2], %f1;
    add.s64 %rd4, %rd4, 4096;
    add.s32 %r7, %r7, 1;
    setp.ne.s32 %p1, %r7, %r1;
    @%p1 bra LOOP;
"""


@pytest.mark.parametrize(
    ("before", "after", "count"),
    [
        ("", "cp.async.wait_group 0;", 1),
        ("", "cp.async.wait_all;", 1),
        ("", "cp.async.wait_group 1;", 0),
        ("cp.async.wait_group 0;", "", 0),  # of the copy of the iteration before
        ("", "cp.async.commit_group; cp.async.wait_group 1;", 1),  # an empty group is pending
    ],
)
def test_copies_that_nothing_hides(before: str, after: str, count: int) -> None:
    text = kernel(STAGES.format(before=before, after=after))
    assert len(found(text, "exposed-copies")) == count


# ---------------------------------------------------------------- the shape of blocks

ROWS = """
    mov.u32 %r4, %tid.y;
    mov.u32 %r5, %ctaid.y;
    mad.lo.s32 %r6, %r3, {x}, %r2;
    mad.lo.s32 %r7, %r5, {y}, %r4;
    mad.lo.s32 %r8, %r6, 4096, %r7;
    mul.wide.s32 %rd3, %r8, 4;
    add.s64 %rd4, %rd1, %rd3;
    ld.global.f32 %f1, [%rd4];
    st.global.f32 [%rd4], %f1;
"""


@pytest.mark.parametrize(
    ("x", "y", "told"),
    [
        (16, 16, "Blocks are taken to be 16x16, judging by the kernel's index computation."),
        (32, 8, "This assumes that `blockDim.x` is a multiple of 32"),
        (14, 16, "This assumes that `blockDim.x` is a multiple of 32"),  # tiles without a halo
        (16, 128, "This assumes that `blockDim.x` is a multiple of 32"),  # more than a block has
    ],
)
def test_blocks_by_the_indices_of_a_kernel(x: int, y: int, told: str) -> None:
    findings = found(kernel(ROWS.format(x=x, y=y)))
    assert findings and all(told in one.what for one in findings)
    expected = "warning" if x % 32 == 0 or (x, y) == (16, 16) else "note"
    assert {one.level for one in findings} == {expected}
    assert not any(one.rule in ("ptxsw-idle-lanes", "ptxsw-occupancy") for one in findings)


@pytest.mark.parametrize(
    "text",
    [
        "__global__ void kernel(" + "(" * 200_000,
        "kernel<<<" * 50_000,
        "kernel(" * 50_000,
        "dim3 b(1, 1); " * 9_000 + "kernel<<<1, b>>>(x);" * 900,
        "/*" * 100_000,
        '"' * 200_000,
        "#define A " * 40_000,
        "As[1]" * 90_000,
        "kernel<<<1, " + "(" * 5_000 + "1" + ")" * 5_000 + ">>>();",
        "kernel" + "<" * 200_000,
    ],
    ids=lambda text: text[:12],
)
def test_a_source_may_say_anything(text: str) -> None:
    """Whoever wrote the PTX chose its sources: reading one takes no long time."""
    begin = process_time()
    source = KernelSource.read("kernel", text.split("\n"))
    assert source.padded("_ZZ6kernelE2As", elements=1, row=32) is None
    assert process_time() - begin < 1


# ---------------------------------------------------------------- doubles of small numbers

GRAY = """
    cvt.u64.u32 %rd3, %r2;
    add.s64 %rd4, %rd1, %rd3;
    ld.global.{loaded} %r4, [%rd4];
    cvt.rn.f64.{loaded} %fd1, %r4;
    mul.f64 %fd2, %fd1, 0d3FD322D0E5604189;
    cvt.rzi.u32.f64 %r5, %fd2;
    add.s64 %rd6, %rd2, %rd3;
    st.global.{stored} [%rd6], %r5;
"""


@pytest.mark.parametrize(
    ("loaded", "stored", "count"),
    [("u8", "u8", 1), ("s16", "u16", 1), ("u32", "u8", 0), ("u8", "u32", 0)],
)
def test_small_integers_through_doubles_are_an_accident(
    loaded: str, stored: str, count: int
) -> None:
    """What 16 bits hold a float holds as well; 32 bits may need the double."""
    text = kernel(GRAY.format(loaded=loaded, stored=stored))
    text = text.replace(".reg .f32 %f<9>;", ".reg .f32 %f<9>;\n    .reg .f64 %fd<9>;")
    assert len(found(text, "accidental-doubles")) == count


BINS = """
    cvt.u64.u32 %rd3, %r2;
    add.s64 %rd4, %rd1, %rd3;
    ld.global.{loaded} %r4, [%rd4];
    mul.wide.u32 %rd5, %r4, 4;
    add.s64 %rd6, %rd2, %rd5;
    red.global.add.u32 [%rd6], 1;
"""


@pytest.mark.parametrize(("loaded", "bins"), [("u8", 256), ("u16", None), ("u32", None)])
def test_few_bins_of_all_threads(loaded: str, bins: int | None) -> None:
    every = found(kernel(BINS.format(loaded=loaded)), "atomic-contention")
    assert [(f.level, f.figures["bins"]) for f in every] == ([("note", bins)] if bins else [])


UNROLLED = """
    mov.u32 %r5, 0;
    mul.wide.u32 %rd3, %r2, 4;
    add.s64 %rd4, %rd2, %rd3;
LOOP:
    ld.global.f32 %f1, [%rd1];
    st.global.f32 [%rd4], %f1;
    ld.global.f32 %f2, [%rd1];
    st.global.f32 [%rd4+512], %f2;
    add.s64 %rd4, %rd4, 1024;
    add.s32 %r5, %r5, 1;
    setp.ne.s32 %p1, %r5, %r1;
    @%p1 bra LOOP;
"""


def test_copies_of_an_unrolled_loop_have_one_cause() -> None:
    """All load one element again because a store may have changed it: neither "in the previous
    iteration", nor "all lanes one element"."""
    [one] = found(kernel(UNROLLED))
    assert (one.rule, one.measure) == ("ptxsw-may-alias", "2 loads repeated")


def test_structs_of_doubles_are_vectors_of_doubles() -> None:
    loads = "\n".join(f"ld.global.f64 %fd{n}, [%rd4+{8 * n}];" for n in range(4))
    body = f"mul.wide.u32 %rd3, %r2, 48;\nadd.s64 %rd4, %rd1, %rd3;\n{loads}"
    text = kernel(body).replace(".reg .f32 %f<9>;", ".reg .f64 %fd<9>;")
    [one] = found(text, "array-of-structs")
    assert one.advice.endswith("or load the struct in vectors of 16 bytes (`double2`).")
