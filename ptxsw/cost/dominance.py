"""Does a change certainly pay, by counts alone?

The time of a kernel lies between that of its busiest resource (all overlaps) and the sum over its
resources (nothing does). A change dominates where one of these ends falls and the other does not
rise; what may be busier still, such as global memory, is left as it is by both. A change gains
whatever overlaps where the upper end of the new time lies below the lower end of the old. Where
tensor cores work, for which there are no figures, the upper end is open: that the sum of the others
falls proves nothing, and only the busiest can be seen to gain.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

FALLS: Final = 0.05  # at least
_RISES: Final = 0.01  # at most
_SAME: Final = 1e-9  # relative; of what cannot differ
_ISSUED: Final = 4.0  # instructions a cycle


class Ends(NamedTuple):
    """Between which the time of a warp lies, in cycles of a multiprocessor. `is_open`: is `sum` not
    all that it does?"""

    busiest: float
    sum: float
    is_open: bool = False


class WarpWork(NamedTuple):
    """What a warp does, where no machine code is known: a multiprocessor issues four instructions a
    cycle, and serves one wavefront."""

    instructions: float
    wavefronts: float

    @property
    def ends(self) -> Ends:
        """The ends of its time."""
        issued = self.instructions / _ISSUED
        return Ends(max(issued, self.wavefronts), issued + self.wavefronts)


def dominates(after: Ends, before: Ends, falls: float = FALLS) -> bool:
    """Does one end of the time fall by 5 % (or the share `falls`) or more, and the other rise by
    no more than 1 %?"""
    pairs = ((after.busiest, before.busiest), (after.sum, before.sum))
    told = pairs[:1] if after.is_open or before.is_open else pairs
    fallen = any(new <= (1 - falls) * old for new, old in told)
    return fallen and all(new <= (1 + _RISES) * old for new, old in pairs)


def gains(after: Mapping[str, float], before: Mapping[str, float], falls: float = FALLS) -> bool:
    """Is the upper end of the new time below the lower end of the old, by the share `falls`?
    Cycles are by resource; a resource that both keep busy for as long cancels."""
    differ = [
        name for name in before.keys() | after.keys()
        if abs(before.get(name, 0.0) - after.get(name, 0.0)) > _SAME * before.get(name, 0.0)
    ]  # fmt: skip
    most = sum(after.get(name, 0.0) for name in differ)
    least = max((before.get(name, 0.0) for name in differ), default=0.0)
    whole = max(before.values(), default=0.0)
    return most < least and least - most >= falls * whole
