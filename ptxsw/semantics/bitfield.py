"""Counting, finding and moving bits: PTX ISA 9.0, the second half of section 9.7.1."""

from __future__ import annotations

from ptxsw.semantics.algebra import Algebra
from ptxsw.semantics.integer import extend
from ptxsw.semantics.registry import AS_IS, Meaning, Modifiers, V, semantics

FIELDS = ("u32", "s32", "u64", "s64")


def ones_below(g: Algebra[V], count: V) -> V:
    """The lowest `count` bits set; all of them from the width on."""
    # A shift by the width or more gives 0, and 0 - 1 is all ones.
    one = g.const(1, g.width(count))
    return g.sub(g.shl(one, count), one)


def _population(g: Algebra[V], a: V, width: int) -> V:
    """Bits set in `a`, as 32 bits: pairs, nibbles and bytes are added side by side."""

    def repeat(byte: int) -> V:
        return g.const(int.from_bytes(bytes([byte]) * (width // 8), "little"), width)

    def right(value: V, amount: int) -> V:
        return g.lshr(value, g.const(amount, width))

    a = g.sub(a, g.and_(right(a, 1), repeat(0x55)))
    a = g.add(g.and_(a, repeat(0x33)), g.and_(right(a, 2), repeat(0x33)))
    a = g.and_(g.add(a, right(a, 4)), repeat(0x0F))
    # Times 0x0101…: the highest byte of the product is the sum of all bytes.
    return g.zext(g.extract(g.mul(a, repeat(1)), width - 8, 8), 32)


def _leading_zeros(g: Algebra[V], a: V, width: int) -> V:
    """Zeros above the highest bit set, as 32 bits: halve the field looked at."""
    zero, count = g.const(0, width), g.const(0, 32)
    none = g.eq(a, zero)
    # If the upper `step` bits are empty, count them and move the lower ones up.
    step = width // 2
    while step:
        empty = g.eq(g.lshr(a, g.const(width - step, width)), zero)
        a = g.ite(empty, g.shl(a, g.const(step, width)), a)
        count = g.add(count, g.ite(empty, g.const(step, 32), g.const(0, 32)))
        step //= 2
    return g.ite(none, g.const(width, 32), count)


@semantics("popc", "9.7.1.14")
def popc(m: Modifiers) -> Meaning:
    """d.u32 = the number of bits set in a."""
    width = m.type("b32", "b64").width

    def compute(g: Algebra[V], a: V) -> V:
        return _population(g, a, width)

    return Meaning((width,), (32,), compute)


@semantics("clz", "9.7.1.15")
def clz(m: Modifiers) -> Meaning:
    """d.u32 = the number of zeros above the highest bit set; the width where there is none."""
    width = m.type("b32", "b64").width

    def compute(g: Algebra[V], a: V) -> V:
        return _leading_zeros(g, a, width)

    return Meaning((width,), (32,), compute)


@semantics("bfind", "9.7.1.16")
def bfind(m: Modifiers) -> Meaning:
    """d.u32 = the place of the highest bit that is no copy of the sign, or with `.shiftamt` the
    left shift that brings it to the top; 0xffffffff where there is none."""
    shift = m.flag("shiftamt")
    type_ = m.type(*FIELDS)
    width = type_.width

    def compute(g: Algebra[V], a: V) -> V:
        # In a negative number the highest 0 counts, which is the highest 1 of its complement.
        if type_.signed:
            a = g.ite(g.slt(a, g.const(0, width)), g.not_(a), a)
        zeros = _leading_zeros(g, a, width)
        none = g.eq(a, g.const(0, width))
        position = zeros if shift else g.sub(g.const(width - 1, 32), zeros)
        return g.ite(none, g.const(0xFFFFFFFF, 32), position)

    return Meaning((width,), (32,), compute)


@semantics("fns", "9.7.1.17")
def fns(m: Modifiers) -> Meaning:
    """d = the place of the n-th bit set in a from `base` upward (n > 0), downward (n < 0), or the
    base itself (n = 0); 0xffffffff where there is none."""
    m.type("b32")

    def compute(g: Algebra[V], mask: V, base: V, offset: V) -> V:
        zero, one = g.const(0, 32), g.const(1, 32)
        places = [g.const(place, 32) for place in range(32)]
        bits = [g.extract(mask, place, 1) for place in range(32)]
        result = g.const(0xFFFFFFFF, 32)
        inside = g.ult(base, g.const(32, 32))
        for ascending in (True, False):
            wanted = offset if ascending else g.sub(zero, offset)
            count = zero
            for place in range(32) if ascending else reversed(range(32)):
                here = places[place]
                beyond = g.ule(base, here) if ascending else g.ule(here, base)
                counted = g.and_(bits[place], beyond)
                count = g.add(count, g.zext(counted, 32))
                hit = g.and_(g.and_(counted, g.eq(count, wanted)), g.slt(zero, wanted))
                result = g.ite(g.and_(hit, inside), here, result)
        at_base = g.eq(g.and_(g.lshr(mask, base), one), one)
        itself = g.ite(g.and_(at_base, inside), base, result)
        return g.ite(g.eq(offset, zero), itself, result)

    return Meaning((32, 32, 32), (32,), compute)


@semantics("brev", "9.7.1.18")
def brev(m: Modifiers) -> Meaning:
    """d = a with its bits in reverse order: ever larger neighbours change places."""
    width = m.type("b32", "b64").width

    def compute(g: Algebra[V], a: V) -> V:
        size = 1
        while size < width:
            block = ((1 << size) - 1) << size
            high = sum(block << place for place in range(0, width, 2 * size))
            amount = g.const(size, width)
            upper = g.lshr(g.and_(a, g.const(high, width)), amount)
            lower = g.and_(g.shl(a, amount), g.const(high, width))
            a = g.or_(upper, lower)
            size *= 2
        return a

    return Meaning((width,), (width,), compute)


def _literal_field(g: Algebra[V], a: V, position: int, length: int, signed: bool) -> V | None:
    """A field at a known place inside `a`, as an extraction; None at the borders."""
    width = g.width(a)
    if length == 0 or position + length > width:
        return None
    return extend(g, g.extract(a, position, length), width, signed)


def _byte(g: Algebra[V], source: V | int, width: int) -> V:
    """The low eight bits of a 32-bit operand, as `width` bits."""
    if isinstance(source, int):
        return g.const(source & 0xFF, width)
    return g.zext(g.extract(source, 0, 8), width)


@semantics("bfe", "9.7.1.19")
def bfe(m: Modifiers) -> Meaning:
    """d = the field of c bits at bit b of a, extended; what lies above a is a's highest bit if
    signed, else 0."""
    type_ = m.type(*FIELDS)
    width, signed = type_.width, type_.signed

    def compute(g: Algebra[V], a: V, b: V | int, c: V | int) -> V:
        if isinstance(b, int) and isinstance(c, int):
            field = _literal_field(g, a, b & 0xFF, c & 0xFF, signed)
            if field is not None:
                return field
        position, length = _byte(g, b, width), _byte(g, c, width)
        keep = ones_below(g, length)
        if not signed:
            return g.and_(g.lshr(a, position), keep)
        # The manual's sbit: the field's highest bit, or the register's where the field reaches
        # beyond it. All bits of the result above the field are copies of it.
        top = g.const(width - 1, width)
        last = g.sub(g.add(position, length), g.const(1, width))
        last = g.ite(g.ult(top, last), top, last)
        sign = g.sext(g.extract(g.lshr(a, last), 0, 1), width)
        empty = g.eq(length, g.const(0, width))
        filled = g.or_(g.and_(g.ashr(a, position), keep), g.and_(sign, g.not_(keep)))
        return g.ite(empty, g.const(0, width), filled)

    return Meaning((width, AS_IS, AS_IS), (width,), compute)


@semantics("bfi", "9.7.1.20")
def bfi(m: Modifiers) -> Meaning:
    """d = b with its field of `length` bits at `position` replaced by the low bits of a."""
    width = m.type("b32", "b64").width

    def compute(g: Algebra[V], a: V, b: V, c: V | int, d: V | int) -> V:
        position, length = _byte(g, c, width), _byte(g, d, width)
        mask = g.shl(ones_below(g, length), position)
        return g.or_(g.and_(b, g.not_(mask)), g.and_(g.shl(a, position), mask))

    return Meaning((width, width, AS_IS, AS_IS), (width,), compute)


@semantics("szext", "9.7.1.21")
def szext(m: Modifiers) -> Meaning:
    """d = the low b bits of a, extended to 32; from 32 on b counts modulo 32 (`.wrap`) or as 32
    (`.clamp`). No bits: 0."""
    wrap = m.choice("wrap", "clamp") == "wrap"
    signed = m.type("u32", "s32").signed

    def compute(g: Algebra[V], a: V, b: V) -> V:
        most = g.const(32, 32)
        count = g.and_(b, g.const(31, 32)) if wrap else g.ite(g.ult(most, b), most, b)
        # Signed: up to the top of the register and back, which copies the field's highest bit.
        if not signed:
            return g.and_(a, ones_below(g, count))
        spare = g.sub(most, count)
        return g.ashr(g.shl(a, spare), spare)

    return Meaning((32, 32), (32,), compute)


@semantics("bmsk", "9.7.1.22")
def bmsk(m: Modifiers) -> Meaning:
    """d = b ones from bit a upward; a and b count modulo 32 (`.wrap`) or are clamped at 32."""
    wrap = m.choice("wrap", "clamp") == "wrap"
    m.type("b32")

    def compute(g: Algebra[V], a: V, b: V) -> V:
        if wrap:
            low = g.const(31, 32)
            a, b = g.and_(a, low), g.and_(b, low)
        return g.shl(ones_below(g, b), a)

    return Meaning((32, 32), (32,), compute)
