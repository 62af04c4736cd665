"""An editor opens a file: a client of the Language Server Protocol, over standard input and output,
and `ptxsw lsp` as it is installed."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pygls")

from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc")
TRANSPOSE = """\
__global__ void __launch_bounds__(1024) turn(float *out, const float *in, int n)
{
    __shared__ float tile[32][32];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    tile[threadIdx.y][threadIdx.x] = in[y * n + x];
    __syncthreads();
    out[y * n + x] = tile[threadIdx.x][threadIdx.y];
}
"""
STRIDED = (
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry k(.param .u64 p)\n{\n.reg .b64 %d<3>;\n.reg .b32 %r<3>;\n"
    "ld.param.u64 %d1, [p];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %d2, %r1, 128;\n"
    "add.s64 %d1, %d1, %d2;\nld.global.u32 %r2, [%d1];\nst.global.u32 [%d1], %r2;\nret;\n}\n"
)
WAIT = 60.0  # seconds, on a busy machine


class Editor:
    """What a test does in an editor."""

    def __init__(self) -> None:
        self.client = LanguageClient("test", "1")
        self.published: asyncio.Queue[lsp.PublishDiagnosticsParams] = asyncio.Queue()
        self.said: list[str] = []
        self.progress: list[Any] = []

        def published(params: lsp.PublishDiagnosticsParams) -> None:
            self.published.put_nowait(params)

        def said(params: lsp.LogMessageParams) -> None:
            self.said.append(params.message)

        def in_progress(params: lsp.ProgressParams) -> None:
            self.progress.append(params.value)

        self.client.feature(lsp.WINDOW_WORK_DONE_PROGRESS_CREATE)(lambda params: None)
        self.client.feature(lsp.PROGRESS)(in_progress)
        self.client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(published)
        self.client.feature(lsp.WINDOW_LOG_MESSAGE)(said)

    async def start(self, folder: Path, options: Any) -> None:
        await self.client.start_io(sys.executable, "-m", "ptxsw", "lsp")
        await self.client.initialize_async(
            lsp.InitializeParams(
                capabilities=lsp.ClientCapabilities(
                    window=lsp.WindowClientCapabilities(work_done_progress=True)
                ),
                root_uri=folder.as_uri(),
                workspace_folders=[lsp.WorkspaceFolder(folder.as_uri(), "w")],
                initialization_options=options,
            )
        )
        self.client.initialized(lsp.InitializedParams())

    async def open(self, path: Path) -> list[lsp.Diagnostic]:
        item = lsp.TextDocumentItem(path.as_uri(), "cuda-cpp", 1, path.read_text())
        self.client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))
        return await self.diagnostics(path)

    async def save(self, path: Path, text: str, version: int) -> None:
        path.write_text(text)
        self.edit(path, text, version)
        identifier = lsp.TextDocumentIdentifier(path.as_uri())
        self.client.text_document_did_save(lsp.DidSaveTextDocumentParams(identifier))

    def edit(self, path: Path, text: str, version: int) -> None:
        """Without saving it."""
        document = lsp.VersionedTextDocumentIdentifier(version, path.as_uri())
        whole = lsp.TextDocumentContentChangeWholeDocument(text)
        self.client.text_document_did_change(lsp.DidChangeTextDocumentParams(document, [whole]))

    async def diagnostics(self, path: Path) -> list[lsp.Diagnostic]:
        while True:
            params = await asyncio.wait_for(self.published.get(), WAIT)
            if params.uri == path.as_uri():
                return list(params.diagnostics)

    async def actions(self, path: Path, found: lsp.Diagnostic) -> list[lsp.CodeAction]:
        context = lsp.CodeActionContext([found])
        identifier = lsp.TextDocumentIdentifier(path.as_uri())
        given = await self.client.text_document_code_action_async(
            lsp.CodeActionParams(identifier, found.range, context)
        )
        return [each for each in given or () if isinstance(each, lsp.CodeAction)]

    async def hover(self, path: Path, line: int) -> str:
        """Once the file is checked."""
        identifier = lsp.TextDocumentIdentifier(path.as_uri())
        for _ in range(int(WAIT / 0.1)):
            found = await self.client.text_document_hover_async(
                lsp.HoverParams(identifier, lsp.Position(line, 0))
            )
            if found is not None:
                assert isinstance(found.contents, lsp.MarkupContent)
                return found.contents.value
            await asyncio.sleep(0.1)
        raise AssertionError(f"no hover; the server said {self.said}")

    async def stop(self) -> None:
        await self.client.shutdown_async(None)
        self.client.exit(None)
        await self.client.stop()  # type: ignore[no-untyped-call]


def applied(text: str, action: lsp.CodeAction) -> str:
    """A text after the edits of an action, all of which lie in different lines."""
    assert action.edit is not None and action.edit.changes is not None
    (edits,) = action.edit.changes.values()
    lines = text.splitlines(keepends=True)
    for edit in edits:
        line, first, last = edit.range.start.line, edit.range.start, edit.range.end
        lines[line] = lines[line][: first.character] + edit.new_text + lines[line][last.character :]
    return "".join(lines)


def in_editor(folder: Path, does: Callable[[Editor], Awaitable[None]], options: Any = None) -> None:
    async def session() -> None:
        editor = Editor()
        await editor.start(folder, options)
        try:
            await does(editor)
        finally:
            await editor.stop()

    asyncio.run(session())


@needs_nvcc
def test_a_conflict_is_shown_and_the_padding_ends_it(tmp_path: Path) -> None:
    """The file is opened: a warning in the line that reads the tile by columns. The quick fix pads
    the tile; saved so, nothing is left."""
    path = tmp_path / "turn.cu"
    path.write_text(TRANSPOSE)

    async def does(editor: Editor) -> None:
        (found,) = await editor.open(path)
        assert (found.code, found.range.start.line) == ("ptxsw-bank-conflicts", 6)
        assert found.severity is lsp.DiagnosticSeverity.Warning
        table = await editor.hover(path, 6)
        assert table.startswith("**turn**: 2 accesses, blocks of 32x32\n")
        assert "32-way bank conflict" in table and "`st.global.f32`" in table
        assert "`out[32*ctaid.y*n + " in table
        padding, silence = await editor.actions(path, found)
        assert padding.title == "Write `tile[32][33]`" and padding.is_preferred
        assert silence.title == "Ignore bank-conflicts in this line"
        padded = applied(TRANSPOSE, padding)
        assert padded == TRANSPOSE.replace("tile[32][32]", "tile[32][33]")
        await editor.save(path, padded, 2)
        assert await editor.diagnostics(path) == []
        assert "no bank conflict" in await editor.hover(path, 6)
        await editor.save(path, applied(TRANSPOSE, silence), 3)
        assert await editor.diagnostics(path) == []

    in_editor(tmp_path, does, {"check": ["--block", "32x32"]})


def test_a_file_is_checked_by_one_process(tmp_path: Path) -> None:
    """It is compiled once and run once, for diagnostics and hovers. An editor shows that it is in
    progress."""
    path, log = tmp_path / "k.ptx", tmp_path / "log"
    path.write_text(STRIDED)
    words = f'echo "$2" >> {log}; exec {sys.executable} -m ptxsw "$@"'

    async def does(editor: Editor) -> None:
        assert await editor.open(path)
        assert "32 sectors" in await editor.hover(path, 11)
        assert log.read_text().split() == [str(path)]
        begin, end = editor.progress
        assert begin["title"] == "ptxsw: checking k.ptx" and end["kind"] == "end"

    in_editor(tmp_path, does, {"command": ["sh", "-c", words, "ptxsw"]})


def test_a_buffer_is_edited_and_not_saved(tmp_path: Path) -> None:
    """Lines have moved; of those that were edited nothing is known."""
    path = tmp_path / "k.ptx"
    path.write_text(STRIDED)

    async def does(editor: Editor) -> None:
        assert await editor.open(path)
        assert "`ld.global.u32`" in await editor.hover(path, 11)
        editor.edit(path, STRIDED.replace("ld.global.u32", "// new\n// lines\nld.global.f32"), 2)
        assert "`st.global.u32`" in await editor.hover(path, 14)
        identifier = lsp.TextDocumentIdentifier(path.as_uri())
        for line in (11, 13):
            asked = lsp.HoverParams(identifier, lsp.Position(line, 0))
            assert await editor.client.text_document_hover_async(asked) is None

    in_editor(tmp_path, does)


@pytest.mark.parametrize("shutdown", [True, False])
def test_an_editor_leaves_while_a_check_is_in_progress(tmp_path: Path, shutdown: bool) -> None:
    """The server ends at once, and the check with it."""
    path, begun, left = tmp_path / "k.ptx", tmp_path / "begun", tmp_path / "left"
    path.write_text(STRIDED)
    words = f"touch {begun}; sleep 60; touch {left}"
    capabilities = {"window": {"workDoneProgress": True}}
    options = {"command": ["sh", "-c", words]}
    item = {"uri": path.as_uri(), "languageId": "ptx", "version": 1, "text": STRIDED}
    asked: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize",
         "params": {"capabilities": capabilities, "initializationOptions": options}},
        {"method": "initialized", "params": {}},
        {"method": "textDocument/didOpen", "params": {"textDocument": item}},
    ]  # fmt: skip
    server = subprocess.Popen(
        [sys.executable, "-m", "ptxsw", "lsp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    assert server.stdin is not None and server.stdout is not None

    def send(*messages: dict[str, Any]) -> None:
        assert server.stdin is not None
        for message in messages:
            text = json.dumps({"jsonrpc": "2.0", **message}).encode()
            server.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(text), text))
        server.stdin.flush()

    send(*asked)
    token = None
    while token is None:  # the question whether progress may be shown
        line = server.stdout.readline()
        assert line
        length = int(line.removeprefix(b"Content-Length: ")) if line[:1] == b"C" else 0
        while length and server.stdout.readline().strip():
            pass
        said = json.loads(server.stdout.read(length)) if length else {}
        token = said.get("params", {}).get("token")
    send({"id": said["id"], "result": None})
    while not begun.exists():
        time.sleep(0.05)
    send(*([{"id": 2, "method": "shutdown"}] if shutdown else []), {"method": "exit"})
    _, errors = server.communicate(timeout=WAIT)
    assert (server.returncode, errors) == (0, b"")
    assert not left.exists()


def test_arguments_that_check_does_not_know(tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(STRIDED)

    async def does(editor: Editor) -> None:
        (found,) = await editor.open(path)
        assert found.message.startswith(
            "ptxsw could not check this file: Error: No such option: --blok"
        )

    in_editor(tmp_path, does, {"check": ["--blok", "32"]})


@pytest.mark.slow
@needs_nvcc
def test_pointers_are_declared_restrict(tmp_path: Path) -> None:
    text = (
        "__global__ void scale(float *x, const float *s,\n                      int n)\n{\n"
        "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "    for (int k = 0; k < n; k++)\n        x[k * 4096 + i] *= s[0];\n}\n"
    )
    path = tmp_path / "scale.cu"
    path.write_text(text)

    async def does(editor: Editor) -> None:
        (found,) = await editor.open(path)
        assert found.code == "ptxsw-may-alias"
        written, _ = await editor.actions(path, found)
        assert "these arrays must not overlap" in written.title
        assert not written.is_preferred  # whether they overlap only the author knows

    in_editor(tmp_path, does)


@pytest.mark.slow
@needs_nvcc
def test_the_last_save_counts(tmp_path: Path) -> None:
    """Three saves one after another: the checks of the first two are ended."""
    path = tmp_path / "turn.cu"
    path.write_text(TRANSPOSE)

    async def does(editor: Editor) -> None:
        assert await editor.open(path)
        for version in (2, 3):
            await editor.save(path, TRANSPOSE, version)
        await editor.save(path, TRANSPOSE.replace("[32][32]", "[32][33]"), 4)
        assert await editor.diagnostics(path) == []
        await asyncio.sleep(0.5)
        assert editor.published.empty()

    in_editor(tmp_path, does, {"check": ["--block", "32x32"]})


def test_a_file_that_cannot_be_read_says_why_in_its_line(tmp_path: Path) -> None:
    path = tmp_path / "broken.ptx"
    path.write_text(".version 8.0\n.target sm_80\n.address_size 64\n.entry k() { mov.u32 %r1 }\n")

    async def does(editor: Editor) -> None:
        (found,) = await editor.open(path)
        assert found.severity is lsp.DiagnosticSeverity.Information
        assert found.message == (
            "ptxsw could not check this file: expected ',' or ';' after the operand"
        )
        assert (found.range.start.line, found.range.start.character) == (3, 24)
        assert await editor.actions(path, found) == []
        identifier = lsp.TextDocumentIdentifier(path.as_uri())
        editor.client.text_document_did_close(lsp.DidCloseTextDocumentParams(identifier))
        assert await editor.diagnostics(path) == []

    in_editor(tmp_path, does)


def test_lines_of_a_ptx_have_hovers(tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(STRIDED)

    async def does(editor: Editor) -> None:
        found = await editor.open(path)
        assert all(each.range.start.line in (11, 12) for each in found)
        assert "| `ld.global.u32` | 4 | 128 bytes | 32 sectors (12 % used) |" in await editor.hover(
            path, 11
        )

    in_editor(tmp_path, does)
