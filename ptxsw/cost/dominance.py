"""Does a change certainly pay, by counts alone?

A multiprocessor issues four instructions a cycle and serves one wavefront of shared memory. The
time of a kernel lies between that of the busiest of the two (all overlaps) and their sum (nothing
does). A change dominates where one end falls and the other does not rise; what may be busier still,
such as global memory, is left as it is by both.
"""

from __future__ import annotations

from typing import NamedTuple

_ISSUED = 4.0  # instructions a cycle
_FALLS, _RISES = 0.05, 0.01  # at least, at most


class Work(NamedTuple):
    """What a warp does: instructions that it executes, and its wavefronts of shared memory."""

    instructions: float
    wavefronts: float

    @property
    def busiest(self) -> float:
        """Cycles of the busier resource."""
        return max(self.instructions / _ISSUED, self.wavefronts)

    @property
    def sum(self) -> float:
        """Cycles of both, one after the other."""
        return self.instructions / _ISSUED + self.wavefronts


def dominates(after: Work, before: Work) -> bool:
    """Does one end of the time fall by 5 % or more, and the other rise by no more than 1 %?"""
    ends = [(after.busiest, before.busiest), (after.sum, before.sum)]
    falls = any(new <= (1 - _FALLS) * old for new, old in ends)
    return falls and all(new <= (1 + _RISES) * old for new, old in ends)
