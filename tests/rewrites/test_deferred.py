"""A line of the tuple brings the file of its rewrite, and does not contradict it."""

from __future__ import annotations

import pytest

from ptxsw.rewrites import REWRITES
from ptxsw.rewrites.base import Deferred, Rewrite
from ptxsw.rewrites.narrowing import Narrowing


@pytest.mark.parametrize("rewrite", REWRITES, ids=lambda one: one.name)
def test_its_search_is_there(rewrite: Rewrite) -> None:
    assert isinstance(rewrite, Deferred)
    assert rewrite.search.name == rewrite.name
    assert rewrite.summary.endswith(".")
    assert rewrite.search is rewrite.search


def test_a_rewrite_looks_for_what_it_follows() -> None:
    """Division and product are named twice, as words and as instructions."""
    (row,) = (one for one in REWRITES if one.name == "narrowing")
    assert {*row.requires.words} == row.follows == Narrowing.follows
