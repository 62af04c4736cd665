"""What `verify` answers with and without a proof, as words, as JSON and as an exit status."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ptxsw.cli.commands import app
from ptxsw.cli.files import CommandError
from ptxsw.verify import Different, Undecided, verify
from ptxsw.verify.launches import from_json
from tests.heads import head

BEFORE = (
    head("8.0", "sm_80")
    + """
.visible .entry k(.param .u64 out, .param .u64 in, .param .u32 n) {
	.reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .f32 %f<4>;
	ld.param.u64 %rd1, [out];
	ld.param.u64 %rd2, [in];
	ld.param.u32 %r2, [n];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd3, %r1, 4;
	add.s64 %rd4, %rd1, %rd3;
	add.s64 %rd5, %rd2, %rd3;
	ld.global.f32 %f1, [%rd5];
	add.f32 %f2, %f1, %f1;
	setp.eq.s32 %p1, %r2, 123457;
	st.global.f32 [%rd4], %f2;
	selp.b32 %r3, 1, 2, %p1;
	st.global.u32 [%rd4+16384], %r3;
	ret;
}
"""
)
DOUBLED = "add.f32 %f2, %f1, %f1;"
SAME_FLOATS = BEFORE.replace(DOUBLED, "mul.f32 %f2, %f1, 0f40000000;")
OTHER_FLOATS = BEFORE.replace(DOUBLED, "add.f32 %f2, %f1, 0f3F800000;")
ONE, OTHER = "selp.b32 %r3, 1, 2", "selp.b32 %r3, 3, 2"
GUARDED = BEFORE.replace(ONE, OTHER)  # differs for one number in four billion
RARE = BEFORE.replace("setp.eq.s32 %p1, %r2, 123457", "setp.eq.f32 %p1, %f2, 0f42F6E979")
HIDDEN = RARE.replace(ONE, OTHER)  # differs for one float that nothing tells
NO_DIFFERENCE = "not decided: no difference in "
FENCE = "membar.gl;\n\tst.global.u32"


def answer(folder: Path, first: str, second: str, *options: str) -> tuple[int, str]:
    files = folder / "a.ptx", folder / "b.ptx"
    for path, text in zip(files, (first, second), strict=True):
        path.write_text(text)
    done = CliRunner().invoke(app, ["verify", *map(str, files), "--seeds", "1", *options])
    return done.exit_code, done.stdout


def words(folder: Path, first: str, second: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(answer(folder, first, second, "--format", "json")[1])
    return told


def test_a_proof_is_a_yes(tmp_path: Path) -> None:
    assert answer(tmp_path, BEFORE, BEFORE) == (0, "proved\n")
    told = words(tmp_path, BEFORE, BEFORE)
    assert (told["verdict"], told["level"], told["assumptions"]) == ("proved", "bits", [])
    assert told["witness"] is told["reason"] is None


@pytest.mark.parametrize(
    ("first", "second"),
    [(BEFORE, SAME_FLOATS), (RARE, HIDDEN)],
    ids=["the same", "a hidden difference"],
)
def test_runs_without_a_difference_are_no_yes(first: str, second: str, tmp_path: Path) -> None:
    """No invented launch shows the difference of the second pair, so neither is called equal."""
    code, said = answer(tmp_path, first, second)
    assert code == 3 and said.startswith(NO_DIFFERENCE)
    assert "equal" not in said
    assert answer(tmp_path, first, second, "--accept-runs") == (0, said)
    told = words(tmp_path, first, second)
    assert (told["verdict"], told["witness"]) == ("undecided", None) and told["launches"] >= 15
    assert told["reason"].startswith("k: memory may differ after the stores")


def test_a_number_that_the_text_names_is_tried(tmp_path: Path) -> None:
    code, said = answer(tmp_path, BEFORE, GUARDED)
    assert code == 1 and "out[4096] is 1" in said and '"args": [' in said and "123457]" in said


def test_a_witness_is_replayed_by_run_on_both_texts(tmp_path: Path) -> None:
    told = words(tmp_path, BEFORE, GUARDED)
    spec = tmp_path / "witness.json"
    spec.write_text(json.dumps(told["witness"]))
    said = [
        CliRunner().invoke(app, ["run", str(tmp_path / name), "--launch", str(spec)]).stdout
        for name in ("a.ptx", "b.ptx")
    ]
    changed = [line for text in said for line in text.splitlines() if line.startswith("out")]
    assert changed == ["out[4096] = 0x1", "out[4096] = 0x3"]


@pytest.mark.usefixtures("needs_ptxas")
def test_what_ptxas_refuses_is_bad_input(tmp_path: Path) -> None:
    wrong = BEFORE.replace("setp.eq.s32 %p1, %r2, 123457", "setp.eq.and.s32 %p1, %r2, %p0, 9")
    files = tmp_path / "a.ptx", tmp_path / "b.ptx"
    for path, text in zip(files, (BEFORE, wrong), strict=True):
        path.write_text(text)
    done = CliRunner().invoke(app, ["verify", *map(str, files)])
    assert isinstance(done.exception, CommandError)  # the status is 2
    assert str(done.exception).startswith(f"{files[1]}:16: ptxas rejects this PTX: Arguments ")


def test_a_difference_that_needs_buffers_to_overlap_says_so(tmp_path: Path) -> None:
    stores = "\tst.global.u32 [%rd4], 1;\n\tst.global.u32 [%rd5], 2;\n\tret;"
    first = BEFORE.replace("\tret;", stores)
    second = first.replace(stores, "\n".join([*stores.split("\n")[1::-1], "\tret;"]))
    code, said = answer(tmp_path, first, second)
    assert code == 1 and said.startswith("different: k where in and out are the same: out[0] is ")
    assert words(tmp_path, first, second)["condition"] == "where in and out are the same"


ALIGNED = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 .ptr .global .align 8 a, .param .u64 .ptr .global .align 8 b)
{
	.reg .b32 %r<9>;
	.reg .b64 %rd<9>;
	ld.param.u64 %rd1, [a];
	ld.param.u64 %rd2, [b];
	ld.global.v2.u32 {%r1, %r2}, [%rd1];
	st.global.u32 [%rd2], %r1;
	st.global.u32 [%rd2+4], %r2;
	ret;
}
"""


