"""Sizes just beyond a limit, and threads at the end of a grid, as values to be tried.

    n·m <= 2^31      n = m = 46,343, or n = 268,435,458 and m = 8; thread n - 1 of its axis

They are tried before a search of values, since people see at once what they mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, product

from ptxsw.correctness.kernel_values import KernelValues
from ptxsw.facts.grid import AXES
from ptxsw.terms import op
from ptxsw.terms.evaluate import evaluate
from ptxsw.terms.node import Term, unknowns
from ptxsw.terms.origin import Origin
from ptxsw.terms.polynomial import Polynomial

_FEW = 8  # rows or columns beside a size that is large
_BLOCK = 256  # threads along x
_NEAR = 3  # indices at the end of an axis
_TRIED = 1500
_GUESSES = ((1 << 29) + 1, (1 << 30) + 1, (1 << 31) - 1024)


def tried(
    values: KernelValues,
    needs: Iterable[Polynomial],
    wanted: Sequence[tuple[Term, bool]],
    is_reached: Callable[[Mapping[Term, int]], bool],
) -> Mapping[Term, int] | None:
    """The first of the values that give each condition the truth that is wanted of it, and that a
    thread comes to."""
    atoms = list(dict.fromkeys(unknowns(*(condition for condition, _ in wanted))))
    if any(atom.origin not in SIZES for atom in atoms):
        return None
    found = _sizes(values, [a for a in atoms if a.origin is Origin.PARAMETER], needs)
    sizes = (one for one in found if all(0 <= n < 1 << 31 for n in one.values()))
    assignments = (one for numbers in sizes for one in _threads(values, atoms, numbers))
    for assignment in islice(assignments, _TRIED):
        met = all(evaluate(condition, assignment) == truth for condition, truth in wanted)
        if met and is_reached(assignment):
            return assignment
    return None


SIZES = frozenset({Origin.SPECIAL, Origin.PARAMETER, Origin.ITERATION})
"""What a launch decides, or how far a loop has come."""


def _sizes(
    values: KernelValues, parameters: Sequence[Term], needs: Iterable[Polynomial]
) -> Iterator[dict[Term, int]]:
    """Numbers of the parameters, beyond what is needed."""
    fixed = {p: limits[0] for p in parameters if (limits := values.limits(p))}
    if len(fixed) == len(parameters):
        yield fixed
        return
    for need in needs:
        monomial, factor = max(need, key=lambda item: (item[1] > 0, len(item[0])))
        if factor <= 0 or not monomial:
            continue
        most = -need.offset // factor
        for large in monomial:
            others = _FEW ** (len(monomial) - 1)
            yield {p: _FEW for p in parameters} | {large: most // others + 2} | fixed
            yield {p: _FEW for p in parameters} | {large: most // others + 1} | fixed
        if len(monomial) > 1:
            root = round(most ** (1 / len(monomial))) + 2
            yield dict.fromkeys(parameters, root) | fixed
    for guess in _GUESSES:
        for large in parameters:
            yield {p: _FEW for p in parameters} | {large: guess} | fixed


def _threads(
    values: KernelValues, atoms: Sequence[Term], numbers: Mapping[Term, int]
) -> Iterator[dict[Term, int]]:
    """The last threads of a grid that is as large as the parameters, in the last iterations."""
    terms, shape = values.terms, values.shape or (_BLOCK, 1, 1)
    axes = [axis for axis in AXES if _is_met(values, atoms, axis)]
    launched = {a: values.limits(terms.special(f"%nctaid.{a}")) for a in AXES}
    blocks_of = {a: n[0] for a, n in launched.items() if n is not None and n[0] == n[1]}
    near = dict.fromkeys(n - d for n in numbers.values() for d in range(1, _NEAR) if n >= d)
    ends = list(near)[: 2 * _NEAR] or [0]
    ends += [n * shape[AXES.index(a)] - 1 for a, n in blocks_of.items() if n > 1]
    counts = [a for a in atoms if a.origin is Origin.ITERATION]
    for places in product([*ends, 0], repeat=len(axes)):
        assignment = {a: 0 for a in atoms} | dict(numbers)
        for axis, place in zip(axes, places, strict=True):
            size = shape[AXES.index(axis)]
            blocks = blocks_of.get(axis, place // size + 1)
            for name, number in (
                ("tid", place % size), ("ctaid", place // size), ("ntid", size), ("nctaid", blocks)
            ):  # fmt: skip
                assignment[terms.special(f"%{name}.{axis}")] = number
        for axis in AXES:
            for name, number in (
                ("ntid", shape[AXES.index(axis)]),
                ("nctaid", blocks_of.get(axis, 1)),
            ):
                assignment.setdefault(terms.special(f"%{name}.{axis}"), number)
                if axis not in axes:
                    assignment[terms.special(f"%{name}.{axis}")] = number
        for last in range(_FEW - 1, -1, -1) if counts else (0,):
            yield assignment | dict.fromkeys(counts, last)


def _is_met(values: KernelValues, atoms: Sequence[Term], axis: str) -> bool:
    names = (values.terms.special(f"%{name}.{axis}") for name in ("tid", "ctaid"))
    return any(name in atoms and name.kind is op.ATOM for name in names)
