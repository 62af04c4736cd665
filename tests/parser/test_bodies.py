"""Names, scopes, literals and statements of a body."""

from __future__ import annotations

import pytest

from ptxsw.parser import body, parse
from ptxsw.ptx.ir import (
    Args,
    Body,
    Close,
    Directive,
    Float,
    Guard,
    Instruction,
    Int,
    Label,
    Loc,
    Mem,
    Not,
    Open,
    Operand,
    Pair,
    Reg,
    RegisterPart,
    Sink,
    Special,
    Sum,
    Symbol,
    Variable,
    Vec,
)
from ptxsw.ptx.source import Source
from tests.heads import head

HEAD = head("8.3") + ".global .u32 arr[16];\n"
REGS = ".reg .b32 %r<5>, q;\n.reg .b64 %rd<3>;\n.reg .pred %p<3>;\n.reg .v2 .b64 %v;\n"


def _body(text: str) -> Body:
    module = parse(HEAD + ".entry k(.param .u64 pp, .param .u64 %in) {\n" + REGS + text + "\n}\n")
    return module.functions[0].body


def _operands(text: str) -> tuple[Operand, ...]:
    return _body(f"op {text};").instructions[0].operands


R1, R2, RD1 = Reg("%r1"), Reg("%r2"), Reg("%rd1")
OPERANDS: dict[str, Operand] = {
    "%r1": R1,
    "q": Reg("q"),
    "%r4": Reg("%r4"),
    "%tid.x": Special("%tid.x"),
    "%tid .x": Special("%tid.x"),
    "%laneid": Special("%laneid"),
    "WARP_SZ": Int(32),
    "arr": Symbol("arr"),
    "arr+4": Symbol("arr", 4),
    "arr[3]": Symbol("arr", 12),
    "pp": Symbol("pp"),
    "%in": Symbol("%in"),
    "LABEL": Symbol("LABEL"),
    "$L__BB0_1": Symbol("$L__BB0_1"),
    "0": Int(0),
    "42": Int(42),
    "-7": Int(-7),
    "- 7": Int(-7),
    "0x1F": Int(31),
    "0X1fU": Int(31),
    "017": Int(15),
    "0b101": Int(5),
    "2U": Int(2),
    "18446744073709551615": Int(2**64 - 1),
    "-9223372036854775808": Int(-(2**63)),
    "3+4*2": Int(11),
    "(3+4)*2": Int(14),
    "-7/2": Int(-3),
    "-7%2": Int(-1),
    "1<<4|3": Int(19),
    "~0": Int(-1),
    "!3": Int(0),
    "4>3?1:2": Int(1),
    "1&&0||1": Int(1),
    "(.u64)-1": Int(2**64 - 1),
    "0f3F800000": Float(0x3F800000, 32),
    "0F3f800000": Float(0x3F800000, 32),
    "0dBFF0000000000000": Float(0xBFF0000000000000, 64),
    "1.5": Float(0x3FF8000000000000, 64),
    "-1.5": Float(0xBFF8000000000000, 64),
    "1e3": Float(0x408F400000000000, 64),
    "[%rd1]": Mem(RD1),
    "[%rd1+8]": Mem(RD1, 8),
    "[ %rd1 + 8 ]": Mem(RD1, 8),
    "[%rd1+-8]": Mem(RD1, -8),
    "[%rd1-8]": Mem(RD1, -8),
    "[%rd1+4*2]": Mem(RD1, 8),
    "[arr+0x10]": Mem(Symbol("arr"), 16),
    "[arr+4+4]": Mem(Symbol("arr"), 8),
    "[4]": Mem(Int(4)),
    "[%rd1, {%r1, %r2}]": Mem(RD1, 0, (Vec((R1, R2)),)),
    "[arr, %r1]": Mem(Symbol("arr"), 0, (R1,)),
    "[%rd1].unified": RegisterPart(Mem(RD1), "unified"),
    "{%r1, %r2}": Vec((R1, R2)),
    "{%r1,%r2}": Vec((R1, R2)),
    "{ %r1 }": Vec((R1,)),
    "{_, 3, 0f00000000}": Vec((Sink(), Int(3), Float(0, 32))),
    "%p1|%p2": Pair(Reg("%p1"), Reg("%p2")),
    "_|%p2": Pair(Sink(), Reg("%p2")),
    "%p1 | %p2": Pair(Reg("%p1"), Reg("%p2")),
    "!%p1": Not(Reg("%p1")),
    "_": Sink(),
    "%v": Vec((Reg("%v.x"), Reg("%v.y"))),
    "%v.x": Reg("%v.x"),
    "%v.g": Reg("%v.y"),
    "{%v.y, %v.x}": Vec((Reg("%v.y"), Reg("%v.x"))),
    "%r1.b0": RegisterPart(R1, "b0"),
    "%r1+4": Sum(R1, 4),
    "(%r1, pp)": Args((R1, Symbol("pp"))),
    "()": Args(()),
}


