"""A kernel at every occupancy, on the interpreter in place of a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.gpu import occupancy
from benchmarks.gpu.interpreter import InterpreterDriver
from benchmarks.gpu.occupancy import AS_IT_IS, PADDED
from benchmarks.gpu.prepare import of_subject
from benchmarks.gpu.prepared import Manifest, Prepared, write
from ptxsw.gpu.measure import Effort


@pytest.mark.slow
def test_fewer_blocks_by_memory_that_nobody_uses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(occupancy, "_EFFORT", Effort(warm_up=1, samples=1))
    kernel, texts = of_subject("transpose-float", 0.002)
    write(tmp_path, Manifest("", "", "", "sm_90", 0.002, (kernel,), (), ()), texts)
    prepared = Prepared(tmp_path)
    assert occupancy.points(InterpreterDriver(), prepared, kernel, 1 << 20) == []  # too few blocks
    found = occupancy.points(InterpreterDriver(), prepared, kernel, 1)
    blocks = [point.blocks for point in found]
    assert blocks == list(range(1, blocks[-1] + 1))
    assert [point.way for point in found] == [PADDED] * (len(found) - 1) + [AS_IT_IS]
    assert all(point.wrong is None and point.seconds for point in found)
    occupancy.write(tmp_path / occupancy.TABLE, found, "a device")
    lines = (tmp_path / occupancy.TABLE).read_text().splitlines()
    assert lines[0] == "# device: a device" and len(lines) == len(found) + 2
