"""Bit-vector terms, normal by construction: sums and products, bits, fields, and choices.

Sums are `const + Σ coefficient·atom` modulo 2^width with sorted atoms and products are multiplied
out, so the difference of two addresses is one subtraction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ptxsw.terms import op
from ptxsw.terms.node import (
    Field,
    Term,
    bottom_up,
    factors,
    field_parts,
    ones,
    positive,
    signed,
    split,
    terms_above,
    truncated,
)
from ptxsw.terms.table import TermTable

# Beyond these the normal form costs more than it tells: the product stays one opaque atom.
_MAX_PRODUCTS = 64
_MAX_DEGREE = 6
_CONTRARY = {op.ULT: op.ULE, op.ULE: op.ULT, op.SLT: op.SLE, op.SLE: op.SLT}  # of the sides in turn


class BitVectors(TermTable):
    """A table of terms and what makes bit vectors of them. All widths are in bits."""

    def __init__(self) -> None:
        super().__init__()
        self._fields: dict[Field, Term] = {}

    # ------------------------------------------------------------ sums and products

    def sum(self, width: int, constant: int, items: Iterable[tuple[Term, int]]) -> Term:
        """`constant + Σ coefficient·atom` over atoms that are neither sums nor constants."""
        mask = (1 << width) - 1
        linear: dict[Term, int] = {}
        for term, coefficient in items:
            linear[term] = linear.get(term, 0) + coefficient
        return self._linear(width, constant, linear, mask)

    def _linear(self, width: int, constant: int, linear: dict[Term, int], mask: int) -> Term:
        constant &= mask
        kept = [(t, left) for t, c in linear.items() if (left := c & mask)]
        if not kept:
            return self.const(constant, width)
        kept.sort(key=_by_id)
        atoms, coefficients = zip(*kept, strict=True)
        return self._of_atoms(width, constant, atoms, coefficients)

    def _of_atoms(
        self, width: int, constant: int, atoms: tuple[Term, ...], coefficients: tuple[int, ...]
    ) -> Term:
        """The same of one atom or several, in their order, none with a coefficient of zero."""
        if constant == 0 and coefficients == (1,):
            return atoms[0]
        return self._node(op.SUM, width, atoms, (constant, coefficients))

    def add(self, a: Term, b: Term) -> Term:
        return self._combine(a, b, 1)

    def sub(self, a: Term, b: Term) -> Term:
        return self._combine(a, b, -1)

    def _combine(self, a: Term, b: Term, sign: int) -> Term:
        width = a.width
        assert width == b.width, (a, b)
        if width == 1:
            return self.xor(a, b)
        if b.kind is op.CONST and b.value == 0:
            return a
        mask = (1 << width) - 1
        if b.kind is op.CONST and a.kind is op.SUM:  # as most: nothing but the constant changes
            constant, coefficients = a.value
            return self._of_atoms(width, constant + sign * b.value & mask, a.args, coefficients)
        constant, items = split(a)
        other, more = split(b)
        linear = dict(items)
        for term, coefficient in more:
            linear[term] = linear.get(term, 0) + sign * coefficient
        return self._linear(width, constant + sign * other, linear, mask)

    def scale(self, a: Term, factor: int) -> Term:
        """`a * factor`."""
        mask = (1 << a.width) - 1
        if factor & mask == 1:
            return a
        constant, items = split(a)
        return self._linear(a.width, constant * factor, {t: c * factor for t, c in items}, mask)

    def neg(self, a: Term) -> Term:
        return self.scale(a, -1)

    def mul(self, a: Term, b: Term) -> Term:
        assert a.width == b.width, (a, b)
        if a.width == 1:
            return self.and_(a, b)
        if a.kind is op.CONST:
            return self.scale(b, a.value)
        if b.kind is op.CONST:
            return self.scale(a, b.value)
        const_a, items_a = split(a)
        const_b, items_b = split(b)
        if len(items_a) * len(items_b) > _MAX_PRODUCTS:
            return self._monomial(a.width, (a, b))
        linear: dict[Term, int] = {}
        for term, coefficient in items_a:
            linear[term] = linear.get(term, 0) + coefficient * const_b
            for other, factor in items_b:
                if len(factors(term)) + len(factors(other)) > _MAX_DEGREE:
                    return self._monomial(a.width, (a, b))
                product = self._monomial(a.width, factors(term) + factors(other))
                linear[product] = linear.get(product, 0) + coefficient * factor
        for other, factor in items_b:
            linear[other] = linear.get(other, 0) + factor * const_a
        return self._linear(a.width, const_a * const_b, linear, (1 << a.width) - 1)

    def _monomial(self, width: int, parts: tuple[Term, ...]) -> Term:
        return self._node(op.MUL, width, tuple(sorted(parts, key=_id)))

    # ------------------------------------------------------------ division

    def udiv(self, a: Term, b: Term) -> Term:
        if b.kind is op.CONST:
            if b.value == 0:
                return self.const(-1, a.width)
            if a.kind is op.CONST:
                return self.const(a.value // b.value, a.width)
            if b.value & (b.value - 1) == 0:
                return self.lshr(a, self.const(b.value.bit_length() - 1, a.width))
        return self._node(op.UDIV, a.width, (a, b))

    def urem(self, a: Term, b: Term) -> Term:
        if b.kind is op.CONST:
            if b.value == 0:
                return a
            if a.kind is op.CONST:
                return self.const(a.value % b.value, a.width)
            if b.value & (b.value - 1) == 0:
                return self.and_(a, self.const(b.value - 1, a.width))
        return self._node(op.UREM, a.width, (a, b))

    def sdiv(self, a: Term, b: Term) -> Term:
        if b.kind is op.CONST and b.value != 0:
            if a.kind is op.CONST:
                return self.const(truncated(signed(a), signed(b))[0], a.width)
            if b.value == 1:
                return a
        if positive(a) and positive(b) and b.kind is op.CONST and b.value != 0:
            return self.udiv(a, b)
        return self._node(op.SDIV, a.width, (a, b))

    def srem(self, a: Term, b: Term) -> Term:
        if b.kind is op.CONST and b.value != 0:
            if a.kind is op.CONST:
                return self.const(truncated(signed(a), signed(b))[1], a.width)
            if b.value == 1:
                return self.const(0, a.width)
        if positive(a) and positive(b):
            return self.urem(a, b)
        return self._node(op.SREM, a.width, (a, b))

    # ------------------------------------------------------------ bitwise

    def and_(self, a: Term, b: Term) -> Term:
        assert a.width == b.width, (a, b)
        if a.kind is op.CONST:
            a, b = b, a
        if a is b:
            return a
        if b.kind is op.CONST:
            return self._and_const(a, b)
        if a.width == 1 and self.not_(a) is b:
            return self.const(0, 1)
        return self._node(op.AND, a.width, (a, b) if a.id < b.id else (b, a))

    def _and_const(self, a: Term, b: Term) -> Term:
        mask, width = b.value & ones(a), a.width
        if mask == 0:
            return self.const(0, width)
        if a.kind is op.CONST:
            return self.const(a.value & mask, width)
        if mask == ones(a):
            return a
        low = (mask & -mask).bit_length() - 1
        run = mask >> low
        if run & (run + 1) == 0:  # the ones lie side by side: a field of `a`
            field = self.zext(self.extract(a, low, run.bit_length()), width)
            return self.scale(field, 1 << low)
        return self._node(op.AND, width, (a, self.const(mask, width)))

    def or_(self, a: Term, b: Term) -> Term:
        assert a.width == b.width, (a, b)
        full = (1 << a.width) - 1
        if a is b:
            return a
        for x, y in ((a, b), (b, a)):
            if x.kind is op.CONST and x.value in (0, full):
                return y if x.value == 0 else x
        if a.width == 1:
            if self.not_(a) is b:
                return self.const(1, 1)
        elif ones(a) & ones(b) == 0:  # no bit set in both: nothing carries
            return self.add(a, b)
        if a.kind is op.CONST and b.kind is op.CONST:
            return self.const(a.value | b.value, a.width)
        return self._node(op.OR, a.width, (a, b) if a.id < b.id else (b, a))

    def xor(self, a: Term, b: Term) -> Term:
        assert a.width == b.width, (a, b)
        full = (1 << a.width) - 1
        if a is b:
            return self.const(0, a.width)
        for x, y in ((a, b), (b, a)):
            if x.kind is op.CONST and x.value in (0, full):
                return y if x.value == 0 else self.not_(y)
        if a.kind is op.CONST and b.kind is op.CONST:
            return self.const(a.value ^ b.value, a.width)
        if a.width > 1 and ones(a) & ones(b) == 0:
            return self.add(a, b)
        return self._node(op.XOR, a.width, (a, b) if a.id < b.id else (b, a))

    def not_(self, a: Term) -> Term:
        if a.width > 1:
            return self.sub(self.const(-1, a.width), a)
        if a.kind is op.CONST:
            return self.const(1 - a.value, 1)
        if a.kind is op.NOT:
            return a.args[0]
        flip = _CONTRARY.get(a.kind)
        if flip is not None:
            return self._node(flip, 1, (a.args[1], a.args[0]))
        return self._node(op.NOT, 1, (a,))

    # ------------------------------------------------------------ shifts

    def shl(self, a: Term, b: Term) -> Term:
        if b.kind is op.CONST:
            return self.scale(a, 1 << b.value) if b.value < a.width else self.const(0, a.width)
        return self._node(op.SHL, a.width, (a, b))

    def lshr(self, a: Term, b: Term) -> Term:
        if b.kind is op.CONST:
            if b.value >= a.width:
                return self.const(0, a.width)
            return self.zext(self.extract(a, b.value, a.width - b.value), a.width)
        return self._node(op.LSHR, a.width, (a, b))

    def ashr(self, a: Term, b: Term) -> Term:
        if b.kind is op.CONST:
            by = min(b.value, a.width - 1)
            return self.sext(self.extract(a, by, a.width - by), a.width)
        return self._node(op.ASHR, a.width, (a, b))

    # ------------------------------------------------------------ widths

    def extract(self, a: Term, low: int, width: int) -> Term:
        assert low >= 0 and width > 0 and low + width <= a.width, (a, low, width)
        if width == a.width:
            return a
        wanted = (a, low, width)
        bits = self._fields.get(wanted)
        if bits is None:
            for field in bottom_up(self._fields, field_parts, wanted):
                self._fields[field] = self._field(*field)
            bits = self._fields[wanted]
        return bits

    def _field(self, a: Term, low: int, width: int) -> Term:
        """Bits of a term, of which the fields that they are made of are known."""
        if width == a.width:
            return a
        fields = [self._fields[part] for part in field_parts((a, low, width))]
        match a.kind:
            case op.CONST:
                return self.const(a.value >> low, width)
            case op.SUM if fields:
                return self._field_of_sum(a, fields, low, width)
            case op.MUL if fields:
                product = self.const(1, width)
                for factor in fields:
                    product = self.mul(product, factor)
                return product
            case op.AND | op.OR | op.XOR:
                x, y = fields
                return {"and": self.and_, "or": self.or_, "xor": self.xor}[a.kind](x, y)
            case op.ZEXT if not fields:
                return self.const(0, width)
            case op.ZEXT | op.SEXT:
                extend = self.zext if a.kind is op.ZEXT else self.sext
                return extend(fields[0], width)
            case op.ITE:
                return self.ite(a.args[0], *fields)
            case op.EXTRACT | op.CONCAT if fields:
                return fields[0]
        return self._node(op.EXTRACT, width, (a,), low)

    def _field_of_sum(self, a: Term, fields: Sequence[Term], low: int, width: int) -> Term:
        total = self.const(a.value[0] >> low, width)
        above = terms_above(a, low)
        assert above is not None, (a, low)
        for field, (_, coefficient) in zip(fields, above, strict=True):
            part = self.scale(field, coefficient >> low)
            total = self.add(total, part) if width > 1 else self.xor(total, part)
        return total

    def concat(self, high: Term, low: Term) -> Term:
        width = high.width + low.width
        if high.kind is op.CONST:
            if low.kind is op.CONST:
                return self.const(high.value << low.width | low.value, width)
            if high.value == 0:
                return self.zext(low, width)
        if high.kind is op.EXTRACT:
            whole, at = high.args[0], high.value - low.width
            if at >= 0 and self.extract(whole, at, low.width) is low:
                return self.extract(whole, at, width)
        return self._node(op.CONCAT, width, (high, low))

    def zext(self, a: Term, width: int) -> Term:
        if width == a.width:
            return a
        if a.kind is op.CONST:
            return self.const(a.value, width)
        if a.kind is op.ZEXT:
            return self.zext(a.args[0], width)
        if a.kind is op.ITE and all(arm.kind is op.CONST for arm in a.args[1:]):
            c, yes, no = a.args
            return self.ite(c, self.zext(yes, width), self.zext(no, width))
        return self._node(op.ZEXT, width, (a,))

    def sext(self, a: Term, width: int) -> Term:
        if width == a.width:
            return a
        if a.kind is op.CONST:
            return self.const(signed(a), width)
        if a.kind is op.SEXT:
            return self.sext(a.args[0], width)
        if positive(a):
            return self.zext(a, width)
        if a.kind is op.ITE and all(arm.kind is op.CONST for arm in a.args[1:]):
            c, yes, no = a.args
            return self.ite(c, self.sext(yes, width), self.sext(no, width))
        return self._node(op.SEXT, width, (a,))

    # ------------------------------------------------------------ selection

    def ite(self, condition: Term, yes: Term, no: Term) -> Term:
        assert yes.width == no.width and condition.width == 1, (condition, yes, no)
        if condition.kind is op.CONST:
            return yes if condition.value else no
        if yes is no:
            return yes
        if condition.kind is op.NOT:
            condition, yes, no = condition.args[0], no, yes
        if condition.kind in op.STRICT and {yes, no} == {*condition.args}:
            # The lesser or greater of two: `b < a ? b : a` is `a < b ? a : b`.
            a, b = condition.args
            if b.id < a.id:
                condition, yes, no = self._node(condition.kind, 1, (b, a)), no, yes
        yes, no = self._chosen(yes, condition, 1), self._chosen(no, condition, 2)
        if yes.width == 1 and yes.kind is op.CONST and no.kind is op.CONST:
            return condition if yes.value else self.not_(condition)
        return no if yes is no else self._node(op.ITE, yes.width, (condition, yes, no))

    def _chosen(self, side: Term, condition: Term, at: int) -> Term:
        """One side of a choice; where that makes the same choice again, or extends what does, the
        argument `at` of it."""
        if side.kind is op.ITE and side.args[0] is condition:
            return side.args[at]
        inner = side.args[0] if side.kind in op.EXTENSIONS else side
        if inner is side or inner.kind is not op.ITE or inner.args[0] is not condition:
            return side
        extend = self.zext if side.kind is op.ZEXT else self.sext
        return extend(inner.args[at], side.width)


def _id(term: Term) -> int:
    return term.id


def _by_id(item: tuple[Term, int]) -> int:
    return item[0].id
