"""Shared arrays of the second text are those of the first, moved: rows are padded, arrays lie
elsewhere or in one another.

An address of the first text is `row·q + c` bytes behind the start of its array, which is read off
its sum: what is multiplied by multiples of `row` makes `q`. Where `q` is surely below the number of
rows and the access ends within the row, that is the only way to say it, and the same bytes lie at
`start + pitch·q + c` in the second text. So every access of the second text has to be there, for an
access of the first text in the same segment.

The bounds follow from what control has decided, from the shape of the block, and from what the
first text accesses on each of its paths: none of that lies beyond its array (`access-in-array`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from math import gcd
from typing import TypeAlias

from ptxsw.analysis.array_accesses import ArrayAccesses, Name
from ptxsw.changes.array_move import ArrayMove
from ptxsw.facts.equality import Equality
from ptxsw.flow.cfg import Cfg
from ptxsw.ptx.bits import wrapped
from ptxsw.ptx.ir import Instruction, Variable, type_width
from ptxsw.terms import op
from ptxsw.terms.node import Term, split, walk
from ptxsw.validate.evaluate import Evaluator
from ptxsw.validate.layout import Origin, Place, SharedLayout, shared_places, touches_shared
from ptxsw.validate.memory_ssa import Bytes
from ptxsw.validate.outcome import Differ, GiveUp
from ptxsw.validate.path import Path

_ADDRESS = 32  # bits of an address in shared memory


class MovedArrays:
    """The relation between the two shared memories. `evaluator` is that of the first text."""

    def __init__(
        self, moves: Sequence[ArrayMove], evaluator: Evaluator, equality: Equality,
        before: Iterable[Variable], after: Iterable[Variable],
    ) -> None:  # fmt: skip
        """`before` and `after` are the shared arrays that the two kernels name. Raises GiveUp."""
        self._terms, self._evaluator, self._equality = evaluator.terms, evaluator, equality
        self._moves = {move.array: move for move in moves}
        self._arrays = ({v.name: v for v in before}, {v.name: v for v in after})
        self._accesses: tuple[ArrayAccesses, ...] = ()
        self._bounded: dict[tuple[Place, Term, int, frozenset[Term]], bool] = {}
        self._check_declarations(moves)

    def _check_declarations(self, moves: Sequence[ArrayMove]) -> None:
        """All arrays are moved, each into bytes of its own."""
        old, new = self._arrays
        variables = [*old.values(), *new.values()]
        if any(v.scope or v.linkage or v.is_dynamic or v.initialised for v in variables):
            raise GiveUp("a shared array is moved that others may know")
        if old.keys() != self._moves.keys() or len(moves) != len(old):
            raise GiveUp("not all shared arrays are moved")
        taken: list[tuple[str, int, int]] = []
        for move in moves:
            rows, rest = divmod(old[move.array].size, move.row)
            end = move.start + rows * move.pitch
            there = move.into in new and rows > 0 and move.pitch > 0 and move.start >= 0
            if rest or not there or end > new[move.into].size:
                raise GiveUp(f"{move.array} does not lie in {move.into}")
            for into, first, last in taken:
                if into == move.into and first < end and move.start < last:
                    raise GiveUp("two arrays are moved into the same bytes")
            taken.append((move.into, move.start, end))

    def check(self, old: Cfg, new: Cfg) -> None:
        """Raises GiveUp where an instruction may reach shared memory in a way that is not
        followed."""
        self._accesses = tuple(
            ArrayAccesses(cfg, [(name, 0) for name in arrays])
            for cfg, arrays in zip((old, new), self._arrays, strict=True)
        )
        for cfg, accesses in zip((old, new), self._accesses, strict=True):
            if accesses.calls:
                raise GiveUp("a function is called where shared arrays are moved")
            for at, reason in accesses.obstacles.values():
                raise GiveUp(f"{cfg.instructions[at].name} {reason}, of which arrays are moved")

    def is_whole(self, _old: Cfg, _new: Cfg) -> bool:
        """See `SharedLayout`: accesses have to stay inside their arrays."""
        return False

    def touches(self, instruction: Instruction) -> bool:
        """See `SharedLayout`."""
        return touches_shared(instruction)

    # ------------------------------------------------------------ addresses

    def origins(self, olds: Sequence[Path]) -> Origin:
        """See `SharedLayout`."""
        places = [*dict.fromkeys(shared_places(olds))]
        inside = self._inside(olds)

        def origin(target: Bytes, given: Sequence[Term], index: int, size: int) -> Bytes:
            array = next(iter(self._accesses[1].of(index)), None)
            if array is None:
                return target  # by what `check` has seen
            if target.space != "shared":
                raise Differ("a generic access may reach a shared array that is moved", None, index)
            place = self._low(target.place)
            for old in places:
                if self._is_image(old, array, place, size, (*given, *inside)):
                    return Bytes("shared", old[1], target.size)
            raise Differ("a shared address is not that of the moved array", None, index)

        return origin

    def _is_image(
        self, old: Place, array: Name, place: Term, size: int, facts: Sequence[Term]
    ) -> bool:
        """Does `place`, in an array of the second text, hold what an access of the first finds?"""
        move = self._moves[self._array(old)]
        if (move.into, 0) != array or not self._aligned(move, size):
            return False
        terms, start = self._terms, self._low(self._evaluator.symbol(*array))
        start = terms.add(start, terms.const(move.start, _ADDRESS))
        for rows, rest in self._parts(old, move.row):
            image = terms.add(start, terms.add(terms.scale(rows, move.pitch), rest))
            same = image is place or self._equality.same(image, place, facts)
            if same and self._is_bounded(old, move, rows, rest, size, facts):
                return True
        return False

    def _array(self, old: Place) -> str:
        return next(name for name, _ in self._accesses[0].of(old[0]))

    def _parts(self, old: Place, row: int) -> Iterator[tuple[Term, Term]]:
        """How many rows an address may lie behind the start of its array, and how many bytes more:
        read off its sum, or off its bits."""
        terms, low = self._terms, self._low
        far = terms.sub(low(old[1]), low(self._evaluator.symbol(self._array(old))))
        yield self._summed(far, row)
        bits = row.bit_length() - 1
        if row == 1 << bits and far.kind is not op.CONST:
            rest = terms.and_(far, terms.const(row - 1, _ADDRESS))
            yield terms.lshr(far, terms.const(bits, _ADDRESS)), rest

    def _summed(self, far: Term, row: int) -> tuple[Term, Term]:
        terms, (number, items) = self._terms, split(far)
        count, left = divmod(wrapped(number, _ADDRESS), row)
        rows, rest = terms.const(count, _ADDRESS), terms.const(left, _ADDRESS)
        for term, factor in items:
            count, left = divmod(wrapped(factor, _ADDRESS), row)
            if left:
                rest = terms.add(rest, terms.scale(term, factor))
            else:
                rows = terms.add(rows, terms.scale(term, count))
        return rows, rest

    def _is_bounded(
        self, old: Place, move: ArrayMove, rows: Term, rest: Term, size: int, facts: Sequence[Term]
    ) -> bool:
        """Does an access stay in its row, and is there such a row?"""
        terms = self._terms
        count = self._arrays[0][move.array].size // move.row
        atoms = {node for term in (rows, rest) for node in walk(term) if node.kind is op.ATOM}
        near = [f for f in facts if not atoms.isdisjoint(walk(f))]
        key = old, rest, size, frozenset(near)
        known = self._bounded.get(key)
        if known is None:
            fits = terms.ule(rest, terms.const(move.width - size, _ADDRESS))
            there = terms.ult(rows, terms.const(count, _ADDRESS))
            prover = self._equality.prover
            known = self._bounded[key] = size <= move.width and all(
                prover.holds(claim, near) for claim in (fits, there)
            )
        return known

    def _aligned(self, move: ArrayMove, size: int) -> bool:
        """Is an access of the second text aligned if that of the first is?"""
        alignments = (
            v.align or type_width(v.type) * v.vector // 8
            for v in (self._arrays[0][move.array], self._arrays[1][move.into])
        )
        step = reduce(gcd, (move.row, move.pitch, move.start, *alignments))
        return size > 0 and step % size == 0

    def _inside(self, olds: Sequence[Path]) -> Sequence[Term]:
        """What follows from that no access of the first text leaves its array, whichever path it
        takes: a launch that ends has made all of a path's accesses."""
        found: list[dict[Term, None]] = []
        for path in olds:
            touches = (t for t in path.touches if t.target.space == "shared")
            sure = (t for t in touches if t.guard.kind is op.CONST and t.guard.value)
            found.append(dict.fromkeys(
                fact
                for t in sure
                for fact in self._in_array((t.index, t.target.place), t.target.size)
            ))  # fmt: skip
        shared = found[0] if found else {}
        return [fact for fact in shared if all(fact in other for other in found)]

    def _in_array(self, place: Place, size: int) -> Iterable[Term]:
        array, terms = self._array(place), self._terms
        far = terms.sub(self._low(place[1]), self._low(self._evaluator.symbol(array)))
        last = self._arrays[0][array].size - size
        if last >= 0 and far.kind is not op.CONST:
            yield terms.ule(far, terms.const(last, _ADDRESS))

    def _low(self, place: Term) -> Term:
        """An address in shared memory has 32 bits, whatever the register that holds it."""
        return self._terms.extract(place, 0, _ADDRESS) if place.width > _ADDRESS else place


Layout: TypeAlias = SharedLayout | MovedArrays
"""How the second text's shared memory is that of the first."""
