"""Terms as exclusive sums of single bits of other terms.

    π(x + 4) and π(x) + 4, where π(x) = x ^ (x >> 7 & 7) << 4 and x is a multiple of 64

Both are bits of `x` at their own places, some of them also at others, and a bit that is one. So
an address that was permuted before a distance was added is compared with one that was permuted
behind it, without the solver. An addition is such a sum where it carries nothing: the number lies
where all bits are known to be zero, or all behind its lowest bit are those of one term. What has
another form is a sum of its own bits.
"""

from __future__ import annotations

from collections.abc import Mapping

from ptxsw.facts.alignment import Divisors
from ptxsw.terms import op
from ptxsw.terms.node import Term, ones, split
from ptxsw.terms.terms import Terms

Bit = tuple[Term, int, int]
"""A bit of a term, counted from the lowest, and the place where it stands."""
Sum = tuple[int, frozenset[Bit]]
"""The bits that are one and those of terms; each place is their exclusive sum."""

_DEPTH = 24


class BitSums:
    """`aligned` are terms that are multiples of 2 to the number told."""

    def __init__(self, terms: Terms, aligned: Mapping[Term, int]) -> None:
        self._terms = terms
        known = {term: 1 << zeros for term, zeros in aligned.items()}
        self._divisor = Divisors(known.get).of
        self._sums: dict[Term, Sum] = {}

    def same(self, one: Term, other: Term) -> bool:
        """Are two terms surely equal wherever the aligned ones are multiples?"""
        return one.width == other.width and self._sum(one, 0) == self._sum(other, 0)

    # ------------------------------------------------------------ sums

    def _sum(self, term: Term, depth: int) -> Sum:
        result = self._sums.get(term)
        if result is None:
            result = self._decomposed(term, depth + 1) if depth < _DEPTH else None
            result = self._sums[term] = result or self._own(term)
        return result

    def _decomposed(self, term: Term, depth: int) -> Sum | None:
        match term.kind:
            case op.CONST:
                return int(term.value), frozenset()
            case op.XOR:
                return _together(*(self._sum(one, depth) for one in term.args))
            case op.ZEXT:
                return self._sum(term.args[0], depth)
            case op.EXTRACT:
                return self._extract(term, depth)
            case op.SUM:
                constant, items = split(term)
                if constant:
                    rest = self._terms.sum(term.width, 0, items)
                    return self._added(term, rest, int(constant), depth)
                if len(items) == 1 and items[0][1] & (items[0][1] - 1) == 0:
                    return _shifted(self._sum(items[0][0], depth), items[0][1], term.width)
        return None

    def _own(self, term: Term) -> Sum:
        """The bits of a term that may be set."""
        may, zeros = ones(term), self._divisor(term).bit_length() - 1
        return 0, frozenset((term, b, b) for b in range(zeros, term.width) if may >> b & 1)

    def _extract(self, term: Term, depth: int) -> Sum:
        low, (whole,) = int(term.value), term.args
        moved = self._number_inside(whole, low + term.width)
        if moved is not None:
            whole, low = moved[0], low + moved[1]
        number, bits = self._sum(whole, depth)
        inside = frozenset((t, b, at - low) for t, b, at in bits if 0 <= at - low < term.width)
        return number >> low & ((1 << term.width) - 1), inside

    def _number_inside(self, term: Term, end: int) -> tuple[Term, int] | None:
        """A field of `x` plus a number is, up to the field's end, a field of `x` plus a larger
        number: that sum and how many bits of it lie before the field. `end`: of the bits that are
        wanted."""
        constant, items = split(term)
        if not constant or len(items) != 1 or items[0][1] != 1:
            return None
        field = items[0][0].args[0] if items[0][0].kind is op.ZEXT else items[0][0]
        if field.kind is not op.EXTRACT or end > field.width:
            return None
        (whole,), low = field.args, int(field.value)
        number = self._terms.const(int(constant) << low & ((1 << whole.width) - 1), whole.width)
        return self._terms.add(whole, number), low

    def _added(self, whole: Term, rest: Term, number: int, depth: int) -> Sum:
        """`whole` is a number added to the rest, which has none."""
        ones_of, bits = self._sum(rest, depth)
        taken = ones_of  # places where a bit may be set
        for _, _, at in bits:
            taken |= 1 << at
        if not taken & number:  # nothing is carried
            return ones_of ^ number, bits
        # Below the number's lowest bit nothing changes. From there on a carry may run: if all bits
        # there are those of one term `t`, in place, the sum has the bits of `t + number`.
        first = (number & -number).bit_length() - 1
        above, below = _parted(bits, first)
        term = next(iter(above))[0] if above else rest
        alone = ones_of >> first == 0 and term is not rest and term.width == whole.width
        if alone and above == _parted(self._own(term)[1], first)[0]:
            moved = self._terms.add(term, self._terms.const(number, term.width))
            high, bits = self._sum(moved, depth)
            return ones_of | high >> first << first, below | _parted(bits, first)[0]
        # Otherwise the upper bits of the sum itself are taken for unknown ones. What the number has
        # above a bit does not reach it: bit 10 of `x + 0x1400` is that of `x + 0x400`.
        low = ones_of & ((1 << first) - 1)
        own = _parted(self._own(whole)[1], first)[0]
        return low, below | {(self._cut(rest, number, b), b, at) for _, b, at in own}

    def _cut(self, rest: Term, number: int, bit: int) -> Term:
        """`rest + number` without what the number has above a bit."""
        return self._terms.add(rest, self._terms.const(number % (2 << bit), rest.width))


def _together(one: Sum, other: Sum) -> Sum:
    return one[0] ^ other[0], one[1] ^ other[1]


def _parted(bits: frozenset[Bit], first: int) -> tuple[frozenset[Bit], frozenset[Bit]]:
    """Those from a place on, and those below."""
    above = frozenset(bit for bit in bits if bit[2] >= first)
    return above, bits - above


def _shifted(one: Sum, factor: int, width: int) -> Sum:
    """Times a power of two."""
    distance = factor.bit_length() - 1
    bits = frozenset((t, b, at + distance) for t, b, at in one[1] if at + distance < width)
    return one[0] << distance & ((1 << width) - 1), bits
