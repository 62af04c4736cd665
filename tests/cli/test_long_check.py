"""A check of much PTX: a bar that moves with every kernel, findings while it lasts, and the same
answer from several processes."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import pytest

from ptxsw.cli import progress
from ptxsw.driver import checking
from ptxsw.driver.checking import check
from ptxsw.report.model import Kernel
from ptxsw.report.serial import to_json
from tests.command_line import ROOT, ptxsw

TRANSPOSE = (ROOT / "tests" / "report" / "ptx" / "transpose.ptx").read_text()


@pytest.mark.parametrize("jobs", [1, 3])
def test_kernels_of_a_long_text_are_shared_among_processes(
    jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = TRANSPOSE
    monkeypatch.setattr(checking, "LONG", 100)
    told: list[tuple[int, int, str]] = []

    def finished(done: int, of: int, kernel: Kernel) -> None:
        told.append((done, of, kernel.name))

    report = check(text, "t.ptx", ptxas=False, jobs=jobs, finished=finished)
    alone = check(text, "t.ptx", ptxas=False)
    assert to_json(report)["kernels"] == to_json(alone)["kernels"]
    count = len(report.kernels)
    assert [one[:2] for one in told] == [(done, count) for done in range(1, count + 1)]
    assert {one[2] for one in told} == {kernel.name for kernel in report.kernels}


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("patience", "streams"), [(0.0, True), (60.0, False)])
def test_who_waits_for_long_sees_what_was_found(
    patience: float, streams: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line for each warning as it is found, above the bar; who waits for a moment sees none."""
    monkeypatch.setattr(progress, "_PATIENCE", patience)
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    with progress.bar("checking", 2) as step:
        step(0, "a.ptx")
        step.say("a.ptx:3: warning: 32-way conflict in k [ptxsw-bank-conflicts]")
        step(1, "k")
    shown = screen.getvalue()
    assert ("\x1b[Ka.ptx:3: warning: 32-way conflict in k [ptxsw-bank-conflicts]\n" in shown) is (
        streams
    )
    assert shown.endswith("\r\x1b[Kchecking [############------------] 1/2 k\r\x1b[K")


def test_the_bar_counts_kernels_of_one_file_and_files_of_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ptxsw.cli import check_run

    said: list[str] = []
    steps: list[tuple[int, int, str]] = []

    class Watch:
        total = 1

        def __call__(self, done: int, name: str) -> None:
            steps.append((done, self.total, name))

        def say(self, line: str) -> None:
            said.append(line)

    paths = [str(tmp_path / name) for name in ("a.ptx", "b.ptx")]
    for path in paths:
        Path(path).write_text(TRANSPOSE)
    task = check_run.Task("", ptxas=False)
    [one] = check_run.answers(paths[:1], task, 1, Watch())
    count = len(one.reports[0].kernels)
    assert steps == [(0, 1, paths[0])] + [
        (done, count, kernel.name) for done, kernel in enumerate(one.reports[0].kernels, 1)
    ]
    warnings = [each for each in one.findings if each.finding.level == "warning"]
    assert len(said) == len(warnings) > 0
    assert any(
        re.fullmatch(
            r"transpose\.cu:17: warning: 32-way conflict in conflicting \[ptxsw-bank-conflicts\]",
            line,
        )
        for line in said
    )
    steps.clear()
    watch = Watch()
    watch.total = 2
    check_run.answers(paths, task, 1, watch)
    assert steps == [(0, 2, ""), (1, 2, paths[0]), (2, 2, paths[1])]


def test_the_answer_comes_worst_first_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "t.ptx").write_text(TRANSPOSE)
    done = ptxsw("check", "t.ptx", "--no-ptxas", "--format", "json", cwd=tmp_path)
    levels = [each["level"] for each in json.loads(done.stdout)["findings"]]
    assert levels == sorted(levels, reverse=True) and done.stderr == b""
