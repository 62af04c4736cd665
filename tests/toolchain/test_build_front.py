"""The script that stands for ptxas asks the front of a build, and nobody can tell it from ptxas."""

from __future__ import annotations

import os
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from ptxsw.toolchain import front, server_client
from ptxsw.toolchain.front import ScriptCall
from ptxsw.toolchain.process import Finished
from ptxsw.toolchain.real_assembler import Ending, Target
from ptxsw.toolchain.script import write_script
from tests.toolchain.conftest import PTXSW, Build, Done, Front, StandIn, environment, run, until
from tests.toolchain.test_parent import is_running
from tests.toolchain.test_shim import CONTRACT, code, outcome, prepare

pytestmark = pytest.mark.skipif(
    not hasattr(os, "pidfd_open") or not os.access("/bin/bash", os.X_OK), reason="Linux with bash"
)

CALL = ("-arch=sm_80", "jacobi.ptx", "-o", "out")
Call = Callable[..., Done]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    """One for all tests that leave it as it is."""
    one = Front(tmp_path_factory.mktemp("front") / "ptxsw-build-one")
    yield one
    one.end()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Front]:
    """One that a test may break."""
    one = Front(tmp_path / "ptxsw-build-own")
    yield one
    one.end()


@pytest.fixture
def no_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The script; it fails where it would start Python."""
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", "/none/python")
        return write_script(tmp_path / "scripts" / "front-only")


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return write_script(tmp_path / "scripts" / "ptxas")


def settings(build: Build, one: Front, **more: str) -> dict[str, str]:
    ours = {server_client.VARIABLE: str(one.path), "PTXSW_MODE": "force", **more}
    return environment(build.work, build.ptxas, ours)


# ---------------------------------------------------------------- what is said


def test_calls() -> None:
    one = ScriptCall(b"4711 3 10 2 main /a b/ptxas")
    asked = (one.process, one.pipe, one.descriptor, one.count, one.entry, one.real)
    assert asked == (4711, 3, 10, 2, "main", b"/a b/ptxas")
    assert ScriptCall(b"1 0 10 0 main ").real == b""
    for wrong in (b"", b"1 2", b"x 0 10 0 main ", b"1 99 10 0 main ", b"1 -1 10 0 main "):
        with pytest.raises(ValueError):
            ScriptCall(wrong)


def test_answers() -> None:
    target = Target("/a b/ptxas", ["-v"])
    assert front.answer(Ending(target, None), 2) == b"real 1\n/a b/ptxas\n"
    assert front.answer(Ending(target, Finished(-9, b"ab", b"c\n")), 1) == b"done -9 2 2\nabc\n"
    assert front.answer(Ending(target, Finished(0, b"\0", b"")), 1) == front.SELF
    assert front.answer(Ending(Target("/a\nb", []), None), 1) == front.SELF


@pytest.mark.parametrize("line", CONTRACT)
def test_contract(
    line: str, work: Path, add: str, ptxas: str, plain: StandIn, desk: Front, script: Path
) -> None:
    """As for the stand-in itself: status, words and files are those of ptxas."""
    prepare(work, add)
    stdin = add.encode() if "-" in line.split() else b""
    expected = outcome(plain(*line.split(), stdin=stdin), work)
    more = {server_client.VARIABLE: str(desk.path)}
    done = run([str(script), *line.split()], work, environment(work, ptxas, more), stdin)
    assert outcome(done, work) == expected


def test_most_needs_no_python(build: Build, desk: Front, no_python: Path) -> None:
    """Rewritten, left alone, kept from before, refused by ptxas; with the name that nvcc gives."""
    one = settings(build, desk)
    for line in (CALL, CALL, ("ptxas", *CALL), ("--version",), ("-arch=sm_80", "one.ptx")):
        done = run([str(no_python), *line], build.work, one)
        assert done.status == 0 and done.stderr == b"", line
    assert [line.split()[2] for line in build.log()] == ["rewritten"] * 3
    assert run([str(no_python), "-arch=sm_80", "bad.ptx"], build.work, one).status == 255


def test_what_comes_from_standard_input_is_read_here(
    build: Build, desk: Front, no_python: Path, script: Path
) -> None:
    text = (build.work / "jacobi.ptx").read_bytes()
    call = ("-arch=sm_80", "-", "-o", "out")
    assert run([str(no_python), *call], build.work, settings(build, desk), text).status == 127
    assert run([str(script), *call], build.work, settings(build, desk), text).status == 0
    assert "rewritten" in build.log()[-1]


def test_the_code_is_that_of_the_stand_in(build: Build, desk: Front, script: Path) -> None:
    by_itself = settings(build, desk, PTXSW_SERVER="off", PTXSW_CACHE="off")
    for environ in (by_itself, settings(build, desk, PTXSW_CACHE="off")):
        assert run([str(script), *CALL], build.work, environ).status == 0
        shutil.move(build.work / "out", build.work / f"out{len(environ['PTXSW_SERVER'])}")
    first, second = (code(path) for path in build.work.glob("out*"))
    assert first == second


def test_long_messages_and_strange_letters(build: Build, desk: Front, no_python: Path) -> None:
    """More than a pipe holds, and bytes that are no UTF-8, on both streams."""
    fake = build.work / "fake"
    fake.write_text("#!/bin/sh\nhead -c 200000 /dev/zero | tr '\\0' x\nprintf '\\351\\n' >&2\n")
    fake.chmod(0o755)
    more = {"PTXSW_REAL_PTXAS": str(fake), "LC_ALL": "C.UTF-8", "PTXSW_CACHE": "off"}
    done = run([str(no_python), *CALL], build.work, settings(build, desk, **more))
    assert (done.status, done.stdout, done.stderr) == (0, b"x" * 200_000, b"\xe9\n")


def test_a_signal_that_ends_ptxas_ends_the_script(
    build: Build, desk: Front, no_python: Path
) -> None:
    fake = build.work / "fake"
    fake.write_text("#!/bin/sh\nkill -9 $$\n")
    fake.chmod(0o755)
    environ = settings(build, desk, PTXSW_REAL_PTXAS=str(fake), PTXSW_CACHE="off")
    assert run([str(no_python), *CALL], build.work, environ).status == -signal.SIGKILL


# ---------------------------------------------------------------- what ptxas meets

SHOW = "#!/bin/sh\n{ env | sort; pwd; umask; ulimit -n; ls /proc/self/fd; } > %s\n"


def shown(build: Build, script: Path, line: tuple[str, ...], environ: Mapping[str, str]) -> str:
    """What a ptxas that shows all of it meets, but for what any shell changes."""
    told, fake = build.work / "told", build.work / "fake"
    fake.write_text(SHOW % told)
    fake.chmod(0o755)
    run([str(script), *line], build.work / "here", {**environ, "PTXSW_REAL_PTXAS": str(fake)})
    of_shells = ("SHLVL=", "_=", "PWD=", "OLDPWD=", "PTXSW_SERVER=")
    return "\n".join(s for s in told.read_text().split("\n") if not s.startswith(of_shells))


@pytest.mark.parametrize("text", ["one.ptx", "jacobi.ptx"])
def test_ptxas_meets_the_same(
    build: Build, desk: Front, script: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Environment, directory, umask, limits and descriptors, if it is run here or there."""
    (build.work / "here").mkdir()
    (build.work / "bash").write_text("export PTXSW_MODE=nonsense; front=x; echo noise\n")
    more = {
        "WORD": "two\nlines", "front": "1", "words": "2", "PTXSW_CACHE": "off",
        "BASH_ENV": str(build.work / "bash"), "BASH_FUNC_read%%": "() { echo noise; }",
        "POSIXLY_CORRECT": "1",
    }  # fmt: skip
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    mask = os.umask(0o027)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, before[1]))
    line = ("-arch=sm_80", f"../{text}", "-o", "out")
    try:
        here = shown(build, script, line, settings(build, desk, **more, PTXSW_SERVER="off"))
        there = shown(build, script, line, settings(build, desk, **more))
    finally:
        os.umask(mask)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert here == there and "WORD=two" in there and "\n0027\n200\n" in there