def test_buffers_overlap_only_as_their_declared_alignment_lets_them() -> None:
    """Two stores are one wide store for every caller that keeps to `.align 8`."""
    pair = "st.global.u32 [%rd2], %r1;\n\tst.global.u32 [%rd2+4], %r2;"
    wide = ALIGNED.replace(pair, "st.global.v2.u32 [%rd2], {%r1, %r2};")
    assert isinstance(verify(ALIGNED, wide, symbolic=False), Undecided)
    first, second = (t.replace(" .align 8 b", " .align 4 b") for t in (ALIGNED, wide))
    assert isinstance(verify(first, second, symbolic=False), Different)
    # A launch in which b lies 8 bytes behind a shows which of them is read first.
    late = "ld.global.u32 %r3, [%rd1+8];\n\tst.global.u32 [%rd2+8], %r3;\n\tret;"
    early = f"ld.global.u32 %r3, [%rd1+8];\n\t{pair}\n\tst.global.u32 [%rd2+8], %r3;"
    first, second = ALIGNED.replace("ret;", late), ALIGNED.replace(pair, early)
    verdict = verify(first, second, symbolic=False)
    assert isinstance(verdict, Different) and "8 bytes apart" in str(verdict)


def test_a_difference_has_a_witness(tmp_path: Path) -> None:
    code, said = answer(tmp_path, BEFORE, OTHER_FLOATS, "--accept-runs")
    assert code == 1 and said.startswith("different: k: out[0] is ")
    told = words(tmp_path, BEFORE, OTHER_FLOATS)
    assert told["verdict"] == "different" and told["reason"].startswith("out[0] is ")
    spec = tmp_path / "witness.json"
    spec.write_text(json.dumps(told["witness"]))
    assert answer(tmp_path, BEFORE, OTHER_FLOATS, "--launch", str(spec))[0] == 1
    assert from_json(spec.read_text())[0].threads == 1


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        (BEFORE, SAME_FLOATS.replace("ld.global.f32", "ld.global.nc.f32"), "newly read by .nc"),
        (BEFORE.replace("st.global.u32", FENCE), SAME_FLOATS, "fences and ordered accesses"),
        (BEFORE.replace("st.global.u32", "st.volatile.global.u32"), SAME_FLOATS, "still order"),
    ],
    ids=[".nc", "a fence", "volatile"],
)
def test_what_no_run_can_show_is_not_accepted(
    first: str, second: str, why: str, tmp_path: Path
) -> None:
    code, said = answer(tmp_path, first, second, "--accept-runs")
    assert code == 3 and said.startswith(NO_DIFFERENCE)
    assert "no run can show" in said and why in said


def test_a_fence_in_both_keeps_runs_worth_something(tmp_path: Path) -> None:
    first, second = (t.replace("st.global.u32", FENCE) for t in (BEFORE, SAME_FLOATS))
    assert answer(tmp_path, first, second, "--accept-runs")[0] == 0


def test_without_a_launch_on_both_nothing_is_accepted(tmp_path: Path) -> None:
    texture = "tex.1d.v4.u32.s32 {%r4,%r5,%r6,%r7}, [%rd1, {%r1}];\n\tst.global.u32"
    first, second = (t.replace("st.global.u32", texture) for t in (BEFORE, SAME_FLOATS))
    code, said = answer(tmp_path, first, second, "--accept-runs")
    assert code == 3 and said.startswith("not decided: no difference in 0 launches, ")
    assert "tex" in said


