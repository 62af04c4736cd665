"""A local rule: instructions, and the lines that take their place. Data only; the table of rules is
`rewrites/rules.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from ptxsw.terms.node import Term
    from ptxsw.terms.terms import Terms

Condition: TypeAlias = "Callable[[Terms, Term], Term]"
"""What has to hold of an operand, as a term of one bit."""


class RunTimeTest(Struct, frozen=True):
    """How a condition is tested where it is not proved: `lines` set `{fails}` unless it holds for
    `{tested}`, a source as it stands, or the bitwise `or` of those for which it is not proved.
    `further`: the line for each other condition that may be tested with it, of a source as it is
    read."""

    condition: Condition
    lines: tuple[str, ...]
    further: tuple[tuple[Condition, str], ...]
    said: str  # what a report says that is tested
    cheap: Callable[[int], bool]  # with such a number as last source nothing is slow


class LocalRule(Struct, frozen=True):
    """Instructions with these names (all modifiers included) become the lines of `result`.

    In the lines `{d}` is the destination, `{a}`, `{b}`, `{c}` are the sources, `{type}` is the last
    modifier, and any other name is a new register, the first time with its type: `{wide:b64}`. A
    line that writes `{d}` gets the guard of the instruction. `given` holds conditions, each with
    the letters of the sources for which it has to be proved on all paths. `low`: sources are read
    as their low 32 bits, of this type; as they stand they are `{A}`, `{B}`, `{C}`.

    With a `test`, its conditions may be tested instead of proved: where one does not hold, the
    `slow` lines do what the instruction did.

    With a literal among the `useless` ones as last source nothing is gained. With a `number` it has
    to be a literal for which that is not None; `{n}` is what it gives. With `beside` the rule is
    for two unguarded instructions of one block with the same modifiers and sources, whose opcodes
    are that of the name and `beside`: `shared` lines stand at the first of the two, `other` lines
    take the place of that one, whose destination is `{e}`. A test stands around the `shared` lines.
    """

    names: tuple[str, ...]
    result: tuple[str, ...]
    given: tuple[tuple[Condition, str], ...] = ()
    low: str = ""
    test: RunTimeTest | None = None
    slow: tuple[str, ...] = ()
    useless: frozenset[int] = frozenset()
    number: Callable[[int], int | None] | None = None
    beside: str = ""
    shared: tuple[str, ...] = ()
    other: tuple[str, ...] = ()
    fact: str = ""  # the name under which a report gives `said`, the number, or the other's line
    said: str = ""
    adds: float = 0.0  # instructions

    @property
    def others(self) -> tuple[str, ...]:
        """The names of what has to stand beside the instruction."""
        if not self.beside:
            return ()
        return tuple(self.beside + name[name.index(".") :] for name in self.names)
