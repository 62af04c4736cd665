"""Every form of every integer opcode against plain Python integers, in every algebra we have."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from ptxsw.semantics import Meaning, meaning, opcodes
from tests.semantics.ints import Int, Ints
from tests.semantics.reference import FORMS, Form


def name_of(form: Form) -> str:
    return f"{form.name}-{len(form.outputs)}-{len(form.inputs)}"


def resolve(name: str) -> Meaning | None:
    opcode, *modifiers = name.split(".")
    return meaning(opcode, tuple(modifiers))


def values(width: int) -> SearchStrategy[int]:
    """Values of a width, with a liking for the borders and for small numbers such as amounts."""
    top = 1 << width
    borders = {0, 1, 2, 7, 8, 31, 32, 33, 63, 64, 65, 255, 256, top // 2 - 1, top // 2, top - 1}
    few = sorted(border for border in borders if border < top)
    return st.one_of(st.sampled_from(few), st.integers(0, top - 1))


def sources(form: Form) -> SearchStrategy[tuple[int, ...]]:
    widths = (*form.inputs, *((1,) if form.carry_in else ()))
    return st.tuples(*(values(width) for width in widths))


def run_ints(form: Form, given_values: tuple[int, ...], literals: set[int]) -> tuple[int, ...]:
    """The result over plain integers; the sources named in `literals` come as literals."""
    built = resolve(form.name)
    assert built is not None, form.name
    operands: list[Int | int] = []
    for index, width in enumerate(form.inputs):
        value = given_values[index]
        operands.append(value if index in literals else Int(value, width))
    carry = Int(given_values[-1], 1) if form.carry_in else None
    out = built.run(Ints(), operands, form.outputs, carry)
    assert [o.width for o in out] == [*form.outputs, *((1,) if form.carry_out else ())]
    return tuple(o.value for o in out)


@pytest.mark.parametrize("form", FORMS, ids=name_of)
def test_plain_integers(form: Form) -> None:
    fixed = set() if form.literal is None else {form.literal}

    @settings(max_examples=15, deadline=None, database=None)
    @given(sources(form), st.sets(st.integers(0, len(form.inputs) - 1)))
    def check(operands: tuple[int, ...], literals: set[int]) -> None:
        assert run_ints(form, operands, literals | fixed) == form.reference(*operands)

    check()


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
