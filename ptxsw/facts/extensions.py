"""Values that differ in how an index was extended.

`base + 4·sext(i) + 4` and `base + 4·sext(i + 1)` are equal where `i + 1` does not overflow. The
difference of two such sums has `sext(i)` and `sext(i + 1)` with opposite coefficients: one is
written as the other plus 1, and the test of the overflow is a small question of its own.

`sext(i + 2·j)` is `sext(i) + 2·sext(j)` where the ranges of both, added, stay within the type.

Products cannot be told apart so. `sext(i + 1)·sext(n)` and `zext(i + 1)·zext(n)` are both
`(zext(i) + 1)·zext(n)` where `i` and `n` are no negative numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

from ptxsw.ptx.bits import wrapped
from ptxsw.terms import op
from ptxsw.terms.node import Term, split
from ptxsw.terms.substitution import substitute
from ptxsw.terms.terms import Terms

_MAX_ITEMS = 12
_MAX_SIZE = 200
_TIMES = (1, -1, 2, -2, 3, -3, 4, -4)  # how often a part may stand in a sum


Span = Callable[[Term], tuple[int, int] | None]
"""The least and the most that an extended index is, as far as that is known."""


def vanishes(
    terms: Terms, difference: Term, holds: Callable[[Term, Term], bool], span: Span
) -> bool:
    """Is a difference shown to be zero by cancelling pairs of extended indices, and extended sums
    with their extended parts? `holds` proves what a pair requires: a condition about an index."""
    while True:
        # Each change is a part that is zero, and takes at least two extensions away: this ends.
        constant, items = split(difference)
        if not items:
            return constant == 0
        if len(items) > _MAX_ITEMS:
            return False
        change = next(_changes(terms, difference, holds, span), None)
        if change is None:
            return False
        difference = terms.sub(difference, change)


def _changes(
    terms: Terms, difference: Term, holds: Callable[[Term, Term], bool], span: Span
) -> Iterator[Term]:
    """Parts of a sum that are known to be zero."""
    yield from _parted(terms, difference, span)
    for change, needed, index in _pairs(terms, difference):
        if holds(needed, index):
            yield change


def _parted(terms: Terms, difference: Term, span: Span) -> Iterator[Term]:
    """Parts `k·(ext(m·a + n·b + c) - m·ext(a) - n·ext(b) - c)` of a sum that are 0."""
    width = difference.width
    items = [(t, k) for t, k in split(difference)[1] if t.kind in op.EXTENSIONS]
    for whole, factor in items:
        parts = [
            (part, times)
            for part, k in items
            if part is not whole and _same_width(part, whole)
            for times in _TIMES
            if (k + times * factor) % (1 << width) == 0
        ]
        for used in (*((one,) for one in parts), *combinations(parts, 2)):
            left, inner = whole, whole.args[0]
            for part, times in used:
                left = terms.sub(left, terms.scale(part, times))
                inner = terms.sub(inner, terms.scale(part.args[0], times))
            if inner.kind is op.CONST and _stays(whole, inner, [(span(p), m) for p, m in used]):
                by = terms.const(wrapped(inner.value, inner.width), width)
                yield terms.scale(terms.sub(left, by), factor)


def _stays(whole: Term, more: Term, parts: Sequence[tuple[tuple[int, int] | None, int]]) -> bool:
    """Does a sum of indices and a number not overflow, read as the whole is?"""
    size = 1 << more.width
    least = -size // 2 if whole.kind is op.SEXT else 0
    low = high = wrapped(more.value, more.width)
    for span, times in parts:
        if span is None:
            return False
        ends = sorted(times * end for end in span)
        low, high = low + ends[0], high + ends[1]
    return least <= low and high < least + size


def _pairs(terms: Terms, difference: Term) -> Iterator[tuple[Term, Term, Term]]:
    """Parts `k·(ext(u + c) - ext(u) - c)` of a sum, each with the condition under which it is 0
    and the index u."""
    width = difference.width
    items = [(t, c) for t, c in split(difference)[1] if t.kind in op.EXTENSIONS]
    for low, coefficient in items:
        for high, other in items:
            if high is low or high.kind != low.kind or (coefficient + other) % (1 << width):
                continue
            step = terms.sub(high.args[0], low.args[0]) if _same_width(high, low) else None
            if step is None or step.kind is not op.CONST:
                continue
            by = wrapped(step.value, step.width)
            part = terms.sub(terms.sub(high, low), terms.const(by, width))
            index = low.args[0]
            yield terms.scale(part, other), _fits(terms, index, by, low.kind is op.SEXT), index


def products_written_out(
    terms: Terms, term: Term, holds: Callable[[Term], bool], memo: dict[Term, Term]
) -> Term:
    """A term in which an extended sum is a sum of extended parts, wherever that is the same, and
    what is no negative number is extended by zeros. `holds` is asked for the conditions."""

    def leaf(node: Term) -> Term | None:
        if node.kind not in op.EXTENSIONS or node.size > _MAX_SIZE:
            return None
        (inner,) = node.args
        if node.kind is op.SEXT and holds(terms.sle(terms.const(0, inner.width), inner)):
            node = terms.zext(inner, node.width)
        constant, items = split(inner)
        grows = all(wrapped(f, inner.width) >= 0 for f in (constant, *(f for _, f in items)))
        if inner.kind is not op.SUM or (node.kind is op.SEXT and grows):
            return node  # what only adds extended parts up is not negative
        total = terms.const(wrapped(constant, inner.width), node.width)
        for part, factor in items:
            extended = terms.zext(part, node.width)
            extended = leaf(extended) or extended
            total = terms.add(total, terms.scale(extended, wrapped(factor, inner.width)))
        return total if holds(terms.eq(node, total)) else node

    return substitute(terms, term, leaf, memo)


def _same_width(a: Term, b: Term) -> bool:
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
