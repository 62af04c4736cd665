"""Damaged real files end in a result or a ParseError, in bounded time."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ptxsw.parser import operand_spans, parse
from ptxsw.ptx.errors import ParseError
from tests.real import CORPUS, FIXTURES, text_of

_SIZE = 12_000  # characters of a file that are used
_SECONDS = 2.0  # for one case, on a busy machine; most take milliseconds
_PIECES = [
    "{", "}", "[", "]", "(", ")", ";", ":", ",", '"', "//", "/*", "*/", "\n", "\0", "\\", "@", "%",
    ".", "|", "!", "+", "-", "<", ">", "=", "0x", "0f", "_", "$", "\ufeff", "é", " ", "\t",
    ".reg .b32 %r<999999999>;", ".loc 1 2 3", ".pragma \"x", "{ {", "} }", "L:", "1U", "((((", "::",
    ".section .debug {", "-9999999999999999999999", "~!-+", "?:", ".param .b8 x[", "a|b|c",
]  # fmt: skip


def _texts() -> list[str]:
    chosen = FIXTURES[::4] + CORPUS[::60]
    return [text_of(path)[:_SIZE] for path in chosen]


TEXTS = _texts()


def damage(seed: int) -> str:
    """A real text, cut, spliced, repeated and changed here and there, as `seed` says."""
    dice = random.Random(seed)
    text = dice.choice(TEXTS)
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(len(text) + 1)
        to = min(len(text), at + dice.choice((1, 5, 40, 400)))
        match dice.randrange(6):
            case 0:
                text = text[:at]
            case 1:
                other = dice.choice(TEXTS)
                text = text[:at] + other[dice.randrange(len(other)) :]
            case 2:
                text = text[:to] + text[at:]
            case 3:
                text = text[:at] + text[to:]
            case 4:
                text = text[:at] + dice.choice(_PIECES) + text[at:]
            case _:
                text = text[:at] + chr(dice.randrange(256)) + text[at + 1 :]
        text = text[: 3 * _SIZE]
    return text


def _survives(text: str) -> None:
    start = time.process_time()
    try:
        module = parse(text)
    except ParseError as error:
        assert error.line >= 1 and error.column >= 1
        return
    for function in module.functions:  # what a header says is read late, but never refused late
        assert isinstance(function.directives, tuple)
    try:
        for function in module.functions:
            for line in function.body.instructions:
                operand_spans(module.source, line)
    except ParseError as error:
        assert error.line >= 1 and error.column >= 1
        assert error.message in str(error)
    assert time.process_time() - start < _SECONDS


def _run(examples: int) -> None:
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(st.integers(0, 2**63))
    def check(seed: int) -> None:
        _survives(damage(seed))

    check()


def test_a_few_damaged_texts() -> None:
    _run(400)


@pytest.mark.slow
def test_many_damaged_texts() -> None:
    _run(20_000)


_HEAD = ".version 8.0\n.target sm_80\n"
_LONG = "9" * 5_000  # more digits than Python's int() takes


@pytest.mark.parametrize(
    "text",
    [
        "{" * 200_000,
        _HEAD + ".entry k() {" + "{" * 100_000,
        _HEAD + ".entry k() {" + "{ " * 50_000 + "}" * 50_000 + "}",
        _HEAD + ".entry k() {" + "{L: " * 20_000 + "}" * 20_000 + "}",
        _HEAD + ".entry k() { mov.u32 %r1, " + "(" * 50_000 + ";}",
        _HEAD + ".entry k() { mov.u32 %r1, " + "-" * 50_000 + "1;}",
        _HEAD + ".entry k() { mov.u32 %r1, " + "1+" * 20_000 + "1;}",
        _HEAD + ".entry k() { mov.u32 %r1, " + "9" * 100_000 + ";}",
        _HEAD + ".entry k() {" + ".reg .b32 %r<999999999>;" * 2_000 + "}",
        _HEAD + ".entry k() {" + "L: " * 50_000 + "}",
        _HEAD + ".entry k() {" + "@" * 50_000 + "}",
        _HEAD + ".entry k() {" + "/*" * 50_000 + "}",
        _HEAD + ".entry k() {" + '"' * 50_001 + "}",
        _HEAD + ".entry k() {" + "a " * 50_000 + "}",
        _HEAD + ".entry k() {" + "a.b, " * 50_000 + "}",
        _HEAD + ".entry k() {" + "/" * 50_000 + "}",
        _HEAD + ".entry k() {" + "ret; // x\n" * 20_000 + "}",
        _HEAD + ".entry k() {" + "\n" * 100_000 + "}",
        _HEAD + ".entry k() {" + ".reg .b32 a; mov.u32 a, 1;\n" * 10_000 + "}",
        _HEAD + ".func f(" + "(" * 50_000,
        _HEAD + ".visible " * 30_000,
        _HEAD + ".attribute(" * 30_000,
        _HEAD + ".global .u32 a[" + "1" * 100_000 + "];",
        _HEAD + ".global .u32 a = {" + "{" * 50_000 + "};",
        _HEAD + ".global .u32 a " + "[1]" * 50_000 + ";",
        _HEAD + ".global .u32 " + "a=1," * 5_000 + "b;",
        _HEAD + ".func f() {}\n" * 20_000,
        _HEAD + "/* " * 50_000,
        _HEAD + ".x " * 50_000,
        _HEAD + f".global .align {_LONG} .u32 a;",
        _HEAD + f".entry k(.param .align {_LONG} .b8 a[4]) {{ ret; }}",
        _HEAD + f".entry k() {{ .shared .align {_LONG} .b8 a[4]; }}",
        _HEAD + f".entry k() {{ .loc 1 {_LONG} 3\n ret; }}",
        _HEAD + f".entry k() {{\n.loc {_LONG} 1 3\nret;\n}}",
        _HEAD + f".entry k() {{ .reg .b32 r<9>; mov.u32 r{_LONG}, 1; }}",
    ],
    ids=range(35),
)
def test_hostile_texts(text: str) -> None:
    start = time.process_time()
    try:
        for function in parse(text).functions:
            _ = function.body
    except ParseError as error:
        assert str(error)
    assert time.process_time() - start < 4 * _SECONDS
