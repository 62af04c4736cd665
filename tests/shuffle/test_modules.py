"""What surrounds the loads: block shapes, other functions, other shuffles, names, debug builds."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from ptxsw.changes.assumptions import LOCKSTEP
from ptxsw.driver.pipeline import Options, Result, optimize
from ptxsw.simt import launch
from ptxsw.toolchain.find import real_ptxas
from tests.heads import head
from tests.parsed import parsed
from tests.shuffle.pairs import DEVICE, TWO, Pair
from tests.shuffle.test_pairs import BLOCKS, WAYS, results

FIXTURES = Path(__file__).parents[1] / "fixtures"
PLAIN = Pair("", TWO, "", "", "")


def forced(text: str, scheme: str = "paper", form: str = "keep", **more: object) -> Result:
    options = Options(mode="force", scheme=scheme, form=form)
    return optimize(text, replace(options, **more))


def shuffles(text: str, **more: object) -> int | None:
    return sum(k.shuffles or 0 for k in forced(text, **more).report.kernels)  # type: ignore[arg-type,misc]


def proof(text: str) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Of the only rewrite: its status, what is assumed, what is tested."""
    (kernel,) = forced(text).report.kernels
    (rewrite,) = kernel.rewrites or ()
    return rewrite.proof.status, rewrite.proof.assumptions, rewrite.proof.guards


ROWS = "no row of the block wraps inside a warp"


@pytest.mark.parametrize(
    ("directive", "tested"),
    [
        ("", True),
        (".reqntid 64, 2, 1", False),
        (".reqntid 48", False),
        (".reqntid 48, 1, 1", False),
        (".maxntid 64, 1, 1", True),  # a maximum is no size
        (".minnctapersm 2", True),
        (".explicitcluster .reqnctapercluster 2, 1, 1", True),
        (".reqntid 64, 2, 1 .explicitcluster .reqnctapercluster 2, 1, 1", False),
    ],
)
def test_the_block_shape_is_tested_unless_it_is_known(directive: str, tested: bool) -> None:
    text = replace(PLAIN, directives=f" {directive}").text("right")
    assert (ROWS in proof(text)[2]) == tested
    assert ("%ntid.y;" in forced(text).text.split("mov.f32 %f1", 1)[0].split("%r30")[0]) == tested


@pytest.mark.parametrize(
    ("directive", "reason"),
    [
        (".reqntid 48, 2, 1", "rows of 48 threads wrap inside a warp: no lane is served"),
        (".reqntid 16, 1, 4", "rows of 16 threads wrap inside a warp: no lane is served"),
        (".reqntid 16", "a block of 16 threads has no whole warp: no lane is served"),
    ],
)
def test_a_shape_that_serves_no_lane_refuses(directive: str, reason: str) -> None:
    text = replace(PLAIN, directives=f" {directive}").text("right")
    (kernel,) = forced(text).report.kernels
    assert kernel.shuffles == 0 and [r.reason for r in kernel.refusals or ()] == [reason]


def test_a_lane_number_needs_no_block_shape() -> None:
    body = "mul.wide.u32 %rd5, %r4, 4;\nadd.s64 %rd4, %rd1, %rd5;\n" + TWO
    text = replace(PLAIN, body=body).text("right")
    assert proof(text)[2] == proof(text.replace("m)\n{", "m) .reqntid 16, 16\n{"))[2]
    assert proof(text)[2] == ("whole warp",)
    for block in BLOCKS:
        assert results(forced(text).text, block, 3) == results(text, block, None)


MERGED = """	add.s32 %r7, %r1, %r3;
	setp.lt.s32 %p1, %r7, 1000;
	@!%p1 bra OTHER;
	st.shared.f32 [scratch], %f9;
	bra.uni JOIN;
OTHER:
	HERE
JOIN:
	mul.wide.s32 %rd5, %r7, 4;
	add.s64 %rd6, %rd1, %rd5;
	ld.global.f32 %f1, [%rd6];
	ld.global.f32 %f2, [%rd6+4];"""


