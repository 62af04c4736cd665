"""Memory spaces in called functions: the kernel calls a copy that names the spaces of what it is
given, and the function itself stays."""

from __future__ import annotations

import re
from random import Random

import numpy as np
import pytest

from ptxsw.changes.assumptions import DEFAULT_ASSUME, PARAMETERS_ARE_GLOBAL
from ptxsw.codegen import lower_memory_spaces
from ptxsw.codegen.splice import Edit
from ptxsw.driver.pipeline import Options, Result, optimize
from ptxsw.parser import parse
from ptxsw.ptx.ir import Instruction
from ptxsw.simt import launch
from ptxsw.validate import Proved, validate
from tests.heads import head
from tests.rewrites.pair import is_proved, lines, outcome, reasons, rewritten

ADD = """{linkage}.func add(.param .b64 to, .param .b64 from)
{{
	.reg .f32 %f<4>;
	.reg .b64 %rd<3>;
	ld.param.u64 %rd1, [to];
	ld.param.u64 %rd2, [from];
	ld.f32 %f1, [%rd1];
	ld.f32 %f2, [%rd2];
	add.f32 %f3, %f1, %f2;
	st.f32 [%rd1], %f3;
	ret;
}}
"""
KERNEL = """.visible .entry {name}(.param .u64 in, .param .u64 out)
{{
	.reg .pred %p<4>;
	.reg .f32 %f<9>;
	.reg .b32 %r<9>;
	.reg .b64 %rd<20>;
	.shared .align 4 .b8 tile[256];
	.local .align 4 .b8 own[8];
	ld.param.u64 %rd1, [in];
	ld.param.u64 %rd2, [out];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd3, %r1, 4;
	add.s64 %rd1, %rd1, %rd3;
	add.s64 %rd2, %rd2, %rd3;
	mov.u64 %rd4, tile;
	add.s64 %rd4, %rd4, %rd3;
	cvta.shared.u64 %rd4, %rd4;
	mov.u64 %rd5, own;
	cvta.local.u64 %rd5, %rd5;
	setp.lt.u32 %p1, %r1, 7;
	mov.f32 %f1, 0f3F800000;
	st.f32 [%rd4], %f1;
	st.f32 [%rd5], %f1;
{body}
	ld.f32 %f2, [%rd4];
	ld.f32 %f3, [%rd5];
	add.f32 %f2, %f2, %f3;
	st.f32 [%rd2], %f2;
	ret;
}}
"""
"""Pointers to this thread's number: `%rd1` of `in`, `%rd2` of `out`, `%rd4` of shared and `%rd5` of
local memory."""


def call(function: str, *given: str, guard: str = "") -> str:
    """A call as LLVM writes it."""
    stored = [f".param .b64 p{n};\nst.param.b64 [p{n}], {g};" for n, g in enumerate(given)]
    names = ", ".join(f"p{n}" for n in range(len(given)))
    return "\n".join(["{", *stored, f"{guard}call.uni {function}, ({names});", "}"])


def module(*bodies: str, functions: str | None = None, linkage: str = "") -> str:
    functions = ADD.format(linkage=linkage) if functions is None else functions
    kernels = (
        KERNEL.format(name=f"k{n or ''}", body="\n".join(f"\t{line}" for line in lines(body)))
        for n, body in enumerate(bodies)
    )
    return head() + functions + "".join(kernels)


def made(text: str, **options: object) -> Result:
    """What the rewrite makes of it, which does what the text does."""
    result = rewritten("memory-spaces", text, **options)
    for kernel in parse(text).kernels:
        assert left(text, kernel.name) == left(result.text, kernel.name)
    return result


def left(text: str, kernel: str = "k") -> list[bytes]:
    """What 40 threads leave in memory."""
    data = [np.arange(1, 65, dtype="f4"), np.zeros(64, dtype="f4")]
    run = launch(parse(text), kernel, 1, 40, data)
    return [np.asarray(buffer).tobytes() for buffer in run.buffers]


