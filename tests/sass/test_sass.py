"""What ptxas makes of the schemes and forms: the facts that they are built on.

A later ptxas may do better or worse; then a test here fails, and the schemes are to be thought
over.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from benchmarks.kernelgen import operators
from benchmarks.kernelgen.operators import OPERATORS
from ptxsw.driver import pipeline
from tests.sass.sass import branches, counted, opcodes

ARCHES = ["sm_75", "sm_80", "sm_90"]
ROWS = {path.stem: path for path in sorted((Path(__file__).parent / "ptx").glob("*.ptx"))}
KERNELGEN = Path(operators.__file__).parent / "ptx"


@cache
def original(path: Path) -> str:
    """For any target from sm_75 on."""
    return path.read_text().replace(".target sm_80", ".target sm_75")


@cache
def rewritten(path: Path, scheme: str, form: str, arch: str) -> str:
    options = pipeline.Options(mode="force", scheme=scheme, form=form, arch=arch)
    return pipeline.optimize(original(path), options).text


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("scheme", ["paper", "early", "halo"])
@pytest.mark.parametrize("name", ROWS)
def test_no_branch_comes_into_code_that_had_none(name: str, scheme: str, arch: str) -> None:
    path = ROWS[name]
    assert branches(original(path), arch) == 0
    text = rewritten(path, scheme, "keep", arch)
    words = 2 if name == "doubles" else 1
    members = sum(line.lstrip().startswith("ld.global") for line in path.read_text().split("\n"))
    assert counted(text, arch)["SHFL"] == words * (members - 1)
    assert branches(text, arch) == 0


@pytest.mark.parametrize("arch", ARCHES)
def test_early_corner_loads_are_issued_before_the_shuffles(arch: str) -> None:
    """All loads are under way when the first shuffle waits for the one it sends."""
    found = opcodes(rewritten(ROWS["five"], "early", "keep", arch), arch)
    kinds = [op.split(".")[0] for op in found if op.split(".")[0] in ("LDG", "SHFL", "SEL")]
    assert kinds.count("LDG") == 5
    assert "LDG" not in kinds[kinds.index("SEL") :]


@pytest.mark.parametrize("arch", ARCHES)
def test_a_stretch_that_is_there_twice_costs_one_branch(arch: str) -> None:
    """To the slow copy and back; corner loads that are made early add none."""
    text = rewritten(ROWS["five"], "early", "versioned", arch)
    kinds = counted(text, arch)
    assert kinds["BRA"] == 2
    assert branches(text, arch) <= 3
    assert kinds["SHFL"] == 4


def assert_converged(name: str, scheme: str, arch: str) -> None:
    """Nothing is called that the original does not call (some divide), and no shuffle or vote
    waits for lanes that are elsewhere."""
    path = KERNELGEN / f"{name}.ptx"
    text = rewritten(path, scheme, "uniform", arch)
    kinds, before = counted(text, arch), counted(original(path), arch)
    assert (kinds["CALL"], kinds["RET"]) == (before["CALL"], before["RET"])
    assert not [kind for kind in kinds if kind in ("BRA.CONV", "BRA.DIV", "WARPSYNC")]
    assert kinds["VOTE"] + kinds["VOTEU"] >= 2
    assert (kinds["SHFL"] > 0) == ("shfl.sync" in text)


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("name", ["gaussblur", "jacobi", "lapgsrb", "matmul"])
def test_uniform_loops_keep_shuffles_bare(name: str, arch: str) -> None:
    assert_converged(name, "halo", arch)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("scheme", ["keep", "paper", "early", "halo"])
@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_uniform_loops_of_all_operators_keep_shuffles_bare(
    name: str, scheme: str, arch: str
) -> None:
    assert_converged(name, scheme, arch)


@pytest.mark.parametrize(("arch", "cost"), [("sm_80", "CALL"), ("sm_90", "WARPSYNC")])
def test_what_a_loop_that_lanes_leave_apart_costs(arch: str, cost: str) -> None:
    """The fact for which there are uniform loops."""
    text = rewritten(KERNELGEN / "jacobi.ptx", "paper", "keep", arch)
    assert counted(text, arch)[cost] >= 6
