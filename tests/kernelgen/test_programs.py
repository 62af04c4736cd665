"""The further programs: shuffles found, results those of the original and of numpy."""

from __future__ import annotations

import pytest

from benchmarks.kernelgen.measure import measure
from benchmarks.programs.addresses import ADDRESSES
from benchmarks.programs.cases import HERE, PROGRAMS
from benchmarks.programs.flat import FLAT
from benchmarks.programs.loads import LOADS
from benchmarks.programs.memory import MEMORY
from benchmarks.programs.straight import STRAIGHT
from benchmarks.programs.unoptimized import UNOPTIMIZED
from ptxsw.parser import parse
from ptxsw.simt.run import launch

# Shuffles and loads. In lbm each array is loaded once; conv1d's taps are uniform.
FOUND = {
    "seismic": (8, 27),
    "lbm": (0, 9),
    "conv1d": (8, 18),
    "flux": (49, 56),
    "upwind": (2, 7),
    "image": (6, 9),
}


def test_sources_and_texts_are_there() -> None:
    sources, texts = ({path.stem for path in (HERE / name).iterdir()} for name in ("cuda", "ptx"))
    assert set(PROGRAMS) == set(FOUND)
    own = MEMORY | LOADS | ADDRESSES | FLAT | STRAIGHT | UNOPTIMIZED
    by = {"gcc-12": "openacc", "opencl": "opencl", "numba": "numba"}
    for compiler, folder in by.items():
        wanted = {program.source for program in own.values() if program.compiler == compiler}
        assert {path.stem for path in (HERE / folder).iterdir() if path.is_file()} == wanted
    in_cuda = {each.source for each in own.values() if each.compiler not in ("opencl", "numba")}
    assert sources == {*PROGRAMS, *in_cuda}
    assert texts == {*PROGRAMS, *own}


@pytest.mark.parametrize("name", FOUND)
def test_program(name: str) -> None:
    case = PROGRAMS[name]
    original, rewritten = measure(case, "paper", "keep", case.reals[0])
    assert (rewritten.shuffles, rewritten.loads) == FOUND[name]
    assert original.numpy == rewritten.numpy == "equal"
    assert rewritten.verified == ("proved" if FOUND[name][0] else "same")
    assert rewritten.per_warp.lane_loads <= original.per_warp.lane_loads


@pytest.mark.parametrize("name", MEMORY | LOADS | STRAIGHT)
def test_program_agrees_with_numpy(name: str) -> None:
    program = (MEMORY | LOADS | STRAIGHT)[name]
    module = parse(program.path.read_text())
    for make in program.launches:
        run = make()
        done = launch(
            module, program.entry, run.grid, run.block, run.args,
            shared=run.shared, memory=run.memory,
        )  # fmt: skip
        assert run.wrong(done) is None
