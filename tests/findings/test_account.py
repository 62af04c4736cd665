"""Estimates of `check` come from the account that `predict` counts: the same figures for the same
code, and the fall that is told is that of the mended program's own account."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from benchmarks.programs.faults.cases import FAULTS, path
from ptxsw.cost.accesses import access_figures
from ptxsw.cost.account import exactly
from ptxsw.cost.estimate import iteration
from ptxsw.cost.gpu import of_target
from ptxsw.cost.iterations import Stretch, stretches
from ptxsw.driver.checking import check
from ptxsw.emulator.run import emulate
from ptxsw.findings.base import Scene
from ptxsw.findings.cost import account, bound
from ptxsw.parser import parse
from ptxsw.report.describe import describe
from ptxsw.report.model import Kernel
from tests.command_line import ROOT

TEXTS = [
    *(
        ROOT / "benchmarks" / "kernelgen" / "ptx" / f"{n}.ptx"
        for n in ("jacobi", "matmul", "sincos")
    ),
    *(path(name, mended=mended) for name in FAULTS for mended in (False, True)),
]
COUNTED = ("instructions", "passes", "lanes", "sectors")


def scenes(file: Path) -> Iterator[tuple[Scene, tuple[Stretch, ...]]]:
    """The kernels of a text as findings see them, and as `predict` counts them, by the PTX."""
    module = parse(file.read_text())
    arch = module.targets[0]
    for function in module.kernels:
        trace, block = emulate(module, function), function.block_shape
        figures = access_figures(trace, block)
        accesses, _ = describe(trace, Kernel(function.name, 0), block, figures)
        scene = Scene(trace, accesses, block, arch, figures=figures)
        yield scene, stretches(of_target(arch), trace, block, None)


@pytest.mark.parametrize("file", TEXTS, ids=lambda file: file.stem)
def test_the_same_figures_as_those_of_predict(file: Path) -> None:
    """Of code without loops all of them; of loops as many as they are gone round, at least."""
    for scene, parts in scenes(file):
        total, gpu = account(scene), of_target(scene.arch)
        assert total is not None
        loops = {scene.trace.cfg.name(h).partition("@")[0]: h for h in scene.trace.cfg.loops}
        often = [1 if part.label is None else scene.times(_first(scene, loops[part.label]))
                 for part in parts]  # fmt: skip
        for name in COUNTED:
            counted = sum(
                getattr(part.account, name).high * times
                for part, times in zip(parts, often, strict=True)
            )
            own = getattr(total, name).high
            assert own == pytest.approx(counted) if not loops else own >= counted - 1e-9, name
        for part in parts if not loops else ():
            assert part.account.pipes.keys() == total.pipes.keys()
            assert total.l2_bytes.high <= part.account.l2_bytes.high
            alone = iteration(gpu, part.account, exactly(1.0)).resources
            own = iteration(gpu, total, exactly(1.0)).resources
            times = {one.name: one.time.high for one in alone}
            for one in own:
                if one.name in ("compute", "shared", "l1"):
                    assert one.time.high == pytest.approx(times[one.name]), one.name


def _first(scene: Scene, header: int) -> int:
    return scene.trace.cfg.blocks[header].start


TWINS = (
    "lookup", "damped", "particles", "soil", "masses", "sampled", "rowsum", "matadd", "transpose",
    "gemv", "magnitude", "quads", "header", "tile", "tile16", "records", "window",
)  # fmt: skip
"""Programs whose twins are the same but for the fault, loops included."""


@pytest.mark.parametrize("name", TWINS)
def test_the_fall_that_is_told_is_that_of_the_mended_program(name: str) -> None:
    [(fault, _)], [(mended, _)] = scenes(path(name)), scenes(path(name, mended=True))
    gpu = of_target(fault.arch)
    before, after = account(fault), account(mended)
    assert before is not None and after is not None
    falls = []
    for beyond in (1.0, 0.0):  # in memory, in the second cache
        old, new = (bound(gpu, replace(one, dram_bytes=one.dram_bytes * beyond))
                    for one in (before, after))  # fmt: skip
        falls += [1 - new.low / old.low, 1 - new.high / old.high]
    report = check(path(name).read_text(), ptxas=False, select=FAULTS[name])
    [told] = {f.gain for k in report.kernels for f in k.findings or () if f.rule == FAULTS[name]}
    assert told is not None
    assert told[0] - 0.02 <= min(falls) and max(falls) <= told[1] + 0.02
