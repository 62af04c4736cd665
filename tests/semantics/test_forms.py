"""Every form of every integer opcode against plain Python integers, in every algebra we have."""

from __future__ import annotations

import random
from itertools import groupby

import numpy as np
import pytest

from ptxsw.semantics import Meaning, meaning, opcodes
from ptxsw.simt.lanes import Bits, Lanes, dtype_of
from ptxsw.terms.evaluate import evaluate
from ptxsw.terms.node import Term, Variance
from ptxsw.terms.terms import Terms
from tests.semantics.ints import Int, Ints
from tests.semantics.reference import FORMS, Form

ROWS = 24
THREADS = 96
BORDERS = (0, 1, 2, 7, 8, 31, 32, 33, 63, 64, 65, 255, 256)
OPCODES = {
    opcode: list(forms)
    for opcode, forms in groupby(
        sorted(FORMS, key=lambda form: form.name.split(".")[0]),
        key=lambda form: form.name.split(".")[0],
    )
}

every_opcode = pytest.mark.parametrize("forms", OPCODES.values(), ids=OPCODES)


def resolve(name: str) -> Meaning | None:
    opcode, *modifiers = name.split(".")
    return meaning(opcode, tuple(modifiers))


def resolved(form: Form) -> Meaning:
    built = resolve(form.name)
    assert built is not None, form.name
    return built


