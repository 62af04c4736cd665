"""Offsets of all threads of a block in all iterations, computed where these are few."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ptxsw.correctness.kernel_values import KernelValues
from ptxsw.correctness.loop_iterations import LoopRounds
from ptxsw.facts.grid import AXES
from ptxsw.facts.thread_columns import BlockColumns, threads_of
from ptxsw.terms.evaluate import Column
from ptxsw.terms.node import Term, unknowns

_MOST_WORK = 1 << 15
_OTHER_AXES = frozenset({"%tid.y", "%tid.z"})


def offsets(
    values: KernelValues,
    rounds: LoopRounds,
    offset: Term,
    given: Sequence[Term],
    threads: Sequence[tuple[int, int, int]] | None = None,
) -> Iterator[int] | None:
    """The values that an offset may have for some threads (or all), where those of the conditions
    hold that their place and the loops decide; None where more decides an offset, or where there
    are too many."""
    terms = values.terms
    taking = threads if threads is not None else _threads(values, offset)
    if taking is None:
        return None
    if values.shape is None and threads is None:  # of other axes nothing is known
        given = [c for c in given if not _OTHER_AXES & {str(a.value) for a in unknowns(c)}]
    met = rounds.of((offset, *_related(offset, given)), max(_MOST_WORK // len(taking), 1))
    if met is None:
        met = rounds.of((offset,), max(_MOST_WORK // len(taking), 1))
    shape = values.shape or (1, 1, 1)
    sizes: dict[Term, Column] = {
        terms.special(f"%ntid.{axis}"): (size,) for axis, size in zip(AXES, shape, strict=True)
    }
    if values.shape is None:
        sizes = {}
    columns = [
        BlockColumns(terms, taking, {**sizes, **{a: (n,) for a, n in one.items()}})
        for one in met or ()
    ]
    if met is None or not all(each.is_told(offset) for each in columns):
        return None
    return _found(columns, offset, given)


def _found(columns: Sequence[BlockColumns], offset: Term, given: Sequence[Term]) -> Iterator[int]:
    for each in columns:
        for value, taken in zip(each.of_each(offset), each.taking(given), strict=True):
            if taken:
                yield value


def _related(offset: Term, given: Sequence[Term]) -> Iterator[Term]:
    """Conditions on what an offset is made of."""
    atoms = {*unknowns(offset)}
    for condition in given:
        if not atoms.isdisjoint(unknowns(condition)):
            yield condition


def _threads(values: KernelValues, offset: Term) -> Sequence[tuple[int, int, int]] | None:
    """The threads of the block; where none is declared, of the largest one along x."""
    if values.shape is not None:
        return threads_of(values.shape)
    if {str(a.value) for a in unknowns(offset)} & _OTHER_AXES:
        return None
    return threads_of((values.most_threads, 1, 1))