def test_what_may_be_assumed_is_the_callers_to_say(tmp_path: Path) -> None:
    """As `__restrict__` does: what is read by `.nc` is not written through the other pointer."""
    other = BEFORE.replace("ld.global.f32", "ld.global.nc.f32")
    code, said = answer(tmp_path, BEFORE, other)
    assert code == 3 and ".nc reads bytes that may be written" in said
    names = "no-alias,no-outside-writer"
    assert f"; it is proved with --assume {names}; " in said
    assert answer(tmp_path, BEFORE, other, "--assume", names) == (
        0, "proved, assuming no-alias, no-outside-writer\n",
    )  # fmt: skip
    assert answer(tmp_path, BEFORE, other, "--assume", "none")[0] == 3
    out, in_ = "\tst.global.u32 [%rd4], 1;\n", "\tst.global.u32 [%rd5], 2;\n"
    one, two = (BEFORE.replace("\tret;", f"{both}\tret;") for both in (out + in_, in_ + out))
    assert answer(tmp_path, one, two)[0] == 1  # where in and out are the same
    assert answer(tmp_path, one, two, "--assume", names)[0] == 3


def test_a_difference_by_an_index_that_wraps_says_so(tmp_path: Path) -> None:
    narrow = "mad.lo.s32 %r3, %r2, 2, %r1;\n\tmul.wide.s32 %rd3, %r3, 4;"
    wide = "mul.wide.s32 %rd6, %r2, 8;\n\tmad.wide.s32 %rd3, %r1, 4, %rd6;"
    first, second = (BEFORE.replace("mul.wide.u32 %rd3, %r1, 4;", one) for one in (narrow, wide))
    first, second = (t.replace("%rd5, %rd2, %rd3", "%rd5, %rd1, %rd3") for t in (first, second))
    code, said = answer(tmp_path, first, second)
    assert code == 1 and "\nit is proved with --assume no-index-wrap\n" in said
    assert answer(tmp_path, first, second, "--assume", "no-index-wrap")[0] == 0


def test_blocks_of_a_shape_that_the_caller_names(tmp_path: Path) -> None:
    first, second = (BEFORE.replace("mov.u32 %r1, %tid.x;", one) for one in (
        "mov.u32 %r1, %tid.x;", "mov.u32 %r1, %tid.x;\n\tand.b32 %r1, %r1, 63;",
    ))  # fmt: skip
    assert answer(tmp_path, first, second)[0] == 1
    assert answer(tmp_path, first, second, "--block", "64") == (
        0, "proved, assuming blocks of 64x1x1 threads\n",
    )  # fmt: skip
    assert answer(tmp_path, first, second, "--block", "65")[0] == 1
    one = first.replace(" {\n", " .maxntid 32 {\n", 1)
    done = CliRunner().invoke(app, ["verify", *_written(tmp_path, one, one), "--block", "64"])
    assert str(done.exception) == "k does not run in blocks of 64x1x1 threads"


def _written(folder: Path, *texts: str) -> list[str]:
    paths = [folder / f"{n}.ptx" for n in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    return [*map(str, paths)]


def test_each_kernel_has_to_be_proved(tmp_path: Path) -> None:
    two = BEFORE + HIDDEN[HIDDEN.index(".visible") :].replace("entry k", "entry other")
    code, said = answer(tmp_path, two, two.replace(DOUBLED, "mul.f32 %f2, %f1, 0f40000000;", 1))
    assert code == 3 and said.startswith(NO_DIFFERENCE)
    assert said.splitlines()[1] == "2 kernels: 1 not decided, 1 proved"
    assert [line.split()[0] for line in said.splitlines()[2:]] == ["k", "other"]


def test_many_kernels_are_a_table_the_worst_first(tmp_path: Path) -> None:
    def named(text: str, name: str) -> str:
        return text[text.index(".visible") :].replace("entry k", f"entry {name}")

    head_of_all = BEFORE[: BEFORE.index(".visible")]
    first = head_of_all + "".join(named(BEFORE, name) for name in ("a", "b", "c"))
    second = head_of_all + named(BEFORE, "a") + named(SAME_FLOATS, "b") + named(OTHER_FLOATS, "c")
    code, said = answer(tmp_path, first, second, "-j", "2")
    lines = said.splitlines()
    assert code == 1
    assert lines[:2] == ["different", "3 kernels: 1 different, 1 not decided, 1 proved"]
    assert [line.split()[0] for line in lines[2:5]] == ["c", "b", "a"]
    assert lines[5] == "" and lines[6].startswith("different: c: out[0] is ")
    told = words(tmp_path, first, second)
    assert [(one["kernel"], one["verdict"]) for one in told["kernels"]] == [
        ("a", "proved"), ("b", "undecided"), ("c", "different"),
    ]  # fmt: skip
    assert told["verdict"] == "different" and told["witness"] == told["kernels"][2]["witness"]
