"""What registers of the second text alone hold where control comes along several paths.

    @%p bra JOIN;                  %keep is what was there before, where %p is true
    ld.global.nc.f32 %f1, [%rd4];
    mov.b32 %keep, %f1;            and what the load gives, where it is not
    JOIN:

A value that can be said at a place (`handover.py`) is known where control arrives with it. Where it
arrives with several, what was decided on the path tells them apart, if that can be said, too. Where
it cannot, a register of the first text may hold the same on all paths.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ptxsw.ptx.ir import Reg
from ptxsw.terms.node import Term, Variance
from ptxsw.terms.substitution import substitute
from ptxsw.terms.terms import Terms
from ptxsw.validate.edit_map import Pair

_MAX_ARRIVALS = 6

Arrival = tuple[frozenset[Term], Term | None]
"""What was decided, and the value; None for one that may change."""


class Carried:
    """Values with which control comes to pairs of places."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._arrivals: dict[tuple[Pair, Reg], list[Arrival]] = {}
        self._values: dict[tuple[Pair, Reg], set[Term | None]] = {}
        self._holding: dict[tuple[Pair, Reg], frozenset[Term]] = {}
        self._register_values: dict[Pair, dict[Reg, Term | None]] = {}
        self.registers: dict[Term, Reg] = {}  # of the first text, by unknowns in the values

    @property
    def lost(self) -> bool:
        """Is nothing known of a register that control has come with?"""
        return any(None in values.values() for values in self._register_values.values())

    def at(self, pair: Pair) -> Mapping[Reg, Term | None]:
        """The registers that control has come with; None where nothing is known of one."""
        return self._register_values.get(pair, {})

    def arrive(
        self,
        pair: Pair,
        reg: Reg,
        value: Term | None,
        holding: frozenset[Term],
        given: Callable[[], frozenset[Term]],
    ) -> bool:
        """Record that control arrives at a pair with a value, expressed in the terms of that place,
        under the conditions `given`. `holding` are the registers of the first text that hold the
        same value. Returns whether less is known now than before."""
        register_values = self._register_values.setdefault(pair, {})
        arrivals = self._arrivals.setdefault((pair, reg), [])
        held = self._holding.get((pair, reg), holding) & holding
        fewer = self._holding.get((pair, reg)) not in (None, held)
        self._holding[pair, reg] = held
        values = self._values.setdefault((pair, reg), set())
        arrival, repeated = (given(), value), value in values
        values.add(value)
        if arrival not in arrivals and len(arrivals) <= _MAX_ARRIVALS:
            arrivals.append(arrival)  # even one with a known value: what was decided on it counts
        elif repeated and not fewer:
            return False
        before, first = register_values.get(reg), reg not in register_values
        register_values[reg] = value
        if value is None or len(values) > 1:
            register_values[reg] = self._joined(arrivals, held, unknown_at(pair, reg))
        return not first and before is not None and register_values[reg] is not before

    def _joined(
        self, arrivals: Sequence[Arrival], holding: frozenset[Term], name: str
    ) -> Term | None:
        """The value for several arrivals."""
        few = len(arrivals) <= _MAX_ARRIVALS
        value = chosen_by_condition(self._terms, arrivals, name) if few else None
        if not holding:
            return value
        # A register of the first text that held the same on every arrival: exact, where the choice
        # by conditions has an unknown or could not be made.
        held = min(holding, key=lambda word: word.id)
        if value is None:
            return held
        unknown = self._terms.atom(name, held.width, Variance.LANE)
        return substitute(self._terms, value, lambda node: held if node is unknown else None)


def unknown_at(pair: Pair, reg: Reg) -> str:
    """The name of the unknown for what a register holds at a pair if nothing is known of it."""
    return f"unknown {pair} {reg.name}@{reg.scope}"


def chosen_by_condition(terms: Terms, arrivals: Sequence[Arrival], name: str) -> Term | None:
    """One value for several arrivals: a choice by the conditions in which they differ. `name` is
    the unknown that stands for values that are not known."""
    (decided, value), *others = arrivals
    if all(other is value for _, other in others):
        return value
    for condition in sorted(decided, key=lambda c: c.id):
        never = terms.not_(condition)
        there = [arrival for arrival in arrivals if condition in arrival[0]]
        elsewhere = [arrival for arrival in arrivals if never in arrival[0]]
        if elsewhere and len(there) + len(elsewhere) == len(arrivals):
            sides = [chosen_by_condition(terms, side, name) for side in (there, elsewhere)]
            width = next((s.width for s in sides if s is not None), 0)
            if not width:
                return None
            unknown = terms.atom(name, width, Variance.LANE)
            yes, no = (unknown if side is None else side for side in sides)
            return terms.ite(condition, yes, no)
    return None
