"""May an address of a loop be a sum with an extended index, or with a product, that it carries?

`loop_sums` runs an iteration to read addresses as sums of registers, with an unknown value for all
else. The symbolic run has the same addresses, with all else written out. So a look at these tells
of most loops that nothing can come of their sums.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from ptxsw.emulator.loops import LoopFacts
from ptxsw.terms import op
from ptxsw.terms.node import Term, bottom_up, factors, split
from ptxsw.terms.origin import Origin

_UNKNOWNS = frozenset({Origin.LOAD, Origin.SPECIAL, Origin.UNKNOWN, Origin.VOLATILE})
_LOSES = op.QUOTIENTS | {op.FLOAT}
_BITS = op.BITWISE | op.SHIFTS | {op.CONCAT, op.EXTRACT}
_READ = _BITS | op.POLYNOMIAL | op.COMPARISONS | {op.CONST, op.NOT, op.ITE}


class _Reading(Struct, frozen=True):
    """How `loop_sums` reads a value: is an unknown one surely `lost` in it, and is it made of
    registers that the loop changes, of numbers and of unknown values alone? Of other registers
    `loop_sums` knows more, so that a value made of their bits may be a sum."""

    lost: bool
    carried: bool


def may_have_index(facts: LoopFacts, accesses: Iterable[int]) -> bool:
    """May one of the accesses of an innermost loop have an address of 64 bits of which a part that
    changes is an extended index or a product, and no part an unknown value?"""
    reader = _Reader(frozenset(facts.entry[reg] for reg in facts.modified))
    addresses = (facts.addresses.get(at) for at in accesses)
    return any(address is None or reader.has_index(address) for address in addresses)


class _Reader:
    """Reads addresses over the registers of a loop, of which it changes some."""

    def __init__(self, changing: frozenset[Term]) -> None:
        self._changing = changing
        self._readings: dict[Term, _Reading] = {}

    def has_index(self, address: Term) -> bool:
        if address.width != 64:
            return False
        parts = [factors(part) for part, _ in split(address)[1]]
        return not any(self._read(one).lost for part in parts for one in part) and any(
            self._may_be_indexed(one, product=len(part) > 1) for part in parts for one in part
        )

    def _may_be_indexed(self, one: Term, *, product: bool) -> bool:
        extended = one.kind in op.EXTENSIONS
        summands = [t for t, _ in split(one.args[0])[1]] if extended else [one]
        if all(summand.origin is Origin.ENTRY for summand in summands):
            return (extended or product) and not self._changing.isdisjoint(summands)
        return True

    def _read(self, term: Term) -> _Reading:
        for node in bottom_up(self._readings, _parts, term):
            self._readings[node] = self._reading(node)
        return self._readings[term]

    def _reading(self, node: Term) -> _Reading:
        parts = [self._readings[part] for part in _parts(node)]
        if _is_unknown(node):
            return _Reading(True, True)
        if node.kind not in _READ:
            return _Reading(False, node in self._changing)
        carried = all(part.carried for part in parts)
        if node.kind is op.ITE:
            lost = all(part.lost for part in parts[1:])
            lost = lost or (parts[0].carried and (carried or self._differ(*node.args[1:])))
        else:
            lost = carried and (node.kind in _BITS or _is_opaque(node))
            lost = lost or any(part.lost for part in parts)
        return _Reading(lost, carried)

    def _differ(self, a: Term, b: Term) -> bool:
        """Do two values surely differ, by the registers that the loop changes?"""
        one, other = (
            {item for item in split(term)[1] if item[0] in self._changing} for term in (a, b)
        )
        return one != other


def _is_opaque(node: Term) -> bool:
    """Is it a product or an extension that never is a part of a sum?"""
    if node.kind is op.MUL:
        return node.width != 64
    return node.kind in op.EXTENSIONS and node.args[0].width != 32


def _is_unknown(node: Term) -> bool:
    return node.origin in _UNKNOWNS or node.kind in _LOSES


def _parts(node: Term) -> tuple[Term, ...]:
    """The parts from which it is read how a value is read."""
    return node.args if node.kind in _READ and not _is_unknown(node) else ()
