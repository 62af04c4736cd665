"""Sizes and alignments in declarations, as all integer literals that PTX has (manual 4.5.1)."""

from __future__ import annotations

import pytest

from ptxsw.parser import parse
from ptxsw.ptx.errors import ParseError
from ptxsw.ptx.ir import Variable
from tests.heads import head

PLACES = {
    "module": ".global {}; .visible .entry k() {{ ret; }}",
    "body": ".visible .entry k() {{ .shared {}; ret; }}",
    "parameter": ".visible .entry k(.param {}) {{ ret; }}",
}


def declared(place: str, declaration: str) -> Variable:
    module = parse(head("8.0", "sm_80") + PLACES[place].format(declaration))
    kernel = module.kernels[0]
    found = {"module": module.variables, "body": kernel.body.variables, "parameter": kernel.params}
    return found[place][0]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("declaration", "align", "size"),
    [
        (".align 16 .b8 t[20]", 16, 20),
        (".align 0x10 .b8 t[0X20]", 16, 32),
        (".align 020 .b8 t[010][2]", 16, 16),
        (".align 0b100 .b8 t[0B11]", 4, 3),
        (".align 4U .b8 t[12U]", 4, 12),
    ],
)
def test_every_literal(place: str, declaration: str, align: int, size: int) -> None:
    variable = declared(place, declaration)
    assert (variable.align, variable.size) == (align, size)


@pytest.mark.parametrize(("written", "count"), [("5", 5), ("010", 8), ("0x10", 16)])
def test_numbers_of_registers(written: str, count: int) -> None:
    kernel = f".visible .entry k() {{\n\t.reg .b32 %r<{written}>;\n\tret;\n}}"
    assert parse(head("8.0", "sm_80") + kernel).kernels[0].body.variables[0].count == count


def test_what_a_pointer_points_to() -> None:
    assert "align 16" in declared("parameter", ".u64 .ptr .global .align 0x10 a").attributes


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("declaration", [".align 08 .b8 t[4]", ".align 4 .b8 t[09]"])
def test_no_eight_in_octal(place: str, declaration: str) -> None:
    with pytest.raises(ParseError, match="is not a number: a leading 0 makes it octal"):
        declared(place, declaration)