def copies(result: Result) -> dict[str, list[str]]:
    """What functions that were added access, by their names."""
    added = (f for f in parse(result.text).functions if "$sw" in f.name)
    return {
        f.name: [
            i.name
            for i in f.body.instructions
            if i.opcode in ("ld", "st") and "param" not in i.modifiers
        ]
        for f in added
    }


def calls(text: str) -> list[str]:
    """What kernels call, in order."""
    return re.findall(r"call\.uni (\S+),", text[text.index(".entry") :])


def test_the_kernel_calls_a_copy_for_the_spaces_that_it_passes() -> None:
    text = module(call("add", "%rd4", "%rd1"))
    result = made(text)
    assert copies(result) == {"add$sw1_k": ["ld.shared.f32", "ld.global.f32", "st.shared.f32"]}
    assert calls(result.text) == ["add$sw1_k"]
    assert ADD.format(linkage="") in result.text
    (entry,) = [e for e in result.report.kernels[0].rewrites or () if "function" in e.detail]
    assert dict(entry.detail) == {"function": "add", "space": "global, shared", "accesses": 3}
    assert entry.proof.assumptions == (PARAMETERS_ARE_GLOBAL,)
    assert entry.line == text[: text.index("call.uni")].count("\n") + 1


def test_the_copy_stands_before_the_kernel_as_the_function_does() -> None:
    result = made(module(call("add", "%rd4", "%rd1")))
    copy = result.text[result.text.index(".func add$sw1_k") : result.text.index(".visible .entry")]
    assert lines(copy) == lines("""
        .func add$sw1_k(.param .b64 to, .param .b64 from)
        {
        .reg .f32 %f<4>;
        .reg .b64 %rd<3>;
        .reg .b64 %sw_shared1;
        ld.param.u64 %rd1, [to];
        ld.param.u64 %rd2, [from];
        cvta.to.shared.u64 %sw_shared1, %rd1;
        ld.shared.f32 %f1, [%sw_shared1];
        ld.global.f32 %f2, [%rd2];
        add.f32 %f3, %f1, %f2;
        st.shared.f32 [%sw_shared1], %f3;
        ret;
        }
    """)


def test_calls_of_the_same_spaces_share_a_copy() -> None:
    body = call("add", "%rd4", "%rd1") + call("add", "%rd2", "%rd4") + call("add", "%rd4", "%rd2")
    result = made(module(body))
    assert calls(result.text) == ["add$sw1_k", "add$sw2_k", "add$sw1_k"]
    assert copies(result)["add$sw2_k"] == ["ld.global.f32", "ld.shared.f32", "st.global.f32"]


def test_local_memory_of_the_caller() -> None:
    """It is the thread's, wherever it is accessed."""
    result = made(module(call("add", "%rd5", "%rd1")))
    assert copies(result) == {"add$sw1_k": ["ld.local.f32", "ld.global.f32", "st.local.f32"]}


def test_a_pointer_of_which_one_is_not_known() -> None:
    body = "selp.b64 %rd6, %rd4, %rd1, %p1;" + call("add", "%rd6", "%rd2")
    result = made(module(body))
    assert copies(result) == {"add$sw1_k": ["ld.f32", "ld.global.f32", "st.f32"]}
    line = module(body)[: module(body).index("ld.f32 %f1")].count("\n") + 1
    assert f"line {line}, in add: its address is not known to lie in one state space" in reasons(
        result
    )


def test_one_of_several_pointers_of_one_space() -> None:
    body = "selp.b64 %rd6, %rd2, %rd1, %p1;" + call("add", "%rd4", "%rd6")
    assert copies(made(module(body)))["add$sw1_k"][1] == "ld.global.f32"


def test_without_the_assumption_a_parameter_may_point_anywhere() -> None:
    text = module(call("add", "%rd4", "%rd1"))
    result = made(text, assume=DEFAULT_ASSUME - {PARAMETERS_ARE_GLOBAL})
    assert result.text == text  # and nothing gains from shared memory by name alone


