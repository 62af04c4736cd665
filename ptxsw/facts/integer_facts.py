"""Values as whole numbers, where sums are known not to wrap.

`zext(i + n)` is `zext(i) + zext(n)` where that is below 2^32. Whether it is, is read off what is
known: ranges (`i <= 1000`), and inequalities between sums and products of 64 bits, such as

    zext(i) + zext(left)·zext(n) <= 2^30

which a loop keeps true in which `i` grows by `n` while `left` falls by 1: there `left` is at least
1, so `zext(i) + zext(n)` is at most 2^30, too, and the left side is the same number an iteration
later.

All values are read as polynomials over whole numbers. A polynomial is at most 0 if what it exceeds
another by, known to be at most 0, is at most 0 whatever its atoms are in their ranges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import gcd

from ptxsw.facts.conditions import Inequality, comparisons
from ptxsw.ptx.bits import wrapped
from ptxsw.terms import op
from ptxsw.terms.node import Term, ones, split, walk
from ptxsw.terms.polynomial import Polynomial
from ptxsw.terms.readings import modulo
from ptxsw.terms.substitution import rebuild
from ptxsw.terms.terms import Terms

_MAX_SIZE = 400  # nodes of what is read
_MAX_UNITS = 48
_MOST_TIMES = 16

Ask = Callable[[Term], bool]
Range = tuple[int, int]
Parts = tuple[tuple[Term, int], ...]


def _are_sums(one: Inequality) -> bool:
    return one.a.width == 32 and op.CONST not in (one.a.kind, one.b.kind)


def _is_distance(one: Inequality) -> bool:
    """Does it say that a number of bytes is at least another one?"""
    return one.a.width == 64 and not one.signed and not one.strict


class Numbers:
    """What is known where conditions hold. `ask` proves small conditions from them in another
    way."""

    def __init__(self, terms: Terms, given: Sequence[Term], ask: Ask) -> None:
        self._terms, self._ask = terms, ask
        self._given = frozenset(given)
        self._ranges: dict[Term, Range] = {}  # of 32-bit sums without a constant, signed
        self._units: dict[Term, None] = {}
        self._read: dict[tuple[Term, bool, bool], Polynomial | None] = {}
        self._unsigned_first = False  # of two ways to read a sum
        self._asked: dict[Term, bool] = {}
        self._own: frozenset[Term] = frozenset()
        self._facts: list[Polynomial] = []
        compared = list(comparisons((c for c in given if c.size <= _MAX_SIZE), terms))
        self._nonzero = frozenset(
            difference
            for one in compared
            if one.strict and one.a.width == 32
            for difference in (terms.sub(one.a, one.b), terms.sub(one.b, one.a))
        )
        # Twice, since an unsigned `a >= 8` bounds `a` as a signed number only once `a` is known not
        # to be negative, which another condition may say.
        for _ in range(2):
            for one in compared:
                if one.a.width == 32:
                    self._bound(one.a, one.b, one.strict, one.signed)
        sums = [one for one in compared if one.a.width == 64 or _are_sums(one)]
        for one in sums:
            self._note_units(one.a, one.b)
        self._own = frozenset(self._units)  # of what is known, rather than of what is asked
        for one in sums:
            excess = self._excess(one.a, one.b, one.strict, one.signed)
            if excess is not None:
                self._facts.append(excess)
        self._beyond = [(one.a, one.b) for one in sums if _is_distance(one)]
        self._read.clear()

    # ------------------------------------------------------------ questions

    @property
    def tells_nothing(self) -> bool:
        return not self._facts and not self._ranges

    def holds(self, claim: Term) -> bool:
        """Is an inequality shown to hold?"""
        compared = list(comparisons([claim], self._terms))
        if len(compared) != 1 or claim.kind is op.EQ or compared[0].a.width not in (32, 64):
            return False
        one = compared[0]
        if max(one.a.size, one.b.size) > _MAX_SIZE:
            return False
        self._note_units(one.a, one.b)
        for self._unsigned_first in (True, False):
            excess = self._excess(one.a, one.b, one.strict, one.signed)
            if excess is not None and self._at_most_0(excess):
                return True
        return _is_distance(one) and any(self._follows(one, *fact) for fact in self._beyond)

    def _follows(self, one: Inequality, least: Term, distance: Term) -> bool:
        """Does `a <= b` follow from a distance that is at least a number? Distances are modulo
        2^64. One that falls by no more than that number falls by it outright."""
        # `distance >= least` is known, `b >= a` is asked, and b = distance + change modulo 2^64.
        # With -least <= change <= 0 nothing wraps, so b >= least + change, which is at least `a`.
        change = self._modulo(self._terms.sub(one.b, distance))
        before, after = self._number(least, False), self._number(one.a, False)
        if before is None or after is None:
            return False
        needed = change, (before + change) * -1, after - before - change
        return all(map(self._at_most_0, needed))

    def written_out(self, value: Term) -> Term:
        """An equal value, in which indices that do not wrap are sums of extended units. Values
        that are equal mostly become one term."""
        small = value.width == 64 and value.size <= _MAX_SIZE
        return self._term(self._modulo(value)) if small else value

    def _term(self, value: Polynomial) -> Term:
        """A polynomial as a value of 64 bits."""
        terms = self._terms
        total = terms.const(0, 64)
        for monomial, factor in value:
            product = terms.const(factor, 64)
            for atom in monomial:
                product = terms.mul(product, atom)
            total = terms.add(total, product)
        return total

    # ------------------------------------------------------------ what is known

    def _bound(self, a: Term, b: Term, strict: bool, signed: bool) -> None:
        """Note the range of a sum that is compared with a number."""
        least, most = -(1 << 31), (1 << 31) - 1
        if b.kind is op.CONST and a.kind is not op.CONST:
            limit = (wrapped(b.value, 32) if signed else int(b.value)) - strict
            constant, items = split(a)
            shift = wrapped(constant, 32)
            if not signed:
                self._narrow(self._unit(items), -shift, limit - shift)
            else:
                self._narrow(a, least, limit)
        elif a.kind is op.CONST and b.kind is not op.CONST and (signed or self._range(b)[0] >= 0):
            self._narrow(b, wrapped(a.value, 32) + strict, most)

    def _narrow(self, unit: Term, low: int, high: int) -> None:
        if low < -(1 << 31) or high >= 1 << 31:
            return  # it says nothing of the value as a signed number
        before = self._range(unit)
        self._ranges[unit] = max(low, before[0]), min(high, before[1])
        self._units[unit] = None

    def _range(self, unit: Term) -> Range:
        """The range of a sum as a signed number."""
        most = ones(unit)
        plain = (0, most) if most >> 31 == 0 else (-(1 << 31), (1 << 31) - 1)
        return self._ranges.get(unit, plain)

    def _is_known(self, unit: Term) -> bool:
        """Is there a range of it?"""
        return unit in self._ranges or ones(unit) >> 31 == 0

    def _note_units(self, *values: Term) -> None:
        """The extended indices in some values: what others may be written with."""
        before = len(self._units)
        for node in walk(*values):
            if node.kind in op.EXTENSIONS and node.args[0].width == 32:
                items = split(node.args[0])[1]
                if items and len(self._units) < _MAX_UNITS:
                    self._units[node.args[0]] = None
        if len(self._units) > before:
            self._read.clear()

    def _unit(self, items: Iterable[tuple[Term, int]]) -> Term:
        return self._terms.sum(32, 0, items)

    # ------------------------------------------------------------ reading

    def _excess(self, a: Term, b: Term, strict: bool, signed: bool) -> Polynomial | None:
        """What has to be at most 0 for `a <= b`, or `a < b`."""
        low, high = self._number(a, signed), self._number(b, signed)
        return None if low is None or high is None else low - high + int(strict)

    def _number(self, term: Term, signed: bool) -> Polynomial | None:
        """A value as a number of its width; None where it may wrap."""
        if term.width == 32:
            return self._index(term, signed)
        value = self._modulo(term)
        top = 1 << term.width - signed
        least = -top if signed else 0
        fits = self._at_most_0(value * -1 + least) and self._at_most_0(value - (top - 1))
        return value if fits else None

    def _modulo(self, term: Term) -> Polynomial:
        """A polynomial equal to a value modulo 2^64."""
        arithmetic = modulo(term, self._modulo)
        if arithmetic is not None:
            return arithmetic
        index = None
        if term.kind in op.EXTENSIONS and term.args[0].width == 32:
            index = self._index(term.args[0], term.kind is op.SEXT)
        elif term.kind is op.APPLY and term.args and term.args[0].width == 64:
            # What was loaded from one address may have been loaded in two forms of it.
            place, *others = term.args
            term = rebuild(self._terms, term, (self.written_out(place), *others))
        return Polynomial.atom(term) if index is None else index

    def _index(self, index: Term, signed: bool) -> Polynomial | None:
        """A 32-bit sum as a number, written with units; None where it may wrap."""
        key = (index, signed, self._unsigned_first)
        if key not in self._read:
            self._read[key] = None  # an index that is asked for itself tells nothing of itself
            self._read[key] = next(
                (
                    value
                    for parts, shift in self._written(index)
                    for value in self._totals(parts, shift, signed)
                    if self._fits(value, parts, shift, signed)
                ),
                None,
            )
        return self._read[key]

    def _written(self, index: Term) -> Iterator[tuple[Parts, int]]:
        """A sum as units with factors, and a number: what is known of it first."""
        constant, items = split(index)
        whole, shift = self._unit(items), wrapped(constant, 32)
        if not items:
            yield (), shift
            return
        if all(self._is_known(part) for part, _ in items):
            yield self._by_items(items), shift
        if self._is_known(whole):
            yield ((whole, 1),), shift
        for unit in [u for u in self._ranges if u.kind is op.SUM and u is not whole]:
            number, others = split(self._terms.sub(index, unit))
            if len(others) < len(items):
                yield ((unit, 1), *self._by_items(others)), wrapped(number, 32)
        if index in self._own:
            yield ((index, 1),), 0
        for unit in list(self._units):
            rest = self._terms.sub(index, unit)
            if rest.kind is op.CONST:
                yield ((unit, 1),), wrapped(rest.value, 32)
                continue
            for other, times, more in self._multiples(rest):
                yield ((unit, 1), (other, times)), more
            number, others = split(rest)
            if len(others) > 1 and all(part in self._units for part, _ in others):
                yield ((unit, 1), *self._by_items(others)), wrapped(number, 32)
        yield ((whole, 1),), shift
        yield ((index, 1),), 0

    def _by_items(self, items: Iterable[tuple[Term, int]]) -> Parts:
        return tuple((part, wrapped(factor, 32)) for part, factor in items)

    def _multiples(self, rest: Term) -> Iterator[tuple[Term, int, int]]:
        """Units of which a sum is a multiple, and what remains."""
        constant, items = split(rest)
        shift, rest = wrapped(constant, 32), self._unit(items)
        if rest in self._units:
            yield rest, 1, shift
        for other in list(self._units):
            if other is rest or len(split(other)[1]) != len(items):
                continue
            for times in (-1, *range(2, _MOST_TIMES + 1)):
                if self._terms.scale(other, times) is rest:
                    yield other, times, shift
                    break

    def _totals(self, parts: Parts, shift: int, signed: bool) -> Iterator[Polynomial]:
        """A sum of units as numbers: by what is known of their signs, and as if none had one."""
        for plain in (self._unsigned_first, not self._unsigned_first):
            total = Polynomial.constant(shift)
            for unit, times in parts:
                atom = self._terms.zext(unit, 64) if plain else self._atom(unit, signed)
                total += Polynomial.atom(atom) * times
            yield total

    def _atom(self, unit: Term, signed: bool) -> Term:
        """The number that a unit is: extended by its sign where that may be negative."""
        negative = self._range(unit)[0] < 0 and (signed or self._is_known(unit))
        return (self._terms.sext if negative else self._terms.zext)(unit, 64)

    def _fits(self, value: Polynomial, parts: Parts, shift: int, signed: bool) -> bool:
        """Is a sum of units within the numbers that 32 bits hold?"""
        top = 1 << 32 - signed
        plain = not signed and all(atom.kind is op.ZEXT for atom in value.atoms)
        return all(
            self._at_most_0(excess) or (asks and self._asks(parts, shift))
            for excess, asks in (
                (value - (top - 1), False),
                (value * -1 + (-top if signed else 0), plain),
            )
        )

    def _asks(self, parts: Parts, shift: int) -> bool:
        """Ask whether a sum of units that are no negative numbers is none either."""
        terms = self._terms
        total = terms.const(shift, 64)
        for unit, times in parts:
            total = terms.add(total, terms.scale(terms.zext(unit, 64), times))
        claim = terms.sle(terms.const(0, 64), total)
        if claim not in self._asked:
            self._asked[claim] = self._ask(claim)
        return self._asked[claim]

    # ------------------------------------------------------------ comparing

    def _at_most_0(self, value: Polynomial) -> bool:
        if value.span(self._limits)[1] <= 0:
            return True
        # Every fact is at most 0: if value - fact is so, too, then so is the value.
        rests = [value, *(value - fact for fact in self._facts)]
        return any(r.span(self._limits)[1] <= 0 for r in rests) or any(map(self._falls, rests))

    def _falls(self, value: Polynomial) -> bool:
        """Is a polynomial at most 0, since a part of it is that can be asked for: `n` times
        `4 - left`, or `step - left`, or a multiple of that?"""
        if not value.is_whole or not value.items:
            return False
        # Divided by what all factors share, so that `8·n - 4·left` is asked as `2·n - left`. A
        # negative constant is left out: what remains is larger, and still has to be at most 0.
        value /= gcd(*value.coefficients.values())
        if self._is_order(value + max(-value.offset, 0)):
            return True
        for atom in value.atoms:
            parted = value.parted(atom)
            if parted is None or self._limits(atom)[0] < 0 or parted[1].span(self._limits)[1] > 0:
                continue
            if self._is_order(parted[0]):
                return True
        return False

    def _is_order(self, value: Polynomial) -> bool:
        """Is a difference of two small numbers at most 0, by what can be asked?"""
        falling = [(monomial, -factor) for monomial, factor in value if factor < 0]
        if len(value.items) != 2 or len(falling) != 1 or falling[0][0] == ():
            return False
        if any(len(m) > 1 or any(a.kind is not op.ZEXT for a in m) for m, _ in value):
            return False
        low, high = value.span(self._limits)
        if low < -(1 << 63) or high >= 1 << 63:
            return False  # as a value of 64 bits it may be another number
        ((atom,), factor), *_ = falling
        if self._is_a_multiple(atom.args[0], -(-value.offset // factor)):
            return True
        claim = self._terms.sle(self._term(value), self._terms.const(0, 64))
        if claim not in self._asked:
            self._asked[claim] = self._ask(claim)
        return self._asked[claim]

    def _is_a_multiple(self, index: Term, least: int) -> bool:
        """Is a value at least a number, since it is not 0 and a multiple of a power of two?"""
        terms, bits = self._terms, (least - 1).bit_length()
        if least < 1 or bits >= index.width:
            return False
        nonzero = terms.not_(terms.eq(index, terms.const(0, index.width)))
        is_nonzero = index in self._nonzero or nonzero in self._given
        if not bits or not is_nonzero:
            return is_nonzero
        whole = terms.eq(terms.extract(index, 0, bits), terms.const(0, bits))
        return whole in self._given or (whole.kind is op.CONST and bool(whole.value))

    def _limits(self, atom: Term) -> Range:
        if atom.kind not in op.EXTENSIONS:
            return 0, ones(atom)
        (unit,) = atom.args
        low, high = self._range(unit) if unit.width == 32 else (0, ones(unit))
        return (low, high) if atom.kind is op.SEXT or low >= 0 else (0, ones(unit))
