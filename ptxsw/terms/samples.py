"""Questions answered by trying: fixed values of all unknowns, under which conditions are evaluated.

Where some sample makes all facts true and a claim false, the claim is refuted, and no solver need
be asked. Every term is evaluated once for each sample, so a question costs what is new in it.
Where none does, the samples that come closest are repaired (`witness.py`), and one that is met so
is kept: what is asked next is often about the same paths.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ptxsw.terms import op
from ptxsw.terms.evaluate import value_of
from ptxsw.terms.node import Term, ones, walk_until
from ptxsw.terms.origin import POINTERS, Origin
from ptxsw.terms.witness import witness

# For each sample the bits that may be set in special registers, in parameters and in all else. A
# launch has few threads, larger sizes, and loops of few iterations; where two numbers are given
# some unknowns are small and others large, as rows of two elements among billions. Then any size.
_SHAPES = (
    ((0,), (0,), (0,)), ((2,), (4,), (1,)), ((5,), (10,), (0,)), ((5,), (12,), (2,)),
    ((3,), (12,), (3,)), ((6,), (16,), (1,)), ((7,), (20,), (5,)), ((5,), (31,), (0,)),
    ((10,), (31,), (8,)), ((10,), (31,), (31,)), ((5,), (2, 12), (2,)), ((5,), (2, 12), (4,)),
    ((10,), (2, 31), (0, 30)), ((10,), (2, 31), (30,)), ((64,), (64,), (64,)),
    ((64,), (64,), (64,)),
)  # fmt: skip
_MASK = (1 << 64) - 1
_MOST_KEPT = 16  # witnesses
_STARTS = 3  # samples that are repaired


class Samples:
    """The values of the terms of one table under a few assignments, computed when asked for."""

    def __init__(self) -> None:
        self._values: list[dict[Term, int]] = [{} for _ in _SHAPES]

    def refutes(self, claim: Term, facts: Sequence[Term], *, negated: bool = False) -> int | None:
        """A sample in which all facts hold and the claim does not (with `negated`: does)."""
        for number in range(len(self._values)):
            if bool(self.value(claim, number)) == negated and all(
                self.value(fact, number) for fact in facts
            ):
                return number
        return self._repaired([(claim, negated), *((fact, True) for fact in facts)])

    def meets(self, wanted: Sequence[tuple[Term, bool]]) -> int | None:
        """A sample in which each condition has the truth that is wanted of it."""
        for number in range(len(self._values)):
            if all(self.value(each, number) == truth for each, truth in wanted):
                return number
        return self._repaired(wanted)

    def _repaired(self, wanted: Sequence[tuple[Term, bool]]) -> int | None:
        """A new sample in which each condition has the truth that is wanted of it."""

        def wrong(number: int) -> int:
            return sum(self.value(each, number) != truth for each, truth in wanted)

        if len(self._values) == len(_SHAPES) + _MOST_KEPT:
            return None
        nearest = sorted(range(len(self._values)), key=wrong)[:_STARTS]
        starts = [partial(self.value, number=number) for number in nearest]
        unknowns = witness(wanted, starts)
        if unknowns is None:
            return None
        self._values.append(dict(unknowns))
        return len(self._values) - 1

    def value(self, term: Term, number: int) -> int:
        """The unsigned value of a term in a sample."""
        values = self._values[number]
        known = values.get(term)
        if known is not None:
            return known
        inputs = [values.get(arg) for arg in term.args]
        if term.kind not in op.OPAQUE and None not in inputs:  # as nearly always
            value = values[term] = value_of(term, inputs)  # type: ignore[arg-type]
            return value
        for node in walk_until(values, term):
            if node.kind in op.OPAQUE:
                values[node] = _drawn(node, number % len(_SHAPES))
            else:
                values[node] = value_of(node, [values[a] for a in node.args])
        return values[term]


_COUNTED = frozenset(Origin) - POINTERS - {Origin.COMPUTED, Origin.SPECIAL}


def _is_plain(node: Term) -> bool:
    """Is it a parameter, or something like it, and no value of a loop or of memory?"""
    return node.kind is op.ATOM and node.origin not in _COUNTED


def _drawn(node: Term, number: int) -> int:
    """The value of an unknown in a sample: anything that fits, the same in every run."""
    special, parameter, other = _SHAPES[number]
    kinds = {Origin.SPECIAL: special, Origin.VOLATILE: special}
    sizes = kinds.get(node.origin, parameter if _is_plain(node) else other)
    mixed = (node.id * 0x9E3779B97F4A7C15 + number * 0xD1B54A32D192ED03) & _MASK
    mixed = (mixed ^ mixed >> 31) * 0x94D049BB133111EB & _MASK
    bits = sizes[(mixed >> 62) % len(sizes)]
    return (mixed ^ mixed >> 29) & ((1 << bits) - 1) & ones(node)