def draw(source: random.Random, width: int) -> int:
    """A value of a width, with a liking for the borders and for small numbers such as amounts."""
    top = 1 << width
    few = [b for b in (*BORDERS, top // 2 - 1, top // 2, top - 1) if b < top]
    return source.choice(few) if source.random() < 0.5 else source.randrange(top)


def taken(form: Form) -> list[int]:
    """The widths of the operands, the carry last."""
    return [*form.inputs, *((1,) if form.carry_in else ())]


def given(form: Form) -> list[int]:
    return [*form.outputs, *((1,) if form.carry_out else ())]


@every_opcode
def test_plain_integers(forms: list[Form]) -> None:
    """The source that has to be a literal is one, and any others may be."""
    for form in forms:
        source = random.Random(f"{form.name} of integers")
        for _ in range(ROWS):
            row = [draw(source, width) for width in taken(form)]
            operands: list[Int | int] = [
                value if index == form.literal or source.random() < 0.3 else Int(value, width)
                for index, (value, width) in enumerate(zip(row, form.inputs, strict=False))
            ]
            carry = Int(row[-1], 1) if form.carry_in else None
            out = resolved(form).run(Ints(), operands, form.outputs, carry)
            assert [o.width for o in out] == given(form), form
            assert tuple(o.value for o in out) == form.reference(*row), (form, row)


@every_opcode
def test_numpy(forms: list[Form]) -> None:
    for form in forms:
        source = random.Random(form.name)
        widths = taken(form)
        columns = [[draw(source, width) for _ in range(THREADS)] for width in widths]
        if form.literal is not None:
            columns[form.literal] = [columns[form.literal][0]] * THREADS
        values = [
            column[0] if index == form.literal else Bits(np.array(column, dtype_of(width)), width)
            for index, (column, width) in enumerate(zip(columns, widths, strict=True))
        ]
        carry = values.pop() if form.carry_in else None
        assert not isinstance(carry, int)
        with np.errstate(all="ignore"):
            out = resolved(form).run(Lanes(), values, form.outputs, carry)
        assert [o.width for o in out] == given(form), form
        got = zip(*(map(int, np.broadcast_to(o.array, THREADS)) for o in out), strict=True)
        want = [form.reference(*row) for row in zip(*columns, strict=True)]
        assert list(got) == want, form


@every_opcode
def test_literals_broadcast(forms: list[Form]) -> None:
    """One element may stand for all threads, as literals do."""
    for form in forms:
        source = random.Random(form.name)
        row = [draw(source, width) for width in form.inputs]
        carry = Lanes().const(1, 1) if form.carry_in else None
        with np.errstate(all="ignore"):
            out = resolved(form).run(Lanes(), row, form.outputs, carry)
        want = form.reference(*row, *((1,) if form.carry_in else ()))
        assert tuple(int(o.array[0]) for o in out) == want, form


@every_opcode
@pytest.mark.parametrize("literals", [0.0, 0.4])
def test_terms(forms: list[Form], literals: float) -> None:
    """With all sources unknown, and with some of them literals or constants."""
    for form in forms:
        source = random.Random(f"{form.name} {literals}")
        for _ in range(1 if literals == 0 else 4):
            over_terms(form, source, literals)


def over_terms(form: Form, source: random.Random, literals: float) -> None:
    terms = Terms()
    widths = taken(form)
    fixed: dict[int, int] = {}
    operands: list[Term | int] = []
    for index, width in enumerate(widths):
        value = draw(source, width)
        if index == form.literal or (index < len(form.inputs) and source.random() < literals):
            fixed[index] = value
            literal = index == form.literal or source.random() < 0.5
            operands.append(value if literal else terms.const(value, width))
        else:
            operands.append(terms.atom(f"x{index}", width, Variance.LANE))
    carry = operands.pop() if form.carry_in else None
    assert not isinstance(carry, int)
    out = resolved(form).run(terms, operands, form.outputs, carry)
    assert [o.width for o in out] == given(form), form
    atoms = {i: terms.atom(f"x{i}", w, Variance.LANE) for i, w in enumerate(widths)}
    for _ in range(ROWS):
        row = [fixed.get(i, draw(source, width)) for i, width in enumerate(widths)]
        values = {atoms[i]: row[i] for i in atoms if i not in fixed}
        assert tuple(evaluate(o, values) for o in out) == form.reference(*row), (form, row)


def test_lop3_all_tables() -> None:
    """With a, b, c running through all combinations the result is the table itself."""
    built = resolve("lop3.b32")
    assert built is not None
    a, b, c = Int(0xF0, 32), Int(0xCC, 32), Int(0xAA, 32)
    for table in range(256):
        (result,) = built.run(Ints(), (a, b, c, table), (32,))
        assert result.value & 0xFF == table
        assert result.value >> 8 == (0xFFFFFF if table & 1 else 0)


def test_every_opcode_has_a_form() -> None:
    """An opcode that computes with integers is tested the day it is added."""
    tested = {form.name.split(".")[0] for form in FORMS}
    floating_only = {
        "fma", "rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh", "testp",
    }  # fmt: skip
    assert set(opcodes()) - tested == floating_only


@pytest.mark.parametrize(
    "name",
    [
        "add.cc",  # no type
        "add.u8",
        "add.sat.u32",
        "mul.s32",  # which half?
        "mul.wide.u64",
        "shl.u32",
        "setp.lo.s32",
        "setp.ltu.s32",
        "setp.lt.b32",
        "mad.lo.sat.s32",
        "cvt.u32",
        "cvt.rs.f16x2.f32",
        "lop3.xor.b32",
        "prmt.b32.xyz",
        "vadd.u32.u32.u32.min",
        "ld.global.u32",
    ],
)
def test_unknown_forms_have_no_meaning(name: str) -> None:
    assert resolve(name) is None


def test_modifiers_may_come_in_another_order() -> None:
    """GCC writes `set.u32.eq.u32`, the manual `set.eq.u32.u32`."""
    built = resolve("set.u32.eq.u32")
    assert built is not None
    (out,) = built.run(Ints(), (Int(5, 32), 5), (32,))
    assert out == Int(0xFFFFFFFF, 32)


def test_wider_destination_is_extended_by_its_type() -> None:
    a = Int(0x80, 16)
    for name, want in (("cvt.s8.s16", 0xFF80), ("cvt.u8.u16", 0x80)):
        built = resolve(name)
        assert built is not None
        assert built.run(Ints(), (a,), (16,)) == (Int(want, 16),)


def test_sinks_take_any_width() -> None:
    built = resolve("mov.b64")
    assert built is not None
    assert built.run(Ints(), (Int(2**32 + 7, 64),), (0, 32)) == (Int(7, 32), Int(1, 32))


def test_double_literals_of_single_precision_are_rounded() -> None:
    built = resolve("mov.f32")
    assert built is not None
    (out,) = built.run(Ints(), (0x3FF8000000000000,), (32,))  # 1.5
    assert out.value == 0x3FC00000
    (out,) = built.run(Ints(), (0x7FE0000000000000,), (32,))  # beyond the range
    assert out.value == 0x7F800000


@pytest.mark.parametrize("name", ["setp.lt.and.ftz.f32", "fma.rn.ftz.f32", "cvt.rzi.s32.f32"])
def test_floating_point_is_the_algebras(name: str) -> None:
    """The name that reaches the algebra tells all that changes the result."""
    seen: list[str] = []

    class Spy(Ints):
        def floating(self, name: str, width: int, operands: object) -> Int:
            seen.append(name)
            return Int(0, width)

    built = resolve(name)
    assert built is not None
    operands = [Int(0, width) for width in built.inputs]
    built.run(Spy(), operands, [0] * len(built.results))
    assert seen == [name.replace(".and", "")]


def test_wrong_number_of_operands_is_an_error() -> None:
    built = resolve("add.u32")
    assert built is not None
    with pytest.raises(ValueError, match="1 destinations and 3 sources"):
        built.run(Ints(), (1, 2, 3), (32,))
