"""Vectors of variables that are declared with less alignment than the vector needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptxsw.driver.pipeline import optimize
from ptxsw.toolchain import ptxas
from tests.rewrites.pair import is_proved, rewritten

FOUR = (Path(__file__).parents[1] / "regressions" / "ptx" / "vector_of_a_variable.ptx").read_text()
DECLARED = "\t.shared .align 4 .b8 tile[64];\n"
ENTRY = ".visible .entry"


def in_module(declaration: str) -> str:
    """The kernel with another declaration of the array, before it."""
    return FOUR.replace(DECLARED, "").replace(ENTRY, f"{declaration}\n{ENTRY}")


OTHER = ".visible .entry other() {\n.reg .b32 %r1;\nmov.u32 %r1, tile;\nret;\n}\n"
RAISED = {
    "in the kernel": (FOUR, ".shared .align 16 .b8 tile[64];"),
    "by its type": (
        FOUR.replace(DECLARED, "\t.shared .f32 tile[16];\n"),
        ".shared .align 16 .f32 tile[16];",
    ),
    "in the module": (
        in_module(".shared .align 4 .b8 tile[64];"),
        ".shared .align 16 .b8 tile[64];",
    ),
    "with values": (
        in_module(".global .align 4 .f32 tile[16] = {1.0, 2.0};").replace(
            "shared.f32", "global.f32"
        ),
        ".global .align 16 .f32 tile[16] = {1.0, 2.0};",
    ),
}
LEFT = {
    "of another module": in_module(".extern .shared .align 4 .b8 tile[];"),
    "seen by others": in_module(".visible .shared .align 4 .b8 tile[64];"),
    "of several kernels": in_module(".shared .align 4 .b8 tile[64];") + OTHER,
    "beside another": FOUR.replace(DECLARED, "\t.shared .align 4 .b8 more[4], tile[64];\n"),
    "where there is no room": FOUR.replace(
        DECLARED, "\t.shared .align 4 .b8 tile[68];\n\t.shared .align 4 .b8 more[49084];\n"
    ).replace("[tile], %f9", "[more], %f9"),
}


def assembles(text: str) -> bool:
    try:
        return bool(ptxas.assemble(text, "sm_80").cubin)
    except ptxas.NoPtxas as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize("case", RAISED)
def test_the_array_is_aligned_where_it_is_ours(case: str) -> None:
    text, declaration = RAISED[case]
    made = rewritten("vectorize", text).text
    assert declaration in made
    assert ".v4.f32 {%f1, %f2, %f3, %f4}, [tile+16];" in made
    assert "%sw_misaligned" not in made
    assert is_proved(text, made)
    assert assembles(made)


@pytest.mark.parametrize("case", LEFT)
def test_else_each_thread_asks(case: str) -> None:
    """Its address comes through `mov`, which alone takes the name of a variable."""
    text = LEFT[case]
    made = rewritten("vectorize", text).text
    assert "mov.b64 %sw_place1, tile+16;" in made
    assert "add.s64 %sw_place1, tile" not in made
    declarations = [line for line in text.splitlines() if " tile[" in line]
    assert all(line in made for line in declarations)
    assert is_proved(text, made)
    assert assembles(made)


def test_less_alignment_or_other_values_are_no_proof() -> None:
    text, _ = RAISED["with values"]
    assert is_proved(text, text.replace(".align 4 .f32 tile", ".align 32 .f32 tile"))
    assert not is_proved(text.replace(".align 4 .f32 tile", ".align 32 .f32 tile"), text)
    assert not is_proved(text, text.replace(".align 4 .f32 tile", ".align 16 .f32 tile").replace(
        "{1.0, 2.0}", "{1.0, 3.0}"
    ))  # fmt: skip
    seen = LEFT["seen by others"]
    assert not is_proved(seen, seen.replace(".align 4 .b8 tile", ".align 16 .b8 tile"))


def test_a_vector_without_alignment_is_no_proof() -> None:
    made = rewritten("vectorize", FOUR).text
    assert not is_proved(FOUR, made.replace(".align 16 .b8 tile", ".align 4 .b8 tile"))
    assert not is_proved(FOUR, made.replace(".align 16 .b8 tile", ".align 8 .b8 tile"))


def test_auto_may_align_too() -> None:
    assert assembles(optimize(FOUR).text)
