"""Generic accesses name their state space; `rewrites/memory_spaces.py` has the lines before and
after."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from ptxsw.changes.change import Change, Line
from ptxsw.codegen.builder import Builder
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Instruction, Reg

_BEFORE_SPACE = frozenset({
    "weak", "relaxed", "acquire", "release", "acq_rel", "sc", "cta", "cluster", "gpu", "sys",
})  # fmt: skip
"""Modifiers that stand before the space (manual 9.7.9.8, 9.7.13.5)."""


class KnownSpace(Struct, frozen=True):
    """Access `at` gets `space`. Where that is a window of the generic space its address register
    is converted just before access `converted` (this one or an earlier one of the block)."""

    at: int
    space: str
    converted: int | None = None

    def facts(self, line: Line) -> Mapping[str, Any]:
        """What a report says of it."""
        return {"space": self.space}


def lower(builder: Builder, text: str, changes: Iterable[Change]) -> None:
    """Write all changes; `text` is that of the whole module."""
    windows: dict[int, str] = {}  # by the access at which they are converted
    for change in changes:
        detail = change.detail
        assert isinstance(detail, KnownSpace)
        instruction = builder.instructions[detail.at]
        line = text[instruction.span.start : instruction.span.end]
        line = line.replace(instruction.name, _named(instruction, detail.space), 1)
        if detail.converted is not None:
            base = _base(instruction)
            window = windows.get(detail.converted)
            if window is None:
                window = windows[detail.converted] = builder.register(detail.space, "b64")
                builder.before(detail.at, f"cvta.to.{detail.space}.u64 {window}, {base};")
            head, bracket, rest = line.partition("[")
            line = f"{head}{bracket}{rest.replace(base, window, 1)}"
        builder.replace(detail.at, line)


def _named(instruction: Instruction, space: str) -> str:
    """Opcode and modifiers with the space among them."""
    words = instruction.name.split(".")
    place = next(n for n, word in enumerate(words) if n and word not in _BEFORE_SPACE)
    return ".".join((*words[:place], space, *words[place:]))


def _base(instruction: Instruction) -> str:
    address = isa.address(instruction)
    assert isinstance(address.base, Reg)
    return address.base.name