@pytest.mark.parametrize("text", OPERANDS)
def test_operand(text: str) -> None:
    assert _operands(text) == (OPERANDS[text],)
    # The same beside others, with a comment, and split over lines.
    assert _operands(f"%r1, {text},%r2") == (R1, OPERANDS[text], R2)
    assert _operands(f"%r1 /* ; */ ,\n\t{text} // }}\n, %r2") == (R1, OPERANDS[text], R2)


def test_equal_texts_share_an_object() -> None:
    first, second = _body("op [%rd1+8];\nop [%rd1+8];").instructions
    assert first.operands[0] is second.operands[0]


def test_guard_and_modifiers() -> None:
    (line,) = _body("@!%p1 ld.global.L2::128B.v2.f32 {%r1, %r2}, [%rd1];").instructions
    assert line.guard == Guard(Reg("%p1"), True)
    assert (line.opcode, line.modifiers) == ("ld", ("global", "L2::128B", "v2", "f32"))
    assert line.name == "ld.global.L2::128B.v2.f32"
    assert _body("@ %p1 mov .u32 %r1, 2;").instructions[0].name == "mov.u32"


def test_calls() -> None:
    (call,) = _body("call.uni (q),\nf,\n(\n%r1,\npp\n)\n;").instructions
    assert call.operands == (Args((Reg("q"),)), Symbol("f"), Args((R1, Symbol("pp"))))


NESTED = """op q;
{
  .reg .b32 q; // shadows
  op q;
  {{
    op q; .reg .b32 %r<2>; op %r1;
  }}
  .param .b32 q2; op q2;
}
op q, q2;
"""


def test_scopes() -> None:
    found = _body(NESTED.replace("{{", "{").replace("}}", "}"))
    operands = [i.operands for i in found.instructions]
    assert operands == [
        (Reg("q"),),
        (Reg("q", 1),),
        (Reg("q", 1),),
        (Reg("%r1", 2),),
        (Symbol("q2", 0, 1),),
        (Reg("q"), Symbol("q2")),
    ]
    marks = [(type(s), s.scope) for s in found.statements if isinstance(s, Open | Close)]
    assert marks == [(Open, 1), (Open, 2), (Close, 2), (Close, 1)]
    assert found.width(Reg("q", 1)) == 32 and found.width(RD1) == 64
    assert found.declaration(Reg("%r1", 2)) != found.declaration(R1)
    assert found.declaration(Reg("%r9")) is None


def test_a_late_declaration_shadows_from_there_on() -> None:
    found = _body("{ op q; .reg .b32 q; op q; }")
    assert [i.operands for i in found.instructions] == [(Reg("q"),), (Reg("q", 1),)]


def test_names_of_the_scope_between() -> None:
    found = _body("op q;\n{ .reg .b32 q; { op q; { op q, %r1; } } op %r2, q; }\nop q;")
    shadow = Reg("q", 1)
    assert [i.operands for i in found.instructions] == [
        (Reg("q"),),
        (shadow,),
        (shadow, R1),
        (R2, shadow),
        (Reg("q"),),
    ]


def test_labels_belong_to_their_scope() -> None:
    found = _body("{ bra L; L: bra OUT; }\n{ L:\nbra L; }\nOUT: bra L;\nL: ret;")
    assert [i.operands for i in found.instructions if i.operands] == [
        (Symbol("L", 0, 1),),
        (Symbol("OUT"),),
        (Symbol("L", 0, 2),),
        (Symbol("L"),),
    ]
    assert [(s.name, s.scope) for s in found.statements if type(s) is Label] == [
        ("L", 1),
        ("L", 2),
        ("OUT", 0),
        ("L", 0),
    ]


