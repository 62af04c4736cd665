"""Terms evaluated for all lanes of the warps of a block at once, with values chosen for what only
the run knows.

What is the same for all lanes is one number. Each term is evaluated once for each choice, however
many addresses it is part of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Protocol

from ptxsw.terms import op
from ptxsw.terms.columns import column
from ptxsw.terms.node import Term, bottom_up
from ptxsw.terms.origin import Origin
from ptxsw.terms.specials import GRID

Values = int | tuple[int, ...]
"""Of a term: one number for all lanes, or one for each lane, warp after warp."""


class ValueChoice(Protocol):
    """The value of a term that only the run knows; the same whenever it is asked for."""

    def __call__(self, term: Term, /) -> int: ...


class LaneValues:
    """Values of terms under one choice."""

    def __init__(
        self,
        places: Mapping[str, tuple[int, ...]],
        fixed: Mapping[str, int],
        choice: ValueChoice,
        chosen: Mapping[Term, int],
    ) -> None:
        """`places`: what each lane reads of each special register that differs over lanes;
        `fixed`: those that do not differ, where they are known. `chosen` are values of terms that
        are not evaluated."""
        self._places, self._fixed, self._choice = places, fixed, choice
        self._memo: dict[Term, Values] = {**chosen}

    def of(self, term: Term) -> Values:
        """The unsigned values of a term. Everything in it that is not a special register is taken
        to be the same for all lanes."""
        for node in bottom_up(self._memo, _parts, term):
            self._memo[node] = self._value(node)
        return self._memo[term]

    def _value(self, node: Term) -> Values:
        if node.kind in op.OPAQUE:
            mask = (1 << node.width) - 1
            if node.kind is op.ATOM and node.value in self._places:
                return _collapsed([v & mask for v in self._places[node.value]])
            if node.kind is op.ATOM and node.value in self._fixed:
                return self._fixed[node.value] & mask
            return self._choice(node) & mask
        args = [(one,) if isinstance(one := self._memo[arg], int) else one for arg in node.args]
        return _collapsed(column(node, args, max(map(len, args), default=1)))


def _collapsed(values: Sequence[int]) -> Values:
    first = values[0]
    return first if values.count(first) == len(values) else tuple(values)


def _parts(node: Term) -> tuple[Term, ...]:
    return () if node.kind in op.OPAQUE else node.args


SMALL = (3, 7, 10, 5, 6, 8, 4)
"""Bits of the values of each trial. A remainder by 100 wraps inside a warp for a third of all
indices: fewer trials would often not see it."""


def small(trial: int) -> ValueChoice:
    """Any values, of several sizes: what an address owes to them shows."""
    bits = SMALL[trial]
    return lambda term: Random(f"{trial} {term.id}").randint(1, 1 << bits)


def aligned(unit: int) -> ValueChoice:
    """One large multiple of a unit for everything."""
    return lambda _: unit << 10


def usual(trial: int, unit: int) -> ValueChoice:
    """Multiples of a unit as they are at work in the middle of large data: widths of arrays are
    large beside the numbers of blocks and of the iterations of loops."""

    def value(term: Term) -> int:
        random = Random(f"{trial} {term.id}")
        if term.origin is Origin.ITERATION or term.value in GRID:
            return unit * random.randint(1, 3)
        return unit * (2 * random.randint(2_000, 20_000) + 1)

    return value
