"""Rewrites whose reasons nobody reads skip what only a reason needs, and make the same changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptxsw.analysis.boundless import Shapes
from ptxsw.changes.change import Change
from ptxsw.changes.options import Options
from ptxsw.emulator.budget import Budget
from ptxsw.emulator.run import emulate
from ptxsw.facts.grid import Unbounded
from ptxsw.facts.ranges import touched_ranges
from ptxsw.parser import parse
from ptxsw.rewrites import every, named
from ptxsw.rewrites.base import Kernel
from ptxsw.rewrites.entry_test import LIMITS, grid_below
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


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_what_is_seen_to_have_no_bounds_has_none(path: Path) -> None:
    for kernel in kernels(path.read_text()):
        accesses = [a for a in kernel.trace.accesses if a.space == "global"]
        for bits in (None, *LIMITS):
            grid = grid_below(kernel, accesses, bits)
            shapes = Shapes(grid_below(kernel, accesses, None))
            for access in accesses:
                if shapes.is_boundless(access):
                    with pytest.raises(Unbounded):
                        touched_ranges(grid, access)


def test_loaded_indices_and_loops_without_known_end_are_seen() -> None:
    names = ("wavelet-nvcc", "collapsed-nvcc", "thomas", "rows-nvcc")
    for name in names:
        text = (BENCHMARKS / "programs" / "ptx" / f"{name}.ptx").read_text()
        for kernel in kernels(text):
            shapes = Shapes(grid_below(kernel, kernel.trace.accesses, None))
            loads = [a for a in kernel.trace.accesses if a.space == "global" and a.kind == "load"]
            assert any(shapes.is_boundless(load) for load in loads), name
