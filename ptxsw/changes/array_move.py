"""Arrays of shared memory that lie elsewhere in a second text: their rows are padded or no longer
are, arrays changed places or became parts of one.

    float tile[32][32];        =>    float tile[32][33];         rows of 128 bytes are 132 apart
    float a[256], b[256];      =>    float s[512];               b begins at byte 1024 of s
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from msgspec import Struct

from ptxsw.changes.permutation import Permutation


class ArrayMove(Struct, frozen=True):
    """Where the rows of an array of the first text, which are `row` bytes apart, lie in one of the
    second: `pitch` bytes apart, the first `start` bytes behind the beginning of `into`."""

    array: str
    into: str
    row: int
    """Bytes; all of the array is one row where it is moved as a whole."""
    pitch: int
    start: int = 0

    @property
    def width(self) -> int:
        """How many bytes of each row are there in both texts."""
        return min(self.row, self.pitch)


Arrangement: TypeAlias = Permutation | tuple[ArrayMove, ...]
"""How the second text's shared memory is that of the first."""


def names_of(moves: Iterable[ArrayMove]) -> frozenset[str]:
    """The arrays of both texts."""
    return frozenset(name for move in moves for name in (move.array, move.into))
