"""The wrapper against the real ptxas: same status, same words, same files."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.build.conftest import DRIVER, KERNELS, ROOT, Done, StandIn, environment, run

# Each line is given to the real ptxas and to the wrapper, which finds nothing to rewrite here
# (or is not to look). `OUT` lines write a file that is compared as well.
CONTRACT = """
--version
-V
--help
-h
--list-arch
-arch-ls
--list-version
-version-ls

-arch=sm_80
--version bad.ptx
-arch=sm_80 add.ptx --version
--help nofile.ptx
-arch=sm_80 add.ptx
-arch=sm_80 add.ptx -o out
-arch sm_80 add.ptx -o out
-arch=sm_80 -o=out add.ptx
-arch=sm_80 --output-file=out add.ptx
--gpu-name sm_80 --output-file out add.ptx
--gpu-name=sm_90 add.ptx -o out
-arch=sm_75 add.ptx -o out
-arch=sm_80 -oout add.ptx
-archsm_80 add.ptx
-arch=sm_80 ./add.ptx -o ./out
-arch=sm_80 one.ptx -o out
-arch=sm_80 one.ptx add.ptx -o out
-arch=sm_80 add.ptx add.ptx -o out
-arch=sm_80 add.ptx,one.ptx -o out
-arch=sm_80 bad.ptx -o out
-arch=sm_80 ./bad.ptx
-arch=sm_80 bad.ptx one.ptx -o out
-arch=sm_80 bad.ptx bad.ptx
-arch=sm_80 nofile.ptx
-arch=sm_80 . -o out
-arch=sm_80 add.ptx -o missing/out
-arch=sm_80 add.ptx -o
-arch=sm_80 empty.ptx -o out
-arch=sm_80 nul.ptx -o out
-arch=sm_80 bom.ptx -o out
-arch=sm_80 crlf.ptx -o out
-arch=sm_80 latin.ptx -o out
-arch=sm_99 add.ptx
-arch=compute_80 add.ptx
-arch=compute_80 bad.ptx
-arch=compute_90 add.ptx -o out
add.ptx -o out
-arch=sm_80 -v add.ptx -o out
-arch=sm_80 --verbose one.ptx -o out
-arch=sm_80 -c add.ptx -o out
--compile-only -arch=sm_80 add.ptx -o out
-arch=sm_80 -m64 -O3 add.ptx -o out
-arch=sm_80 -m 64 add.ptx -o out
-arch=sm_80 --machine=64 add.ptx -o out
-arch=sm_80 -m32 add.ptx -o out
-arch=sm_80 -O 3 add.ptx -o out
-arch=sm_80 -O0 add.ptx -o out
-arch=sm_80 -O1 add.ptx -o out
-arch=sm_80 --opt-level 2 add.ptx -o out
-arch=sm_80 -opt-level 2 add.ptx -o out
-arch=sm_80 -g one.ptx -o out
-arch=sm_80 -lineinfo add.ptx -o out
-arch=sm_80 --fmad false add.ptx -o out
-arch=sm_80 -fmad=true add.ptx -o out
-arch=sm_80 -maxrregcount 32 add.ptx -o out
-arch=sm_80 --maxrregcount=16 -v add.ptx -o out
-arch=sm_80 -maxrregcount16 add.ptx -o out
-arch=sm_80 -e vecadd add.ptx -o out
-arch=sm_80 --entry nothing add.ptx -o out
-arch=sm_80 -dlcm=cg add.ptx -o out
-arch=sm_80 --def-load-cache ca add.ptx -o out
-arch=sm_80 --regAllocOptLevel=2 add.ptx -o out
-arch=sm_80 --regAllocOptLevel 2 add.ptx -o out
-arch=sm_80 --warn-on-spills -w add.ptx -o out
-arch=sm_80 -Werror add.ptx -o out
-arch=sm_80 --no-such-option add.ptx
-arch=sm_80 --no-such-option=3 add.ptx
-arch=sm_80 -- add.ptx
-arch=sm_80 -arch=sm_90 add.ptx -o out
-arch=sm_80 add.ptx -o first -o out
-optf options
--options-file=options
--options-file options -v
-optf=quoted
-optf nested
-optf nofile
-optf options,verbose
-arch=sm_80 --preserve-relocs add.ptx -o out
-arch=sm_80 -split-compile 2 add.ptx -o out
-arch=sm_80 - -o out
- -arch=sm_80 -v
-arch=sm_80 add.ptx -o /dev/null
""".strip("\n").split("\n")

# Times differ from run to run, and so do the names of the files that ptxas copies its standard
# input to.
VARYING = re.compile(rb"Compile time = [\d.]+ ms|tmpxft_[0-9a-f_]+-\d+_stdin")


def prepare(directory: Path, add: str) -> None:
    (directory / "empty.ptx").write_bytes(b"")
    (directory / "nul.ptx").write_bytes(add.encode() + b"\0")
    (directory / "bom.ptx").write_bytes(b"\xef\xbb\xbf" + add.encode())
    (directory / "latin.ptx").write_bytes(b"// \xe9\n" + add.encode())
    (directory / "crlf.ptx").write_bytes(add.replace("\n", "\r\n").encode())
    (directory / "options").write_text("-arch=sm_80\nadd.ptx -o out\n")
    (directory / "quoted").write_text('-arch=sm_80\n"add.ptx" -o out\n')
    (directory / "nested").write_text("-optf options -v\n")
    (directory / "verbose").write_text("-v\n")


def outcome(done: Done, directory: Path) -> tuple[object, ...]:
    files = {}
    for name in ("out", "elf.o", "first"):
        path = directory / name
        files[name] = path.read_bytes() if path.exists() else None
        path.unlink(missing_ok=True)
    return done.status, VARYING.sub(b"", done.stdout), VARYING.sub(b"", done.stderr), files


ANSWERS: dict[str, tuple[object, ...]] = {}
"""What the real ptxas said and wrote, by line."""

_slow = pytest.mark.slow
BEHAVIOURS = [
    *(pytest.param(line, "same", id=f"{line}-same") for line in CONTRACT),
    *(pytest.param(line, "real", id=f"{line}-real", marks=[_slow] * (number % 4 > 0))
      for number, line in enumerate(CONTRACT)),
]  # fmt: skip


@pytest.mark.parametrize(("line", "behaviour"), BEHAVIOURS)
def test_contract(
    line: str, behaviour: str, work: Path, add: str, plain: StandIn, stand_in: StandIn
) -> None:
    """Where nothing is rewritten, nobody can tell the wrapper from ptxas."""
    prepare(work, add)
    stdin = add.encode() if "-" in line.split() else b""
    if line not in ANSWERS:
        ANSWERS[line] = outcome(plain(*line.split(), stdin=stdin), work)
    done = stand_in(*line.split(), behaviour=behaviour, stdin=stdin, PTXSW_MODE="auto")
    assert outcome(done, work) == ANSWERS[line]


def test_the_contract_is_long_enough() -> None:
    assert len(set(CONTRACT)) >= 60


# ---------------------------------------------------------------- rewriting


@pytest.fixture
def subtracted(work: Path, add: str, plain: StandIn) -> bytes:
    """The cubin of what the driver's rewriter makes of add.ptx."""
    (work / "sub.ptx").write_text(add.replace("add.rn.f32", "sub.rn.f32"))
    assert plain("-arch=sm_80", "sub.ptx", "-o", "sub.cubin").status == 0
    assert plain("-arch=sm_80", "add.ptx", "-o", "add.cubin").status == 0
    subtracted = (work / "sub.cubin").read_bytes()
    assert code(work / "add.cubin") != code(subtracted)
    return subtracted


