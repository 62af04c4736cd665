"""How many registers does a kernel hold at once? Told from its text, without a parser.

A register is held from where the text first names it to where it names it last. That is right for
straight code. In loops it is less than what is held, around code that ptxas moves, as polynomials
are, several times as much. So it tells only where it pays to ask ptxas how many registers a kernel
takes.
"""

from __future__ import annotations

import re
from itertools import accumulate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Final

CROWDED: Final = 216
"""Registers of 32 bits. Of the 255 that a thread can have few are left for addresses, and for loads
on their way: where 222 are held, vectors make ptxas spill, where it is 210, they do not."""

_DECLARED: Final = rb"\.reg\s+\.([a-z]+)(\d+)(x2)?\s([^;]*);"
_NAME: Final = rb"%[\w$]+"
_DIGITS: Final = b"0123456789"


def is_crowded(kernel: bytes) -> bool:
    """Does the text of one kernel hold so many registers that ptxas may have none left?"""
    return held_at_once(kernel) >= CROWDED


def mostly_crowded(ptx: bytes) -> bool:
    """Are such kernels more than half of a text of many?"""
    kernels = ptx.split(b".entry")[1:]
    return 2 * sum(len(kernel) for kernel in kernels if is_crowded(kernel)) > len(ptx)


def held_at_once(kernel: bytes) -> float:
    """The most registers of 32 bits that the text of one kernel holds at a time."""
    sizes = dict(_sizes(kernel))
    named = re.findall(_NAME, kernel)
    last = {name: at for at, name in enumerate(named)}
    first: dict[bytes, int] = {}
    for at, name in enumerate(named):
        first.setdefault(name, at)
    change = [0.0] * (len(named) + 1)
    for name, at in first.items():
        size = _size(name, sizes)
        change[at] += size
        change[last[name]] -= size
    return max(accumulate(change))


def _sizes(kernel: bytes) -> Iterator[tuple[bytes, float]]:
    """Registers of 32 bits by name, and by the first part of names that are numbered."""
    for declared in re.finditer(_DECLARED, kernel):
        size = int(declared[2]) * (2 if declared[3] else 1) / 32
        for name in declared[4].split(b","):
            yield name.partition(b"<")[0].strip(), size


def _size(name: bytes, sizes: Mapping[bytes, float]) -> float:
    return sizes.get(name) or sizes.get(name.rstrip(_DIGITS), 0.0)
