"""Nodes of the term table, and what can be read off one without changing it.

Terms may be deeper than Python's stack. So nothing that follows them calls itself: it goes through
`bottom_up`, or `walk` and `walk_until` where it needs the arguments of every node.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Any, TypeVar

from ptxsw.ptx.bits import wrapped
from ptxsw.terms import op
from ptxsw.terms.op import Op
from ptxsw.terms.origin import Origin


class Variance(IntEnum):
    """Over which threads of a warp a value is the same.

    ROW values (`%tid.y`, `%tid.z`) are equal in a warp whose lanes lie in one row of the block.
    """

    UNIFORM = 0
    ROW = 1
    LANE = 2


class Term:
    """A node; made by `Terms` only. `value` is the payload of the kind:

    const: the unsigned integer; atom: its name, for people and to tell it from others; sum:
    (constant, coefficients), one for each of `args`; extract: the low bit; float:
    its name; apply: (its name, its own variance).
    """

    __slots__ = (
        "_items", "_ones", "args", "id", "kind", "of", "operation", "origin", "size", "value",
        "variance", "width",
    )  # fmt: skip

    id: int
    kind: Op
    width: int
    args: tuple[Term, ...]
    value: Any
    variance: Variance
    origin: Origin
    of: tuple[str, ...]
    size: int  # nodes, counted as a tree and capped
    _ones: int | None
    _items: tuple[tuple[Term, int], ...] | None  # of a sum, once it has been split
    operation: Callable[..., int] | None  # once it has been evaluated

    def __repr__(self) -> str:
        """Short: a term shares its parts, so written out it may be longer than memory is large.
        `emulator.show` writes terms for people."""
        return f"<{self.kind} {self.id}: {self.width} bits>"


def split(term: Term) -> tuple[int, tuple[tuple[Term, int], ...]]:
    """A term as `constant + Σ coefficient·atom`, all modulo 2^width."""
    if term.kind is op.SUM:
        constant, coefficients = term.value
        items = term._items
        if items is None:
            items = term._items = tuple(zip(term.args, coefficients, strict=True))
        return constant, items
    if term.kind is op.CONST:
        return term.value, ()
    return 0, ((term, 1),)


def factors(term: Term) -> tuple[Term, ...]:
    return term.args if term.kind is op.MUL else (term,)


def signed(term: Term) -> int:
    """The value of a constant read as two's complement."""
    return wrapped(term.value, term.width)


def positive(term: Term) -> bool:
    """Is the sign bit known to be zero?"""
    return ones(term) >> (term.width - 1) == 0


def ones(term: Term) -> int:
    """Mask of the bits that may be set; as a number, an upper bound of the unsigned value."""
    mask = term._ones
    if mask is not None:
        return mask
    stack = [term]
    while stack:  # as `bottom_up`, in fewer steps
        node = stack[-1]
        missing = [part for part in _bounding(node) if part._ones is None]
        if missing:
            stack += missing
            continue
        stack.pop()
        mask = node._ones = _possible_ones(node)
    assert mask is not None
    return mask


def _bounding(term: Term) -> Iterable[Term]:
    """The arguments that bound the bits of a term."""
    match term.kind:
        case op.ZEXT | op.SEXT | op.AND | op.OR | op.XOR | op.EXTRACT | op.CONCAT | op.SUM | op.MUL:
            return term.args
        case op.ITE:
            return term.args[1:]
        case op.UREM | op.UDIV if term.args[1].kind is op.CONST:
            return term.args[:1]
        case _:
            return ()


def _possible_ones(term: Term) -> int:
    """The same from what is known of the arguments."""
    full = (1 << term.width) - 1
    match term.kind:
        case op.CONST:
            return int(term.value)
        case op.ZEXT:
            return ones(term.args[0])
        case op.SEXT:
            inner = term.args[0]
            mask = ones(inner)
            return mask | (full ^ ((1 << inner.width) - 1)) if mask >> (inner.width - 1) else mask
        case op.AND:
            return ones(term.args[0]) & ones(term.args[1])
        case op.OR | op.XOR:
            return ones(term.args[0]) | ones(term.args[1])
        case op.ITE:
            return ones(term.args[1]) | ones(term.args[2])
        case op.EXTRACT:
            return (ones(term.args[0]) >> int(term.value)) & full
        case op.CONCAT:
            return ones(term.args[0]) << term.args[1].width | ones(term.args[1])
        case op.SUM:
            return _ones_of_sum(term, full)
        case op.MUL:
            bound = low = 1
            for factor in term.args:
                mask = ones(factor)
                bound *= mask
                low *= mask & -mask
            high = full if bound > full else (1 << bound.bit_length()) - 1
            return high & -low
        case op.UREM | op.UDIV if term.args[1].kind is op.CONST:
            bound = ones(term.args[0])
            if term.kind is op.UREM:
                bound = min(bound, int(term.args[1].value) - 1)
            else:
                bound //= int(term.args[1].value)
            return (1 << bound.bit_length()) - 1
        case _:
            return full


