"""Random arithmetic in PTX: each result of instructions on odd values goes to memory.

hash of the thread and the operand  ->  some operands become infinite or no number, some
subnormal, some close to one, the rest are any bits  ->  fma.rn.f32  ->  st.global
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from random import Random

from msgspec import Struct

RESULTS = 8
"""Of each thread."""
_OPEN_EVERY = 6
"""One program in so many is of functions whose last bits PTX leaves open."""
_DIRECTED = ("rn", "rz", "rm", "rp")


class Form(Struct, frozen=True):
    """An instruction, the types of its result and of its operands. Operands that must not be 0 are
    made odd."""

    name: str
    result: str
    operands: tuple[str, ...]
    odd: bool = False

    @property
    def leaves_nan_open(self) -> bool:
        """Does PTX leave open which NaN comes out? Single precision has one (PTX ISA 8.2.2), and
        so has half precision; `abs`, `neg` and conversions, which hardware may do by moving bits,
        and double precision give others on an H100."""
        moves = self.name.split(".")[0] in ("abs", "neg", "cvt")
        return self.result in _FORMATS and (moves or self.result == "f64")


class _Format(Struct, frozen=True):
    """Bits of the exponent, and those of one."""

    exponent: int
    one: int


_FORMATS: Mapping[str, _Format] = {
    "f64": _Format(0x7FF0000000000000, 0x3FF0000000000000),
    "f32": _Format(0x7F800000, 0x3F800000),
    "f16": _Format(0x7C00, 0x3C00),
    "bf16": _Format(0x7F80, 0x3F80),
    "f16x2": _Format(0x7C007C00, 0x3C003C00),
}
_NAN = {"f64": "0x7FF8000000000000", "f32": "0x7FFFFFFF", "f16": "0x7FFF", "bf16": "0x7FFF"}
_WIDTHS = {"f64": 64, "f32": 32, "f16": 16, "bf16": 16, "f16x2": 32, "pred": 1}


def width(type_: str) -> int:
    return _WIDTHS.get(type_) or int(type_[1:])


def _same(type_: str, names: str, operands: int) -> Iterator[Form]:
    for name in names.split():
        yield Form(f"{name}.{type_}", type_, (type_,) * operands)


def _floats() -> Iterator[Form]:
    for type_ in ("f32", "f64"):
        modes = _DIRECTED if type_ == "f32" else ("rn",)
        for mode, opcode in product(_DIRECTED, ("add", "sub")):
            yield Form(f"{opcode}.{mode}.{type_}", type_, (type_,) * 2)
        for mode in modes:
            yield from _same(type_, f"mul.{mode} div.{mode}", 2)
            yield from _same(type_, f"fma.{mode}", 3)
            yield from _same(type_, f"sqrt.{mode} rcp.{mode}", 1)
        yield from _same(type_, "min max copysign", 2)
        yield from _same(type_, "abs neg", 1)
    yield from _same("f32", "add.ftz mul.ftz add.sat mul.ftz.sat min.ftz max.NaN", 2)
    yield from _same("f32", "fma.rn.ftz fma.rn.sat", 3)
    for type_ in ("f16", "bf16", "f16x2"):
        rounded = "add mul sub" if type_ != "bf16" else "add.rn mul.rn sub.rn"
        yield from _same(type_, f"{rounded} min max", 2)
        yield from _same(type_, "fma.rn fma.rn.relu", 3)
        yield from _same(type_, "abs neg", 1)


def _conversions() -> Iterator[Form]:
    for target, source in product(("f64", "f32", "f16", "bf16"), repeat=2):
        narrower = width(target) < width(source) and source != "f64"
        if narrower or (target, source) == ("f32", "f64"):
            modes = _DIRECTED if (target, source) != ("bf16", "f32") else ("rn", "rz")
            for mode in modes:
                yield Form(f"cvt.{mode}.{target}.{source}", target, (source,))
        elif width(target) > width(source) and (target, source) != ("f64", "bf16"):
            yield Form(f"cvt.{target}.{source}", target, (source,))
    for kind, bits, float_ in product("su", (16, 32, 64), ("f32", "f64", "f16")):
        integer = f"{kind}{bits}"
        for mode in ("rni", "rzi", "rmi", "rpi"):
            yield Form(f"cvt.{mode}.{integer}.{float_}", integer, (float_,))
        for mode in _DIRECTED:
            yield Form(f"cvt.{mode}.{float_}.{integer}", float_, (integer,))


def _integers() -> Iterator[Form]:
    for type_ in ("s32", "u32", "s64", "u64"):
        yield from _same(type_, "add sub mul.lo mul.hi min max", 2)
        yield from _same(type_, "mad.lo mad.hi", 3)
        yield from (Form(f"{name}.{type_}", type_, (type_,) * 2, True) for name in ("div", "rem"))
        yield Form(f"shr.{type_}", type_, (type_, "b32"))
        yield Form(f"bfe.{type_}", type_, (type_, "b32", "b32"))
        yield Form(f"bfind.{type_}", "b32", (type_,))
    for type_ in ("b32", "b64"):
        yield from _same(type_, "and or xor cnot not", 2)
        yield Form(f"shl.{type_}", type_, (type_, "b32"))
        yield Form(f"bfi.{type_}", type_, (type_, type_, "b32", "b32"))
        yield from (Form(f"{name}.{type_}", "b32", (type_,)) for name in ("popc", "clz"))
        yield from _same(type_, "brev", 1)
    yield from (Form(f"abs.{t}", t, (t,)) for t in ("s32", "s64"))
    yield from (Form(f"neg.{t}", t, (t,)) for t in ("s16", "s32", "s64"))
    yield from (Form(f"mul.wide.{t}32", f"{t}64", (f"{t}32",) * 2) for t in "su")
    yield from (Form(f"sad.{t}32", f"{t}32", (f"{t}32",) * 3) for t in "su")
    yield from (Form(f"shf.{w}.b32", "b32", ("b32",) * 3) for w in
                ("l.clamp", "l.wrap", "r.clamp", "r.wrap"))  # fmt: skip
    yield Form("prmt.b32", "b32", ("b32",) * 3)
    yield from (Form(f"dp4a.{a}32.{b}32", "b32", ("b32",) * 3) for a, b in product("su", repeat=2))


def _exact() -> Iterator[Form]:
    for form in (*_floats(), *_conversions(), *_integers()):
        opcode = form.name.split(".")[0]
        single = opcode in ("not", "cnot")
        yield Form(form.name, form.result, form.operands[:1], form.odd) if single else form


EXACT: Sequence[Form] = tuple(_exact())
OPEN: Sequence[Form] = (
    *_same("f32", "ex2.approx lg2.approx sin.approx cos.approx tanh.approx rcp.approx rsqrt.approx "
           "sqrt.approx ex2.approx.ftz rcp.approx.ftz", 1),
    *_same("f32", "div.full div.approx", 2),
)  # fmt: skip


def program(seed: int) -> str:
    """The text of a seed."""
    pick = Random(seed)
    forms = OPEN if seed % _OPEN_EVERY == 0 else EXACT
    lines = [HEAD]
    for number in range(RESULTS):
        lines += instruction(pick.choice(forms), number)
    return "\n".join(lines) + "\nret;\n}\n"


HEAD = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
{
.reg .pred %p<5>;
.reg .b16 %h<5>;
.reg .b32 %r<9>;
.reg .b64 %rd<12>;
ld.param.u64 %rd1, [out];
mov.u32 %r5, %ctaid.x;
mov.u32 %r6, %ntid.x;
mov.u32 %r7, %tid.x;
mad.lo.u32 %r8, %r5, %r6, %r7;
mul.wide.u32 %rd9, %r8, 64;
add.s64 %rd1, %rd1, %rd9;
cvt.u64.u32 %rd10, %r8;"""


