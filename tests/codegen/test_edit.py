"""Edits splice into a text, leave the rest alone, and ptxas still takes what it took."""

from __future__ import annotations

import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxsw.codegen.splice import Edit, apply, indentation, insert, insert_lines, line_end
from ptxsw.parser import parse
from ptxsw.ptx.ir import Function
from ptxsw.ptx.source import Span
from tests.real import CORPUS, FIXTURES, name_of, text_of


def test_no_edits_give_the_very_text() -> None:
    text = "a\r\nb"
    assert apply(text, []) is text


def test_edits_are_sorted_and_insertions_keep_their_order() -> None:
    edits = [Edit(Span(4, 5), "X"), insert(2, "1"), insert(2, "2"), Edit(Span(2, 3), "Y")]
    assert apply("abcdef", edits) == "ab12YdXf"
    assert apply("abc", [insert(3, "!"), insert(0, ">")]) == ">abc!"
    assert apply("abc", [Edit(Span(0, 3), "")]) == ""


@pytest.mark.parametrize(
    "edits",
    [
        [Edit(Span(0, 3), ""), Edit(Span(2, 4), "")],
        [Edit(Span(0, 3), ""), insert(1, "x")],
        [Edit(Span(3, 9), "")],
        [Edit(Span(3, 2), "")],
    ],
)
def test_edits_must_fit(edits: list[Edit]) -> None:
    with pytest.raises(AssertionError):
        apply("abcdef", edits)


@given(st.text(max_size=30), st.lists(st.tuples(st.integers(0, 30), st.text(max_size=3))))
def test_insertions_lose_nothing(text: str, places: list[tuple[int, str]]) -> None:
    edits = [insert(min(at, len(text)), new) for at, new in places]
    expected = [""] * (len(text) + 1)
    for edit in edits:
        expected[edit.span.start] += edit.text
    woven = "".join(new + old for new, old in zip(expected, [*text, ""], strict=True))
    assert apply(text, edits) == woven


def test_lines_follow_the_indentation_and_line_ends_of_the_text() -> None:
    text = "{\r\n\t  add;\r\n  mul; sub;\r\n}"
    assert line_end(text) == "\r\n" and line_end("a\nb") == "\n" and line_end("") == "\n"
    assert indentation(text, text.index("add")) == "\t  "
    added = apply(text, [insert_lines(text, text.index("add"), ["x;", "y;"])])
    assert added == "{\r\n\t  x;\r\n\t  y;\r\n\t  add;\r\n  mul; sub;\r\n}"
    added = apply(text, [insert_lines(text, text.index("sub"), ["x;"])])
    assert added == "{\r\n\t  add;\r\n  mul; x;\r\n  sub;\r\n}"


# ---------------------------------------------------------------- against ptxas


def _ptxas() -> str | None:
    spec = find_spec("nvidia")
    for folder in spec.submodule_search_locations or () if spec is not None else ():
        for path in sorted(Path(folder).glob("*/bin/ptxas")):
            return str(path)
    return shutil.which("ptxas")


PTXAS = _ptxas()
needs_ptxas = pytest.mark.skipif(PTXAS is None, reason="no ptxas")


def _accepted(text: str, arch: str, folder: Path) -> bool:
    assert PTXAS is not None
    source = folder / "in.ptx"
    source.write_bytes(text.encode("utf-8", errors="surrogateescape"))
    command = [PTXAS, f"-arch={arch}", "-O0", "-c", str(source), "-o", str(folder / "out.cubin")]
    return subprocess.run(command, capture_output=True, timeout=300).returncode == 0


def _added(text: str, function: Function) -> list[Edit]:
    """A register at the top of a body, a `mov` to it and a use before the first instruction."""
    assert function.body_span is not None
    first = function.body.instructions[0].span.start
    return [
        insert(function.body_span.start + 1, f"{line_end(text)}\t.reg .b32 %ptxsw_new;"),
        insert_lines(
            text, first, ["mov.u32 %ptxsw_new, 7;", "add.u32 %ptxsw_new, %ptxsw_new, %ptxsw_new;"]
        ),
    ]


def _check(path: Path, folder: Path) -> None:
    text = text_of(path)
    module = parse(text, path.name)
    target = module.targets[0]
    arch = target if module.sm >= 75 else "sm_75"
    bodies = [f for f in module.functions if f.body_span and f.body.instructions]
    if not bodies or not _accepted(text, arch, folder):
        pytest.skip("ptxas does not take the file as it is")
    edited = apply(text, [edit for function in bodies for edit in _added(text, function)])
    again = parse(edited, path.name)
    for before, after in zip(module.functions, again.functions, strict=True):
        new = 2 if before.body.instructions else 0
        assert len(after.body.instructions) == len(before.body.instructions) + new
    assert _accepted(edited, arch, folder)


@needs_ptxas
@pytest.mark.parametrize("path", FIXTURES[::5], ids=name_of)
def test_ptxas_accepts_a_sample_after_an_edit(path: Path, tmp_path: Path) -> None:
    _check(path, tmp_path)


@needs_ptxas
@pytest.mark.slow
@pytest.mark.parametrize("path", FIXTURES + CORPUS, ids=name_of)
def test_ptxas_accepts_all_after_an_edit(path: Path, tmp_path: Path) -> None:
    _check(path, tmp_path)
