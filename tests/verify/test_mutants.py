"""Mutation testing: a rewritten text that was spoilt is never taken for equal.

For each mutant the launches must show a difference, and the proof must fail. `-m slow` tries all
mutants of every kernel; the normal run takes the first, the middle and the last of a kind, of large
kernels the middle, and of schemes and forms beyond the paper's the last. There, buffers end where
the original's last access does, so that an access too many is seen.
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
from ptxsw.verify.invented import invent
from ptxsw.verify.launches import Launch, Shape
from ptxsw.verify.proving import Unproved, prove
from tests.verify.mutators import MORE, MUTATORS
from tests.verify.programs import original, rewritten
from tests.verify.wrapping import WRAPPING, jacobi_alone

KERNELS = ["jacobi", "gaussblur", "laplacian", "smooth", "shift"]
LARGE = {"jacobi", "gaussblur", "laplacian"}
# What a kernel has no lines for.
NONE = {("shift", "overflow_guard_dropped"), ("shift", "other_row"), ("smooth", "other_row")}
CASES = [(k, m) for k in KERNELS for m in MUTATORS if (k, m) not in NONE]
IN_PLACE = Launch((1, 1, 1), (64, 1, 1), (Data("random", 128, "f32", 1),))


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
    first, second = parse(original(name)), parse(text)
    entry = first.functions[0].name
    assert isinstance(prove(first, second, entry), Unproved)
    wrapping = WRAPPING[name]() if mutator == "overflow_guard_dropped" else ()
    found = compare(first, second, entry, (*wrapping, *launches(name)), seeds=range(1, 9))
    assert found.difference is not None


@pytest.mark.parametrize(("name", "mutator"), CASES)
def test_mutants_are_killed(name: str, mutator: str) -> None:
    mutants = spoilt(name, mutator)
    assert mutants
    middle = len(mutants) // 2
    for at in sorted({middle} if name in LARGE else {0, middle, len(mutants) - 1}):
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
    assert_killed("shift", "moved", moved)


def test_load_moved_over_its_own_store_is_killed() -> None:
    text = rewritten("shift")
    load = next(line for line in text.split("\n") if line.lstrip().startswith("@%sw_own1 ld"))
    store = "st.global.f32 [%rd4], %f3;\n"
    moved = text.replace(load + "\n", "").replace(store, f"{store}{load}\n{store}")
    assert_killed("shift", "moved", moved)


# ---------------------------------------------------------------- other schemes and forms


WAYS = [
    ("jacobi", "early", "keep"), ("jacobi", "halo", "keep"), ("jacobi", "early", "versioned"),
    ("jacobi", "halo", "versioned"), ("jacobi", "halo", "uniform"),
    ("between", "early", "versioned"), ("between", "halo", "keep"),
    ("between", "halo", "versioned"), ("total", "paper", "uniform"),
    ("total", "halo", "uniform"),
]  # fmt: skip
AT_THE_END = {"overflow_guard_dropped", "wrap_vote_dropped"}
"""They show only where an index wraps."""
SOMETIMES = {"halo_one_lane_wider", "halo_in_partial_warps", "access_unguarded"}
"""They do no harm but in the last row of an array: there memory ends."""


def floats(count: int, seed: int = 1) -> Data:
    return Data("random", count, "f32", seed)


def jacobi() -> Iterator[Launch]:
    for threads, width in ((32, 34), (33, 35), (48, 75), (48, 40)):
        size = 3 * width
        args = (width, 3, 0.5, 0.1, 0.025, floats(size), floats(size, 2))
        yield Launch((1, 1, 1), (threads, 1, 1), args)


def between() -> Iterator[Launch]:
    for threads in (32, 33, 48):
        args = (floats(threads + 2), floats(threads, 2), floats(threads, 3), threads - 5)
        yield Launch((1, 1, 1), (threads, 1, 1), args)


def total() -> Iterator[Launch]:
    shapes: tuple[tuple[Shape, int], ...] = (
        ((32, 1, 1), 64), ((48, 1, 1), 100), ((33, 1, 1), 20), ((16, 4, 1), 100),
    )  # fmt: skip
    for block, count in shapes:
        yield Launch((1, 1, 1), block, (floats(count + 1), floats(256, 2), count))


TIGHT = {"jacobi": jacobi, "between": between, "total": total}
BLOCKS: set[Shape] = {(7, 1, 1), (33, 1, 1), (16, 4, 1)}


@cache
def tight_launches(name: str) -> tuple[Launch, ...]:
    module = parse(original(name))
    invented = invent(emulate(module, module.functions[0]), wide=False)
    return (*TIGHT[name](), *(launch for launch in invented if launch.block in BLOCKS))


def is_killed(name: str, mutator: str, text: str) -> bool:
    """Is a mutant told on some launch? That there is no proof is asserted of each."""
    first, second = parse(original(name)), parse(text)
    entry = first.functions[0].name
    assert isinstance(prove(first, second, entry), Unproved), mutator
    tried = (*jacobi_alone(),) if mutator in AT_THE_END else tight_launches(name)
    found = compare(first, second, entry, tried, seeds=(1, 2), repair_launch=False)
    return found.difference is not None


def assert_all_killed(name: str, mutator: str, mutants: list[str]) -> None:
    """All mutants of a kind, or where that is all one can ask for, one of them."""
    told = [is_killed(name, mutator, text) for text in mutants]
    if mutator in SOMETIMES:
        told = [any(told)]
    assert all(told), mutator


def spoilt_ways(name: str, scheme: str, form: str) -> Iterator[tuple[str, list[str]]]:
    """The mutants by mutator; of those that need an index that wraps only where there is one."""
    text = rewritten(name, scheme, form)
    assert text != original(name)
    for mutator, make in MORE.items():
        if name == "jacobi" or mutator not in AT_THE_END:
            mutants = list(make(text))
            if mutants:
                yield mutator, mutants


@pytest.mark.parametrize(
    ("name", "scheme", "form"), [way for way in WAYS if way[0] != "jacobi" or way[2] == "keep"]
)
def test_mutants_of_a_way_are_killed(name: str, scheme: str, form: str) -> None:
    """The last one of each kind."""
    for mutator, mutants in spoilt_ways(name, scheme, form):
        assert_all_killed(name, mutator, mutants if mutator in SOMETIMES else mutants[-1:])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "scheme", "form"), WAYS)
def test_all_mutants_of_a_way_are_killed(name: str, scheme: str, form: str) -> None:
    for mutator, mutants in spoilt_ways(name, scheme, form):
        assert_all_killed(name, mutator, mutants)


def test_there_is_a_mutant_of_every_kind() -> None:
    assert {mutator for way in WAYS for mutator, _ in spoilt_ways(*way)} == set(MORE)