def test_other_statements() -> None:
    found = _body(
        '.loc 1 22 3\n.loc 2 5 7, function_name $L_s+4, inlined_at 1 2 3 // x\n.pragma "a;b";\n'
        "ts: .branchtargets L1, L2;\nbrx.idx %r1, ts;\nL1: L2: ret;\n"
        "p0 : .callprototype (.param .b32 _) _ (.param .b64 _);\n.shared .align 4 .b8 buf[8][];"
    )
    kinds = [s for s in found.statements if not isinstance(s, Variable)]
    assert [(s.file, s.line, s.column) for s in kinds if type(s) is Loc] == [(1, 22, 3), (2, 5, 7)]
    directives = [s for s in kinds if type(s) is Directive]
    assert [(d.name, d.label, d.names) for d in directives] == [
        ("pragma", None, ()),
        ("branchtargets", "ts", ("L1", "L2")),
        ("callprototype", "p0", ()),
    ]
    (buffer,) = (v for v in found.variables if v.space == "shared")
    assert (buffer.align, buffer.type, buffer.dims) == (4, "b8", (8, None))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_ends(end: str) -> None:
    text = HEAD + ".entry k() {\n\t.reg .b32 %r<3>;\n\tmov.u32 %r1, 1;\nL:\n\tbra L;\n}\n"
    found = parse(text.replace("\n", end)).functions[0].body
    assert [i.name for i in found.instructions] == ["mov.u32", "bra"]
    assert found.instructions[0].operands == (R1, Int(1))


def test_functions_and_module() -> None:
    module = parse(
        HEAD.replace("sm_80", "sm_90a, debug")
        + '.file 1 "a {b.cu", 5, 6\n.extern .func (.param .b32 r) ext (.param .b64 a) .noreturn;\n'
        ".visible .entry k(.param .u64 .ptr .global .align 16 p, .param .align 8 .b8 q[40])\n"
        '.reqntid 32, 1, 1 .minnctapersm 2 .pragma "x;"; // {\n{ ret; }\n'
        ".func g (.reg .u32 %a) { add.u32 %a, %a, 1; }\n"
        ".weak .global .align 4 .u32 a = 1, b[2] = {2, 3};\n.alias f, g;\n"
        '.section .debug_str { .b8 1, 2 }\n.newthing "in PTX 12"\n'
    )
    assert (module.version, module.targets, module.sm) == ((8, 3), ("sm_90a", "debug"), 90)
    assert module.files == {1: "a {b.cu"}
    ext, kernel, helper = module.functions
    assert (ext.kind, ext.linkage, ext.body_span) == ("func", ("extern",), None)
    assert ext.directives == (("noreturn", ""),) and ext.returns[0].name == "r"
    assert ext.body.statements == ()
    assert kernel.directives == (("reqntid", "32, 1, 1"), ("minnctapersm", "2"), ("pragma", '"x;"'))
    assert kernel.params[0].attributes == ("ptr", "global", "align 16")
    assert (kernel.params[0].align, kernel.params[1].align) == (None, 8)
    assert helper.body.instructions[0].operands == (Reg("%a"), Reg("%a"), Int(1))
    assert helper.body.width(Reg("%a")) == 32
    assert [(v.name, v.initialised) for v in module.variables] == [
        ("arr", False),
        ("a", True),
        ("b", True),
    ]
    assert [d.name for d in module.directives] == ["address_size", "alias", "section", "newthing"]
    assert body(module, kernel) is kernel.body
    alone = body(Source(module.source.text), kernel)
    assert alone.statements == kernel.body.statements
    assert kernel.body.never_return == {"ext"} and not alone.never_return


def test_families_with_digits_in_their_stem() -> None:
    found = _body(".reg .b32 t1<12>, %x2_<3>;\nop t111, t112, %x2_2;")
    assert found.instructions[0].operands == (Reg("t111"), Symbol("t112"), Reg("%x2_2"))
    assert found.width(Reg("t111")) == 32


def test_nodes_made_quickly_are_nodes() -> None:
    (line,) = _body("@%p1 add.s32 %r1, %r2, 3;").instructions
    made = Instruction("add", ("s32",), (R1, R2, Int(3)), Guard(Reg("%p1")), *line.span)
    assert line == made and hash(line) == hash(made) and repr(line) == repr(made)
    with pytest.raises(AttributeError):
        line.opcode = "sub"  # type: ignore[misc]


