"""Nothing is refused of code that a rewrite wrote beside what it copies."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from ptxsw.changes.options import Options
from ptxsw.driver.pipeline import optimize
from ptxsw.report import model

ROOT = Path(__file__).parents[2]
LAYOUT = ROOT / "tests" / "fixtures" / "nvcc_layout_sm_90.ptx"
FDTD = ROOT / "benchmarks" / "programs" / "ptx" / "fdtd2d.ptx"


@cache
def forced(path: Path) -> list[model.Kernel]:
    return list(optimize(path.read_text(), Options(mode="force")).report.kernels)


@pytest.mark.parametrize("path", [LAYOUT, FDTD], ids=lambda path: path.stem)
def test_a_load_is_not_refused_its_own_copy(path: Path) -> None:
    """Loops stand twice, with `.nc` or with values kept in registers, and as they were. The loads
    of the second copy are no sources for those of the first."""
    kernels = forced(path)
    assert any(rewrite.proof.guards for kernel in kernels for rewrite in kernel.rewrites or ())
    for kernel in kernels:
        for refusal in kernel.refusals or ():
            assert refusal.source_line != refusal.line
            assert "not on every path" not in refusal.reason


def test_no_line_is_changed_and_refused_by_its_copy() -> None:
    for kernel in forced(FDTD):
        changed = {(rewrite.rewrite, rewrite.line) for rewrite in kernel.rewrites or ()}
        assert changed
        assert changed.isdisjoint((r.rewrite, r.line) for r in kernel.refusals or ())


def test_what_is_no_copy_is_still_refused() -> None:
    refused = [
        (refusal.rewrite, refusal.line)
        for kernel in forced(LAYOUT)
        for refusal in kernel.refusals or ()
    ]
    assert ("vectorize", 194) in refused
