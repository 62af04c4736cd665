"""The examples run, and do what they say."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ptxsw
from ptxsw.driver import plugins
from tests.heads import head

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
JACOBI = ROOT / "benchmarks" / "kernelgen" / "ptx" / "jacobi.ptx"


def test_stepping() -> None:
    command = [sys.executable, str(EXAMPLES / "stepping.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    promised = re.findall(r"^    (line .*)$", (EXAMPLES / "stepping.py").read_text(), re.MULTILINE)
    assert len(promised) == 2
    assert set(promised) < set(done.stdout.splitlines())
    shown = (
        (ROOT / "docs" / "python.md").read_text().partition("$ python examples/stepping.py\n")[2]
    )
    assert shown.partition("```")[0] == done.stdout


UNKNOWN = "not known to be a fixed distance apart"
STRIDES = [
    ("csr", "csr", {53: "4 bytes apart, always", 78: UNKNOWN, 79: UNKNOWN}),  # by a loaded index
    ("doubling", None, {60: UNKNOWN, 63: UNKNOWN, 75: "0 bytes apart, always"}),
    ("banks", "bytes", {139: UNKNOWN, 142: "16 bytes apart, always", 147: UNKNOWN}),  # ^ 1, / 2
    ("float_index", None, {16: UNKNOWN}),
    ("tiles", "halo_tile", {116: "no two neighbours come here", 140: "4 bytes apart, always"}),
    ("rows", "thread_rows", {126: "4096 bytes apart, unless an index overflows"}),
]


@pytest.mark.parametrize(("file", "kernel", "strides"), STRIDES, ids=[case[0] for case in STRIDES])
def test_stepping_on_other_kernels(
    file: str, kernel: str | None, strides: dict[int, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """It claims no distance but one that all neighbours have."""
    main = runpy.run_path(str(EXAMPLES / "stepping.py"))["main"]
    main(ROOT / "tests" / "report" / "ptx" / f"{file}.ptx", kernel)
    lines = re.findall(r"^line (\d+): .*;  (.*)$", capsys.readouterr().out, re.MULTILINE)
    told = {int(number): what for number, what in lines}
    assert {line: told[line] for line in strides} == strides


def test_stepping_has_to_know_which_kernel() -> None:
    command = [sys.executable, str(EXAMPLES / "stepping.py"), "tests/report/ptx/matmul.ptx"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert (done.returncode, done.stderr) == (1, "name one kernel; available: naive, tiled\n")


def test_every_cell_of_the_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES)
    cells = json.loads((EXAMPLES / "first_look.ipynb").read_text())["cells"]
    names: dict[str, Any] = {}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for cell in cells:
            if cell["cell_type"] == "code":
                assert cell["outputs"] == []
                exec("".join(cell["source"]), names)
    assert "conflicting, line 103: 32-way conflict" in printed.getvalue()
    assert "line 103: 32 wavefronts become 1" in printed.getvalue()
    assert "\ncolumn: data-race: found " in printed.getvalue()
    assert "\nproved\ndifferent: conflicting: " in printed.getvalue()
    assert printed.getvalue().splitlines()[-1].startswith("conflicting found thread ")


@pytest.mark.parametrize(("name", "passed"), [("cuda", 4), ("triton", 3)])
def test_the_tests_that_users_may_copy(name: str, passed: int, tmp_path: Path) -> None:
    """Away from our own settings of pytest."""
    if name == "triton":
        pytest.importorskip("triton")
    elif shutil.which("nvcc") is None:
        pytest.skip("no nvcc")
    shutil.copy(EXAMPLES / "testing" / f"test_{name}.py", tmp_path)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    environ = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path / "triton")}
    done = subprocess.run(
        command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout
    assert f"{passed} passed" in done.stdout


# ---------------------------------------------------------------- the symbolic run


def test_steps_have_registers_conditions_and_accesses() -> None:
    steps = ptxsw.steps(JACOBI.read_text())
    [load] = [s for s in steps if s.line == 70]
    assert load.access is not None and load.access.space == "global"
    assert load.text == "ld.global.nc.f32 %f4, [%rd6];"
    assert list(load.written) == ["%f4"] and "%rd6" in load.registers
    assert len(load.conditions) >= 2  # those of the loops around it
    assert str(ptxsw.to_z3(load.conditions[0]).sort()) == "Bool"
    assert str(ptxsw.to_z3(load.access.address).sort()) == "BitVec(64)"
    assert str(load).startswith("70: ld.global.nc.f32 %f4, [%rd6];  // %f4 = load(jacobi_param_5")


def test_a_hook_can_end_the_run() -> None:
    class Enough(Exception):
        pass

    seen: list[int] = []

    def look(step: ptxsw.SymbolicStep) -> None:
        seen.append(step.line)
        if len(seen) == 3:
            raise Enough

    with pytest.raises(Enough):
        ptxsw.steps(JACOBI.read_text(), hook=look)
    assert len(seen) == 3


def test_which_kernel_is_meant_has_to_be_said() -> None:
    text = (ROOT / "tests" / "report" / "ptx" / "matmul.ptx").read_text()
    with pytest.raises(ValueError, match="name one kernel; available: naive, tiled"):
        ptxsw.steps(text)
    assert len(ptxsw.steps(text, "naive")) > 20


# ---------------------------------------------------------------- plugins


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """An environment in which the example plugin is installed."""
    shutil.copytree(EXAMPLES / "plugin" / "ptxsw_example", tmp_path / "ptxsw_example")
    about = tmp_path / "ptxsw_example_plugin-0.1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: ptxsw-example-plugin\n")
    text = (EXAMPLES / "plugin" / "pyproject.toml").read_text()
    point = re.search(r'^example = "(.*)"$', text, re.MULTILINE)
    assert point is not None
    (about / "entry_points.txt").write_text(f"[{plugins.GROUP}]\nexample = {point[1]}\n")
    return {**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path), str(ROOT)))}


KERNEL = (
    head()
    + """.visible .entry k(.param .u64 a)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    mov.u32 %r1, %tid.x;
    SQUARE
    mul.lo.u32 %r3, %r2, 8;
    ld.param.u64 %rd1, [a];
    cvta.to.global.u64 %rd2, %rd1;
    mul.wide.u32 %rd3, %r3, 4;
    add.s64 %rd2, %rd2, %rd3;
    st.global.u32 [%rd2], %r3;
    ret;
}
"""
)


def ask(environ: dict[str, str], *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ptxsw", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environ, timeout=60)


def test_an_opcode_from_outside(installed: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(KERNEL.replace("SQUARE", "sqr.u32 %r2, %r1;"))
    assert "varies" in ask(installed, "analyze", path).stdout
    known = ask(installed, "--plugins", "example", "analyze", path).stdout
    assert "a[8*tid.x*tid.x]" in known and "varies" not in known


def test_a_rewrite_from_outside(installed: dict[str, str], tmp_path: Path) -> None:
    """It is listed, made, and proved by `validate` like any other."""
    path, out = tmp_path / "k.ptx", tmp_path / "out.ptx"
    path.write_text(KERNEL.replace("SQUARE", "mov.u32 %r2, %r1;"))
    assert "shift-for-product" not in ask(installed, "rewrites").stdout
    assert "shift-for-product" in ask(installed, "--plugins", "all", "rewrites").stdout
    given = ("optimize", path, "-o", out, "--mode", "force", "--rewrites", "shift-for-product")
    assert ask(installed, *given).returncode == 2
    done = ask(installed, "--plugins", "example", *given)
    assert "shift 3" in done.stdout, done.stderr
    assert out.read_text() == path.read_text().replace(
        "mul.lo.u32 %r3, %r2, 8", "shl.b32 %r3, %r2, 3"
    )
    assert ask(installed, "verify", path, out).stdout.startswith("proved")


def test_a_wrong_rewrite_from_outside_is_not_made(
    installed: dict[str, str], tmp_path: Path
) -> None:
    path, out = tmp_path / "k.ptx", tmp_path / "out.ptx"
    path.write_text(KERNEL.replace("SQUARE", "mov.u32 %r2, %r1;"))
    module = tmp_path / "ptxsw_example" / "__init__.py"
    right = module.read_text()
    module.write_text(right.replace("shl.b32 {d}, {a}, {n};", "shl.b32 {d}, {n}, {n};"))
    given = ("optimize", path, "-o", out, "--mode", "force", "--rewrites", "shift-for-product")
    done = ask(installed, "--plugins", "example", *given)
    assert done.returncode == 0 and "left alone" in done.stdout
    assert out.read_text() == path.read_text()


def test_a_plugin_that_is_not_there(installed: dict[str, str]) -> None:
    done = ask(installed, "--plugins", "other", "rewrites")
    assert done.returncode == 2
    assert done.stderr == "--plugins: there is no plugin 'other'; installed are: example\n"


def test_what_is_known_is_not_registered_again() -> None:
    from ptxsw.ptx.isa import Op
    from ptxsw.rewrites import REWRITES

    with pytest.raises(ValueError, match="the opcode 'add' is known already"):
        plugins.register_opcode("add", Op())
    with pytest.raises(ValueError, match="the rewrite 'shuffle' is known already"):
        plugins.register_rewrite(next(one for one in REWRITES if one.name == "shuffle"))
    with pytest.raises(TypeError, match="object is not a rewrite: it lacks name, summary"):
        plugins.register_rewrite(object())  # type: ignore[arg-type]
