"""A rewrite is two files of code, a line in the tuple, tests and a page of docs: nothing else
of the house has to know it."""

from __future__ import annotations

import pytest

from benchmarks.new_rewrite import Price, prices

PRICES = tuple(prices())


@pytest.mark.parametrize("one", PRICES, ids=lambda one: one.name)
def test_what_is_there_for_a_rewrite(one: Price) -> None:
    """Others ask only for what one cannot say as a rewrite: `tune` the limits of `registers`."""
    assert all(one.code.values())
    assert one.tests
    assert one.page >= 5
    assert set(one.elsewhere) <= {"gpu/tune.py"}


def test_memory_spaces_costs_two_files() -> None:
    (one,) = (p for p in PRICES if p.name == "memory-spaces")
    assert [*one.code] == ["rewrites/memory_spaces.py", "codegen/lower_memory_spaces.py"]
    assert len(one.tests) == 1
    assert not one.elsewhere