def test_kernels_get_copies_of_their_own() -> None:
    text = module(call("add", "%rd4", "%rd1"), call("add", "%rd2", "%rd4"), "")
    result = made(text)
    assert list(copies(result)) == ["add$sw1_k", "add$sw1_k1"]
    assert calls(result.text) == ["add$sw1_k", "add$sw1_k1"]
    old, new = parse(text), parse(result.text)
    for kernel in old.kernels:
        proof = validate((old, kernel), (new, new.kernel(kernel.name)))
        assert isinstance(proof, Proved), kernel.name


def test_what_was_rewritten_stays_as_it_is() -> None:
    body = "selp.b64 %rd6, %rd4, %rd1, %p1;" + call("add", "%rd4", "%rd1")
    result = made(module(body + call("add", "%rd4", "%rd6")))
    again = rewritten("memory-spaces", result.text)
    assert again.text == result.text


def test_a_function_that_others_know_stays() -> None:
    result = made(module(call("add", "%rd4", "%rd1"), linkage=".visible "))
    assert ADD.format(linkage=".visible ") in result.text
    assert ".visible .func add$sw1_k" not in result.text
    assert calls(result.text) == ["add$sw1_k"]


def behind(text: str) -> str:
    """The text with its functions behind its kernels, and prototypes before them."""
    begin = text.rindex("\n", 0, text.index(".func")) + 1
    end = text.index(".visible .entry")
    functions = text[begin:end]
    heads = re.findall(r"^(?:\.visible )?\.func [^{/]*\)", functions, re.M)
    prototypes = "".join(f"{head};\n" for head in heads)
    return f"{text[:begin]}{prototypes}{text[end:]}.global .b32 later;\n{functions}"


def test_a_function_behind_the_kernel() -> None:
    """What it names may be declared there, too; so the copy stands behind it."""
    functions = ADD.format(linkage="").replace(")", ") // of numbers", 1)
    functions = functions.replace("ld.f32 %f2", "mov.u64 %rd3, later;\n\tld.f32 %f2")
    text = behind(module(call("add", "%rd4", "%rd1"), functions=functions.replace("<3>", "<4>")))
    result = made(text)
    assert result.text.index("add$sw1_k(.param .b64 to, .param .b64 from);") < result.text.index(
        ".entry"
    )
    copied = result.text.rindex(".func add$sw1_k")
    assert result.text.rindex(".func add(") < copied
    assert "ld.shared.f32" in result.text[copied:]
    assert is_proved(text, result.text)
    assert not is_proved(text, result.text[:copied])


# ---------------------------------------------------------------- functions that call others

TWICE = """.func twice(.param .b64 to, .param .b64 from)
{
	.reg .b64 %rd<3>;
	ld.param.u64 %rd1, [to];
	ld.param.u64 %rd2, [from];
	{
	.param .b64 a;
	.param .b64 b;
	st.param.b64 [a], %rd1;
	st.param.b64 [b], %rd2;
	call.uni add, (a, b);
	call.uni add, (a, b);
	}
	ret;
}
"""


def test_what_a_function_calls() -> None:
    functions = ADD.format(linkage="") + TWICE
    result = made(module(call("twice", "%rd4", "%rd1"), functions=functions))
    assert copies(result) == {
        "add$sw1_k": ["ld.shared.f32", "ld.global.f32", "st.shared.f32"], "twice$sw2_k": []
    }  # fmt: skip
    copied = result.text[result.text.index(".func twice$sw2_k") : result.text.index(".entry")]
    assert copied.count("call.uni add$sw1_k") == 2


def test_what_a_function_hands_over_as_it_got_it_twice() -> None:
    """A function swaps its pointers: the same call in it is of two copies."""
    swapped = TWICE.replace("[a], %rd1", "[a], %rd2").replace("[b], %rd2", "[b], %rd1")
    functions = ADD.format(linkage="") + swapped
    body = call("twice", "%rd4", "%rd1") + call("twice", "%rd1", "%rd4")
    result = made(module(body, functions=functions))
    assert calls(result.text) == ["twice$sw2_k", "twice$sw4_k"]


# ---------------------------------------------------------------- the kernel in one piece

