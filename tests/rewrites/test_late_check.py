"""Mode auto weighs what the last rewrite makes, and checks it only where it pays."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ptxsw import checking
from ptxsw.emulator.budget import OUT_OF_TIME, OutOfTime
from ptxsw.pipeline import Options, optimize
from ptxsw.report.model import Kernel
from ptxsw.rewrites.weighing import cannot_count
from ptxsw.validate import Unproved, validate

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
PAYS = BENCHMARKS / "programs" / "ptx" / "neighbours-nvcc.ptx"
DOES_NOT = BENCHMARKS / "kernelgen" / "ptx" / "jacobi.ptx"


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is remembered. Skips where ptxas is missing."""
    monkeypatch.setenv("PTXSW_CACHE", str(tmp_path / "cache"))
    reason = cannot_count("sm_80")
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often texts were compared."""
    found: Counter[str] = Counter()

    def counted(*args: Any, **more: Any) -> Any:
        found["validate"] += 1
        return validate(*args, **more)

    monkeypatch.setattr(checking, "validate", counted)
    return found


def auto(path: Path, *rewrites: str) -> tuple[str, Kernel]:
    result = optimize(path.read_text(), Options(arch="sm_80", rewrites=rewrites))
    (kernel,) = result.report.kernels
    return result.text, kernel


def reasons(kernel: Kernel, rewrite: str) -> set[str]:
    return {r.reason for r in kernel.refusals or () if r.rewrite == rewrite}


def test_what_pays_is_checked(checks: Counter[str]) -> None:
    text, kernel = auto(PAYS, "strength-reduction")
    assert text != PAYS.read_text()
    assert kernel.decision is not None and kernel.decision.kept
    assert checks == {"validate": 1}


def test_what_does_not_pay_is_not(checks: Counter[str]) -> None:
    text, kernel = auto(DOES_NOT, "strength-reduction")
    assert text == DOES_NOT.read_text()
    assert any("not certainly pay" in reason for reason in reasons(kernel, "strength-reduction"))
    assert not checks


def test_what_others_build_on_is_checked_first(checks: Counter[str]) -> None:
    """Of two rewrites, the first is checked before the second reads what it made."""
    path = BENCHMARKS / "programs" / "ptx" / "chunks.ptx"
    _, kernel = auto(path, "vectorize", "strength-reduction")
    assert {r.rewrite for r in kernel.rewrites or ()} == {"vectorize"}
    assert checks == {"validate": 1}


def test_what_pays_and_cannot_be_proved_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was weighed but that, so nothing was decided."""
    monkeypatch.setattr(checking, "validate", lambda *_, **__: Unproved("a loop has no end"))
    text, kernel = auto(PAYS, "strength-reduction")
    assert text == PAYS.read_text()
    assert not kernel.rewrites and kernel.decision is None
    (reason,) = reasons(kernel, "strength-reduction")
    assert reason.startswith(checking.UNCHECKED) and "a loop has no end" in reason


def test_a_check_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*_: Any, **__: Any) -> Any:
        raise OutOfTime

    monkeypatch.setattr(checking, "validate", slow)
    text, kernel = auto(PAYS, "strength-reduction")
    assert text == PAYS.read_text()
    assert reasons(kernel, "strength-reduction") == {OUT_OF_TIME}


def test_what_was_made_before_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The texts before are weighed again, by what ptxas has said of them already."""
    path = BENCHMARKS / "programs" / "ptx" / "box-nvcc-rolled.ptx"
    before = ("read-only-loads", "scalar-replacement")
    expected, _ = auto(path, *before)
    assert expected != path.read_text()
    calls = 0

    def third_fails(*kernels: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        return Unproved("no reason") if calls == 3 else validate(*kernels, **more)

    monkeypatch.setattr(checking, "validate", third_fails)
    text, kernel = auto(path, *before, "strength-reduction")
    assert (calls, text) == (3, expected)
    assert {r.rewrite for r in kernel.rewrites or ()} == set(before)
    assert kernel.decision is not None and kernel.decision.kept
    assert any("no reason" in reason for reason in reasons(kernel, "strength-reduction"))
