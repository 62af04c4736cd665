"""Values that differ in how an index was extended, and index sums that must not overflow for that.

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

from msgspec import Struct

from ptxsw.changes.claim import Obligation
from ptxsw.ptx.bits import wrapped
from ptxsw.terms import op
from ptxsw.terms.node import Term, bottom_up, split
from ptxsw.terms.solver import Proved, Solver
from ptxsw.terms.substitution import substitute
from ptxsw.terms.terms import Terms

_MAX_ITEMS = 12
_MAX_SIZE = 200
_TIMES = (1, -1, 2, -2, 3, -3, 4, -4)  # how often a part may stand in a sum

Span = Callable[[Term], tuple[int, int] | None]
"""The least and the most that an extended index is, as far as that is known."""


class NoOverflow(Struct, frozen=True):
    """`value + step` keeps its sign- (or zero-) extended value."""

    value: Term
    step: int
    signed: bool


def discharge(
    terms: Terms, solver: Solver, need: NoOverflow, conditions: frozenset[Term]
) -> Obligation | None:
    """The proof that the sum does not overflow, from the path's conditions, if there is one.

    Z3 is asked only where a condition bounds this very index: it is compared up to a constant.
    """
    claim = no_overflow(terms, need)
    if claim.kind is op.CONST:
        return Obligation(claim) if claim.value else None
    bounds = frozenset(c for c in conditions if _compares(c, varying_part(need.value)))
    if bounds and isinstance(solver.prove(claim, bounds), Proved):
        return Obligation(claim, bounds)
    return None


def no_overflow(terms: Terms, need: NoOverflow) -> Term:
    """The condition that a sum does not overflow."""
    value, step, width = need.value, need.step, need.value.width
    if need.signed:
        low, high = -(1 << (width - 1)), (1 << (width - 1)) - 1
        if step >= 0:
            return terms.sle(value, terms.const(high - step, width))
        return terms.sle(terms.const(low - step, width), value)
    if step >= 0:
        return terms.ule(value, terms.const((1 << width) - 1 - step, width))
    return terms.ule(terms.const(-step, width), value)


Varying = tuple[int, tuple[tuple[Term, int], ...]]


def varying_part(term: Term) -> Varying:
    """The same for terms that differ by a constant, and for no others."""
    return term.width, split(term)[1]


def _compares(condition: Term, index: Varying) -> bool:
    """Is the index a side of some comparison in a condition, up to a constant?"""
    seen = set[Term]()
    for node in bottom_up(seen, _joined, condition):
        seen.add(node)
        if not _joined(node) and index in map(varying_part, node.args):
            return True
    return False


def _joined(condition: Term) -> tuple[Term, ...]:
    """The conditions that one is made of."""
    return condition.args if condition.kind in (op.NOT, op.AND, op.OR, op.XOR) else ()


def vanishes(
    terms: Terms, difference: Term, fits: Callable[[NoOverflow], bool], span: Span
) -> bool:
    """Is a difference shown to be zero by cancelling pairs of extended indices, and extended sums
    with their extended parts? `fits` proves what a pair requires."""
    while True:
        # Each change is a part that is zero, and takes at least two extensions away: this ends.
        constant, items = split(difference)
        if not items:
            return constant == 0
        if len(items) > _MAX_ITEMS:
            return False
        change = next(_changes(terms, difference, fits, span), None)
        if change is None:
            return False
        difference = terms.sub(difference, change)


def _changes(
    terms: Terms, difference: Term, fits: Callable[[NoOverflow], bool], span: Span
) -> Iterator[Term]:
    """Parts of a sum that are known to be zero."""
    yield from _parted(terms, difference, span)
    for change, need in _pairs(terms, difference):
        if fits(need):
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


def _pairs(terms: Terms, difference: Term) -> Iterator[tuple[Term, NoOverflow]]:
    """Parts `k·(ext(u + c) - ext(u) - c)` of a sum, each with what has to fit so that it is 0."""
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
            yield terms.scale(part, other), NoOverflow(low.args[0], by, low.kind is op.SEXT)


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
