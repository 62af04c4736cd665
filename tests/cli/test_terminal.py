"""What a person sees: worst first, as wide as the screen, in colours, by a pager on request."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import termios
import threading
from pathlib import Path

import pytest

from tests.command_line import JACOBI, ROOT, ptxsw

TRANSPOSE = ROOT / "tests" / "report" / "ptx" / "transpose.ptx"


def seen(
    *arguments: object, columns: int = 200, lines: int = 200, errors: bool = False, **more: str
) -> str:
    """What a terminal of this size is sent; with `errors` also what goes to standard error."""
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
    stderr = terminal if errors else subprocess.PIPE
    done = subprocess.run(command, stdout=terminal, stderr=stderr, env=environ, timeout=60)
    os.close(terminal)
    reader.join()
    os.close(control)
    assert (done.returncode, done.stderr or b"") == (0, b"")
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


MARKED = "sed 's/^/> /'"


@pytest.mark.parametrize("command", ["analyze", "report"])
def test_long_output_goes_to_the_pager_on_request(command: str) -> None:
    """Short output does not, and an empty PAGER turns it off."""
    assert seen(command, TRANSPOSE, "--pager", lines=10, PAGER=MARKED).startswith("> \x1b")
    assert not seen(command, TRANSPOSE, "--pager", lines=999, PAGER=MARKED).startswith("> ")
    for off in ("", "cat"):
        text = seen(command, TRANSPOSE, "--pager", lines=10, PAGER=off)
        assert text.startswith("\x1b[1mconflicting")


@pytest.mark.parametrize(
    "command", [("analyze",), ("report",), ("check", "--no-ptxas", "--fail-on", "never")]
)
def test_nothing_opens_a_pager_by_itself(command: tuple[str, ...]) -> None:
    assert "> " not in seen(*command, TRANSPOSE, lines=3, PAGER=MARKED, NO_COLOR="1")[:2]


def test_a_pager_that_is_left_early_is_no_error() -> None:
    assert seen("analyze", TRANSPOSE, "--pager", lines=10, PAGER="head -n 1").count("\n") == 1


def test_long_work_says_what_it_is_at(tmp_path: Path) -> None:
    """In one line, which is gone before what ptxas says."""
    cubin = ["-o", tmp_path / "out.cubin", "-arch=sm_80", "-v"]
    pytest.importorskip("nvidia")  # ptxas as a package
    text = seen("assemble", JACOBI, *cubin, errors=True)
    assert text.startswith(f"\r\x1b[Kassembling {JACOBI}\r\x1b[Kptxas info")
    launch = ["--grid", "1", "--block", "32", "--arg", "zeros:32:f32", "--arg", "iota:32:f32"]
    (tmp_path / "copy.ptx").write_text(COPY)
    text = seen("run", tmp_path / "copy.ptx", *launch, errors=True)
    assert text.startswith(f"\r\x1b[Krunning {tmp_path / 'copy.ptx'}\r\x1b[Kthread instructions")


COPY = """\
.version 8.0
.target sm_80
.address_size 64
.visible .entry copy(.param .u64 to, .param .u64 from)
{
    .reg .b32 %r<2>; .reg .b64 %rd<4>; .reg .f32 %f<2>;
    ld.param.u64 %rd1, [to];
    ld.param.u64 %rd2, [from];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd1, %rd1, %rd3;
    add.s64 %rd2, %rd2, %rd3;
    ld.global.f32 %f1, [%rd2];
    st.global.f32 [%rd1], %f1;
    ret;
}
"""
