"""Shuffle synthesis (CC'23): a load of bytes that a neighbouring lane has just loaded becomes a
shuffle; lanes without such a neighbour make the load themselves.

    ld.global.nc.f32 %f3, [%rd6+4];        ld.global.nc.f32 %f3, [%rd6+4];
                                           mov.b32 %sw_src1, %f3;
    ld.global.nc.f32 %f5, [%rd6];   =>     shfl.sync.up.b32 %f5, %sw_src1, 1, 0, %sw_mask1;
                                           @%sw_own1 ld.global.nc.f32 %f5, [%rd6];
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from ptxsw.changes.change import Change
from ptxsw.codegen.splice import Edit
from ptxsw.rewrites import joint
from ptxsw.rewrites.base import SHUFFLE, Kernel, Outcome, leads


class Shuffle:
    """See above. It is planned together with the others of `TOGETHER`."""

    name: ClassVar[str] = SHUFFLE
    summary: ClassVar[str] = "A load of bytes that another lane has just loaded becomes a shuffle."

    def find(self, kernel: Kernel) -> Iterator[Outcome]:
        """Changes, refusals, and the choice between schemes and forms."""
        return joint.find(kernel) if leads(self.name, kernel) else iter(())

    def nothing(self, kernel: Kernel) -> str:
        """See `OwnSearch`."""
        return "no load reads bytes that another lane of the warp has just loaded"

    def lower(self, kernel: Kernel, changes: Sequence[Change]) -> tuple[Edit, ...]:
        """The edits that make the changes."""
        return joint.lower(kernel, changes)
