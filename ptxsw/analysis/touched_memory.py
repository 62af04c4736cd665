"""What one request of a warp touches: sectors, lines, words of banks.

The argument `offsets` holds the bytes at which the lanes point, `size` the bytes of each access.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from ptxsw.analysis.coalescing import LANES, SECTOR, touched
from ptxsw.analysis.warps import LINE, Offsets

BANKS = 32  # of 4 bytes


def stride(offsets: Offsets) -> int | None:
    """The bytes from every lane to the next, where that is one number."""
    steps = {b - a for a, b in pairwise(offsets)}
    return steps.pop() if len(steps) == 1 else None


def sectors(offsets: Offsets, size: int) -> int:
    """32-byte sectors that the lanes touch, `size` bytes each."""
    return len(touched(offsets, size, SECTOR))


def lines(offsets: Offsets, size: int) -> int:
    """128-byte lines that the lanes touch, `size` bytes each."""
    return len(touched(offsets, size, LINE))


def used(offsets: Offsets, size: int) -> int:
    """Different bytes that the lanes ask for."""
    return len(touched(offsets, size, 1))


def local_sectors(offsets: Offsets, size: int) -> int:
    """Sectors of local memory. The hardware interleaves it: the words that the lanes have at one
    local address lie side by side, so equal offsets are coalesced."""
    places: set[tuple[int, int]] = set()
    for lane, at in enumerate(offsets):
        places.update((word, lane * 4 // SECTOR) for word in touched((at,), size, 4))
    return len(places)


def bank_ways(offsets: Offsets, size: int, *, apart: bool = False) -> int:
    """The number of ways of the bank conflict: 1 if no two lanes access different words of one
    bank. Accesses of 8 and 16 bytes are served by half and quarter warps. `apart`: lanes that
    access the same word wait for each other, too, as in an atomic operation."""
    together = LANES * 4 // max(4, size)
    worst = 1
    for first in range(0, len(offsets), together):
        lanes = offsets[first : first + together]
        words = [word for at in lanes for word in touched((at,), size, 4)]
        banks = [word % BANKS for word in (words if apart else set(words))]
        worst = max(worst, *(banks.count(bank) for bank in set(banks)))
    return worst


def meeting(offsets: Offsets, size: int) -> int:
    """How many lanes want the same word, at most."""
    words = Counter(word for at in offsets for word in touched((at,), size, 4))
    return max(words.values(), default=1)
