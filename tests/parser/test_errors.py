"""What a reader is told about text that is not PTX: the whole message, place and caret."""

from __future__ import annotations

import pytest

from ptxsw.parser import parse
from ptxsw.ptx.errors import ParseError
from tests.heads import head

HEAD = head("8.3") + ""
BODY = HEAD + ".entry k(.param .u64 p)\n{\n\t.reg .b32 %r<5>;\n\t.reg .b64 %rd<5>;\n%s\n}\n"


def _message(text: str) -> str:
    with pytest.raises(ParseError) as caught:
        for function in parse(text, "kernel.ptx").functions:
            _ = function.body
    return str(caught.value)


INSTRUCTIONS = {
    "\tld.global.u32 %r1, [%rd1+4;": (28, "expected ']' to close the address", ";"),
    "\tmov.b64 %rd1, {%r1, %r2;": (25, "expected ',' or '}' in the vector", ";"),
    "\tcall f, (%r1, %r2;": (19, "expected ',' or ')' in the list", ";"),
    "\tadd.s32 %r1, %r2, %r3\n\tret;": (2, "expected ',' or ';' after the operand", "ret;"),
    "\tadd.s32 %r1, , %r3;": (
        15,
        "expected an operand: a register, a name, a number, or '[', '{', '('",
        ", %r3;",
    ),
    "\tadd.s32 %r1, #3;": (
        15,
        "expected an operand: a register, a name, a number, or '[', '{', '('",
        "#3;",
    ),
    "\t@add.s32 %r1, %r2, 3;": (6, "expected an instruction after its guard", ".s32"),
    "\t@%q9 ret;": (3, "'%q9' is not a declared predicate register", "%q9"),
    "\tmov.u32 %r1, 99999999999999999999999;": (
        15,
        "expected an integer of at most 64 bits",
        "99999999999999999999999;",
    ),
    "\tmov.u32 %r1, -%r2;": (15, "expected a number after '-'", "-%r2;"),
    "\tmov.u32 %r1, /* 3;": (
        15,
        "expected '*/' to end the comment that begins here",
        "/* 3;",
    ),
    "\t.reg .v2 .b32 v; mov.b32 %r1, v.z;": (
        32,
        "the vector register v has .x and .y only",
        "v.z;",
    ),
    "\t.reg .v2 .b32 v; ld.u32 %r1, [v];": (
        32,
        "expected a register or a name as address, not a vector",
        "v];",
    ),
    "\tld.u32 %r1, [%rd1.u24];": (
        15,
        "expected a register or a name as address, not a part of one",
        "%rd1.u24];",
    ),
    "\tld.u32 %r1, [%rd9];": (15, "%rd9 is not a declared register or name", "%rd9];"),
    "\tld.u32 %r1, [%rd9+4];": (15, "%rd9 is not a declared register or name", "%rd9+4];"),
    "\tadd.s32 %r1, %r2, %r7;": (20, "'%r7' is not a declared register", "%r7;"),
    "\tadd.s32 %r1, r2, 1;": (15, "'r2' is not a declared register", "r2, 1;"),
    "\tmov.u32 %r1, %tod.x;": (15, "'%tod' is not a declared register", "%tod.x;"),
    "\t{ .reg .b32 %q, %u; }\n\tmov.u32 %r1, %q;": (15, "'%q' is not a declared register", "%q;"),
    "\tadd.s32 %r1, %r2;": (2, "'add.s32' takes 3 operands, not 2", "add.s32 %r1, %r2;"),
    "\tadd.s32 %r1, [%rd1+8], %r2;": (
        15,
        "'add.s32' takes a register or a number here, not an address in brackets",
        "[%rd1+8]",
    ),
    "\tadd.s32 %r1, %r2, %tid;": (
        20,
        "'add.s32' takes a register or a number here, "
        "not a vector: name a part of it, as in %tid.x",
        "%tid;",
    ),
    "\tcvta.to.global.u64 %rd1, {%r1, %r2};": (
        27,
        "'cvta.to.global.u64' takes a register, a number or a name here, not a vector",
        "{%r1",
    ),
    "\tadd.s32 5, %r1, %r2;": (
        10,
        "'add.s32' takes a register to write here, not a number",
        "5,",
    ),
    "\tld.global.u32 %r1, %rd1;": (
        21,
        "'ld.global.u32' takes an address in brackets here, not a register",
        "%rd1;",
    ),
    "\tcall 5, (%r1);": (7, "'call' takes a name or a register here, not a number", "5,"),
    "\tcall (%r1);": (2, "'call' needs a function to call", "call (%r1);"),
    "\tmov.b64 %rd1, {%r1, [%rd2]};": (
        23,
        "expected a register, a name or a number in a vector",
        "%rd2]};",
    ),
    "\tld.u32 %r1, [!%r2];": (
        16,
        "expected a register, a name or a number as address",
        "%r2];",
    ),
    "\t.reg .v8 .b32 v;": (2, "a vector register has 2 or 4 elements", ".reg"),
    "\tbra NOWHERE;": (6, "'NOWHERE' is not a label of this function", "NOWHERE;"),
    "\tbra %r1;": (6, "'bra' needs one label", "%r1;"),
    "\tbrx.idx %r1;": (2, "'brx.idx' needs an index and a table of labels", "brx.idx %r1;"),
    "\t5 add;": (2, "expected an instruction, a label or a directive", "5 add;"),
    "\t.reg .b32;": (11, "expected a name", ";"),
    "\t.reg %r9;": (7, "expected a type such as .b32 before the name", "%r9;"),
    "\t.loc one;": (2, "expected file, line and column numbers after .loc", ".loc one;"),
    '\t.pragma "nounroll"': (2, "expected ';' to end the directive", '.pragma "nounroll"'),
}


