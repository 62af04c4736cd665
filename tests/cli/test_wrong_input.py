"""What the commands say to wrong input: one test for each text."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ptxsw.build.advice import advice
from ptxsw.build.toolkit import ToolkitError
from ptxsw.cli import optimize_run, values
from ptxsw.cli.options import Form, Mode, Scheme
from ptxsw.cli.wrapper import Tool
from ptxsw.driver import pipeline
from ptxsw.gpu.upper_bound import BOUNDS
from tests.command_line import JACOBI, KERNELS, ROOT, ptxsw

MATMUL = ROOT / "tests" / "report" / "ptx" / "matmul.ptx"
ENDLESS = ROOT / "tests" / "docs" / "inputs" / "endless.ptx"


def refused(*arguments: object, cwd: Path | None = None, stdin: bytes = b"") -> str:
    """The last line of what is said to bad usage or input, without a word on standard output."""
    done = ptxsw(*arguments, cwd=cwd, stdin=stdin)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"Traceback" not in done.stderr
    return done.stderr.decode().splitlines()[-1]


# ---------------------------------------------------------------- choices


def test_choices_are_what_the_library_knows() -> None:
    assert tuple(Mode) == values.MODE.choices == pipeline.MODES
    assert tuple(Scheme) == values.SCHEME.choices == pipeline.SCHEMES
    assert tuple(Form) == values.FORM.choices == pipeline.FORMS
    assert optimize_run.UNSAFE_BOUND.choices == BOUNDS


def test_there_is_advice_for_every_tool(tmp_path: Path) -> None:
    for tool in Tool:
        try:
            assert advice(tool, {"HOME": str(tmp_path), "PATH": ""})
        except ToolkitError as error:  # known, but not on this machine
            assert "found" in str(error)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("analyze", JACOBI, "--format", "xml"), "'--format': 'xml' is not one of 'text', 'json',"),
        (("analyze", JACOBI, "--space", "x"), "'--space': 'x' is not one of 'global', 'shared', "),
        (("analyze", JACOBI, "--only", "x"), "'--only': 'x' is not one of 'global', 'shared', "),
        (("optimize", JACOBI, "-o", "-", "--mode", "x"), "'--mode': 'x' is not one of 'auto', 'fo"),
        (("optimize", JACOBI, "-o", "-", "--form", "x"), "'--form': 'x' is not one of 'auto', 'ke"),
        (("report", JACOBI, "--form", "x"), "'--form': 'x' is not one of 'auto', 'keep', 'version"),
        (
            ("env", "make"),
            "'TOOL': 'make' is not one of 'nvcc', 'clang', 'nvhpc', 'gcc', 'triton',",
        ),
        (("optimize", JACOBI, "-o", "-", "--max-delta", "32"), "32 is not in the range 0<=x<=31."),
        (("verify", JACOBI, JACOBI, "--seeds", "-1"), "-1 is not in the range 0<=x<=1000."),
    ],
)
def test_values_are_refused_in_words(arguments: tuple[object, ...], said: str) -> None:
    message = refused(*arguments)
    assert message.startswith("Error: Invalid value for '") and said in message
    assert "Input should" not in message and "Value error" not in message


def test_completion_knows_the_choices() -> None:
    """What bash asks for `ptxsw optimize --scheme <tab>` and `ptxsw env n<tab>`."""
    for words, found in (
        ("ptxsw optimize --scheme ", set(pipeline.SCHEMES)),
        ("ptxsw env n", {"nvcc", "nvhpc"}),
    ):
        done = ptxsw(
            env={
                "_PTXSW_COMPLETE": "complete_bash", "COMP_WORDS": words,
                "COMP_CWORD": str(len(words.split(" ")) - 1),
            },
        )  # fmt: skip
        assert set(done.stdout.decode().split()) == found


def test_no_pydantic_at_the_start() -> None:
    program = (
        "import sys; sys.argv = ['ptxsw', 'cache', '--help']\n"
        "from ptxsw.__main__ import main\n"
        "try:\n    main()\nfinally:\n    print('pydantic' in sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "False\n")


# ---------------------------------------------------------------- one spelling for one meaning


def test_old_spellings_still_do(tmp_path: Path) -> None:
    for old, new in (
        (("analyze", MATMUL, "--only", "shared"), ("analyze", MATMUL, "--space", "shared")),
        (
            ("optimize", MATMUL, "-o", "-", "--only", "naive"),
            ("optimize", MATMUL, "-o", "-", "--kernel", "naive"),
        ),
    ):
        before, now = ptxsw(*old), ptxsw(*new)
        assert (before.returncode, before.stderr) == (0, now.stderr)
        assert before.stdout == now.stdout != b""
        assert b"--only" not in ptxsw(old[0], "--help").stdout
    both = ("--only", "naive", "--kernel", "tiled")
    said = refused("optimize", MATMUL, "-o", tmp_path / "o", *both)
    assert said == "--only is the old name of --kernel: use one of them"


@pytest.mark.parametrize("block", ["32", "32x1", "32,1,1"])
def test_blocks_are_written_alike(block: str) -> None:
    vecadd, none = KERNELS / "vecadd.ptx", ("--arg", "0") * 6
    assert ptxsw("analyze", vecadd, "--block", block).returncode == 0
    assert ptxsw("run", vecadd, "--grid", block, "--block", block, *none).returncode == 0
    for command in (("report", vecadd), ("tune", vecadd), ("run", vecadd, "--grid", "1")):
        assert refused(*command, "--block", f"{block}y") == (
            f"--block: '{block}y' is not a size; write 256, 16x16 or 8x8x4"
        )


def test_grids_are_positive() -> None:
    said = refused("run", JACOBI, "--grid", "1x0", "--block", "32")
    assert said == "--grid: '1x0' is not a size; write 256, 16x16 or 8x8x4"


# ---------------------------------------------------------------- kernels


def test_run_asks_which_kernel() -> None:
    done = ptxsw("run", MATMUL, "--grid", "1", "--block", "32")
    assert done.returncode == 2
    first = done.stderr.decode().splitlines()[0]
    assert first == f"{MATMUL}:17:1: which kernel? name one of: naive, tiled"


def test_run_without_any_kernel() -> None:
    text = b".version 7.0\n.target sm_80\n.address_size 64\n"
    done = ptxsw("run", "-", "--grid", "1", "--block", "32", stdin=text)
    assert done.returncode == 2
    assert done.stderr.decode().splitlines()[0] == "<stdin>:1:1: no kernel with a body"


@pytest.mark.parametrize(
    "command",
    [
        ("analyze", MATMUL),
        ("optimize", MATMUL, "-o", "-"),
        ("verify", MATMUL, MATMUL),
        ("run", MATMUL, "--grid", "1", "--block", "32"),
    ],
)
def test_kernels_that_are_not_there(command: tuple[object, ...]) -> None:
    said = refused(*command, "--kernel", "nope")
    assert said == f"{MATMUL}: no kernel 'nope' with a body; available: naive, tiled"


# ---------------------------------------------------------------- steps


@pytest.mark.parametrize("more", [(), ("--seed", "3")])
def test_steps_are_obeyed(more: tuple[str, ...]) -> None:
    given = ("--grid", "1", "--block", "32", "--arg", "zeros:16:u32", *more)
    done = ptxsw("run", ENDLESS, *given, "--steps", "7")
    assert done.returncode == 2 and b": no end after 7 steps\n" in done.stderr


def test_steps_are_of_all_blocks_together() -> None:
    """Two million threads do not run at once."""
    vecadd, none = KERNELS / "vecadd.ptx", ("--arg", "0") * 6
    given = ("run", vecadd, "--grid", "2048", "--block", "1024", *none)
    done = ptxsw(*given, "--steps", "100")
    assert done.returncode == 2 and b": no end after 100 steps\n" in done.stderr
    assert ptxsw(*given, "--steps", "1000000").returncode == 0


# ---------------------------------------------------------------- launches

JACOBI_LAUNCH = {"grid": [1], "block": [32], "args": [8]}


@pytest.mark.parametrize(
    ("launch", "said"),
    [
        ("{", "not JSON: line 1, column 2: Expecting property name enclosed in double quotes"),
        ("[" * 100_000, "not JSON that can be read: nested too deeply"),
        ("3", "a launch is an object with grid, block and args"),
        ({"threads": 3}, "a launch has no 'threads'"),
        ({"grid": "x"}, "'x' is not the size of a grid or block; write [16, 16, 1]"),
        (
            {"block": [1, 1, 1, 1]},
            "[1, 1, 1, 1] is not the size of a grid or block; write [16, 16, 1]",
        ),
        ({"block": [True]}, "[True] is not the size of a grid or block; write [16, 16, 1]"),
        ({"args": 3}, "args is 3; it must be a list"),
        ({"args": [[]]}, "[] is not an argument"),
        ({"args": [{"x:u32": 1}]}, "'x:u32' is not a field; write offset:type"),
        ({"shared": "much"}, "shared is 'much'; it must be a number of bytes"),
        ({"memory": []}, "memory is []; it must be an object of address: buffer"),
        ({"memory": {"there": "zeros:4:u32"}}, "'there' is not an address; write 0x100000000"),
        ({"memory": {"0x10": "3"}}, "memory holds buffers, not numbers"),
        ({"only": 3}, "only is 3; it must be two block numbers: [first, end]"),
        ({"only": [3, 3]}, "only is [3, 3]; it must be two block numbers: [first, end]"),
    ],
)
@pytest.mark.parametrize("command", [("verify", JACOBI, JACOBI), ("tune", JACOBI)])
def test_bad_launches(
    command: tuple[object, ...], launch: str | dict[str, object], said: str, tmp_path: Path
) -> None:
    text = launch if isinstance(launch, str) else json.dumps({**JACOBI_LAUNCH, **launch})
    (tmp_path / "spec.json").write_text(text)
    assert refused(*command, "--launch", "spec.json", cwd=tmp_path) == f"spec.json: {said}"


def test_a_launch_file_that_is_not_there(tmp_path: Path) -> None:
    said = refused("verify", JACOBI, JACOBI, "--launch", "bad", cwd=tmp_path)
    assert said == "bad: No such file or directory"


# ---------------------------------------------------------------- standard input and output


@pytest.mark.parametrize(
    "command", [("verify", "-", "-"), ("verify", JACOBI, "-", "--launch", "-"),
                ("tune", "-", "--launch", "-")],
)  # fmt: skip
def test_standard_input_is_read_once(command: tuple[object, ...]) -> None:
    said = refused(*command, stdin=JACOBI.read_bytes())
    assert said == "standard input can be read only once: name a file for the rest"


def test_outputs_do_not_mix(tmp_path: Path) -> None:
    said = refused("optimize", JACOBI, "-o", "-", "--report", "-")
    assert said == "--output and --report would both be written to standard output"
    said = refused("optimize", JACOBI, "-o", "x", "--report", "x", cwd=tmp_path)
    assert said == "--output and --report would both be written to x"
    assert list(tmp_path.iterdir()) == []
    assert ptxsw("optimize", JACOBI, "-o", os.devnull, "--report", os.devnull).returncode == 0


@pytest.mark.parametrize(
    "command",
    [
        ("optimize", JACOBI, "-o", "/dev/full"),
        ("optimize", JACOBI, "-o", os.devnull, "--report", "/dev/full"),
        ("report", JACOBI, "--html", "/dev/full"),
    ],
)
def test_full_disks_are_named(command: tuple[object, ...]) -> None:
    assert refused(*command) == "/dev/full: No space left on device"


@pytest.mark.usefixtures("needs_ptxas")
def test_a_full_disk_is_no_assembled_kernel() -> None:
    """ptxas itself does not say that it could not write."""
    said = refused("assemble", JACOBI, "-o", "/dev/full")
    assert said == "/dev/full: No space left on device"


def test_assemble_names_the_output_that_was_asked_for() -> None:
    assert refused("assemble", JACOBI, "-o", "/none/x") == "/none/x: No such file or directory"


def test_a_full_disk_under_the_buffers_of_run(tmp_path: Path) -> None:
    (tmp_path / "vecadd_param_3.npy").symlink_to("/dev/full")
    numbers, array = ("--arg", "0") * 3, ("--arg", "zeros:4:f32")
    given = ("--grid", "1", "--block", "32", *numbers, *array, "--arg", "0", "--arg", "0")
    said = refused("run", KERNELS / "vecadd.ptx", *given, "--out", tmp_path)
    assert said == f"{tmp_path / 'vecadd_param_3.npy'}: No space left on device"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (f"analyze {JACOBI} > /dev/full", "standard output: No space left on device"),
        (f"analyze {MATMUL} --format json > /dev/full", "standard output: No space left on device"),
        ("--version > /dev/full", "standard output: No space left on device"),
        (f"analyze {JACOBI} >&-", "standard output is closed"),
        ("analyze - <&-", "standard input is closed"),
    ],
)
def test_streams_that_do_not_work(words: str, said: str) -> None:
    command = f"exec {sys.executable} -m ptxsw {words}"
    done = subprocess.run(["sh", "-c", command], cwd=ROOT, stderr=subprocess.PIPE, timeout=60)
    assert (done.returncode, done.stderr.decode()) == (2, f"{said}\n")


def test_an_interrupt_is_no_answer(tmp_path: Path) -> None:
    """Status 1 would say that the texts differ."""
    fifo = tmp_path / "a.ptx"
    os.mkfifo(fifo)
    process = subprocess.Popen(
        [sys.executable, "-m", "ptxsw", "verify", fifo, JACOBI], cwd=ROOT, stderr=subprocess.PIPE
    )
    with open(fifo, "w"):  # opens when the command reads; nothing comes
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[1]
    assert (process.returncode, said) == (-signal.SIGINT, b"")


# ---------------------------------------------------------------- reports


def test_a_single_report(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    ptxsw("optimize", JACOBI, "-o", os.devnull, "--mode", "force", "--report", path)
    one, all_ = ptxsw("report", path), ptxsw("report", tmp_path)
    assert one.returncode == 0 and one.stdout == all_.stdout
    assert one.stdout.splitlines()[-1].startswith(b"1 file, ")
    assert ptxsw("report", "-", stdin=path.read_bytes()).stdout == one.stdout
    assert refused("report", path, "--html", "x") == f"{path}: --html takes a PTX file"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{}", "not a ptxsw report: 'schema'"),
        (b"{", "not JSON: line 1, column 2: Expecting property name enclosed in double quotes"),
        (b'{"a":' * 100_000, "not JSON that can be read: nested too deeply"),
    ],
)
def test_what_is_no_report(content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "r.json").write_bytes(content)
    assert refused("report", "r.json", cwd=tmp_path) == f"r.json: {said}"
    assert refused("report", ".", cwd=tmp_path) == f"r.json: {said}"


def test_a_report_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_bytes(b"\xff")
    assert (
        refused("report", "r.json", cwd=tmp_path) == "r.json: not a text file: byte 0 is not UTF-8"
    )
    assert refused("report", ".", cwd=tmp_path) == "r.json: not JSON: it is not UTF-8"


def test_a_directory_without_reports(tmp_path: Path) -> None:
    assert refused("report", tmp_path) == f"{tmp_path}: it contains no report (*.json)"
