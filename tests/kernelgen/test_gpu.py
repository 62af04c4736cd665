"""The operators on a GPU, up to the driver call: an imaginary one runs them in the interpreter."""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.kernelgen import gpu, reference
from benchmarks.kernelgen.cases import CASES
from benchmarks.kernelgen.operators import OPERATORS
from benchmarks.programs.cases import PROGRAMS
from ptxsw.gpu.measure import Effort
from ptxsw.gpu.problem import Stage, buffers
from ptxsw.parser import parse
from tests.gpu.fake import FakeDriver

ROOT = Path(__file__).parents[2]
SHARE = {"matmul": 0.02, "matvec": 0.002, "conv1d": 1e-5, "flux": 0.1, "seismic": 0.1}
SHARE |= {name: 0.1 if each.dims == 3 else 0.02 for name, each in OPERATORS.items()
          if name not in SHARE}  # fmt: skip


@pytest.mark.parametrize("name", sorted({**CASES, **PROGRAMS}))
def test_large_launches_cover_all_points(name: str) -> None:
    """A small share of what is timed, with the grid made in the same way: every point is written
    once, and nothing outside. Of the operators the results are numpy's."""
    case = {**CASES, **PROGRAMS}[name]
    real = case.reals[0]
    run = case.large(real, 32, SHARE.get(name, 0.02))
    text = case.path(real).read_text()
    function = next(f for f in parse(text).functions if f.name == case.entry)
    given = gpu.problem(case, real, 32, SHARE.get(name, 0.02))
    assert (given.grid, given.block) == (run.grid, (32, 1, 1))
    driver = FakeDriver()
    with Stage(driver, function, given) as stage:
        found = stage.results(driver.load(text, case.entry, "sm_80"))
    arrays = [value for value in run.args if isinstance(value, np.ndarray)]
    assert [b.array.tobytes() for b in buffers(given.values)] == [a.tobytes() for a in arrays]
    changed = [
        n for n, a, b in zip(run.arrays, arrays, found, strict=True) if a.tobytes() != b.tobytes()
    ]
    if name not in OPERATORS:
        assert changed
        return
    assert set(changed) == set(OPERATORS[name].outputs)
    inputs = dict(zip(run.arrays, arrays, strict=True))
    for output, expected in reference.run(name, inputs).items():
        got = found[run.arrays.index(output)].view(expected.dtype).reshape(expected.shape)
        np.testing.assert_array_max_ulp(got, expected, reference.TOLERANCE.get(name, 0) or 1)


def test_large_is_larger_than_a_cache() -> None:
    run = CASES["vecadd"].large("float", 128, 1.0)
    assert run.grid == (256, 256, 3)
    assert run.args[-1].nbytes > 100e6


def test_time_all_and_write(tmp_path: Path) -> None:
    driver = FakeDriver(cost=lambda text: 1e-4 if "shfl" in text else 2e-4)
    said: list[str] = []
    timed = list(
        gpu.time_all(
            driver, [CASES["jacobi"], CASES["vecadd"]], "float", (32, 64), Effort(1, 3),
            said.append, with_bounds=True, share=0.01,
        )
    )  # fmt: skip
    rows = [row for one in timed for row in one.rows]
    made = [(r.kernel, r.scheme, r.block[0]) for r in rows]
    assert made[0] == ("jacobi", "original", 32)
    assert {("jacobi", "paper", 32), ("jacobi", "halo", 64)} <= set(made)
    assert {r.block[0] for r in rows if r.kernel == "vecadd"} == {32, 64}
    jacobi, vecadd = (one.conclusion for one in timed)
    assert re.match(r"jacobi: \w+ \w+: 2.000 times as fast; mode auto today: keep \(", jacobi)
    assert "take as many passes of the memory pipe as this load" in jacobi  # why auto does so
    assert vecadd.startswith("vecadd: kept as it is: ")
    assert any(jacobi in line for line in said)
    bounds = {r.scheme for r in rows if r.bound}
    assert bounds == {"noload", "nocorner"}
    assert all(r.seconds is not None for r in rows if r.bound)
    assert not any(r.bound for r in rows if r.kernel == "vecadd")
    assert "wrong on purpose" in "".join(said)
    plot = tmp_path / "g.svg"
    asked = argparse.Namespace(
        csv=tmp_path / "g.csv", markdown=tmp_path / "g.md", real="float", programs=False,
        plot=plot if importlib.util.find_spec("matplotlib") else None,
    )  # fmt: skip
    gpu.write(asked, timed, driver, "python -m benchmarks.kernelgen.gpu jacobi vecadd")
    notes = [line for line in (tmp_path / "g.csv").read_text().splitlines() if line[0] == "#"]
    for note in ("# date: 20", "# command: python -m benchmarks.kernelgen.gpu jacobi", "# tree: "):
        assert any(line.startswith(note) for line in notes)
    assert any("Imaginary 1 (sm_80), driver 580.1, 1410 MHz" in line for line in notes)
    assert f"# {vecadd}" in notes
    assert "| jacobi | paper | keep |" in (tmp_path / "g.md").read_text()
    if asked.plot is not None:
        assert "KernelGen, float" in plot.read_text()


def test_without_a_gpu() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.kernelgen.gpu", "jacobi"], cwd=ROOT,
        env=os.environ | {"CUDA_VISIBLE_DEVICES": ""}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("No GPU can be used: ") and done.stderr.count("\n") == 1


def test_unknown_operator(capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu.main(["jacobbi"]) == 2
    assert "no operator 'jacobbi'" in capsys.readouterr().err
