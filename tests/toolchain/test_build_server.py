"""The server of a build answers as a fork of the stand-in does, and nothing depends on it."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ptxsw.toolchain import cache, find, server_client
from ptxsw.toolchain.request import CallRequest, ExpectedText, of_fields
from ptxsw.toolchain.subprocess_guard import Lost, Transcript
from tests.toolchain.conftest import KERNELS, ROOT, Build, Front, until
from tests.toolchain.test_parent import is_running

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="Linux only")

STATE = cache.fingerprint(str(ROOT / "ptxsw"))
TEXT = (KERNELS / "jacobi.ptx").read_bytes()


class Server:
    """A server for a build that sleeps, behind its front."""

    def __init__(self, directory: Path, at_once: str = "") -> None:
        self.front = Front(directory, at_once)
        self.path, self.build = self.front.path, self.front.build

    @property
    def number(self) -> int:
        """The number of its process, which the front starts when somebody calls."""
        [number] = self.front.children()
        return number

    def ask(
        self, text: bytes = TEXT, timeout: float = 60.0, store: str = "", **environ: str
    ) -> Transcript | None:
        request = CallRequest(text, "a.ptx", None, 1, "", store, "", lines=False)
        named = {server_client.VARIABLE: str(self.path), "PTXSW_MODE": "force", **environ}
        quiet = {"PTXSW_CACHE": "off", "PATH": os.environ["PATH"]}
        return server_client.call(request, STATE, timeout, quiet | named)

    def end(self) -> None:
        self.front.end()


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server may need long for its imports on a machine that runs other tests as well."""
    monkeypatch.setattr(server_client, "PATIENCE", 60.0)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    one = Server(tmp_path / "ptxsw-build-server")
    yield one
    one.end()


def answer(reply: Transcript | None) -> cache.Answer:
    assert reply is not None, "there was no server"
    decoded = cache.decode(reply.pieces[-1])
    assert decoded is not None
    return decoded


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


# ---------------------------------------------------------------- what is answered


def test_requests_cross_whole() -> None:
    expected = ExpectedText("sm_80", "sm_86", "state86"), ExpectedText("sm_90", "sm_90", "state90")
    asked = CallRequest(
        b"text\n", "a b.ptx", None, 3, "/bin/ptxas", "", "state",
        lines=True, expected=expected, jobserver="/a b",
    )  # fmt: skip
    again = of_fields(asked.fields())
    assert [str(text) for text in again.expected] == ["sm_80 sm_86 state86", "sm_90 sm_90 state90"]
    assert again.__dict__ | {"expected": expected} == asked.__dict__
    with pytest.raises(ValueError, match="values to unpack"):
        of_fields(asked.fields()[1:])


def test_each_request_has_its_own_environment(server: Server) -> None:
    """One in mode force is rewritten; one that asks for another rewrite is not; then as before."""
    first = answer(server.ask()).text
    assert first is not None and b"shfl" in first
    assert answer(server.ask(PTXSW_REWRITES="narrowing")).text is None
    with pytest.raises(Lost, match="nonsense"):
        server.ask(PTXSW_REWRITES="nonsense")
    assert answer(server.ask()).text == first


