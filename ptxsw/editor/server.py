"""The language server. It checks a file when it is opened and when it is saved, in the background:
a check that a later one makes needless is ended.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections import defaultdict
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
from lsprotocol import types as lsp
from msgspec import Struct
from msgspec.structs import replace
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path

from ptxsw import __version__
from ptxsw.editor import diagnostics
from ptxsw.editor.answers import CheckAnswer, EditorSettings, Failed, FoundInFile, checked
from ptxsw.editor.diagnostics import EditedLines, Shown
from ptxsw.editor.hovers import hover, same_file

_SUFFIXES = frozenset({".cu", ".ptx"})


class _Checked(Struct, frozen=True):
    """An answer, the directory where it was asked for, and the lines that the file had."""

    answer: CheckAnswer
    directory: str
    lines: Sequence[str]


class Server(LanguageServer):
    """What is known of each open file: the work in progress, where its findings were shown, and
    what was answered when it was checked last."""

    def __init__(self) -> None:
        super().__init__("ptxsw", __version__)
        self.settings = EditorSettings()
        self._work: dict[str, asyncio.Task[None]] = {}
        self._shown: defaultdict[str, set[str]] = defaultdict(set)  # by the file that was checked
        self._answers: dict[str, _Checked] = {}

    def check(self, uri: str) -> None:
        """Begin to check a file; what is in progress for it is ended."""
        path = to_fs_path(uri)
        if path is None or Path(path).suffix not in _SUFFIXES:
            return
        self._begin(uri, self._checked(uri, path))

    def forget(self, uri: str) -> None:
        """A file was closed."""
        self._begin(uri, self._cleared(uri))
        self._answers.pop(uri, None)

    def lines(self, uri: str) -> Sequence[str]:
        """The lines of a file, as it stands in the editor or on the disk."""
        try:
            return self.workspace.get_text_document(uri).lines
        except OSError:  # generated, and not kept
            return []

    def hover(self, uri: str, line: int) -> str | None:
        """Of a line, counted from 0, once the file was checked, if it was not edited since."""
        path, known = to_fs_path(uri), self._answers.get(uri)
        if path is None or known is None:
            return None
        at = EditedLines.of(self.lines(uri), known.lines).line(line)
        return None if at is None else hover(known.answer, known.directory, path, at + 1)

    def shown(self, uri: str) -> Shown:
        """A file that was checked, or that has findings of one that was."""
        lines, known = self.lines(uri), self._answers.get(uri)
        moved = EditedLines.of(lines if known is None else known.lines, lines)
        return Shown(lines, moved, self.workspace.position_codec.client_num_units)

    def _begin(self, uri: str, work: Coroutine[Any, Any, None]) -> None:
        if (earlier := self._work.pop(uri, None)) is not None:
            earlier.cancel()
        task = asyncio.get_running_loop().create_task(work)
        self._work[uri] = task
        task.add_done_callback(lambda done: self._ended(uri, done))

    def _ended(self, uri: str, task: asyncio.Task[None]) -> None:
        if self._work.get(uri) is task:
            del self._work[uri]
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log(f"{uri}: {error!r}", lsp.MessageType.Error)

    async def _checked(self, uri: str, path: str) -> None:
        directory, lines = self._directory(path), _saved(path)
        try:
            with self._progress(f"ptxsw: checking {Path(path).name}"):
                answer = await checked(path, self.settings, directory)
        except Failed as error:
            self._answers.pop(uri, None)
            self._log(str(error), lsp.MessageType.Warning)
            self._show(uri, path, [diagnostics.unreadable(str(error).splitlines()[-1], path)])
            return
        self._answers[uri] = _Checked(answer, directory, lines)
        findings = (*diagnostics.problems(answer, path), *answer.findings)
        self._show(uri, path, [replace(f, path=os.path.join(directory, f.path)) for f in findings])
        for problem in answer.problems:
            self._log(problem, lsp.MessageType.Info)

    async def _cleared(self, uri: str) -> None:
        for shown in self._shown.pop(uri, ()):
            self._publish(shown, [])

    @contextmanager
    def _progress(self, title: str) -> Iterator[None]:
        """Shown in an editor that can."""
        window, token, ended = self.client_capabilities.window, uuid4().hex, False
        if window is None or not window.work_done_progress:
            yield
            return

        def begin(*_: object) -> None:
            if not ended:
                self.work_done_progress.begin(token, lsp.WorkDoneProgressBegin(title))

        self.work_done_progress.create(token, begin)
        try:
            yield
        finally:
            ended = True
            if token in self.work_done_progress.tokens and not sys.stdout.closed:  # the editor left
                self.work_done_progress.end(token, lsp.WorkDoneProgressEnd())

    def _show(self, uri: str, path: str, findings: Sequence[FoundInFile]) -> None:
        """Findings in the files that they speak of, headers too."""
        by_uri: defaultdict[str, list[FoundInFile]] = defaultdict(list)
        for found in findings:
            own = uri if same_file(found.path, path) else from_fs_path(found.path)
            by_uri[own or uri].append(found)
        by_uri.setdefault(uri, [])
        for shown in self._shown[uri] - by_uri.keys():
            self._publish(shown, [])
        self._shown[uri] = set(by_uri)
        for shown, several in by_uri.items():
            as_shown = self.shown(shown)
            self._publish(shown, [diagnostics.diagnostic(each, as_shown) for each in several])

    def _publish(self, uri: str, found: list[lsp.Diagnostic]) -> None:
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, found))

    def _log(self, words: str, kind: lsp.MessageType) -> None:
        self.window_log_message(lsp.LogMessageParams(kind, words))

    def _directory(self, path: str) -> str:
        """Where commands are run: the folder of the workspace that has the file, or its own."""
        folders = [to_fs_path(folder) for folder in self.workspace.folders]
        above = [one for one in folders if one and Path(path).is_relative_to(one)]
        return max(above, key=len, default=str(Path(path).parent))


def serve() -> None:
    """Speak with an editor over standard input and output until it ends."""
    server().start_io()


def server() -> Server:
    """A server with all it answers."""
    ours = Server()

    @ours.feature(lsp.INITIALIZE)
    def _initialize(params: lsp.InitializeParams) -> None:
        if params.initialization_options is not None:
            ours.settings = msgspec.convert(_plain(params.initialization_options), EditorSettings)

    @ours.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    async def _opened(params: lsp.DidOpenTextDocumentParams) -> None:
        ours.check(params.text_document.uri)

    @ours.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    async def _saved(params: lsp.DidSaveTextDocumentParams) -> None:
        ours.check(params.text_document.uri)

    @ours.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    async def _closed(params: lsp.DidCloseTextDocumentParams) -> None:
        ours.forget(params.text_document.uri)

    @ours.feature(lsp.TEXT_DOCUMENT_HOVER)
    def _hover(params: lsp.HoverParams) -> lsp.Hover | None:
        words = ours.hover(params.text_document.uri, params.position.line)
        markdown = lsp.MarkupKind.Markdown
        return None if words is None else lsp.Hover(lsp.MarkupContent(markdown, words))

    quick = lsp.CodeActionOptions([lsp.CodeActionKind.QuickFix])

    @ours.feature(lsp.TEXT_DOCUMENT_CODE_ACTION, quick)
    def _actions(params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        uri = params.text_document.uri
        path = to_fs_path(uri) or ""
        given = params.context.diagnostics
        return list(diagnostics.actions(uri, path, ours.shown(uri), given))

    return ours


def _saved(path: str) -> Sequence[str]:
    """The lines of a file on the disk, which is what a check reads."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ()


def _plain(given: Any) -> Any:
    """Options as dictionaries: what came over the wire may be objects."""
    if hasattr(given, "_asdict"):
        given = given._asdict()
    if isinstance(given, dict):
        return {name: _plain(value) for name, value in given.items()}
    return [_plain(each) for each in given] if isinstance(given, list | tuple) else given
