"""Loads of global memory as read-only ones; `rewrites/read_only_loads.py` has the lines before and
after."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from ptxsw.changes.change import Change, Line
from ptxsw.codegen.builder import Builder
from ptxsw.codegen.entry_guard import EntryGuard, write_guarded


class ReadOnlyLoad(Struct, frozen=True):
    """Load `at` gets `.nc`: outright, or in the copy of the body behind a test."""

    at: int
    test: EntryGuard | None = None

    def facts(self, line: Line) -> Mapping[str, Any]:
        """What a report says of it."""
        return {"tested": self.test is not None}


def lower(builder: Builder, text: str, changes: Iterable[Change]) -> None:
    """Write all changes; `text` is that of the whole module."""
    details = [c.detail for c in changes if isinstance(c.detail, ReadOnlyLoad)]
    for detail in details:
        instruction = builder.instructions[detail.at]
        line = text[instruction.span.start : instruction.span.end]
        name = instruction.name.replace("ld.global", "ld.global.nc", 1)
        builder.replace(detail.at, line.replace(instruction.name, name, 1))
    write_guarded(builder, (detail.test for detail in details))
