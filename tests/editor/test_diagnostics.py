"""Findings in the lines of an editor, which may not be those that were checked."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import msgspec
import pytest

pytest.importorskip("pygls")

from lsprotocol import types as lsp

from ptxsw.editor.answers import CheckAnswer, FoundInFile
from ptxsw.editor.diagnostics import EditedLines, Shown, actions, diagnostic, problems
from ptxsw.report.model import SourceEdit

TEXTS = ["".join(letters) for length in range(5) for letters in product("ab", repeat=length)]
TILE = ["__shared__ float t[32][32];", "t[y][x] = 0;", "a = t[x][y];"]
FOUND = FoundInFile(
    "k.cu", 3, 1, "ptxsw-bank-conflicts", "warning", "Slow.", "Pad it.",
    (SourceEdit(1, "t[32][32]", "t[32][33]"),),
)  # fmt: skip


def utf16(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def shown(now: list[str], units: Callable[[str], int] = utf16) -> Shown:
    """What was the tile when it was checked."""
    return Shown(now, EditedLines.of(TILE, now), units)


def test_lines_are_followed_through_an_edit() -> None:
    """Of all short texts: a line that is followed is the same line, and their order stays."""
    for before, after in product(TEXTS, TEXTS):
        lines = EditedLines.of(before, after)
        moved = [(line, lines.line(line)) for line in range(len(before))]
        kept = [(line, at) for line, at in moved if at is not None]
        assert all(before[line] == after[at] for line, at in kept)
        assert [at for _, at in kept] == sorted({at for _, at in kept})
        if before == after:
            assert len(kept) == len(before)


def test_ends_of_lines_do_not_matter() -> None:
    assert EditedLines.of(["a\r\n", "b"], ["a\n", "b\n"]).line(1) == 1


def test_a_finding_moves_with_its_line() -> None:
    now = ["// new", *TILE]
    assert diagnostic(FOUND, shown(now)).range == lsp.Range(lsp.Position(3, 0), lsp.Position(3, 12))


def test_a_finding_of_an_edited_line_is_at_the_first_that_was() -> None:
    now = [TILE[0], "// all else is new"]
    assert diagnostic(FOUND, shown(now)).range.start.line == 1


@pytest.mark.parametrize(
    ("now", "line"),
    [(TILE, 0), (["// new", *TILE], 1), (["float t[32][32];", *TILE[1:]], None), ([], None)],
)
def test_a_fix_is_written_where_its_line_is_now(now: list[str], line: int | None) -> None:
    """And not at all where that was edited."""
    given = [diagnostic(FOUND, shown(TILE))]
    offered = list(actions("file:///k.cu", "/k.cu", shown(now), given))
    fixes = [each for each in offered if each.title.startswith("Write")]
    assert len(fixes) == (line is not None)
    for fix in fixes:
        assert fix.edit is not None and fix.edit.changes is not None
        ((edit,),) = fix.edit.changes.values()
        assert (edit.range.start, edit.new_text) == (lsp.Position(line or 0, 17), "t[32][33]")


@pytest.mark.parametrize(
    ("said", "places"),
    [
        ('a b/k.cu(2): error: expected a ")"\n  {\n  ^', [("a b/k.cu", 2, 1, "error")]),
        ("k.cu(9): error #20-D: no `x`\nk.cu(8): warning #1-D: hm", [("k.cu", 9, 1, "error")]),
        ("k.cu:1:10: fatal error: x.h: No such file or directory", [("k.cu", 1, 10, "error")]),
        ("In file included from k.cu:1:\nx.h:3:7: error: no", [("x.h", 3, 7, "error")]),
        ("k.cu:1:2: note: here\nk.cu:2:3: warning: hm", [("k.cu", 1, 1, "note")]),
        ("k.ptx:4:25: expected ','\n    4 | .entry", [("k.ptx", 4, 25, "note")]),
        ("k.cu: no nvcc and no clang++ found", [("k.cu", 1, 1, "note")]),
    ],
)  # fmt: skip
def test_what_cannot_be_checked_is_shown_where_the_error_is(
    said: str, places: list[tuple[str, int, int, str]]
) -> None:
    found = list(problems(CheckAnswer(problems=(said,)), "k.cu"))
    assert [(each.path, each.line, each.column, each.level) for each in found] == places
    given = diagnostic(found[0], shown(TILE))
    assert given.code is None and list(actions("", "k.cu", shown(TILE), [given])) == []


@pytest.mark.parametrize(
    ("units", "places"), [(utf16, (9, 13)), (len, (8, 12)), (lambda t: len(t.encode()), (11, 15))]
)
def test_characters_are_counted_as_the_editor_does(
    units: Callable[[str], int], places: tuple[int, int]
) -> None:
    """VS Code in UTF-16, Emacs in characters, Neovim in bytes."""
    found = msgspec.structs.replace(FOUND, line=1, column=9)
    place = diagnostic(found, shown(["/* \U0001d6fc */ x();"], units)).range
    assert (place.start.character, place.end.character) == places