CHOOSE = """.func (.param .b64 result) choose(.param .b64 a, .param .b32 n)
{
	.reg .b32 %r<2>;
	.reg .b64 %rd<4>;
	ld.param.u64 %rd1, [a];
	ld.param.u32 %r1, [n];
	mul.wide.u32 %rd2, %r1, 0;
	add.s64 %rd3, %rd1, %rd2;
	st.param.b64 [result], %rd3;
	ret;
}
"""
RETURNED = """
    {
    .param .b64 p0;
    .param .b32 p1;
    .param .b64 r;
    st.param.b64 [p0], %rd4;
    st.param.b32 [p1], %r1;
    call.uni (r), choose, (p0, p1);
    ld.param.u64 %rd7, [r];
    }
    ld.f32 %f4, [%rd7];
    st.f32 [%rd1], %f4;
"""
KEPT = """
    .local .align 8 .b8 slots[16];
    st.local.u64 [slots], %rd4;
    st.local.u64 [slots+8], %rd1;
    @%p1 bra LATER;
    mov.f32 %f1, 0f40000000;
    LATER:
    ld.local.u64 %rd7, [slots];
    ld.local.u64 %rd8, [slots+8];
    ld.f32 %f4, [%rd7];
    st.f32 [%rd8], %f4;
"""


@pytest.mark.parametrize(
    ("functions", "body", "old", "new"),
    [
        (CHOOSE, RETURNED, "st.param.b64 [p0], %rd4", "st.param.b64 [p0], %rd2"),
        ("", KEPT, "ld.local.u64 %rd8, [slots+8]", "ld.local.u64 %rd8, [slots]"),
    ],
)
def test_pointers_that_come_from_functions_or_from_the_stack(
    functions: str, body: str, old: str, new: str
) -> None:
    """What the kernel's own accesses lead to is known of the kernel in one piece, and proved so."""
    text = module(body, functions=functions)
    result = made(text)
    found = re.search(r"ld.shared.f32 %f4, \[%sw_shared\d\]", result.text)
    assert found is not None, reasons(result)
    assert is_proved(text, result.text)
    assert not is_proved(text, result.text.replace(found[0], "ld.global.f32 %f4, [%rd7]"))
    assert old in result.text
    assert not is_proved(text, result.text.replace(old, new))


@pytest.mark.parametrize("slot", ["[slots+8]", "[slots+4]", "[%rd9]"])
def test_a_slot_that_holds_something_else(slot: str) -> None:
    """Of two stores to one slot, over two, or to who knows where, no pointer is known."""
    more = "mov.u64 %rd9, slots;\nadd.s64 %rd9, %rd9, %rd3;\n"
    more += f"@%p1 st.local.u64 {slot}, %rd4;\n@%p1 bra LATER;"
    text = module(KEPT.replace("@%p1 bra LATER;", more), functions="")
    result = rewritten("memory-spaces", text)
    assert "st.f32 [%rd8], %f4;" in result.text
    assert not is_proved(text, text.replace("st.f32 [%rd8]", "st.global.f32 [%rd8]"))


# ---------------------------------------------------------------- what is left alone


@pytest.mark.parametrize(
    ("functions", "reason"),
    [
        (
            ADD.format(linkage=".weak "),
            "add is weak: a linker may put another function in its place",
        ),
        (
            ADD.format(linkage="").replace(
                "ld.param.u64 %rd2", "mov.b64 %rd2, to;\n\tld.param.u64 %rd2"
            ),
            "add uses the address of a parameter of its own",
        ),
        (
            ADD.format(linkage="").replace("\t.reg .f32", "\t.shared .b32 count;\n\t.reg .f32"),
            "line 11, in add: no copy is made, since all calls share its variable count",
        ),
        (
            ADD.format(linkage="").replace("from)", "from) .noreturn").replace("ret;", "exit;"),
            "line 10, in add: a function with directives in its header is not copied",
        ),
        (
            ADD.format(linkage="").replace("ret;", f"{call('add', '%rd1', '%rd2')}\n\tret;"),
            "line 10, in add: a function that calls itself is not copied",
        ),
    ],
)
def test_functions_of_which_there_is_one(functions: str, reason: str) -> None:
    text = module(call("add", "%rd4", "%rd1"), functions=functions)
    result = rewritten("memory-spaces", text)
    assert copies(result) == {}
    assert calls(result.text) == ["add"]
    assert reason in reasons(result)


