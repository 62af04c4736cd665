"""Rewrites whose reasons nobody reads skip what only a reason needs, and make the same changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptxsw.changes.change import Change
from ptxsw.changes.options import Options
from ptxsw.driver.pipeline import optimize
from ptxsw.emulator.budget import Budget
from ptxsw.emulator.run import emulate
from ptxsw.parser import parse
from ptxsw.rewrites import every, named
from ptxsw.rewrites.base import Kernel
from ptxsw.rewrites.loop_streams import LoopStreams
from ptxsw.terms.solver import Solver
from tests.rewrites.pair import kernel as text_of_lines

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
TEXTS = [
    *(BENCHMARKS / "programs" / "ptx" / f"{name}.ptx" for name in (
        "collapsed-nvcc", "column-nvcc", "lu", "matmul-float-padded", "particles12", "rows-nvcc",
        "stencil-nvcc", "thomas", "wavelet-nvcc", "z-march",
    )),
    *(BENCHMARKS / "kernelgen" / "ptx" / f"{name}.ptx" for name in ("jacobi", "laplacian")),
]  # fmt: skip
UNTOLD = [one.name for one in every() if one.needs_ptxas]


def kernels(text: str, **options: object) -> list[Kernel]:
    module = parse(text)
    names = frozenset(named(["all"]))
    several = []
    for function in module.kernels:
        solver = Solver()
        trace = emulate(module, function, solver=solver)
        chosen = Options(mode="force", **options)  # type: ignore[arg-type]
        several.append(Kernel(module, function, trace, solver, chosen, "sm_80", names, Budget()))
    return several


def changes(name: str, text: str, **options: object) -> list[Change]:
    (rewrite,) = (one for one in every() if one.name == name)
    seen = (item for kernel in kernels(text, **options) for item in rewrite.find(kernel))
    return [item for item in seen if isinstance(item, Change)]


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
@pytest.mark.parametrize("name", UNTOLD)
def test_the_same_changes_are_made(name: str, path: Path) -> None:
    """A test at entry may name its limits in another order."""
    text = path.read_text()
    untold, told = changes(name, text), changes(name, text, rewrites=(name,))
    assert [(c.at, c.replaces, c.worth) for c in untold] == [
        (c.at, c.replaces, c.worth) for c in told
    ]


SPLIT = """
    setp.ge.u32 %p1, %r2, %r1;
    @%p1 bra ELSE;
    ld.global.f32 %f1, [%rd4];
    st.global.f32 [%rd5], %f1;
    bra END;
ELSE:
    st.global.f32 [%rd4], 0f00000000;
END:
"""


def test_a_store_to_the_same_address_by_other_threads_hinders_nothing() -> None:
    """Threads below `n` load what threads from `n` on store to: no byte is in common."""
    text = text_of_lines(SPLIT)
    told = changes("read-only-loads", text, rewrites=("read-only-loads",))
    assert len(told) == 1 and changes("read-only-loads", text) == told


@pytest.mark.parametrize("name", ["box-nvcc-rolled", "column-scale", "matmul-float"])
def test_nothing_is_lost_by_looking_at_accesses_that_may_meet(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = (BENCHMARKS / "programs" / "ptx").glob(f"{name}.ptx")
    options = Options(mode="force")
    found = optimize(path.read_text(), options).text
    everything = property(lambda loop: frozenset(a.index for a in loop.accesses))
    monkeypatch.setattr(LoopStreams, "meeting", everything)
    assert optimize(path.read_text(), options).text == found