def _ones_of_sum(term: Term, full: int) -> int:
    """Low bits that every summand leaves zero stay zero; so do those above the largest total."""
    constant, items = split(term)
    bound = constant
    low = constant & -constant if constant else full + 1
    for atom, coefficient in items:
        mask = ones(atom)
        bound += coefficient * mask
        step = (coefficient & -coefficient) * (mask & -mask)
        low = min(low, step) if step else low
    high = full if bound > full else (1 << bound.bit_length()) - 1
    return high & ~(low - 1)


_Item = TypeVar("_Item", bound=Hashable)


def bottom_up(
    done: Container[_Item], parts: Callable[[_Item], Iterable[_Item]], *items: _Item
) -> Iterator[_Item]:
    """What has to be known to know the items: those that are not in `done`, each behind its parts.
    The caller adds each to `done` as it comes. `parts` is asked more than once, and may not lead
    back to an item."""
    stack = list(items)
    while stack:
        item = stack[-1]
        if item in done:
            stack.pop()
            continue
        missing = [part for part in parts(item) if part not in done]
        if missing:
            stack.extend(missing)
        else:
            stack.pop()
            yield item


def arguments(term: Term) -> tuple[Term, ...]:
    return term.args


def walk_until(done: Container[Term], *terms: Term) -> Iterator[Term]:
    """Subterms not in `done`, arguments first; the caller adds each to `done` as it comes."""
    return bottom_up(done, arguments, *terms)


def walk(*terms: Term) -> Iterator[Term]:
    """Every subterm once, arguments before the terms that hold them."""
    seen: set[Term] = set()
    stack = list(terms)
    while stack:  # as `bottom_up`, in fewer steps
        node = stack[-1]
        if node in seen:
            stack.pop()
            continue
        missing = [arg for arg in node.args if arg not in seen]
        if missing:
            stack += missing
            continue
        stack.pop()
        seen.add(node)
        yield node


def unknowns(*terms: Term) -> list[Term]:
    """The opaque terms that values are computed from; not those that are hidden in others."""
    seen: dict[Term, None] = {}
    for node in bottom_up(seen, visible_parts, *terms):
        seen[node] = None
    return [node for node in seen if node.kind in op.OPAQUE]


def visible_parts(term: Term) -> tuple[Term, ...]:
    """The arguments of a term that is taken apart."""
    return () if term.kind in op.OPAQUE else term.args


def truncated(a: int, b: int) -> tuple[int, int]:
    """Quotient and remainder of a division that truncates toward zero."""
    quotient = abs(a) // abs(b)
    if (a < 0) != (b < 0):
        quotient = -quotient
    return quotient, a - quotient * b


# ---------------------------------------------------------------- fields: bits side by side

Field = tuple[Term, int, int]
"""A term, the lowest bit of the field and its width."""


def field_parts(field: Field) -> Sequence[Field]:
    """The fields that bits of a term are made of; none where they are a field of their own."""
    a, low, width = field
    if width == a.width:
        return ()
    match a.kind:
        case op.EXTRACT:
            return [(a.args[0], a.value + low, width)]
        case op.SUM:
            # The low bits of a sum are the sum of the low bits; higher bits likewise where no
            # carry can come from below.
            above = terms_above(a, low)
            return () if above is None else [(t, 0, width) for t, _ in above]
        case op.MUL if low == 0:
            return [(factor, 0, width) for factor in a.args]
        case op.AND | op.OR | op.XOR:
            return [(arg, low, width) for arg in a.args]
        case op.ZEXT | op.SEXT:
            (inner,) = a.args
            if low < inner.width:
                return [(inner, low, min(width, inner.width - low))]
            return [(inner, inner.width - 1, 1)] if a.kind is op.SEXT else ()
        case op.CONCAT:
            high, lower = a.args
            if low >= lower.width:
                return [(high, low - lower.width, width)]
            return [(lower, low, width)] if low + width <= lower.width else ()
        case op.ITE:
            return [(arm, low, width) for arm in a.args[1:]]
    return ()


def terms_above(a: Term, low: int) -> Sequence[tuple[Term, int]] | None:
    """The terms of a sum that are multiples of a power of two, 2^low, each with its coefficient;
    None where the others, with the constant's low bits, may carry into bit `low`."""
    constant, coefficients = a.value
    mask = (1 << low) - 1
    above, most = [], constant & mask  # most: no larger are the others together
    for term, coefficient in zip(a.args, coefficients, strict=True):
        if coefficient & mask:
            most += ones(term) * coefficient
        else:
            above.append((term, coefficient))
    return above if most <= mask else None
