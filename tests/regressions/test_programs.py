"""Small programs that were once refused, crashed on or run wrongly, through the command line."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from ptxsw.toolchain import find
from tests.command_line import in_text as ptxsw

PTX = Path(__file__).parent / "ptx"
VECTORS = ["mov_vector_swap", "vector_component", "vector_registers", "vector_neighbours"]


def after_one_thread(name: str, argument: str, out: Path) -> list[int]:
    """What `p` holds after one thread of the program's kernel."""
    file = PTX / f"{name}.ptx"
    done = ptxsw("run", file, "--grid", 1, "--block", 1, "--arg", argument, "--out", out)
    assert done.returncode == 0, done.stderr
    found: list[int] = np.load(out / "p.npy").tolist()
    return found


@pytest.mark.parametrize(
    ("name", "argument", "after"),
    [
        ("mov_vector_swap", "iota:3:u32", [1, 0, 2]),
        ("call_unused_result", "iota:2:u64", [0, 1]),
        ("vector_component", "iota:3:u32", [10, 1, 2]),
        ("vector_registers", "iota:4:u32", [0, 1, 10, 3]),
        ("initializer_comment", "zeros:2:u32", [2, 5]),
        ("sub_cc_addc", "iota:3:u32", [2**32 - 1, 0, 1]),
    ],
)
def test_run(name: str, argument: str, after: list[int], tmp_path: Path) -> None:
    assert after_one_thread(name, argument, tmp_path) == after


def test_run_a_function_that_does_not_read_its_parameter(tmp_path: Path) -> None:
    assert after_one_thread("call_unused_parameter", "iota:2:u64", tmp_path) == [1, 1]


@pytest.mark.parametrize("name", VECTORS)
def test_a_text_equals_itself(name: str) -> None:
    done = ptxsw("verify", PTX / f"{name}.ptx", PTX / f"{name}.ptx")
    assert (done.returncode, done.stdout) == (0, "proved\n")


def test_analyze_a_vector_register() -> None:
    done = ptxsw("analyze", PTX / "vector_component.ptx")
    assert done.returncode == 0, done.stderr
    assert "ld.global.v2.u32      8  uniform" in done.stdout


@pytest.mark.parametrize("scheme", ["paper", "early", "halo"])
@pytest.mark.parametrize("form", ["keep", "versioned"])
def test_shuffles_into_a_vector_register(scheme: str, form: str, tmp_path: Path) -> None:
    file, made = PTX / "vector_neighbours.ptx", tmp_path / "out.ptx"
    done = ptxsw(
        "optimize", file, "-o", made, "--mode", "force", "--scheme", scheme, "--form", form
    )
    assert done.returncode == 0 and "2 global loads, 1 shuffle" in done.stdout, done.stdout
    verdict = ptxsw("verify", file, made, "--also-run")
    assert verdict.returncode == 0 and verdict.stdout.startswith("proved; no difference in")
    if find.real_ptxas(os.environ) is not None:
        assembled = ptxsw("assemble", made, "-o", tmp_path / "out.cubin", "-arch=sm_80")
        assert assembled.returncode == 0, assembled.stderr


@pytest.mark.parametrize("command", ["run", "verify"])
def test_32_bit_addresses_are_refused_where_they_are_asked_for(command: str) -> None:
    file = PTX / "address_size_32.ptx"
    words: dict[str, list[object]] = {
        "run": ["--grid", 1, "--block", 1, "--arg", "zeros:2:u64", "--arg", "zeros:2:u64"],
        "verify": [file],
    }
    done = ptxsw(command, file, *words[command])
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"{file}:3:1: programs with 32-bit addresses are not run (ptxas 13 does not assemble"
        " them, either)\n"
        "    3 | .address_size 32\n"
        "      | ^^^^^^^^^^^^^^^^\n"
    )


def test_32_bit_addresses_are_analysed_and_left_as_they_are(tmp_path: Path) -> None:
    file, made = PTX / "address_size_32.ptx", tmp_path / "out.ptx"
    shown = ptxsw("analyze", file)
    assert shown.returncode == 0 and "A    input" in shown.stdout
    done = ptxsw("optimize", file, "-o", made, "--mode", "force")
    assert done.returncode == 0 and made.read_bytes() == file.read_bytes()
    assert "kernels with 32-bit addresses (.address_size 32) are left alone" in done.stdout


