"""Does a change certainly pay, by counts alone?

The time of a kernel lies between that of its busiest resource (all overlaps) and the sum over its
resources (nothing does). A change dominates where one of these ends falls and the other does not
rise; what may be busier still, such as global memory, is left as it is by both.
"""

from __future__ import annotations

from typing import NamedTuple

_ISSUED = 4.0  # instructions a cycle
_FALLS, _RISES = 0.05, 0.01  # at least, at most


class Ends(NamedTuple):
    """Between which the time of a warp lies, in cycles of a multiprocessor."""

    busiest: float
    sum: float


class Work(NamedTuple):
    """What a warp does, where no machine code is known: a multiprocessor issues four instructions a
    cycle, and serves one wavefront."""

    instructions: float
    wavefronts: float

    @property
    def ends(self) -> Ends:
        """The ends of its time."""
        issued = self.instructions / _ISSUED
        return Ends(max(issued, self.wavefronts), issued + self.wavefronts)


def dominates(after: Ends, before: Ends) -> bool:
    """Does one end of the time fall by 5 % or more, and the other rise by no more than 1 %?"""
    falls = any(new <= (1 - _FALLS) * old for new, old in zip(after, before, strict=True))
    return falls and all(new <= (1 + _RISES) * old for new, old in zip(after, before, strict=True))
