"""Between which whole numbers a value lies where some conditions hold.

    tid.x < 64, i = tid.x + 128·iter, i < 512       4·i lies between 0 and 2044

A value has two ranges, as an unsigned and as a signed number. That of a sum is computed over whole
numbers; where it leaves the type nothing is said, for sums wrap. A comparison bounds both of its
sides, and with a sum its multiples, and larger sums that hold it. So bounds are exact modulo
2^width: no value of the unknowns for which the conditions hold lies outside.

`ranges` answers the same for all threads at once, as polynomials over sizes. Here all is numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import gcd

from ptxsw.facts.conditions import MAX_SIZE, comparisons, conjuncts
from ptxsw.facts.number_range import (
    Interval,
    NumberRange,
    full,
    nearest,
    of_signed,
    of_total,
    of_unsigned,
    overlap,
)
from ptxsw.ptx.bits import wrapped
from ptxsw.terms import op
from ptxsw.terms.node import Term, ones, split, walk_until
from ptxsw.terms.terms import Terms

Limits = Callable[[Term], Interval | None]
"""The least and the greatest value of an unknown, as an unsigned number; None: its bits say it."""

_ROUNDS = 3
"""Of learning: a bound may follow from another that a later condition gives."""


class Bounds:
    """What is known where the conditions `given` hold."""

    def __init__(self, terms: Terms, given: Iterable[Term], limits: Limits) -> None:
        self._terms, self._limits = terms, limits
        self._memo: dict[Term, NumberRange] = {}
        # By sum without its constant: that, and the range of both.
        self._learned: dict[Term, dict[int, NumberRange]] = {}
        self._news = False
        self._sums: list[Term] = []  # of several parts, of which something was learned
        told = [c for c in conjuncts(given, terms) if c.size <= MAX_SIZE]
        compared = list(comparisons(told, terms))
        for _ in range(_ROUNDS if told else 0):
            self._news = False
            for one in compared:
                self._order(one.a, one.b, int(one.strict), one.signed)
            for condition in told:
                self._differ(condition)
            if not self._news:
                break

    def unsigned(self, term: Term) -> Interval:
        return self._of(term).unsigned

    def signed(self, term: Term) -> Interval:
        return self._of(term).signed

    def truth(self, condition: Term) -> bool | None:
        """Is a condition true or false for all values within the bounds? None where some may
        differ."""
        match condition.kind:
            case op.CONST:
                return bool(condition.value)
            case op.NOT:
                inner = self.truth(condition.args[0])
                return None if inner is None else not inner
            case op.AND | op.OR:
                sides = [self.truth(side) for side in condition.args]
                deciding = condition.kind is op.OR
                if deciding in sides:
                    return deciding
                return None if None in sides else not deciding
            case op.EQ:
                a, b = (self._of(side) for side in condition.args)
                if a.meet(b).is_empty:
                    return False
                return True if a == b and a.unsigned[0] == a.unsigned[1] else None
            case op.ULT | op.ULE | op.SLT | op.SLE:
                signed, strict = condition.kind in op.SIGNED, condition.kind in op.STRICT
                (low, high), (least, most) = (self._of(s).read(signed) for s in condition.args)
                if high + strict <= least:
                    return True
                return False if low + strict > most else None
        return None

    # ------------------------------------------------------------ what is known

    def _order(self, a: Term, b: Term, strict: int, signed: bool) -> None:
        """Learn from `a <= b`, or `a < b`."""
        first, second = self._of(a), self._of(b)
        if signed:
            low, high = first.signed[0] + strict, second.signed[1] - strict
            self._learn(a, of_signed((first.signed[0], high), a.width))
            self._learn(b, of_signed((low, second.signed[1]), b.width))
        else:
            low, high = first.unsigned[0] + strict, second.unsigned[1] - strict
            self._learn(a, of_unsigned((first.unsigned[0], high), a.width))
            self._learn(b, of_unsigned((low, second.unsigned[1]), b.width))
        self._learn_difference(a, b, strict, signed)

    def _learn_difference(self, a: Term, b: Term, strict: int, signed: bool) -> None:
        """From `a <= b` also that `b - a` is at least 0, where that does not wrap."""
        if op.CONST in (a.kind, b.kind) or a.width == 1:
            return
        least, most = self._of(a).read(signed)[0], self._of(b).read(signed)[1]
        if strict <= most - least < 1 << a.width - 1:
            difference = self._terms.sub(b, a)
            self._learn(difference, of_signed((strict, most - least), a.width))

    def _differ(self, condition: Term) -> None:
        """Learn from `a != 3`, where 3 is the least or the greatest that it may be."""
        if condition.kind is not op.NOT or condition.args[0].kind is not op.EQ:
            return
        a, b = condition.args[0].args
        if b.kind is op.CONST and a.width > 1:
            (low, high), number = self.unsigned(a), int(b.value)
            ends = low + (number == low), high - (number == high)
            self._learn(a, of_unsigned(ends, a.width))

    def _learn(self, term: Term, known: NumberRange) -> None:
        if term.kind is op.CONST or known.is_empty:
            return  # no value at all: nobody comes here, and any bounds are right
        constant, items = split(term)
        base = self._terms.sum(term.width, 0, items)
        kept = self._learned.setdefault(base, {})
        before = kept.get(constant)
        after = known if before is None else before.met(known)
        if after == before:
            return
        if len(items) > 1 and base not in self._sums:
            self._sums.append(base)
        kept[constant], self._news = after, True
        self._memo.clear()
        if term.kind in op.EXTENSIONS:
            inner, is_signed = term.args[0], term.kind is op.SEXT
            ends = overlap(known.read(is_signed), full(inner.width, signed=is_signed))
            self._learn(inner, of_total(*ends, inner.width))
        if term.kind is op.MUL and known.unsigned[0]:  # a product is 0 where a factor is
            for part in term.args:
                self._learn(part, of_unsigned((1, (1 << part.width) - 1), part.width))
        if term is not base or len(items) > 1:
            self._learn_of_parts(term, known)

    def _learn_of_parts(self, term: Term, known: NumberRange) -> None:
        """Learn of the parts of a sum that does not wrap."""
        constant, items = split(term)
        shares = [self._share(part, factor) for part, factor in items]
        low, high = (wrapped(constant, term.width) + sum(e) for e in zip(*shares, strict=True))
        for is_signed in (True, False):
            if overlap((low, high), full(term.width, signed=is_signed)) == (low, high):
                least, most = known.read(is_signed)
                break
        else:
            return
        for (part, factor), (own_low, own_high) in zip(items, shares, strict=True):
            times = wrapped(factor, term.width)
            ends = least - (high - own_high), most - (low - own_low)
            if times < 0:
                ends, times = (-ends[1], -ends[0]), -times
            bounds = -(-ends[0] // times), ends[1] // times
            self._learn(part, of_total(*overlap(bounds, nearest(self._of(part))), part.width))

    # ------------------------------------------------------------ values

    def _of(self, term: Term) -> NumberRange:
        known = self._memo.get(term)
        if known is None:
            for node in walk_until(self._memo, term):
                self._memo[node] = self._known(node, self._computed(node))
            known = self._memo[term]
        return known

    def _known(self, term: Term, both: NumberRange) -> NumberRange:
        """With what was learned of a value."""
        if not self._learned or term.kind is op.CONST or term.width == 1:
            return both
        constant, items = split(term)
        if not items:
            return both
        for factor in dict.fromkeys((1, _shared(items, term.width))):
            for sign in (factor, -factor):
                base = self._scaled_down(term.width, items, sign)
                for other, known in self._learned.get(base, {}).items():
                    moved = constant - sign * wrapped(other, term.width)
                    both = both.met(known.times(sign, moved, term.width))
        for known_sum in self._sums if term.kind is op.SUM else ():
            if known_sum.width == term.width and len(known_sum.args) < len(items):
                both = both.met(self._around(term, known_sum))
        return both

    def _scaled_down(self, width: int, items: Sequence[tuple[Term, int]], by: int) -> Term:
        """A sum's parts, each divided by what all factors share."""
        if by == 1 and len(items) == 1 and items[0][1] == 1:
            return items[0][0]
        return self._terms.sum(width, 0, [(t, wrapped(f, width) // by) for t, f in items])

    def _around(self, term: Term, inner: Term) -> NumberRange:
        """The range of a sum that holds a multiple of one of which something was learned."""
        constant, items = split(term)
        factors = dict(items)
        part, first = split(inner)[1][0]
        times, rest = divmod(wrapped(factors.get(part, 0), term.width), wrapped(first, term.width))
        full = of_total(0, (1 << term.width) - 1, term.width)
        if not times or rest:
            return full
        others = dict(split(self._terms.sub(term, self._terms.scale(inner, times)))[1])
        if any(t in others for t, _ in split(inner)[1]):
            return full
        shares = [self._share(t, f) for t, f in others.items()]
        ends = [times * end for end in nearest(self._of(inner))]
        shares.append((min(ends), max(ends)))
        low, high = (wrapped(constant, term.width) + sum(e) for e in zip(*shares, strict=True))
        return of_total(low, high, term.width)

    def _share(self, part: Term, factor: int) -> Interval:
        """What a part with its factor adds to a sum."""
        factor = wrapped(factor, part.width)
        low, high = nearest(self._of(part))
        return (factor * low, factor * high) if factor >= 0 else (factor * high, factor * low)

    def _computed(self, term: Term) -> NumberRange:
        """The range of a value by those of its arguments."""
        width = term.width
        args = [self._memo[arg] for arg in term.args]
        match term.kind:
            case op.CONST:
                return of_total(term.value, term.value, width)
            case op.SUM:
                return self._sum(term)
            case op.MUL:
                return _product(args, width)
            case op.ZEXT | op.SEXT:
                return of_total(*args[0].read(term.kind is op.SEXT), width)
            case op.EXTRACT:
                low, high = nearest(args[0]) if term.value == 0 else args[0].unsigned
                return of_total(low >> term.value, high >> term.value, width)
            case op.CONCAT:
                above, below = args[0].unsigned, args[1].unsigned
                first, last = (
                    x << term.args[1].width | y for x, y in zip(above, below, strict=True)
                )
                return of_total(first, last, width)
            case op.ITE:
                return self._chosen(term, args[1], args[2])
            case op.UDIV | op.UREM | op.SDIV | op.SREM:
                return _divided(term, args[0], args[1])
            case op.LSHR | op.ASHR | op.SHL:
                return _shifted(term, args[0], args[1])
            case op.AND:
                most = min(args[0].unsigned[1], args[1].unsigned[1], ones(term))
                return of_unsigned((0, most), width)
            case op.OR:
                least = max(args[0].unsigned[0], args[1].unsigned[0])
                return of_unsigned((least, ones(term)), width).meet(_filled(args, width))
            case op.XOR:
                return _by_bits(term).met(_filled(args, width))
            case _ if term.kind in op.OPAQUE:
                limits = self._limits(term)
                return _by_bits(term) if limits is None else of_unsigned(limits, width)
        return _by_bits(term)

    def _sum(self, term: Term) -> NumberRange:
        constant, items = split(term)
        shares = {part: self._share(part, factor) for part, factor in items}
        for part, factor in items:
            whole = _low_bits_of(part)
            other = next((f for t, f in items if t is whole), None)
            if whole is not None and other is not None:
                shares[part] = self._with_low_bits(whole, other, part, factor)
                shares[whole] = 0, 0
                break
        ends = zip(*shares.values(), strict=True)
        low, high = (wrapped(constant, term.width) + sum(e) for e in ends)
        return of_total(low, high, term.width).met(_by_bits(term))

    def _with_low_bits(self, whole: Term, times: int, low: Term, factor: int) -> Interval:
        """What a value and its low bits add to a sum, as in `8·tid - 4·(tid & 31)`."""
        width, bits = whole.width, low.args[0].width
        times, factor = wrapped(times, width), wrapped(factor, width)
        first, last = self._of(whole).unsigned
        above = [times * (end >> bits << bits) for end in (first, last)]
        below = 0, (times + factor) * min(last, (1 << bits) - 1)
        return min(above) + min(below), max(above) + max(below)

    def _chosen(self, term: Term, yes: NumberRange, no: NumberRange) -> NumberRange:
        """A choice, by a comparison of what is chosen: `min(i, n - 1)`."""
        condition, a, b = term.args
        if condition.kind is op.CONST:
            return yes if condition.value else no
        first = self._under(condition, a, yes)
        return first.joined(self._under(self._terms.not_(condition), b, no))

    def _under(self, condition: Term, arm: Term, both: NumberRange) -> NumberRange:
        for one in comparisons((condition,), self._terms):
            if one.a.width != arm.width or op.CONST is arm.kind:
                continue
            ends = full(arm.width, signed=one.signed)
            if one.a is arm and one.b in self._memo:
                ends = ends[0], self._memo[one.b].read(one.signed)[1] - one.strict
            elif one.b is arm and one.a in self._memo:
                ends = self._memo[one.a].read(one.signed)[0] + one.strict, ends[1]
            both = both.met((of_signed if one.signed else of_unsigned)(ends, arm.width))
        return both


# ---------------------------------------------------------------- operations


def _by_bits(term: Term) -> NumberRange:
    return of_total(0, ones(term), term.width)


def _filled(args: Sequence[NumberRange], width: int) -> NumberRange:
    """Of a bitwise `or` or `xor`: no bit is set above those of both sides."""
    most = max(both.unsigned[1] for both in args)
    return of_total(0, (1 << most.bit_length()) - 1, width)


def _shared(items: Sequence[tuple[Term, int]], width: int) -> int:
    return gcd(*(wrapped(factor, width) for _, factor in items))


def _low_bits_of(part: Term) -> Term | None:
    """The value of which a summand is the low bits."""
    if part.kind is op.ZEXT and part.args[0].kind is op.EXTRACT:
        bits = part.args[0]
        if bits.value == 0 and bits.args[0].width == part.width:
            return bits.args[0]
    return None


def _product(args: Sequence[NumberRange], width: int) -> NumberRange:
    low, high = 1, 1
    for both in args:
        a, b = nearest(both)
        ends = low * a, low * b, high * a, high * b
        low, high = min(ends), max(ends)
    return of_total(low, high, width)


def _divided(term: Term, a: NumberRange, b: NumberRange) -> NumberRange:
    """Quotients and remainders of numbers that are not negative, by what is not 0."""
    signed = term.kind in (op.SDIV, op.SREM)
    (low, high), (least, most) = a.read(signed), b.read(signed)
    full = _by_bits(term)
    if least <= 0:  # what is divided by 0 is anything (manual 9.7.1.9)
        return full
    if low < 0:
        if term.kind is op.SREM:
            return of_total(max(low, 1 - most), max(0, min(high, most - 1)), term.width)
        return of_total(-(-low // least), max(high, 0) // least, term.width)
    if term.kind in (op.UREM, op.SREM):
        whole = (low, high) if high < least else (0, min(high, most - 1))
        return of_total(*whole, term.width)
    return of_total(low // most, high // least, term.width)


def _shifted(term: Term, a: NumberRange, by: NumberRange) -> NumberRange:
    """A shift: by more than the width it leaves 0, or the sign (manual 9.7.8.7)."""
    width, (few, many) = term.width, by.unsigned
    if term.kind is op.SHL:
        low, high = a.unsigned
        return of_total(low << few, high << many, width) if many < width else _by_bits(term)
    low, high = a.read(term.kind is op.ASHR)
    few, many = min(few, width), min(many, width)
    return of_total(min(low >> few, low >> many), max(high >> few, high >> many), width)