def test_a_process_is_as_the_stand_in_would_be(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Directory, umask, limits and variables; standard files lead nowhere."""
    told = tmp_path / "told"
    fake = script(
        tmp_path / "ptxas",
        f'{{ pwd; umask; ulimit -n; echo "$WORD"; readlink /proc/$PPID/fd/1; }} > {told}; exit 1',
    )
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    mask = os.umask(0o027)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, before[1]))
    try:
        server.ask(PTXSW_MODE="auto", PTXSW_REAL_PTXAS=fake, WORD="two words")
    finally:
        os.umask(mask)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    here = str(tmp_path / "here")
    assert told.read_text().split("\n")[:-1] == [here, "0027", "200", "two words", "/dev/null"]


def test_kernels_are_kept_where_the_request_says(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    two = TEXT + TEXT[TEXT.index(b".visible") :].replace(b"jacobi", b"second")
    assert answer(server.ask(two, store="kept")).text
    assert len(list((tmp_path / "kept").glob("kernel-*"))) == 2


def test_many_at_once(server: Server) -> None:
    texts: list[bytes | None] = []

    def ask() -> None:
        texts.append(answer(server.ask()).text)

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(texts) == 6 and len(set(texts)) == 1 and texts[0]


def test_time_runs_out(server: Server, tmp_path: Path) -> None:
    fake = script(tmp_path / "ptxas", "exec sleep 60")
    reply = server.ask(timeout=1.0, PTXSW_MODE="auto", PTXSW_REAL_PTXAS=fake)
    assert reply is not None and not reply.in_time and reply.pieces


def test_it_may_import_before_it_is_asked(tmp_path: Path) -> None:
    """Where the cache is empty; a server that is not asked leaves nothing behind, too."""
    one = Server(tmp_path / "ptxsw-build-server", at_once="1")
    try:
        until(lambda: "z3" in maps(one) or "msgspec" in maps(one))
        assert answer(one.ask()).text
    finally:
        one.end()
    for kept, first in (([], True), (["x.ptxsw"], False)):
        (tmp_path / "cache").mkdir(exist_ok=True)
        for name in kept:
            (tmp_path / "cache" / name).write_text("")
        environ = {"PTXSW_CACHE": str(tmp_path / "cache")}
        assert server_client._is_first(environ) is first
    assert server_client._is_first({"PTXSW_CACHE": "off"})
    assert server_client._is_first({"PTXSW_CACHE": str(tmp_path / "none")})


def maps(server: Server) -> str:
    """What a server has loaded."""
    return "".join(Path(f"/proc/{n}/maps").read_text() for n in server.front.children())


# ---------------------------------------------------------------- one process, many texts


def worker(server: Server, tmp_path: Path, **environ: str) -> str:
    """The process that answers a request, and a variable that it has."""
    told = tmp_path / "told"
    fake = script(tmp_path / "ptxas", f'echo "$PPID [$WORD]" > {told}; exit 1')
    more = {"PTXSW_MODE": "auto", "PTXSW_REAL_PTXAS": fake, **environ}
    assert server.ask(TEXT, 60.0, "", **more) is not None
    return told.read_text()


def test_one_process_takes_texts_one_after_the_other(server: Server, tmp_path: Path) -> None:
    numbers = {worker(server, tmp_path).split()[0] for _ in range(3)}
    assert len(numbers) == 1


def test_nothing_of_the_environment_stays(server: Server, tmp_path: Path) -> None:
    """A variable is another one in the next request, or is not there."""
    said = [
        worker(server, tmp_path, **each).split() for each in ({"WORD": "one"}, {}, {"WORD": "two"})
    ]
    assert [word for _, word in said] == ["[one]", "[]", "[two]"] and len({n for n, _ in said}) == 1


def test_a_process_that_failed_is_not_taken_again(server: Server, tmp_path: Path) -> None:
    first = worker(server, tmp_path).split()[0]
    with pytest.raises(Lost, match="nonsense"):
        server.ask(PTXSW_REWRITES="nonsense")
    assert worker(server, tmp_path).split()[0] != first


def test_a_process_with_other_limits_is_not_taken_again(server: Server, tmp_path: Path) -> None:
    """A hard limit cannot be raised again."""
    code = (
        "import resource, os; from tests.toolchain.test_build_server import *\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))\n"
        f"one = Server.__new__(Server); one.path = Path({str(server.path)!r})\n"
        f"print(worker(one, Path({str(tmp_path)!r})).split()[0])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip().isdigit(), done.stderr
    assert worker(server, tmp_path).split()[0] != done.stdout.strip()


def test_another_ptxas_at_the_same_place(server: Server, tmp_path: Path) -> None:
    """What was counted with the first is not taken for what the second makes."""
    real = find.real_ptxas(os.environ)
    if real is None:
        pytest.skip("there is no ptxas")
    told = tmp_path / "told"
    told.write_text("")
    kept = str(tmp_path / "cache")
    for count, comment in enumerate(("", "", "# another one"), 1):
        text = f'echo {count} >> {told}; exec {real.path} "$@" {comment}'
        if not comment and count > 1:
            text = ""  # the same file
        fake = script(tmp_path / "ptxas", text) if text else str(tmp_path / "ptxas")
        reply = server.ask(PTXSW_REAL_PTXAS=fake, PTXSW_MODE="auto", PTXSW_CACHE=kept)
        assert reply is not None
    assert told.read_text().split() == ["1", "3"]


# ---------------------------------------------------------------- what goes wrong


def test_no_server(tmp_path: Path) -> None:
    """No path, nothing there, another file, a socket at which nobody listens."""
    request = CallRequest(TEXT, "a", None, 1, "", "", "", lines=False)
    (tmp_path / "file").write_text("")
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "left"))
    for path in ("", "off", *(str(tmp_path / n) for n in ("none", "file", "left", "x" * 200))):
        assert server_client.call(request, STATE, 9.0, {server_client.VARIABLE: path}) is None


def test_another_ptxsw_is_not_served(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    assert server.ask() is not None
    monkeypatch.setattr(f"{__name__}.STATE", "another")
    assert server.ask() is None


def test_whoever_listens_has_to_be_the_same_user(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert server.ask() is None


def test_silence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that was stopped: the stand-in does not wait for it."""
    monkeypatch.setattr(server_client, "PATIENCE", 0.2)
    request = CallRequest(TEXT, "a", None, 1, "", "", "", lines=False)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "mute"))
        listener.listen()
        environ = {server_client.VARIABLE: str(tmp_path / "mute")}
        assert server_client.call(request, STATE, 9.0, environ) is None


