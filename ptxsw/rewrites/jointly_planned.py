"""The rewrites that `joint` plans together: their names, and which of them does the planning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ptxsw.rewrites.base import Requires

if TYPE_CHECKING:
    from ptxsw.changes.change import Line
    from ptxsw.rewrites.base import Kernel

LOAD_ELIMINATION, UNIFORM_LOOPS, SHUFFLE = "load-elimination", "uniform-loops", "shuffle"
TOGETHER = (LOAD_ELIMINATION, UNIFORM_LOOPS, SHUFFLE)

FOR_SHUFFLES = Requires((6, 2), "has no activemask", 30, "has no shuffle")
"""What shuffles and votes need."""


class RefusedSource(Struct, frozen=True):
    """The load whose value a refused load would have taken, and the lanes between them."""

    index: int
    delta: int

    def facts(self, line: Line) -> Mapping[str, Any]:
        return {"source_line": line(self.index), "delta": self.delta}


def leads(name: str, kernel: Kernel) -> bool:
    """Does this rewrite make the joint plan: is it the last of them that is considered?"""
    return name == [one for one in TOGETHER if one in kernel.considered][-1]
