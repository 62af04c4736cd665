"""Braces are matched by plain searches only where comments and strings hold none."""

from __future__ import annotations

import random
import time

import pytest

from ptxsw.parser import parse
from ptxsw.parser.scan import Braces

MARKS = '/*"{}\nab'


def _agrees(text: str) -> bool:
    """Is every brace that the plain searches match matched as the exact reading does?"""
    braces = Braces(text)
    if not braces.plain:
        return False
    exact = Braces(text)
    exact.plain = False
    at = text.find("{")
    while at >= 0:
        assert braces.close(at) == exact.close(at), text
        at = text.find("{", at + 1)
    return True


def test_plain_searches_agree_with_the_exact_reading() -> None:
    dice = random.Random(1)
    plain = sum(
        _agrees("".join(dice.choices(MARKS, (2, 1, 1, 3, 3, 4, 3, 3), k=dice.randint(1, 40))))
        for _ in range(20_000)
    )
    assert plain > 3_000


@pytest.mark.parametrize("dense", ["a/b\n{}\n", 'a"b"\n{}\n', "a*b\n{}\n", "//c\n{}\n"])
@pytest.mark.parametrize("hidden", ['"{"\n', "// {\n", "/* } */", "// a } b\n"])
def test_a_brace_behind_many_marks_is_seen(dense: str, hidden: str) -> None:
    """More marks than are looked at one by one."""
    assert Braces(dense * 3_000).plain
    assert not Braces(dense * 3_000 + hidden).plain


@pytest.mark.parametrize("line", ["/ }\n", '" a\n}\n', "*\n", "//\n", "{/\n", "}\n", "{\n"])
def test_search_is_linear(line: str) -> None:
    text = line * (2_000_000 // len(line))
    start = time.process_time()
    Braces(text).close(0)
    assert time.process_time() - start < 2.0


def test_the_start_of_a_text_may_be_spread_out() -> None:
    """Comments between the directives at the start change nothing but their places."""
    usual = parse("// a\n.version 8.3\n.target sm_80, debug\n.address_size 32\n")
    odd = parse("// a\n.version 8.3 // b\n.target sm_80, debug // c\n.address_size /**/ 32\n")
    assert (usual.version, usual.targets, usual.address_size) == ((8, 3), ("sm_80", "debug"), 32)
    assert (odd.version, odd.targets, odd.address_size) == ((8, 3), ("sm_80", "debug"), 32)
    for module in (usual, odd):
        (directive,) = module.directives
        assert directive.name == "address_size"
        assert module.source.slice(directive.span).startswith(".address_size")
        assert module.source.slice(directive.span).endswith("32")
