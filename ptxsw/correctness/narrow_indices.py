"""Numbers of 32 bits that go into addresses, where it matters whether they have wrapped.

out + 4·sext(i·n + j)      i·n + j is extended
in + 4·sext((3·i) >> 2)    3·i is divided first: the product on the way counts
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

from msgspec import Struct

from ptxsw.correctness.arrays import addresses
from ptxsw.emulator.trace import Access
from ptxsw.ptx.bits import wrapped
from ptxsw.terms import op
from ptxsw.terms.node import Term, bottom_up, split, visible_parts, walk
from ptxsw.terms.terms import Terms

SUMS = frozenset({op.SUM, op.MUL})
WIDE = 128
"""Bits in which sums of products of 32 bits are whole numbers."""


class NarrowIndex(Struct, frozen=True):
    """A number of 32 bits that is extended into an address, `scale` bytes for each step of it (0:
    not known), or of which a quotient goes into it (`is_divided`)."""

    value: Term
    signed: bool
    address: Term
    given: tuple[Term, ...]
    is_divided: bool = False
    scale: int = 0

    @property
    def most(self) -> int:
        return (1 << self.value.width - self.signed) - 1


def indices(access: Access) -> Iterator[NarrowIndex]:
    """The numbers that go into the addresses of an access."""
    for address, given in addresses(access):
        seen: dict[Term, None] = {}
        scales = dict(split(address)[1])
        for node in bottom_up(seen, _looked_into, address):
            seen[node] = None
            if node.kind in op.EXTENSIONS:
                inner, signed = node.args[0], node.kind is op.SEXT
                if _is_sum(inner):
                    scale = abs(wrapped(scales.get(node, 0), address.width))
                    yield NarrowIndex(inner, signed, address, given, scale=scale)
                elif _is_quotient(inner) and _is_counted(inner.args[0]):
                    yield NarrowIndex(inner.args[0], signed, address, given, True)
            elif node.kind is op.ITE and node.width == 32:
                yield from _chosen(node, address, given)
            elif node.kind in _DIVIDING and _is_counted(node.args[0]):
                signed = node.kind in (op.SDIV, op.ASHR)
                yield NarrowIndex(node.args[0], signed, address, given, True)


def _chosen(choice: Term, address: Term, given: tuple[Term, ...]) -> Iterator[NarrowIndex]:
    """The sums of which one is chosen; no narrower than a divided one, for the rest may follow."""
    signed = any(node.kind is op.SEXT for node in walk(address))
    for arm in choice.args[1:]:
        if _is_counted(arm):
            yield NarrowIndex(arm, signed, address, given)


_DIVIDING = frozenset({op.UDIV, op.SDIV, op.LSHR, op.ASHR})
_MIXING = op.BITWISE | {op.UREM, op.SREM}
_HASH = 1 << 16
"""No size of a row or record is a larger literal: such factors mix bits."""


def _looked_into(term: Term) -> tuple[Term, ...]:
    """The parts of a term that count something: of what mixes bits none does."""
    if term.kind in _MIXING or (term.kind is op.EXTRACT and term.value == 0 and term.width < 32):
        return ()
    return visible_parts(term)


def _is_quotient(term: Term) -> bool:
    """Is it what a shift to the right leaves of 32 bits?"""
    high = term.kind is op.EXTRACT and term.value + term.width == term.args[0].width
    return high and 1 < term.width < 32


def _is_counted(term: Term) -> bool:
    """Is it a sum of sizes and places rather than a hash?"""
    items = split(term)[1]
    return _is_sum(term) and all(abs(wrapped(f, term.width)) < _HASH for _, f in items)


def _is_sum(term: Term) -> bool:
    return term.width == 32 and term.kind in SUMS


def as_whole(terms: Terms, term: Term, signed: bool) -> Term:
    """The same value over whole numbers. What is extended is a number of its own."""
    whole: dict[tuple[Term, bool, int], Term] = {}

    def parts(key: tuple[Term, bool, int]) -> list[tuple[Term, bool, int]]:
        node, _, width = key
        if node.kind in op.EXTENSIONS and width == 64 and node.args[0].width == 32:
            return [(node.args[0], node.kind is op.SEXT, 32)]
        return [(p, key[1], width) for p in node.args] if node.kind in SUMS else []

    start = (term, signed, term.width)
    for key in bottom_up(whole, parts, start):
        node, is_signed, _ = key
        values = [whole[part] for part in parts(key)]
        if node.kind is op.SUM:
            constant, items = split(node)
            total = terms.const(wrapped(constant, node.width), WIDE)
            for value, (_, factor) in zip(values, items, strict=True):
                total = terms.add(total, terms.scale(value, wrapped(factor, node.width)))
            whole[key] = total
        elif node.kind is op.MUL:
            whole[key] = reduce(terms.mul, values)
        elif values:
            whole[key] = values[0]
        else:
            whole[key] = (terms.sext if is_signed else terms.zext)(node, WIDE)
    return whole[start]