def test_a_server_that_accepts_and_never_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stand-in waits as long as the work may take, and then does it by itself."""
    monkeypatch.setattr(server_client, "PATIENCE", 0.5)
    request = CallRequest(TEXT, "a", None, 1, "", "", "", lines=False)
    kept = []

    def accept(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        kept.append((connection, socket.recv_fds(connection, 1, 1)))
        connection.send(server_client.ACCEPTED)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "stuck"))
        listener.listen()
        threading.Thread(target=accept, args=(listener,), daemon=True).start()
        environ = {server_client.VARIABLE: str(tmp_path / "stuck")}
        assert server_client.call(request, STATE, 0.1, environ) is None
    [(connection, (_, descriptors, _, _))] = kept
    connection.close()
    os.close(descriptors[0])


@pytest.mark.parametrize("directory", ["thesis", "ptxsw-build-1f"])
def test_files_of_others_are_never_removed(tmp_path: Path, directory: str) -> None:
    """`PTXSW_SERVER` names what is left of a socket, in a directory that holds other things."""
    place = tmp_path / directory
    place.mkdir()
    (place / "thesis.tex").write_text("precious")
    (place / "answers-of-the-survey").write_text("precious")
    request = CallRequest(TEXT, "a", None, 1, "", "", "", lines=False)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(place / "server"))
    environ = {server_client.VARIABLE: str(place / "server")}
    assert server_client.call(request, STATE, 9.0, environ) is None
    assert {"thesis.tex", "answers-of-the-survey"} <= {path.name for path in place.iterdir()}


def test_no_link_to_a_directory_is_followed(tmp_path: Path) -> None:
    place = tmp_path / "thesis"
    place.mkdir()
    (place / "calls").write_text("precious")
    (tmp_path / "ptxsw-build-1f").symlink_to(place)
    server_client.remove(str(tmp_path / "ptxsw-build-1f"))
    assert (place / "calls").read_text() == "precious"


@pytest.mark.parametrize("said", [b"", b"?", b"GET / HTTP/1.0\r\n\r\n", bytes(64)])
def test_nonsense_at_the_socket(server: Server, said: bytes) -> None:
    """It is still there for others."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(server.path))
        connection.sendall(said)
    assert server.ask() is not None


