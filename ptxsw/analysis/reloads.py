"""Does a kernel load any byte of global memory twice, as far as a compiler may see?

    a[i] = b[j] + a[i];     within a loop over i: j stays, so that b[j] is loaded again and again
    a[i] = b[i] + b[i - 1];                       b[i - 1] is what b[i] was in the iteration before
    a[i] = b[i] + c[i];                           no byte is loaded again

Addresses are read as polynomials, as if no index wrapped. Two that differ in a parameter, or in
anything else that stays the same in all loops, are taken for different: no compiler can know them
to be equal. All others may be equal.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ptxsw.emulator.trace import Access, Trace
from ptxsw.terms.node import Term, walk
from ptxsw.terms.origin import NUMBERED, OF_LOOPS, Origin
from ptxsw.terms.polynomial import Monomial, Polynomial

_CHANGING = OF_LOOPS | NUMBERED | {Origin.LOAD}
"""What may stand for equal values under several names, or for several under one."""

_ANYWHERE = (-(1 << 64), 1 << 64)

_Class = frozenset[tuple[Monomial, int]]


def may_repeat(trace: Trace, loads: Iterable[Access]) -> bool:
    """May one of these loads read what it, or another load of the kernel, has read before?"""
    others = [a for a in trace.accesses if a.kind == "load" and a.space in ("global", "generic")]
    return _Repeats(trace, others).any_of({load.index for load in loads})


class _Repeats:
    """The loads of one kernel, each with the first byte of each of its addresses."""

    def __init__(self, trace: Trace, loads: Sequence[Access]) -> None:
        self._trace, self._loads = trace, loads
        self._unwrapped = trace.unwrapped
        self._stays: dict[Term, bool] = {}

    def any_of(self, wanted: set[int]) -> bool:
        """Does one of the loads of these numbers repeat what is loaded?"""
        by_class: dict[_Class, dict[int, list[tuple[int, int]]]] = {}
        for load in self._loads:
            loops = self._loops(load)
            addresses = {variant.address for variant in load.variants}
            if load.index in wanted and loops and len(addresses) != 1:
                return True
            for address in addresses:
                whole = self._unwrapped.polynomial(address)
                if load.index in wanted and loops and not self._moves_on(loops, whole):
                    return True
                fixed = frozenset(item for item in whole if self._is_fixed(item[0]))
                place = whole.offset
                reached = (place, place + load.bytes)
                if loops or fixed != whole.varying:
                    reached = _ANYWHERE
                by_class.setdefault(fixed, {}).setdefault(load.index, []).append(reached)
        return any(_meet(alike, wanted) for alike in by_class.values())

    def _loops(self, load: Access) -> Sequence[int]:
        """The headers of the loops around a load."""
        cfg = self._trace.cfg
        return cfg.loops_around(cfg.block_of[load.index])

    def _moves_on(self, loops: Sequence[int], address: Polynomial) -> bool:
        """Does each iteration of the one loop around an address lead to a place of its own? Where
        loops are nested, the inner one may go over the same places again."""
        if len(loops) != 1:
            return False
        count = self._trace.terms.iteration(self._trace.cfg.name(loops[0]))
        steps = [monomial for monomial, _ in address if count in monomial]
        factors = [[term for term in step if term is not count] for step in steps]
        linear = all(len(f) + 1 == len(s) for f, s in zip(factors, steps, strict=True))
        rest = (monomial for monomial, _ in address if count not in monomial)
        fixed = all(self._stays_the_same(term) for part in (*factors, *rest) for term in part)
        return bool(steps) and linear and fixed

    def _is_fixed(self, monomial: Monomial) -> bool:
        """Is it, other than a constant, the same wherever in the kernel it stands?"""
        return bool(monomial) and all(map(self._stays_the_same, monomial))

    def _stays_the_same(self, term: Term) -> bool:
        stays = self._stays.get(term)
        if stays is None:
            stays = all(part.origin not in _CHANGING for part in walk(term))
            self._stays[term] = stays
        return stays


def _meet(alike: dict[int, list[tuple[int, int]]], wanted: set[int]) -> bool:
    """Have two loads, one of them wanted, a byte in common? They are given by the first byte and
    the one behind the last, of each path."""
    # In the order of their first bytes, so that each is compared only with how far earlier ones
    # reach: pairs of loads would take the square of a long kernel.
    ranges = sorted((*each, load) for load, paths in alike.items() for each in paths)
    furthest = (-math.inf, -1)  # of all loads so far: where it ends, and which it is
    beside = furthest[0]  # of all but that load
    of_wanted = beside
    for start, end, load in ranges:
        others = beside if furthest[1] == load else furthest[0]
        if (others if load in wanted else of_wanted) > start:
            return True
        if load in wanted:
            of_wanted = max(of_wanted, end)
        if furthest[1] == load:
            furthest = max(furthest, (end, load))
        elif end > furthest[0]:
            furthest, beside = (end, load), furthest[0]
        else:
            beside = max(beside, end)
    return False
