"""Uniform loops: a loop that lanes leave in different iterations is driven by a vote.

$LOOP:                                 $LOOP:
ld.global.nc.f32 %f1, [%rd6];          @%sw_in1 ld.global.nc.f32 %f1, [%rd6];
add.s32 %r3, %r3, %r6;          =>     add.s32 %r3, %r3, %r6;
setp.lt.s32 %p3, %r3, %r4;             setp.lt.s32 %p3, %r3, %r4;
@%p3 bra $LOOP;                        and.pred %sw_in1, %sw_in1, %p3;
                                       vote.sync.any.pred %sw_go1, %sw_in1, -1;
                                       @%sw_go1 bra $LOOP;
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from ptxsw.changes.change import Change
from ptxsw.codegen.splice import Edit
from ptxsw.rewrites import joint
from ptxsw.rewrites.base import UNIFORM_LOOPS, Kernel, Outcome, leads


class UniformLoops:
    """See above. It is planned together with the others of `TOGETHER`."""

    name: ClassVar[str] = UNIFORM_LOOPS
    summary: ClassVar[str] = "A vote of the warp drives a loop that lanes leave at different times."

    def find(self, kernel: Kernel) -> Iterator[Outcome]:
        """Changes, refusals, and the choice between schemes and forms."""
        return joint.find(kernel) if leads(self.name, kernel) else iter(())

    def nothing(self, kernel: Kernel) -> str:
        """See `OwnSearch`."""
        return "it has no loop that lanes may leave in different iterations"

    def lower(self, kernel: Kernel, changes: Sequence[Change]) -> tuple[Edit, ...]:
        """The edits that make the changes."""
        return joint.lower(kernel, changes)
