"""Shared by the tests of the rewrites."""

from __future__ import annotations

import pytest


@pytest.fixture
def no_ptxas(monkeypatch: pytest.MonkeyPatch) -> None:
    """What mode auto does by the counts of the rewrites; `test_weighing.py` has what ptxas says."""
    monkeypatch.setenv("PTXSW_REAL_PTXAS", "/nowhere/ptxas")
