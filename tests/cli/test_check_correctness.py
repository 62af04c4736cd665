"""`check --select correctness`: verdicts for each kernel, what may be required, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import ptxsw
from ptxsw.cli.commands import app
from ptxsw.driver import check_rules
from tests.heads import head

SHUFFLED = (
    head()
    + """
.visible .entry whole(.param .u64 p) .reqntid 64
{
    .reg .b32 %r<4>;
    mov.u32 %r1, %tid.x;
    shfl.sync.down.b32 %r2, %r1, 16, 31, -1;
    ret;
}
.visible .entry computed(.param .u64 p, .param .u32 m) .reqntid 64
{
    .reg .b32 %r<4>;
    ld.param.u32 %r3, [m];
    mov.u32 %r1, %tid.x;
    shfl.sync.down.b32 %r2, %r1, 16, 31, %r3;
    ret;
}
"""
)
MASK = ["--select", "warp-mask", "--no-ptxas"]


@pytest.fixture
def text(tmp_path: Path) -> str:
    path = tmp_path / "k.ptx"
    path.write_text(SHUFFLED)
    return str(path)


def check(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["check", *arguments])


def test_each_kernel_has_a_line(text: str) -> None:
    done = check(text, *MASK)
    assert done.exit_code == 0
    assert "whole: all lanes named by masks arrive\n" in done.stdout
    assert "computed: not decided: warp-mask (line 17: its mask is computed)\n" in done.stdout


def test_what_is_required_has_to_be_proved(text: str) -> None:
    done = check(text, *MASK, "--require", "warp-mask")
    assert done.exit_code == 3
    assert "not proved absent in computed: warp-mask" in done.stderr
    assert check(text, "--require", "ptxas-warning", "--no-ptxas").exit_code == 0


def test_only_rules_of_correctness_can_be_required(text: str) -> None:
    done = check(text, "--require", "column")
    assert done.exit_code != 0
    assert "ptxsw-column is not a correctness rule" in str(done.exception)


def test_json_has_the_verdicts(text: str) -> None:
    kernels = json.loads(check(text, *MASK, "--format", "json").stdout)["kernels"]
    assert [kernel["kernel"] for kernel in kernels] == ["whole", "computed"]
    assert kernels[0]["verdicts"] == {"warp-mask": {"verdict": "absent"}}
    assert kernels[1]["verdicts"]["warp-mask"]["verdict"] == "unknown"
    assert "mask is computed" in kernels[1]["verdicts"]["warp-mask"]["reason"]


def test_plain_check_asks_for_no_verdict(text: str) -> None:
    kernels = json.loads(check(text, "--no-ptxas", "--format", "json").stdout)["kernels"]
    assert not any("verdicts" in kernel for kernel in kernels)


def test_a_time_that_is_over_is_no_answer(text: str) -> None:
    report = ptxsw.check(SHUFFLED, select="warp-mask", seconds=1e-9)
    assert [k.verdicts["warp-mask"].verdict for k in report.kernels if k.verdicts] == [
        "unknown", "unknown",
    ]  # fmt: skip


def test_groups_of_rules() -> None:
    groups = check_rules.groups()
    assert check_rules.chosen() == groups["performance"]
    assert check_rules.chosen("all") == groups["performance"] | groups["correctness"]
    assert check_rules.chosen("correctness, column") == groups["correctness"] | {"ptxsw-column"}
    assert "ptxsw-warp-mask" not in check_rules.chosen("correctness", "warp-mask")
    with pytest.raises(ValueError, match="there is no rule ptxsw-spelling; known:"):
        check_rules.chosen(["spelling"])


def test_the_launch_below_a_fault_shows_it_again(tmp_path: Path) -> None:
    path, launch = tmp_path / "k.ptx", tmp_path / "launch.json"
    path.write_text(
        head()
        + """
.visible .entry turned(.param .u64 p) .reqntid 64
{
    .shared .align 4 .b8 s[256];
    .reg .b32 %r<8>;
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, s;
    mad.lo.s32 %r3, %r1, 4, %r2;
    st.shared.u32 [%r3], %r1;
    mad.lo.s32 %r4, %r1, -4, %r2;
    ld.shared.u32 %r5, [%r4+252];
    ret;
}
"""
    )
    done = check(str(path), "--select", "data-race,out-of-bounds", "--no-ptxas")
    assert done.exit_code == 1
    assert "no access outside arrays of known size" in done.stdout
    shown = [one for one in done.stdout.splitlines() if one.startswith("      launch: ")]
    assert len(shown) == 1
    launch.write_text(shown[0].removeprefix("      launch: "))
    again = CliRunner().invoke(app, ["run", str(path), "--launch", str(launch)])
    assert "a race with thread (63,0,0)" in str(again.exception)