def test_paths_that_meet_keep_what_they_have_in_common() -> None:
    """The index is bounded on one path; where the other goes on, too, it is tested."""
    bounded = Pair("1", MERGED, "ret;", "st.shared.f32 [scratch+4], %f9;", "")
    assert not any("wrap (line" in g for g in proof(bounded.text("right"))[2])
    assert any("wrap (line" in g for g in proof(bounded.text("wrong"))[2])
    also = MERGED.replace("HERE", "setp.gt.s32 %p2, %r7, 2000;\n@%p2 bra JOIN;\nret;")
    assert any("wrap (line" in g for g in proof(replace(bounded, body=also).text("right"))[2])


WRAPS = (
    head("7.0", "sm_70")
    + """.visible .entry wraps(.param .u64 from, .param .u64 to, .param .u32 first)
{
	.reg .f32 %f<8>;
	.reg .b32 %r<4>;
	.reg .b64 %rd<9>;
	ld.param.u64 %rd1, [from];
	ld.param.u64 %rd2, [to];
	ld.param.u32 %r1, [first];
	mov.u32 %r2, %tid.x;
	add.s32 %r3, %r1, %r2;
	mul.wide.s32 %rd3, %r3, 4;
	add.s64 %rd4, %rd1, %rd3;
	ld.global.f32 %f1, [%rd4];
	ld.global.f32 %f2, [%rd4+4];
	ld.global.f32 %f3, [%rd4+-8];
	ld.global.f32 %f4, [%rd4+12];
	fma.rn.f32 %f1, %f1, %f2, %f3;
	fma.rn.f32 %f1, %f1, %f4, %f3;
	mul.wide.u32 %rd5, %r2, 4;
	add.s64 %rd6, %rd2, %rd5;
	st.global.f32 [%rd6], %f1;
	ret;
}
"""
)


@pytest.mark.parametrize(("scheme", "form"), WAYS)
def test_an_index_that_wraps_with_both_ends_mapped(scheme: str, form: str) -> None:
    text = forced(WRAPS, scheme, form).text
    pointer = 1 << 40
    for first in ((1 << 31) - 16, (1 << 31) - 33, (1 << 31) - 2, 5, (1 << 32) - 3):
        reached = {(first + lane + (1 << 31)) % (1 << 32) - (1 << 31) for lane in range(64)}
        pages = {(pointer + 4 * (index + more)) >> 12 for index in reached for more in (-2, 3)}
        values = np.random.default_rng(5).random(1024, dtype=np.float32)
        memory = {page << 12: values * (1 + page % 89) for page in sorted(pages)}
        outcomes = []
        for version in (WRAPS, text):
            args = [np.uint64(pointer), np.zeros(64, np.float32), np.uint32(first)]
            result = launch(parsed(version), "wraps", 1, 64, args, memory=memory)
            outcomes.append(result.buffers[0].tobytes())
        assert outcomes[0] == outcomes[1], (scheme, form, first)


def test_names_like_ours() -> None:
    clash = (
        "	.reg .b32 %sw_lane;\n	.reg .pred %sw_own1;\n	mov.u32 %sw_lane, 7;\nsw_done1:\n"
    )
    text = replace(PLAIN, body=clash + TWO).text("right")
    for scheme, form in WAYS:
        result = forced(text, scheme, form).text
        for block in ((32, 1, 1), (33, 1, 1), (24, 3, 1)):
            assert results(result, block, None) == results(text, block, None)


def test_kernels_that_shuffle_already() -> None:
    more = "shfl.sync.down.b32 %r9|%p3, %r3, 1, 31, -1;\nmatch.any.sync.b32 %r10, %r4, -1;"
    body = f"{more}\n{TWO}\nshfl.sync.up.b32 %f3, %f2, 1, 0, -1;"
    text = replace(PLAIN, body=body).text("right")
    assert shuffles(text) == 1
    for scheme, form in WAYS:
        result = forced(text, scheme, form).text
        for block in ((32, 1, 1), (64, 2, 1)):
            assert results(result, block, None) == results(text, block, None)


