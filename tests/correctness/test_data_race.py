"""Small kernels with and without races, by what a proof has to see."""

from __future__ import annotations

import pytest

from ptxsw.correctness import async_wait, data_race
from ptxsw.correctness.deciding import checked
from ptxsw.correctness.fault_rules import RULES
from ptxsw.correctness.subject import Subject
from ptxsw.correctness.verdict import Proof, VerdictKind
from ptxsw.emulator.budget import Budget
from ptxsw.parser import parse

HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 in, .param .u32 n)
{
	.reg .pred %p<9>; .reg .b32 %r<29>; .reg .b64 %rd<9>;
	.shared .align 16 .b8 tile[16384];
	ld.param.u64 %rd1, [out];
	ld.param.u64 %rd2, [in];
	ld.param.u32 %r2, [n];
	mov.u32 %r1, %tid.x;
	mov.u32 %r3, %ctaid.x;
	mov.u32 %r4, %ntid.x;
	mov.u32 %r5, tile;
	mad.lo.u32 %r6, %r1, 4, %r5;
	mad.lo.u32 %r7, %r4, 4, %r6;
	mad.lo.u32 %r8, %r3, %r4, %r1;
	mul.wide.u32 %rd3, %r8, 4;
	add.s64 %rd4, %rd1, %rd3;
	add.s64 %rd5, %rd2, %rd3;
	setp.eq.u32 %p1, %r1, 0;
	setp.lt.u32 %p2, %r1, 16;
	mov.u32 %r9, 0;
"""
"""%r6 is the own word of a thread in the tile, %r7 the one a block further, %rd4 in `out`, %rd5
in `in`; %p1 is for thread 0, %p2 for the first sixteen."""


def proof(body: str, block: tuple[int, int, int] | None = None) -> Proof:
    module = parse(HEAD + body + "\nret;\n}\n")
    subject = Subject(module, module.kernels[0], Budget(10.0), block)
    with subject.budget:
        said = data_race.prove(subject)
        if "async-wait" not in said.needs or said.open or said.unknown:
            return said
        return async_wait.prove(subject)


def absent(body: str, block: tuple[int, int, int] | None = None) -> bool:
    said = proof(body, block)
    return not said.open and not said.unknown


LOOP = """LOOP:
HERE
add.u32 %r9, %r9, 1;
setp.lt.u32 %p3, %r9, %r2;
@%p3 bra LOOP;"""


def loop(body: str) -> str:
    return LOOP.replace("HERE", body)


NEIGHBOUR = "ld.shared.u32 %r10, [%r6+4];"
OWN = "st.shared.u32 [%r6], %r1;"
EVERY_FOURTH = """and.b32 %r11, %r9, 3;
setp.ne.u32 %p4, %r11, 0;
@%p4 bra OVER;
bar.sync 0;
OVER:"""
BUFFERS = """and.b32 %r11, %r9, 1;
shl.b32 %r12, %r11, 13;
add.u32 %r13, %r12, %r6;
st.shared.u32 [%r13], %r1;
bar.sync 0;
ld.shared.u32 %r10, [%r13+4];"""
TREE = """shr.u32 %r9, %r4, 1;
LOOP:
setp.ge.u32 %p3, %r1, %r9;
@%p3 bra NEXT;
mad.lo.u32 %r10, %r9, 4, %r6;
ld.shared.u32 %r11, [%r10];
ld.shared.u32 %r12, [%r6];
add.u32 %r11, %r11, %r12;
st.shared.u32 [%r6], %r11;
NEXT:
HERE
shr.u32 %r9, %r9, 1;
setp.ne.u32 %p4, %r9, 0;
@%p4 bra LOOP;"""
INNER = """mov.u32 %r11, 0;
IN:
setp.ge.u32 %p4, %r11, %r3;
@%p4 bra OUT;
bar.sync 0;
add.u32 %r11, %r11, 1;
bra IN;
OUT:"""

LANES = (
    OWN
    + """
SYNC
xor.b32 %r11, %r1, FROM;
mad.lo.u32 %r11, %r11, 4, %r5;
ld.shared.u32 %r10, [%r11];"""
)
COPY = "cp.async.ca.shared.global [%r6], [%rd5], 4;\ncp.async.commit_group;\n"
TWO_COPIES = COPY + COPY.replace("[%r6]", "[%r6+8192]") + "cp.async.wait_group 1;\nbar.sync 0;\n"
PIPELINE = loop("""and.b32 %r11, %r9, 1;
shl.b32 %r12, %r11, 13;
add.u32 %r13, %r12, %r6;
cp.async.ca.shared.global [%r13], [%rd5], 4;
cp.async.commit_group;
cp.async.wait_group WAIT;
bar.sync 0;
ld.shared.u32 %r10, [%r13+4];""")

PAIRS = {
    "a neighbour's word": (OWN + "\n" + NEIGHBOUR, OWN + "\nbar.sync 0;\n" + NEIGHBOUR),
    "an early exit": (
        OWN + "\n@%p2 ret;\nbar.sync 0;\n" + NEIGHBOUR,
        OWN + "\nbar.sync 0;\n@%p2 ret;\n" + NEIGHBOUR,
    ),
    "the next iteration": (
        loop(OWN + "\nbar.sync 0;\n" + NEIGHBOUR),
        loop(OWN + "\nbar.sync 0;\n" + NEIGHBOUR + "\nbar.sync 0;"),
    ),
    "a barrier in some iterations": (
        loop(EVERY_FOURTH + "\n" + OWN + "\n" + NEIGHBOUR),
        loop(EVERY_FOURTH + "\n" + OWN),
    ),
    "an inner loop without trips": (
        loop(OWN + "\n" + INNER + "\n" + NEIGHBOUR),
        loop(OWN + "\n" + INNER + "\nbar.sync 0;\n" + NEIGHBOUR + "\nbar.sync 0;"),
    ),
    "a tree": (TREE.replace("HERE", ""), "bar.sync 0;\n" + TREE.replace("HERE", "bar.sync 0;")),
    "before and in a loop": (
        OWN + "\n" + loop(NEIGHBOUR + "\nbar.sync 0;"),
        OWN + "\nbar.sync 0;\n" + loop(NEIGHBOUR + "\nbar.sync 0;"),
    ),
    "in and behind a loop": (
        loop("bar.sync 0;\n" + OWN) + "\n" + NEIGHBOUR,
        loop("bar.sync 0;\n" + OWN) + "\nbar.sync 0;\n" + NEIGHBOUR,
    ),
    "the word of the barrier that not all need": (
        "@%p1 bra OVER;\nbar.sync 0;\nOVER:\nst.shared.u32 [tile], %r1;",
        "@%p1 st.shared.u32 [tile], %r1;\nbar.sync 0;\nld.shared.u32 %r10, [tile];",
    ),
    "one word by two names": (
        "@%p1 st.shared.u32 [%r5+4], %r1;\nld.shared.u32 %r10, [tile+4];",
        "@%p1 st.shared.u32 [%r5+4], %r1;\nld.shared.u32 %r10, [tile+8];",
    ),
    "lanes of a warp": (
        "st.shared.u32 [tile], %r1;", "atom.shared.add.u32 %r10, [tile], 1;",
    ),
    "lanes that a warp orders": (
        LANES.replace("SYNC", "").replace("FROM", "1"),
        LANES.replace("SYNC", "bar.warp.sync -1;").replace("FROM", "1"),
    ),
    "lanes of two warps": (
        LANES.replace("SYNC", "bar.warp.sync -1;").replace("FROM", "32"),
        LANES.replace("SYNC", "bar.sync 0;").replace("FROM", "32"),
    ),
    "a barrier of half a warp": (
        LANES.replace("SYNC", "bar.warp.sync 65535;").replace("FROM", "1"),
        LANES.replace("SYNC", "bar.warp.sync 0xffffffff;").replace("FROM", "31"),
    ),
    "a barrier of some lanes": (
        LANES.replace("SYNC", "@%p2 bra OVER;\nbar.warp.sync -1;\nOVER:").replace("FROM", "1"),
        LANES.replace("SYNC", "setp.lt.u32 %p4, %r1, 64;\n@%p4 bra OVER;\nbar.warp.sync -1;\n"
                      "bra BEHIND;\nOVER: bar.warp.sync -1;\nBEHIND:").replace("FROM", "1"),
    ),
    "atomics and loads": (
        "red.shared.add.u32 [tile], 1;\nld.shared.u32 %r10, [tile];",
        "red.shared.add.u32 [tile], 1;\nbar.sync 0;\nld.shared.u32 %r10, [tile];",
    ),
    "atomics of two sizes": (
        "red.shared.add.u32 [tile], 1;\nred.shared.add.u64 [tile], 1;",
        "red.shared.add.u32 [tile], 1;\nred.shared.add.u32 [tile], 2;",
    ),
    "atomics of the block on a word of the grid": (
        "@%p1 red.cta.global.add.u32 [%rd1], %r3;", "@%p1 red.gpu.global.add.u32 [%rd1], %r3;",
    ),
    "two blocks": (
        "mul.wide.u32 %rd6, %r1, 4;\nadd.s64 %rd6, %rd1, %rd6;\nst.global.u32 [%rd6], %r3;",
        "st.global.u32 [%rd4], %r3;",
    ),
    "a barrier between two blocks": (
        "st.global.u32 [%rd4], %r3;\nbar.sync 0;\nld.global.u32 %r10, [%rd1];",
        "st.global.u32 [%rd4], %r3;\nbar.sync 0;\nld.global.u32 %r10, [%rd2];",
    ),
    "what is loaded by .nc": (
        "ld.global.nc.u32 %r10, [%rd4];\nst.global.u32 [%rd4], %r10;",
        "ld.global.nc.u32 %r10, [%rd5];\nst.global.u32 [%rd4], %r10;",
    ),
    "a copy waited for too late": (
        COPY + "bar.sync 0;\ncp.async.wait_group 0;\n" + NEIGHBOUR,
        COPY + "cp.async.wait_group 0;\nbar.sync 0;\n" + NEIGHBOUR,
    ),
    "a copy that nobody waits for": (
        COPY + "bar.sync 0;\n" + NEIGHBOUR, COPY + "ld.shared.u32 %r10, [%r6+8192];"),
    "one group too few": (
        TWO_COPIES + "ld.shared.u32 %r10, [%r6+8196];",
        TWO_COPIES + "@%p1 ld.shared.u32 %r10, [%r6+4];",
    ),
    "a source overwritten": (
        COPY + "bar.sync 0;\nst.global.u32 [%rd5+4], %r1;",
        COPY + "cp.async.wait_all;\nbar.sync 0;\nst.global.u32 [%rd4+4], %r1;",
    ),
    "a pipeline": (PIPELINE.replace("WAIT", "1"), PIPELINE.replace("WAIT", "0")),
    "vectors": (
        "st.shared.v2.u32 [%r6], {%r1, %r1};",
        "add.u32 %r10, %r6, %r6;\nsub.u32 %r10, %r10, %r5;\nst.shared.v2.u32 [%r10], {%r1, %r1};",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_faulty_and_mended(name: str) -> None:
    faulty, mended = PAIRS[name]
    assert not absent(faulty)
    assert absent(mended)


def test_two_buffers_by_turns_need_one_barrier() -> None:
    assert absent(loop(BUFFERS))
    # The last of 1,024 threads reads the first word of a buffer that lies 4,096 bytes behind.
    assert not absent(loop(BUFFERS.replace("13;", "12;")))
    assert not absent(loop(BUFFERS.replace("shl.b32 %r12, %r11, 13;", "mov.u32 %r12, 0;")))


def test_one_value_by_many_is_told() -> None:
    said = proof("st.shared.u32 [tile], 1;\nbar.sync 0;\nld.shared.u32 %r10, [tile];")
    assert said.reason.endswith("several threads may write one value at line 24")
    assert not absent("st.shared.u32 [tile], 1;\nld.shared.u32 %r10, [tile];")
    assert not absent("@%p1 st.shared.u32 [tile], 1;\n@%p2 st.shared.u32 [tile], 2;")


def test_turns_of_atomics_are_told() -> None:
    taken = "atom.shared.exch.b32 %r10, [tile], %r1;\nst.global.u32 [%rd4], %r10;"
    assert proof(taken).reason.endswith("what line 24 does may depend on who comes first")
    assert proof("red.shared.add.u32 [tile], 1;").reason == "proved for all blocks"


def test_what_is_discarded_is_written_by_the_one_who_does() -> None:
    own = "shl.b64 %rd7, %rd3, 5;\nadd.s64 %rd7, %rd1, %rd7;\ndiscard.global.L2 [%rd7], 128;"
    assert proof(own).unknown == "" and not proof(own).open
    assert not absent("discard.global.L2 [%rd4], 128;")


REASONS = {
    "ld.global.u32 %r10, [%rd4];\nmad.lo.u32 %r10, %r10, 4, %r5;\nst.shared.u32 [%r10], %r1;":
        "two threads may access the same byte at line 26",
    "call (%r10), f, (%r1);\nst.global.u32 [%rd4], %r10;": "line 24 calls f, which is not followed",
    "frob.b32 [%rd4], %r1;\nst.global.u32 [%rd4], %r1;": "frob.b32 at line 24 is not followed",
}  # fmt: skip


@pytest.mark.parametrize("body", REASONS)
def test_reasons(body: str) -> None:
    head = ".extern .func (.param .b32 r) f(.param .b32 a);\n" if "call" in body else ""
    module = parse(HEAD.replace(".visible", head + ".visible") + body + "\nret;\n}\n")
    subject = Subject(module, module.kernels[0], Budget(10.0), None)
    with subject.budget:
        said = data_race.prove(subject)
    why = said.unknown or said.open[0].why
    assert REASONS[body].replace("24 calls", "25 calls") in why


def test_what_fences_may_order_between_blocks_is_said() -> None:
    written = "st.global.u32 [%rd1], %r1;\n"
    body = f"{written}membar.gl;\natom.global.add.u32 %r9, [%rd2], 1;"
    said = proof(f"@%p1 {body}")
    assert "whether fences and line" in said.open[0].why
    assert "fences" not in proof(written).open[0].why


def test_why_no_run_tells_of_a_race_that_may_be() -> None:
    """What the interpreter does not run is named."""
    text = HEAD + "st.shared.u32 [tile], %r1;\nsuld.b.1d.b32.trap %r20, [%rd1, {%r1}];\nret;\n}\n"
    module = parse(text)
    races = [rule for rule in RULES if rule.name == "data-race"]
    asked = Subject(module, module.kernels[0], Budget(10.0), (64, 1, 1))
    verdict = checked(asked, races).verdicts["data-race"]
    assert verdict.kind is VerdictKind.UNKNOWN
    assert verdict.reason.endswith(
        "no launch decides it: the interpreter does not know suld.b.1d.b32.trap"
    )


TWO_WRITES = "st.shared.u32 [%r6], %r1;\nst.shared.u32 [%r6+DISTANCE], %r4;"


def test_no_proof_is_for_blocks_of_less_than_a_warp() -> None:
    """Where threads lie in rows alone, the elements that each writes are a warp apart."""
    near = proof(TWO_WRITES.replace("DISTANCE", "124"))
    assert near.open[0].why.endswith(" in blocks of more than 31 threads")
    assert "blockDim.x" not in near.condition
    far = proof(TWO_WRITES.replace("DISTANCE", "128"))
    assert not far.open and far.condition == "blockDim.x <= 32"
