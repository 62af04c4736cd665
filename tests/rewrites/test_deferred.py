"""A line of the tuple brings the file of its rewrite, and does not contradict it."""

from __future__ import annotations

from typing import Any

import pytest

from ptxsw.driver import passes
from ptxsw.driver.pipeline import Options, optimize
from ptxsw.emulator.run import emulate
from ptxsw.rewrites import REWRITES
from ptxsw.rewrites.base import Deferred, Rewrite
from ptxsw.rewrites.narrowing import OPERATIONS
from tests.crowded import crowded


@pytest.mark.parametrize("rewrite", REWRITES, ids=lambda one: one.name)
def test_its_search_is_there(rewrite: Rewrite) -> None:
    assert isinstance(rewrite, Deferred)
    assert rewrite.search.name == rewrite.name
    assert rewrite.summary.endswith(".")
    assert rewrite.search is rewrite.search


def test_a_rewrite_looks_for_what_it_follows() -> None:
    """Division and product are named twice, as words and as instructions."""
    (row,) = (one for one in REWRITES if one.name == "narrowing")
    assert {*row.requires.words} == row.follows == OPERATIONS


def test_without_a_loop_it_is_not_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has been changed is run symbolically for a rewrite that looks at loops only if there is
    one, or if its reasons are asked for."""
    runs: list[str] = []

    def counting(*args: Any, **more: Any) -> Any:
        runs.append("run")
        return emulate(*args, **more)

    monkeypatch.setattr(passes, "emulate", counting)
    text = crowded()
    result = optimize(text, Options(mode="force", arch="sm_80"))
    assert result.text != text and runs == ["run"]
    names = ("vectorize", "strength-reduction")
    named = optimize(text, Options(mode="force", arch="sm_80", rewrites=names))
    assert named.text == result.text and runs == ["run"] * 3
