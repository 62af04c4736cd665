"""ptxas takes whatever mode force writes, for every target that takes the text as it was."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from ptxsw.driver.pipeline import Options, optimize
from ptxsw.toolchain import ptxas
from tests.emulator import programs
from tests.real import CORPUS, FIXTURES, name_of, text_of
from tests.rewrites.pair import kernel
from tests.rewrites.test_scalar_random import drawn
from tests.shuffle import test_random as shuffles

TARGETS = ("sm_75", "sm_80", "sm_90", "sm_120")
PROGRAMS = sorted((Path(__file__).parents[2] / "benchmarks").glob("*/ptx/*.ptx"))
REPROS = sorted((Path(__file__).parents[1] / "regressions" / "ptx").glob("*.ptx"))
USUAL = [
    path
    for path in (*FIXTURES, *PROGRAMS, *REPROS)
    if path.stem
    in ("gameoflife", "jacobi", "pairs_lineinfo", "triton_smooth_sm_80", "vector_of_a_variable")
]
_LONG = 300_000  # characters
_QUICK = ("-O0",)
"""Whether it is PTX is found out before anything is made better."""


def refused(text: str, targets: tuple[str, ...] = TARGETS) -> Iterator[tuple[str, str | None]]:
    """For each target that takes a text, the target and what ptxas says of what force makes of it;
    None where it takes that, too. Nothing where force leaves the text alone."""
    made = optimize(text, Options(mode="force")).text
    for target in targets if made != text else ():
        problem = _problem(made, target)
        if problem is None or _problem(text, target) is None:
            yield target, problem


def _problem(text: str, target: str) -> str | None:
    try:
        ptxas.assemble(text, target, options=_QUICK)
    except ptxas.NoPtxas as missing:
        pytest.skip(str(missing))
    except ptxas.AssemblyError as error:
        return str(error)
    return None


def random_text(seed: int) -> str:
    """A kernel that loads, keeps values or computes at random."""
    if seed % 3 == 0:
        return shuffles.kernel(seed)
    if seed % 3 == 1:
        return kernel(drawn(Random(seed)))
    return programs.program(seed)


@pytest.mark.parametrize("path", USUAL, ids=name_of)
def test_ptxas_takes_what_is_made_of_programs(path: Path) -> None:
    taken = dict(refused(text_of(path), TARGETS[1:3]))
    assert taken
    assert not any(taken.values())


@pytest.mark.parametrize("seed", range(6))
def test_ptxas_takes_what_is_made_of_random_programs(seed: int) -> None:
    assert not any(dict(refused(random_text(seed), ("sm_80",))).values())


@pytest.mark.slow
@pytest.mark.parametrize("path", [*FIXTURES, *PROGRAMS, *CORPUS], ids=name_of)
def test_ptxas_takes_what_is_made_of_anything(path: Path) -> None:
    if path.stat().st_size > _LONG:
        pytest.skip("long")
    assert not any(dict(refused(text_of(path))).values())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(300))
def test_ptxas_takes_what_is_made_of_many_random_programs(seed: int) -> None:
    assert not any(dict(refused(random_text(seed))).values())
