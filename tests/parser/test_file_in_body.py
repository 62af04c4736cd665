"""`.file` inside a body, as GCC writes it, has no semicolon and swallows nothing."""

from __future__ import annotations

import pytest

from ptxsw.parser import parse
from ptxsw.ptx.ir import Directive, Instruction, Loc
from tests.heads import head


@pytest.mark.parametrize("more", ["", ", 1234, 77", " // comment; with a semicolon"])
def test_file_ends_with_its_name(more: str) -> None:
    module = parse(
        head() + ".entry k()\n{\n.reg .b32 %r<3>;\n"
        f'mov.u32 %r1, 1;\n\t.file 2 "src/a.f90"{more}\n\t.loc 2 28 24\n'
        "\tadd.u32 %r2, %r1, 1;\nret;\n}\n"
    )
    body = module.functions[0].body
    assert [i.opcode for i in body.instructions] == ["mov", "add", "ret"]
    kinds = [type(s) for s in body.statements[1:]]
    assert kinds == [Instruction, Directive, Loc, Instruction, Instruction]
