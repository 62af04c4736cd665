"""The known fault of each program is what is said of it first, and of its mended twin nothing is
said but notes. The whole texts are held in `golden/`; --update-golden writes them anew."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from benchmarks.programs.faults.cases import FAULTS, NEEDS_PTXAS, path
from ptxsw.cli.check_run import CheckedFile, Task, answer, answers
from ptxsw.cli.progress import bar
from ptxsw.report import messages
from ptxsw.report.layout import plain
from ptxsw.report.messages import Located
from ptxsw.toolchain.ptxas import NoPtxas, locate

NO_ESTIMATE = frozenset({
    "ptxsw-exposed-copies", "ptxsw-launch-bounds", "ptxsw-occupancy", "ptxsw-register-ceiling",
    "ptxsw-spills",
})  # fmt: skip
"""Rules about latency and registers, which change no figure of the bound."""
ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def found() -> Mapping[str, CheckedFile]:
    """What is found in each program, by the stem of its file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        files = [str(path(n, mended=m).relative_to(ROOT)) for n in FAULTS for m in (False, True)]
        with bar("checking", len(files)) as step:
            every = answers(files, Task(""), 1, step)
    return {Path(one.path).stem: one for one in every}


def has_ptxas() -> bool:
    try:
        return bool(locate())
    except NoPtxas:
        return False


def asked(name: str) -> None:
    if name in NEEDS_PTXAS and not has_ptxas():
        pytest.skip("there is no ptxas")


@pytest.mark.parametrize("name", FAULTS)
def test_fault_comes_first(name: str, found: Mapping[str, CheckedFile]) -> None:
    asked(name)
    first = found[name].findings[0]
    assert first.finding.rule == FAULTS[name]
    assert first.path in (f"benchmarks/programs/faults/cuda/{n}" for n in (f"{name}.cu", "many.h"))
    assert first.text and first.finding.weight > 0
    assert (first.finding.gain is None) is (FAULTS[name] in NO_ESTIMATE)


@pytest.mark.parametrize("name", FAULTS)
def test_mended_twin_has_notes_at_most(name: str, found: Mapping[str, CheckedFile]) -> None:
    mended = found[f"{name}-mended"]
    assert {each.finding.level for each in mended.findings} <= {"note"}
    assert not mended.problems


def test_whole_text(found: Mapping[str, CheckedFile], golden: Callable[[Path, str], None]) -> None:
    """Without what ptxas says, which depends on its version."""
    told = [each for one in found.values() for each in one.findings if not _by_ptxas(each)]
    golden(HERE / "golden" / "faults.txt", messages.text(told, plain))


def _by_ptxas(each: Located) -> bool:
    return bool(re.search("spills|launch-bounds|register|occupancy", each.finding.rule))


@pytest.mark.parametrize("file", [
    pytest.param(file, id=file.stem, marks=[pytest.mark.slow] * (number % 3 > 0))
    for number, file in enumerate(sorted((ROOT / "benchmarks/programs/ptx").glob("*.ptx")))
])  # fmt: skip
def test_other_programs_are_looked_at_without_trouble(file: Path) -> None:
    """Stencils of bytes, records of 28 bytes, trees of barriers: what is found has a place."""
    one = answer(Task(str(file), ptxas=False))
    assert not one.problems
    for each in one.findings:
        assert each.line >= 1 and each.finding.what.endswith(".") and each.finding.weight >= 0


def test_padded_tiles_have_notes_at_most() -> None:
    """The twins that the bank-conflict rewrite is measured against."""
    padded = sorted((ROOT / "benchmarks/programs/ptx").glob("*-padded.ptx"))
    assert len(padded) == 5
    for file in padded:
        conflicting = answer(Task(str(file).replace("-padded", ""), ptxas=False))
        assert conflicting.findings[0].finding.rule == "ptxsw-bank-conflicts"
        mended = answer(Task(str(file), ptxas=False))
        assert {each.finding.level for each in mended.findings} <= {"note"}
