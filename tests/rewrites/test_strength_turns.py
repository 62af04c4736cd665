"""Instructions of a turn before and after strength reduction, in programs of real compilers."""

from __future__ import annotations

import re

import pytest

from benchmarks.rewrites import ARCHS
from benchmarks.strength_reduction import REWRITE, Row, Subject, operators, programs, rows
from ptxsw.pipeline import Options, optimize
from tests.cost.conftest import Tools, tools

__all__ = ["tools"]  # fixtures

# What a turn takes at least before, and at most after.
TURNS = [
    ("neighbours-nvcc", 22.5, 17),
    ("neighbours-clang-O3", 22, 17),
    ("box-nvcc-rolled", 40, 38),
    ("box-nvcc", 28, 26),  # unrolled by four
    ("stencil-clang-O3", 48, 38),
    ("edges-nvcc", 40, 36),
    ("edges-clang-O3", 40, 37),
    ("column-nvcc", 7.5, 6),
    ("rows-nvcc", 32, 29),
]
FEW = {"neighbours-nvcc", "stencil-clang-O3", "column-nvcc", "rows-nvcc"}


def made(subject: Subject, arch: str) -> Row:
    (row,) = rows(subject, [arch], [REWRITE], "force")
    return row


def check(name: str, arch: str, before: float, after: float) -> None:
    row = made(programs()[name], arch)
    assert row.verdict == "proved, numpy's"
    assert row.before.instructions is not None and row.before.instructions >= before
    assert row.after.instructions is not None and row.after.instructions <= after


@pytest.mark.parametrize(("name", "before", "after"), [one for one in TURNS if one[0] in FEW])
def test_a_turn_takes_less(tools: Tools, name: str, before: float, after: float) -> None:
    check(name, "sm_80", before, after)


@pytest.mark.parametrize("name", ["neighbours-nvcc", "edges-clang-O3", "column-nvcc"])
def test_both_copies_of_a_kernel_have_it(name: str) -> None:
    """`read-only-loads` goes first: the loop stands in two scopes then, under one label."""
    options = Options("force", rewrites=("read-only-loads", REWRITE))
    (kernel,) = optimize(programs()[name].path.read_text(), options).report.kernels
    made = [change for change in kernel.rewrites or () if change.rewrite == REWRITE]
    assert len(made) == 2


def test_pointers_that_clang_has_made_stay() -> None:
    """It carries sums of 64 bits itself: no product is left in the loop."""
    text = programs()["rows-clang-O3"].path.read_text()
    result = optimize(text, Options("force", rewrites=(REWRITE,)))
    assert result.text == text


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("name", "before", "after"), TURNS)
def test_for_each_target(tools: Tools, name: str, arch: str, before: float, after: float) -> None:
    check(name, arch, before, after)


def _number(text: str) -> int:
    found = re.search(r"^\s*\.target\s+sm_(\d+)", text, re.MULTILINE)
    return int(found[1]) if found else 0


def _reasons(name: str, arch: str, mode: str = "force") -> list[str]:
    options = Options(mode, rewrites=(REWRITE,), arch=arch)
    (kernel,) = optimize(operators()[name].path.read_text(), options).report.kernels
    return [r.reason for r in kernel.refusals or () if r.rewrite == REWRITE]


def test_what_ptxas_makes_longer_is_put_back(tools: Tools) -> None:
    """For sm_120 it computes in every turn what was to be computed once, to save registers."""
    (reason,) = _reasons("tricubic-clang", "sm_120")
    assert reason.startswith("ptxas makes more of it for sm_120: ")


def test_auto_makes_it_where_it_pays(tools: Tools) -> None:
    """What ptxas makes of both texts decides, as for all rewrites."""
    options = Options("auto", arch="sm_80")
    text = programs()["neighbours-nvcc"].path.read_text()
    (kernel,) = optimize(text, options).report.kernels
    assert [r.rewrite for r in kernel.rewrites or ()] == [REWRITE]
    assert kernel.decision is not None and kernel.decision.by == "ptxas"
    text = programs()["column-clang-O1"].path.read_text()
    (kernel,) = optimize(text, options).report.kernels
    assert not kernel.rewrites


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", operators())
def test_no_operator_takes_more(tools: Tools, name: str, arch: str) -> None:
    """Of nvcc, clang and GCC, where everything is made that is proved and that ptxas does not make
    longer."""
    if _number(operators()[name].path.read_text()) > int(arch.removeprefix("sm_")):
        pytest.skip("made for a later target")
    assert made(operators()[name], arch).good
