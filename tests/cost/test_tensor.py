"""Tensor cores, for which there are no figures, and waits for mbarriers, which are no work."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import ptxsw as package
from ptxsw.cost.account import Ends
from ptxsw.cost.counted import cannot_count
from ptxsw.cost.decide import dominates
from tests.command_line import ptxsw
from tests.heads import head

needs_ptxas = pytest.mark.skipif(bool(cannot_count("sm_80")), reason="no ptxas")

MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r0,%r1,%r2,%r3}, \
{%r4,%r5}, {%f0,%f1,%f2,%f3};"
WMMA = "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%f0,%f1,%f2,%f3,%f4,%f5,%f6,%f7}, \
{%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7}, {%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7}, \
{%f0,%f1,%f2,%f3,%f4,%f5,%f6,%f7};"
LOOP = """
    mov.u32 %r9, 0;
LOOP:
    {work}
    add.u32 %r9, %r9, 1;
    setp.lt.u32 %p1, %r9, %r8;
    @%p1 bra LOOP;
    st.global.f32 [%rd1], %f0;
"""
WAIT = """
WAIT:
    mbarrier.{poll}.parity.shared.b64 %p2, [bar], %r9;
    @%p2 bra DONE;
    bra WAIT;
DONE:
"""


def kernel(body: str, arch: str = "sm_80") -> str:
    return f"""{head("8.7", arch)}
.visible .entry k(.param .u64 p, .param .u32 n)
.reqntid 128, 1, 1
{{
    .reg .pred %p<9>;
    .reg .b32 %r<20>;
    .reg .f32 %f<9>;
    .reg .b64 %rd<9>;
    .shared .align 8 .b64 bar;
    ld.param.u64 %rd1, [p];
    ld.param.u32 %r8, [n];
{body}
    ret;
}}
"""


def said(*arguments: object) -> str:
    done = ptxsw("predict", *arguments)
    assert (done.returncode, done.stderr) == (0, b""), done.stderr.decode()
    return done.stdout.decode()


@pytest.mark.parametrize("work", [MMA, WMMA], ids=["mma", "wmma"])
def test_the_upper_end_is_open(work: str, tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text(kernel(LOOP.format(work=work)))
    text = said(tmp_path / "k.ptx", "--gpu", "a100", "--no-rewrites")
    assert re.search(r"loop LOOP, line \d+: at least \d.* cycles; tensor work is not mod", text)
    assert re.search(
        r"note: tensor work is not modelled: it begins with w?mma\.\S+, line 1\d", text
    )
    given = (tmp_path / "k.ptx", "--gpu", "a100", "--no-rewrites", "--format", "json")
    data = json.loads(said(*given), parse_constant=pytest.fail)
    [stretch] = data["kernels"][0]["stretches"]
    assert stretch["time"]["low"] > 0 and stretch["time"]["high"] is None
    assert stretch["likely"]["high"] is None and stretch["expected"] is None
    assert all(load["time"]["high"] is not None for load in stretch["resources"])


def test_the_page_says_so_too(tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text(kernel(LOOP.format(work=MMA)))
    done = ptxsw("report", tmp_path / "k.ptx", "--html", tmp_path / "k.html")
    assert done.returncode == 0, done.stderr.decode()
    page = (tmp_path / "k.html").read_text()
    assert re.search(r"one iteration of LOOP, at least [\d.]+ cycles; tensor work is not", page)


def test_nothing_is_called_slower_or_faster(tmp_path: Path) -> None:
    """Ten times the work beside the tensor cores: that is not ten times the time."""
    more = MMA + "fma.rn.f32 %f5, %f5, %f6, %f7;" * 400
    (tmp_path / "a.ptx").write_text(kernel(LOOP.format(work=MMA)))
    (tmp_path / "b.ptx").write_text(kernel(LOOP.format(work=more)))
    for one, other in (("a", "b"), ("b", "a")):
        text = said(tmp_path / f"{one}.ptx", "--against", tmp_path / f"{other}.ptx",
                    "--no-rewrites")  # fmt: skip
        assert "the other text in the loop LOOP: the bounds overlap; tensor work is not" in text
        assert "times as long" not in text


def test_effects_of_rewrites_leave_it_open(tmp_path: Path) -> None:
    twice = "ld.global.f32 %f5, [%rd1+8]; ld.global.f32 %f6, [%rd1+8]; add.f32 %f0, %f5, %f6;"
    (tmp_path / "k.ptx").write_text(kernel(LOOP.format(work=MMA + twice)))
    text = said(tmp_path / "k.ptx", "--rewrites", "--gpu", "a100")
    assert re.search(r"load-elimination +1 change: at least .*, at most open -> open cycles", text)


def test_the_gate_asks_for_more_than_a_smaller_sum() -> None:
    """The busiest resource, or the tensor cores, may hide all of it."""
    before, less_of_others = Ends(100.0, 180.0), Ends(100.0, 150.0)
    assert dominates(less_of_others, before)
    assert not dominates(Ends(100.0, 150.0, True), Ends(100.0, 180.0, True))
    assert dominates(Ends(80.0, 160.0, True), Ends(100.0, 180.0, True))
    assert not dominates(Ends(80.0, 190.0, True), Ends(100.0, 180.0, True))


@pytest.mark.parametrize("poll", ["try_wait", "test_wait"])
def test_a_wait_is_never_the_loop(poll: str) -> None:
    """A warp that waits in a loop of tiles works on tiles; one that only waits has no loop."""
    wait, tile = WAIT.format(poll=poll), "ld.global.f32 %f1, [%rd1+16]; add.f32 %f0, %f0, %f1;"
    nested = package.predict(kernel(LOOP.format(work=wait + tile), "sm_90"), rewrites=False)
    [stretch] = nested.kernels[0].stretches
    assert stretch.label == "LOOP"
    assert "l1" in {load.name for load in stretch.resources if load.time.high}
    alone = package.predict(kernel(f"mov.u32 %r9, 0; {wait}", "sm_90"), rewrites=False)
    assert [stretch.label for stretch in alone.kernels[0].stretches] == [None]
    busy = package.predict(kernel(f"mov.u32 %r9, 0; {wait.replace('WAIT:', 'WAIT: ' + tile)}",
                                  "sm_90"), rewrites=False)  # fmt: skip
    assert [stretch.label for stretch in busy.kernels[0].stretches] == ["WAIT"]


@needs_ptxas
@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a", "sm_103a", "sm_120a"])
def test_targets_keep_their_suffix(arch: str, tmp_path: Path) -> None:
    """`setmaxnreg` is for targets with a suffix alone: without it, ptxas makes nothing of it."""
    text = kernel("setmaxnreg.dec.sync.aligned.u32 40;" + LOOP.format(work=""), arch)
    (tmp_path / "k.ptx").write_text(text.replace("8.7", "8.8"))
    answer = said(tmp_path / "k.ptx", "--no-rewrites")
    assert f" stands for {arch}; --gpu names another" in answer
    assert "no machine code" not in answer and "machine code and registers" not in answer
    assert re.search(r"occupancy \d+ %: \d+ blocks of 128 threads, limited by", answer)