def _register(type_: str, number: int) -> str:
    return {16: "%h", 32: "%r", 64: "%rd"}[width(type_)] + str(
        number if width(type_) < 64 else number + 2
    )


def instruction(form: Form, number: int) -> Iterator[str]:
    for at, type_ in enumerate(form.operands):
        yield from _operand(type_, number * 4 + at, _register(type_, at + 1), form.odd)
    operands = ", ".join(_register(type_, at + 1) for at, type_ in enumerate(form.operands))
    result = _register(form.result, 0)
    yield f"{form.name} {result}, {operands};"
    if form.leaves_nan_open:
        yield from _one_nan(form.result, result)
    yield f"st.global.b{width(form.result)} [%rd1+{8 * number}], {result};"


def _one_nan(type_: str, register: str) -> Iterator[str]:
    """Where the register holds no number, it gets the one pattern that is compared."""
    if type_ == "f16x2":
        yield f"mov.b32 {{%h1, %h2}}, {register};"
        yield from (*_one_nan("f16", "%h1"), *_one_nan("f16", "%h2"))
        yield f"mov.b32 {register}, {{%h1, %h2}};"
        return
    yield f"setp.nan.{type_} %p4, {register}, {register};"
    yield f"@%p4 mov.b{width(type_)} {register}, {_NAN[type_]};"


def _operand(type_: str, number: int, register: str, odd: bool) -> Iterator[str]:
    """An odd value in a register."""
    seed = 0x2545F4914F6CDD1D * (number + 1) % 2**64
    yield f"mad.lo.u64 %rd8, %rd10, 0x9E3779B97F4A7C15, {seed};"
    yield "shr.u64 %rd9, %rd8, 31;\nxor.b64 %rd8, %rd8, %rd9;"
    yield "mul.lo.u64 %rd8, %rd8, 0xBF58476D1CE4E5B9;"
    yield "shr.u64 %rd9, %rd8, 29;\nxor.b64 %rd8, %rd8, %rd9;"
    yield "shr.u64 %rd9, %rd8, 5;\nand.b64 %rd9, %rd9, 7;"
    if type_ in _FORMATS:
        bits = _FORMATS[type_]
        top = (1 << width(type_)) - 1
        yield "setp.eq.u64 %p1, %rd9, 0;\nsetp.eq.u64 %p2, %rd9, 1;\nsetp.gt.u64 %p3, %rd9, 4;"
        yield f"@%p1 or.b64 %rd8, %rd8, {bits.exponent};"
        yield f"@%p2 and.b64 %rd8, %rd8, {top ^ bits.exponent};"
        yield f"@%p3 and.b64 %rd8, %rd8, {top ^ bits.exponent};"
        yield f"@%p3 or.b64 %rd8, %rd8, {bits.one};"
    else:
        yield "setp.eq.u64 %p1, %rd9, 0;\n@%p1 and.b64 %rd8, %rd8, 31;"
        yield "setp.eq.u64 %p2, %rd9, 1;\n@%p2 mov.b64 %rd8, 0x8000000080000000;"
        if odd:
            yield "or.b64 %rd8, %rd8, 1;"
    if width(type_) == 64:
        yield f"mov.b64 {register}, %rd8;"
    else:
        yield f"cvt.u{width(type_)}.u64 {register}, %rd8;"
