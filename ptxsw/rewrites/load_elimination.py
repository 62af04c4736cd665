"""Load elimination: a load of bytes that this thread has loaded already becomes a copy.

ld.global.f32 %f1, [%rd4];            ld.global.f32 %f1, [%rd4];
add.f32 %f2, %f1, %f9;         =>     add.f32 %f2, %f1, %f9;
ld.global.f32 %f3, [%rd5+-8];         mov.b32 %f3, %f1;         // %rd5 is %rd4 + 8
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from ptxsw.change import Change
from ptxsw.codegen.splice import Edit
from ptxsw.rewrites import joint
from ptxsw.rewrites.base import Found, Kernel, Requires


class LoadElimination:
    """See above. It is planned together with the others of `joint.TOGETHER`."""

    name: ClassVar[str] = joint.LOAD_ELIMINATION
    summary: ClassVar[str] = "A load of bytes that this thread has in a register becomes a copy."
    requires: ClassVar[Requires] = Requires()
    needs_ptxas: ClassVar[bool] = False
    follows: ClassVar[frozenset[str]] = frozenset()

    def find(self, kernel: Kernel) -> Iterator[Found]:
        """Changes, refusals, and the choice between schemes and forms."""
        return joint.find(kernel) if joint.leads(self.name, kernel) else iter(())

    def lower(self, kernel: Kernel, changes: Sequence[Change]) -> tuple[Edit, ...]:
        """The edits that make the changes."""
        return joint.lower(kernel, changes)
