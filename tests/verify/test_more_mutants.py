"""Mutation testing of the schemes and forms beyond the paper's, as in `test_mutants`.

Buffers end where the original's last access does, so that an access too many is seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest

from ptxsw.emulator.run import emulate
from ptxsw.parser import parse
from ptxsw.verify.arguments import Data
from ptxsw.verify.differential import compare
from ptxsw.verify.launches import Launch, Shape, invent
from ptxsw.verify.proving import Unproved, prove
from tests.verify.mutators import MORE
from tests.verify.programs import original, rewritten
from tests.verify.wrapping import jacobi_alone

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

killed: dict[str, tuple[int, int]] = {}  # by mutator


@pytest.fixture(scope="module", autouse=True)
def score(request: pytest.FixtureRequest) -> Iterator[None]:
    """Prints killed/total."""
    yield
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        dead, total = (sum(counts[n] for counts in killed.values()) for n in (0, 1))
        print(f"\nmutants of other schemes and forms killed: {dead}/{total}")
        for name, (one, all_) in sorted(killed.items()):
            print(f"  {name.ljust(24)} {one}/{all_}")


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
def launches(name: str) -> tuple[Launch, ...]:
    module = parse(original(name))
    invented = invent(emulate(module, module.functions[0]), wide=False)
    return (*TIGHT[name](), *(launch for launch in invented if launch.block in BLOCKS))


def is_killed(name: str, mutator: str, text: str) -> bool:
    """Is a mutant told on some launch? That there is no proof is asserted of each."""
    first, second = parse(original(name)), parse(text)
    entry = first.functions[0].name
    assert isinstance(prove(first, second, entry), Unproved), mutator
    tried = (*jacobi_alone(),) if mutator in AT_THE_END else launches(name)
    found = compare(first, second, entry, tried, seeds=(1, 2), amend=False)
    return found.difference is not None


def assert_killed(name: str, mutator: str, mutants: list[str]) -> None:
    """All mutants of a kind, or where that is all one can ask for, one of them."""
    told = [is_killed(name, mutator, text) for text in mutants]
    if mutator in SOMETIMES:
        told = [any(told)]
    dead, count = killed.get(mutator, (0, 0))
    killed[mutator] = (dead + sum(told), count + len(told))
    assert all(told), mutator


def spoilt(name: str, scheme: str, form: str) -> Iterator[tuple[str, list[str]]]:
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
def test_mutants_are_killed(name: str, scheme: str, form: str) -> None:
    """The last one of each kind."""
    for mutator, mutants in spoilt(name, scheme, form):
        assert_killed(name, mutator, mutants if mutator in SOMETIMES else mutants[-1:])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "scheme", "form"), WAYS)
def test_all_mutants_are_killed(name: str, scheme: str, form: str) -> None:
    for mutator, mutants in spoilt(name, scheme, form):
        assert_killed(name, mutator, mutants)


def test_there_is_a_mutant_of_every_kind() -> None:
    assert {mutator for way in WAYS for mutator, _ in spoilt(*way)} == set(MORE)
