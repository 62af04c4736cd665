"""While nvcc compiles for the next target, its text is answered in a free slot of the build."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ptxsw.toolchain import cache, server_client
from ptxsw.toolchain.ahead import target_of
from ptxsw.toolchain.nvcc_targets import targets
from ptxsw.toolchain.request import CallRequest, ExpectedText
from tests.toolchain.conftest import KERNELS, ROOT, Build, until
from tests.toolchain.test_build_server import STATE, Server, answer, script
from tests.toolchain.test_parent import is_running

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="Linux only")

TEXT = (KERNELS / "jacobi.ptx").read_bytes()
HERE = target_of(TEXT)


def text_for(target: str) -> bytes:
    return TEXT.replace(f".target {HERE}".encode(), f".target {target}".encode())


# ---------------------------------------------------------------- what nvcc is told


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("-arch=sm_80 a.cu", []),
        ("-arch all", []),
        ("-gencode arch=compute_80,code=sm_80", [("sm_80", "sm_80")]),
        (
            "-gencode=arch=compute_80,code=[sm_80,sm_86,compute_80] -O3",
            [("sm_80", "sm_80"), ("sm_80", "sm_86")],
        ),
        (
            "--generate-code arch=compute_90a,code=sm_90a -gencode=arch=compute_75,code=sm_75",
            [("sm_90a", "sm_90a"), ("sm_75", "sm_75")],
        ),
        ('-gencode arch=compute_70,code=\\"sm_70,compute_70\\"', [("sm_70", "sm_70")]),
        ("-gencode arch=compute_80,code=lto_80 -gencode code=sm_80", []),
        ("-arch=compute_75 -code sm_75,sm_86", [("sm_75", "sm_75"), ("sm_75", "sm_86")]),
        ("-code", []),
    ],
)  # fmt: skip
def test_targets(line: str, expected: list[tuple[str, str]]) -> None:
    assert list(targets(line.split())) == expected


def told_below(tmp_path: Path, line: str, here: tuple[str, str], **environ: str) -> str:
    """What is told in a process that a program called nvcc runs."""
    code = (
        f"import os, sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from ptxsw.toolchain.nvcc_targets import expected_targets\n"
        f"print(*(t + ' ' + c for t, c in expected_targets(os.getpid(), *{here!r})), sep=', ')"
    )
    (tmp_path / "asks.py").write_text(code)
    program = script(tmp_path / "nvcc", f"sh -c '{sys.executable} {tmp_path}/asks.py; true'")
    done = subprocess.run(
        [program, *line.split()], env={**os.environ, **environ}, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_what_comes_behind(tmp_path: Path) -> None:
    """Texts in their order, other codes of this one first; flags of the environment count."""
    line = (
        "-gencode arch=compute_75,code=sm_75 -gencode arch=compute_90,code=[sm_90,sm_100] "
        "-gencode arch=compute_80,code=sm_80"
    )
    assert (
        told_below(tmp_path, line, ("sm_75", "sm_75")) == "sm_90 sm_90, sm_90 sm_100, sm_80 sm_80"
    )
    assert told_below(tmp_path, line, ("sm_90", "sm_100")) == "sm_90 sm_90, sm_80 sm_80"
    assert told_below(tmp_path, line, ("sm_80", "sm_80")) == ""
    assert told_below(tmp_path, line, ("sm_60", "sm_60")) == ""
    more = {"NVCC_APPEND_FLAGS": "-gencode arch=compute_86,code=sm_86"}
    assert told_below(tmp_path, line, ("sm_80", "sm_80"), **more) == "sm_86 sm_86"


@pytest.mark.parametrize("threads", ["-t 2", "-t4", "-t=4", "--threads 0", "--threads=2"])
def test_nothing_where_all_come_at_once(threads: str, tmp_path: Path) -> None:
    line = "-gencode arch=compute_75,code=sm_75 -gencode arch=compute_90,code=sm_90"
    assert told_below(tmp_path, f"-time x {line}", ("sm_75", "sm_75")) == "sm_90 sm_90"
    assert told_below(tmp_path, f"{line} {threads}", ("sm_75", "sm_75")) == ""


def test_targets_of_texts() -> None:
    assert target_of(b".version 9.0\n.target sm_90a, debug\n") == "sm_90a"
    assert target_of(b"// .target sm_80\n.version 9.0\n") == ""


# ---------------------------------------------------------------- what is answered


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(server_client, "PATIENCE", 60.0)
    one = Server(tmp_path / "ptxsw-build-server")
    yield one
    one.end()


@pytest.fixture
def slots(tmp_path: Path) -> Iterator[int]:
    """The jobserver of a make that has no slot to spare."""
    os.mkfifo(tmp_path / "slots")
    descriptor = os.open(tmp_path / "slots", os.O_RDWR | os.O_NONBLOCK)
    yield descriptor
    os.close(descriptor)


def ask(
    server: Server,
    work: Path,
    targets: Sequence[str] = (),
    mode: str = "force",
    here: str = HERE,
    timeout: float = 60.0,
    ptxas: str = "",
    temporary: str = "/tmp",
) -> cache.Answer:
    """Has the text for one target answered where others are expected."""
    request = CallRequest(
        text_for(here), "a.ptx", here, 1, "", str(work / "kept"), "now", lines=False,
        expected=[ExpectedText(each, each, f"at-{each}") for each in targets],
        jobserver=str(work / "slots"),
    )  # fmt: skip
    own = {server_client.VARIABLE: str(server.path), "PTXSW_MODE": mode, "PTXSW_CACHE": "off"}
    environ = {"PATH": os.environ["PATH"], "TMPDIR": temporary, **own}
    environ |= {"PTXSW_REAL_PTXAS": ptxas} if ptxas else {}
    return answer(server_client.call(request, STATE, timeout, environ))


def kept(work: Path, target: str) -> cache.Answer | None:
    name = cache.key(text_for(target), f"at-{target}".encode())
    return cache.Cache(str(work / "kept")).get(name)


def test_the_next_texts_are_answered(server: Server, slots: int, tmp_path: Path) -> None:
    """Each as if it had been asked about; the slot is given back."""
    os.write(slots, b"+")
    ask(server, tmp_path, ["sm_86", "sm_90"])
    until(lambda: kept(tmp_path, "sm_90") is not None)
    for target in ("sm_86", "sm_90"):
        ahead = kept(tmp_path, target)
        assert ahead is not None and ahead.text is not None
        assert ahead.text == ask(server, tmp_path, here=target).text
    os.set_blocking(slots, True)
    assert os.read(slots, 9) == b"+"
    before = (tmp_path / "kept").stat().st_mtime_ns
    ask(server, tmp_path, ["sm_86", "sm_90"])
    assert ask(server, tmp_path).text  # by the same process, which is done
    assert (tmp_path / "kept").stat().st_mtime_ns == before


def test_nothing_without_a_free_slot(server: Server, slots: int, tmp_path: Path) -> None:
    ask(server, tmp_path, ["sm_86"])
    assert ask(server, tmp_path).text  # by the same process, which is done
    assert kept(tmp_path, "sm_86") is None


def sleeper(tmp_path: Path, pid: Path) -> str:
    """A ptxas that does not end, but for the target that is asked about first."""
    return script(
        tmp_path / "ptxas",
        f"case $1 in -arch={HERE}) exit 1;; esac; echo $$ $PPID > {pid}.new; mv {pid}.new {pid}; "
        "exec sleep 60",
    )


def test_it_ends_with_the_build(server: Server, slots: int, tmp_path: Path) -> None:
    """At once, and leaves nothing behind."""
    os.write(slots, b"+")
    (tmp_path / "temporary").mkdir()
    pid = tmp_path / "pid"
    fake, temporary = sleeper(tmp_path, pid), str(tmp_path / "temporary")
    ask(server, tmp_path, ["sm_86"], "auto", ptxas=fake, temporary=temporary)
    until(pid.exists)
    server.build.kill()
    server.build.wait()
    until(lambda: not any(map(is_running, map(int, pid.read_text().split()))))
    until(lambda: server.front.process.poll() is not None)
    assert os.listdir(tmp_path / "temporary") == []
    os.set_blocking(slots, True)
    assert os.read(slots, 9) == b"+"


def test_time_runs_out(server: Server, slots: int, tmp_path: Path) -> None:
    """As for any text; the slot is given back."""
    os.write(slots, b"+")
    pid = tmp_path / "pid"
    fake = sleeper(tmp_path, pid)
    ask(server, tmp_path, ["sm_86"], "auto", timeout=2.0, ptxas=fake)
    until(pid.exists)
    until(lambda: not any(map(is_running, map(int, pid.read_text().split()))))
    os.set_blocking(slots, True)
    assert os.read(slots, 9) == b"+" and kept(tmp_path, "sm_86") is None
    assert ask(server, tmp_path).text


def test_one_at_a_time(server: Server, slots: int, tmp_path: Path) -> None:
    """Who begins has an earlier one end: its texts have not come."""
    os.write(slots, b"++")
    numbers = []
    for count in range(2):
        pid = tmp_path / f"pid{count}"
        ask(server, tmp_path, ["sm_86"], "auto", ptxas=sleeper(tmp_path, pid))
        until(pid.exists)
        numbers.append(int(pid.read_text().split()[1]))
    until(lambda: not is_running(numbers[0]))
    assert is_running(numbers[1]) and ask(server, tmp_path).text


@pytest.mark.skipif(shutil.which("make") is None, reason="no make")
def test_a_build(build: Build) -> None:
    """The answer for the second target is there before ptxas is called for it."""
    for target in ("sm_80", "sm_90"):
        (build.work / f"{target}.ptx").write_bytes(text_for(target))
    answers = "$(ls $PTXSW_CACHE | grep -vc -)"
    script(
        build.work / "nvcc",
        "ptxas -arch=sm_80 sm_80.ptx -o 80.cubin || exit 1\n"
        f"for i in $(seq 200); do [ {answers} = 2 ] && break; sleep 0.1; done\n"
        f"echo {answers} answers\n"
        "ptxas -arch=sm_90 sm_90.ptx -o 90.cubin\n"
        f"echo {answers} answers\n",
    )
    (build.work / "Makefile").write_text(
        "all:\n\t@./nvcc -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90\n"
    )
    clean = {name: "" for name in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    done = build.ptxsw("exec", "--", "make", "-j2", **clean)
    assert done.stdout.decode().split("\n")[:-1] == ["2 answers", "2 answers"], done.stderr
    assert len([line for line in build.log() if " rewritten " in line]) == 2
