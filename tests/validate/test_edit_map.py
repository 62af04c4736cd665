"""Which places of one text are which of another."""

from __future__ import annotations

from ptxsw.parser import parse
from ptxsw.ptx.ir import Body
from ptxsw.validate.edit_map import infer

LOOP = """LOOP:
add.u32 %r1, %r1, {step};
setp.lt.u32 %p1, %r1, 9;
@%p1 bra HALF;
add.u32 %r2, %r2, 1;
HALF:
setp.lt.u32 %p1, %r1, 30;
@%p1 bra LOOP;
"""
TWICE = """@%p2 bra OVERLAP;
mov.u32 %r1, 0;
@%p3 bra END;
{first}
END:
ret;
OVERLAP:
{{
mov.u32 %r1, 0;
@%p3 bra END;
{second}
END:
ret;
}}
"""


def body(text: str) -> Body:
    head = ".version 8.0\n.target sm_80\n.address_size 64\n.entry k()\n{\n"
    registers = ".reg .pred %p<9>;\n.reg .b32 %r<9>;\n"
    return parse(f"{head}{registers}{text}}}\n").kernels[0].body


def fast_and_slow(loop: str, number: int) -> str:
    """A loop that stands twice: first in a scope of its own."""
    return (
        f"@!%p4 bra SLOW{number};\n{{\n{loop}}}\nbra.uni DONE{number};\n"
        f"SLOW{number}:\n{loop}DONE{number}:\n"
    )


def test_copies_in_scopes_belong_to_the_loop_beside_them() -> None:
    """The first text has a loop in a scope, too, which looks more like the copy of the other."""
    loops = [LOOP.format(step=step) for step in (1, 2)]
    old = body(TWICE.format(first=loops[0], second=loops[1]))
    copies = [fast_and_slow(loop, number) for number, loop in enumerate(loops)]
    new = body(TWICE.format(first=copies[0], second=copies[1]))
    images = infer(old, new).images
    begin = [at for at, i in enumerate(old.instructions) if i.opcode == "add"]
    other = [at for at, i in enumerate(new.instructions) if i.opcode == "add"]
    # Of each loop the first of two additions is where it begins; control comes from the branch
    # before it, which has an image, too.
    assert images[begin[0]] == {other[0] - 1, other[0], other[2]}
    assert images[begin[2]] == {other[4] - 1, other[4], other[6]}
