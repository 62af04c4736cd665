"""How often code is assumed to run if no launch is known."""

from __future__ import annotations

from typing import Final

TRIPS: Final = 16
"""Iterations of a loop: a guess, the same everywhere, so that counts can be compared."""

_MOST_NESTED = 3  # loops deeper inside count no more: the figures stay comparable


def times_in_loops(depth: int) -> float:
    """How often a warp is assumed to run code at this loop depth."""
    return float(TRIPS ** min(_MOST_NESTED, depth))
