"""Mutation testing: a rewritten text that was spoilt is never taken for equal.

For each mutant the launches must show a difference, and the proof must fail. `-m slow` tries all
mutants of every kernel; the normal run takes the first, the middle and the last of a kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
from msgspec.structs import replace

from ptxsw.emulator.run import emulate
from ptxsw.parser import parse
from ptxsw.verify.arguments import Data
from ptxsw.verify.differential import compare
from ptxsw.verify.launches import Launch, invent
from ptxsw.verify.proving import Unproved, prove
from tests.verify.mutators import MUTATORS
from tests.verify.programs import original, rewritten
from tests.verify.wrapping import WRAPPING

KERNELS = ["jacobi", "gaussblur", "laplacian", "smooth", "shift"]
# What a kernel has no lines for.
NONE = {("shift", "overflow_guard_dropped"), ("shift", "other_row"), ("smooth", "other_row")}
CASES = [(k, m) for k in KERNELS for m in MUTATORS if (k, m) not in NONE]
IN_PLACE = Launch((1, 1, 1), (64, 1, 1), (Data("random", 128, "f32", 1),))

killed: dict[str, tuple[int, int]] = {}  # by mutator


@pytest.fixture(scope="module", autouse=True)
def score(request: pytest.FixtureRequest) -> Iterator[None]:
    """Prints killed/total."""
    yield
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        dead, total = (sum(counts[n] for counts in killed.values()) for n in (0, 1))
        print(f"\nmutants killed: {dead}/{total}")
        for name, (one, all_) in sorted(killed.items()):
            print(f"  {name.ljust(24)} {one}/{all_}")


@cache
def launches(name: str) -> tuple[Launch, ...]:
    """Launches that show something, the telling ones first; fuzzed ones where order matters."""
    module = parse(original(name))
    invented = list(invent(emulate(module, module.functions[0])))
    if name == "shift":
        return (IN_PLACE, *invented)
    return tuple(replace(launch, fuzz=False) for launch in invented)


def spoilt(name: str, mutator: str) -> list[str]:
    return list(MUTATORS[mutator](rewritten(name)))


def assert_killed(name: str, mutator: str, text: str) -> None:
    dead, total = killed.get(mutator, (0, 0))
    killed[mutator] = (dead, total + 1)
    first, second = parse(original(name)), parse(text)
    entry = first.functions[0].name
    assert isinstance(prove(first, second, entry), Unproved)
    wrapping = WRAPPING[name]() if mutator == "overflow_guard_dropped" else ()
    found = compare(first, second, entry, (*wrapping, *launches(name)), seeds=range(1, 9))
    assert found.difference is not None
    killed[mutator] = (dead + 1, total + 1)


@pytest.mark.parametrize(("name", "mutator"), CASES)
def test_mutants_are_killed(name: str, mutator: str) -> None:
    mutants = spoilt(name, mutator)
    assert mutants
    chosen = {0, len(mutants) // 2, len(mutants) - 1}
    for at in sorted(chosen):
        assert_killed(name, mutator, mutants[at])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "mutator"), CASES)
def test_all_mutants_are_killed(name: str, mutator: str) -> None:
    for text in spoilt(name, mutator):
        assert_killed(name, mutator, text)


def test_load_moved_over_a_barrier_is_killed() -> None:
    """Behind the barrier another warp may have stored what the corner lane loads."""
    text = rewritten("shift")
    load = next(line for line in text.split("\n") if line.lstrip().startswith("@%sw_own1 ld"))
    moved = text.replace(load + "\n", "").replace("bar.sync 0;\n", f"bar.sync 0;\n{load}\n")
    assert moved != text
    assert_killed("shift", "moved over a barrier", moved)


def test_load_moved_over_its_own_store_is_killed() -> None:
    text = rewritten("shift")
    load = next(line for line in text.split("\n") if line.lstrip().startswith("@%sw_own1 ld"))
    store = "st.global.f32 [%rd4], %f3;\n"
    moved = text.replace(load + "\n", "").replace(store, f"{store}{load}\n{store}")
    assert_killed("shift", "moved over a barrier", moved)