def test_a_process_that_dies(server: Server, tmp_path: Path) -> None:
    """The stand-in does it again by itself, and the server goes on."""
    fake = script(tmp_path / "ptxas", "kill -9 $PPID; exit 1")
    assert server.ask(PTXSW_MODE="auto", PTXSW_REAL_PTXAS=fake) is None
    assert server.ask() is not None


def test_a_server_that_dies(server: Server, tmp_path: Path) -> None:
    """In the middle of a request: its process ends, too. The front starts another one, if not for
    ever."""
    pid = tmp_path / "pid"
    for _ in range(3):
        assert server.ask() is not None
        command = f"echo $PPID > {pid}; kill -9 {server.number}; sleep 9"
        fake = script(tmp_path / "ptxas", command)
        assert server.ask(PTXSW_MODE="auto", PTXSW_REAL_PTXAS=fake) is None
        until(lambda: not is_running(int(pid.read_text())))
    until(lambda: not server.path.parent.exists())
    assert server.ask() is None


def test_a_stand_in_that_is_killed(server: Server, tmp_path: Path) -> None:
    """What works for it ends and leaves no files, and the server goes on."""
    pid, temporary = tmp_path / "pid", tmp_path / "temporary"
    temporary.mkdir()
    fake = script(tmp_path / "ptxas", f"echo $PPID > {pid}.new; mv {pid}.new {pid}; exec sleep 30")
    client = os.fork()
    if client == 0:
        server.ask(PTXSW_MODE="auto", PTXSW_REAL_PTXAS=fake, TMPDIR=str(temporary))
        os._exit(0)
    until(pid.exists)
    os.kill(client, signal.SIGKILL)
    os.waitpid(client, 0)
    until(lambda: not is_running(int(pid.read_text())))
    assert os.listdir(temporary) == [] and server.ask() is not None


# ---------------------------------------------------------------- beside a build


def test_it_ends_with_its_build(tmp_path: Path) -> None:
    """And leaves nothing; that of another build is still there."""
    first, second = Server(tmp_path / "ptxsw-build-first"), Server(tmp_path / "ptxsw-build-second")
    try:
        assert first.ask() is not None and second.ask() is not None
        first.build.kill()
        first.build.wait()
        assert first.front.process.wait(20) == 0
        assert not first.path.parent.exists()
        assert first.ask() is None
        assert second.ask() is not None
    finally:
        first.end()
        second.end()


def test_what_was_begun_is_finished(server: Server, tmp_path: Path) -> None:
    """A build that has ended may have left a compiler behind."""
    fake = script(tmp_path / "ptxas", f"kill {server.build.pid}; sleep 1; exit 1")
    assert server.ask(PTXSW_MODE="auto", PTXSW_REAL_PTXAS=fake) is not None
    server.build.wait()
    assert server.front.process.wait(20) == 0


