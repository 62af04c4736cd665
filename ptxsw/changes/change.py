"""What rewrites ask for, and what they leave alone: data only, handed from the rewrites to code
generation, the checks and the reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from msgspec import Struct

from ptxsw.changes.claim import Claim, Obligation
from ptxsw.changes.permutation import Permutation
from ptxsw.changes.plan import Proof

INDEX_MAY_WRAP = "its index may wrap"
"""The reason of a `Refusal` for an address that cannot be followed. Of such an access the report
tells what becomes of it only where the thread has loaded the same bytes an iteration ago."""

Line = Callable[[int], int]
"""From the position of an instruction in its body to its line in the text."""


class Detail(Protocol):
    """What is particular to one kind of change: a small frozen type beside its code generation."""

    def facts(self, line: Line) -> Mapping[str, Any]:
        """What a report says of it: plain values for JSON, places as lines."""
        ...


class Worth(Struct, frozen=True):
    """What a change adds for one warp that runs once through the kernel, each loop around it
    taken 16 times. Negative figures are savings."""

    instructions: float = 0.0
    wavefronts: float = 0.0  # passes of the memory pipe of an SM

    @property
    def cycles(self) -> float:
        """What is added of an SM's time if nothing overlaps: it issues four instructions a cycle,
        and serves one wavefront."""
        return self.instructions / 4 + self.wavefronts


class Change(Struct, frozen=True):
    """One thing to do, complete: nothing else is asked of the rewrite later. Numbers are positions
    in the body's instructions."""

    rewrite: str
    at: int  # the instruction that a report names
    replaces: frozenset[int]  # what gives way, moves, or comes under a guard
    proof: Proof
    detail: Detail
    source: int | None = None  # whose result it uses, as a report says
    obligations: tuple[Obligation, ...] = ()  # what was proved, for those who prove it again
    worth: Worth = Worth()
    claims: tuple[Claim, ...] = ()  # what the check of the new text has to establish
    shared_layout: Permutation | None = None  # that all shared memory of the kernel goes through
    shortens: bool = False  # mode force: does it stay only where ptxas makes fewer instructions?


class Refusal(Struct, frozen=True):
    """An instruction that a rewrite looked at and leaves alone, and the reason. `because_of` is the
    instruction whose change, by another rewrite, is the reason: without that it is none."""

    rewrite: str
    at: int
    reason: str
    detail: Detail | None = None
    because_of: int | None = None