def test_what_else_is_right_stays_where_a_copy_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a function that falls to a wrong copy the kernel's own accesses remain."""
    monkeypatch.setattr(lower_memory_spaces, "_renamed_call", _call_nothing)
    text = module(call("add", "%rd4", "%rd1"))
    result = optimize(text, Options(mode="force", rewrites=("memory-spaces",)))
    assert calls(result.text) == ["add"]
    assert "st.shared.f32 [%sw_shared1], %f1;" in result.text
    (reason,) = set(reasons(result))
    assert reason.startswith("the new PTX could not be proved equal")


def _call_nothing(text: str, call: Instruction, copy: object) -> Edit:
    return Edit(call.span, "")


def test_a_call_through_a_pointer_stays() -> None:
    body = """
        mov.u64 %rd7, add;
        {
        .param .b64 p0;
        .param .b64 p1;
        st.param.b64 [p0], %rd4;
        st.param.b64 [p1], %rd1;
        prototype: .callprototype ()_ (.param .b64 _, .param .b64 _);
        call %rd7, (p0, p1), prototype;
        }
    """
    result = made(module(body + call("add", "%rd4", "%rd1")))
    assert "mov.u64 %rd7, add;" in result.text
    assert calls(result.text) == ["add$sw1_k"]


# ---------------------------------------------------------------- proofs


RIGHT = module(call("add", "%rd4", "%rd1") + call("add", "%rd2", "%rd4"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("ld.shared.f32 %f1, [%sw_shared1]", "ld.global.f32 %f1, [%rd1]"),
        ("st.shared.f32 [%sw_shared1]", "st.local.f32 [%sw_shared1]"),
        ("st.shared.f32 [%sw_shared1]", "st.shared.f32 [%sw_shared1+4]"),
        ("cvta.to.shared.u64 %sw_shared1, %rd1", "mov.b64 %sw_shared1, %rd1"),
        ("cvta.to.shared.u64 %sw_shared1, %rd1", "cvta.to.shared.u64 %sw_shared1, %rd2"),
        ("call.uni add$sw1_k", "call.uni add$sw2_k"),
        ("ld.global.f32 %f2, [%rd2]", "ld.shared.f32 %f2, [%rd2]"),
        ("add.f32 %f3, %f1, %f2", "sub.f32 %f3, %f1, %f2"),
        (".func add$sw1_k", ".visible .func add$sw1_k"),
        (".func add$sw1_k", ".weak .func add$sw1_k"),
        ("\tret;\n}\n.func add$sw2_k", "\tret;\n}\n.func add$sw2_k() { ret; }\n.func other"),
    ],
)
def test_a_copy_that_does_something_else_is_not_proved(old: str, new: str) -> None:
    result = rewritten("memory-spaces", RIGHT)
    assert is_proved(RIGHT, result.text)
    assert old in result.text
    assert not is_proved(RIGHT, result.text.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (
            ".func add$sw1_k", ".visible .func add$sw1_k",
            "other modules may know a function of only the second kernel",
        ),
        (
            "from)\n{\n\t.reg .f32 %f<4>;\n\t.reg .b64 %rd<3>;\n\t.reg .b64 %sw_shared1",
            "from) .noreturn\n{\n\t.reg .f32 %f<4>;\n\t.reg .b64 %rd<3>;\n\t.reg .b64 %sw_shared1",
            "a function of only the second kernel has directives",
        ),
        (
            "\t.reg .b64 %sw_shared1;", "\t.reg .b64 %sw_shared1;\n\t.global .b32 count;",
            "a function of only the second kernel has variables that its calls share",
        ),
        (
            ".func add$sw2_k", ".func add$sw1_k(.param .b64 a) { ret; }\n.func add$sw2_k",
            "a function of only the second kernel has no body, or two",
        ),
        (
            "cvta.shared.u64 %rd4, %rd4;",
            "cvta.shared.u64 %rd4, %rd4;\n\tmov.u64 %rd9, add$sw1_k;",
            "a function of only the second kernel could not be inlined",
        ),
    ],
)  # fmt: skip
def test_why_it_is_not(old: str, new: str, reason: str) -> None:
    text = rewritten("memory-spaces", RIGHT).text
    assert old in text
    assert str(outcome(RIGHT, text.replace(old, new, 1))) == reason


