"""A rewrite is two files of code, a line in the tuple, tests and a page of docs: nothing else
of the house has to know it."""

from __future__ import annotations

import pytest

from benchmarks.new_rewrite import NAMES, price


@pytest.mark.parametrize("name", NAMES)
def test_what_is_there_for_a_rewrite(name: str) -> None:
    """Others ask only for what one cannot say as a rewrite: `tune` the limits of `registers`."""
    found = price(name)
    assert all(found.code.values())
    assert found.tests
    assert found.page >= 5
    assert set(found.elsewhere) <= {"gpu/tune.py"}


def test_memory_spaces_costs_two_files() -> None:
    found = price("memory-spaces")
    assert [*found.code] == ["rewrites/memory_spaces.py", "codegen/lower_memory_spaces.py"]
    assert len(found.tests) == 1
    assert not found.elsewhere