def test_the_default_of_the_script_is_known(
    build: Build, desk: Front, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The script of a shadow toolkit names its ptxas, unless a variable names another."""
    monkeypatch.setattr(sys, "executable", "/none/python")
    fakes = [tmp_path / "a b" / "first", tmp_path / "second"]
    for fake in fakes:
        fake.parent.mkdir(exist_ok=True)
        fake.write_text(f"#!/bin/sh\necho {fake.name} $*\n")
        fake.chmod(0o755)
    named = write_script(tmp_path / "scripts" / "named", str(fakes[0]))
    environ = settings(build, desk)
    del environ["PTXSW_REAL_PTXAS"]
    said = run([str(named), "-arch=sm_80", "one.ptx"], build.work, environ)
    assert said.stdout == b"first -arch=sm_80 one.ptx\n"
    environ["PTXSW_REAL_PTXAS"] = str(fakes[1])
    said = run([str(named), "-arch=sm_80", "one.ptx"], build.work, environ)
    assert said.stdout == b"second -arch=sm_80 one.ptx\n"


# ---------------------------------------------------------------- one process, many calls


def acting(build: Build, one: Front, script: Path, limit: str = "", **more: str) -> list[str]:
    """The process that acts for a call and what its ptxas meets: a variable, directory, umask."""
    told, fake = build.work / "told", build.work / "fake"
    fake.write_text(f'#!/bin/sh\n{{ echo "$PPID [$WORD]"; pwd; umask; }} > {told}\n')
    fake.chmod(0o755)
    environ = settings(build, one, PTXSW_REAL_PTXAS=str(fake), PTXSW_CACHE="off", **more)
    call = f"{limit}exec {script} {' '.join(CALL)}"
    assert run(["sh", "-c", call], build.work, environ).status == 0
    return told.read_text().split()


def test_one_process_acts_for_calls_one_after_the_other(
    build: Build, own: Front, no_python: Path
) -> None:
    """And nothing of a call stays in the next one."""
    before = os.umask(0o022)
    try:
        first = acting(build, own, no_python, WORD="word")
        os.umask(0o027)
        assert acting(build, own, no_python) == [first[0], "[]", first[2], "0027"]
        assert first[1:] == ["[word]", str(build.work), "0022"]
    finally:
        os.umask(before)
    process = Path("/proc", first[0])
    until(lambda: os.readlink(process / "cwd") == "/")
    until(lambda: len([each for each in os.listdir(process / "fd") if int(each) > 2]) == 1)


def test_one_with_other_limits_is_not_taken_again(
    build: Build, own: Front, no_python: Path
) -> None:
    """A hard limit cannot be raised again. Soft ones can, but count as others, too."""
    first, second, third = (
        acting(build, own, no_python, limit)[0] for limit in ("ulimit -n 200; ", "", "")
    )
    assert first != second == third


def test_those_that_wait_end_with_the_build(build: Build, own: Front, no_python: Path) -> None:
    number = int(acting(build, own, no_python)[0])
    assert is_running(number)
    own.build.kill()
    own.build.wait()
    until(lambda: not is_running(number) and own.process.poll() is not None)


# ---------------------------------------------------------------- what goes wrong


def test_no_front(build: Build, tmp_path: Path, desk: Front, script: Path) -> None:
    """None at all, one that has ended, a directory without pipes: Python does the work."""
    gone = Front(tmp_path / "ptxsw-build-gone")
    gone.end()
    (tmp_path / "empty").mkdir()
    for path in ("", "off", "/none/server", str(gone.path), str(tmp_path / "empty" / "server")):
        environ = settings(build, desk, PTXSW_SERVER=path)
        assert run([str(script), *CALL], build.work, environ).status == 0
    assert len(build.log()) == 5


def test_a_front_that_is_silent(
    build: Build, own: Front, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front, "PATIENCE", 1)
    script = write_script(tmp_path / "scripts" / "hasty")
    own.process.send_signal(signal.SIGSTOP)
    assert run([str(script), *CALL], build.work, settings(build, own)).status == 0
    own.process.send_signal(signal.SIGCONT)
    assert run([str(script), *CALL], build.work, settings(build, own)).status == 0
    assert len(build.log()) == 2, "the first call was answered once"


def test_an_answer_that_comes_bit_by_bit(build: Build, own: Front, no_python: Path) -> None:
    """The script looks each second whether the front still runs; nothing of the answer is lost."""
    own.process.send_signal(signal.SIGSTOP)
    call = subprocess.Popen([str(no_python), *CALL], cwd=build.work, env=settings(build, own))
    until((own.path.parent / f"{front.CLAIM}0").exists)
    answers = os.open(own.path.parent / f"{front.ANSWERS}0", os.O_RDWR)
    os.write(answers, b"do")
    time.sleep(1.5)
    os.write(answers, b"ne 7 0 0\n")
    assert call.wait(60) == 7
    os.close(answers)


def test_a_front_that_dies(build: Build, own: Front, script: Path, tmp_path: Path) -> None:
    """In the middle of a call: what acts for the script ends with it, and Python begins anew."""
    fake, pid = tmp_path / "fake", tmp_path / "pid"
    fake.write_text(
        f"#!/bin/sh\n[ -e {pid} ] && exec {build.ptxas} \"$@\"\n"
        f"echo $PPID > {pid}; kill -9 {own.process.pid}; sleep 20\n"
    )  # fmt: skip
    fake.chmod(0o755)
    environ = settings(build, own, PTXSW_REAL_PTXAS=str(fake), PTXSW_CACHE="off")
    assert run([str(script), *CALL], build.work, environ).status == 0
    assert "rewritten" in build.log()[-1] and (build.work / "out").exists()
    until(lambda: not is_running(int(pid.read_text())))


def test_what_acts_for_a_script_dies(
    build: Build, own: Front, script: Path, tmp_path: Path
) -> None:
    fake, flag = tmp_path / "fake", tmp_path / "flag"
    fake.write_text(
        f'#!/bin/sh\n[ -e {flag} ] && exec {build.ptxas} "$@"\ntouch {flag}; kill -9 $PPID\n'
    )
    fake.chmod(0o755)
    environ = settings(build, own, PTXSW_REAL_PTXAS=str(fake), PTXSW_CACHE="off")
    assert run([str(script), *CALL], build.work, environ).status == 0
    assert "rewritten" in build.log()[-1]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_script_that_is_killed(
    build: Build, own: Front, no_python: Path, tmp_path: Path, number: signal.Signals
) -> None:
    """What acts for it ends, with its ptxas; the next script finds a clean pipe."""
    fake, pid = tmp_path / "fake", tmp_path / "pid"
    fake.write_text(f"#!/bin/sh\necho $$ > {pid}.new; mv {pid}.new {pid}; exec sleep 30\n")
    fake.chmod(0o755)
    environ = settings(build, own, PTXSW_REAL_PTXAS=str(fake), PTXSW_CACHE="off")
    call = subprocess.Popen([str(no_python), *CALL], cwd=build.work, env=environ)
    until(pid.exists)
    call.send_signal(number)
    assert call.wait(20) == -number
    until(lambda: not is_running(int(pid.read_text())))
    until(lambda: not list(own.path.parent.glob(f"{front.CLAIM}*")))
    assert run([str(no_python), *CALL], build.work, settings(build, own)).status == 0


def test_nothing_unread_is_left_in_a_pipe(build: Build, own: Front, no_python: Path) -> None:
    """An answer to a script that has ended is not taken for one to the next."""
    directory = own.path.parent
    (directory / f"{front.CLAIM}0").touch()
    pipe = os.open(directory / f"{front.ANSWERS}0", os.O_RDWR)
    ended = subprocess.Popen(["sleep", "600"], pass_fds=(pipe,))
    ask(own, f"{ended.pid} 0 {pipe} 2 main /none")
    time.sleep(0.3)
    ended.kill()
    ended.wait()
    until(lambda: not list(directory.glob(f"{front.CLAIM}*")))
    os.set_blocking(pipe, False)
    with pytest.raises(BlockingIOError):
        os.read(pipe, 1)
    os.close(pipe)
    assert run([str(no_python), *CALL], build.work, settings(build, own)).status == 0


def ask(one: Front, line: str) -> None:
    with (one.path.parent / front.CALLS).open("w") as file:
        file.write(f"{line}\n")


def test_who_does_not_hold_the_pipe_is_not_acted_for(
    build: Build, own: Front, tmp_path: Path
) -> None:
    """A number may be another process's, from another name space, or one that has ended."""
    told = tmp_path / "told"
    fake = tmp_path / "fake"
    fake.write_text(f"#!/bin/sh\necho $* > {told}\n")
    fake.chmod(0o755)
    environ = settings(build, own, PTXSW_REAL_PTXAS=str(fake))
    other = subprocess.Popen(["sleep", "600"], env=environ)
    for line in (f"{other.pid} 0 1 1 main ", f"{2**22 - 1} 1 1 1 main ", "nonsense", "1 2 3"):
        ask(own, line)
    until(lambda: not own.children())
    other.kill()
    other.wait()
    assert not told.exists()


def test_more_calls_than_pipes(build: Build, own: Front, script: Path, no_python: Path) -> None:
    for number in range(front.PIPES):
        (own.path.parent / f"{front.CLAIM}{number}").touch()
    environ = settings(build, own)
    assert run([str(no_python), *CALL], build.work, environ).status == 127
    assert run([str(script), *CALL], build.work, environ).status == 0
    (own.path.parent / f"{front.CLAIM}{front.PIPES - 1}").unlink()
    assert run([str(no_python), *CALL], build.work, environ).status == 0


def test_many_at_once(build: Build, desk: Front, no_python: Path) -> None:
    environ = settings(build, desk)
    calls = [
        subprocess.Popen(
            [str(no_python), "-arch=sm_80", "jacobi.ptx", "-o", f"out{n}"],
            cwd=build.work, env=environ,
        )
        for n in range(12)
    ]  # fmt: skip
    assert [call.wait(60) for call in calls] == [0] * 12
    assert len({code(build.work / f"out{n}") for n in range(12)}) == 1
    until(lambda: not list(desk.path.parent.glob(f"{front.CLAIM}*")))


def test_exec_begins_one(build: Build) -> None:
    """The scripts of a build ask it; with the build it is gone."""
    wait = 'while [ ! -e "${PTXSW_SERVER%/*}/process" ]; do sleep 0.1; done'
    show = f'{wait}; ptxas {" ".join(CALL)}; echo "${{PTXSW_SERVER%/*}}"'
    done = build.ptxsw("exec", "--", "sh", "-c", show)
    assert done.status == 0 and "rewritten" in build.log()[-1]
    until(lambda: not Path(done.stdout.decode().strip()).exists())


def test_it_has_no_file_of_the_build(build: Build, script: Path) -> None:
    """What the caller of `ptxsw exec` has open stays the build's alone."""
    show = (
        'while [ ! -e "${PTXSW_SERVER%/*}/process" ]; do sleep 0.1; done; '
        'readlink /proc/$(cat "${PTXSW_SERVER%/*}/process")/fd/*'
    )
    command = f"{PTXSW} exec -- sh -c {shlex.quote(show)} 3>kept"
    environ = environment(build.work, build.ptxas, {"XDG_DATA_HOME": str(build.work / "data")})
    files = run(["sh", "-c", command], build.work, environ).stdout.decode().split("\n")
    assert "/dev/null" in files and not [name for name in files if name.endswith("kept")]
