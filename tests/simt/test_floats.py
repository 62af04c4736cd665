"""Floating-point instructions against exact fractions: every rounding, every format, all odd
values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from ptxsw.simt.conversion import function
from ptxsw.simt.floats import NoFunction
from tests.simt.exact import rounded

# Significant bits, exponent of the least bit, exponent of the first number too large, dtype.
FORMATS = {
    "f64": (53, -1074, 1024, "u8"),
    "f32": (24, -149, 128, "u4"),
    "f16": (11, -24, 16, "u2"),
    "bf16": (8, -133, 128, "u2"),
}
CANONICAL = {"f64": 0x7FF8 << 48, "f32": 0x7FFFFFFF, "f16": 0x7FFF, "bf16": 0x7FFF}
MODES = ("rn", "rz", "rm", "rp")
RANDOM = np.random.default_rng(7)


def decode(type_: str, bits: int) -> float:
    if type_ == "bf16":
        return float(np.array([bits << 16], np.uint32).view(np.float32)[0])
    code = FORMATS[type_][3]
    return float(np.array([bits], code).view(code.replace("u", "f"))[0])


def encode(type_: str, value: float) -> int:
    """The bits of a value the format can hold."""
    if math.isnan(value):
        return CANONICAL[type_]
    if type_ == "bf16":
        return int(np.array([value], np.float32).view(np.uint32)[0]) >> 16
    code = FORMATS[type_][3]
    return int(np.array([value], code.replace("u", "f")).view(code)[0])


def pool(type_: str, count: int) -> list[int]:
    """Bits of odd values, of values near one and of any values."""
    width = 8 * int(FORMATS[type_][3][1])
    ones = encode(type_, 1.0)
    odd = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 1.5, 3.0, 0.1, 255.5, -2.5]
    bits = [encode(type_, to(type_, Fraction(v)) if math.isfinite(v) and v else v) for v in odd]
    largest = encode(type_, math.inf) - 1
    bits += [1, 2, 3, largest, largest - 1, largest | 1 << (width - 1), 1 | 1 << (width - 1)]
    bits += [(ones + int(n)) % (1 << width) for n in RANDOM.integers(-40, 40, count // 2)]
    bits += [int(n) % (1 << width) for n in RANDOM.integers(0, 2**63, count // 2)]
    return bits


def to(type_: str, value: Fraction, mode: str = "rn") -> float:
    bits, least, most, _ = FORMATS[type_]
    return rounded(value, bits, least, mode, most)


def call(name: str, types: list[str], columns: list[list[int]]) -> list[int]:
    arrays = [np.array(c, FORMATS[t][3]) for t, c in zip(types, columns, strict=True)]
    with np.errstate(all="ignore"):
        return [int(v) for v in function(name)(*arrays)]


def exact(opcode: str, values: list[float]) -> Fraction | float | None:
    """The result before rounding; a float where it is infinite, no number or a signed zero;
    None where the sign of a zero depends on the direction."""
    a, b, c = (*values, 0.0, 0.0)[:3]
    if opcode in ("add", "sub"):
        b = -b if opcode == "sub" else b
        if not (math.isfinite(a) and math.isfinite(b)):
            return a + b
        total = Fraction(a) + Fraction(b)
        if total == 0:
            return a if (a == 0 and b == 0 and math.copysign(1, a) == math.copysign(1, b)) else None
        return total
    if opcode == "mul":
        if not (math.isfinite(a) and math.isfinite(b)) or a == 0 or b == 0:
            return a * b
        return Fraction(a) * Fraction(b)
    if not all(map(math.isfinite, (a, b, c))):
        return a * b + c if math.isfinite(c) or not math.isfinite(a * b) else (
            math.nan if math.isnan(a * b) or math.isnan(c) else c
        )  # fmt: skip
    total = Fraction(a) * Fraction(b) + Fraction(c)
    if total == 0:
        product = math.copysign(1, a) * math.copysign(1, b)
        zero = a == 0 or b == 0
        return c if zero and c == 0 and product == math.copysign(1, c) else None
    return total


def expected(type_: str, opcode: str, values: list[float], mode: str) -> int:
    result = exact(opcode, values)
    if result is None:
        result = -0.0 if mode == "rm" else 0.0
    if isinstance(result, Fraction):
        sign = -1 if result < 0 else 1
        result = math.copysign(to(type_, result, mode), sign)
    return encode(type_, result)


@pytest.mark.parametrize("opcode", ["add", "sub", "mul", "fma"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("type_", ["f32", "f64"])
def test_arithmetic(type_: str, mode: str, opcode: str) -> None:
    count = 3 if opcode == "fma" else 2
    values = pool(type_, 40)
    rows = [[int(v) for v in RANDOM.choice(values, count)] for _ in range(1500)]
    if type_ == "f64" and (mode != "rn" or opcode == "mul"):
        # Directed products are exact only away from the ends of the range, as documented.
        rows = [r for r in rows if all(near(decode(type_, b)) for b in r)]
    check(f"{opcode}.{mode}.{type_}", type_, opcode, mode, rows)


def near(value: float) -> bool:
    return value == 0 or not math.isfinite(value) or 2.0**-400 < abs(value) < 2.0**400


@pytest.mark.parametrize("opcode", ["add", "sub", "mul", "fma"])
@pytest.mark.parametrize("type_", ["f16", "bf16"])
def test_half_arithmetic(type_: str, opcode: str) -> None:
    count = 3 if opcode == "fma" else 2
    values = pool(type_, 60)
    rows = [[int(v) for v in RANDOM.choice(values, count)] for _ in range(1500)]
    check(f"{opcode}.rn.{type_}", type_, opcode, "rn", rows)


def check(name: str, type_: str, opcode: str, mode: str, rows: list[list[int]]) -> None:
    columns = [list(column) for column in zip(*rows, strict=True)]
    got = call(name, [type_] * len(columns), columns)
    for row, result in zip(rows, got, strict=True):
        values = [decode(type_, bits) for bits in row]
        assert result == expected(type_, opcode, values, mode), (
            name,
            values,
            decode(type_, result),
        )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("type_", ["f32", "f64"])
def test_quotients_and_roots(type_: str, mode: str) -> None:
    values = [b for b in pool(type_, 200) if decode(type_, b) != 0 and near(decode(type_, b))]
    values = [b for b in values if math.isfinite(decode(type_, b))]
    pairs = [[int(v) for v in RANDOM.choice(values, 2)] for _ in range(600)]
    got = call(f"div.{mode}.{type_}", [type_] * 2, [[p[0] for p in pairs], [p[1] for p in pairs]])
    for (a, b), result in zip(pairs, got, strict=True):
        ratio = Fraction(decode(type_, a)) / Fraction(decode(type_, b))
        assert result == encode(type_, math.copysign(to(type_, ratio, mode), ratio))
    positive = [b for b in values if decode(type_, b) > 0]
    for bits, result in zip(
        positive, call(f"sqrt.{mode}.{type_}", [type_], [positive]), strict=True
    ):
        value, root = Fraction(decode(type_, bits)), Fraction(decode(type_, result))
        below = Fraction(decode(type_, result - 1)) if result else Fraction(0)
        above = Fraction(decode(type_, result + 1))
        if mode in ("rz", "rm"):
            assert root**2 <= value < above**2
        elif mode == "rp":
            assert below**2 < value <= root**2
        else:
            assert ((below + root) / 2) ** 2 <= value <= ((root + above) / 2) ** 2


def test_flush_saturate_relu() -> None:
    tiny, one = 0x00000001, 0x3F800000
    assert call("add.ftz.f32", ["f32"] * 2, [[tiny, tiny | 1 << 31], [0, 1 << 31]]) == [0, 1 << 31]
    assert call("add.f32", ["f32"] * 2, [[tiny], [0]]) == [tiny]
    # 2^-100 * 2^-30 is subnormal.
    small = [encode("f32", 2.0**-100)], [encode("f32", 2.0**-30)]
    assert call("mul.ftz.f32", ["f32"] * 2, list(small)) == [0]
    assert decode("f32", call("mul.f32", ["f32"] * 2, list(small))[0]) == 2.0**-130
    values = [encode("f32", v) for v in (2.0, -1.0, 0.25, math.nan, -0.0, math.inf)]
    zero = [1 << 31] * 6
    assert call("add.sat.f32", ["f32"] * 2, [values, zero]) == [one, 0, 0x3E800000, 0, 0, one]
    halves = [encode("f16", v) for v in (-3.0, 2.0, math.nan, -0.0)]
    one_half = encode("f16", 1.0)
    got = call("fma.rn.relu.f16", ["f16"] * 3, [halves, [one_half] * 4, [1 << 15] * 4])
    assert got == [0, encode("f16", 2.0), 0x7FFF, 0]
    assert call("neg.ftz.f32", ["f32"], [[tiny, one]]) == [1 << 31, one | 1 << 31]
    assert call("abs.f64", ["f64"], [[1 << 63]]) == [0]


def test_minimum_and_maximum() -> None:
    nan, plus, minus = CANONICAL["f32"], 0, 1 << 31
    one, two = encode("f32", 1.0), encode("f32", 2.0)
    rows = [(one, two), (nan, two), (one, nan), (nan, nan), (plus, minus), (minus, plus)]
    columns = [[r[0] for r in rows], [r[1] for r in rows]]
    assert call("min.f32", ["f32"] * 2, columns) == [one, two, one, nan, minus, minus]
    assert call("max.f32", ["f32"] * 2, columns) == [two, two, one, nan, plus, plus]
    assert call("max.NaN.f32", ["f32"] * 2, columns) == [two, nan, nan, nan, plus, plus]


@pytest.mark.parametrize("type_", list(FORMATS))
def test_comparisons(type_: str) -> None:
    numbers = [encode(type_, v) for v in (1.0, 2.0, -0.0, 0.0, math.inf, -math.inf, math.nan)]
    pairs = list(itertools.product(numbers, repeat=2))
    columns = [[p[0] for p in pairs], [p[1] for p in pairs]]
    tests: dict[str, Any] = {
        "eq": lambda a, b: a == b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
        "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b, "ne": lambda a, b: a < b or a > b,
    }  # fmt: skip
    for operator, test in tests.items():
        values = [(decode(type_, a), decode(type_, b)) for a, b in pairs]
        lost = [math.isnan(a) or math.isnan(b) for a, b in values]
        plain = [bool(test(a, b)) for a, b in values]
        assert [bool(v) for v in call(f"setp.{operator}.{type_}", [type_] * 2, columns)] == plain
        got = call(f"setp.{operator}u.{type_}", [type_] * 2, columns)
        assert [bool(v) for v in got] == [p or n for p, n in zip(plain, lost, strict=True)]
    assert [bool(v) for v in call(f"setp.nan.{type_}", [type_] * 2, columns)] == lost
    assert [not v for v in call(f"setp.num.{type_}", [type_] * 2, columns)] == lost


def test_properties() -> None:
    bits = [0, 1, 0x00800000, 0x7F800000, 0x7FC00000, 0xBF800000]
    table = {
        "finite": [1, 1, 1, 0, 0, 1], "infinite": [0, 0, 0, 1, 0, 0], "number": [1, 1, 1, 1, 0, 1],
        "notanumber": [0, 0, 0, 0, 1, 0], "normal": [0, 0, 1, 0, 0, 1],
        "subnormal": [0, 1, 0, 0, 0, 0],
    }  # fmt: skip
    for kind, want in table.items():
        assert call(f"testp.{kind}.f32", ["f32"], [bits]) == want


@pytest.mark.parametrize(("target", "source"), list(itertools.permutations(FORMATS, 2)))
def test_between_formats(target: str, source: str) -> None:
    values = pool(source, 300)
    wider = FORMATS[target][0] >= FORMATS[source][0] and FORMATS[target][2] >= FORMATS[source][2]
    for mode in ("",) if wider else MODES:
        name = ".".join(filter(None, ("cvt", mode, target, source)))
        for bits, result in zip(values, call(name, [source], [values]), strict=True):
            value = decode(source, bits)
            if math.isfinite(value) and value != 0:
                value = math.copysign(to(target, Fraction(value), mode or "rn"), value)
            assert result == encode(target, value), (name, decode(source, bits))


@pytest.mark.parametrize("source", list(FORMATS))
@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_to_integers(source: str, width: int) -> None:
    values = pool(source, 200)
    values += [encode(source, to(source, Fraction(v))) for v in (2.5, 3.5, -2.5, 200, 1e4, -7e4)]
    turn: dict[str, Callable[[Fraction], int]] = {
        "rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil,
    }  # fmt: skip
    for kind, mode in itertools.product("su", turn):
        low, high = (
            (-(1 << width - 1), (1 << width - 1) - 1) if kind == "s" else (0, (1 << width) - 1)
        )
        got = call(f"cvt.{mode}.{kind}{width}.{source}", [source], [values])
        for bits, result in zip(values, got, strict=True):
            value = decode(source, bits)
            if math.isnan(value):
                want = 1 << (width - 1) if source == "f64" or width == 64 else 0
            elif math.isinf(value):
                want = high if value > 0 else low
            else:
                want = min(max(turn[mode](Fraction(value)), low), high)
            assert result == want % (1 << width), (mode, kind, value)


@pytest.mark.parametrize("target", list(FORMATS))
@pytest.mark.parametrize("mode", MODES)
def test_from_integers(target: str, mode: str) -> None:
    for kind, width in itertools.product("su", (8, 16, 32, 64)):
        top = 1 << width
        numbers = [int(n) % top for n in RANDOM.integers(0, 2**63, 200)]
        numbers += [0, 1, top - 1, top // 2, top // 2 - 1, top // 2 + 1, (top - 1) // 3]
        numbers = [
            n >> int(s) for n, s in zip(numbers, RANDOM.integers(0, width, 207), strict=True)
        ]
        with np.errstate(all="ignore"):
            f = function(f"cvt.{mode}.{target}.{kind}{width}")
            got = [int(v) for v in f(np.array(numbers, f"u{width // 8}"))]
        for number, result in zip(numbers, got, strict=True):
            value = number - top if kind == "s" and number >= top // 2 else number
            assert result == encode(target, to(target, Fraction(value), mode)), (kind, width, value)


def test_integral_floats() -> None:
    values = [encode("f32", v) for v in (2.5, -2.5, 0.4, -0.4, 7.0, math.inf)]
    table = {
        "rni": [2.0, -2.0, 0.0, -0.0, 7.0, math.inf], "rzi": [2.0, -2.0, 0.0, -0.0, 7.0, math.inf],
        "rmi": [2.0, -3.0, 0.0, -1.0, 7.0, math.inf], "rpi": [3.0, -2.0, 1.0, -0.0, 7.0, math.inf],
    }  # fmt: skip
    for mode, want in table.items():
        got = call(f"cvt.{mode}.f32.f32", ["f32"], [values])
        assert got == [encode("f32", v) for v in want]


def test_packed() -> None:
    a, b = encode("f16", 1.5), encode("f16", -2.0)
    with np.errstate(all="ignore"):
        words = np.array([a << 16 | b], np.uint32)
        assert int(function("add.rn.f16x2")(words, words)[0]) == (
            encode("f16", 3.0) << 16 | encode("f16", -4.0)
        )
        x, y = (np.array([encode("f32", v)], np.uint32) for v in (1.5, -2.0))
        assert int(function("cvt.rn.f16x2.f32")(x, y)[0]) == a << 16 | b
        assert int(function("cvt.rn.relu.f16x2.f32")(x, y)[0]) == a << 16
        pair = np.array([int(x[0]) | int(y[0]) << 32], np.uint64)
        got = int(function("mul.rn.f32x2")(pair, pair)[0])
        assert (decode("f32", got & 0xFFFFFFFF), decode("f32", got >> 32)) == (2.25, 4.0)
        # The first source is half, the sum and the other source are single.
        got = int(function("add.f32.f16")(np.array([a], np.uint16), y)[0])
        assert decode("f32", got) == -0.5


def test_tf32() -> None:
    bits = [0x3F801000, 0x3F800FFF, 0x3F803000, 0x7F800000, 0xBF801000]
    assert call("cvt.rna.tf32.f32", ["f32"], [bits]) == [
        0x3F802000, 0x3F800000, 0x3F804000, 0x7F800000, 0xBF802000,
    ]  # fmt: skip
    assert call("cvt.rn.tf32.f32", ["f32"], [bits])[:3] == [0x3F800000, 0x3F800000, 0x3F804000]


@pytest.mark.parametrize(
    ("name", "f"),
    [
        ("ex2.approx.f32", np.exp2), ("lg2.approx.f32", np.log2), ("sin.approx.f32", np.sin),
        ("cos.approx.f32", np.cos), ("tanh.approx.f32", np.tanh),
        ("rcp.approx.f32", lambda x: 1 / x), ("rsqrt.approx.f32", lambda x: 1 / np.sqrt(x)),
        ("sqrt.approx.f32", np.sqrt),
    ],
)  # fmt: skip
def test_approximations_are_near(name: str, f: Any) -> None:
    x = (RANDOM.random(100) * 4 + 0.01).astype(np.float32)
    got = function(name)(x.view(np.uint32)).view(np.float32)
    want = f(x.astype(np.float64))
    assert np.allclose(got, want, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    "name", ["cvt.rn.satfinite.e4m3x2.f32", "min.xorsign.abs.f32", "fma.rn.oob.f16", "foo.f32"]
)
def test_what_is_not_modelled(name: str) -> None:
    with pytest.raises(NoFunction):
        function(name)
