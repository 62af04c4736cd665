"""What CI runs: the script of the action on a repository, with and without its baseline."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ptxsw.report.code_quality import gitlab
from ptxsw.report.messages import Located
from ptxsw.report.model import Finding
from tests.command_line import ROOT, ptxsw

EXAMPLE = ROOT / "examples" / "ci"
TILE = ROOT / "benchmarks" / "programs" / "faults" / "ptx" / "tile.ptx"
needs_nvcc = pytest.mark.skipif(not shutil.which("nvcc"), reason="no nvcc")


def action(place: Path, files: str, baseline: str = "") -> subprocess.CompletedProcess[str]:
    """The step "Check kernels" of `action.yml`."""
    script = place / "ptxsw"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ptxsw "$@"\n')
    script.chmod(0o755)
    given = {
        "PTXSW": str(script), "FILES": files, "ARCH": "sm_90", "OPTIONS": "--no-ptxas",
        "BASELINE": baseline, "FAIL_ON": "warning", "SARIF": str(place / "ptxsw.sarif"),
        "GITHUB_STEP_SUMMARY": str(place / "summary.md"), "GITHUB_OUTPUT": str(place / "output"),
    }  # fmt: skip
    return subprocess.run(
        ["bash", str(ROOT / ".ci" / "check-action")], cwd=EXAMPLE, env={**os.environ, **given},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip


@needs_nvcc
def test_the_action_passes_with_what_is_known(tmp_path: Path) -> None:
    done = action(tmp_path, "src/*.cu", "ptxsw.json")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert (tmp_path / "summary.md").read_text().startswith("### ptxsw: no findings in 1 kernel")


@needs_nvcc
def test_the_action_fails_for_what_is_new(tmp_path: Path) -> None:
    done = action(tmp_path, "src/*.cu change/*.cu", "ptxsw.json")
    assert done.returncode == 1
    assert done.stdout.startswith("::warning file=change/tile.cu,line=8,")
    summary = (tmp_path / "summary.md").read_text()
    assert (
        "| warning | change/tile.cu:8 | transpose | 32-way conflict | bank-conflicts |" in summary
    )
    sarif = json.loads((tmp_path / "ptxsw.sarif").read_text())
    assert [r["ruleId"] for r in sarif["runs"][0]["results"]] == ["ptxsw-bank-conflicts"]
    assert (tmp_path / "output").read_text() == f"sarif={tmp_path / 'ptxsw.sarif'}\n"


def test_a_code_quality_report() -> None:
    done = ptxsw("check", TILE, "--no-ptxas", "--format", "gitlab")
    (issue,) = json.loads(done.stdout)
    assert done.returncode == 1 and issue["severity"] == "major"
    assert issue["check_name"] == "ptxsw-bank-conflicts"
    assert (
        issue["location"]["path"].endswith("tile.cu") and issue["location"]["lines"]["begin"] == 16
    )


def test_findings_that_look_alike_have_fingerprints_of_their_own() -> None:
    finding = Finding("ptxsw-column", "note", "k", 6, 2, "8 sectors", "What.", "Advice.", 1.0)
    one = Located(finding, "k.cu", 3, 1, "a[i] = b[i];", "k.ptx")
    first, second = gitlab([one, one])
    assert first["severity"] == "info" and first["description"] == "What. Advice."
    assert second["fingerprint"] == f"{first['fingerprint']}-1"


def test_a_summary_without_findings() -> None:
    mended = TILE.with_name("tile-mended.ptx")
    done = ptxsw("check", mended, "--no-ptxas", "--format", "markdown")
    assert done.stdout == b"### ptxsw: no findings in 1 kernel\n\n"


def test_one_check_writes_several_formats(tmp_path: Path) -> None:
    done = ptxsw(
        "check", TILE, "--no-ptxas", "--also", "sarif=a.sarif", "--also", "json=a.json",
        cwd=tmp_path,
    )  # fmt: skip
    assert b"32-way" in done.stdout
    assert json.loads((tmp_path / "a.sarif").read_text())["runs"][0]["results"]
    assert json.loads((tmp_path / "a.json").read_text())["findings"]
    wrong = ptxsw("check", TILE, "--also", "pdf=x")
    assert (wrong.returncode, wrong.stdout) == (2, b"")
    assert wrong.stderr.decode() == (
        "--also pdf=x: name a format (json, sarif, github, gitlab, markdown) and a file, "
        "as sarif=ptxsw.sarif\n"
    )
