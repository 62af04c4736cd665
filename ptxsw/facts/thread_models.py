"""Values under which two threads meet: a launch in the small, as far as terms tell.

Values are tried first: few threads next to each other in small blocks. What does not hold is
repaired (`terms.witness`). Z3 is asked last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, product

from msgspec import Struct

from ptxsw.facts.grid import AXES
from ptxsw.facts.thread_columns import BlockColumns, collisions, threads_of
from ptxsw.facts.thread_views import OtherThread, ThreadViews, is_read_once
from ptxsw.ptx.target import MOST_THREADS
from ptxsw.terms import op
from ptxsw.terms.evaluate import Column, evaluate
from ptxsw.terms.node import Term, ones, unknowns, walk
from ptxsw.terms.origin import Origin
from ptxsw.terms.solver import Solver
from ptxsw.terms.specials import THREADS
from ptxsw.terms.witness import witness

_CHOSEN = frozenset({Origin.SPECIAL, Origin.PARAMETER, Origin.SYMBOL, Origin.ITERATION})
"""What a launch gives, or the way to an access tells."""

_STARTS: tuple[Mapping[str, int], ...] = (
    {"%tid": 0, "u %tid": 1, "%ntid": 2, "%ctaid": 0, "u %ctaid": 1, "%nctaid": 2, "": 0},
    {"%tid": 1, "u %tid": 0, "%ntid": 4, "%ctaid": 1, "u %ctaid": 0, "%nctaid": 2, "": 64},
    {"%tid": 0, "u %tid": 32, "%ntid": 64, "%ctaid": 0, "u %ctaid": 1, "%nctaid": 2, "": 1000},
    {"%tid": 31, "u %tid": 32, "%ntid": 256, "%ctaid": 1, "u %ctaid": 2, "%nctaid": 4, "": 1},
)


_MOST_TRIED = 8  # pairs of threads
_SIDES = {0: ((),), 1: ((64,), (256,)), 2: ((8, 8), (32, 16)), 3: ((4, 4, 4), (16, 8, 4))}
"""Of blocks, along the axes that a kernel reads."""

_WIDE, _WIDER, _WIDEST = 1 << 12, 9, 2  # elements; bits from stride to stride, and how often
_MOST_BLOCKS = 1 << 20  # along each axis of the grid
_BLOCKS = 4  # along each axis of the grid, where strides are wide

Place = tuple[int, int, int]
"""Of a thread in its block."""


class Model(Struct, frozen=True):
    """`certain` if a launch can be made of it: it says nothing of what only the run decides."""

    values: Mapping[Term, int]
    certain: bool


class ModelSearch:
    """Looks for values of what two threads of a kernel see."""

    def __init__(self, views: ThreadViews, solver: Solver) -> None:
        self._views, self._terms, self._solver = views, views.terms, solver
        self._launches: dict[tuple[bool, tuple[Term, ...]], tuple[Term, ...]] = {}

    # ------------------------------------------------------------ what is asked for

    def launch(self, other: OtherThread) -> tuple[Term, ...]:
        """That t and u are two different threads of one launch."""
        key = other.same_block, other.differs  # none for one thread
        known = self._launches.get(key)
        if known is None:
            known = self._launches[key] = tuple(self._launch(other))
        return known

    def _launch(self, other: OtherThread) -> Iterator[Term]:
        terms, dimensions = self._terms, self._views.dimensions
        count = terms.const(1, 32)
        for axis in dimensions.block:
            size = self._views.own(terms.special(f"%ntid.{axis}"))
            mine = terms.special(f"%tid.{axis}")
            yield from (terms.ult(mine, size), terms.ult(other(mine), size))
            count = terms.mul(count, size)
        if count.kind is not op.CONST:
            yield terms.ule(count, terms.const(MOST_THREADS, 32))
        for axis in dimensions.grid:
            size, mine = (terms.special(f"%{name}.{axis}") for name in ("nctaid", "ctaid"))
            yield from {terms.ult(mine, size): 0, terms.ult(other(mine), size): 0}
            # So the number of a thread along an axis is below 2^31, whatever the block is.
            yield terms.ule(size, terms.const(_MOST_BLOCKS, 32))
        if other.same_thread:
            return
        different = terms.const(0, 1)
        for value in other.differs:
            different = terms.or_(different, terms.not_(terms.eq(value, other(value))))
        yield different

    def promised(self, *offsets: Term) -> tuple[Term, ...]:
        """What a caller sees to: parameters that an index is multiplied with are strides, and wider
        than what they separate. All else is small then."""
        strides = dict.fromkeys(stride for offset in offsets for stride in _strides(offset))
        if not strides:
            return ()
        terms = self._terms
        known = [
            terms.ule(terms.const(_WIDE << _WIDER * min(at, _WIDEST), stride.width), stride)
            for at, stride in enumerate(strides)
        ]
        sizes = [n for n in unknowns(*offsets) if n.origin is Origin.PARAMETER]
        blocks = [terms.special(f"%nctaid.{axis}") for axis in self._views.dimensions.grid]
        known += [
            terms.ule(size, terms.const(most, size.width))
            for some, most in ((sizes, _WIDE - 1), (blocks, _BLOCKS))
            for size in some
            if size not in strides
        ]
        return tuple(known)

    def overlap(self, a: Term, size: int, b: Term, other_size: int) -> Term:
        """That `size` bytes at `a` and `other_size` bytes at `b` have one in common."""
        terms, width = self._terms, a.width
        distance = terms.sub(b, a)
        if size == other_size == 1:
            return terms.eq(a, b)
        shifted = terms.add(distance, terms.const(other_size - 1, width))
        return terms.ult(shifted, terms.const(size + other_size - 1, width))

    # ------------------------------------------------------------ looking

    def search(
        self, wanted: Sequence[Term], pairs: Sequence[tuple[Place, Place, Mapping[Term, int]]]
    ) -> Model | None:
        """Values that are found by trying, those of some pairs of threads first."""
        if any(condition.kind is op.CONST and not condition.value for condition in wanted):
            return None
        conditions = [(condition, True) for condition in wanted if condition.kind is not op.CONST]
        chosen = [_placed(start, *pair) for pair in pairs for start in _STARTS[:2]]
        values = witness(conditions, [*chosen, *(_start(start) for start in _STARTS)])
        told = [assignment for *_, assignment in pairs]
        return None if values is None else self._model(values, wanted, told)

    def in_block(
        self, mine: Sequence[Term], theirs: Sequence[Term], sizes: tuple[int, int],
        wanted: Sequence[Term], other: OtherThread,
    ) -> Model | None:  # fmt: skip
        """Two threads of a small block that meet, found by computing where all of its threads go.
        `mine` is t's address and its conditions, `theirs` u's."""
        terms = self._terms
        free = unknowns(*wanted, *mine, *theirs)
        fitting = [(c, True) for c in wanted[:-1] if c.kind is not op.CONST]
        starts = [_start(start) for start in _STARTS[:3]]
        fit = witness(fitting, starts)
        starts = [*((fit.get,) if fit else ()), *starts]
        for shape, start in product(self._small_blocks(), starts):
            values = {n: start(n) or 0 for n in free}
            values |= {n: shape[AXES.index(str(n.value)[-1])] for n in free if n.value in THREADS}
            columns: dict[Term, Column] = {n: (value,) for n, value in values.items()}
            threads = threads_of(shape)
            places = {"%tid." + a: tuple([t[at] for t in threads]) for at, a in enumerate(AXES)}
            for name, column in places.items():
                for tid in (terms.special(name), other(terms.special(name))):
                    columns[tid] = column
            block = BlockColumns(terms, threads, columns)
            groups = block.groups(other.differs) if other.same_block else None
            for t, u in self._meeting(block, mine, theirs, sizes, groups):
                pair = {terms.special(n): c[t] for n, c in places.items()}
                pair |= {other(terms.special(n)): c[u] for n, c in places.items()}
                model = self._model({n: pair.get(n, values[n]) for n in free}, wanted)
                if model is not None:
                    return model
        return None

    def _meeting(
        self, block: BlockColumns, mine: Sequence[Term], theirs: Sequence[Term],
        sizes: tuple[int, int], groups: Sequence[object] | None,
    ) -> Iterator[tuple[int, int]]:  # fmt: skip
        starts = []
        for address, *conditions in (mine, theirs):
            takes = block.taking(conditions)
            starts.append({n: at for n, at in enumerate(block.of_each(address)) if takes[n]})
        pairs = collisions(starts[0], starts[1], sizes, mine[0].width, groups)
        return iter(()) if pairs is None else islice(pairs, _MOST_TRIED)

    def _small_blocks(self) -> Sequence[Place]:
        """The block where it is declared; else those of few threads along the axes that the kernel
        reads."""
        dimensions = self._views.dimensions
        if dimensions.shape is not None:
            return (dimensions.shape,)
        blocks = []
        for sides in _SIDES[len(dimensions.block)]:
            side = iter(sides)
            x, y, z = (next(side) if axis in dimensions.block else 1 for axis in AXES)
            blocks.append((x, y, z))
        return blocks

    def solved(self, wanted: Sequence[Term]) -> Model | None:
        """Values that the solver finds."""
        conditions = [(condition, True) for condition in wanted if condition.kind is not op.CONST]
        values = self._solver.values(conditions)
        return None if values is None else self._model(values, wanted)

    def _model(
        self, values: Mapping[Term, int], wanted: Sequence[Term],
        told: Sequence[Mapping[Term, int]] = (),
    ) -> Model | None:  # fmt: skip
        """None where the values do not hold what they promise. `told` are values that registers
        have together in some iteration of their loops."""
        if not all(evaluate(condition, values) for condition in wanted):
            return None
        open_ = {term for term in unknowns(*wanted) if term.origin not in _CHOSEN}
        loads = {term for term in open_ if is_read_once(term)}
        if len(loads) == 1:  # whatever the launch puts there
            open_ -= loads
        certain = not open_ or any(all(one.get(a) == values[a] for a in open_) for one in told)
        return Model(dict(values), certain)


def _strides(offset: Term) -> Iterator[Term]:
    """The parameters that something else is multiplied with."""
    for node in walk(offset):
        if node.kind is op.MUL:
            for part in node.args:
                bare = part.args[0] if part.kind in op.EXTENSIONS else part
                if bare.origin is Origin.PARAMETER:
                    yield bare


def _placed(
    values: Mapping[str, int], t: Place, u: Place, chosen: Mapping[Term, int]
) -> Callable[[Term], int]:
    """Values for two threads that are known to meet where some unknowns are chosen."""
    usual = _start(values)

    def start(unknown: Term) -> int:
        if unknown in chosen:
            return chosen[unknown]
        name, _, axis = str(unknown.value).partition(".")
        at = AXES.index(axis) if axis in AXES and unknown.kind is op.ATOM else -1
        if at >= 0 and name in ("%tid", "u %tid", "%ntid"):
            return {"%tid": t[at], "u %tid": u[at], "%ntid": max(t[at], u[at]) + 1}[name]
        return usual(unknown)

    return start


def _start(values: Mapping[str, int]) -> Callable[[Term], int]:
    def start(unknown: Term) -> int:
        name = str(unknown.value).partition(".")[0] if unknown.kind is op.ATOM else ""
        at_least = int(name in ("%ntid", "%nctaid"))
        value = values.get(name, values[""])
        axis = str(unknown.value)[-1:]
        if name in values and axis in AXES[1:]:
            value = at_least  # one row, as long as nobody needs another
        return value & ones(unknown)

    return start
