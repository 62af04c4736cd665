"""Where the second text has the first one's shared arrays: guessed from declarations and numbers.

A wrong guess proves nothing. Arrays of one size correspond by their names or in their order; in
arrays of different sizes rows were padded, or no longer are; several may have become parts of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, permutations, product
from math import gcd

from ptxsw.changes.array_move import ArrayMove
from ptxsw.ptx.ir import Function, Int, Mem, Module, Variable, leaves
from ptxsw.validate.layout import shared_arrays

Moves = tuple[ArrayMove, ...]

_MOST = 6
_ROWS = 3  # ways to divide two arrays into rows
_PARTS = 4  # arrays that become one


def array_moves(first: tuple[Module, Function], second: tuple[Module, Function]) -> Iterator[Moves]:
    """Ways in which the shared arrays of two kernels may correspond, the likeliest first."""
    old, new = ([*shared_arrays(*text)] for text in (first, second))
    if old and new and not any(v.is_dynamic for v in (*old, *new)):
        numbers = _numbers(first[1]), _numbers(second[1])
        found = dict.fromkeys((*_paired(old, new, numbers), *_merged(old, new)))
        yield from islice((moves for moves in found if not _in_place(moves, old, new)), _MOST)


def _in_place(moves: Moves, old: Sequence[Variable], new: Sequence[Variable]) -> bool:
    """Is nothing moved?"""
    stays = all((m.array, m.row, m.start) == (m.into, m.pitch, 0) for m in moves)
    return stays and [(v.name, v.size) for v in old] == [(v.name, v.size) for v in new]


def _numbers(function: Function) -> frozenset[int]:
    """What a text multiplies by, adds or shifts by, in elements of any size."""
    shown: set[int] = set()
    for instruction in function.body.instructions:
        for operand in instruction.operands:
            shown.update(leaf.value for leaf in leaves((operand,)) if isinstance(leaf, Int))
            if isinstance(operand, Mem):
                shown.add(operand.offset)
    shown |= {1 << n for n in shown if 0 <= n < 17}
    return frozenset(n << scale for n in shown for scale in range(5))


def _paired(
    old: Sequence[Variable], new: Sequence[Variable], numbers: tuple[frozenset[int], frozenset[int]]
) -> Iterator[Moves]:
    """Each array of the first text is one of the second: of the same name, else in their order."""
    if len(old) != len(new):
        return
    named = {v.name: v for v in new}
    orders = [list(new)]
    if named.keys() == {v.name for v in old}:
        orders.insert(0, [named[v.name] for v in old])
    for order in orders:
        ways = [[*_rows(a, b, numbers)] for a, b in zip(old, order, strict=True)]
        yield from islice(product(*ways), _MOST)


def _rows(
    old: Variable, new: Variable, numbers: tuple[frozenset[int], frozenset[int]]
) -> Iterator[ArrayMove]:
    """An array as a whole, if both are as large; else divided into as many rows, of lengths that
    the texts name, before it is only longer."""
    if old.size != new.size:
        common = gcd(old.size, new.size)
        counts = (n for n in range(common // 4, 1, -1) if common % (4 * n) == 0)
        lengths = [(old.size // n, new.size // n) for n in counts]
        told = [sum(n in some for n, some in zip(one, numbers, strict=True)) for one in lengths]
        likely = sorted(zip(told, lengths, strict=True), key=lambda it: -it[0])
        yield from (ArrayMove(old.name, new.name, *one) for n, one in likely[:_ROWS] if n)
    yield ArrayMove(old.name, new.name, old.size, max(old.size, new.size))


def _merged(old: Sequence[Variable], new: Sequence[Variable]) -> Iterator[Moves]:
    """Arrays that lie one behind the other in one of the second text; others keep their names."""
    sizes = {v.name: v.size for v in new}
    kept = [v for v in old if sizes.get(v.name) == v.size]
    parts = [v for v in old if v not in kept]
    rest = [v for v in new if v.name not in {v.name for v in kept}]
    if len(rest) != 1 or not 1 < len(parts) <= _PARTS:
        return
    stay = [ArrayMove(v.name, v.name, v.size, v.size) for v in kept]
    for order in permutations(parts):
        start, moves = 0, [*stay]
        for v in order:
            start += -start % (v.align or 1)
            moves.append(ArrayMove(v.name, rest[0].name, v.size, v.size, start))
            start += v.size
        yield tuple(moves)