@pytest.mark.parametrize("line", [line for line, expected in INSTRUCTIONS.items() if expected])
def test_in_a_body(line: str) -> None:
    expected = INSTRUCTIONS[line]
    assert expected is not None
    column, message, rest = expected
    first, *others = _message(BODY.replace("%s", line)).split("\n")
    number = 8 + line[: line.find(rest)].count("\n") if rest in line else 8
    shown = line.split("\n")[number - 8]
    assert first == f"kernel.ptx:{number}:{column}: {message}"
    assert others[0] == f"{number:5d} | {shown}"
    assert others[1].rstrip("^") == "      | " + "\t" + " " * (column - 2)
    assert shown[column - 1 :].startswith(rest.split("\n")[0])


def test_the_whole_text() -> None:
    assert _message(BODY.replace("%s", "\tld.global.f32 %r1, [%rd1+4;")) == (
        "kernel.ptx:8:28: expected ']' to close the address\n"
        "    8 | \tld.global.f32 %r1, [%rd1+4;\n"
        "      | \t                          ^"
    )


MODULES = {
    "": "kernel.ptx:1:1: expected .version at the start of a PTX module\n    1 | \n      | ^",
    "hello\n": (
        "kernel.ptx:1:1: expected .version at the start of a PTX module\n    1 | hello\n      | ^"
    ),
    "dir/kernel.ptx": (
        "kernel.ptx:1:1: expected .version at the start of a PTX module; this is the name of a "
        "file: pass what the file holds\n    1 | dir/kernel.ptx\n      | ^"
    ),
    "__global__ void k();\n": (
        "kernel.ptx:1:1: expected .version at the start of a PTX module; this is CUDA: compile it "
        "with nvcc -ptx\n    1 | __global__ void k();\n      | ^"
    ),
    ".version eight\n": (
        "kernel.ptx:1:1: expected a version such as .version 8.3\n"
        "    1 | .version eight\n      | ^^^^^^^^"
    ),
    ".target sm_80\n": (
        "kernel.ptx:1:1: expected .version before anything else\n"
        "    1 | .target sm_80\n      | ^^^^^^^"
    ),
    "\ufeff" + HEAD: (
        "kernel.ptx:1:1: byte order mark: PTX is plain ASCII, and ptxas takes none\n"
        "    1 | \\ufeff.version 8.3\n      | ^^^^^^"
    ),
    HEAD + "/* .entry k() { ret; }\n": (
        "kernel.ptx:4:1: expected '*/' to end the comment that begins here\n"
        "    4 | /* .entry k() { ret; }\n      | ^^"
    ),
    HEAD + "add.s32 a, b, c;\n": (
        "kernel.ptx:4:1: expected a directive such as .entry, .func or .global\n"
        "    4 | add.s32 a, b, c;\n      | ^"
    ),
    HEAD + ".entry k()\n{\n\tret;\n": (
        "kernel.ptx:5:1: expected '}' to close the body that begins here\n    5 | {\n      | ^"
    ),
    HEAD + ".entry k(.param .u64 a\n{\n\tret;\n}\n": (
        "kernel.ptx:4:23: expected ',' or ')' in the list\n"
        "    4 | .entry k(.param .u64 a\n      |                       ^"
    ),
    HEAD + ".entry k() 5 { ret; }\n": (
        "kernel.ptx:4:12: expected '{', ';' or a directive such as .reqntid\n"
        "    4 | .entry k() 5 { ret; }\n      |            ^"
    ),
    HEAD + ".global .u32 a\n": (
        "kernel.ptx:4:1: expected ';' to end the declaration\n"
        "    4 | .global .u32 a\n      | ^^^^^^^"
    ),
    HEAD + ".global .u32 a[4;\n": (
        "kernel.ptx:4:15: expected ',' or ';' after the name\n"
        "    4 | .global .u32 a[4;\n      |               ^"
    ),
    HEAD + ".reg .pred %p<8>;\n": (
        "kernel.ptx:4:1: registers are declared inside functions only\n"
        "    4 | .reg .pred %p<8>;\n      | ^^^^^^^^^^^^^^^^^"
    ),
    HEAD + ".section .debug_info\n.b8 1\n": (
        "kernel.ptx:4:1: expected '{' after the name of the section\n"
        "    4 | .section .debug_info\n      | ^^^^^^^^"
    ),
    HEAD + ".file one\n": (
        'kernel.ptx:4:1: expected a number and a name: .file 1 "kernel.cu"\n'
        "    4 | .file one\n      | ^^^^^"
    ),
    HEAD + ".entry k() { { ret; }\n": (
        "kernel.ptx:4:12: expected '}' to close the body that begins here\n"
        "    4 | .entry k() { { ret; }\n      |            ^"
    ),
    HEAD + "\0.entry k() { }\n": (
        "kernel.ptx:4:1: NUL character inside the text\n    4 | \\x00.entry k() { }\n      | ^^^^"
    ),
}


@pytest.mark.parametrize("text", list(MODULES), ids=range(len(MODULES)))
def test_of_a_module(text: str) -> None:
    assert _message(text) == MODULES[text]


@pytest.mark.parametrize("parameters", [".param .u64 a,", ".param.u64 a, ", ", .param .u64 a", ","])
def test_comma_without_a_parameter(parameters: str) -> None:
    with pytest.raises(ParseError):
        parse(
            f".version 8.3\n.target sm_80\n.address_size 64\n.entry k({parameters})\n{{\nret;\n}}\n"
        )
