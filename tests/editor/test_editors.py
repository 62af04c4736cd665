"""The editors that start the server: Neovim, where there is one, and what VS Code is given."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_line import ptxsw
from tests.editor.test_server import TRANSPOSE, needs_nvcc

ROOT = Path(__file__).parents[2]
VSCODE = ROOT / "editors" / "vscode"
STRIDED = (
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry k(.param .u64 p)\n{\n.reg .b64 %d<3>;\n.reg .b32 %r<3>;\n"
    "ld.param.u64 %d1, [p];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %d2, %r1, 128;\n"
    "add.s64 %d1, %d1, %d2;\nld.global.u32 %r2, [%d1];\nst.global.u32 [%d1], %r2;\nret;\n}\n"
)


@pytest.mark.slow
@needs_nvcc
@pytest.mark.skipif(shutil.which("nvim") is None, reason="no Neovim")
def test_neovim_shows_a_conflict_and_mends_it(tmp_path: Path) -> None:
    path = tmp_path / "turn.cu"
    path.write_text(TRANSPOSE)
    environment = {
        **os.environ,
        "PTXSW_FILE": str(path),
        "PTXSW_COMMAND": f"{sys.executable} -m ptxsw lsp",
    }
    script = Path(__file__).with_name("neovim.lua")
    done = subprocess.run(
        ["nvim", "--headless", "-u", "NONE", "-c", f"luafile {script}"],
        env=environment, capture_output=True, text=True, timeout=300, cwd=tmp_path,
    )  # fmt: skip
    said = done.stderr + done.stdout
    assert "7: ptxsw-bank-conflicts" in said and "Write `tile[32][33]`" in said, said
    assert "mended" in said
    assert "tile[32][33]" in path.read_text()


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


def test_without_pygls_it_says_what_to_install() -> None:
    start = (
        "import sys; sys.modules['pygls'] = None; sys.argv = ['ptxsw', 'lsp']\n"
        "from ptxsw.__main__ import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", start], capture_output=True, text=True)
    assert done.returncode == 2
    assert "the language server needs pygls: pip install 'ptxsw[lsp]'" in done.stderr
