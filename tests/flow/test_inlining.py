"""Functions in place of their calls, and variables of a thread as registers."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from msgspec.structs import replace

from ptxsw.flow.cfg import build
from ptxsw.flow.inlining import inlined, with_body, without_own_calls
from ptxsw.flow.promotion import promoted
from ptxsw.parser import parse
from ptxsw.ptx.ir import Body, Function, Module, Reg
from ptxsw.simt import launch

ADD = """.func (.param .b32 sum) add(.param .b32 a, .param .b32 b)
{
    .reg .b32 %r<4>;
    ld.param.u32 %r1, [a];
    ld.param.u32 %r2, [b];
    add.u32 %r3, %r1, %r2;
    st.param.b32 [sum], %r3;
    ret;
}
"""


def module(body: str, ahead: str = "") -> Module:
    return parse(f""".version 8.0
.target sm_80
.address_size 64
{ahead}.visible .entry k(.param .u64 out)
{{
.reg .pred %p<4>;
.reg .b16 %h<9>;
.reg .b32 %r<9>;
.reg .b64 %d<9>;
ld.param.u64 %d1, [out];
mov.u32 %r1, %tid.x;
mul.wide.u32 %d2, %r1, 8;
add.u64 %d1, %d1, %d2;
{body}
ret;
}}
""")


def call(name: str, *values: str, result: str = "") -> str:
    """A call as LLVM writes it."""
    lines = ["{"]
    for at, value in enumerate(values):
        lines += [f".param .b32 param{at};", f"st.param.b32 [param{at}+0], {value};"]
    given = ", ".join(f"param{at}" for at in range(len(values)))
    if result:
        lines += [".param .b32 retval0;", f"call.uni (retval0), {name}, ({given});"]
        lines += [f"ld.param.b32 {result}, [retval0+0];"]
    else:
        lines.append(f"call.uni {name}, ({given});")
    return "\n".join([*lines, "}"])


def whole(text: Module) -> Function:
    function = inlined(text, text.kernels[0])
    return with_body(function, promoted(function.body))


def names(function: Function) -> list[str]:
    return [i.name for i in function.body.instructions]


def runs(text: Module) -> tuple[bytes, bytes]:
    """What four threads leave in memory, as the text has it and in one piece."""
    kernel, left = text.kernels[0], []
    others = tuple(whole(text) if f is kernel else f for f in text.functions)
    for each in (text, replace(text, functions=others)):
        out = np.arange(8, dtype=np.uint32)
        launch(each, "k", (1, 1, 1), (4, 1, 1), (out,), counters=False)
        left.append(out.tobytes())
    return left[0], left[1]


def test_a_function_stands_where_it_is_called() -> None:
    text = module(call("add", "%r1", "7", result="%r2") + "st.global.u32 [%d1], %r2;", ADD)
    function = whole(text)
    assert names(function)[4:] == [
        "mov.b32", "mov.b32", "mov.b32", "mov.b32", "add.u32", "mov.b32", "bra", "mov.b32",
        "st.global.u32", "ret",
    ]  # fmt: skip
    lines = [text.source.line(i.start) for i in function.body.instructions]
    assert lines[6:10] == [7, 8, 9, 10]  # of the function
    first, second = runs(text)
    assert first == second


def test_what_a_linker_may_replace_stays_a_call() -> None:
    body = call("add", "%r1", "7", result="%r2")
    text = module(body, ADD.replace(".func", ".weak .func", 1))
    function, copies = without_own_calls(text, text.kernels[0])
    assert "call.uni" in names(function)
    assert copies == ()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # By its address a function changes its own copy of a parameter, not the caller's variable.
        ("ld.param.u32 %r1, [a];", ".reg .b64 %d1;\nmov.b64 %d1, a;\nld.local.u32 %r1, [%d1];"),
        ("(retval0), add, (param0, param1)", "(param0), add, (param0, param1)"),
    ],
)
def test_calls_whose_variables_a_copy_would_share(old: str, new: str) -> None:
    body = call("add", "%r1", "7", result="%r2")
    text = module(body, ADD)
    assert without_own_calls(text, text.kernels[0])[1]
    text = module(body.replace(old, new), ADD.replace(old, new))
    assert without_own_calls(text, text.kernels[0])[1] == ()


def test_copies_are_known_by_their_scopes() -> None:
    """Outer ones first, each with the number of the one around it."""
    outer = f""".func outer(.param .b32 a)
{{
    .reg .b32 %r<9>;
    ld.param.u32 %r1, [a];
    {call("add", "%r1", "1", result="%r2")}
    {call("add", "%r2", "2", result="%r3")}
    ret;
}}
"""
    text = module(call("outer", "%r1") + call("add", "%r1", "7", result="%r2"), ADD + outer)
    function, copies = without_own_calls(text, text.kernels[0])
    assert [(c.callee.name, c.around) for c in copies] == [
        ("outer", None), ("add", 0), ("add", 0), ("add", None)
    ]  # fmt: skip
    for index, instruction in enumerate(function.body.instructions):
        if instruction.name == "add.u32":
            scope = instruction.operands[0].scope  # type: ignore[union-attr]
            within = [n for n, copy in enumerate(copies) if scope in copy.scopes]
            assert len(within) == 1 and copies[within[0]].callee.name == "add", index


def test_each_call_has_variables_of_its_own_and_all_share_static_ones() -> None:
    count = """.func f(.param .b32 a)
{
    .shared .b32 s;
    .local .b32 own;
    .reg .b32 %r<3>;
    ld.param.u32 %r1, [a];
    st.local.u32 [own], %r1;
    st.shared.u32 [s], %r1;
    ret;
}
"""
    function = whole(module(call("f", "1") + call("f", "2"), count))
    scopes = {(v.name, v.scope) for v in function.body.variables if v.name in ("s", "own")}
    assert len([v for v in scopes if v[0] == "s"]) == 1
    assert len([v for v in scopes if v[0] == "own"]) == 2


def test_a_guarded_call_and_early_returns() -> None:
    early = """.func f(.param .b32 a)
{
    .reg .pred %p;
    .reg .b32 %r<3>;
    .reg .b64 %d<3>;
    ld.param.u32 %r1, [a];
    setp.eq.u32 %p, %r1, 2;
    @%p ret;
    trap;
}
"""
    text = module("setp.eq.u32 %p1, %r1, 9; @%p1 call f, (1);", early)
    function = whole(text)
    assert names(function).count("bra") == 2 and "call" not in names(function)
    first, second = runs(text)
    assert first == second


TWICE = f"""{ADD}.func (.param .b32 o) twice(.param .b32 i)
{{
    .reg .b32 %r<3>;
    ld.param.b32 %r1, [i];
    {{ .param .b32 a; st.param.b32 [a], %r1; .param .b32 b; st.param.b32 [b], %r1;
    .param .b32 s; call (s), add, (a, b); ld.param.b32 %r2, [s]; }}
    st.param.b32 [o], %r2;
    ret;
}}
"""
FUNCTIONS = {
    "registers": ("call (%r2), f, (%r1, 7);",
        ".func (.reg .b32 s) f(.reg .b32 a, .reg .b32 b) { add.u32 s, a, b; ret; }\n"),
    "registers, in some threads": (
        "mov.u32 %r2, 9; setp.eq.u32 %p1, %r1, 2; @%p1 call (%r2), f, (%r1);",
        ".func (.reg .b32 s) f(.reg .b32 a) { add.u32 s, a, 1; ret; }\n"),
    "in a function": (call("twice", "%r1", result="%r2"), TWICE),
    "in a loop": (f"""mov.u32 %r2, 0; mov.u32 %r4, 0;
        L: {call("add", "%r2", "%r1", result="%r2")} add.u32 %r4, %r4, 1;
        setp.lt.u32 %p1, %r4, 5; @%p1 bra L;""", ADD),
    "a structure": ("""{ .param .align 8 .b8 s[16]; st.param.b64 [s], %d2;
        st.param.b32 [s+8], %r1; .param .b32 q; call (q), f, (s); ld.param.b32 %r2, [q]; }""",
        """.func (.param .b32 o) f(.param .align 8 .b8 i[16]) { .reg .b32 %r<3>; .reg .b64 %d;
        ld.param.u64 %d, [i]; ld.param.u32 %r1, [i+8]; cvt.u32.u64 %r2, %d;
        add.u32 %r1, %r1, %r2; st.param.b32 [o], %r1; ret; }\n"""),
    "the lowest byte": (call("f", "%r1", result="%r2"),
        """.func (.param .b32 o) f(.param .b32 i) { .reg .b16 %h; .reg .b32 %r;
        ld.param.u8 %h, [i]; cvt.u32.u16 %r, %h; st.param.b32 [o], %r; ret; }\n"""),
    "a table of branches, twice": (
        call("f", "%r1", result="%r2") + call("f", "%r2", result="%r2"),
        """.func (.param .b32 o) f(.param .b32 i) { .reg .b32 %r<3>; ld.param.b32 %r1, [i];
        and.b32 %r1, %r1, 1; T: .branchtargets A, B; brx.idx %r1, T; A: mov.u32 %r2, 5; bra E;
        B: mov.u32 %r2, 8; E: st.param.b32 [o], %r2; ret; }\n"""),
}  # fmt: skip


@pytest.mark.parametrize(("body", "ahead"), FUNCTIONS.values(), ids=FUNCTIONS)
def test_functions_compute_the_same_where_they_are_called(body: str, ahead: str) -> None:
    text = module(f"{body} st.global.u32 [%d1], %r2;", ahead)
    assert "call" not in names(whole(text))
    first, second = runs(text)
    assert first == second


CALLS_THAT_STAY = {
    "in a circle": ".func f(.param .b32 a) { call f, (1); ret; }\n",
    "elsewhere": ".extern .func f(.param .b32 a);\n",
    "with other arguments": ".func f() { ret; }\n",
}


@pytest.mark.parametrize("ahead", CALLS_THAT_STAY.values(), ids=CALLS_THAT_STAY)
def test_calls_that_stay(ahead: str) -> None:
    assert "call" in [i.opcode for i in whole(module(call("f", "1"), ahead)).body.instructions]


def test_a_kernel_without_calls_and_variables_stays_as_it_is() -> None:
    text = module("st.global.u32 [%d1], %r1;")
    kernel = text.kernels[0]
    assert inlined(text, kernel) is kernel
    assert promoted(kernel.body) is kernel.body


# ---------------------------------------------------------------- variables

LOCAL = (
    ".local .align 16 .b8 a[32]; .reg .b64 %SP, %SPL;\nmov.u64 %SPL, a; cvta.local.u64 %SP, %SPL;\n"
)


def left(body: str) -> list[str]:
    """The accesses to local memory that are left."""
    promoted_body: Body = promoted(module(LOCAL + body).kernels[0].body)
    return [i.name for i in promoted_body.instructions if i.opcode in ("ld", "st")][1:]


REGISTERS = {
    "by the register of the stack": "st.u32 [%SP+4], %r1; ld.u32 %r2, [%SP+4];",
    "in their own space": "st.local.u32 [%SPL+4], %r1; ld.u32 %r2, [%SP+4];",
    "by name": "st.local.u32 [a+4], %r1; ld.local.u32 %r2, [a+4];",
    "behind a sum": "add.u64 %d3, %SP, 8; st.u32 [%d3], %r1; ld.u32 %r2, [%SP+8];",
    "vectors": "st.local.v2.u32 [a+8], {%r1, 3}; ld.local.u32 %r2, [a+12];",
    "the lowest byte": "st.local.u32 [a], %r1; ld.local.s8 %r2, [a];",
    "through another variable": """.local .b64 p; st.local.u64 [p], %SP; ld.local.u64 %d3, [p];
        st.u32 [%SP], 1; ld.u32 %r2, [%d3];""",
}  # fmt: skip
MEMORY = {
    "past the end": "st.local.u32 [a+32], %r1;",
    "before the start": "st.local.u32 [a+-4], %r1;",
    "misaligned": "st.local.u32 [a+2], %r1;",
    "at an index": "add.u64 %d3, %SP, %d2; st.u32 [%d3], %r1; st.u32 [%SP], 1;",
    "parts that are written": "st.local.u32 [a], %r1; st.local.u8 [a], %r1; ld.local.u32 %r2, [a];",
    "parts further on": "st.local.u32 [a], %r1; ld.local.u8 %r2, [a+1];",
    "the address is stored": "st.global.u64 [%d1], %SP; st.local.u32 [a], %r1;",
    "volatile": "st.volatile.local.u32 [a], %r1;",
    "a register of two addresses": """mov.u64 %d3, a; setp.eq.u32 %p1, %r1, 0;
        @%p1 add.u64 %d3, %d3, 4; st.local.u32 [%d3], %r1; ld.local.u32 %r2, [a];""",
    "an address that may not be there yet": """setp.eq.u32 %p1, %r1, 0; @%p1 bra L;
        mov.u64 %d3, a; L: st.local.u32 [%d3], %r1; ld.local.u32 %r2, [a];""",
    "an address that nobody computes": """bra M; L: mov.u64 %d3, a; M: st.local.u32 [%d3], %r1;
        ld.local.u32 %r2, [a];""",
    "in another space": "st.u32 [%SPL], %r1; ld.local.u32 %r2, [a];",
}  # fmt: skip


@pytest.mark.parametrize("body", REGISTERS.values(), ids=REGISTERS)
def test_variables_that_are_registers(body: str) -> None:
    assert left(body) == []
    first, second = runs(module(f"{LOCAL}{body} st.global.u32 [%d1], %r2;"))
    assert first == second


@pytest.mark.parametrize("body", MEMORY.values(), ids=MEMORY)
def test_variables_that_are_none(body: str) -> None:
    assert len(left(body)) == len([word for word in body.split() if word[:3] in ("st.", "ld.")])


def test_what_was_never_written_is_a_register_that_nobody_writes() -> None:
    body = promoted(
        module(LOCAL + "ld.u32 %r2, [%SP+4]; st.global.u32 [%d1], %r2;").kernels[0].body
    )
    cfg = build(body)
    assert body.width(Reg("a[4]")) == 32
    assert Reg("a[4]") not in cfg.writers


def random_accesses(random: Random) -> str:
    """Stores and loads of any width in 16 bytes, and a sum of what was read in %r2."""
    lines = ["mov.u32 %r2, 0;", "mov.u64 %d3, 0x123456789abcdef;"]
    lines += [f"st.local.u64 [a+{at}], %d3;" for at in (0, 8)]
    for _ in range(random.randrange(2, 7)):
        width = random.choice((8, 16, 32))
        at = random.randrange(0, 16 * 8 // width) * width // 8
        name = random.choice(("a", "%SPL"))
        if random.random() < 0.4:
            lines.append(f"st.local.u{width} [{name}+{at}], %r{random.choice((1, 2))};")
        else:
            kind = random.choice("us")
            lines += [f"ld.local.{kind}{width} %r3, [{name}+{at}];", "mad.lo.u32 %r2, %r2, 5, %r3;"]
        if random.random() < 0.2:
            lines += [
                f"setp.eq.u32 %p1, %r1, {random.randrange(4)};",
                "@%p1 st.local.u32 [a], %r2;",
            ]
    return "\n".join([*lines, "st.global.u32 [%d1], %r2;"])


def test_random_accesses_compute_the_same() -> None:
    for seed in range(40):
        first, second = runs(module(LOCAL + random_accesses(Random(seed))))
        assert first == second, seed
