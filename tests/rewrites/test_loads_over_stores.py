"""The programs of `benchmarks/programs/loads.py` under every condition of `conditions.py`: what
rewrites make of them leaves the same bytes and reads no others."""

from __future__ import annotations

import re
from functools import cache
from itertools import islice
from typing import Any

import pytest

from benchmarks.programs.loads import LOADS
from ptxsw.changes.assumptions import DEFAULT_ASSUME, NO_ALIAS
from ptxsw.driver.pipeline import Options, optimize
from ptxsw.parser import parse
from ptxsw.simt import launch
from ptxsw.simt.state import Trap
from tests.rewrites.conditions import CONDITIONS, GCC, IMPOSSIBLE, STAYS, Launch

Rewrites = tuple[str, ...]
TOGETHER = ("read-only-loads", "scalar-replacement")
ALONE = (("load-elimination",), *((name,) for name in TOGETHER))
ALL = ("load-elimination", *TOGETHER)
QUICK = ("column-scale",)
ALSO_QUICK = {
    ("row-sums", "no iteration"),
    ("row-sums", "overlapping buffers"),
    ("jagged", "overlapping buffers"),
}
NOTHING = {
    (GCC, rewrites): "its pointers are loaded from memory" for rewrites in (*ALONE, TOGETHER, ALL)
}
NOTHING |= {("three-outputs", ("scalar-replacement",)): "it has no loop"}
NOTHING |= {("gather", ("scalar-replacement",)): "its loop is unrolled"}
NOTHING |= {("thomas", ("read-only-loads",)): "the trip count of its second loop is not known"}
NOTHING |= {
    (name, ("load-elimination",)): "a load in a loop does not count as one made before"
    for name in ("row-sums", "jagged", "gather", "jacobi-clang")
}
"""What is left as it is, and why."""


@cache
def rewritten(text: str, entry: str, rewrites: Rewrites, apart: bool = False) -> str:
    assume = DEFAULT_ASSUME | ({NO_ALIAS} if apart else set())
    return optimize(text, Options("force", rewrites=rewrites, only=entry, assume=assume)).text


def takes_slow_copy(one: Launch, new: str) -> bool | None:
    """Does the kernel, or a loop of it, run as it was? None where there is no second copy."""
    trapped, times = re.subn(r"(\$sw\d*_(?:overlap\d+:\s*\{|slow\d+:))", r"\1 trap;", new)
    if not times:
        return None
    try:
        one.results(trapped)
    except Trap:
        return True
    return False


def compared(one: Launch, rewrites: Rewrites) -> bool | None:
    """Is the slow copy taken? The results have to agree."""
    new = rewritten(one.text, one.entry, rewrites, one.apart)
    tight = one.with_touched_memory()
    told = f"{rewrites}: {one.where}"
    assert tight.results(one.text) == tight.results(new), told
    slow = takes_slow_copy(tight, new)
    if one.slow is not None and rewrites in (TOGETHER, ALL):
        assert slow in (None, one.slow), told
    return slow


def _cases() -> list[Any]:
    """One program in each run of the tests, and a part of another; all in the slow ones."""
    return [
        pytest.param(
            name, condition, id=f"{name}: {condition}",
            marks=()
            if name in QUICK or (name, condition) in ALSO_QUICK
            else pytest.mark.slow,
        )
        for name in LOADS for condition in CONDITIONS if (name, condition) not in IMPOSSIBLE
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "condition"), _cases())
def test_the_same_bytes(name: str, condition: str) -> None:
    launches = list(CONDITIONS[condition](name))
    assert launches
    slow = [compared(one, TOGETHER) for one in launches]
    texts = {(one.text, one.entry, one.apart) for one in launches}
    changed = any(rewritten(text, entry, TOGETHER, apart) != text for text, entry, apart in texts)
    assert changed != ((name, condition) in STAYS)
    if condition == "overlapping buffers":
        assert True in slow or (name, TOGETHER) in NOTHING


@pytest.mark.slow
@pytest.mark.parametrize("rewrites", [*ALONE, ALL], ids="+".join)
@pytest.mark.parametrize(("name", "condition"), _cases())
def test_the_same_bytes_with_other_rewrites(name: str, condition: str, rewrites: Rewrites) -> None:
    slow = [compared(one, rewrites) for one in CONDITIONS[condition](name)]
    if condition == "overlapping buffers":
        assert True in slow or (name, rewrites) in NOTHING


def test_load_elimination_has_a_test_of_its_own() -> None:
    launches = islice(CONDITIONS["overlapping buffers"]("three-outputs"), 12)
    assert True in [compared(one, ("load-elimination",)) for one in launches]


@pytest.mark.slow
@pytest.mark.parametrize("name", LOADS)
def test_something_is_rewritten_or_a_reason_stands_here(name: str) -> None:
    text, entry = LOADS[name].path.read_text(), LOADS[name].entry
    for rewrites in (*ALONE, TOGETHER, ALL):
        assert (rewritten(text, entry, rewrites) == text) == ((name, rewrites) in NOTHING), rewrites


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow)
                                  for n in LOADS])  # fmt: skip
def test_results_are_those_of_numpy(name: str) -> None:
    """For many iterations, two, one and none. The last warps are partial."""
    text, entry = LOADS[name].path.read_text(), LOADS[name].entry
    module = parse(rewritten(text, entry, TOGETHER))
    for make in LOADS[name].launches:
        run = make()
        done = launch(module, entry, run.grid, run.block, run.args, memory=run.memory)
        assert run.wrong(done) is None


def test_what_cannot_apply_says_why() -> None:
    assert all(name in LOADS and condition in CONDITIONS for name, condition in IMPOSSIBLE)
    assert all(IMPOSSIBLE.values()) and all(NOTHING.values()) and all(STAYS.values())