@pytest.mark.parametrize(
    "arguments",
    [
        "-arch=sm_80 add.ptx -o out",
        "add.ptx -o out -arch sm_80",
        "ptxas -arch=sm_80 add.ptx -o out",
        "-optf options",
        "-arch=sm_80 - -o out",
        "-arch=sm_80 TEXT -o out",
    ],
)
def test_rewritten(
    arguments: str, work: Path, add: str, stand_in: StandIn, subtracted: bytes
) -> None:
    prepare(work, add)
    words = arguments.replace("TEXT", "-ias TEXT").split()
    words = [add if word == "TEXT" else word for word in words]
    done = stand_in(*words, stdin=add.encode() if "-" in words else b"")
    assert (done.status, done.stdout, done.stderr) == (0, b"", b"")
    assert code(work / "out") == code(subtracted)
    assert (work / "add.ptx").read_text() == add


def code(cubin: Path | bytes) -> bytes:
    """A cubin without the note that holds the command line."""
    data = cubin if isinstance(cubin, bytes) else cubin.read_bytes()
    return re.sub(rb"(-arch|-o|-optf)[ -~]*", b"", data)


def test_verbose_output_is_that_of_the_rewritten_text(stand_in: StandIn) -> None:
    done = stand_in("-arch=sm_80", "-v", "add.ptx", "-o", "out")
    assert b"Used" in done.stderr and b"/proc" not in done.stderr and done.stdout == b""