def test_several_kernels_and_functions() -> None:
    """Kernels are rewritten each for itself; what they call is left alone, wherever it is called
    from: it need not be reached by all lanes together."""
    one = PLAIN.text("right")
    loads = ".reg .b64 %d<3>;\n	.reg .f32 %g<3>;\n	ld.global.f32 %g1, [%d1];\n	"
    device = DEVICE.replace(".reg .b32", f"{loads}ld.global.f32 %g2, [%d1+4];\n	.reg .b32", 1)
    second = one[one.index(".visible .entry") :].replace("entry k(", "entry second(")
    text = one.replace("\n.visible", f"\n{device}\n.visible") + second
    result = forced(text)
    assert [(k.name, k.shuffles) for k in result.report.kernels] == [("k", 1), ("second", 1)]
    assert device in result.text
    assert shuffles(text, only="second") == 1


DEBUG = {"nvcc_stencil_lineinfo_sm_90": "-lineinfo", "nvcc_stencil_G_sm_75": "-g"}


@pytest.mark.parametrize("which", DEBUG)
def test_a_build_for_debuggers_keeps_its_lines(which: str, tmp_path: Path) -> None:
    """Lines, files and debug sections stay, and ptxas takes them with the flags of such a build."""
    text = (FIXTURES / f"{which}.ptx").read_text()
    kept = re.compile(r"^\s*\.(?:loc|file|section|b8|b32|b64)\b.*$", re.MULTILINE)
    ptxas = real_ptxas(os.environ)
    for scheme, form in WAYS:
        result = forced(text, scheme, form)
        assert sum(k.shuffles or 0 for k in result.report.kernels) > 0 or scheme == "keep"
        if form == "keep":
            assert kept.findall(result.text) == kept.findall(text)
        if ptxas is None:
            continue
        path = tmp_path / f"{scheme}-{form}.ptx"
        path.write_text(result.text)
        arch = f"-arch=sm_{which.rpartition('_sm_')[2]}"
        command = [ptxas.path, arch, DEBUG[which], str(path), "-o", str(tmp_path / "cubin")]
        done = subprocess.run(command, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), (scheme, form)


SEEN = "before the source may let lanes see different memory"


@pytest.mark.parametrize(
    ("before", "reason"),
    [
        ("st.global.f32 [%rd31], %f9;", "before the source may write what is loaded"),
        ("fence.acq_rel.gpu;", SEEN),
        ("ld.acquire.gpu.global.u32 %r9, [%rd1+4096];", SEEN),
        ("bar.warp.sync -1;", SEEN),
    ],
)
def test_what_a_lane_may_have_seen_is_assumed(before: str, reason: str) -> None:
    """Only a barrier of the whole block makes the lanes of a warp see the same, whoever writes."""
    body = f"{before}\nHERE\n{TWO.replace('HERE', '')}"
    pair = Pair("4", body, "", "bar.sync 0;", "")
    assert proof(pair.text("right"))[:2] == ("assumed", ("no-lane-race",))
    assert proof(pair.text("wrong"))[1] == ()
    strict = forced(pair.text("right"), assume=frozenset({LOCKSTEP})).report.kernels[0]
    assert not strict.rewrites
    assert any(reason in r.reason for r in strict.refusals or ())


LOOP = """	mov.u32 %r8, 0;
AGAIN:
	mul.wide.u32 %rd5, %r8, 4096;
	add.s64 %rd6, %rd4, %rd5;
	ld.global.nc.f32 %f1, [%rd6];
	ld.global.nc.f32 %f2, [%rd6+4];
	add.f32 %f3, %f3, %f1;
	add.f32 %f3, %f3, %f2;
	add.s32 %r8, %r8, 1;
	setp.lt.u32 %p1, %r8, HERE;
	@%p1 bra AGAIN;"""


