"""Patterns that are compiled when they are first used."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import ptxsw
from ptxsw.ptx import patterns
from ptxsw.ptx.patterns import compile_all, pattern


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were compiled meanwhile."""
    texts: list[str] = []
    compiles = re.compile

    def noted(text: str, flags: int = 0) -> re.Pattern[str]:
        texts.append(text)
        return compiles(text, flags)

    monkeypatch.setattr(re, "compile", noted)
    monkeypatch.setattr(patterns, "_ALL", [])
    return texts


def test_it_does_what_re_does(compiled: list[str]) -> None:
    word = pattern(r"(?P<first>[a-z])\w*", re.IGNORECASE)
    assert not compiled
    match = word.match("..Word", 2)
    assert match is not None and match["first"] == "W" and match.end() == 6
    assert word.fullmatch("a b") is None
    assert word.sub("-", "ab, cd") == "-, -"
    assert [m[0] for m in word.finditer("ab cd")] == ["ab", "cd"]
    assert word.pattern == r"(?P<first>[a-z])\w*"


def test_each_function_is_looked_up_once(compiled: list[str]) -> None:
    word = pattern("[a-z]+")
    for _ in range(3):
        assert word.match("ab") and word.search(" ab")
    assert compiled == ["[a-z]+"] * 2


def test_an_error_shows_at_the_first_use() -> None:
    wrong = pattern("(")
    with pytest.raises(re.error):
        wrong.match("")


def test_all_are_compiled_for_processes_that_will_be_forked(compiled: list[str]) -> None:
    pattern("[a-z]+")
    pattern("[0-9]+", re.ASCII)
    compile_all()
    assert compiled == ["[a-z]+", "[0-9]+"]


def test_no_module_compiles_while_it_is_imported() -> None:
    """Not those of the wrapper either, which import no `re`."""
    for path in Path(ptxsw.__file__).parent.rglob("*.py"):
        for statement in ast.parse(path.read_text()).body:
            if isinstance(statement, ast.Assign | ast.AnnAssign | ast.Expr):
                assert "re.compile(" not in ast.unparse(statement), path