def test_messages_speak_of_the_original(work: Path, add: str, stand_in: StandIn) -> None:
    """A warning about a line after the inserted ones has the original's line."""
    text = add.replace(".entry vecadd(", ".entry vecadd(", 1)
    text += "\n.visible .entry two()\n{\n\t.reg .f64 %d<3>;\n\tadd.f64 %d1, %d2, %d2;\n\tret;\n}\n"
    (work / "warn.ptx").write_text(text)
    line = text.split("\n").index("\tadd.f64 %d1, %d2, %d2;") + 1
    arguments = ("-arch=sm_80", "--warn-on-double-precision-use", "warn.ptx", "-o", "out")
    assert f"ptxas warn.ptx, line {line}".encode() in stand_in(*arguments, behaviour="same").stderr
    assert (
        stand_in(*arguments, behaviour="lines").stderr
        == stand_in(*arguments, behaviour="same").stderr
    )


def test_disabled(work: Path, plain: StandIn, stand_in: StandIn) -> None:
    arguments = ("-arch=sm_80", "add.ptx", "-o", "out")
    expected = outcome(plain(*arguments), work)
    assert outcome(stand_in(*arguments, PTXSW_DISABLE="1"), work) == expected
    assert not (work / "cache").exists()


# ---------------------------------------------------------------- faults


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        ("hang", "not finished within 0.5 s"),
        ("crash", "the analysis was ended by SIGKILL"),
        ("raise", "RuntimeError: something went wrong"),
        ("failed", "vecadd failed in vectorize: KeyError: 1 (ptxsw/a.py:1)"),
        ("exit", "the analysis was ended by status 1"),
        ("no z3", "ModuleNotFoundError: No module named 'z3'"),
        ("bad", "ptxas rejected the rewritten PTX (status 255)"),
    ],
)
def test_faults_fall_back(
    behaviour: str, reason: str, work: Path, plain: StandIn, stand_in: StandIn
) -> None:
    arguments = ("-arch=sm_80", "add.ptx", "-o", "out")
    expected = outcome(plain(*arguments), work)
    done = stand_in(*arguments, behaviour=behaviour, PTXSW_TIMEOUT="0.5")
    assert outcome(done, work) == expected
    assert reason in (work / "log").read_text()
    strict = stand_in(*arguments, behaviour=behaviour, PTXSW_TIMEOUT="0.5", PTXSW_STRICT="1")
    assert strict.status == 255 and reason in strict.stderr.decode()
    assert not (work / "out").exists()
    assert b"Traceback" not in strict.stderr


def test_strict_where_ptxas_refuses(work: Path, stand_in: StandIn) -> None:
    done = stand_in(
        "-arch=sm_80", "add.ptx", "-o", "out", behaviour="bad", PTXSW_STRICT="1", PTXSW_CACHE="off"
    )
    assert done.status == 255 and b"nonsense" in done.stderr and not (work / "out").exists()


def test_nonsense_in_the_environment(work: Path, plain: StandIn, stand_in: StandIn) -> None:
    arguments = ("-arch=sm_80", "add.ptx", "-o", "out")
    expected = outcome(plain(*arguments), work)
    assert outcome(stand_in(*arguments, PTXSW_MODE="maybe"), work) == expected
    assert "PTXSW_MODE is 'maybe'" in (work / "log").read_text()
    strict = stand_in(*arguments, PTXSW_MODE="maybe", PTXSW_STRICT="1")
    assert strict.status == 255 and b"PTXSW_MODE" in strict.stderr


def test_no_ptxas(work: Path, stand_in: StandIn) -> None:
    done = stand_in("-arch=sm_80", "add.ptx", PTXSW_REAL_PTXAS=str(work / "none"))
    assert done.status == 127 and done.stderr.startswith(b"ptxsw: no ptxas found")
    assert done.stderr.count(b"\n") == 1