def test_lanes_in_a_loop_are_in_one_iteration() -> None:
    """Assumed in a loop as it is, and needless where the loop is uniform."""
    pair = Pair("2", LOOP, "%r1", "%r4", "")
    for which in ("right", "wrong"):
        assert proof(pair.text(which))[1] == (LOCKSTEP,)
        assert not shuffles(pair.text(which), assume=frozenset())
        blocks = ((32, 1, 1), (33, 1, 1), (24, 3, 1))
        before = {block: results(pair.text(which), block, None) for block in blocks}
        for scheme, form in WAYS:
            result = forced(pair.text(which), scheme, form).text
            assert {block: results(result, block, 1) for block in blocks} == before


KNOT = """	mov.u32 %r8, 0;
	setp.lt.u32 %p2, %r3, 9;
	@%p2 bra INTO;
TURN:
	add.s32 %r8, %r8, 1;
INTO:
	mov.u32 %r9, %tid.x;
	ld.param.u64 %rd6, [from];
	mul.wide.u32 %rd5, %r9, 4;
	add.s64 %rd6, %rd6, %rd5;
	ld.global.nc.f32 %f1, [%rd6];
	ld.global.nc.f32 %f2, [%rd6+4];
	add.s32 %r8, %r8, 1;
	setp.lt.u32 %p1, %r8, 6;
	@%p1 bra TURN;"""


@pytest.mark.parametrize(("scheme", "form"), WAYS)
def test_a_full_mask_only_where_all_lanes_are_known_to_be(scheme: str, form: str) -> None:
    """In one arm of an `if` the mask is who is there; -1 stands behind a branch on that."""
    body = f"setp.lt.u32 %p1, %r3, %r1;\n@%p1 bra OVER;\n{TWO}\nOVER:".replace("HERE", "")
    text = replace(PLAIN, body=body).text("right")
    result = forced(text, scheme, form).text
    full = re.findall(r"^.*shfl\.sync\S* .*, -1;", result, re.MULTILINE)
    if form != "versioned":
        assert not full
    for shuffle in full:
        before = result[: result.index(shuffle)]
        assert re.search(r"@%sw_\w+ bra \$sw_slow\d+;[^:]*$", before), result
    for block in BLOCKS[::2]:
        assert results(result, block, 2) == results(text, block, None)


def test_the_source_on_every_path_is_found_behind_many_others() -> None:
    arms = "".join(
        f"setp.eq.u32 %p1, %r3, {n};\n@%p1 bra ARM{n};\nld.global.nc.f32 %f1, [%rd4];\nARM{n}:\n"
        for n in range(7)
    )
    body = f"ld.global.nc.f32 %f3, [%rd4];\n{arms}ld.global.nc.f32 %f2, [%rd4+4];"
    (kernel,) = forced(replace(PLAIN, body=body).text("right")).report.kernels
    assert (kernel.copies, kernel.shuffles) == (7, 1)


def test_lanes_in_a_cycle_of_two_entries() -> None:
    text = Pair("2", KNOT, "", "", "").text("right")
    assert proof(text)[1] == (LOCKSTEP,)
    assert not shuffles(text, assume=frozenset())
    for scheme, form in WAYS:
        result = forced(text, scheme, form).text
        for block in ((32, 1, 1), (33, 1, 1)):
            assert results(result, block, 1) == results(text, block, None)


def test_proofs_tell_of_the_stores_between() -> None:
    store = "st.global.f32 [%rd4+8192], %f9;"
    with_store = forced(Pair("3", TWO, store, "", "").text("right"), smt2=True).smt2
    without = forced(PLAIN.text("right"), smt2=True).smt2
    assert len(with_store) == len(without) + 2  # it misses either load
    assert all("(check-sat)" in proof for proof in with_store.values())
