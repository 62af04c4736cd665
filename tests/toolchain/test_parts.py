"""Messages mapped back, calls in isolation, ptxas's figures, reports of a build."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from ptxsw.toolchain import ptxas as assembler
from ptxsw.toolchain.collect import save_report
from ptxsw.toolchain.isolated import Lost, call
from ptxsw.toolchain.messages import LineMap, map_back
from ptxsw.toolchain.process import PrivateFile


def test_lines_map_back() -> None:
    lines = LineMap("a\nb\nc\nd\n", "a\nb1\nb2\nb\nx\nd\n")
    assert [lines.original(line) for line in range(1, 7)] == [1, 1, 1, 2, 3, 4]
    assert lines.original(99) == 5


def test_messages_map_back() -> None:
    lines = LineMap("a\nb\n", "a\nnew\nb\n")
    message = b"ptxas /proc/self/fd/3, line 3; warning : x\nptxas /proc/self/fd/3 read\n"
    assert map_back(message, "/proc/self/fd/3", "k.ptx", lines) == (
        b"ptxas k.ptx, line 2; warning : x\nptxas k.ptx read\n"
    )


def test_a_path_is_not_found_inside_a_longer_one() -> None:
    message = b"ptxas /proc/self/fd/31, line 1; error"
    assert map_back(message, "/proc/self/fd/3", "k.ptx", LineMap("", "")) == message


def test_private_file() -> None:
    file = PrivateFile(b"content")
    assert Path(file.path).read_bytes() == file.read() == b"content"


def test_call() -> None:
    assert call(lambda: b"x" * 1_000_000, 10) == b"x" * 1_000_000
    assert call(lambda: b"", 10) == b""


def die() -> bytes:
    os.kill(os.getpid(), signal.SIGKILL)
    return b"alive"


def fail() -> bytes:
    raise ValueError("wrong")


def leave() -> bytes:
    raise SystemExit(0)


@pytest.mark.parametrize(
    ("function", "message"),
    [(die, "died of SIGKILL"), (fail, "ValueError: wrong"), (leave, "died of status 1")],
)
def test_calls_that_are_lost(function: object, message: str) -> None:
    assert callable(function)
    with pytest.raises(Lost, match=message):
        call(function, 10)


def sleep() -> bytes:
    time.sleep(60)
    return b""


def test_a_hanging_call_ends_in_time() -> None:
    start = time.monotonic()
    with pytest.raises(Lost, match=r"no answer within 0\.2 s"):
        call(sleep, 0.2)
    assert time.monotonic() - start < 5


VERBOSE = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'one' for 'sm_80'
ptxas info    : Function properties for helper
    8 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads
ptxas info    : Function properties for one
    16 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 30 registers, used 0 barriers, 392 bytes cmem[0]
ptxas info    : Compiling entry function 'two' for 'sm_80'
ptxas info    : Function properties for two
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, 360 bytes cmem[0]
"""


def test_resources() -> None:
    assert list(assembler.resources(VERBOSE)) == [
        assembler.Resources("one", 30, 16, 4, 12),
        assembler.Resources("two", 8, 0, 0, 0),
    ]


def test_assemble(ptxas: str, add: str) -> None:
    done = assembler.assemble(add, "sm_80", ptxas=ptxas)
    assert done.cubin.startswith(b"\x7fELF")
    [resources] = done.resources
    assert resources.kernel == "vecadd" and resources.registers > 4
    assert assembler.version(ptxas).count(".") == 2


def test_assembly_errors_name_the_file(ptxas: str) -> None:
    with pytest.raises(assembler.AssemblyError, match=r"k\.ptx, line 4; error"):
        text = ".version 7.0\n.target sm_70\n.entry a() {\nbogus;\n}\n"
        assembler.assemble(text, "sm_80", ptxas=ptxas, name="k.ptx")


def test_no_ptxas(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PTXSW_REAL_PTXAS", str(tmp_path / "none"))
    with pytest.raises(assembler.NoPtxas, match=r"none \(PTXSW_REAL_PTXAS\) does not exist"):
        assembler.locate()


REPORT = b'{"file": "x", "kernels": []}'


def test_reports_of_a_build(tmp_path: Path) -> None:
    def save(path: str, arch: str = "sm_80", report: bytes = REPORT) -> str:
        return os.path.basename(save_report(str(tmp_path / "r"), path, arch, report))

    first = save("/src/jacobi.ptx")
    assert first.startswith("jacobi.sm_80.") and first == save("/src/jacobi.ptx")
    assert json.loads((tmp_path / "r" / first).read_text())["file"] == "/src/jacobi.ptx"
    other = {save("/else/jacobi.ptx"), save("/src/jacobi.ptx", "sm_90"), save("/src/b c.ptx")}
    assert len(other | {first}) == 4
    temporary = save("/tmp/tmpxft_000a_0-6_k.ptx")
    assert temporary == save("/tmp/tmpxft_1234_0-9_k.ptx") and temporary.startswith("k.")
    assert len(list((tmp_path / "r").iterdir())) == 5
