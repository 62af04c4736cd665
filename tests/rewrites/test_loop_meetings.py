"""Where a store surely stands in the way of all that a loop could keep, the whole search finds
nothing either, whatever is tested."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from ptxsw.changes.change import Change
from ptxsw.parser import parse
from ptxsw.rewrites.loop_reuse import LoopReuse
from ptxsw.rewrites.scalar_replacement import ScalarReplacement
from tests.real import FIXTURES, text_of
from tests.rewrites.pair import kernel as text_of_lines
from tests.rewrites.test_reasons_untold import kernels
from tests.rewrites.test_scalar_random import drawn

PROGRAMS = sorted((Path(__file__).parents[2] / "benchmarks").glob("*/ptx/*.ptx"))
STENCILS = [path for path in (*FIXTURES, *PROGRAMS) if "_lineinfo" not in path.stem]


def check(text: str, monkeypatch: pytest.MonkeyPatch) -> set[bool]:
    """Which answers were given, if the changes are those of a search that asks not."""
    answers: list[bool] = []
    blocked = LoopReuse.__dict__["_is_blocked"].func

    def noted(loop: LoopReuse) -> bool:
        answers.append(blocked(loop))
        return answers[-1]

    found = []
    for is_blocked in (noted, lambda loop: False):
        with monkeypatch.context() as patch:
            patch.setattr(LoopReuse, "_is_blocked", property(is_blocked))
            found.append([
                outcome
                for kernel in kernels(text)
                for outcome in ScalarReplacement().find(kernel)
                if isinstance(outcome, Change)
            ])  # fmt: skip
    assert found[0] == found[1]
    return set(answers)


@pytest.mark.parametrize("path", STENCILS, ids=lambda path: path.stem)
def test_programs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not parse(text_of(path)).kernels:
        return
    answers = check(text_of(path), monkeypatch)
    assert path.stem != "nvcc_stencil_sm_80" or answers == {False, True}


@pytest.mark.parametrize("seed", range(4))
def test_random_loops(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    for _ in range(5):
        check(text_of_lines(drawn(random)), monkeypatch)