@pytest.mark.parametrize("command", ["analyze", "optimize"])
@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "branch_without_target",
            ":9:5: 'ret' is not a label of this function\n    9 |     ret;\n      |     ^^^\n",
        ),
        (
            "unknown_type",
            ":20:5: st.global.u132 has no type that ptxsw knows: how much it accesses is unknown\n"
            "   20 |     st.global.u132 [o+8], y;\n"
            "      |     ^^^^^^^^^^^^^^^^^^^^^^^^\n",
        ),
        (
            "parameter_named_laneid",
            ":4:19: %laneid is a special register; rename the parameter\n"
            "    4 | .visible .entry k(.param .u64 %laneid)\n"
            "      |                   ^^^^^^^^^^^^^^^^^^^\n",
        ),
    ],
)
def test_what_makes_no_sense_is_drawn(command: str, name: str, message: str) -> None:
    file = PTX / f"{name}.ptx"
    done = ptxsw(command, file, *(["-o", "-", "--mode", "force"] if command == "optimize" else []))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"{file}{message}"


@pytest.mark.parametrize("name", ["branch_without_target", "unknown_type"])
def test_what_makes_no_sense_is_not_run(name: str) -> None:
    file = PTX / f"{name}.ptx"
    arguments = ["--arg", "zeros:200:u32"] * (2 if name == "unknown_type" else 1)
    done = ptxsw("run", file, "--grid", 1, "--block", 32, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    line = {"branch_without_target": 9, "unknown_type": 20}[name]
    assert done.stderr.startswith(f"{file}:{line}:5: ") and "Traceback" not in done.stderr


def test_a_stride_that_doubles_for_no_one_knows_how_long() -> None:
    """It goes on as long as a lane stays inside the array; lanes outside take no part."""
    shown = ptxsw("analyze", "--sort", "line", PTX / "doubling.ptx")
    banks = {line.split()[0]: line for line in shown.stdout.splitlines() if line}
    assert "2- to 32-way conflict, worst at r89 = 16" in banks["78"]
    assert "1- to 16-way conflict, worst at r89 = 16" in banks["127"]  # 16 lanes are left then
    told = ptxsw("check", "--no-ptxas", PTX / "doubling.ptx")
    assert told.returncode == 1
    assert (
        "up to 32 lanes of a warp access different words in the same bank (8 loads and 4 stores)"
        in told.stdout
    )


def test_an_array_of_unknown_size_tells_no_end(tmp_path: Path) -> None:
    text = (PTX / "doubling.ptx").read_text()
    old = ".shared .align 4 .b8 _ZZ6halvesPfiE1t[8192];"
    assert old in text
    path = tmp_path / "dynamic.ptx"
    extern = ".extern .shared .align 4 .b8 _ZZ6halvesPfiE1t[];"
    path.write_text(text.replace(old, "").replace(".visible .entry", f"{extern}\n.visible .entry"))
    shown = ptxsw("analyze", path)
    assert shown.returncode == 0 and "way conflict" not in shown.stdout


def test_the_main_loop_goes_on_from_where_the_rest_of_it_ended() -> None:
    """Lanes leave the first loop in different iterations, though nearly always in the same one."""
    shown = ptxsw("analyze", "--sort", "line", PTX / "unrolled_stride.ptx")
    lines = {line.split()[0]: line.split()[1:] for line in shown.stdout.splitlines() if line}
    for line in ("108", "127", "132", "137", "141"):
        source, opcode, size, stride, sectors, used = lines[line][:6]
        assert (source, opcode, size) == ("unrolled_stride.cu:7", "ld.global.f32", "4")
        assert (stride, sectors, used) == ("4", "4", "100%")


def test_an_index_narrower_than_the_bound_of_its_loop(tmp_path: Path) -> None:
    """Whether the index wraps was asked of the bounds of the loop, and these of the index."""
    shown = ptxsw("analyze", PTX / "wide_bound.ptx")
    assert shown.returncode == 0, shown.stderr
    assert "ld.global.u32      4       4        4  100%" in shown.stdout
    file, made = PTX / "wide_bound_opt.ptx", tmp_path / "out.ptx"
    done = ptxsw("optimize", file, "-o", made, "--mode", "force", "--rewrites", "read-only-loads")
    assert done.returncode == 0, done.stderr
    assert "its bounds depend on themselves" in done.stdout
    assert made.read_bytes() == file.read_bytes()
