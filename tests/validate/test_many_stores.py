"""A long block with many loads and many stores through another pointer, each load behind all stores
before it: what is right is proved, in time that grows little faster than the block, and no load is
taken from before a store that may hit it."""

from __future__ import annotations

import random
import re
from functools import cache
from sys import setprofile

import pytest
from _pytest.mark import ParameterSet

from benchmarks import loads
from benchmarks.loads import HEAD
from ptxsw.driver.pipeline import Options, optimize
from ptxsw.parser import parse
from ptxsw.terms.node import Variance
from ptxsw.terms.solver import Solver
from ptxsw.terms.terms import Terms
from ptxsw.validate import Outcome, Proved, validate
from ptxsw.validate.memory import Memory
from ptxsw.validate.memory_ssa import Bytes, Store, Version, as_written, joined


def slow(*values: str) -> ParameterSet:
    return pytest.param(*values, marks=pytest.mark.slow)


PAPER = Options(mode="force", scheme="paper", rewrites=("shuffle",), budget_s=1e6)


def kernel(rows: int, step: int = 4096) -> str:
    """In each row two neighbouring loads, and a store of the first, some bytes behind the last."""
    lines = []
    for row in range(rows):
        lines += [
            "\tld.global.f32 %f1, [%rd4];",
            "\tld.global.f32 %f2, [%rd4+4];",
            "\tadd.s64 %rd4, %rd4, %rd6;",
            f"\tst.global.f32 [%rd5+{step * row}], %f1;",
        ]
    return HEAD + "\n".join(lines) + "\n\tret;\n}\n"


@cache
def shuffled(rows: int, step: int = 4096) -> str:
    text = optimize(kernel(rows, step), PAPER).text
    assert text.count("shfl.sync") == rows
    return text


def judged(before: str, after: str) -> Outcome:
    first, second = parse(before), parse(after)
    return validate((first, first.kernels[0]), (second, second.kernels[0]))


@pytest.mark.parametrize("step", [4, 4096])
def test_all_of_it_is_proved(step: int) -> None:
    before, after = kernel(80, step), shuffled(80, step)
    assert isinstance(judged(before, after), Proved)


STORE, NEXT = "\tst.global.f32 [%rd5+{0}], %f1;\n", "\tld.global.f32 %f1, [%rd4];\n"


@pytest.mark.parametrize("step", [4, 4096])
@pytest.mark.parametrize(
    ("find", "replace"),
    [
        (STORE, STORE.replace("%f1", "%f2")),  # another value
        (STORE, STORE.replace("%rd5+{0}", "%rd5+{1}")),  # elsewhere
        (STORE, STORE.replace("%rd5", "%rd4")),
        (STORE, ""),  # not made
        (STORE, STORE.replace("\tst", "\t@%sw_rows st")),  # not always made
        (STORE + NEXT, "\tmov.f32 %f3, %f1;\n" + NEXT + STORE.replace("%f1", "%f3")),  # too early
        (STORE + NEXT, STORE + NEXT + STORE),  # and over what is stored, too
    ],
)
def test_a_store_between_that_is_changed(step: int, find: str, replace: str) -> None:
    places = 8 * step, 8 * step + 1
    was, now = find.format(*places), replace.format(*places)
    assert was in shuffled(16, step)
    mutant = shuffled(16, step).replace(was, now)
    assert not isinstance(judged(kernel(16, step), mutant), Proved)


def test_stores_that_only_change_places() -> None:
    """Of another order of those that do not meet, the same is left."""
    first, second = (f"\tst.global.f32 [%rd2+{at}], %f1;\n" for at in (0, 8))
    both = HEAD + "\tld.global.f32 %f1, [%rd4];\n{0}\tld.global.f32 %f2, [%rd4+4];\n"
    end = "\tst.global.f32 [%rd5], %f2;\n\tret;\n}\n"
    one, other = (both.replace("{0}", stores) + end for stores in (first + second, second + first))
    assert isinstance(judged(one, other), Proved)
    changed = other.replace("[%rd2+8], %f1", "[%rd2+8], %f3")
    assert not isinstance(judged(one, changed), Proved)


def calls_of_a_proof(rows: int) -> int:
    """How many functions a proof calls: its work, which a busy machine does not change."""
    before, after = kernel(rows, 4), shuffled(rows, 4)
    called = 0

    def count(_: object, event: str, __: object) -> None:
        nonlocal called
        called += event in ("call", "c_call")

    setprofile(count)
    try:
        outcome = judged(before, after)
    finally:
        setprofile(None)
    assert isinstance(outcome, Proved)
    return called


