"""A line of the tuple brings the file of its rewrite, and does not contradict it."""

from __future__ import annotations

from typing import Any

import pytest

from ptxsw.driver import passes
from ptxsw.driver.pipeline import Options, optimize
from ptxsw.emulator.run import emulate
from ptxsw.rewrites import REWRITES
from ptxsw.rewrites.base import LazyRewrite, Rewrite
from ptxsw.rewrites.rules import LocalRewrite
from tests.crowded import crowded


@pytest.mark.parametrize("rewrite", REWRITES, ids=lambda one: one.name)
def test_its_search_is_there(rewrite: Rewrite) -> None:
    assert rewrite.summary.endswith(".")
    if isinstance(rewrite, LazyRewrite):
        assert rewrite.search.name == rewrite.name
        assert rewrite.search is rewrite.search
    else:
        assert isinstance(rewrite, LocalRewrite)


def test_what_has_changed_is_run_again_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """For all rewrites that look at it behind the one that has changed it."""
    runs: list[str] = []

    def counting(*args: Any, **more: Any) -> Any:
        runs.append("run")
        return emulate(*args, **more)

    monkeypatch.setattr(passes, "emulate", counting)
    text = crowded()
    result = optimize(text, Options(mode="force", arch="sm_80"))
    assert result.text != text and runs == ["run"] * 2
    names = ("vectorize", "strength-reduction")
    named = optimize(text, Options(mode="force", arch="sm_80", rewrites=names))
    assert named.text == result.text and runs == ["run"] * 4
