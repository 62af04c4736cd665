"""A limit of registers and spills to shared memory; `rewrites/registers.py` has the lines before
and after."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from ptxsw.changes.change import Line
from ptxsw.codegen.splice import Edit, insert, line_end
from ptxsw.ptx.ir import Function
from ptxsw.ptx.patterns import pattern

PRAGMA = '.pragma "enable_smem_spilling";'
_MAXNREG = pattern(r"\.maxnreg\s+\w+")
_COMMENT = pattern(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def candidate_name(limit: int | None, *, spills_to_shared: bool) -> str:
    """What `tune` calls a candidate: "32", "32-shared", "shared"; empty for the kernel as it is."""
    limited = "" if limit is None else str(limit)
    return "-".join(filter(None, (limited, "shared" * spills_to_shared)))


class RegisterTrial(Struct, frozen=True):
    """What ptxas made of a kernel under a limit: registers a thread, bytes that a thread spills to
    local memory, bytes of a block in shared memory, the share of resident warps, and stall cycles
    of a warp over that share (`cost/stalls.py`)."""

    limit: int | None
    spills_to_shared: bool
    registers: int
    local: int
    shared: int
    occupancy: float
    pace: float

    @property
    def name(self) -> str:
        """As `tune` names it."""
        return candidate_name(self.limit, spills_to_shared=self.spills_to_shared)

    def facts(self) -> Mapping[str, Any]:
        """Plain values for a report."""
        return {
            "maxnreg": self.limit,
            "spills_to_shared": self.spills_to_shared,
            "registers": self.registers,
            "local": self.local,
            "shared": self.shared,
            "occupancy": round(self.occupancy, 4),
            "pace": round(self.pace, 1),
        }


class RegisterLimit(Struct, frozen=True):
    """The `chosen` outcome is the one to be had; `outcomes` are all that were compared, the
    original first."""

    chosen: RegisterTrial
    outcomes: tuple[RegisterTrial, ...]

    def facts(self, line: Line) -> Mapping[str, Any]:
        """What a report says of it."""
        before, after = self.outcomes[0], self.chosen
        return {
            "maxnreg": after.limit,
            "spills_to_shared": after.spills_to_shared,
            "registers": [before.registers, after.registers],
            "occupancy": [round(before.occupancy, 4), round(after.occupancy, 4)],
            "outcomes": [dict(outcome.facts()) for outcome in self.outcomes],
        }


class RegisterTrials(Struct, frozen=True):
    """All outcomes of a kernel that stays as it is, the original first."""

    outcomes: tuple[RegisterTrial, ...]

    def facts(self, line: Line) -> Mapping[str, Any]:
        """What a report says of it."""
        return {"outcomes": [dict(outcome.facts()) for outcome in self.outcomes]}


def lower(
    text: str, function: Function, limit: int | None, *, spills_to_shared: bool
) -> Iterator[Edit]:
    """The edits that give a kernel a limit of registers and let it spill to shared memory; `text`
    is that of the whole module."""
    assert function.body_span is not None
    begin, end = function.body_span.start, line_end(text)
    if limit is not None:
        # Comments become blanks of the same length, so that offsets stay those of the text.
        header = _COMMENT.sub(lambda m: " " * len(m[0]), text[function.span.start : begin])
        match = _MAXNREG.search(header)
        if match is not None:
            start = function.span.start + match.start()
            span = type(function.span)(start, function.span.start + match.end())
            yield Edit(span, f".maxnreg {limit}")
        else:
            yield insert(begin, f".maxnreg {limit}{end}")
    if spills_to_shared:
        yield insert(begin + 1, f"{end}\t{PRAGMA}")
