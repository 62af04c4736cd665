"""Findings as the diagnostics of an editor, and what an editor can do about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any

import msgspec
from lsprotocol import types as lsp
from msgspec import Struct

from ptxsw.editor.answers import CheckAnswer, FoundInFile
from ptxsw.report.model import SourceEdit

SOURCE = "ptxsw"
_SEVERITIES = {
    "error": lsp.DiagnosticSeverity.Error,
    "warning": lsp.DiagnosticSeverity.Warning,
    "note": lsp.DiagnosticSeverity.Information,
}
_COMMENTS = frozenset({".ptx", ".cu", ".cuh", ".c", ".cc", ".cpp", ".cxx", ".h", ".hpp"})
"""Files in which `//` begins a comment."""


class _Data(Struct, frozen=True):
    """What an editor keeps with a diagnostic and hands back."""

    rule: str
    edits: tuple[SourceEdit, ...] = ()


def diagnostic(found: FoundInFile, lines: Sequence[str]) -> lsp.Diagnostic:
    """A finding in a file of these lines. It goes from its column to the end of the line."""
    at = min(found.line, max(len(lines), 1)) - 1
    text = lines[at].rstrip("\r\n") if lines else ""
    first = min(found.column - 1, len(text))
    return lsp.Diagnostic(
        range=lsp.Range(_place(at, text, first), _place(at, text, len(text))),
        message=f"{found.what}\n{found.advice}",
        severity=_SEVERITIES[found.level],
        code=found.rule,
        source=SOURCE,
        data=msgspec.to_builtins(_Data(found.rule, found.edits)),
    )


def problem(answer: CheckAnswer) -> lsp.Diagnostic | None:
    """That a file could not be read, at its head; None where it could."""
    if not answer.problems:
        return None
    return unreadable(answer.problems[0])


def unreadable(words: str) -> lsp.Diagnostic:
    """That a file could not be checked, at its head."""
    return lsp.Diagnostic(
        range=lsp.Range(lsp.Position(0, 0), lsp.Position(0, 0)),
        message=f"ptxsw could not check this file: {words}",
        severity=lsp.DiagnosticSeverity.Information,
        source=SOURCE,
    )


def _place(line: int, text: str, characters: int) -> lsp.Position:
    """Editors count in units of UTF-16."""
    return lsp.Position(line, len(text[:characters].encode("utf-16-le")) // 2)


# ---------------------------------------------------------------- what can be done


def actions(
    uri: str, path: str, lines: Sequence[str], given: Sequence[lsp.Diagnostic]
) -> Iterator[lsp.CodeAction]:
    """What mends a finding where it says how to write it, and a comment that silences it."""
    for each in given:
        data = _data(each.data)
        if each.source != SOURCE or data is None:
            continue
        if edits := _written(lines, data.edits):
            title = f"Write {' and '.join(f'`{edit.new}`' for edit in data.edits)}"
            if any("__restrict__" in edit.new for edit in data.edits):
                title += " (these arrays must not overlap)"
            yield _action(title, uri, edits, each, is_preferred=len(data.edits) == 1)
        if PurePath(path).suffix.lower() in _COMMENTS and each.range.start.line < len(lines):
            rule = data.rule.removeprefix("ptxsw-")
            comment = _comment(each.range.start.line, lines, rule)
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


def _written(lines: Sequence[str], edits: Sequence[SourceEdit]) -> list[lsp.TextEdit]:
    """All of them, or none where the text is no longer what was checked."""
    written = []
    for edit in edits:
        text = lines[edit.line - 1] if edit.line <= len(lines) else ""
        if text.count(edit.old) != 1:
            return []
        at = text.index(edit.old)
        where = lsp.Range(
            _place(edit.line - 1, text, at), _place(edit.line - 1, text, at + len(edit.old))
        )
        written.append(lsp.TextEdit(where, edit.new))
    return written


def _comment(line: int, lines: Sequence[str], rule: str) -> lsp.TextEdit:
    text = lines[line].rstrip()
    end = _place(line, text, len(text))
    return lsp.TextEdit(lsp.Range(end, end), f"  // ptxsw: ignore[{rule}]")
