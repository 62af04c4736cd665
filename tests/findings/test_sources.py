"""Programs as a user has them: the source is compiled, mended by hand as the advice says, compiled
again. The fault is named first, on a line of the source, with an estimate; the mended program has
no such finding; and `predict` of one launch agrees on which is faster."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchmarks.programs.faults.cases import FAULTS
from tests.command_line import ptxsw

CUDA = Path(__file__).parents[2] / "benchmarks/programs/faults/cuda"
LAUNCHES: dict[str, dict[str, Any]] = {
    "rowsum": {"grid": [8], "block": [128], "args": [1024, "zeros:4194304:f32", "zeros:1024:f32"]},
    "transpose": {
        "grid": [8, 8], "block": [32, 8],
        "args": [256, 256, "zeros:65536:f32", "zeros:65536:f32"],
    },
    "matadd": {
        "grid": [8, 64], "block": [32, 4],
        "args": [256, 256, "zeros:65536:f32", "zeros:65536:f32", "zeros:65536:f32"],
    },
    "masses": {"grid": [64], "block": [128], "args": [8192, "zeros:65536:f32", "zeros:8192:f32"]},
    "tile": {"grid": [16], "block": [32, 32], "args": ["zeros:16384:f32", "zeros:16384:f32"]},
    "records": {"grid": [16], "block": [128], "args": ["zeros:16384:f32", "zeros:2048:f32"]},
    "scan": {"grid": [8192], "block": [128], "args": ["zeros:256:f32", "zeros:256:f32"]},
    "multiply": {
        "grid": [4, 4], "block": [32, 32],
        "args": [*["zeros:16384:f32"] * 3, 128, 128, 128],
    },
    "product": {"grid": [4, 4], "block": [32, 32], "args": [*["zeros:16384:f32"] * 3, 128]},
    "damped": {"grid": [32], "block": [128], "args": [64, "zeros:262144:f32", "zeros:4096:f32"]},
}  # fmt: skip


def compiled(name: str, at: Path, *options: str) -> Path:
    """The PTX of a program, beside its source."""
    shutil.copy(CUDA / f"{name}.cu", at)
    out = at / f"{name}{'-mended' * bool(options)}.ptx"
    command = ["nvcc", "-arch=sm_90", "-lineinfo", "-ptx", *options, f"{name}.cu", "-o", str(out)]
    subprocess.run(command, cwd=at, check=True)
    return out


def found(file: Path) -> list[dict[str, Any]]:
    done = ptxsw("check", file, "--format", "json", "--no-ptxas")
    findings: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    return findings


def expected(file: Path, spec: Path) -> float:
    """The time of a launch, in seconds."""
    done = ptxsw("predict", file, "--launch", spec, "--no-rewrites", "--format", "json")
    [kernel] = json.loads(done.stdout)["kernels"]
    time: float = kernel["stretches"][0]["expected"]
    return time


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc")
@pytest.mark.parametrize("name", LAUNCHES)
def test_mended_by_hand(name: str, tmp_path: Path) -> None:
    fault, mended = compiled(name, tmp_path), compiled(name, tmp_path, "-DMENDED")
    first = found(fault)[0]
    assert first["rule"] == FAULTS[name] and first["path"].endswith(f"{name}.cu")
    assert first["gain"] and 0 <= first["gain"][0] <= first["gain"][1] <= 1
    assert FAULTS[name] not in {each["rule"] for each in found(mended)}
    spec = tmp_path / "launch.json"
    spec.write_text(json.dumps(LAUNCHES[name]))
    assert expected(mended, spec) < expected(fault, spec)
