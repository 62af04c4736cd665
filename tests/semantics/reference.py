"""Every form of every integer opcode with its meaning in plain Python integers.

Written from the text of the PTX ISA manual, on purpose in another way than `ptxsw.semantics`:
numbers are unbounded here and signed where the manual says so, bits are lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product

WIDTH = {"8": 8, "16": 16, "32": 32, "64": 64}


@dataclass(frozen=True)
class Form:
    """`reference` takes and gives unsigned integers; the carry comes and goes last."""

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    reference: Callable[..., tuple[int, ...]]
    carry_in: bool = False
    carry_out: bool = False
    literal: int | None = None  # index of a source that must be an integer literal


def width_of(type_: str) -> int:
    return 1 if type_ == "pred" else int(type_[1:].removesuffix("x2")) * (2 if "x2" in type_ else 1)


def number(type_: str, bits: int) -> int:
    """The number that `bits` mean in a type."""
    width = width_of(type_)
    return bits - (1 << width) if type_[0] == "s" and bits >= 1 << (width - 1) else bits


def fit(type_: str, value: int) -> int:
    return value % (1 << width_of(type_))


def saturate(type_: str, value: int) -> int:
    width = width_of(type_)
    half = 1 << (width - 1)
    low, high = (-half, half - 1) if type_[0] == "s" else (0, 2 * half - 1)
    return min(max(value, low), high)


def bits_of(value: int, width: int) -> list[int]:
    return [value >> i & 1 for i in range(width)]


def from_bits(bits: list[int]) -> int:
    return sum(bit << i for i, bit in enumerate(bits))


def numeric(
    name: str, types: tuple[str, ...], to: str, f: Callable[..., int], **more: int | bool
) -> Form:
    """A form whose operands are numbers of `types` and whose result is kept modulo the type."""

    def reference(*bits: int) -> tuple[int, ...]:
        return (fit(to, f(*(number(t, b) for t, b in zip(types, bits, strict=True)))),)

    return Form(name, tuple(map(width_of, types)), (width_of(to),), reference, **more)  # type: ignore[arg-type]


INTEGERS = ("u16", "s16", "u32", "s32", "u64", "s64")
WORDS = ("u32", "s32", "u64", "s64")


def quotient(a: int, b: int) -> int:
    if b == 0:
        return 1 if a < 0 else -1
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def remainder(a: int, b: int) -> int:
    return a if b == 0 else a - b * quotient(a, b)


def double(type_: str) -> str:
    return f"{type_[0]}{2 * width_of(type_)}"


def arithmetic() -> Iterator[Form]:
    for t in INTEGERS:
        w = width_of(t)
        two, three = (t,) * 2, (t,) * 3
        yield numeric(f"add.{t}", two, t, lambda a, b: a + b)
        yield numeric(f"sub.{t}", two, t, lambda a, b: a - b)
        yield numeric(f"mul.lo.{t}", two, t, lambda a, b: a * b)
        yield numeric(f"mul.hi.{t}", two, t, lambda a, b, w=w: a * b >> w)
        yield numeric(f"mad.lo.{t}", three, t, lambda a, b, c: a * b + c)
        yield numeric(f"mad.hi.{t}", three, t, lambda a, b, c, w=w: (a * b >> w) + c)
        yield numeric(f"sad.{t}", three, t, lambda a, b, c: c + abs(a - b))
        yield numeric(f"div.{t}", two, t, quotient)
        yield numeric(f"rem.{t}", two, t, remainder)
        yield numeric(f"min.{t}", two, t, min)
        yield numeric(f"max.{t}", two, t, max)
        if w < 64:
            wide = double(t)
            yield numeric(f"mul.wide.{t}", two, wide, lambda a, b: a * b)
            yield numeric(f"mad.wide.{t}", (t, t, wide), wide, lambda a, b, c: a * b + c)
        if t[0] == "s":
            yield numeric(f"abs.{t}", (t,), t, abs)
            yield numeric(f"neg.{t}", (t,), t, lambda a: -a)
    s = ("s32",) * 2
    yield numeric("add.sat.s32", s, "s32", lambda a, b: saturate("s32", a + b))
    yield numeric("sub.sat.s32", s, "s32", lambda a, b: saturate("s32", a - b))
    yield numeric(
        "mad.hi.sat.s32", ("s32",) * 3, "s32", lambda a, b, c: saturate("s32", (a * b >> 32) + c)
    )
    yield numeric("min.relu.s32", s, "s32", lambda a, b: max(0, min(a, b)))
    yield numeric("max.s32.relu", s, "s32", lambda a, b: max(0, a, b))


def video() -> Iterator[Form]:
    """Scalar video instructions on whole words. A c is added behind the saturation."""
    operations: dict[str, Callable[[int, int], int]] = {
        "vadd": lambda a, b: a + b,
        "vsub": lambda a, b: a - b,
        "vabsdiff": lambda a, b: abs(a - b),
        "vmin": min,
        "vmax": max,
    }
    for (name, f), (to, *types) in product(operations.items(), product(("u32", "s32"), repeat=3)):
        full = ".".join((name, to, *types))
        pair, triple = tuple(types), (*types, to)
        yield numeric(full, pair, to, f)
        yield numeric(f"{full}.sat", pair, to, lambda a, b, f=f, to=to: saturate(to, f(a, b)))
        yield numeric(f"{full}.add", triple, to, lambda a, b, c, f=f: f(a, b) + c)
        yield numeric(
            f"{full}.sat.add", triple, to, lambda a, b, c, f=f, to=to: saturate(to, f(a, b)) + c
        )


def low24(type_: str, value: int) -> int:
    value %= 2**24
    return value - 2**24 if type_ == "s32" and value >= 2**23 else value


def arithmetic24() -> Iterator[Form]:
    for t in ("u32", "s32"):
        for half, shift in (("lo", 0), ("hi", 16)):

            def times(a: int, b: int, t: str = t, shift: int = shift) -> int:
                bits = (low24(t, a) * low24(t, b) >> shift) % 2**32
                return number(t, bits)

            yield numeric(f"mul24.{half}.{t}", (t, t), t, times)
            yield numeric(f"mad24.{half}.{t}", (t, t, t), t, lambda a, b, c, f=times: f(a, b) + c)
            if (t, half) == ("s32", "hi"):
                yield numeric(
                    "mad24.hi.sat.s32",
                    (t, t, t),
                    t,
                    lambda a, b, c, f=times: saturate("s32", f(a, b) + c),
                )


def halves(bits: int) -> tuple[int, int]:
    return bits % 2**16, bits >> 16


def packed() -> Iterator[Form]:
    operations: dict[str, Callable[[int, int], int]] = {
        "add": lambda a, b: a + b,
        "min": min,
        "max": max,
    }
    for name, t, relu in product(operations, ("u16", "s16"), (False, True)):
        if relu and (t == "u16" or name == "add"):
            continue

        def reference(
            a: int, b: int, f: Callable[[int, int], int] = operations[name], t: str = t,
            relu: bool = relu,
        ) -> tuple[int, ...]:  # fmt: skip
            out = []
            for x, y in zip(halves(a), halves(b), strict=True):
                value = f(number(t, x), number(t, y))
                out.append(fit(t, max(0, value) if relu else value))
            return (out[0] + 2**16 * out[1],)

        yield Form(f"{name}.{t}x2{'.relu' * relu}", (32, 32), (32,), reference)


def byte(value: int, index: int, signed: bool) -> int:
    found = value >> 8 * index & 255
    return found - 256 if signed and found > 127 else found


def dot() -> Iterator[Form]:
    for x, y in product(("u32", "s32"), repeat=2):

        def four(a: int, b: int, c: int, x: str = x, y: str = y) -> tuple[int, ...]:
            total = sum(byte(a, i, x[0] == "s") * byte(b, i, y[0] == "s") for i in range(4))
            return ((total + c) % 2**32,)

        yield Form(f"dp4a.{x}.{y}", (32, 32, 32), (32,), four)
        for mode, first in (("lo", 0), ("hi", 2)):

            def two(
                a: int, b: int, c: int, x: str = x, y: str = y, first: int = first
            ) -> tuple[int, ...]:
                total = c
                for i, half in enumerate(halves(a)):
                    left = number("s16" if x[0] == "s" else "u16", half)
                    total += left * byte(b, first + i, y[0] == "s")
                return (total % 2**32,)

            yield Form(f"dp2a.{mode}.{x}.{y}", (32, 32, 32), (32,), two)


def extended() -> Iterator[Form]:
    """The sum in unbounded numbers; the carry is what does not fit. A difference is the sum with
    the complement, as ptxas has it, so that its carry is 0 where it borrows."""
    for t in WORDS:
        w = width_of(t)
        m = 2**w
        for cc in (False, True):
            dot_cc = ".cc" if cc else ""

            def out(total: int, m: int = m, cc: bool = cc) -> tuple[int, ...]:
                return (total % m, *((int(total >= m),) if cc else ()))

            ends = partial(Form, outputs=(w,), carry_out=cc)
            chained = partial(ends, carry_in=True)
            if cc:
                yield ends(f"add.cc.{t}", (w, w), reference=lambda a, b, f=out: f(a + b))
                yield ends(
                    f"sub.cc.{t}", (w, w), reference=lambda a, b, f=out, m=m: f(a + (m - 1 - b) + 1)
                )
            yield chained(
                f"addc{dot_cc}.{t}", (w, w), reference=lambda a, b, c, f=out: f(a + b + c)
            )
            yield chained(
                f"subc{dot_cc}.{t}",
                (w, w),
                reference=lambda a, b, c, f=out, m=m: f(a + (m - 1 - b) + c),
            )
            for half in ("lo", "hi"):

                def term(a: int, b: int, t: str = t, half: str = half, m: int = m) -> int:
                    whole = number(t, a) * number(t, b)
                    return (whole if half == "lo" else whole // m) % m

                if cc:
                    yield ends(
                        f"mad.{half}.cc.{t}",
                        (w, w, w),
                        reference=lambda a, b, c, f=out, g=term: f(g(a, b) + c),
                    )
                yield chained(
                    f"madc.{half}{dot_cc}.{t}",
                    (w, w, w),
                    reference=lambda a, b, c, carry, f=out, g=term: f(g(a, b) + c + carry),
                )


def extract_field(t: str, a: int, b: int, c: int) -> int:
    """The pseudo-code of the manual, bit by bit."""
    w = width_of(t)
    top, position, length = w - 1, b & 0xFF, c & 0xFF
    source = bits_of(a, w)
    fill = 0 if t[0] == "u" or length == 0 else source[min(position + length - 1, top)]
    return from_bits(
        [source[position + i] if i < length and position + i <= top else fill for i in range(w)]
    )


def insert_field(w: int, a: int, b: int, c: int, d: int) -> int:
    position, length = c & 0xFF, d & 0xFF
    result, field = bits_of(b, w), bits_of(a, w)
    for i in range(length):
        if position + i < w and i < w:
            result[position + i] = field[i]
    return from_bits(result)


def find_leading(t: str, a: int, shift: bool) -> int:
    w = width_of(t)
    value = number(t, a)
    value = ~value if value < 0 else value
    if value == 0:
        return 2**32 - 1
    place = value.bit_length() - 1
    return w - 1 - place if shift else place


def find_nth(mask: int, base: int, offset: int) -> int:
    offset = number("s32", offset)
    base = number("s32", base)
    if offset == 0:
        return base if 0 <= base < 32 and mask >> base & 1 else 2**32 - 1
    count, step, place = abs(offset) - 1, 1 if offset > 0 else -1, base
    while 0 <= place < 32:
        if mask >> place & 1:
            if count == 0:
                return place
            count -= 1
        place += step
    return 2**32 - 1


def make_mask(mode: str, a: int, b: int) -> int:
    """The pseudo-code of the manual."""
    ones = 2**32 - 1
    a1, b1 = a & 31, b & 31
    mask0, total = ones << a1 & ones, a1 + b1
    mask1 = ones << total & ones
    too_far = total >= 32
    if mode == "clamp":
        if a >= 32:
            too_far, mask0 = True, 0
        if b >= 32:
            too_far = True
    if too_far:
        mask1 = 0
    elif b1 == 0:
        mask1 = ones
    return mask0 & ~mask1 & ones


def extend_from(mode: str, t: str, a: int, b: int) -> int:
    count = b & 31 if mode == "wrap" else min(b, 32)
    if count == 0:
        return 0
    kept = a % 2**count
    return fit(t, kept - 2**count if t == "s32" and kept >= 2 ** (count - 1) else kept)


def bit_fields() -> Iterator[Form]:
    for t in ("b32", "b64"):
        w = width_of(t)
        yield Form(f"popc.{t}", (w,), (32,), lambda a: (a.bit_count(),))
        yield Form(f"clz.{t}", (w,), (32,), lambda a, w=w: (w - a.bit_length(),))
        yield Form(f"brev.{t}", (w,), (w,), lambda a, w=w: (from_bits(bits_of(a, w)[::-1]),))
        yield Form(
            f"bfi.{t}",
            (w, w, 32, 32),
            (w,),
            lambda a, b, c, d, w=w: (insert_field(w, a, b, c, d),),
        )
    for t in WORDS:
        w = width_of(t)
        yield Form(f"bfe.{t}", (w, 32, 32), (w,), lambda a, b, c, t=t: (extract_field(t, a, b, c),))
        yield Form(f"bfind.{t}", (w,), (32,), lambda a, t=t: (find_leading(t, a, False),))
        yield Form(f"bfind.shiftamt.{t}", (w,), (32,), lambda a, t=t: (find_leading(t, a, True),))
    yield Form("fns.b32", (32, 32, 32), (32,), lambda a, b, c: (find_nth(a, b, c),))
    for mode in ("clamp", "wrap"):
        yield Form(f"bmsk.{mode}.b32", (32, 32), (32,), lambda a, b, m=mode: (make_mask(m, a, b),))
        for t in ("u32", "s32"):
            yield Form(
                f"szext.{mode}.{t}",
                (32, 32),
                (32,),
                lambda a, b, m=mode, t=t: (extend_from(m, t, a, b),),
            )


def look_up(table: int, a: int, b: int, c: int) -> int:
    out = [
        table >> (4 * x + 2 * y + z) & 1
        for x, y, z in zip(bits_of(a, 32), bits_of(b, 32), bits_of(c, 32), strict=True)
    ]
    return from_bits(out)


def funnel(left: bool, wrap: bool, a: int, b: int, c: int) -> int:
    n = c & 31 if wrap else min(c, 32)
    whole = b << 32 | a
    return (whole << n >> 32 if left else whole >> n) % 2**32


def logic() -> Iterator[Form]:
    for t in ("pred", "b16", "b32", "b64"):
        w = width_of(t)
        yield Form(f"and.{t}", (w, w), (w,), lambda a, b: (a & b,))
        yield Form(f"or.{t}", (w, w), (w,), lambda a, b: (a | b,))
        yield Form(f"xor.{t}", (w, w), (w,), lambda a, b: (a ^ b,))
        yield Form(f"not.{t}", (w,), (w,), lambda a, w=w: (2**w - 1 - a,))
        if t != "pred":
            yield Form(f"cnot.{t}", (w,), (w,), lambda a: (int(a == 0),))
            yield Form(f"shl.{t}", (w, 32), (w,), lambda a, b, w=w: (a << min(b, w) & 2**w - 1,))
    for t in ("b16", "b32", "b64", *INTEGERS):
        w = width_of(t)
        yield Form(
            f"shr.{t}",
            (w, 32),
            (w,),
            lambda a, b, t=t, w=w: (fit(t, number(t, a) >> min(b, w)),),
        )
    yield Form(
        "lop3.b32",
        (32, 32, 32, 8),
        (32,),
        lambda a, b, c, table: (look_up(table, a, b, c),),
        literal=3,
    )
    for combine in ("and", "or"):

        def with_predicate(
            a: int, b: int, c: int, table: int, q: int, combine: str = combine
        ) -> tuple[int, ...]:
            d = look_up(table, a, b, c)
            return d, int(d != 0 and q) if combine == "and" else int(d != 0 or bool(q))

        yield Form(f"lop3.{combine}.b32", (32, 32, 32, 8, 1), (32, 1), with_predicate, literal=3)
    for side, mode in product(("l", "r"), ("wrap", "clamp")):
        yield Form(
            f"shf.{side}.{mode}.b32",
            (32, 32, 32),
            (32,),
            lambda a, b, c, s=side, m=mode: (funnel(s == "l", m == "wrap", a, b, c),),
        )


COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "lo": lambda a, b: a < b,
    "ls": lambda a, b: a <= b,
    "hi": lambda a, b: a > b,
    "hs": lambda a, b: a >= b,
}
BOOLEAN: dict[str, Callable[[bool, bool], bool]] = {
    "and": lambda p, c: p and c,
    "or": lambda p, c: p or c,
    "xor": lambda p, c: p != c,
}


def comparable(operator: str, t: str) -> bool:
    if t[0] == "b":
        return operator in ("eq", "ne")
    return t[0] == "u" or operator not in ("lo", "ls", "hi", "hs")


def comparisons() -> Iterator[Form]:
    for operator, t in product(COMPARE, (*INTEGERS, "b16", "b32", "b64")):
        if not comparable(operator, t):
            continue
        w, test = width_of(t), COMPARE[operator]

        def holds(a: int, b: int, f: Callable[[int, int], bool] = test, t: str = t) -> bool:
            return f(number(t, a), number(t, b))

        name = f"setp.{operator}"
        yield Form(f"{name}.{t}", (w, w), (1,), lambda a, b, f=holds: (int(f(a, b)),))
        yield Form(
            f"{name}.{t}", (w, w), (1, 1), lambda a, b, f=holds: (int(f(a, b)), int(not f(a, b)))
        )
        if t == "u32" or operator in ("eq", "lt"):
            yield from _combined(name, operator, t, holds)
        if w >= 32:
            yield Form(
                f"set.{operator}.u32.{t}",
                (w, w),
                (32,),
                lambda a, b, f=holds: ((2**32 - 1) * f(a, b),),
            )


def _combined(
    name: str, operator: str, t: str, holds: Callable[[int, int], bool]
) -> Iterator[Form]:
    w = width_of(t)
    for boolean, combine in BOOLEAN.items():

        def one(a: int, b: int, c: int, g: Callable[[bool, bool], bool] = combine) -> int:
            return int(g(holds(a, b), bool(c)))

        def other(a: int, b: int, c: int, g: Callable[[bool, bool], bool] = combine) -> int:
            return int(g(not holds(a, b), bool(c)))

        yield Form(f"{name}.{boolean}.{t}", (w, w, 1), (1,), lambda a, b, c, f=one: (f(a, b, c),))
        yield Form(
            f"{name}.{boolean}.{t}",
            (w, w, 1),
            (1, 1),
            lambda a, b, c, f=one, g=other: (f(a, b, c), g(a, b, c)),
        )
        if w >= 32:
            yield Form(
                f"set.{operator}.{boolean}.f32.{t}",
                (w, w, 1),
                (32,),
                lambda a, b, c, f=one: (0x3F800000 * f(a, b, c),),
            )


def selections() -> Iterator[Form]:
    for t in ("b16", "b32", "b64", *INTEGERS, "f32", "f64"):
        w = width_of(t)
        yield Form(f"selp.{t}", (w, w, 1), (w,), lambda a, b, c: (a if c else b,))
        yield Form(f"slct.{t}.s32", (w, w, 32), (w,), lambda a, b, c: (a if c < 2**31 else b,))


def pick(a: int, b: int, c: int) -> int:
    eight = [*a.to_bytes(4, "little"), *b.to_bytes(4, "little")]
    out = []
    for i in range(4):
        nibble = c >> 4 * i & 15
        chosen = eight[nibble & 7]
        out.append((255 if chosen > 127 else 0) if nibble & 8 else chosen)
    return int.from_bytes(bytes(out), "little")


MODES = {  # the manual's table: bytes 3, 2, 1, 0 of d for selectors 0 to 3
    "f4e": ("3210", "4321", "5432", "6543"),
    "b4e": ("5670", "6701", "7012", "0123"),
    "rc8": ("0000", "1111", "2222", "3333"),
    "ecl": ("3210", "3211", "3222", "3333"),
    "ecr": ("0000", "1110", "2210", "3210"),
    "rc16": ("1010", "3232", "1010", "3232"),
}


def movement() -> Iterator[Form]:
    for t in ("pred", "b16", "b32", "b64", *INTEGERS, "f32", "f64"):
        w = width_of(t)
        yield Form(f"mov.{t}", (w,), (w,), lambda a: (a,))
    for w in (32, 64):
        for parts in (2, 4):
            size = w // parts
            yield Form(
                f"mov.b{w}",
                (size,) * parts,
                (w,),
                lambda *v, s=size: (sum(x << s * i for i, x in enumerate(v)),),
            )
            yield Form(
                f"mov.b{w}",
                (w,),
                (size,) * parts,
                lambda a, s=size, n=parts: tuple(a >> s * i & 2**s - 1 for i in range(n)),
            )
    yield Form("mov.v2.u32", (32, 32), (32, 32), lambda a, b: (a, b))
    yield Form("prmt.b32", (32, 32, 32), (32,), lambda a, b, c: (pick(a, b, c),))
    for mode, rows in MODES.items():
        yield Form(
            f"prmt.b32.{mode}",
            (32, 32, 32),
            (32,),
            lambda a, b, c, r=rows: (pick(a, b, int(r[c & 3], 16)),),
        )
    for space in ("global", "shared", "local", "const", "param"):
        yield Form(f"cvta.{space}.u64", (64,), (64,), lambda a: (a,))
        yield Form(f"cvta.to.{space}.u64", (64,), (64,), lambda a: (a,))


def conversions() -> Iterator[Form]:
    types = ("u8", "s8", *INTEGERS)
    for to, of in product(types, types):
        yield numeric(f"cvt.{to}.{of}", (of,), to, lambda a: a)
        yield numeric(f"cvt.sat.{to}.{of}", (of,), to, lambda a, t=to: saturate(t, a))
    for t in ("u16", "s16"):

        def two(a: int, b: int, t: str = t) -> tuple[int, ...]:
            high, low = (fit(t, saturate(t, number("s32", x))) for x in (a, b))
            return (high << 16 | low,)

        yield Form(f"cvt.pack.sat.{t}.s32", (32, 32), (32,), two)
    for t in ("u8", "s8"):

        def three(a: int, b: int, c: int, t: str = t) -> tuple[int, ...]:
            high, low = (fit(t, saturate(t, number("s32", x))) for x in (a, b))
            return ((c << 16 | high << 8 | low) % 2**32,)

        yield Form(f"cvt.pack.sat.{t}.s32.b32", (32, 32, 32), (32,), three)


def copysigns() -> Iterator[Form]:
    for w in (32, 64):
        top = 2 ** (w - 1)
        yield Form(f"copysign.f{w}", (w, w), (w,), lambda a, b, t=top: (a // t * t + b % t,))


FORMS = [
    form
    for group in (
        arithmetic, arithmetic24, packed, dot, extended, bit_fields, logic, comparisons,
        selections, movement, conversions, copysigns, video,
    )
    for form in group()
]  # fmt: skip