OLD = """\t.version 1.4
\t.target sm_10, map_f64_to_f32
\t// compiled with open64
\t.tex .u32 image;
\t.entry _Z3addPf (
\t\t.param .u32 __cudaparm__Z3addPf_a)
\t{
\t.reg .u16 $rh<4>;
\t.reg .u32 $r<6>;
\t.reg .f32 $f<3>;
\t.loc\t28\t3\t0
$LBB1__Z3addPf:
\tcvt.u32.u16 \t$r1, %tid.x;       \t//
\tld.param.u32 \t$r2, [__cudaparm__Z3addPf_a];\t// id:9 __cudaparm__Z3addPf_a+0x0
\tmad24.lo.u32 \t$r3, $r1, 4, $r2; \t// { not a brace
\tld.global.f32 \t$f1, [$r3+0];    \t// id:10
\tst.global.f32 \t[$r3+0], $f1;    \t// id:11
\texit;                         \t//
$LDWend__Z3addPf:
\t} // _Z3addPf
@@DWARF\t.section .debug_info
@@DWARF\t.4byte 12
"""


def test_ptx_1() -> None:
    module = parse(OLD)
    assert (module.version, module.address_size, module.sm) == ((1, 4), 64, 10)
    lines = module.functions[0].body.instructions
    assert [i.opcode for i in lines] == ["cvt", "ld", "mad24", "ld", "st", "exit"]
    assert lines[3].operands == (Reg("$f1"), Mem(Reg("$r3")))
    assert [d.name for d in module.directives] == ["@@DWARF", "@@DWARF"]
    assert module.variables[0].space == "tex"


def test_a_local_array_is_no_loc() -> None:
    (array,) = _body(".local .b8 x[4] /* four */;").variables[-1:]
    assert (array.space, array.name, array.dims) == ("local", "x", (4,))


def test_a_comment_that_holds_the_end_of_a_line() -> None:
    module = parse(HEAD + ".entry k() {\n.reg .b32 r;\n/* a;\n b;\n */ mov.u32 r, 1;\nret;\n}\n")
    first, second = module.functions[0].body.instructions
    assert module.source.slice(first.span) == "mov.u32 r, 1;"
    assert module.source.slice(second.span) == "ret;"


def test_many_names_of_a_nested_scope_are_its_own() -> None:
    """However many lines declare something there, also where names of their own are outside."""
    declared = "\n".join(f"\t.param .b64 param{n};" for n in range(20))
    stored = "\n".join(f"\tst.param.b64 \t[param{n}], %rd1;" for n in range(20))
    text = (
        ".version 8.3\n.target sm_80\n.address_size 64\n.entry k()\n{\n"
        "\t.reg .b64 \t%rd<2>;\n\t.param .b64 param3;\n\tst.param.b64 \t[param3], %rd1;\n"
        f"\t{{\n{declared}\n{stored}\n\t}}\n\tst.param.b64 \t[param3], %rd1;\n\tret;\n}}\n"
    )
    body = parse(text).functions[0].body
    stores = [i.operands[0] for i in body.instructions if i.opcode == "st"]
    assert all(isinstance(each, Mem) and isinstance(each.base, Symbol) for each in stores)
    scopes = [each.base.scope for each in stores if isinstance(each, Mem)]  # type: ignore[union-attr]
    assert scopes == [0, *[1] * 20, 0]


@pytest.mark.parametrize("offset", [4, -4, 0, 10**17, -(10**17)])
def test_offset_of_an_address(offset: int) -> None:
    text = (
        ".version 8.3\n.target sm_80\n.address_size 64\n.entry k()\n{\n\t.reg .b64 \t%rd<2>;\n"
        f"\tld.global.b64 \t%rd1, [%rd1+{offset}];\n\tret;\n}}\n"
    )
    operand = parse(text).functions[0].body.instructions[0].operands[1]
    assert operand == Mem(Reg("%rd1"), offset)


def test_instructions_without_operands_and_parts_of_special_registers() -> None:
    text = (
        ".version 8.3\n.target sm_80\n.address_size 64\n.entry k( )\n{\n\t.reg .pred \t%p<2>;\n"
        "\t.reg .b32 \t%r<2>;\n\tmov.u32 \t%r1, %tid.x;\n\t@%p1 ret;\n\texit ;\n\tret;\n\n}\n"
    )
    moved, *bare = parse(text).functions[0].body.instructions
    assert moved.operands == (Reg("%r1"), Special("%tid.x"))
    assert [(i.opcode, i.operands) for i in bare] == [("ret", ()), ("exit", ()), ("ret", ())]
    assert [text[i.start : i.end] for i in bare] == ["@%p1 ret;", "exit ;", "ret;"]
    assert bare[0].guard == Guard(Reg("%p1"))
