"""Nodes of the term table, and what can be read off one without changing it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any

from ptxsw.bits import wrapped

OPAQUE = frozenset({"float", "apply", "atom"})
"""Kinds of terms whose values are unknown but for the bits that they may set."""


class Variance(IntEnum):
    """Over which threads of a warp a value is the same.

    ROW values (`%tid.y`, `%tid.z`) are equal in a warp whose lanes lie in one row of the block.
    """

    UNIFORM = 0
    ROW = 1
    LANE = 2


class Term:
    """A node; made by `Terms` only. `value` is the payload of the kind:

    const: the unsigned integer; atom: its name; sum: (constant, coefficients), one for each of
    `args`; extract: the low bit; float: its name; apply: (its name, its own variance).
    """

    __slots__ = ("_ones", "args", "id", "kind", "size", "value", "variance", "width")

    id: int
    kind: str
    width: int
    args: tuple[Term, ...]
    value: Any
    variance: Variance
    size: int  # nodes, counted as a tree and capped
    _ones: int | None

    def __repr__(self) -> str:
        from ptxsw.emulator.show import show

        return show(self)


def split(term: Term) -> tuple[int, tuple[tuple[Term, int], ...]]:
    """A term as `constant + Σ coefficient·atom`, all modulo 2^width."""
    if term.kind == "sum":
        constant, coefficients = term.value
        return constant, tuple(zip(term.args, coefficients, strict=True))
    if term.kind == "const":
        return term.value, ()
    return 0, ((term, 1),)


def factors(term: Term) -> tuple[Term, ...]:
    return term.args if term.kind == "mul" else (term,)


def signed(term: Term) -> int:
    """The value of a constant read as two's complement."""
    return wrapped(term.value, term.width)


def positive(term: Term) -> bool:
    """Is the sign bit known to be zero?"""
    return ones(term) >> (term.width - 1) == 0


def ones(term: Term) -> int:
    """Mask of the bits that may be set; as a number, an upper bound of the unsigned value."""
    known = term._ones
    if known is None:
        known = term._ones = _possible_ones(term)
    return known


def _possible_ones(term: Term) -> int:
    full = (1 << term.width) - 1
    match term.kind:
        case "const":
            return int(term.value)
        case "zext":
            return ones(term.args[0])
        case "sext":
            inner = term.args[0]
            mask = ones(inner)
            return mask | (full ^ ((1 << inner.width) - 1)) if mask >> (inner.width - 1) else mask
        case "and":
            return ones(term.args[0]) & ones(term.args[1])
        case "or" | "xor":
            return ones(term.args[0]) | ones(term.args[1])
        case "ite":
            return ones(term.args[1]) | ones(term.args[2])
        case "extract":
            return (ones(term.args[0]) >> int(term.value)) & full
        case "concat":
            return ones(term.args[0]) << term.args[1].width | ones(term.args[1])
        case "sum":
            return _ones_of_sum(term, full)
        case "mul":
            bound = 1
            for factor in term.args:
                bound *= ones(factor)
            return full if bound > full else (1 << bound.bit_length()) - 1
        case "urem" | "udiv" if term.args[1].kind == "const":
            bound = ones(term.args[0])
            if term.kind == "urem":
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


def walk(*terms: Term) -> Iterable[Term]:
    """Every subterm once, arguments before the terms that hold them."""
    seen: set[Term] = set()
    stack = list(terms)
    while stack:
        node = stack[-1]
        if node in seen:
            stack.pop()
            continue
        missing = [a for a in node.args if a not in seen]
        if missing:
            stack.extend(missing)
        else:
            seen.add(node)
            stack.pop()
            yield node


def truncated(a: int, b: int) -> tuple[int, int]:
    """Quotient and remainder of a division that truncates toward zero."""
    quotient = abs(a) // abs(b)
    if (a < 0) != (b < 0):
        quotient = -quotient
    return quotient, a - quotient * b


def walk_until(term: Term, done: Mapping[Term, Any]) -> Iterable[Term]:
    """Subterms not in `done`, arguments first; the caller adds each to `done` as it comes."""
    stack = [term]
    while stack:
        node = stack[-1]
        if node in done:
            stack.pop()
            continue
        missing = [a for a in node.args if a not in done]
        if missing:
            stack.extend(missing)
        else:
            stack.pop()
            yield node
