"""The editors that start the server, where there is one, configured as the docs say; and what VS
Code is given."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.command_line import ptxsw
from tests.editor.test_server import STRIDED, TRANSPOSE, needs_nvcc

ROOT = Path(__file__).parents[2]
VSCODE = ROOT / "editors" / "vscode"
TURN = TRANSPOSE.replace(
    "__shared__", "/* \u6f22 \U0001d6fc */ __shared__"
)  # editors count differently
MENDED = TURN.replace("tile[32][32]", "tile[32][33]")
CODE = ROOT / "build" / "vscode"  # by get_vscode.sh
BROWSER = shutil.which("chromium")


@pytest.mark.slow
@needs_nvcc
@pytest.mark.skipif(shutil.which("nvim") is None, reason="no Neovim")
def test_neovim_shows_a_conflict_and_mends_it(tmp_path: Path) -> None:
    script = Path(__file__).with_name("neovim.lua")
    said, text = _mended(tmp_path, "nvim", "--headless", "-u", "NONE", "-c", f"luafile {script}")
    assert "7: ptxsw-bank-conflicts" in said and "Write `tile[32][33]`" in said, said
    assert "mended" in said and text == MENDED, said


@pytest.mark.slow
@needs_nvcc
@pytest.mark.skipif(shutil.which("emacs") is None, reason="no Emacs")
def test_emacs_shows_a_conflict_and_mends_it(tmp_path: Path) -> None:
    asked = ["emacs", "--batch", "--eval", '(kill-emacs (if (locate-library "eglot") 0 1))']
    if subprocess.run(asked, capture_output=True).returncode:
        pytest.skip("no Eglot in this Emacs")
    script = Path(__file__).with_name("emacs.el")
    said, text = _mended(
        tmp_path, "emacs", "--batch", "-l", str(tmp_path / "init"), "-l", str(script)
    )
    assert "7: ptxsw [ptxsw-bank-conflicts]: 32-way" in said, said
    assert "Write `tile[32][33]`" in said and "mended" in said and text == MENDED, said


def _mended(directory: Path, editor: str, *arguments: str) -> tuple[str, str]:
    """What a session in an editor says, and what becomes of the file. What the docs have for the
    editor is in `init`."""
    section = {"nvim": "Neovim", "emacs": "Emacs"}[editor]
    page = (ROOT / "docs" / "editor.md").read_text().partition(f"\n## {section}\n")[2]
    (directory / "init").write_text(page.partition("```text\n")[2].partition("```")[0])
    path = directory / "turn.cu"
    path.write_text(TURN)
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PTXSW_CONFIG": str(directory / "init"),
        "PTXSW_FILE": str(path),
        "PTXSW_COMMAND": f"{sys.executable} -m ptxsw lsp",
    }
    done = subprocess.run(
        [editor, *arguments], env=environment, capture_output=True, text=True, timeout=300,
        cwd=directory,
    )  # fmt: skip
    return done.stderr + done.stdout, path.read_text()


@pytest.mark.slow
@needs_nvcc
@pytest.mark.skipif(
    not (CODE / "node_modules").exists(), reason="tests/editor/get_vscode.sh brings it"
)
@pytest.mark.skipif(BROWSER is None, reason="no chromium")
def test_vs_code_shows_a_conflict_and_mends_it(tmp_path: Path) -> None:
    """The extension is packaged as its README says, and installed."""
    folder = tmp_path / "a folder"
    folder.mkdir()
    (folder / "turn.cu").write_text(TRANSPOSE)
    url = "http://127.0.0.1:18443"
    with _vs_code(tmp_path, url.removeprefix("http://")):
        done = subprocess.run(
            [
                "node", str(Path(__file__).with_name("vscode.mjs")),
                f"{url}/?folder={quote(str(folder))}", "turn.cu", str(tmp_path / "picture.png"),
            ],
            cwd=CODE, env={**os.environ, "PTXSW_BROWSER": str(BROWSER)}, capture_output=True,
            text=True, timeout=500,
        )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}{done.stderr}: see {tmp_path / 'picture.png'}"
    assert "32-way bank conflict" in done.stdout and done.stdout.endswith("mended\n")
    assert "tile[32][33]" in (folder / "turn.cu").read_text()


@contextmanager
def _vs_code(directory: Path, address: str) -> Iterator[None]:
    """VS Code with the extension, while a browser may ask for it at an address."""
    for name in ("package.json", "extension.js", "README.md"):
        shutil.copy(VSCODE / name, CODE / "extension" / name)
    subprocess.run(["npm", "run", "package"], cwd=CODE / "extension", check=True)
    [package] = (CODE / "extension").glob("*.vsix")
    settings = {
        "ptxsw.command": [sys.executable, "-m", "ptxsw"],
        "ptxsw.check": ["--block", "32x32"],
        "security.workspace.trust.enabled": False,
        "breadcrumbs.enabled": False,
        "editor.minimap.enabled": False,
        "editor.occurrencesHighlight": "off",
        "editor.stickyScroll.enabled": False,
    }
    (directory / "data" / "User").mkdir(parents=True)
    (directory / "data" / "User" / "settings.json").write_text(json.dumps(settings))
    start = [
        "node", str(CODE / "node_modules" / "code-server" / "out" / "node" / "entry.js"),
        "--config", str(directory / "config.yaml"), "--user-data-dir", str(directory / "data"),
        "--extensions-dir", str(directory / "extensions"), "--disable-telemetry",
        "--disable-update-check", "--disable-getting-started-override", "--auth", "none",
        "--bind-addr", address,
    ]  # fmt: skip
    subprocess.run([*start, "--install-extension", str(package)], check=True, timeout=100)
    with (directory / "log").open("wb") as log:
        server = subprocess.Popen(start, stdout=log, stderr=log, start_new_session=True)
    try:
        until = time.monotonic() + 60
        while "HTTP server listening" not in (directory / "log").read_text():
            assert server.poll() is None and time.monotonic() < until, "VS Code does not start"
            time.sleep(0.1)
        yield
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def test_the_problem_matcher_reads_what_check_prints(tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(STRIDED)
    manifest = json.loads((VSCODE / "package.json").read_text())
    (matcher,) = manifest["contributes"]["problemMatchers"]
    pattern = matcher["pattern"]
    printed = ptxsw("check", str(path), "--no-ptxas").stdout.decode()
    found = [m for line in printed.splitlines() if (m := re.match(pattern["regexp"], line))]
    assert found and found[0][pattern["file"]] == str(path)
    assert found[0][pattern["line"]] == "12" and found[0][pattern["severity"]] == "warning"
    assert found[0][pattern["code"]] == "ptxsw-uncoalesced"


def test_the_extension_names_the_settings_that_the_server_reads() -> None:
    from ptxsw.editor.answers import EditorSettings

    manifest = json.loads((VSCODE / "package.json").read_text())
    properties = manifest["contributes"]["configuration"]["properties"]
    assert {name.removeprefix("ptxsw.") for name in properties} == set(
        EditorSettings.__struct_fields__
    )


@pytest.mark.skipif(shutil.which("node") is None, reason="no node")
def test_the_extension_is_javascript() -> None:
    done = subprocess.run(
        ["node", "--check", str(VSCODE / "extension.js")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


STAND_INS = """
const Module = require("node:module"), said = [];
let command = ["/nowhere/ptxsw"], changed;
class LanguageClient {
  constructor(id, name, server) { this.server = server; }
  async start() {
    said.push(`start ${this.server.command} ${this.server.args}`);
    if (this.server.command === "/nowhere/ptxsw") throw new Error("ENOENT");
    this.running = true;
  }
  async stop() {  // as the real one
    if (!this.running) throw new Error("Client is not running and can't be stopped");
    said.push("stop");
  }
}
const workspace = {
  getConfiguration: () => ({ get: (name) => (name === "command" ? command : []) }),
  onDidChangeConfiguration: (told) => { changed = told; },
};
const window = { showErrorMessage: (words) => said.push(words) };
const client = "vscode-languageclient/node";
const standIns = { vscode: { window, workspace }, [client]: { LanguageClient } };
const load = Module._load;
Module._load = (name, ...rest) => standIns[name] ?? load(name, ...rest);
const extension = require(process.argv[1]);
(async () => {
  await extension.activate({ subscriptions: [] });
  command = ["python", "-m", "ptxsw"];
  await changed({ affectsConfiguration: () => true });
  await extension.deactivate();
  console.log(said.join("\\n"));
})();
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="no node")
def test_the_extension_starts_once_its_command_is_right() -> None:
    """And says what to do until then."""
    done = subprocess.run(
        ["node", "-e", STAND_INS, str(VSCODE / "extension.js")], capture_output=True, text=True
    )
    assert done.stdout.splitlines() == [
        "start /nowhere/ptxsw lsp",
        "\"/nowhere/ptxsw\" does not start: pip install 'ptxsw[lsp]', or set ptxsw.command "
        "to where it is.",
        "start python -m,ptxsw,lsp",
        "stop",
    ], done.stderr


def test_without_pygls_it_says_what_to_install() -> None:
    start = (
        "import sys; sys.modules['pygls'] = None; sys.argv = ['ptxsw', 'lsp']\n"
        "from ptxsw.__main__ import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", start], capture_output=True, text=True)
    assert done.returncode == 2
    assert "the language server needs pygls: pip install 'ptxsw[lsp]'" in done.stderr
