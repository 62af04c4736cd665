"""What `validate` answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct, field

from ptxsw.ptx.ir import Reg


class Proved(Struct, frozen=True):
    """Wherever the first kernel is defined, the second does the same; given `assumptions`. There
    are `loops` round which lanes go with the others after they have left them."""

    assumptions: tuple[str, ...] = ()
    loops: int = 0


class Mismatch(Struct, frozen=True):
    """The texts differ here, or could not be shown to agree. Lines count from 1; `example` are
    values of what is unknown under which they differ, where the solver gave any (a value read
    from memory counts as unknown, so an example need not be possible)."""

    reason: str
    old_line: int | None = None
    new_line: int | None = None
    example: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        places = (("line", self.old_line, "first"), ("line", self.new_line, "second"))
        told = [f"{word} {line} of the {which} kernel" for word, line, which in places if line]
        return f"{self.reason} ({', '.join(told)})" if told else self.reason


class Unproved(Struct, frozen=True):
    """Nothing is known: something cannot be followed, or a limit was reached."""

    reason: str

    def __str__(self) -> str:
        return self.reason


Outcome: TypeAlias = Proved | Mismatch | Unproved


class Differ(Exception):
    """The two sides differ at these instructions. Never leaves the package."""

    def __init__(
        self,
        reason: str,
        old: int | None = None,
        new: int | None = None,
        example: Mapping[str, int] | None = None,
        without: Mapping[tuple[int, int], frozenset[Reg]] | None = None,
    ) -> None:
        """`without`: registers, by pairs of places, without which a proof might go on."""
        super().__init__(reason)
        self.without = without or {}
        self.reason, self.old, self.new = reason, old, new
        self.example = example or {}


class Forgets(Differ):
    """A proof would have to forget what a load gave. Never leaves the package."""


class GiveUp(Exception):
    """Something cannot be followed. Never leaves the package."""
