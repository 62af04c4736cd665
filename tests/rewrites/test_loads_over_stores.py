"""The programs of `benchmarks/programs/loads.py`, rewritten: results for few turns, wherever
buffers lie, and where indices wrap."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest

from benchmarks.kernelgen.cases import Run
from benchmarks.programs.loads import LOADS
from ptxsw.parser import parse
from ptxsw.pipeline import Options, optimize
from ptxsw.simt import RunError, launch

REWRITES = ("read-only-loads", "scalar-replacement")
WHERE = 1 << 44
QUICK = ("column-scale",)
TESTED = set(LOADS) - {"jacobi-gcc"}
"""Those that stand twice, behind a test."""
PARTLY = {"thomas"}
"""Their test asks of outputs alone that they lie apart."""


def _few(names: set[str]) -> list[Any]:
    """One of them in each run of the tests, and all in the slow ones."""
    marks = {name: () if name in QUICK else (pytest.mark.slow,) for name in sorted(names)}
    return [pytest.param(name, marks=marks[name]) for name in sorted(names)]


@cache
def rewritten(name: str, rewrites: tuple[str, ...] = REWRITES) -> str:
    options = Options("force", rewrites=rewrites, only=LOADS[name].entry)
    return optimize(LOADS[name].path.read_text(), options).text


def texts(name: str, rewrites: tuple[str, ...] = REWRITES) -> tuple[str, str]:
    return LOADS[name].path.read_text(), rewritten(name, rewrites)


def slow_copy_trapped(text: str) -> str:
    changed = re.sub(r"(\$sw_overlap1:\s*\{)", r"\1 trap;", text)
    assert changed != text
    return changed


@pytest.mark.parametrize("name", _few(set(LOADS)))
def test_many_turns_two_one_and_none(name: str) -> None:
    """The last warps are partial."""
    module = parse(rewritten(name))
    for make in LOADS[name].launches:
        run = make()
        done = launch(
            module, LOADS[name].entry, run.grid, run.block, run.args, memory=run.memory
        )  # fmt: skip
        assert run.wrong(done) is None


@pytest.mark.parametrize("name", _few(TESTED - {"three-outputs", "forces", "gather", "thomas"}))
def test_no_turn_reads_nothing(name: str) -> None:
    """No buffer is where the pointers point."""
    run = LOADS[name].launches[-1]()
    arguments = [1 << 20 if isinstance(a, np.ndarray) else a for a in run.args]
    for text in texts(name):
        launch(parse(text), LOADS[name].entry, run.grid, run.block, arguments)


# ---------------------------------------------------------------- wherever buffers lie


def laid_out(run: Run, at: Mapping[int, int]) -> tuple[list[Any], dict[int, Any]]:
    """Arguments with all arrays in one buffer, far from each other but for those arguments `at`
    so many bytes from its middle."""
    arrays = [n for n, argument in enumerate(run.args) if isinstance(argument, np.ndarray)]
    room = 4 * max(run.args[n].nbytes for n in arrays) + 64
    buffer = np.zeros(room * (len(arrays) + 1), "u1")
    places = {n: at.get(n, room // 2 + room * k) for k, n in enumerate(arrays, 1)}
    places |= {n: room // 2 + offset for n, offset in at.items()}
    for n in arrays:
        data = run.args[n].view("u1")
        buffer[places[n] : places[n] + len(data)] = data
    arguments = [WHERE + places[n] if n in places else a for n, a in enumerate(run.args)]
    return arguments, {WHERE: buffer}


def outcome(text: str, name: str, run: Run, at: Mapping[int, int]) -> bytes:
    arguments, memory = laid_out(run, at)
    done = launch(
        parse(text), LOADS[name].entry, run.grid, run.block, arguments, memory=memory
    )  # fmt: skip
    return done.memory[WHERE].tobytes()


def traps(text: str, name: str, run: Run, at: Mapping[int, int]) -> bool:
    """Is the copy of the kernel as it was taken?"""
    try:
        outcome(text, name, run, at)
    except RunError as error:
        assert "trap" in str(error)
        return True
    return False


@pytest.mark.parametrize("name", _few(TESTED))
def test_results_agree_where_buffers_overlap(name: str) -> None:
    """Each output is an input, begins 4 bytes behind it, or lies inside it. The kernel as it was is
    what runs."""
    old, new = texts(name)
    trapped = slow_copy_trapped(new)
    launches = LOADS[name].launches
    run = launches[1 if len(launches) > 1 else 0]()  # of two turns
    first = len(run.args) - len(run.arrays)
    out = [n for n, array in enumerate(run.arrays, first) if array in run.expected]
    slow = []
    for source, target in product(range(first, len(run.args)), out):
        if source in out:
            continue
        inside = run.args[source].nbytes // 8 * 4
        for distance in (0, 4, -4, inside):
            at = {source: 0, target: distance}
            if (name, run.arrays[source - first]) != ("gather", "at"):  # sums are no indices
                assert outcome(old, name, run, at) == outcome(new, name, run, at)
            slow.append(traps(trapped, name, run, at))
            if (name, run.arrays[source - first]) != ("gather", "x"):  # `x[at[i]]` has no range
                assert slow[-1] or name in PARTLY
    assert any(slow) or name in PARTLY
    assert outcome(trapped, name, run, {}) == outcome(old, name, run, {})


@pytest.mark.parametrize(
    "name", ["three-outputs", pytest.param("column-scale", marks=pytest.mark.slow)]
)
def test_load_elimination_has_a_test_of_its_own(name: str) -> None:
    old, new = texts(name, ("load-elimination",))
    for make in LOADS[name].launches:
        run = make()
        first = len(run.args) - len(run.arrays)
        arrays = range(first, len(run.args))
        out = [n for n in arrays if run.arrays[n - first] in run.expected]
        for source, target in product(set(arrays) - set(out), out):
            for distance in (0, 4, -4, run.args[source].nbytes // 8 * 4):
                at = {source: 0, target: distance}
                assert outcome(old, name, run, at) == outcome(new, name, run, at)
        assert outcome(slow_copy_trapped(new), name, run, {}) == outcome(old, name, run, {})


# ---------------------------------------------------------------- indices


@pytest.mark.slow
def test_an_index_that_wraps() -> None:
    """Planes of 2^30 elements: the third begins 2^31 elements below the first."""
    arrays = [
        WHERE + (n << 40) + (turn << 32) for n in (0, 1) for turn in range(-5, 10)
    ]  # fmt: skip
    sizes = 1 << 15, 1 << 15, 8
    found: list[str | bytes] = []
    old, new = texts("z-march")
    for text in (old, new, slow_copy_trapped(new)):
        memory = {
            at: (np.arange(1 << 17) % 251 + n).astype("f4").view("u1")
            for n, at in enumerate(arrays)
        }
        given = (*sizes, WHERE, WHERE + (1 << 40))
        try:
            done = launch(parse(text), "z_march", 1, (8, 4), given, memory=memory)
        except RunError as error:
            found.append(str(error))
        else:
            found.append(np.concatenate([done.memory[at] for at in arrays]).tobytes())
    assert found[0] == found[1] and isinstance(found[0], bytes)
    assert isinstance(found[2], str) and "trap" in found[2]
