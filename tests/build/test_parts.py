"""Messages mapped back, calls in isolation, ptxas's figures, reports of a build."""

from __future__ import annotations

import io
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from ptxsw.build.messages import LineMap, map_back
from ptxsw.build.partial import beginning, compose, finished
from ptxsw.build.report_files import save_report
from ptxsw.build.subprocess_guard import Lost, _pieces, call
from ptxsw.codegen.splice import Edit
from ptxsw.driver.pipeline import Options, optimize
from ptxsw.report import Kernel, Report, to_json
from ptxsw.report.serial import kernel_to_json
from ptxsw.toolchain import ptxas as assembler
from ptxsw.toolchain.process import PrivateFile
from tests.build.conftest import KERNELS

Tell = Callable[[bytes], None]


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
    big = b"x" * 1_000_000
    for pieces in ([], [b""], [big, b"", b"two\n"]):

        def work(tell: Tell, pieces: list[bytes] = pieces) -> None:
            for piece in pieces:
                tell(piece)

        told = call(work, 10)
        assert told.in_time and told.pieces == pieces


def die(tell: Tell) -> None:
    tell(b"a piece")
    os.kill(os.getpid(), signal.SIGKILL)


def fail(tell: Tell) -> None:
    tell(b"a piece")
    raise ValueError("wrong")


def leave(tell: Tell) -> None:
    raise SystemExit(0)


@pytest.mark.parametrize(
    ("function", "message"),
    [(die, "ended by SIGKILL"), (fail, "ValueError: wrong"), (leave, "ended by status 1")],
)
def test_calls_that_are_lost(function: Callable[[Tell], None], message: str) -> None:
    with pytest.raises(Lost, match=message):
        call(function, 10)


def test_a_hanging_call_ends_in_time() -> None:
    """What it told before is here."""

    def hang(tell: Tell) -> None:
        tell(b"first")
        tell(b"second")
        time.sleep(60)

    start = time.monotonic()
    told = call(hang, 0.2)
    assert not told.in_time and told.pieces == [b"first", b"second"]
    assert time.monotonic() - start < 5


def test_a_piece_that_is_cut_off_is_none() -> None:
    data = b"".join(len(piece).to_bytes(8, "big") + piece for piece in (b"one", b"", b"three"))
    assert [list(_pieces(io.BytesIO(data[:end]))) for end in (len(data), -1, 18, 10, 3)] == [
        [b"one", b"", b"three"], [b"one", b""], [b"one"], [], []
    ]  # fmt: skip


# ---------------------------------------------------------------- parts of an answer

KERNELS_WAITING = {"kernels": [{"name": "a"}, {"name": "b"}, {"name": "c"}], "file": "k.ptx"}


def test_an_answer_of_what_is_finished() -> None:
    """Edits come in any order of kernels; insertions at one place keep theirs."""
    pieces = [
        beginning({"kernels": []}),
        beginning(KERNELS_WAITING),
        finished(2, {"name": "C"}, [(4, 5, "Z"), (5, 5, "1"), (5, 5, "2")]),
        finished(0, {"name": "A"}, [(0, 1, "")]),
    ]
    answer = compose(b"abcdef", pieces, 2.5)
    assert answer.text == b"bcdZ12f"
    assert answer.limit == 2.5
    report = json.loads(answer.report)
    assert [kernel["name"] for kernel in report["kernels"]] == ["A", "b", "C"]
    assert report["warning"] == answer.fault
    assert answer.fault.startswith("not finished within 2.5 s: 1 of 3 kernels;")


def test_an_answer_of_nothing() -> None:
    for pieces in ([], [beginning(KERNELS_WAITING)]):
        answer = compose(b"abc", pieces, 60)
        assert answer.text is None and answer.fault.startswith("not finished within 60 s")
        assert bool(answer.report) == bool(pieces)


def test_kernels_one_by_one_make_the_whole() -> None:
    """All that `optimize` tells on the way, put together, is what it gives in the end."""
    text = two_of(KERNELS / "jacobi.ptx", KERNELS / "uxx1.ptx")
    pieces: list[bytes] = []

    class Listener:
        def begin(self, waiting: Report) -> None:
            pieces.append(beginning(to_json(waiting)))
            self.waiting = waiting

        def finished(self, number: int, kernel: Kernel, edits: tuple[Edit, ...]) -> None:
            replaced = [(edit.span.start, edit.span.end, edit.text) for edit in edits]
            pieces.append(finished(number, kernel_to_json(kernel), replaced))

    watch = Listener()
    result = optimize(text, Options(mode="force", scheme="paper"), "k.ptx", watch=watch)
    answer = compose(text.encode(), pieces, 60)
    assert answer.text == result.text.encode() != text.encode()
    told, whole = json.loads(answer.report), to_json(result.report)
    assert told["kernels"] == json.loads(json.dumps(whole["kernels"]))
    loads = [kernel.loads for kernel in result.report.kernels]
    assert [kernel.loads for kernel in watch.waiting.kernels] == loads
    assert result == replace(
        optimize(text, Options(mode="force", scheme="paper"), "k.ptx"), report=result.report
    )


def two_of(first: Path, second: Path) -> str:
    """Two kernels in one text, the longer one first."""
    one, other = first.read_text(), second.read_text()
    longer, shorter = sorted((one, other), key=len, reverse=True)
    return longer + shorter[shorter.index(".visible .entry") :]


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