def test_what_a_killed_server_left_is_removed(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the stand-in that meets it, or by the next build; that of a living one stays."""
    server.front.process.kill()
    server.front.process.wait()
    assert server.ask() is None and not server.path.parent.exists()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left, kept = tmp_path / "ptxsw-build-left", tmp_path / "ptxsw-build-kept"
    for directory in (left, kept):
        directory.mkdir()
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(str(directory / "server"))
    held = os.open(kept, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    server_client._remove_left(str(tmp_path))
    os.close(held)
    assert kept.exists() and not left.exists()


SHOW = 'ptxas -arch=sm_80 jacobi.ptx -o out || exit 1; echo "$PTXSW_SERVER"; ls "$PTXSW_SERVER"'


def test_exec_starts_one(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(build.work))
    done = build.ptxsw("exec", "--", "sh", "-c", SHOW)
    assert done.status == 0, done.stderr
    path, listed = done.stdout.decode().split()
    assert path == listed and path.startswith(str(build.work))
    assert (build.work / "out").exists() and "rewritten" in build.log()[-1]
    until(lambda: not Path(path).parent.exists())


def test_the_stand_in_asks_it(build: Build, tmp_path: Path) -> None:
    """Who asks ptxas what a rewrite costs is the server's process; without a server, its own."""
    told = tmp_path / "told"
    fake = script(tmp_path / "fake", f"tr '\\0' ' ' < /proc/$PPID/cmdline >> {told}; exit 1")
    more = {"PTXSW_REAL_PTXAS": fake, "PTXSW_MODE": "auto", "PTXSW_CACHE": "off"}
    for server, program in (("", "ptxsw.build_front"), ("off", "ptxsw.shim")):
        told.write_text("")
        build("-arch=sm_80", "jacobi.ptx", "-o", "out", PTXSW_SERVER=server, **more)
        assert program in told.read_text(), server


@pytest.mark.parametrize("off", ["off", "0"])
def test_exec_without_one(build: Build, off: str) -> None:
    done = build.ptxsw("exec", "--", "sh", "-c", 'echo "$PTXSW_SERVER"', PTXSW_SERVER=off)
    assert (done.stdout.decode().strip(), done.stderr) == (off, b"")


def test_exec_where_none_can_be(build: Build) -> None:
    """The name of a socket has at most 108 bytes: the build goes on, rewritten."""
    far = build.work / ("x" * 120)
    far.mkdir()
    show = 'ptxas -arch=sm_80 jacobi.ptx -o out && echo "<$PTXSW_SERVER>"'
    done = build.ptxsw("exec", "--", "sh", "-c", show, TMPDIR=str(far))
    assert done.stdout == b"<>\n" and "rewritten" in build.log()[-1]
    assert not list(far.iterdir())


def test_the_build_has_no_child_that_it_has_not_begun(build: Build) -> None:
    code = "import os; print(os.waitpid(-1, 0))"
    done = build.ptxsw("exec", "--", sys.executable, "-c", code)
    assert b"ChildProcessError" in done.stderr


def test_output_ends_with_the_build(build: Build) -> None:
    """Who reads the build's output through a pipe does not wait for the server: it has none of
    the build's files open. (`run` reads to the end; the build leaves a process behind.)"""
    begin = time.monotonic()
    leave = "sleep 20 >&- 2>&- & echo $!"
    done = build.ptxsw("exec", "--", "sh", "-c", leave)
    assert time.monotonic() - begin < 15
    os.kill(int(done.stdout), signal.SIGKILL)


def test_an_interrupt_ends_all(build: Build, tmp_path: Path) -> None:
    """Ctrl-C in the middle: the build and its stand-in end by it, and the server ends with them."""
    pid = tmp_path / "pid"
    fake = script(tmp_path / "slow", f"echo $PPID > {pid}.new; mv {pid}.new {pid}; exec sleep 30")
    environ = {
        **os.environ, "PTXSW_REAL_PTXAS": fake, "PTXSW_CACHE": "off", "PTXSW_MODE": "auto",
        "XDG_DATA_HOME": str(tmp_path / "data"), "TMPDIR": str(tmp_path),
    }  # fmt: skip
    running = subprocess.Popen(
        [Path(sys.executable).parent / "ptxsw", "exec", "--", "ptxas", "-arch=sm_80", "jacobi.ptx"],
        cwd=tmp_path, env=environ, start_new_session=True,
    )  # fmt: skip
    until(pid.exists)
    os.killpg(running.pid, signal.SIGINT)
    assert running.wait(20) == -signal.SIGINT
    until(lambda: not is_running(int(pid.read_text())))
    until(lambda: not list(tmp_path.glob("ptxsw-*/server")))
