"""Terms evaluated in the lanes of some warps, for the first iterations of a loop.

    tile + 4 * %tid.x         one column for all iterations, with an entry for each lane
    iter < 8                  a column for each iteration, with one entry for all lanes

So what changes neither from lane to lane nor from iteration to iteration is evaluated once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import compress
from operator import and_

from msgspec import Struct

from ptxsw.analysis.coalescing import LANES
from ptxsw.terms import op
from ptxsw.terms.columns import Column, column
from ptxsw.terms.node import Term, bottom_up

Block = tuple[int, int, int]
"""Threads along x, y and z."""

Columns = tuple[Column, ...]
"""Of a term: a column for each iteration, or one for all of them."""

REGISTERS = frozenset({
    "%tid.x", "%tid.y", "%tid.z", "%laneid", "%ntid.x", "%ntid.y", "%ntid.z",
})  # fmt: skip


class WarpLanes(Struct, frozen=True, dict=True):
    """The lanes of the first `most` warps of each of some blocks, one behind the other."""

    blocks: tuple[Block, ...]
    most: int

    @cached_property
    def warps(self) -> tuple[slice, ...]:
        """Where the lanes of each warp stand."""
        spans, start = [], 0
        for block in self.blocks:
            end = start + self._of(block)
            spans += [slice(at, min(at + LANES, end)) for at in range(start, end, LANES)]
            start = end
        return tuple(spans)

    @cached_property
    def count(self) -> int:
        return len(self._threads)

    @cached_property
    def _threads(self) -> Sequence[tuple[Block, int]]:
        """For each lane its block and the number of its thread there."""
        return [(block, thread) for block in self.blocks for thread in range(self._of(block))]

    def _of(self, block: Block) -> int:
        x, y, z = block
        return min(x * y * z, self.most * LANES)

    def register(self, name: str) -> Column:
        """What one of `REGISTERS` holds."""
        axis = "xyz".find(name[-1])
        if name == "%laneid":
            values = [thread % LANES for _, thread in self._threads]
        elif name.startswith("%ntid"):
            values = [block[axis] for block, _ in self._threads]
        elif name == "%tid.x":
            values = [thread % x for (x, _, _), thread in self._threads]
        elif name == "%tid.y":
            values = [thread // x % y for (x, y, _), thread in self._threads]
        else:
            values = [thread // (x * y) for (x, y, _), thread in self._threads]
        return tuple(values[:1] if len(set(values)) == 1 else values)

    def requests(self, values: Column, taking: Column | None) -> Iterator[tuple[int, ...]]:
        """The values in the lanes of each warp of which some take part; None for all lanes."""
        whole = values * self.count if len(values) == 1 else values
        for warp in self.warps:
            one = whole[warp]
            if taking is not None:
                one = tuple(compress(one, taking[warp]))
            if one:
                yield one


class WarpColumns:
    """The values of terms in these lanes. `known` tells them of terms whose parts say nothing."""

    def __init__(
        self,
        lanes: WarpLanes,
        known: Callable[[Term], Columns],
        chosen: Mapping[Term, int] | None = None,
    ) -> None:
        """`chosen` are further values, the same for all lanes."""
        self._lanes, self._known = lanes, known
        self._memo: dict[Term, Columns] = {
            term: ((value & ((1 << term.width) - 1),),) for term, value in (chosen or {}).items()
        }

    def of(self, term: Term) -> Columns:
        """The unsigned values of a term."""
        for node in bottom_up(self._memo, _parts, term):
            self._memo[node] = self._known(node) if node.kind in op.OPAQUE else self._computed(node)
        return self._memo[term]

    def _computed(self, node: Term) -> Columns:
        args = [self._memo[arg] for arg in node.args]
        iterations = max(map(len, args), default=1)
        if iterations > 1 and all(len(one) == 1 for arg in args for one in arg):
            steps = [tuple([value for (value,) in arg]) for arg in args]
            return tuple([(value,) for value in column(node, steps, iterations)])
        return tuple([
            column(node, [_at(arg, number) for arg in args], self._lanes.count)
            for number in range(iterations)
        ])  # fmt: skip

    def requests(self, address: Term, taking: Sequence[Column | None]) -> Iterator[tuple[int, ...]]:
        """The addresses that each warp asks for in each iteration, where some lane takes part."""
        columns = self.of(address)
        for number in range(max(len(columns), len(taking))):
            lanes = taking[number] if len(taking) > 1 else taking[0]
            if lanes != ():
                yield from self._lanes.requests(_at(columns, number), lanes)

    def taking(self, conditions: Iterable[Term]) -> tuple[Column | None, ...]:
        """The lanes that meet all conditions, as a column of 0 and 1 for each iteration, or one for
        all: None where all lanes do, and an empty one where none does."""
        columns = [self.of(condition) for condition in conditions]
        iterations = max(map(len, columns), default=1)
        return tuple([
            _met([_at(each, number) for each in columns]) for number in range(iterations)
        ])  # fmt: skip


def _parts(node: Term) -> tuple[Term, ...]:
    return () if node.kind in op.OPAQUE else node.args


def _at(columns: Columns, iteration: int) -> Column:
    return columns[iteration] if len(columns) > 1 else columns[0]


def _met(conditions: Iterable[Column]) -> Column | None:
    met: Column | None = None
    for one in conditions:
        if len(one) == 1 and not one[0]:
            return ()
        if len(one) > 1 and not all(one):
            met = one if met is None else tuple(map(and_, met, one))
    return met
