"""The fast scan reads what the grammar reads: both are asked about every form of instruction."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from lark.exceptions import UnexpectedInput

from ptxsw.ir import Function, Instruction, Module, Variable
from ptxsw.parser import careful, grammar, parse
from ptxsw.parser.scan import blank_comments
from ptxsw.parser.statements import Reader, Surroundings
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
        slow = careful.instruction(_reader(module, function), quick.span.start, quick.span.end)
        assert slow == quick


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
        found = [d.at(variable.span, variable.scope, i) for d, i in careful.declaration(text)]
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
