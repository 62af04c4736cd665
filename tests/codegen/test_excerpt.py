"""One kernel of a module as a module of its own: what it keeps, and where its lines are."""

from __future__ import annotations

import pytest

from ptxsw import Options, optimize
from ptxsw.codegen.excerpt import Excerpt, Excerpts
from ptxsw.codegen.splice import apply, insert
from ptxsw.parser import parse
from ptxsw.ptx.errors import ParseError
from ptxsw.ptx.ir import Module
from tests.heads import head

HEAD = head() + ""
FIRST = ".visible .entry first()\n{\n\tret;\n}\n"
SECOND = ".visible .entry second()\n{\n\tbar.sync 0;\n\tret;\n}\n"
THIRD = ".entry third() { ret; }\n"


def excerpt_text(module: Module, name: str) -> str:
    return taken_out(module, name).module.source.text


def taken_out(module: Module, name: str) -> Excerpt:
    return Excerpts(module).of(next(k for k in module.kernels if k.name == name))


def test_other_kernels_go_with_the_comments_between_them() -> None:
    module = parse(f'{HEAD}{FIRST}// .globl second\n{SECOND}/* third */\n{THIRD}.file 1 "a.cu"\n')
    assert excerpt_text(module, "first") == f'{HEAD}{FIRST}// .globl second\n\n.file 1 "a.cu"\n'
    assert excerpt_text(module, "third") == f'{HEAD}\n/* third */\n{THIRD}.file 1 "a.cu"\n'
    assert taken_out(module, "third").module.files == {1: "a.cu"}


def test_a_module_of_one_kernel_is_its_own_excerpt() -> None:
    module = parse(HEAD + FIRST)
    assert taken_out(module, "first").module is module


@pytest.mark.parametrize("operand", ["mov.u64 %rd1, first;", "st.global.u64 [%rd1], first;"])
def test_a_kernel_that_is_named_stays(operand: str) -> None:
    """A kernel may start another one."""
    user = f".entry user() {{ .reg .b64 %rd<2>; {operand} ret; }}\n"
    module = parse(HEAD + FIRST + SECOND + user)
    assert excerpt_text(module, "user") == HEAD + FIRST + "\n" + user


def test_a_kernel_that_a_declaration_names_stays() -> None:
    table = ".global .align 8 .u64 table[1] = {first};\n"
    module = parse(HEAD + FIRST + table + SECOND + THIRD)
    assert excerpt_text(module, "third") == HEAD + FIRST + table + "\n" + THIRD[:-1] + "\n"


def test_kernels_that_share_an_array_of_the_module_stay_together() -> None:
    array = ".shared .align 4 .b8 tile[128];\n"
    users = [
        f".entry {name}() {{ .reg .b32 %r1; ld.shared.b32 %r1, [tile]; ret; }}\n" for name in "ab"
    ]
    module = parse(HEAD + array + FIRST + "".join(users))
    assert [k.name for k in taken_out(module, "a").module.kernels] == ["a", "b"]
    assert [k.name for k in taken_out(module, "first").module.kernels] == ["first"]


def test_kernels_that_name_dynamic_memory_are_taken_out_alone() -> None:
    """Templates of one kernel often do: a file of twenty would be read twenty times."""
    array = ".extern .shared .align 16 .b8 tile[];\n"
    users = [
        f".entry {name}() {{ .reg .b32 %r1; ld.shared.b32 %r1, [tile]; ret; }}\n" for name in "ab"
    ]
    module = parse(HEAD + array + "".join(users))
    assert excerpt_text(module, "a") == HEAD + array + users[0] + "\n"


def test_lines_and_edits_are_those_of_the_whole_text() -> None:
    text = HEAD + FIRST + SECOND + THIRD
    excerpt = taken_out(parse(text), "second")
    barrier = excerpt.function.body.instructions[0]
    assert excerpt.module.source.place(barrier.start) == (10, 2)
    edited = apply(text, [excerpt.whole(insert(barrier.start, "nop; "))])
    assert edited == text.replace("bar.sync", "nop; bar.sync")


def test_an_error_is_drawn_where_it_stands_in_the_whole_text() -> None:
    wrong = SECOND.replace("bar.sync 0", "bra LOST")
    with pytest.raises(ParseError) as caught:
        optimize(HEAD + FIRST + wrong, Options(mode="force"), "a.ptx")
    assert str(caught.value).startswith("a.ptx:10:6: ")
    assert "   10 | \tbra LOST;\n" in str(caught.value)
