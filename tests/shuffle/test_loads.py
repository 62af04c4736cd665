"""Finding and judging sources takes time in proportion to the loads."""

from __future__ import annotations

import pytest

from benchmarks.loads import KINDS, exponent, seconds


@pytest.mark.parametrize("kind", KINDS)
def test_linear_in_loads(kind: str) -> None:
    """Twice the loads may cost far less than four times as much: the bound leaves room for what
    else the machine does."""
    sizes, measured = [200, 800], []
    for size in sizes:
        best, found = min(seconds(size, kind) for _ in range(2))
        assert found == 4 * size // 5
        measured.append(best)
    assert exponent(sizes, measured) < 1.5
