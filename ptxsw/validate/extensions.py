"""Sums that differ in how an index was extended.

`base + 4·sext(i) + 4` and `base + 4·sext(i + 1)` are equal where `i + 1` does not overflow. The
difference of two such sums has `sext(i)` and `sext(i + 1)` with opposite coefficients: one is
written as the other plus 1, and the test of the overflow is a small question of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ptxsw.bits import wrapped
from ptxsw.emulator.node import Term, split
from ptxsw.emulator.terms import Terms

_MAX_ITEMS = 12


def vanishes(terms: Terms, difference: Term, holds: Callable[[Term, Term], bool]) -> bool:
    """Is a difference zero, as far as pairs of extended indices tell? `holds` is asked for what
    that takes: a condition, and the index that it is about."""
    while True:
        constant, items = split(difference)
        if not items:
            return constant == 0
        if len(items) > _MAX_ITEMS:
            return False
        smaller = next(
            (
                terms.sub(difference, change)
                for change, needed, index in _pairs(terms, difference)
                if holds(needed, index)
            ),
            None,
        )
        if smaller is None:
            return False
        difference = smaller


def _pairs(terms: Terms, difference: Term) -> Iterator[tuple[Term, Term, Term]]:
    """Parts `k·(ext(u + c) - ext(u) - c)` of a sum, each with the condition under which it is 0
    and the index u."""
    width = difference.width
    items = [(t, c) for t, c in split(difference)[1] if t.kind in ("sext", "zext")]
    for low, coefficient in items:
        for high, other in items:
            if high is low or high.kind != low.kind or (coefficient + other) % (1 << width):
                continue
            step = terms.sub(high.args[0], low.args[0]) if _alike(high, low) else None
            if step is None or step.kind != "const":
                continue
            by = wrapped(step.value, step.width)
            part = terms.sub(terms.sub(high, low), terms.const(by, width))
            index = low.args[0]
            yield terms.scale(part, other), _fits(terms, index, by, low.kind == "sext"), index


def _alike(a: Term, b: Term) -> bool:
    return a.args[0].width == b.args[0].width


def _fits(terms: Terms, value: Term, step: int, signed: bool) -> Term:
    """The condition that `value + step` does not overflow."""
    width = value.width
    if signed:
        least, most = -(1 << width - 1), (1 << width - 1) - 1
        at_most = terms.sle
    else:
        least, most = 0, (1 << width) - 1
        at_most = terms.ule
    if step > 0:
        return at_most(value, terms.const(most - step, width))
    return at_most(terms.const(least - step, width), value)
