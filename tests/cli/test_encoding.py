"""PTX whose comments are in another encoding: compilers copy lines of sources as they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command_line import JACOBI, ptxsw

COMMENT = "//warm.cu:1 // Ausgleich der W\xe4rme -- L\xf6sung f\xfcr du/dt".encode("latin-1")


@pytest.fixture
def latin(tmp_path: Path) -> Path:
    """Jacobi with a comment in Latin-1 before the kernel and one in it."""
    lines = JACOBI.read_bytes().split(b"\n")
    at = lines.index(b"{")
    lines[at + 1 : at + 1] = [COMMENT]
    (tmp_path / "warm.ptx").write_bytes(b"\n".join([*lines[:5], COMMENT, *lines[5:]]))
    return tmp_path / "warm.ptx"


@pytest.mark.parametrize(
    "arguments",
    [("analyze",), ("check", "--no-ptxas", "--fail-on", "never"), ("report",), ("predict",)],
    ids=lambda arguments: arguments[0],
)
def test_it_is_read(arguments: tuple[str, ...], latin: Path) -> None:
    done = ptxsw(*arguments, latin)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"jacobi" in done.stdout


def test_the_output_has_the_same_bytes(latin: Path) -> None:
    """As a file and as standard output, changed and as it was."""
    out = latin.with_name("out.ptx")
    assert ptxsw("optimize", latin, "-o", out, "--rewrites", "uniform-loops").returncode == 0
    assert out.read_bytes() == latin.read_bytes()
    assert ptxsw("optimize", latin, "-o", out, "--mode", "force").returncode == 0
    assert out.read_bytes().count(COMMENT) == 2 and b"shfl" in out.read_bytes()
    done = ptxsw("optimize", latin, "-o", "-", "--mode", "force")
    assert done.stdout == out.read_bytes()


def test_formats_for_machines_are_unicode(latin: Path) -> None:
    for arguments in (("check", "--no-ptxas"), ("analyze",)):
        json.loads(ptxsw(*arguments, latin, "--format", "json").stdout.decode("utf-8"))
    page = latin.with_name("page.html")
    assert ptxsw("report", latin, "--html", page).returncode == 0
    assert page.stat().st_size > 10_000


def test_elsewhere_it_is_an_error_with_its_place(latin: Path) -> None:
    latin.write_bytes(latin.read_bytes().replace(b"ret;", b"r\xe9t;"))
    done = ptxsw("analyze", latin)
    line = latin.read_bytes().split(b"r\xe9t;")[0].count(b"\n") + 1
    assert done.returncode == 2 and f"{latin}:{line}:" in done.stderr.decode()


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.ptx").write_bytes(b".version 8.0\n\0\xe9")
    done = ptxsw("analyze", "a.ptx", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == b"a.ptx: not a text file: byte 14 is not UTF-8\n"
