"""Kernels in twos: one in which a lane may take its neighbour's value, and one in which a single
detail makes that wrong. `tests/shuffle/test_pairs.py` says what becomes of them.

A body finds the kernel's pointers in %rd1 (into an array of floats to read) and %rd2, its
integers in %r1 and %r2, %tid.x in %r3, %laneid in %r4, %ctaid.x in %r5, %ntid.x in %r6, and in
%rd4 the address of float number %tid.x. What it leaves in %f1, %f2 and %f3 is written to memory.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

HEAD = """.version {version}
.target {target}
.address_size 64
{outside}
.visible .entry k(.param .u64 from, .param .u64 to, .param .u32 n, .param .u32 m){directives}
{{
	.reg .pred %p<9>;
	.reg .b16 %h<19>;
	.reg .b32 %r<39>;
	.reg .f32 %f<29>;
	.reg .b64 %rd<39>;
	.reg .f64 %fd<9>;
	.shared .align 8 .b8 scratch[8192];
	ld.param.u64 %rd1, [from];
	add.s64 %rd1, %rd1, 65536;
	ld.param.u64 %rd2, [to];
	ld.param.u32 %r1, [n];
	ld.param.u32 %r2, [m];
	mov.u32 %r3, %tid.x;
	mov.u32 %r4, %laneid;
	mov.u32 %r5, %ctaid.x;
	mov.u32 %r6, %ntid.x;
	mov.u32 %r30, %ntid.y;
	mov.u32 %r31, %ntid.z;
	mov.u32 %r32, %tid.y;
	mov.u32 %r33, %tid.z;
	mad.lo.u32 %r34, %r5, %r31, %r33;
	mad.lo.u32 %r34, %r34, %r30, %r32;
	mad.lo.u32 %r34, %r34, %r6, %r3;
	mul.wide.u32 %rd30, %r34, 12;
	add.s64 %rd31, %rd2, %rd30;
	mul.wide.u32 %rd3, %r3, 4;
	add.s64 %rd4, %rd1, %rd3;
	mov.f32 %f1, 0f00000000;
	mov.f32 %f2, 0f00000000;
	mov.f32 %f3, 0f00000000;
	mov.f32 %f9, 0f3F800000;
"""
TAIL = """
	st.global.f32 [%rd31], %f1;
	st.global.f32 [%rd31+4], %f2;
	st.global.f32 [%rd31+8], %f3;
	ret;
}
"""


class Pair(Struct, frozen=True):
    """`body` has a place HERE for the lines that make the difference; `deltas` are the lanes that
    values come from in the right kernel, in program order, and `reason` is why the wrong one is
    left alone: empty where no source is in sight."""

    rule: str
    body: str
    right: str
    wrong: str
    reason: str
    deltas: tuple[int, ...] = (1,)
    outside: str = ""
    directives: str = ""
    version: str = "8.0"
    target: str = "sm_90"

    def text(self, which: str) -> str:
        """The module with the "right" or the "wrong" kernel."""
        head = HEAD.format(
            version=self.version,
            target=self.target,
            outside=self.outside,
            directives=self.directives,
        )
        return head + self.body.replace("HERE", getattr(self, which)) + TAIL


TWO = "ld.global.f32 %f1, [%rd4];\nHERE\nld.global.f32 %f2, [%rd4+4];"
AFTER = "HERE\nld.global.f32 %f1, [%rd4];\nld.global.f32 %f2, [%rd4+4];"
STANDS = "is between the two loads"
CHANGE = "between the two loads may change it"
UNTOLD = "and no condition shows that it was executed"
SAME_ARRAY = "before the source may write the same array"


def between(wrong: str, reason: str, right: str = "", **more: object) -> Pair:
    """Something that must not stand between the two loads."""
    return replace(Pair("3", TWO, right, wrong, reason), **more)


SPIN = """SPIN:
	ld.acquire.gpu.global.u32 %r10, [%rd1+160000];
	setp.eq.u32 %p1, %r10, 1;
	@%p1 bra SPIN;"""

DEVICE = """.func (.param .b32 out) bump(.param .b32 in)
{
	.reg .b32 %r<3>;
	ld.param.b32 %r1, [in];
	add.s32 %r2, %r1, 1;
	st.param.b32 [out], %r2;
	ret;
}"""
CALL = "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r3; call.uni (b), bump, (a); }"

PAIRS: dict[str, Pair] = {
    # ------------------------------------------------ 1: the same bytes
    "another_row": Pair(
        "1",
        "mul.wide.u32 %rd5, %r32, 4096;\nadd.s64 %rd6, %rd4, %rd5;\n"
        "mul.wide.u32 %rd7, HERE, 4096;\nadd.s64 %rd8, %rd4, %rd7;\n"
        "ld.global.nc.f32 %f2, [%rd6];\nld.global.nc.f32 %f3, [%rd8+8];",
        "%r32",  # tid.y: equal in a row of the block
        "%r33",  # tid.z
        "",
        (2,),
    ),
    "varying_row": Pair(
        "1",
        "mov.u32 %r7, %clock;\nand.b32 %r7, %r7, 7;\nmul.wide.u32 %rd5, HERE, 4096;\n"
        "add.s64 %rd6, %rd4, %rd5;\nld.global.nc.f32 %f2, [%rd6];\n"
        "ld.global.nc.f32 %f3, [%rd6+8];",
        "%r1",
        "%r7",
        "the address depends on %clock",
        (2,),
    ),
    "loaded_row": Pair(
        "1",
        "ld.global.nc.u32 %r8, [HERE];\nand.b32 %r8, %r8, 7;\nmul.wide.u32 %rd5, %r8, 4096;\n"
        "add.s64 %rd6, %rd4, %rd5;\nld.global.nc.f32 %f2, [%rd6];\nld.global.nc.f32 %f3, [%rd6+4];",
        "%rd1",
        "%rd4",
        "which differs from lane to lane",
    ),
    "half_a_stride": Pair(
        "1",
        "add.s64 %rd5, %rd4, %rd3;\nld.global.nc.f32 %f1, [%rd5];\n"
        "ld.global.nc.f32 %f2, [%rd5+HERE];",
        "8",
        "4",
        "",
    ),
    "a_lane_too_far": Pair(
        "1",
        "ld.global.nc.f32 %f1, [%rd4];\nld.global.nc.f32 %f2, [%rd4+HERE];",
        "-124",
        "-128",
        "",
        (-31,),
    ),
    "other_extension": Pair(
        "1",
        "cvt.u64.u32 %rd5, %r3;\nadd.s64 %rd6, %rd1, %rd5;\nld.global.nc.u8 %h1, [%rd6];\n"
        "ld.global.nc.HERE %h2, [%rd6+1];\ncvt.rn.f32.s16 %f1, %h1;\ncvt.rn.f32.s16 %f2, %h2;",
        "b8",
        "s8",
        "one load extends the sign, the other does not",
    ),
    "other_width": Pair(
        "1",
        "ld.global.nc.f32 %f1, [%rd4];\nld.global.nc.HERE %r9, [%rd4+4];\nmov.b32 %f2, %r9;",
        "b32",
        "u16",
        "the loads have different types",
    ),
    "half_of_the_vector": Pair(
        "1",
        "mul.wide.u32 %rd5, %r3, 8;\nadd.s64 %rd6, %rd1, %rd5;\nHERE\n"
        "ld.global.nc.v2.f32 {%f2,%f3}, [%rd6+8];",
        "ld.global.nc.v2.f32 {%f4,%f5}, [%rd6];",
        "ld.global.nc.f32 %f4, [%rd6];",
        "not every element of the vector has a source",
    ),
    "mirrored": Pair(
        "1",
        "and.b32 %r8, %r3, -32;\nand.b32 %r9, %r3, 31;\nHERE\nsub.s32 %r8, %r8, %r9;\n"
        "mul.wide.s32 %rd5, %r8, 4;\nadd.s64 %rd6, %rd1, %rd5;\n"
        "ld.global.nc.f32 %f1, [%rd4];\nld.global.nc.f32 %f2, [%rd6];",
        "add.s32 %r8, %r8, 31;",
        "add.s32 %r8, %r8, 63;",
        "",
        (31,),
    ),
    "index_behind_a_loop": Pair(
        "1",
        "mov.u32 %r8, 0;\nAGAIN:\nadd.s32 %r8, %r8, 1;\nsetp.lt.u32 %p1, %r8, HERE;\n"
        "@%p1 bra AGAIN;\nmul.wide.u32 %rd5, %r8, 4;\nadd.s64 %rd6, %rd4, %rd5;\n"
        "ld.global.nc.f32 %f1, [%rd6];\nld.global.nc.f32 %f2, [%rd6+4];",
        "%r1",
        "%r3",  # its exit varies by lane
        "which differs from lane to lane",
    ),
    "index_of_a_path": Pair(
        "1",
        "mov.u64 %rd5, %rd4;\nsetp.lt.u32 %p1, HERE, 5;\n@%p1 bra JOIN;\nadd.s64 %rd5, %rd5, 64;\n"
        "JOIN:\nld.global.nc.f32 %f1, [%rd5];\nld.global.nc.f32 %f2, [%rd5+4];",
        "%r1",
        "%r3",
        "the addresses are not provably equal",
    ),
    # ------------------------------------------------ 2: the same instance
    "guarded_source": Pair(
        "2",
        "setp.ne.u32 %p1, %r3, 3;\nHERE ld.global.nc.f32 %f1, [%rd4];\n"
        "ld.global.nc.f32 %f2, [%rd4+4];",
        "",
        "@%p1",
        "the load is guarded by a predicate",
    ),
    "guarded_load": Pair(
        "2",
        "setp.ne.u32 %p1, %r3, 3;\nld.global.nc.f32 %f1, [%rd4];\n"
        "HERE ld.global.nc.f32 %f2, [%rd4+4];",
        "",
        "@%p1",
        "the load is guarded by a predicate",
    ),
    "guarded_member_of_a_row": Pair(
        "2",
        "setp.ne.u32 %p1, %r3, 3;\nld.global.nc.f32 %f1, [%rd4];\n"
        "HERE ld.global.nc.f32 %f2, [%rd4+4];\nld.global.nc.f32 %f3, [%rd4+8];",
        "",
        "@%p1",
        "the load is guarded by a predicate",
        (1, 2),
    ),
    "source_in_an_arm": Pair(
        "2",
        "setp.lt.u32 %p1, %r3, 9;\nHERE\nld.global.nc.f32 %f1, [%rd4];\nJOIN:\n"
        "ld.global.nc.f32 %f2, [%rd4+4];",
        "",
        "@%p1 bra JOIN;",
        "the source load is not on every path to this load",
    ),
    "sources_in_both_arms": Pair(
        "2",
        "setp.lt.u32 %p1, %r3, 9;\nHERE\n@%p1 bra LEFT;\nld.global.nc.f32 %f1, [%rd4];\n"
        "bra.uni JOIN;\nLEFT:\nld.global.nc.f32 %f1, [%rd4+4096];\nJOIN:\n"
        "ld.global.nc.f32 %f2, [%rd4+4];",
        "ld.global.nc.f32 %f3, [%rd4];",
        "",
        "the source load is not on every path to this load",
        (0, 1),
    ),
    "neighbour_behind_a_guard": Pair(
        "2",
        "setp.ge.u32 %p1, %r3, 95;\n@%p1 bra ONE;\nld.global.nc.f32 %f1, [%rd4];\nONE:\n"
        "add.s32 %r8, %r3, 1;\nsetp.ge.u32 %p2, %r8, HERE;\n@%p2 bra TWO;\n"
        "ld.global.nc.f32 %f2, [%rd4+4];\nTWO:",
        "96",  # a lane that is here has made the first, too
        "97",  # but for that of thread 95
        UNTOLD,
    ),
    "guard_of_another_value": Pair(
        "2",
        "mul.wide.u32 %rd5, %r3, 8;\nadd.s64 %rd6, %rd1, %rd5;\nadd.s32 %r8, %r1, 91;\n"
        "add.s32 %r9, %r2, 98;\nsetp.ge.u32 %p1, %r3, %r8;\n@%p1 bra ONE;\n"
        "ld.global.nc.f64 %fd1, [%rd6];\nONE:\nadd.s32 %r10, %r3, 2;\n"
        "setp.ge.u32 %p2, %r10, HERE;\n@%p2 bra TWO;\nld.global.nc.f64 %fd2, [%rd6+16];\n"
        "cvt.rn.f32.f64 %f2, %fd2;\nTWO:",
        "%r8",
        "%r9",
        UNTOLD,
        (2,),
    ),
    "guard_read_again": Pair(
        "2",
        "ld.global.nc.f32 %f4, [%rd4+4096];\nst.global.f32 [%rd31], %f4;\n"
        "ld.global.f32 %f5, [%rd31];\nsetp.lt.f32 %p1, %f5, 0f3CA3D70A;\n@%p1 bra ONE;\n"
        "ld.global.nc.f32 %f1, [%rd4];\nONE:\nst.global.f32 [%rd31+HERE], %f9;\n"
        "ld.global.f32 %f5, [%rd31];\nsetp.lt.f32 %p2, %f5, 0f3CA3D70A;\n@%p2 bra TWO;\n"
        "ld.global.nc.f32 %f2, [%rd4+4];\nTWO:",
        "4",
        "0",
        UNTOLD,
    ),
    "guard_in_a_loop": Pair(
        "2",
        "mov.u32 %r10, 0;\nTURN:\nadd.s32 %r9, %r3, %r10;\nmul.wide.u32 %rd5, %r9, 4;\n"
        "add.s64 %rd6, %rd1, %rd5;\nHERE\n@%p1 bra ONE;\nld.global.nc.f32 %f1, [%rd6];\n"
        "ONE:\nadd.s32 %r11, %r9, 1;\nsetp.ge.u32 %p2, %r11, 40;\n@%p2 bra TWO;\n"
        "ld.global.nc.f32 %f2, [%rd6+4];\nadd.f32 %f3, %f3, %f2;\nTWO:\n"
        "add.s32 %r10, %r10, 1;\nsetp.lt.u32 %p3, %r10, 3;\n@%p3 bra TURN;",
        "setp.ge.u32 %p1, %r9, 40;",
        "setp.ne.u32 %p1, %r10, 0;",  # what is kept is of the first iteration
        UNTOLD,
    ),
    "guard_of_the_other_sign": Pair(
        "2",
        "add.s32 %r8, %r3, -8;\nsetp.HERE %p1, %r8, 100;\n@!%p1 bra ONE;\n"
        "ld.global.nc.f32 %f1, [%rd4];\nONE:\nsetp.lt.s32 %p2, %r8, 50;\n@!%p2 bra TWO;\n"
        "ld.global.nc.f32 %f2, [%rd4+4];\nTWO:",
        "lt.s32",
        "lt.u32",  # no value below 0
        UNTOLD,
    ),
    "guard_that_wraps": Pair(
        "2",
        "HERE\nadd.s32 %r9, %r8, %r3;\nsetp.ge.u32 %p1, %r9, 2000;\n@%p1 bra ONE;\n"
        "ld.global.nc.f32 %f1, [%rd4];\nONE:\nadd.s32 %r10, %r9, 1;\n"
        "setp.ge.u32 %p2, %r10, 2000;\n@%p2 bra TWO;\nld.global.nc.f32 %f2, [%rd4];\nTWO:",
        "and.b32 %r8, %r1, 255;",
        "sub.s32 %r8, %r1, 13;",  # in thread 9: -1 is not below 2000, without a sign, 0 is
        UNTOLD,
        (0,),
    ),
    "no_way_around": Pair(
        "2",
        "add.s32 %r8, %r3, %r5;\nsetp.ge.s32 %p1, %r8, 900;\n@%p1 bra ONE;\n"
        "ld.global.nc.f32 %f1, [%rd1];\nadd.s32 %r8, %r8, 64;\nONE:\n"
        "add.s32 %r8, %r8, HERE;\nsetp.ge.s32 %p2, %r8, 900;\n@%p2 bra TWO;\n"
        "ld.global.nc.f32 %f2, [%rd1];\nTWO:",
        "0",
        "-64",
        UNTOLD,
        (0,),
    ),
    "guard_of_two_conditions": Pair(
        "2",
        "setp.ge.u32 %p1, %r3, 90;\n@%p1 bra ONE;\nsetp.eq.u32 %p1, %r3, HERE;\n"
        "@%p1 bra ONE;\nld.global.nc.f32 %f1, [%rd4];\nONE:\nadd.s32 %r8, %r3, 1;\n"
        "setp.ge.u32 %p2, %r8, 90;\n@%p2 bra TWO;\nld.global.nc.f32 %f2, [%rd4+4];\nTWO:",
        "0",  # lane 0 is nobody's neighbour to the right
        "1",
        UNTOLD,
    ),
    "store_on_the_way_around": Pair(
        "3",
        "setp.eq.u32 %p1, %r4, 0;\n@%p1 bra AROUND;\nld.global.f32 %f1, [%rd4];\n"
        "bra.uni JOIN;\nAROUND:\nHERE\nJOIN:\nld.global.f32 %f2, [%rd4+4];",
        "st.shared.f32 [scratch], %f9;",
        "st.global.f32 [%rd4+4], %f9;",  # lane 0's own, which lane 1 need not have seen
        CHANGE,
    ),
    "acquire_on_the_way_around": Pair(
        "3",
        "setp.eq.u32 %p1, %r4, 0;\n@%p1 bra AROUND;\nld.global.f32 %f1, [%rd4];\n"
        "bra.uni JOIN;\nAROUND:\nHERE\nJOIN:\nld.global.f32 %f2, [%rd4+4];",
        "ld.global.nc.u32 %r10, [%rd1+160000];",
        "ld.acquire.gpu.global.u32 %r10, [%rd1+160000];",
        STANDS,
    ),
    "a_loop_between": Pair(
        "2",
        "mov.u32 %r8, 0;\nHERE\nadd.s32 %r8, %r8, 1;\nsetp.lt.u32 %p1, %r8, 3;\n"
        "@%p1 bra AGAIN;\nld.global.nc.f32 %f2, [%rd4+4];",
        "AGAIN:\nld.global.nc.f32 %f1, [%rd4];",  # every iteration makes it anew
        "ld.global.nc.f32 %f1, [%rd4];\nAGAIN:",
        "a loop lies between the two loads",
    ),
    "a_cycle_of_two_entries": Pair(
        "2",
        "mov.u32 %r8, 0;\nsetp.eq.u32 %p2, %r1, 3;\nld.global.nc.f32 %f1, [%rd4];\n"
        "@%p2 bra INTO;\nTURN:\nadd.s32 %r8, %r8, 1;\nINTO:\nadd.s32 %r8, %r8, 1;\n"
        "setp.lt.u32 %p1, %r8, 6;\nHERE\nld.global.nc.f32 %f2, [%rd4+4];",
        "@%p1 bra ON;\nON:",
        "@%p1 bra TURN;",
        "",
    ),
    "its_own_address": Pair(
        "2",
        "add.s64 %rd9, %rd4, %rd3;\nld.global.nc.u64 %rd8, [%rd9];\n"
        "ld.global.nc.u64 HERE, [%rd9+8];\ncvt.u32.u64 %r9, HERE;\nmov.b32 %f1, %r9;",
        "%rd10",
        "%rd9",
        "the load overwrites its own address",
    ),
    # ------------------------------------------------ 3: nothing between
    "own_store": between("st.global.f32 [%rd4], %f9;", CHANGE, "st.global.f32 [%rd4+8192], %f9;"),
    "store_of_a_neighbour": between(
        "st.global.f32 [%rd4+8], %f9;", CHANGE, "st.global.f32 [%rd4+-8192], %f9;"
    ),
    "store_through_another_pointer": between(
        "st.global.f32 [%rd31], %f9;", CHANGE, "st.shared.f32 [scratch], %f9;"
    ),
    "generic_store": between(
        "st.f32 [%rd4], %f9;", CHANGE, "mov.u32 %r9, scratch;\nst.shared.f32 [%r9], %f9;"
    ),
    "store_to_read_only": Pair(
        "3",
        "ld.global.nc.f32 %f1, [%rd4];\nst.global.f32 [%rd31], %f9;\n"
        "ld.global.HERE %f2, [%rd4+4];",
        "nc.f32",
        "f32",
        CHANGE,
    ),
    "store_to_half_a_vector": Pair(
        "3",
        "mul.wide.u32 %rd5, %r3, 8;\nadd.s64 %rd6, %rd1, %rd5;\n"
        "ld.global.v2.f32 {%f1,%f4}, [%rd6];\nst.global.f32 [%rd6+HERE], %f9;\n"
        "ld.global.v2.f32 {%f2,%f3}, [%rd6+8];",
        "16384",
        "-4",  # the upper half of another lane's
        CHANGE,
    ),
    "surface_store": between("sust.b.1d.b32.trap [%rd9, {%r3}], {%r3};", CHANGE),
    "discard": between("discard.global.L2 [%rd1], 128;", CHANGE, "prefetch.global.L2 [%rd1];"),
    "block_barrier": between("bar.sync 0;", STANDS, "shfl.sync.bfly.b32 %r9, %r3, 1, 31, -1;"),
    "warp_barrier": between("bar.warp.sync -1;", STANDS, "vote.sync.any.pred %p2, %p1, -1;"),
    "arrive": between("bar.arrive 1, 64;", STANDS),
    "cluster_barrier": between("barrier.cluster.arrive;\nbarrier.cluster.wait;", STANDS),
    "fence": between("fence.acq_rel.gpu;", STANDS),
    "atomic": between("red.relaxed.gpu.global.add.u32 [%rd31+4], 1;", STANDS),
    "relaxed_load": between("ld.relaxed.gpu.global.u32 %r9, [%rd1+4096];", STANDS,
                            "ld.global.u32 %r9, [%rd1+4096];"),
    "volatile_store": between("st.volatile.global.u32 [%rd31+4], %r9;", STANDS),
    "acquire_spin": Pair(
        "3",
        "HERE\nld.global.f32 %f2, [%rd4+4];",
        f"{SPIN}\nld.global.f32 %f1, [%rd4];",
        f"ld.global.f32 %f1, [%rd4];\n{SPIN}",
        "a loop lies between the two loads",
    ),
    "one_acquire": between(
        "ld.acquire.gpu.global.u32 %r10, [%rd1+160000];",
        STANDS,
        "ld.global.nc.u32 %r10, [%rd1+160000];",
    ),
    "call": between(CALL, STANDS, outside=DEVICE),
    "async_copy": between(
        "cp.async.ca.shared.global [scratch], [%rd1], 16;\ncp.async.wait_all;", STANDS
    ),
    "async_wait": between("cp.async.wait_group 0;", STANDS),
    "mbarrier": between("mbarrier.try_wait.parity.shared.b64 %p1, [scratch], 0;", STANDS),
    "dependent_grid": between("griddepcontrol.wait;", STANDS),
    "multimem": between("multimem.red.relaxed.gpu.global.add.u32 [%rd9], 1;", STANDS,
                        version="8.1"),
    "unknown_instruction": between("frobnicate.b32 %r9, %r3;", STANDS, "not.b32 %r9, %r3;"),
    # ------------------------------------------------ 4: no earlier own store
    "stored_before": Pair(
        "4", AFTER, "st.global.f32 [%rd4], %f9;\nbar.sync 0;", "st.global.f32 [%rd4], %f9;",
        SAME_ARRAY,
    ),
    "stored_by_a_warp": Pair(
        "4", AFTER, "st.global.f32 [%rd4], %f9;\nbarrier.sync 0;",
        "st.global.f32 [%rd4], %f9;\nbar.warp.sync -1;", SAME_ARRAY,
    ),
    "stored_on_one_path": Pair(
        "4",
        "setp.lt.u32 %p1, %r1, 5;\n@%p1 bra OVER;\nHERE\nOVER:\nld.global.f32 %f1, [%rd4];\n"
        "ld.global.f32 %f2, [%rd4+4];",
        "st.shared.f32 [scratch], %f9;",
        "st.global.f32 [%rd4], %f9;",
        SAME_ARRAY,
    ),
    "stored_through_a_choice": Pair(
        "4",
        "setp.lt.u32 %p1, %r1, 5;\nHERE\nst.global.f32 [%rd5], %f9;\nld.global.f32 %f1, [%rd4];\n"
        "ld.global.f32 %f2, [%rd4+4];",
        "mov.u64 %rd5, %rd31;",
        "selp.b64 %rd5, %rd31, %rd4, %p1;",
        SAME_ARRAY,
    ),
    "stored_in_an_earlier_iteration": Pair(
        "4",
        "mov.u32 %r8, 0;\nAGAIN:\nld.global.f32 %f1, [%rd4];\nld.global.f32 %f2, [%rd4+4];\n"
        "bar.sync 0;\nst.global.f32 [%rd4], %f2;\nHERE\nadd.s32 %r8, %r8, 1;\n"
        "setp.lt.u32 %p1, %r8, %r1;\n@%p1 bra AGAIN;",
        "bar.sync 0;",
        "",
        SAME_ARRAY,
    ),
    # ------------------------------------------------ 5: plain loads
    **{
        f"a_{name}_load": Pair(
            "5",
            "ld.global.f32 %f1, [%rd4];\nld.HERE %f2, [%rd4+4];",
            right,
            wrong,
            reason,
        )
        for name, right, wrong, reason in (
            ("volatile", "global.L1::no_allocate.f32", "volatile.global.f32", "a volatile access"),
            ("relaxed", "weak.global.f32", "relaxed.gpu.global.f32", "strong access"),
            ("acquiring", "global.cg.f32", "acquire.sys.global.f32", "ordered or"),
            ("mapped", "global.cs.f32", "mmio.relaxed.sys.global.f32", "ordered or"),
            ("fetched_again", "global.lu.f32", "global.cv.f32", "a load of a special kind"),
            ("hinted", "global.L1::evict_last.L2::128B.f32", "global.unknown.f32", "special kind"),
        )
    },
    "generic_load": Pair(
        "5", "HERE\nadd.s64 %rd6, %rd5, %rd3;\nld.f32 %f1, [%rd6];\nld.f32 %f2, [%rd6+4];",
        "mov.u64 %rd5, %rd1;", "ld.global.nc.u64 %rd5, [%rd2];",
        "the generic address is not known to be in global memory",
    ),
    "generic_choice": Pair(
        "5", "setp.lt.u32 %p1, %r1, 5;\nHERE\nadd.s64 %rd6, %rd5, %rd3;\nld.f32 %f1, [%rd6];\n"
        "ld.f32 %f2, [%rd6+4];",
        "mov.u64 %rd5, %rd1;", "cvta.local.u64 %rd8, %rd9;\nselp.b64 %rd5, %rd1, %rd8, %p1;",
        "the generic address is not known to be in global memory",
    ),
    "global_symbol": Pair(
        "5",
        "HERE\nadd.s64 %rd6, %rd5, %rd3;\nld.f32 %f1, [%rd6];\nld.f32 %f2, [%rd6+4];",
        "cvta.global.u64 %rd5, table;",
        "cvta.shared.u64 %rd5, %rd9;",
        "",
        outside=".global .align 4 .b8 table[16384];",
    ),
}  # fmt: skip