@pytest.mark.parametrize(
    ("old", "new"), [("call add", "call.uni add"), ("@%p ret;", "@%p ret.uni;")]
)
def test_that_all_lanes_go_one_way_is_said_by_the_first_text_alone(old: str, new: str) -> None:
    returns = ".reg .pred %p;\n\tsetp.lt.f32 %p, %f2, 0f40000000;\n\t@%p ret;\n\tadd.f32"
    functions = ADD.format(linkage="").replace("add.f32", returns)
    body = call("add", "%rd4", "%rd1", guard="@%p1 ").replace("call.uni", "call")
    text = module(body, functions=functions)
    result = made(text)
    copied = result.text.index(".func add$sw1_k")
    assert is_proved(text, result.text)
    wrong = result.text[:copied] + result.text[copied:].replace(old, new, 1)
    assert wrong != result.text
    assert not is_proved(text, wrong)


def test_functions_of_other_kernels_do_not_matter() -> None:
    text = module(call("add", "%rd4", "%rd1"))
    added = text.replace(".visible .entry", ".func more(.param .b64 p) { ret; }\n.visible .entry")
    assert is_proved(text, added)
    assert not is_proved(text, added.replace("st.f32 [%rd2]", "st.f32 [%rd2+4]"))
    assert not is_proved(text, added.replace(".func more", ".visible .func more"))


def test_the_function_itself_may_not_change() -> None:
    text = rewritten("memory-spaces", RIGHT).text
    wrong = text.replace("ld.f32 %f2, [%rd2]", "ld.global.f32 %f2, [%rd2]", 1)
    assert str(outcome(RIGHT, wrong)) == "functions that the kernels may call differ"


# ---------------------------------------------------------------- any calls


def _random(seed: int) -> str:
    """A kernel with calls under guards and in a loop, of functions that call others."""
    random = Random(seed)
    swapped = TWICE.replace("twice", "other")
    if random.random() < 0.5:
        swapped = swapped.replace("[a], %rd1", "[a], %rd2").replace("[b], %rd2", "[b], %rd1")
    functions = ADD.format(linkage=random.choice(["", ".visible "])) + TWICE + swapped
    pointers = ["%rd1", "%rd2", "%rd4", "%rd5", "%rd6"]
    body = [f"selp.b64 %rd6, {random.choice(pointers[:4])}, {random.choice(pointers[:4])}, %p1;"]
    for n in range(random.randint(1, 4)):
        one = call(
            random.choice(["add", "twice", "other"]), *random.sample(pointers, 2),
            guard=random.choice(["", "", "@%p1 ", "@!%p1 "]).replace(" ", " "),
        )  # fmt: skip
        one = one.replace("@%p1 call.uni", "@%p1 call").replace("@!%p1 call.uni", "@!%p1 call")
        if random.random() < 0.3:
            one = f"""mov.u32 %r2, 0;
                L{n}:
                {one}
                add.u32 %r2, %r2, 1;
                setp.lt.u32 %p2, %r2, 3;
                @%p2 bra L{n};"""
        body.append(one)
    return module("\n".join(body), functions=functions)


@pytest.mark.parametrize("seed", range(12))
def test_any_calls(seed: int) -> None:
    text = _random(seed)
    result = made(behind(text) if seed % 3 == 0 else text)
    assert not [r for r in reasons(result) if "could not be proved" in r]
    for name, accesses in copies(result).items():
        assert name in result.text.replace(f".func {name}", ""), "no copy is made for nothing"
        assert accesses or "add" not in name


def test_mode_auto_keeps_a_copy_that_pays() -> None:
    """Or leaves the text as it was, where ptxas cannot be asked."""
    text = module(call("add", "%rd4", "%rd1"))
    result = optimize(text, Options(rewrites=("memory-spaces",)))
    assert calls(result.text) in (["add"], ["add$sw1_k"])
