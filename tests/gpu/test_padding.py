"""Fewer resident blocks by unused shared memory: measured by tune, chosen at launch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import ptxsw
from ptxsw.cost.occupancy import occupancy
from ptxsw.gpu import padding
from ptxsw.gpu import tune as tuning
from ptxsw.gpu.driver import Shape
from ptxsw.gpu.padding import paddings, steps_down
from ptxsw.gpu.problem import PreparedLaunch
from ptxsw.toolchain.ptxas import NoPtxas, locate
from ptxsw.toolchain.tuned import find
from tests.gpu.fake import FakeDriver
from tests.gpu.test_tune import QUICK, TEXT, kernel

LAUNCH = PreparedLaunch((64, 1, 1), (256, 1, 1), ())
CHUNKS = (Path(__file__).parents[2] / "benchmarks" / "programs" / "ptx" / "chunks.ptx").read_text()


@pytest.fixture
def programs() -> None:
    try:
        locate()
    except NoPtxas as error:
        pytest.skip(str(error))


def resident(registers: int, shared: int) -> int:
    return occupancy("sm_90", block_threads=256, registers=registers, shared=shared).blocks


def test_one_block_fewer_each_time() -> None:
    steps = list(steps_down("sm_90", threads=256, registers=32, shared=1024))
    assert [blocks for blocks, _ in steps] == [7, 6, 5, 4, 3, 2, 1]
    for blocks, shared in steps:
        assert resident(32, shared) == blocks < resident(32, shared - 1)


def test_a_half_a_quarter_and_an_eighth(programs: None) -> None:
    found = paddings(CHUNKS, "chunks", LAUNCH, "sm_90")
    assert [resident(20, shared) for shared in found] == [4, 2, 1]


def test_what_is_not_padded(programs: None) -> None:
    with_own = PreparedLaunch((64, 1, 1), (256, 1, 1), (), 1024)
    assert paddings(CHUNKS, "chunks", with_own, "sm_90") == ()
    extern = CHUNKS.replace(".visible", ".extern .shared .align 4 .b8 s[];\n.visible", 1)
    assert paddings(extern, "chunks", LAUNCH, "sm_90") == ()
    asks = CHUNKS.replace("\tret;", "\tmov.u32 %r1, %dynamic_smem_size;\n\tret;", 1)
    assert paddings(asks, "chunks", LAUNCH, "sm_90") == ()
    assert paddings(CHUNKS, "another", LAUNCH, "sm_90") == ()
    assert paddings(CHUNKS, "chunks", LAUNCH, "sm_1") == ()


def test_without_ptxas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(padding, "image", lambda text, arch: text.encode() + b"\0")
    assert paddings(CHUNKS, "chunks", LAUNCH, "sm_90") == ()


class Crowded(FakeDriver):
    """Half as fast where more than half of the blocks are resident."""

    def run(
        self, kernel: object, grid: Shape, block: Shape, arguments: bytes, shared: int
    ) -> float:
        seconds = super().run(kernel, grid, block, arguments, shared)  # type: ignore[arg-type]
        return seconds / 2 if shared > 8000 else seconds


def test_a_launch_can_choose_it_and_a_build_cannot(
    programs: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PTXSW_TUNED", str(tmp_path / "tuned.json"))
    said: list[str] = []
    assert tuning.run(
        TEXT, "jacobi.ptx", Crowded(), QUICK, keep=True, csv=None, plot=None, say=said.append
    )
    assert any("padded=" in line and "2.000" in line for line in "\n".join(said).splitlines())
    found = find(kernel(TEXT), "sm_80")
    assert found is not None and (found.scheme, found.form) == ("keep", "keep")
    assert not any("padded" in name for name in found.measured)
    assert ptxsw.optimize(TEXT, ptxsw.Options(arch="sm_80")).text == TEXT
    choice = ptxsw.choose(TEXT, 64, arch="sm_80")
    assert (choice.text, choice.version, choice.speedup) == (TEXT, "keep keep", 2.0)
    assert choice.scheme == f"padded={choice.shared}" and choice.shared > 8000
    shown = _example(tmp_path)
    assert shown == (
        f"64x1x1: load the original (launch it with {choice.shared} bytes of shared memory): "
        "2.000 times as fast\n"
    )
    own = ptxsw.choose(TEXT, {"block": [64], "shared": 512}, arch="sm_80")
    assert (own.scheme, own.shared) == ("keep", 512)  # the launch needs its own


def _example(folder: Path) -> str:
    """What the host program of the examples says of it."""
    (folder / "kernel.ptx").write_text(TEXT)
    program = Path(__file__).parents[2] / "examples" / "choosing.py"
    command = [sys.executable, str(program), "kernel.ptx", "64", "--arch", "sm_80"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout
