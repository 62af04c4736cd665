"""Findings as the diagnostics of an editor, and what an editor can do about them.

A file was checked as it was saved. In the editor it may be another by now, so lines are looked up
in both (`EditedLines`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from pathlib import PurePath
from typing import Any

import msgspec
from lsprotocol import types as lsp
from msgspec import Struct

from ptxsw.editor.answers import CheckAnswer, FoundInFile
from ptxsw.ptx.patterns import pattern
from ptxsw.report.model import SourceEdit

SOURCE = "ptxsw"
_UNREADABLE = "ptxsw could not check this file"
_SEVERITIES = {
    "error": lsp.DiagnosticSeverity.Error,
    "warning": lsp.DiagnosticSeverity.Warning,
    "note": lsp.DiagnosticSeverity.Information,
}
_COMMENTS = frozenset({".ptx", ".cu", ".cuh", ".c", ".cc", ".cpp", ".cxx", ".h", ".hpp"})
"""Files in which `//` begins a comment."""


_PLACED = pattern(
    r"^(\S.*?)(?:\((\d+)\)|:(\d+):(\d+)): (?:(?P<error>(?:\w+ )?error)[^:]*: )?(.+)$", re.MULTILINE
)
"""A place and what is wrong there, as nvcc, clang, GCC and ptxsw write it."""
_ASIDE = ("warning", "note", "remark", "In file")


class EditedLines(Struct, frozen=True):
    """Where the lines of a text, counted from 0, are in another, from which it differs by one
    stretch: the lines before `first` and those from `last` on are the same."""

    first: int
    last: int
    shift: int

    @classmethod
    def of(cls, before: Sequence[str], after: Sequence[str]) -> EditedLines:
        most = min(len(before), len(after))
        first = _equal(before[:most], after[:most])
        rest = most - first
        tail = _equal(before[::-1][:rest], after[::-1][:rest])
        return cls(first, len(before) - tail, len(after) - len(before))

    def line(self, line: int) -> int | None:
        """None in the stretch."""
        if line < self.first:
            return line
        return line + self.shift if line >= self.last else None


def _equal(lines: Sequence[str], others: Sequence[str]) -> int:
    """How many lines are the same from the first on, whatever ends them."""
    pairs = zip(lines, others, strict=True)
    return sum(1 for _ in takewhile(lambda p: p[0].rstrip("\r\n") == p[1].rstrip("\r\n"), pairs))


class Shown(Struct, frozen=True):
    """A file as it is in an editor: its lines now, and where those are that were checked. `units`
    counts a text as the editor does, in UTF-16 if nothing else was agreed."""

    lines: Sequence[str]
    moved: EditedLines
    units: Callable[[str], int]

    def range(self, line: int, first: int, last: int) -> lsp.Range:
        """From one character of a line to another."""
        text = self.lines[line] if self.lines else ""
        units = [self.units(text[:end]) for end in (first, last)]
        return lsp.Range(*(lsp.Position(line, end) for end in units))


class _Data(Struct, frozen=True):
    """What an editor keeps with a diagnostic and hands back."""

    rule: str
    edits: tuple[SourceEdit, ...] = ()


def diagnostic(found: FoundInFile, shown: Shown) -> lsp.Diagnostic:
    """A finding in a file. It goes from its column to the end of the line; where that was edited,
    it is at the first line that was."""
    moved, lines = shown.moved.line(found.line - 1), shown.lines
    at = min(shown.moved.first if moved is None else moved, max(len(lines) - 1, 0))
    end = len(lines[at].rstrip("\r\n")) if lines else 0
    return lsp.Diagnostic(
        range=shown.range(at, min(found.column - 1, end), end),
        message=f"{found.what}\n{found.advice}".rstrip(),
        severity=_SEVERITIES[found.level],
        code=found.rule or None,
        source=SOURCE,
        data=msgspec.to_builtins(_Data(found.rule, found.edits)) if found.rule else None,
    )


def problems(answer: CheckAnswer, path: str) -> Iterator[FoundInFile]:
    """Why files could not be checked: each error where it is, or at the head of the file `path`."""
    for words in answer.problems:
        yield from list(_placed(words)) or [unreadable(words, path)]


def unreadable(words: str, path: str) -> FoundInFile:
    """That a file could not be checked, at its head."""
    return FoundInFile(path, 1, 1, "", "note", f"{_UNREADABLE}: {words}", "")


def _placed(words: str) -> Iterator[FoundInFile]:
    for match in _PLACED.finditer(words):
        file, line, other, column, error, what = match.groups()
        if what.startswith(_ASIDE):
            continue
        level, what = ("error", what) if error else ("note", f"{_UNREADABLE}: {what}")
        advice = "ptxsw checks this file once it compiles." if error else ""
        yield FoundInFile(file, int(line or other), int(column or 1), "", level, what, advice)


# ---------------------------------------------------------------- what can be done


def actions(
    uri: str, path: str, shown: Shown, given: Sequence[lsp.Diagnostic]
) -> Iterator[lsp.CodeAction]:
    """What mends a finding where it says how to write it, and a comment that silences it."""
    for each in given:
        data = _data(each.data)
        if each.source != SOURCE or data is None:
            continue
        if edits := _written(shown, data.edits):
            title = f"Write {' and '.join(f'`{edit.new}`' for edit in data.edits)}"
            if any("__restrict__" in edit.new for edit in data.edits):
                title += " (these arrays must not overlap)"
            yield _action(title, uri, edits, each, is_preferred=len(data.edits) == 1)
        if PurePath(path).suffix.lower() in _COMMENTS and each.range.start.line < len(shown.lines):
            rule = data.rule.removeprefix("ptxsw-")
            comment = _comment(each.range.start.line, shown, rule)
            title = f"Ignore {rule} in this line"
            yield _action(title, uri, [comment], each, is_preferred=False)


def _data(given: Any) -> _Data | None:
    try:
        return msgspec.convert(given, _Data)
    except msgspec.ValidationError:
        return None


def _action(
    title: str, uri: str, edits: list[lsp.TextEdit], mended: lsp.Diagnostic, *, is_preferred: bool
) -> lsp.CodeAction:
    return lsp.CodeAction(
        title=title,
        kind=lsp.CodeActionKind.QuickFix,
        diagnostics=[mended],
        is_preferred=is_preferred,
        edit=lsp.WorkspaceEdit(changes={uri: edits}),
    )


def _written(shown: Shown, edits: Sequence[SourceEdit]) -> list[lsp.TextEdit]:
    """All of them, or none where a line is no longer what was checked."""
    written = []
    for edit in edits:
        line = shown.moved.line(edit.line - 1)
        text = shown.lines[line] if line is not None and line < len(shown.lines) else ""
        if line is None or text.count(edit.old) != 1:
            return []
        at = text.index(edit.old)
        written.append(lsp.TextEdit(shown.range(line, at, at + len(edit.old)), edit.new))
    return written


def _comment(line: int, shown: Shown, rule: str) -> lsp.TextEdit:
    end = len(shown.lines[line].rstrip())
    return lsp.TextEdit(shown.range(line, end, end), f"  // ptxsw: ignore[{rule}]")
