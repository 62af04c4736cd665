"""What a person sees: worst first, as wide as the screen, in colours, by a pager."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import termios
import threading

import pytest

from tests.cli.test_cli import JACOBI, ROOT, ptxsw

TRANSPOSE = ROOT / "tests" / "report" / "ptx" / "transpose.ptx"


def seen(*arguments: object, columns: int = 200, lines: int = 200, **more: str) -> str:
    """What a terminal of this size is sent."""
    control, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (lines, columns))
    kept = {
        k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "PAGER", "COLUMNS", "LINES")
    }
    environ = {**kept, "TERM": "xterm", **more}
    found: list[bytes] = []

    def read() -> None:
        while True:
            try:
                part = os.read(control, 65536)
            except OSError:
                return
            if not part:
                return
            found.append(part)

    reader = threading.Thread(target=read)
    reader.start()
    command = [sys.executable, "-m", "ptxsw", *map(str, arguments)]
    done = subprocess.run(command, stdout=terminal, stderr=subprocess.PIPE, env=environ, timeout=60)
    os.close(terminal)
    reader.join()
    os.close(control)
    assert (done.returncode, done.stderr) == (0, b"")
    return b"".join(found).decode().replace("\r\n", "\n")


def test_the_worst_access_comes_first() -> None:
    lines = ptxsw("analyze", TRANSPOSE).stdout.decode().splitlines()
    assert lines[0].startswith("conflicting: ")
    assert lines[2].split()[2] == "ld.shared.f32" and "32-way conflict" in lines[2]
    lines = ptxsw("analyze", TRANSPOSE, "--sort", "line").stdout.decode().splitlines()
    assert lines[0].startswith("straight: ")
    numbers = [int(line.split()[0]) for line in lines if re.match(r" +\d+ ", line)]
    assert numbers == sorted(numbers)


@pytest.mark.parametrize("columns", [60, 100])
def test_lines_fit_the_terminal(columns: int) -> None:
    text = seen("analyze", JACOBI, columns=columns, NO_COLOR="1")
    assert max(map(len, text.splitlines())) <= columns
    assert "(no room for: bytes, " in text
    assert "\x1b" not in text
    piped = ptxsw("analyze", JACOBI).stdout.decode()
    assert "no room" not in piped and max(map(len, piped.splitlines())) > 100


def test_what_is_bad_is_red() -> None:
    text = seen("analyze", TRANSPOSE)
    assert re.search(r"\x1b\[31m32-way conflict *\x1b\[0m", text)
    assert "\x1b" not in seen("analyze", TRANSPOSE, TERM="dumb")


def test_long_output_goes_to_the_pager() -> None:
    """Short output does not, and an empty PAGER turns it off."""
    assert seen("analyze", TRANSPOSE, lines=10, PAGER="sed 's/^/> /'").startswith("> \x1b")
    assert not seen("analyze", TRANSPOSE, lines=200, PAGER="sed 's/^/> /'").startswith("> ")
    for off in ("", "cat"):
        assert seen("analyze", TRANSPOSE, lines=10, PAGER=off).startswith("\x1b[1mconflicting")


def test_a_pager_that_is_left_early_is_no_error() -> None:
    assert seen("analyze", TRANSPOSE, lines=10, PAGER="head -n 1").count("\n") == 1
