"""How often code is taken to run where no launch says so."""

from __future__ import annotations

from typing import Final

TRIPS: Final = 16
"""Iterations of a loop: a guess, the same everywhere, so that counts can be compared."""

_MOST_NESTED = 3  # loops deeper inside count no more: the figures stay comparable


def times_in_loops(depth: int) -> float:
    """How often a warp is taken to run code that stands inside so many loops."""
    return float(TRIPS ** min(_MOST_NESTED, depth))