def test_the_work_grows_little_faster_than_the_block() -> None:
    """Each load held against each store takes 16 times the work for 4 times the rows."""
    assert calls_of_a_proof(160) < 9 * calls_of_a_proof(40)


HALO = Options(mode="force", scheme="halo", form="keep", rewrites=("shuffle",), budget_s=1e6)
SUMS = loads.kernel(60, "stores")


@cache
def with_halos() -> str:
    return optimize(SUMS, HALO).text


def test_sums_that_are_stored_before_the_next_row_is_loaded() -> None:
    """What a row has loaded is told by all sums before it, and a sum by what was loaded."""
    assert with_halos().count("shfl.sync") == 4 * 12
    assert isinstance(judged(SUMS, with_halos()), Proved)


@pytest.mark.parametrize(
    ("find", "replace"),
    [
        (r"(?s)(.*shfl.sync.idx.b32 %f\d, %sw_\w+, %sw_from)1", r"\g<1>2"),
        slow(r"(?s)(.*?shfl.sync.idx.b32 %f\d, %sw_\w+, %sw_from)2", r"\g<1>1"),
        slow(r"\[%rd5\+20\], %f1", "[%rd4+20], %f1"),
        (r"\[%rd5\+20\], %f1", "[%rd5+24], %f1"),
        slow(r"\[%rd5\+20\], %f1", "[%rd5+20], %f2"),
    ],
)
def test_a_sum_that_is_wrong(find: str, replace: str) -> None:
    mutant, changes = re.subn(find, replace, with_halos(), count=1)
    assert changes == 1
    assert not isinstance(judged(SUMS, mutant), Proved)


# ---------------------------------------------------------------- the chain itself


def some_stores(terms: Terms, seed: int, count: int) -> list[Store]:
    """Stores to bytes near some bases, of several sizes, some of them guarded."""
    dice = random.Random(seed)
    bases = [terms.atom(f"p{at}", 64, Variance.UNIFORM) for at in range(dice.randint(1, 4))]
    guards = [terms.const(1, 1)] * 3 + [terms.atom("g", 1, Variance.LANE)]
    stores = []
    for number in range(count):
        size = dice.choice((1, 4, 4, 8))
        place = terms.add(dice.choice(bases), terms.const(dice.randrange(-16, 64), 64))
        space = dice.choice(("global", "global", "generic", "shared"))
        value = terms.atom(f"x{number}", 8 * size, Variance.LANE)
        stores.append(Store(Bytes(space, place, size), value, dice.choice(guards), number))
    return stores


@pytest.mark.parametrize("seed", range(20))
def test_a_chain_tells_what_its_stores_leave(seed: int) -> None:
    """Whichever link is asked first, and by whichever text."""
    terms = Terms()
    memory, begin = Memory(terms, Solver()), Version()
    stores = some_stores(terms, seed, 24)
    ends = list(range(len(stores) + 1)) * 2
    random.Random(seed).shuffle(ends)
    for end in ends:
        again = [Store(s.target, s.value, s.guard, -s.index) for s in stores[:end]]
        assert begin.behind(again) is begin.behind(stores[:end])
        left = begin.behind(again).joined(terms, 8, frozenset(), memory._parts)
        assert left == joined(terms, map(as_written, stores[:end]))
    other = [*stores[:5], *stores[6:]]
    assert begin.behind(other) is not begin.behind(stores)


@pytest.mark.parametrize("seed", range(60))
def test_a_load_is_the_same_as_if_each_store_is_looked_at(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    terms = Terms()
    memory = Memory(terms, Solver())
    dice = random.Random(seed)
    stores = some_stores(terms, seed, 12)
    pointer = terms.atom(dice.choice(("p0", "q", "q")), 64, Variance.UNIFORM)
    for space in ("global", "shared", "generic"):
        for size in (1, 4, 8):
            source = Bytes(space, terms.add(pointer, terms.const(dice.randrange(8), 64)), size)
            given = (terms.not_(terms.eq(pointer, terms.const(0, 64))),)[: dice.randrange(2)]
            fast = memory.load(stores, 0, source, given)
            with monkeypatch.context() as patch:
                patch.setattr(memory, "_missed", lambda *_: None)
                assert memory.load(stores, 0, source, given) is fast
