"""The further programs: shuffles found, results those of the original and of numpy."""

from __future__ import annotations

import pytest

from benchmarks.kernelgen.measure import measure
from benchmarks.programs.cases import HERE, PROGRAMS

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
    for folder in ("cuda", "ptx"):
        assert {path.stem for path in (HERE / folder).iterdir()} == set(PROGRAMS) == set(FOUND)


@pytest.mark.parametrize("name", FOUND)
def test_program(name: str) -> None:
    case = PROGRAMS[name]
    original, rewritten = measure(case, "paper", "keep", case.reals[0])
    assert (rewritten.shuffles, rewritten.loads) == FOUND[name]
    assert original.numpy == rewritten.numpy == "equal"
    assert rewritten.verified == ("proved" if FOUND[name][0] else "same")
    assert rewritten.per_warp.lane_loads <= original.per_warp.lane_loads
