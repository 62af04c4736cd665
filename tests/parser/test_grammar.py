"""The fast scan reads what the grammar reads: both are asked about every form of instruction."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from lark.exceptions import UnexpectedInput

from ptxsw.parser import grammar, parse, statements
from ptxsw.parser import grammar_reader as grammar_reader
from ptxsw.parser.scan import blank_comments, skip_blank
from ptxsw.parser.statements import Reader
from ptxsw.parser.surroundings import Surroundings
from ptxsw.ptx.errors import ParseError
from ptxsw.ptx.ir import Function, Instruction, Module, Variable
from tests.heads import head
from tests.real import CORPUS, FIXTURES, name_of, text_of

_NUMBER = re.compile(r"(?<=\D)\d+")


def _bodies(module: Module) -> list[Function]:
    return [f for f in module.functions if f.body_span is not None]


def _forms(module: Module, seen: set[str]) -> list[tuple[Function, Instruction]]:
    """One instruction of each form not seen yet, outside nested scopes."""
    found = []
    for function in _bodies(module):
        depth = 0
        for statement in function.body.statements:
            depth += {"Open": 1, "Close": -1}.get(type(statement).__name__, 0)
            if type(statement) is not Instruction or depth:
                continue
            form = _NUMBER.sub("0", module.source.slice(statement.span))
            if form not in seen:
                seen.add(form)
                found.append((function, statement))
    return found


def _reader(module: Module, function: Function) -> Reader:
    """A reader that knows all that the body declares in its outermost scope."""
    surroundings = Surroundings(module.source, False)
    surroundings.add(module.variables)
    assert function.body_span is not None
    reader = Reader(surroundings, function.body_span, (*function.returns, *function.params))
    for variable in function.body.variables:
        if variable.scope == 0:
            reader.scope.declare(variable)
    return reader


@pytest.mark.parametrize("path", FIXTURES + CORPUS[::23], ids=name_of)
def test_instructions(path: Path) -> None:
    module = parse(text_of(path), path.name)
    for function, quick in _forms(module, set())[:250]:
        slow = grammar_reader.instruction(
            _reader(module, function), quick.span.start, quick.span.end
        )
        assert slow == quick


def _by_grammar(reader: Reader, heads: object, opcodes: object, at: int, end: int) -> None:
    """Read all statements between two offsets one by one, instructions by the grammar alone."""
    text = reader.source.text
    while (at := skip_blank(text, at, end)) < end:
        at = reader.grammar_reader(at, end)


def _read(text: str, most: int) -> list[object]:
    """Every statement of the bodies of at most so many characters, and what is wrong with them."""
    found: list[object] = []
    try:
        for function in _bodies(parse(text)):
            span = function.body_span
            if span is not None and span.end - span.start <= most:
                found += function.body.statements
    except ParseError as error:
        found.append(str(error))
    return found


def _compare(text: str, most: int, patch: pytest.MonkeyPatch) -> None:
    quick = _read(text, most)
    with patch.context() as patched:
        patched.setattr(statements, "read_lines", _by_grammar)
        slow = _read(text, most)
    assert quick == slow


@pytest.mark.parametrize("path", FIXTURES, ids=name_of)
def test_whole_bodies(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scopes and late declarations, too, mean the same to both readers."""
    _compare(text_of(path), 2_500, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("path", FIXTURES + CORPUS[::9], ids=name_of)
def test_all_bodies(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _compare(text_of(path), 100_000, monkeypatch)


_HEAD = head("8.3") + ".entry k() {\n"
_SCOPES = """
mov.u32 \t%r1, 1; // the blank before the tab is how the lines below are cut
{ // callseq 0, 0
\t.reg .b32 q; \n\t.param .b32 param0;
\tst.param.b32 \t[param0+0], %r1;
\tcall.uni \n\tf, \n\t(\n\tparam0\n\t);
} // callseq 0
{
\t.param .b32 param0;
\tst.param.b32 \t[param0+0], q;
\t{
\t\t.reg .pred q, %p1;
\t\tsetp.eq.s32 \tq, %r1, %r2;\n\t\tmov.b32 \t%r1, param0;
\t\t@q bra \tL;
\t\t@%p1 bra \tM;
\tL:
\t\tmov.b32 \t{%r1, %r2}, q2;
\t}
\t@%p1 bra \tL;
\t.reg .b32 q2;
\tmov.u32 \t%r1, q2;
\t.reg .b32 %r<3>;
\tmov.u32 \t%r1, %r2;
}
{
\t.reg .b32 a, b, c, d, e, f, g, h, i, j;
\tadd.s32 \ta, b, c;
\tadd.s32 \ti, j, %r1;
\t{ .reg .b32 a; add.s32 \ta, b, c; }
\tadd.s32 \ta, i, j;
}
L:
\t@%p1 bra \tM;
M:
\tmov.b32 \t%r2, param0;
"""


def test_scopes_that_shadow(monkeypatch: pytest.MonkeyPatch) -> None:
    registers = ".reg .b32 %r<5>, q;\n.reg .b64 q2;\n.reg .pred %p<3>;\n"
    for text in (_SCOPES, _SCOPES.replace("\n", "\r\n"), _SCOPES.replace(" \t", " ")):
        whole = _HEAD + registers + text + "}\n"
        assert len(_read(whole, 10_000)) > 50
        _compare(whole, 10_000, monkeypatch)


_NAMES = ["a", "b", "ab", "%r1", "%r2", "%r12", "param0", "L", "%p1"]
_LINES = [
    "\t{", "\t}", "\t} // end", "\t{ // callseq 1", "L:", "M:", "\t.reg .b32 #;", "\t.reg .pred #;",
    "\t.param .b32 #;", "\t.reg .b32 %r<3>;", "\t.reg .b32 #, #;", "\t.reg .b32 #; ",
    "\tadd.s32 \t#, #, 3;", "\tadd.s32 #, #;", "\tld.u32 \t#, [#+4];", "\tmov.b64 \t{#, #}, #;",
    "\t@# bra \tL;", "\t@!# add.u32 \t#, #;", "\tcall.uni (#), \n\tf, \n\t(\n\t#, \n\t#\n\t);",
    "\tsetp.eq.s32 \t#|#, #, 0;", "\tbra \tM;", "\t.loc\t1 2 3", "", "\t// # {#}",
]  # fmt: skip


def _random_body(seed: int) -> str:
    """Lines that open and close scopes, declare few names again and again, and use them."""
    dice = random.Random(seed)
    lines, depth = ["\t.reg .b32 \t%r<3>;", "\t.reg .pred \t%p<3>;"], 0
    for _ in range(dice.randint(5, 40)):
        line = dice.choice(_LINES)
        depth += line.startswith("\t{") - line.startswith("\t}")
        if depth < 0:
            line, depth = "\t{", 1
        while "#" in line:
            line = line.replace("#", dice.choice(_NAMES), 1)
        lines.append(line)
    return "\n".join([*lines, *["\t}"] * depth])


def test_random_scopes(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(150):
        _compare(_HEAD + _random_body(seed) + "\n}\n", 10_000, monkeypatch)


@pytest.mark.slow
def test_many_random_scopes(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(150, 4_000):
        _compare(_HEAD + _random_body(seed) + "\n}\n", 10_000, monkeypatch)


@pytest.mark.parametrize(
    "line",
    [
        "mov.u32 \t%r1, \x1f%r2;",  # no blank to PTX, though Python takes it for one
        "mov.u32 \x1c%r1, %r2;",
        "mov.u32 \t%r1, \N{NO-BREAK SPACE}%r2;",
        "mov.u32 \t%r1, \N{ARABIC-INDIC DIGIT THREE};",
        "mov.u32 \t%r1, [%rd1+\N{ARABIC-INDIC DIGIT THREE}];",
        "add.s32 \t%r1[%r2, %r1;",
        "add.s32 \t%r1(%r2, %r1;",
        "st.v2.u32 \t[%rd1], {%r1, %r2;",
        "mov.u32 \t%r1, %r2;\n;",  # ptxas takes no empty statement
        "@%none bra \tL;",
        "mov.u32 \t%r1 %r2;",
        "mov.u32 \t%r1,, %r2;",
    ],
)
def test_both_refuse(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    registers = ".reg .b32 \t%r<5>;\n.reg .b64 \t%rd<5>;\n"
    text = f"{_HEAD}{registers}\tmov.u32 \t%r1, %r2;\n\t{line}\nL:\n\tret;\n}}\n"
    (said,) = _read(text, 10_000)
    assert isinstance(said, str)
    _compare(text, 10_000, monkeypatch)


def _declarations(module: Module) -> list[Variable]:
    found = list(module.variables)
    for function in _bodies(module):
        found += function.body.variables
    return found


@pytest.mark.parametrize("path", FIXTURES + CORPUS[::23], ids=name_of)
def test_declarations_and_headers(path: Path) -> None:
    module = parse(text_of(path), path.name)
    seen: set[str] = set()
    for variable in _declarations(module):
        text = blank_comments(module.source.slice(variable.span))
        form = _NUMBER.sub("0", text)
        if form in seen or len(text) > 5000:
            continue
        seen.add(form)
        found = [
            d.at(variable.span, variable.scope, i) for d, i in grammar_reader.declaration(text)
        ]
        assert variable in found
    for function in module.functions[:40]:
        stop = function.body_span.start if function.body_span else function.span.end - 1
        header = blank_comments(module.source.text[function.span.start : stop])
        grammar.tree(header, "header")


def test_tables_are_kept_and_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "ptx.lark"
    copy.write_text(grammar.grammar_file().read_text())
    monkeypatch.setattr(grammar, "grammar_file", lambda: copy)
    grammar.lark.cache_clear()
    first = grammar.tree("add.s32 %r1, %r2, 3;", "instruction")
    assert list((tmp_path / "__pycache__").glob("ptx.lark-*.json"))
    grammar.lark.cache_clear()
    monkeypatch.setattr(grammar, "compile_grammar", None)  # compiling would fail now
    assert grammar.tree("add.s32 %r1, %r2, 3;", "instruction") == first
    with pytest.raises(UnexpectedInput):
        grammar.tree("add.s32 %r1 %r2;", "instruction")
    grammar.lark.cache_clear()


def test_damaged_tables_are_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "ptx.lark"
    copy.write_text(grammar.grammar_file().read_text())
    monkeypatch.setattr(grammar, "grammar_file", lambda: copy)
    grammar.lark.cache_clear()
    grammar.lark()
    (stored,) = (tmp_path / "__pycache__").glob("ptx.lark-*.json")
    for damage in ("", "{}", '{"data": {}, "memo": {}}', "[]"):
        stored.write_text(damage)
        grammar.lark.cache_clear()
        assert grammar.tree("ret;", "instruction").data == "instruction"
    grammar.lark.cache_clear()
