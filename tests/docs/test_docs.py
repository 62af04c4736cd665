"""The documents are true: links lead somewhere, the README's code and the errors are real."""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
import subprocess
import sys
from ctypes.util import find_library
from pathlib import Path

import pytest

from tests.command_line import in_text
from tests.docs.blocks import blocks
from tests.heads import head

ROOT = Path(__file__).parents[2]
INPUTS = Path(__file__).parent / "inputs"
DOCS = ROOT / "docs"
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
KERNELS = ROOT / "benchmarks" / "kernelgen" / "ptx"

_LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
_BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)


def ptxsw(
    command: str, cwd: Path, more: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return in_text(*shlex.split(command)[1:], cwd=cwd, env=more)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links(document: Path) -> None:
    text = document.read_text()
    for target in _LINK.findall(text):
        if target.startswith(("https://", "http://")):
            continue
        path, _, anchor = target.partition("#")
        file = document if not path else (document.parent / path)
        assert file.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", file.read_text(), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in headings}


def test_the_readme_shows_real_code(tmp_path: Path) -> None:
    """Before and after, line for line, but for our comments."""
    readme = (ROOT / "README.md").read_text()
    section = readme.partition("## Before and after")[2].partition("\n## ")[0]
    before, after = re.findall(r"^```ptx\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    [command] = re.findall(r"`(ptxsw optimize [^`]+)`", section)
    assert ptxsw(command.replace("out.ptx", str(tmp_path / "out.ptx")), ROOT).returncode == 0
    shown = [re.sub(r"\s*//.*", "", line) for line in after.splitlines()]
    rewritten = (tmp_path / "out.ptx").read_text()
    assert before in (KERNELS / "laplacian.ptx").read_text()
    assert "\n".join(shown) in rewritten


def examples() -> list[tuple[str, str]]:
    """Commands of docs/errors.md with what they print."""
    found = []
    for block in _BLOCK.findall((ROOT / "docs" / "errors.md").read_text()):
        first, _, rest = block.partition("\n")
        found.append((first.removeprefix("$ "), rest))
    return found


@pytest.mark.parametrize(("command", "shown"), examples(), ids=lambda text: text[:60])
def test_errors_are_as_documented(command: str, shown: str, tmp_path: Path) -> None:
    if command.startswith("ptxsw tune") and find_library("cuda"):
        pytest.skip("a CUDA driver is installed")
    for path in INPUTS.iterdir():
        shutil.copy(path, tmp_path)
    text = (KERNELS / "jacobi.ptx").read_text()
    (tmp_path / "jacobi.ptx").write_text(text)
    (tmp_path / "broken.ptx").write_text(text.replace("[%rd6+4];", "[%rd6+4;"))
    (tmp_path / "latin.ptx").write_bytes(b"// \xe9")
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / "other.json").write_text("{}")
    (tmp_path / "jacobi.json").write_text("{}")
    (tmp_path / "empty").mkdir()
    more = {}
    while re.match(r"[A-Z_]+=", command):
        setting, _, command = command.partition(" ")
        name, _, value = setting.partition("=")
        more[name] = value
    done = ptxsw(command, tmp_path, more)
    assert done.returncode == (127 if command.startswith("ptxsw exec") else 2)
    assert done.stderr.replace(f"{tmp_path}", "/home/you") == shown


def test_traces_are_as_documented(tmp_path: Path) -> None:
    shutil.copy(ROOT / "tests" / "report" / "ptx" / "matmul.ptx", tmp_path)
    blocks = _BLOCK.findall((ROOT / "docs" / "reading-a-trace.md").read_text())
    assert len(blocks) == 2
    for block in blocks:
        first, _, rest = block.partition("\n")
        assert ptxsw(first.removeprefix("$ "), tmp_path).stdout == rest


PRELUDES = {
    "getting-started.md": "",
    "extending.md": "",
    "python.md": "",
    "interpreter.md": "",
    "sass.md": "text = open('kernel.ptx').read().replace('jacobi', 'stencil')\n",
    "semantics.md": """
from ptxsw.terms.node import Variance
from ptxsw.terms.terms import Terms
from ptxsw.semantics.algebra import Algebra
from ptxsw.semantics.integer import INTEGERS, V, Meaning, Modifiers, same_width
algebra = Terms()
a = algebra.atom("a", 32, Variance.LANE)
def semantics(opcode, section):
    return lambda builder: builder  # it is registered already
""",
    "integrations.md": 'ptx = open("kernel.ptx").read()\n',
    "tuning.md": """
import ptxsw
text, loaded, load = open("kernel.ptx").read(), {}, lambda text, kernel: kernel
""",
    "validate.md": """
from ptxsw.changes.claim import Claim
before = after = open("kernel.ptx").read()
""",
}
"""What the code of a document takes for granted: files beside it and, for excerpts, names."""

LAST_LINES = {
    "getting-started.md": "6 ",
    "python.md": "proved",
    "tuning.md": "jacobi in blocks of 128x1x1 on sm_90: ",
    "validate.md": "Proved(",
}

SCALE = (
    head()
    + """.visible .entry scale(.param .u64 a, .param .u32 n, .param .f32 by)
{
    .reg .b32 %r<4>;
    .reg .f32 %f<4>;
    .reg .b64 %rd<4>;
    mov.u32 %r1, %tid.x;
    ld.param.f32 %f1, [by];
    ld.param.u64 %rd1, [a];
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd1, %rd1, %rd2;
    ld.global.f32 %f2, [%rd1];
    mul.f32 %f2, %f2, %f1;
    st.global.f32 [%rd1], %f2;
    ret;
}
"""
)


def programs() -> dict[str, str]:
    """The Python of each document, its blocks joined, but for those whose packages are missing."""
    found: dict[str, str] = {}
    for block in blocks("python"):
        needs = block.said.split(", ") if block.mark == "needs" else ()
        if all(map(importlib.util.find_spec, needs)):
            name = block.page.removeprefix("docs/")
            found[name] = found.get(name, "") + block.code + "\n"
    return found


@pytest.mark.parametrize("document", programs())
def test_programs_run(document: str, tmp_path: Path) -> None:
    """All Python in the documents, beside the files that it reads."""
    shutil.copy(KERNELS / "jacobi.ptx", tmp_path / "kernel.ptx")
    if document == "interpreter.md":
        (tmp_path / "kernel.ptx").write_text(SCALE)
    if document == "sass.md" and not _can_assemble():
        pytest.skip("no ptxas with nvdisasm")
    program = PRELUDES[document] + programs()[document]
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    if document in LAST_LINES:
        assert done.stdout.splitlines()[-1].startswith(LAST_LINES[document])


def _can_assemble() -> bool:
    from ptxsw.cost import disassembly
    from ptxsw.toolchain.ptxas import NoPtxas, locate

    try:
        locate()
        disassembly.locate()
    except (NoPtxas, disassembly.NoNvdisasm):
        return False
    return True


def test_the_walk_through_is_real(tmp_path: Path) -> None:
    """What it prints, the lines before and after, and the proof."""
    shutil.copy(KERNELS / "laplacian.ptx", tmp_path)
    page = (ROOT / "docs" / "walkthrough.md").read_text()
    for block in _BLOCK.findall(page):
        first, _, rest = block.partition("\n")
        assert ptxsw(first.removeprefix("$ "), tmp_path).stdout == rest
    texts = (tmp_path / "laplacian.ptx").read_text() + (tmp_path / "out.ptx").read_text()
    for block in re.findall(r"^```ptx\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            assert line in texts, line
    analysed = ptxsw("ptxsw analyze laplacian.ptx", tmp_path).stdout
    for line, where in (("93", "A"), ("95", "A-4  "), ("96", "A+4  ")):
        assert re.search(rf"^ +{line} .* {re.escape(where)}", analysed, re.MULTILINE)
    command = "ptxsw optimize laplacian.ptx -o o.ptx --mode force --scheme paper --emit-smt2 proofs"
    assert ptxsw(command, tmp_path).returncode == 0
    [shown] = re.findall(r"^```smt2\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    proof = (tmp_path / "proofs" / "laplacian-95-from-93-0.smt2").read_text()
    assert re.sub(r"index#\d+!\d+", "index", proof).strip() == shown.strip()


def test_the_site_has_every_document() -> None:
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    named = set(re.findall(r"- (\S+\.md)$", nav, re.MULTILINE))
    assert named == {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}


def test_every_command_is_one(tmp_path: Path) -> None:
    """No document names a command or an option of ptxsw that does not exist."""
    known = ptxsw("ptxsw --help", ROOT).stdout
    for document in DOCUMENTS:
        for command in re.findall(r"(?:^ {4}|`)ptxsw ([a-z]+)", document.read_text(), re.MULTILINE):
            assert re.search(rf"^  {command} ", known, re.MULTILINE), (document.name, command)


def test_the_readme_names_every_variable() -> None:
    """Those that steer the wrapper, as read in one place."""
    source = (ROOT / "ptxsw" / "toolchain" / "settings.py").read_text()
    asked = set(re.findall(r'"(PTXSW_[A-Z_]+)"', source))
    assert len(asked) >= 10
    assert asked <= set(re.findall(r"`(PTXSW_[A-Z_]+)", (ROOT / "README.md").read_text()))


def test_every_document_is_reached_from_the_index() -> None:
    """Or, the pages of single rewrites, from the table of all."""
    named = set(_LINK.findall((DOCS / "index.md").read_text() + (DOCS / "rewrites.md").read_text()))
    assert {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")} - {"index.md"} <= named


OF_USERS = {"ptxsw.toml"}  # files that users write


def test_every_file_that_is_named_exists() -> None:
    """Code, tests, tables and pages, by their path or by the end of it."""
    files = [
        "/" + str(path.relative_to(ROOT))
        for top in ("ptxsw", "tests", "benchmarks", "docs", "examples", "release")
        for path in (ROOT / top).rglob("*")
    ]
    for document in DOCUMENTS:
        for name in re.findall(r"`([\w/-]+\.(?:py|toml|lark|md|ipynb))`", document.read_text()):
            known = any(file.endswith(f"/{name}") for file in files)
            assert known or "NAME" in name or name in OF_USERS, (document.name, name)
