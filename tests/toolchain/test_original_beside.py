"""Where a process is free, ptxas assembles a short text as it is while we look at it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ptxsw.toolchain.process import Running
from tests.toolchain.conftest import DRIVER, ROOT, Done, StandIn, environment, until
from tests.toolchain.test_original_first import runs
from tests.toolchain.test_parent import is_running
from tests.toolchain.test_shim import code, no_process_in_session

CALL = ("-arch=sm_80", "add.ptx", "-o", "out")
AUTO = {"PTXSW_MODE": "auto"}


@pytest.fixture
def jobserver(work: Path) -> dict[str, str]:
    """A make with one slot that is free."""
    os.mkfifo(work / "jobs")
    kept = os.open(work / "jobs", os.O_RDWR)
    os.write(kept, b"+")
    return {"MAKELEVEL": "1", "MAKEFLAGS": f" -j2 --jobserver-auth=fifo:{work / 'jobs'}"}


@pytest.fixture
def calls(work: Path, ptxas: str, stand_in: StandIn) -> StandIn:
    """Runs the stand-in; the arguments of each run of ptxas are noted in the file `runs`."""
    (work / "ptxas").write_text(f'#!/bin/sh\necho "$@" >>{work}/runs\nexec {ptxas} "$@"\n')
    (work / "ptxas").chmod(0o755)

    def call(*arguments: str, **more: str) -> Done:
        (work / "runs").write_text("")
        return stand_in(*arguments, PTXSW_REAL_PTXAS=str(work / "ptxas"), **more)

    return call


def test_what_stays_is_assembled_once(
    work: Path, calls: StandIn, plain: StandIn, jobserver: dict[str, str]
) -> None:
    wanted = plain("-v", *CALL)
    cubin = (work / "out").read_bytes()
    (work / "out").unlink()
    done = calls("-v", *CALL, behaviour="same", **AUTO, **jobserver)
    assert done.stderr.count(b"Used") == wanted.stderr.count(b"Used") == 1
    assert (done.status, done.stdout) == (0, b"") and (work / "out").read_bytes() == cubin
    assert runs(work) == [" ".join(("-v", *CALL))]
    assert os.read(os.open(work / "jobs", os.O_RDWR | os.O_NONBLOCK), 9) == b"+"


def test_what_is_rewritten_takes_its_place(
    work: Path, calls: StandIn, plain: StandIn, add: str, jobserver: dict[str, str]
) -> None:
    (work / "sub.ptx").write_text(add.replace("add.rn.f32", "sub.rn.f32"))
    assert plain("-arch=sm_80", "sub.ptx", "-o", "sub.cubin").status == 0
    assert calls(*CALL, **AUTO, **jobserver) == Done(0, b"", b"")
    assert code(work / "out") == code(work / "sub.cubin")
    assert runs(work)[0] == " ".join(CALL) and len(runs(work)) == 2


def test_killed_meanwhile(
    work: Path, ptxas: str, plain: StandIn, jobserver: dict[str, str]
) -> None:
    """What ptxas has made of the text as it is may be there, and is whole."""
    assert plain(*CALL).status == 0
    cubin = (work / "out").read_bytes()
    (work / "out").unlink()
    more = {"COUNT": str(work / "count"), **AUTO, **jobserver}
    us = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", DRIVER, str(ROOT), "hang", *CALL],
        cwd=work, env=environment(work, ptxas, more), start_new_session=True,
    )  # fmt: skip
    until((work / "out").exists)
    until((work / "count").exists)
    time.sleep(0.5)
    us.terminate()
    assert us.wait(20) == -signal.SIGTERM
    assert (work / "out").read_bytes() == cubin and no_process_in_session(us.pid)


@pytest.mark.parametrize("behaviour", ["crash", "raise", "bad"])
def test_a_fault_leaves_what_is_there(
    behaviour: str, work: Path, calls: StandIn, plain: StandIn, jobserver: dict[str, str]
) -> None:
    wanted = plain(*CALL)
    cubin = (work / "out").read_bytes()
    assert calls(*CALL, behaviour=behaviour, **AUTO, **jobserver) == wanted
    assert (work / "out").read_bytes() == cubin


def test_a_text_that_ptxas_refuses(
    work: Path, calls: StandIn, plain: StandIn, jobserver: dict[str, str]
) -> None:
    call = ("-arch=sm_80", "bad.ptx", "-o", "out")
    wanted = plain(*call)
    assert wanted.status != 0
    assert calls(*call, behaviour="same", **AUTO, **jobserver) == wanted
    assert not (work / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "more"),
    [
        (CALL, {"PTXSW_MODE": "force"}),
        (CALL, {"PTXSW_STRICT": "1"}),
        (("-arch=sm_80", "add.ptx", "one.ptx"), {}),
    ],
)
def test_otherwise_it_comes_last(
    work: Path, calls: StandIn, arguments: tuple[str, ...], more: dict[str, str],
    jobserver: dict[str, str],
) -> None:  # fmt: skip
    """Mode force rewrites most texts; a strict build that fails leaves no output behind."""
    assert calls(*arguments, behaviour="crash", **{**AUTO, **more}, **jobserver).status != 1
    assert len(runs(work)) == ("PTXSW_STRICT" not in more)


def test_without_a_free_slot_it_comes_last(
    work: Path, calls: StandIn, jobserver: dict[str, str]
) -> None:
    """It is asked for before the work begins where a slot is free, else behind it."""
    first = work / "first"
    slow = f"""#!/bin/sh
[ -e {work}/count ] || touch {first}
exec {work}/ptxas "$@"
"""
    (work / "slow").write_text(slow)
    (work / "slow").chmod(0o755)
    for flags, is_first in ((jobserver, True), ({**jobserver, "MAKEFLAGS": ""}, False)):
        first.unlink(missing_ok=True)
        (work / "count").unlink(missing_ok=True)
        (work / "runs").write_text("")
        more = {"COUNT": str(work / "count"), "PTXSW_CACHE": "off", **AUTO, **flags}
        command = [sys.executable, "-I", "-S", "-c", DRIVER, str(ROOT), "same", *CALL]
        environ = environment(work, str(work / "slow"), more)
        assert subprocess.run(command, cwd=work, env=environ).returncode == 0
        assert first.exists() is is_first and len(runs(work)) == 1


# ---------------------------------------------------------------- a program beside us


def test_what_is_no_program() -> None:
    for path in ("/none/program", "/etc/passwd"):
        with pytest.raises(OSError, match=r"No such file|Permission denied"):
            Running(path, ["program"], os.environ).finish()


def test_stopping_it() -> None:
    one = Running("/bin/sleep", ["sleep", "60"], os.environ)
    begin = time.monotonic()
    one.stop()
    assert time.monotonic() - begin < 30


def test_a_signal_ends_it_first(tmp_path: Path) -> None:
    """Then us; it is not left to go on."""
    program = (
        "import os, sys, time; from ptxsw.toolchain.process import Running\n"
        "one = Running('/bin/sleep', ['sleep', '60'], os.environ)\n"
        "print(one._child, flush=True); time.sleep(60)"
    )
    us = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert us.stdout is not None
    child = int(us.stdout.readline())
    us.send_signal(signal.SIGTERM)
    assert us.wait(20) == -signal.SIGTERM and not is_running(child)
    us.stdout.close()
