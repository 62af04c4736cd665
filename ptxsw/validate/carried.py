"""What registers of the second text alone hold where control comes by several ways.

    @%p bra JOIN;                  %keep is what was there before, where %p is true
    ld.global.nc.f32 %f1, [%rd4];
    mov.b32 %keep, %f1;            and what the load gives, where it is not
    JOIN:

A value that is made of what does not change is known where control arrives with it. Where it
arrives with several, what was decided on the way tells them apart, if that does not change either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ptxsw.emulator.node import Term, Variance
from ptxsw.emulator.terms import Terms
from ptxsw.ir import Reg

_MAX_WAYS = 6

Pair = tuple[int, int]
_Way = tuple[frozenset[Term], Term | None]
"""What was decided, and the value; None for one that may change."""


class Carried:
    """Values with which control comes to pairs of places. `stays`: does a value mean the same at
    the next place, whether or not memory stands still until there?"""

    def __init__(self, terms: Terms, stays: Callable[..., bool]) -> None:
        self._terms, self._stays = terms, stays
        self._ways: dict[tuple[Pair, Reg], list[_Way]] = {}
        self._known: dict[Pair, dict[Reg, Term | None]] = {}

    def at(self, pair: Pair) -> Mapping[Reg, Term | None]:
        """The registers that control has come with; None where nothing is known of one."""
        return self._known.get(pair, {})

    def arrive(
        self, pair: Pair, reg: Reg, value: Term | None, given: Sequence[Term], *, still: bool
    ) -> bool:
        """Control comes to a pair with a value, where some conditions hold and memory stood
        `still` or not. Is less known than before?"""
        stays = partial(self._stays, still=still)
        if value is not None and not stays(value):
            value = None
        known = self._known.setdefault(pair, {})
        ways = self._ways.setdefault((pair, reg), [])
        if ways and all(other is value for _, other in ways):
            return False
        if len(ways) <= _MAX_WAYS:
            way = frozenset(filter(stays, given)), value
            if way in ways:
                return False
            ways.append(way)
        before, first = known.get(reg), reg not in known
        known[reg] = self._joined(ways, f"{pair} {reg.name}@{reg.scope}")
        return not first and before is not None and known[reg] is not before

    def _joined(self, ways: Sequence[_Way], name: str) -> Term | None:
        """One value for several ways, told apart by what was decided on them."""
        (decided, value), *others = ways
        if all(other is value for _, other in others):
            return value
        if len(ways) > _MAX_WAYS:
            return None
        for condition in sorted(decided, key=lambda c: c.id):
            never = self._terms.not_(condition)
            there = [way for way in ways if condition in way[0]]
            elsewhere = [way for way in ways if never in way[0]]
            if elsewhere and len(there) + len(elsewhere) == len(ways):
                sides = [self._joined(side, name) for side in (there, elsewhere)]
                width = next((s.width for s in sides if s is not None), 0)
                if not width:
                    return None
                unknown = self._terms.atom(f"unknown {name}", width, Variance.LANE)
                yes, no = (unknown if side is None else side for side in sides)
                return self._terms.ite(condition, yes, no)
        return None
