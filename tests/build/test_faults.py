"""What goes wrong around a build: full disks, forbidden files, kills, missing parts. The real
ptxas's word and output stand, or nothing does; there is never a traceback."""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from tests.build.conftest import DRIVER, KERNELS, ROOT, Done, StandIn, environment, run

T = TypeVar("T")
ADD = ("-arch=sm_80", "add.ptx", "-o", "out")


def driver(behaviour: str, *arguments: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", DRIVER, str(ROOT), behaviour, *arguments]


def output(done: Done, work: Path) -> tuple[Done, bytes | None]:
    """What was said, and the output file, which is removed."""
    path = work / "out"
    data = path.read_bytes() if path.exists() else None
    path.unlink(missing_ok=True)
    return done, data


# ---------------------------------------------------------------- full disks

# In a mount namespace of its own: "small" is a file system of 64 kB; then the command, and what
# there is in "small" afterwards.
SMALL = """\
mount -t tmpfs -o size=64k none small || exit 99
echo old > small/old; mkdir -p small/cache small/reports
[ -z "$FILL" ] || head -c 200k /dev/zero > small/fill 2> /dev/null
"$@"
status=$?
cd small && find . -type f ! -name fill -exec cksum {} + | sort
exit $status
"""


def on_small_disk(command: Sequence[str], work: Path, environ: Mapping[str, str]) -> Done:
    """Runs a command beside a small file system that is full if FILL is set."""
    if shutil.which("unshare") is None:
        pytest.skip("no unshare")
    (work / "small").mkdir(exist_ok=True)
    done = run(["unshare", "-rm", "sh", "-c", SMALL, "sh", *command], work, environ)
    if done.status == 99 or b"unshare:" in done.stderr:
        pytest.skip("no file system can be mounted here")
    return done


def test_output_on_a_full_disk(work: Path, ptxas: str) -> None:
    """ptxas 13.0 leaves an empty file and says nothing; whatever it does, ours does."""
    arguments = ("-arch=sm_80", "add.ptx", "-o", "small/out")
    environ = environment(work, ptxas, {"FILL": "1"})
    expected = on_small_disk([ptxas, *arguments], work, environ)
    for behaviour in ("same", "sub"):
        assert on_small_disk(driver(behaviour, *arguments), work, environ) == expected


def test_everything_of_ours_on_a_full_disk(work: Path, ptxas: str) -> None:
    """Log, cache, reports and temporary files: the build goes on, rewritten, and of what does
    not fit nothing is left, whole or half."""
    ours = {"PTXSW_CACHE": "small/cache", "PTXSW_LOG": "small/log", "PTXSW_REPORT": "small/reports"}
    environ = environment(work, ptxas, {"FILL": "1", "TMPDIR": "small", **ours})
    done = on_small_disk(driver("sub", *ADD), work, environ)
    assert (done.status, done.stderr) == (0, b"")
    assert (work / "out").stat().st_size > 0
    names = {line.split()[-1] for line in done.stdout.decode().splitlines()}
    assert names <= {"./log", "./old"}, names


@pytest.mark.parametrize("command", ["optimize", "assemble"])
def test_commands_on_a_full_disk(command: str, work: Path, ptxas: str) -> None:
    """Status 2, the reason, and the old output is still there."""
    environ = environment(work, ptxas, {"FILL": "1", "PYTHONPATH": str(ROOT)})
    files = [str(KERNELS / "uxx1.ptx"), "-o", "small/old"]
    done = on_small_disk([sys.executable, "-m", "ptxsw", command, *files], work, environ)
    said = done.stderr.decode()
    assert done.status == 2 and said and "Traceback" not in said
    assert command == "assemble" or "No space left on device" in said
    checksums = done.stdout.decode().splitlines()
    assert [line.split()[-1] for line in checksums] == ["./old"]


@pytest.mark.parametrize("behaviour", ["same", "sub"])
def test_a_limit_on_file_sizes(behaviour: str, work: Path, ptxas: str) -> None:
    """RLIMIT_FSIZE kills ptxas by SIGXFSZ; it does so to ours."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))

    environ = environment(work, ptxas, {})
    expected = limited([ptxas, *ADD], work, environ, limit)
    half = output(expected, work)[1]
    assert expected.status != 0
    done = limited(driver(behaviour, *ADD), work, environ, limit)
    assert (done, output(done, work)[1]) == (expected, half)


def limited(
    command: Sequence[str], work: Path, environ: Mapping[str, str], before: Callable[[], None]
) -> Done:
    done = subprocess.run(
        command, cwd=work, env=environ, capture_output=True, timeout=60, preexec_fn=before
    )
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_full_device(work: Path, plain: StandIn, stand_in: StandIn) -> None:
    arguments = ("-arch=sm_80", "add.ptx", "-o", "/dev/full")
    assert stand_in(*arguments, PTXSW_LOG="/dev/full") == plain(*arguments)
    done = stand_in(*ADD, PTXSW_CACHE="/dev/full/cache", PTXSW_REPORT="/dev/full/report")
    assert (done.status, done.stderr) == (0, b"") and (work / "out").stat().st_size > 0


# ---------------------------------------------------------------- forbidden files


def obey_permissions() -> None:
    """Makes root obey the permissions of files, as everybody else has to: it loses the two
    capabilities that say otherwise, for good. To be called between fork and exec."""
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


@pytest.mark.parametrize("behaviour", ["same", "sub"])
@pytest.mark.parametrize("case", ["input", "directory", "old output", "cache", "cwd"])
def test_forbidden(case: str, behaviour: str, work: Path, ptxas: str) -> None:
    environ = environment(work, ptxas, {})
    expected_work = work
    match case:
        case "input":
            (work / "add.ptx").chmod(0)
        case "directory":
            work.chmod(0o500)
        case "old output":
            (work / "out").write_text("old")
            (work / "out").chmod(0o400)
        case "cache":
            (work / "cache").mkdir(mode=0o500)
        case "cwd":
            work.chmod(0o300)
    try:
        expected = limited([ptxas, *ADD], expected_work, environ, obey_permissions)
        done = limited(driver(behaviour, *ADD), work, environ, obey_permissions)
    finally:
        work.chmod(0o700)
    assert done == expected
    if case in ("input", "directory"):
        assert expected.status != 0, "the test forbids something"
        assert not (work / "out").exists()
    if case == "old output":
        assert expected.status != 0 and (work / "out").read_text() == "old"
    if case == "cache":
        assert list((work / "cache").iterdir()) == [] and "not cached" in (work / "log").read_text()


# ---------------------------------------------------------------- missing parts


@pytest.mark.parametrize("module", ["z3", "numpy"])
def test_a_package_that_is_missing(module: str, work: Path, ptxas: str) -> None:
    """The real analysis on a machine without it: the build gets what ptxas makes of the text."""
    source = str(KERNELS / ("matmul.ptx" if module == "z3" else "jacobi.ptx"))
    arguments = ("-arch=sm_80", source, "-o", "out")
    environ = environment(work, ptxas, {"PTXSW_MODE": "force"})
    expected = output(run([ptxas, *arguments], work, environ), work)
    program = f"import sys; sys.modules[{module!r}] = None\n" + DRIVER
    command = [sys.executable, "-I", "-S", "-c", program, str(ROOT), "real", *arguments]
    done = output(run(command, work, environ), work)
    if module == "numpy":  # is not needed
        assert done[0] == expected[0] and done[1] != expected[1]
        return
    assert done == expected
    assert f"ModuleNotFoundError: import of {module} halted" in (work / "log").read_text()


def test_command_without_z3(work: Path) -> None:
    program = (
        "import sys; sys.modules['z3'] = None; sys.argv[0] = 'ptxsw';"
        "from ptxsw.__main__ import main; main()"
    )
    arguments = ["optimize", str(KERNELS / "matmul.ptx"), "-o", "out", "--mode", "force"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = run([sys.executable, "-c", program, *arguments], work, environ)
    assert done.status == 2 and done.stderr.startswith(b"z3 is not installed")
    assert b"Traceback" not in done.stderr and not (work / "out").exists()


@pytest.mark.parametrize("content", ["no program at all\n", "#!/none/sh\n"])
def test_a_ptxas_that_cannot_be_started(content: str, work: Path, stand_in: StandIn) -> None:
    (work / "broken").write_text(content)
    (work / "broken").chmod(0o755)
    for behaviour in ("same", "sub"):
        done = stand_in(*ADD, behaviour=behaviour, PTXSW_REAL_PTXAS=str(work / "broken"))
        assert done.status == 126 and done.stderr.startswith(b"ptxsw: ")
        assert done.stderr.count(b"\n") == 1 and not (work / "out").exists()


# ---------------------------------------------------------------- kills


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_killed_while_ptxas_runs(number: signal.Signals, work: Path, ptxas: str) -> None:
    """It dies with us, however we die: nobody writes into a build that is over."""
    slow = work / "slow"
    slow.write_text("#!/bin/sh\necho $$ > pid.new; mv pid.new pid; exec sleep 100\n")
    slow.chmod(0o755)
    environ = environment(work, str(slow), {})
    process = subprocess.Popen(driver("sub", *ADD), cwd=work, env=environ, stderr=subprocess.PIPE)
    pid = wait_for(lambda: (work / "pid").read_text() if (work / "pid").exists() else "")
    process.send_signal(number)
    _, stderr = process.communicate(timeout=10)
    assert process.returncode == -number and stderr == b""
    assert wait_for(lambda: ended(int(pid)))
    assert not (work / "out").exists()


def test_nohup_holds(work: Path, ptxas: str) -> None:
    """A signal that is ignored from the start ends nothing."""
    slow = work / "slow"
    slow.write_text(f'#!/bin/sh\necho > started\nsleep 0.3\nexec {ptxas} "$@"\n')
    slow.chmod(0o755)
    environ = environment(work, str(slow), {})
    command = ["sh", "-c", 'trap "" HUP; exec "$@"', "sh", *driver("sub", *ADD)]
    process = subprocess.Popen(command, cwd=work, env=environ)
    assert wait_for((work / "started").exists)
    process.send_signal(signal.SIGHUP)
    assert process.wait(60) == 0 and (work / "out").stat().st_size > 0


def wait_for(condition: Callable[[], T]) -> T:
    """The first true answer, within ten seconds."""
    deadline = time.monotonic() + 10
    while not (answer := condition()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return answer


def ended(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
