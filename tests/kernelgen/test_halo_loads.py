"""What the scheme `halo` is for: a row of loads costs two load instructions of a warp."""

from __future__ import annotations

import pytest

from benchmarks.kernelgen.cases import CASES
from ptxsw.driver.pipeline import Options, optimize
from ptxsw.simt import launch
from tests.parsed import parsed


@pytest.mark.parametrize(("name", "most"), [("gaussblur", 0.45), ("tricubic", 0.55)])
def test_executed_loads(name: str, most: float) -> None:
    case = CASES[name]
    run = case.runs("float")[0]  # whole warps
    text = case.path("float").read_text()
    rewritten = optimize(text, Options(mode="force", scheme="halo")).text
    counted = [
        launch(parsed(t), case.entry, run.grid, run.block, run.args).counters
        for t in (text, rewritten)
    ]
    loads = [counters.warp_loads for counters in counted if counters is not None]
    assert 0 < loads[1] <= most * loads[0]
