"""The warps of a block: where their lanes lie, and what terms are in each of them.

Unless the shape of the block is known, the 32 lanes lie in one row of the block, as they do
wherever `ntid.x` is a multiple of 32. The last warp of a block may have fewer lanes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cached_property

from msgspec import Struct, field

from ptxsw.analysis.coalescing import LANES
from ptxsw.analysis.lane_values import SMALL, LaneValues, aligned, small, usual
from ptxsw.terms import op
from ptxsw.terms.node import Term, Variance, bottom_up, unknowns
from ptxsw.terms.origin import Origin

LINE = 128  # bytes
TRIALS = 3  # choices of what is known at run time only
TESTS = (*(("small", trial) for trial in range(len(SMALL))), ("usual", 0))
"""Choices under which lanes must point alike for it to depend on nothing else."""
Offsets = tuple[int, ...]
"""Bytes for each lane of a warp: from lane 0's address, or from where a line begins."""
Block = tuple[int, int, int]
Chosen = frozenset[tuple[Term, int]]
"""Values of terms that are not evaluated."""


class Warps(Struct, frozen=True, dict=True):
    """Where the lanes of the warps of a block lie. `block` None: 32 in one row of it."""

    block: Block | None
    _uniform: dict[Term, bool] = field(default_factory=dict)
    _values: dict[Hashable, LaneValues] = field(default_factory=dict)

    @cached_property
    def places(self) -> tuple[Mapping[str, Offsets], ...]:
        """For each warp, what its lanes read of each special register."""
        return tuple(self._places())

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

    def _places(self) -> Iterator[Mapping[str, Offsets]]:
        x, y, z = self.block or (LANES, 1, 1)
        # Then %tid.y and %tid.z are the same for a whole warp, and warps differ in %tid.x alone.
        if not self._wraps:
            for first in range(0, x, LANES):
                lanes = tuple(range(LANES))
                yield {"%tid.x": tuple(first + lane for lane in lanes), "%laneid": lanes}
            return
        for first in range(0, x * y * z, LANES):
            threads = range(first, min(first + LANES, x * y * z))
            yield {
                "%laneid": tuple(range(len(threads))),
                "%tid.x": tuple(t % x for t in threads),
                "%tid.y": tuple(t // x % y for t in threads),
                "%tid.z": tuple(t // (x * y) for t in threads),
            }

    @property
    def counts(self) -> tuple[int, ...]:
        """The lanes of each warp."""
        return tuple(len(places["%laneid"]) for places in self.places)

    def distances(self, term: Term, kind: str, trial: int, chosen: Chosen) -> tuple[Offsets, ...]:
        """Bytes from lane 0's address for each warp, under a choice of values."""
        half, mask = 1 << (term.width - 1), (1 << term.width) - 1
        return tuple(
            [
                tuple([((at - warp[0] + half) & mask) - half for at in warp])
                for warp in self.addresses(term, kind, trial, chosen)
            ]
        )

    def starts(self, term: Term, kind: str, trial: int, chosen: Chosen) -> tuple[int, ...]:
        """Lane 0's address in each warp, under a choice of values."""
        return tuple(warp[0] for warp in self.addresses(term, kind, trial, chosen))

    def addresses(self, term: Term, kind: str, trial: int, chosen: Chosen) -> Iterator[Offsets]:
        """The unsigned value of a term in the lanes of each warp, under a choice of values."""
        key = (kind, trial, chosen)
        values = self._values.get(key)
        if values is None:
            values = self._values[key] = self._chosen(kind, trial, chosen)
        offsets = values.of(term)
        first = 0
        for count in self.counts:
            yield (offsets,) * count if isinstance(offsets, int) else offsets[first : first + count]
            first += count

    def _chosen(self, kind: str, trial: int, chosen: Chosen) -> LaneValues:
        """Values under a choice. In a row of unknown length, another warp is looked at in each
        trial."""
        names = self.places[0]
        places = {n: tuple(at for warp in self.places for at in warp[n]) for n in names}
        fixed = self.sizes
        # Where rows are of any length, the conclusions have to hold for each warp of a row.
        if self.block is None:
            places["%tid.x"] = tuple(at + trial * LANES for at in places["%tid.x"])
            fixed = {"%ntid.x": LANES * (trial + 1)}
        choice = {"small": small(trial), "aligned": aligned(LINE), "usual": usual(trial, LINE)}
        return LaneValues(places, fixed, choice[kind], dict(chosen))

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
