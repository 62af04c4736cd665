"""The lanes of the warps of a block: where they lie, and what terms are in each of them.

    tile + 4 * %tid.x         one column for all iterations, with an entry for each lane
    iter < 8                  a column for each iteration, with one entry for all lanes

So what changes neither from lane to lane nor from iteration to iteration is evaluated once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import compress
from math import prod
from operator import and_
from random import Random

from msgspec import Struct, field

from ptxsw.analysis.coalescing import LANES, LINE, Offsets
from ptxsw.ptx.target import MOST_THREADS
from ptxsw.terms import op
from ptxsw.terms.evaluate import Column, column
from ptxsw.terms.node import Term, Variance, bottom_up, unknowns
from ptxsw.terms.origin import Origin
from ptxsw.terms.specials import GRID

Block = tuple[int, int, int]
"""Threads along x, y and z."""

Columns = tuple[Column, ...]
"""Of a term: a column for each iteration, or one for all of them."""

Taking = tuple[Column | None, ...]
"""For each warp which lanes take part, as a column of 0 and 1: None where all do, and an empty one
where none does."""

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
        return _collapsed(tuple(values))

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
            return tuple([(value,) for value in column(node, steps)])
        return tuple([
            _collapsed(column(node, [_at(arg, number) for arg in args]))
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


def _collapsed(values: Column) -> Column:
    """One entry where all are equal."""
    return values[:1] if values.count(values[0]) == len(values) else values


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


# ---------------------------------------------------------------- one block

_LARGEST = 500  # nodes of a condition that is evaluated
_ROWS = (MOST_THREADS, MOST_THREADS // 4)  # threads
_BLOCK = frozenset(f"%ctaid.{axis}" for axis in "xyz")  # the first one is looked at
_BLOCKS = 1000  # of the grid, and other sizes of it
TRIALS = 3  # choices of what is known at run time only
_BITS = (3, 7, 10, 5, 6, 8, 4)
"""Of the small values of each trial. A remainder by 100 wraps inside a warp for a third of all
indices: fewer trials would often not see it."""
TESTS = (*(("small", trial) for trial in range(len(_BITS))), ("usual", 0))
"""Choices under which lanes must point alike for it to depend on nothing else."""
Chosen = frozenset[tuple[Term, int]]
"""Values of terms that are not evaluated."""


def _choice(kind: str, trial: int, term: Term) -> int:
    """The value of a term that only the run knows; the same whenever it is asked for.

    small       any, of several sizes: what an address owes to them shows
    aligned     one large multiple of a line for everything
    usual       multiples of a line as they are at work in the middle of large data: widths of
                arrays are large beside the numbers of blocks and of the iterations of loops
    """
    random = Random(f"{trial} {term.id}")
    if kind == "small":
        return random.randint(1, 1 << _BITS[trial])
    if kind == "aligned":
        return LINE << 10
    if term.origin is Origin.ITERATION or term.value in GRID:
        return LINE * random.randint(1, 3)
    return LINE * (2 * random.randint(2_000, 20_000) + 1)


def _or_all(met: Taking) -> Taking:
    """Of all warps, where no lane of any takes part."""
    return met if any(mask != () for mask in met) else (None,)


class Warps(Struct, frozen=True, dict=True):
    """The warps of one block. `block` None: 32 lanes lie in one row of it, as they do wherever
    `ntid.x` is a multiple of 32. The last warp may have fewer lanes."""

    block: Block | None
    _uniform: dict[Term, bool] = field(default_factory=dict)
    _columns: dict[Hashable, WarpColumns] = field(default_factory=dict)
    _taking: dict[frozenset[Term], Taking] = field(default_factory=dict)

    @cached_property
    def lanes(self) -> WarpLanes:
        """All lanes; of rows of whole warps those of one row: warps differ in %tid.x alone."""
        x = LANES if self.block is None else self.block[0]
        rows = self.block if self.block is not None and self._wraps else (x, 1, 1)
        return WarpLanes((rows,), -(-prod(rows) // LANES))

    @cached_property
    def places(self) -> tuple[Mapping[str, Offsets], ...]:
        """For each warp, what its lanes read of each special register that may differ in it."""
        names = ("%laneid", *(f"%tid.{axis}" for axis in ("xyz" if self._wraps else "x")))
        return tuple(
            dict(zip(names, lanes, strict=True))
            for lanes in zip(
                *(self.lanes.requests(self.lanes.register(name), None) for name in names),
                strict=True,
            )
        )

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """The special registers that the block fixes."""
        sides = zip("xyz", self.block or (), strict=False)
        return {f"%ntid.{axis}": size for axis, size in sides}

    @property
    def width(self) -> int:
        """The most lanes of a warp that lie in one row of the block."""
        return LANES if self.block is None else min(LANES, self.block[0])

    @property
    def _wraps(self) -> bool:
        """Do rows of the block begin inside a warp?"""
        return self.block is not None and self.block[0] % LANES != 0

    @property
    def counts(self) -> tuple[int, ...]:
        """The lanes of each warp."""
        return tuple(warp.stop - warp.start for warp in self.lanes.warps)

    def distances(self, term: Term, kind: str, trial: int, chosen: Chosen) -> tuple[Offsets, ...]:
        """Bytes from lane 0's address for each warp, under a choice of values."""
        half, mask = 1 << (term.width - 1), (1 << term.width) - 1
        return tuple([
            tuple([((at - warp[0] + half) & mask) - half for at in warp])
            for warp in self.addresses(term, kind, trial, chosen)
        ])  # fmt: skip

    def starts(self, term: Term, kind: str, trial: int, chosen: Chosen) -> tuple[int, ...]:
        """Lane 0's address in each warp, under a choice of values."""
        return tuple(warp[0] for warp in self.addresses(term, kind, trial, chosen))

    def addresses(self, term: Term, kind: str, trial: int, chosen: Chosen) -> Iterator[Offsets]:
        """The unsigned value of a term in the lanes of each warp, under a choice of values."""
        key = (kind, trial, chosen)
        columns = self._columns.get(key)
        if columns is None:
            known = self._known(kind, trial)
            columns = self._columns[key] = WarpColumns(self.lanes, known, dict(chosen))
        return columns.requests(term, (None,))

    def _known(self, kind: str, trial: int) -> Callable[[Term], Columns]:
        """What leaves of terms are under a choice. In a row of unknown length, another warp is
        looked at in each trial: the conclusions have to hold for each warp of a row."""
        fixed, shift = self.sizes, 0
        if self.block is None:
            fixed, shift = {"%ntid.x": LANES * (trial + 1)}, trial * LANES

        def known(leaf: Term) -> Columns:
            values: Column = (_choice(kind, trial, leaf),)
            if leaf.kind is op.ATOM and leaf.value in self.places[0]:
                values = self.lanes.register(leaf.value)
                if leaf.value == "%tid.x":
                    values = tuple([value + shift for value in values])
            elif leaf.kind is op.ATOM and leaf.value in fixed:
                values = (fixed[leaf.value],)
            mask = (1 << leaf.width) - 1
            return (_collapsed(tuple([value & mask for value in values])),)

        return known

    def uniform(self, term: Term) -> bool:
        """Is the term the same for all lanes of a warp? What all lanes load from one address is,
        and so is `tid.x / 32`; a variable has one address, also where each thread has its own in
        local memory."""
        answer = self._uniform.get(term)
        if answer is None:
            for node in bottom_up(self._uniform, self._deciding, term):
                self._uniform[node] = self._is_uniform(node)
            answer = self._uniform[term]
        return answer

    def taking(self, conditions: frozenset[Term]) -> Taking:
        """Which lanes meet those of some conditions that the place of a thread decides, in the
        first block of the grid: of each warp; of a row of unknown length, of each of the most
        warps that there may be. All of them, if no lane at all would."""
        told = frozenset(filter(self._is_told, conditions))
        if not told:
            return (None,)
        met = self._taking.get(told)
        if met is None:
            met = self._taking[told] = self._meeting(told)
        return met

    def _is_told(self, condition: Term) -> bool:
        if condition.variance is Variance.UNIFORM or condition.size > _LARGEST:
            return False
        places = self.places[0]
        leaves = unknowns(condition)
        return all(t.kind is op.ATOM and (t.value in places or t.value in GRID) for t in leaves)

    def _meeting(self, conditions: frozenset[Term]) -> Taking:
        if self.block is not None:
            return _or_all(self._met_in(self.lanes, self.sizes, conditions))
        # How long the row is must not matter: `tid.x < ntid.x / 2` holds for whole warps, but
        # `tid.x == ntid.x - 1` tells nothing.
        row = WarpLanes(((MOST_THREADS, 1, 1),), MOST_THREADS // LANES)
        ways = [self._met_in(row, {"%ntid.x": size}, conditions) for size in _ROWS]
        alike = len({frozenset(way) - {()} for way in ways}) == 1
        return _or_all(ways[0]) if alike else (None,)

    def _met_in(
        self, lanes: WarpLanes, sizes: Mapping[str, int], conditions: frozenset[Term]
    ) -> Taking:
        def known(leaf: Term) -> Columns:
            if leaf.value in self.places[0]:
                return (lanes.register(leaf.value),)
            return ((0 if leaf.value in _BLOCK else sizes.get(leaf.value, _BLOCKS),),)

        (met,) = WarpColumns(lanes, known).taking(conditions)
        if not met:
            return (met,) * len(lanes.warps)
        each = (met[warp] for warp in lanes.warps)
        return tuple([None if all(mask) else mask if any(mask) else () for mask in each])

    @property
    def _most(self) -> Variance:
        """How much a term may vary that is the same in a warp all the same."""
        return Variance.UNIFORM if self._wraps else Variance.ROW

    def _deciding(self, term: Term) -> Sequence[Term]:
        """The terms on which it depends whether a term is uniform."""
        if term.kind is op.ATOM or term.variance <= self._most:
            return ()
        return term.args if term.kind in (op.APPLY, op.FLOAT) else unknowns(term)

    def _is_uniform(self, term: Term) -> bool:
        if term.origin in (Origin.SYMBOL, Origin.WINDOW):
            return True
        if term.variance <= self._most or term.kind is op.ATOM:
            return term.variance <= self._most
        if term.kind in (op.APPLY, op.FLOAT):
            fixed = term.kind is op.FLOAT or term.value[0][0] == "load"
            return fixed and all(self._uniform[arg] for arg in term.args)
        return self._never_moves(term)

    def _never_moves(self, term: Term) -> bool:
        """Do values for all that is not known never part the lanes?"""
        if not all(self._uniform[t] or t.value in self.places[0] for t in unknowns(term)):
            return False
        return all(
            not any(any(warp) for warp in self.distances(term, kind, trial, frozenset()))
            for kind, trial in TESTS
        )