def test_a_loop_ends(work: Path, stand_in: StandIn) -> None:
    """A "real" ptxas that is a script that calls whatever ptxas is first on PATH."""
    (work / "bin").mkdir()
    standin = work / "bin" / "ptxas"
    standin.symlink_to(ROOT / "wrappers" / "ptxas")
    script = work / "script"
    script.write_text('#!/bin/sh\nunset PTXSW_REAL_PTXAS\nexec ptxas "$@"\n')
    script.chmod(0o755)
    path = f"{work / 'bin'}:{os.environ['PATH']}"
    done = stand_in("--version", PTXSW_REAL_PTXAS=str(script), PATH=path)
    assert done.status in (0, 127) and b"Traceback" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_killed_in_mid_run(number: signal.Signals, work: Path, ptxas: str, add: str) -> None:
    """Nothing is left behind: no output, no file of ours, no process that works on."""
    command = [sys.executable, "-I", "-S", "-c", DRIVER, str(ROOT), "hang"]
    busy = {"MAKELEVEL": "1"}  # no other process may run beside us
    more = {"COUNT": str(work / "count"), "TMPDIR": str(work), **busy}
    environ = environment(work, ptxas, more)
    before = set(work.iterdir())
    process = subprocess.Popen(
        [*command, "-arch=sm_80", "add.ptx", "-o", "out"],
        cwd=work, env=environ, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    while not (work / "count").exists():
        time.sleep(0.01)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=10)
    assert process.returncode == -number and stderr == b""
    assert set(work.iterdir()) - before == {work / "count"}
    assert no_process_in_session(process.pid)


