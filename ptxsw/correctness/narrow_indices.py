"""Numbers of 32 bits that go into addresses, where it matters whether they have wrapped.

out + 4·sext(i·n + j)      i·n + j is extended
in + 4·sext((3·i) >> 2)    3·i is divided first: the product on the way counts
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from ptxsw.correctness.arrays import addresses
from ptxsw.emulator.trace import Access
from ptxsw.ptx.bits import wrapped
from ptxsw.terms import op
from ptxsw.terms.node import Term, bottom_up, split, visible_parts, walk


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
    return term.width == 32 and term.kind in (op.SUM, op.MUL)
