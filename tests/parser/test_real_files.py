"""Every file a compiler wrote parses, every body forced, with nothing lost between the spans."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ptxsw.codegen.splice import apply
from ptxsw.parser import operand_spans, parse
from ptxsw.parser.scan import blank_comments
from ptxsw.ptx.ir import Function, Instruction, Module, Symbol
from ptxsw.ptx.source import Span
from tests.real import CORPUS, FIXTURES, name_of, text_of

_KEPT_ELSEWHERE = re.compile(
    r"""\.version\s+[0-9.]+|\.target\s+\w+(\s*,\s*\w+)*|\.address_size\s+\d+
    |\.file\s+\d+\s+"[^"]*"(\s*,\s*\d+\s*,\s*\d+)?|\.loc\s.*|[\s\0]+""",
    re.VERBOSE,
)


def _check_module(module: Module) -> None:
    """Items do not overlap, and between them stands only what the module's fields hold."""
    text = module.source.text
    items = [f.span for f in module.functions] + [d.span for d in module.directives]
    items += list({v.span for v in module.variables})
    at = 0
    for span in [*sorted(items), Span(len(text), len(text))]:
        assert at <= span.start <= span.end <= len(text)
        assert not _KEPT_ELSEWHERE.sub("", blank_comments(text[at : span.start]))
        at = span.end


def _check_body(module: Module, function: Function) -> None:
    """Statements follow each other, and only blanks and comments stand between them."""
    text = module.source.text
    body = function.body
    at, last = body.span.start + 1, None
    for statement in body.statements:
        span = statement.span
        if span.end <= at and span == last:  # several names of one declaration
            continue
        assert span.start >= at, (statement, text[span.start : span.end])
        assert not blank_comments(text[at : span.start]).strip(), text[at : span.start]
        if type(statement) is Instruction:
            written = blank_comments(text[span.start : span.end])
            assert written.endswith(";")
            assert written.startswith("@" if statement.guard else statement.opcode)
            assert len(operand_spans(module.source, statement)) == len(statement.operands)
        at, last = span.end, span
    assert not blank_comments(text[at : body.span.end - 1]).strip()


@pytest.mark.parametrize("path", FIXTURES + CORPUS, ids=name_of)
def test_file(path: Path) -> None:
    text = text_of(path)
    module = parse(text, path.name)
    assert module.functions or module.variables
    _check_module(module)
    for function in module.functions:
        if function.body_span is None:
            assert function.body.statements == ()
        else:
            _check_body(module, function)
    assert apply(text, ()) is text


def test_there_are_fixtures() -> None:
    compilers = {path.stem.partition("_")[0] for path in FIXTURES}
    assert len(FIXTURES) >= 60
    assert compilers >= {"nvcc", "clang", "gcc", "gccraw", "nvrtc", "triton", "numba", "llvm"}


COVERED = {
    "printf": r"call[^;]*\bvprintf\b",
    "textures": r"\btex\.",
    "surfaces": r"\bsu(?:ld|st)\.",
    "wmma": r"\bwmma\.mma",
    "mma": r"\bmma\.sync",
    "cp.async": r"\bcp\.async\.c[ag]",
    "mbarrier": r"\bmbarrier\.",
    "TMA": r"\bcp\.async\.bulk\.tensor",
    "atomics": r"\batom\.",
    "votes": r"\bvote\.sync",
    "shuffles": r"\bshfl\.sync",
    "inline assembly": r"// begin inline asm",
    "alloca": r"\balloca\.",
    "switch tables": r"\bbrx\.idx",
    "local arrays": r"\.local .*\[\d{2,}\]",
    "constant tables": r"\.(?:const|global) .*\[(?:\d{3,})\] *=",
    "indirect calls": r"\.callprototype",
    "debug data": r"\.section",
    "line numbers": r"\.loc\b",
    "external functions": r"\.extern \.func",
}


@pytest.mark.parametrize("what", COVERED)
def test_fixtures_cover(what: str) -> None:
    assert any(re.search(COVERED[what], text_of(path)) for path in FIXTURES)


def test_fixtures_cover_recursion() -> None:
    def recursive(function: Function) -> bool:
        return any(
            line.opcode == "call" and Symbol(function.name) in line.operands
            for line in function.body.instructions
        )

    found = [f for path in FIXTURES for f in parse(text_of(path)).functions]
    assert any(recursive(f) for f in found if f.kind == "func")