def no_process_in_session(session: int) -> bool:
    """Has every process of a session ended? Waits for it a little."""
    for _ in range(100):
        found = []
        for directory in Path("/proc").glob("[0-9]*"):
            try:
                fields = (directory / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(directory)
        if not found:
            return True
        time.sleep(0.02)
    return False


def test_ptxas_killed_by_a_signal(work: Path, stand_in: StandIn) -> None:
    """What ends the real ptxas ends us."""
    script = work / "dies"
    script.write_text("#!/bin/sh\nkill -9 $$\n")
    script.chmod(0o755)
    done = stand_in("-arch=sm_80", "add.ptx", "-o", "out", PTXSW_REAL_PTXAS=str(script))
    assert done.status == -signal.SIGKILL


# ---------------------------------------------------------------- cache and reports


def test_an_answer_is_computed_once(work: Path, add: str, stand_in: StandIn) -> None:
    def count(*arguments: str, **more: str) -> int:
        stand_in(*arguments, COUNT=str(work / "count"), **more)
        return len((work / "count").read_text())

    arguments = ("-arch=sm_80", "add.ptx", "-o", "out")
    assert count(*arguments) == count(*arguments) == 1
    (work / "copy.ptx").write_text(add)
    assert count("-arch=sm_80", "copy.ptx", "-o", "out") == 1
    assert count("-arch=sm_90", "add.ptx", "-o", "out") == 2
    assert count(*arguments, PTXSW_MODE="force") == 3
    assert count(*arguments, PTXSW_CACHE="off") == 4


def test_a_damaged_entry_is_computed_anew(work: Path, stand_in: StandIn, subtracted: bytes) -> None:
    arguments = ("-arch=sm_80", "add.ptx", "-o", "out")
    assert stand_in(*arguments).status == 0
    [entry] = (work / "cache").iterdir()
    good = entry.read_bytes()
    entry.write_bytes(good[: len(good) // 2])
    assert stand_in(*arguments).status == 0
    assert entry.read_bytes() == good and code(work / "out") == code(subtracted)


def test_parallel_runs_on_one_entry(work: Path, ptxas: str, subtracted: bytes) -> None:
    command = [sys.executable, "-I", "-S", "-c", DRIVER, str(ROOT), "sub", "-arch=sm_80"]
    environ = environment(work, ptxas, {"PTXSW_REPORT": str(work / "reports")})
    jobs = [
        subprocess.Popen([*command, "add.ptx", "-o", f"out{i}"], cwd=work, env=environ)
        for i in range(6)
    ]
    assert [job.wait(60) for job in jobs] == [0] * 6
    assert all(code(work / f"out{i}") == code(subtracted) for i in range(6))
    assert len(list((work / "cache").iterdir())) == len(list((work / "reports").iterdir())) == 1


def test_reports(work: Path, stand_in: StandIn) -> None:
    for _ in range(2):  # computed, then from the cache
        done = stand_in("-arch=sm_80", "add.ptx", "-o", "out", PTXSW_REPORT=str(work / "reports"))
        assert done.status == 0
    [path] = (work / "reports").iterdir()
    report = json.loads(path.read_text())
    assert path.name.startswith("add.sm_80.") and report["file"] == "add.ptx"
    assert report["kernels"][0]["shuffles"] == 1


# ---------------------------------------------------------------- quick path, callers


def imported(work: Path, ptxas: str, *arguments: str) -> set[str]:
    """The modules that a run of the wrapper has imported when it becomes ptxas."""
    program = (
        "import os, sys; sys.path.insert(0, sys.argv.pop(1));"
        "os.execve = lambda *_: (print(*sys.modules), sys.stdout.flush(), os._exit(0));"
        "from ptxsw.build.shim import main; main()"
    )
    command = [sys.executable, "-I", "-S", "-c", program, str(ROOT), *arguments]
    done = run(command, work, environment(work, ptxas, {}))
    return {name.partition(".")[0] for name in done.stdout.decode().split()}


@pytest.mark.parametrize("arguments", ["--version", "-arch=compute_80 add.ptx", ""])
def test_quick_path_imports_nothing_heavy(arguments: str, work: Path, ptxas: str) -> None:
    modules = imported(work, ptxas, *arguments.split())
    assert "ptxsw" in modules
    heavy = {"z3", "lark", "numpy", "typer", "re", "typing", "dataclasses", "subprocess", "json"}
    assert not heavy & modules


def test_a_text_without_candidates_brings_nothing_that_proves(work: Path, ptxas: str) -> None:
    """What rewrites require is asked of the rewrites themselves, which brings msgspec; that there
    is nothing to do is remembered."""
    call = ("-arch=sm_80", "one.ptx", "-o", "out")
    modules = imported(work, ptxas, *call)
    assert "msgspec" in modules
    assert not {"z3", "lark", "numpy", "typer", "subprocess"} & modules
    assert not {"msgspec", "re", "typing", "dataclasses"} & imported(work, ptxas, *call)


def test_objects_have_the_name_of_the_real_ptxas(work: Path, ptxas: str) -> None:
    """Triton has one that is called ptxas-blackwell, and ptxas writes its own name into objects."""
    other = work / "ptxas-other"
    other.symlink_to(ptxas)
    program = (
        "import os, sys; sys.path.insert(0, sys.argv.pop(1));"
        "os.execve = lambda path, argv, _: (print(path, *argv), sys.stdout.flush(), os._exit(0));"
        "from ptxsw.build.shim import main; main()"
    )
    command = [sys.executable, "-I", "-S", "-c", program, str(ROOT), "-arch=sm_80", "one.ptx"]
    done = run(command, work, environment(work, str(other), {}))
    assert done.stdout.decode().split() == [str(other), "ptxas-other", "-arch=sm_80", "one.ptx"]


def test_triton_sees_another_version(stand_in: StandIn, plain: StandIn) -> None:
    done = stand_in("--version", TRITON_PTXAS_PATH="/some/ptxas")
    assert done.stdout.startswith(plain("--version").stdout)
    assert done.stdout.splitlines()[-1].startswith(b"ptxsw ")
    assert re.search(rb"release \d+\.\d+", done.stdout)


@pytest.mark.parametrize("link", [False, True])
def test_wrapper(link: bool, work: Path, ptxas: str, plain: StandIn) -> None:
    wrapper = ROOT / "wrappers" / "ptxas"
    if link:
        (work / "bin").mkdir()
        (work / "bin" / "ptxas").symlink_to(wrapper)
        wrapper = work / "bin" / "ptxas"
    python = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environ = environment(work, ptxas, {"PATH": python, "PYTHONPATH": "/nonsense"})
    done = run([str(wrapper), "--version"], work, environ)
    assert done == plain("--version")
    done = run([str(wrapper), "-arch=sm_80", "bad.ptx"], work, environ)
    assert done == plain("-arch=sm_80", "bad.ptx") and done.status == 255


def test_the_kernels_come_through(work: Path, plain: StandIn, stand_in: StandIn) -> None:
    """Every KernelGen kernel is assembled, whatever becomes of it."""
    for path in sorted(KERNELS.glob("*.ptx"))[:4]:
        assert stand_in("-arch=sm_80", str(path), "-o", "out", behaviour="real").status == 0
        assert (work / "out").stat().st_size > 0
