"""When two loads of one address are one value: aliasing and non-aliasing stores between them."""

from __future__ import annotations

import itertools
import random

import pytest

from ptxsw.emulator.memory import FIRST, Aliasing, Epoch, Store, ended, joined, stored
from ptxsw.emulator.run import emulate
from ptxsw.parser import parse
from ptxsw.terms import op
from ptxsw.terms.evaluate import evaluate
from ptxsw.terms.node import Term, Variance, ones
from ptxsw.terms.show import show
from ptxsw.terms.solver import Solver
from ptxsw.terms.terms import Terms
from tests.heads import head

HEAD = (
    head("8.0", "sm_90")
    + """.extern .func f();
.visible .entry k(.param .u64 a, .param .u64 b, .param .u32 n)
{
.shared .align 16 .b8 tile[4096];
.local .align 16 .b8 own[64];
.reg .pred %p<9>; .reg .b32 %r<29>; .reg .b64 %rd<29>;
ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x;
mul.wide.u32 %rd3, %r2, 4; add.s64 %rd4, %rd1, %rd3;
mov.u64 %rd5, tile; mov.u64 %rd6, own; add.s64 %rd7, %rd5, %rd3;
cvta.shared.u64 %rd8, %rd5; add.s64 %rd9, %rd8, %rd3;
"""
)
GLOBAL = "ld.global.u32 {}, [%rd4];"
SHARED = "ld.shared.u32 {}, [%rd7];"
LOCAL = "ld.local.u32 {}, [%rd6];"
GENERIC = "ld.u32 {}, [%rd4];"


def same(between: str, load: str = GLOBAL) -> bool:
    """Is what is loaded before some instructions the term that is loaded behind them? The
    difference of the two makes an address."""
    text = "\n".join(
        [HEAD, load.format("%r27"), between, load.format("%r28"),
         "sub.s32 %r26, %r27, %r28; mul.wide.s32 %rd28, %r26, 4; add.s64 %rd27, %rd2, %rd28;",
         "ld.global.nc.u32 %r25, [%rd27]; ret; }"]
    )  # fmt: skip
    module = parse(text)
    trace = emulate(module, module.functions[-1])
    last = [a for a in trace.accesses if "nc" in a.instruction.modifiers][-1]
    zero = {v.address for v in last.variants} == {trace.terms.atom("b", 64, Variance.UNIFORM)}
    name = load.partition(".")[0] if load.startswith(("atom", "shfl", "ldu")) else "load"
    assert zero or any(name in show(v.address) for v in last.variants)
    return zero


APART = {
    "nothing": "",
    "the next element": "st.global.u32 [%rd4+4], %r1;",
    "the element before": "st.global.u32 [%rd4-4], %r1;",
    "two elements behind": "st.global.v2.u32 [%rd4+4], {%r1, %r1};",
    "under a guard": "setp.eq.s32 %p1, %r1, %r2; @%p1 st.global.u32 [%rd4+4], %r1;",
    "several": "st.global.u32 [%rd4+4], %r1; st.global.u64 [%rd4-8], %rd1;",
    "a byte at the end": "st.global.u8 [%rd4+4], %r1;",
    "shared": "st.shared.u32 [%rd7], %r1;",
    "local": "st.local.u32 [%rd6], %r1;",
    "generic": "st.u32 [%rd4+4], %r1;",
    "a guard that keeps it away": "setp.lt.u32 %p1, %r2, %r1; mul.wide.u32 %rd10, %r1, 4;"
    "add.s64 %rd11, %rd1, %rd10; @%p1 st.global.u32 [%rd11], %r1;",
    "a far row": "and.b32 %r3, %r1, 31; mul.wide.u32 %rd10, %r3, 4; add.s64 %rd11, %rd1, %rd10;"
    "st.global.u32 [%rd11+4096], %r1;",
    "an index that the path keeps away": "setp.le.u32 %p1, %r1, %r2; @%p1 bra OUT;"
    "mul.wide.u32 %rd10, %r1, 4; add.s64 %rd11, %rd1, %rd10; st.global.u32 [%rd11], %r1; OUT:",
    "one side of a branch": "setp.eq.s32 %p1, %r1, %r2; @%p1 bra OUT;"
    "st.global.u32 [%rd4+4], %r1; OUT:",
    "both sides of a branch": "setp.eq.s32 %p1, %r1, %r2; @%p1 bra OTHER;"
    "st.global.u32 [%rd4+4], %r1; bra OUT; OTHER: st.global.u32 [%rd4+8], %r1; OUT:",
    "a loop that stores to shared memory": "mov.u32 %r3, 0; LOOP: st.shared.u32 [%rd7], %r3;"
    "add.s32 %r3, %r3, 1; setp.lt.s32 %p1, %r3, %r1; @%p1 bra LOOP;",
    "before a loop": "st.global.u32 [%rd4+4], %r1; mov.u32 %r3, 0; LOOP:"
    "add.s32 %r3, %r3, 1; setp.lt.s32 %p1, %r3, %r1; @%p1 bra LOOP;",
    "a prefetch": "prefetch.global.L1 [%rd4];",
}
MAY_ALIAS = {
    "the same element": "st.global.u32 [%rd4], %r1;",
    "half of it": "st.global.u16 [%rd4+2], %r1;",
    "across its start": "st.global.u32 [%rd4-2], %r1;",
    "eight bytes from before": "st.global.u64 [%rd4-4], %rd1;",
    "the second of two elements": "st.global.v2.u32 [%rd4-4], {%r1, %r1};",
    "another pointer": "add.s64 %rd10, %rd2, %rd3; st.global.u32 [%rd10+4], %r1;",
    "another index": "mul.wide.u32 %rd10, %r1, 4; add.s64 %rd11, %rd1, %rd10;"
    "st.global.u32 [%rd11], %r1;",
    "an index that only another path keeps away": "setp.le.u32 %p1, %r1, %r2; @%p1 bra OUT;"
    "add.s32 %r3, %r1, 1; OUT: mul.wide.u32 %rd10, %r1, 4; add.s64 %rd11, %rd1, %rd10;"
    "st.global.u32 [%rd11], %r1;",
    "a generic address": "st.u32 [%rd4], %r1;",
    "an unknown generic address": "st.u32 [%rd2], %r1;",
    "the same under a guard": "setp.eq.s32 %p1, %r1, %r2; @%p1 st.global.u32 [%rd4], %r1;",
    "one side of a branch": "setp.eq.s32 %p1, %r1, %r2; @%p1 bra OUT;"
    "st.global.u32 [%rd4], %r1; OUT:",
    "one of both sides": "setp.eq.s32 %p1, %r1, %r2; @%p1 bra OTHER;"
    "st.global.u32 [%rd4+4], %r1; bra OUT; OTHER: st.global.u32 [%rd4], %r1; OUT:",
    "an earlier one behind one that misses": "st.global.u32 [%rd4], %r1;"
    "st.global.u32 [%rd4+4], %r1;",
    "a loop": "mov.u32 %r3, 0; LOOP: st.global.u32 [%rd4+4], %r3; add.s32 %r3, %r3, 1;"
    "setp.lt.s32 %p1, %r3, %r1; @%p1 bra LOOP;",
    "a barrier": "bar.sync 0;",
    "a fence": "membar.gl;",
    "an atomic elsewhere": "red.global.add.u32 [%rd4+64], %r1;",
    "a strong store elsewhere": "st.relaxed.gpu.global.u32 [%rd4+64], %r1;",
    "a call": "call f;",
    "a bulk store": "st.bulk.shared::cta [%rd5], 64, 0; frobnicate.u32 %r3;",
    "an asynchronous copy": "cp.async.ca.shared.global [%rd5], [%rd2], 4;",
}


@pytest.mark.parametrize("case", APART)
def test_apart(case: str) -> None:
    assert same(APART[case])


@pytest.mark.parametrize("case", MAY_ALIAS)
def test_may_alias(case: str) -> None:
    assert not same(MAY_ALIAS[case])


@pytest.mark.parametrize(
    ("between", "load", "expected"),
    [
        ("st.shared.u32 [%rd7+4], %r1;", SHARED, True),
        ("st.shared.u32 [%rd7], %r1;", SHARED, False),
        ("st.shared.u32 [tile], %r1;", SHARED, False),
        ("st.global.u32 [%rd4], %r1;", SHARED, True),
        ("st.u32 [%rd4+4], %r1;", SHARED, False),  # a generic address may lie in the window
        ("st.shared.u32 [%rd7], %r1;", GENERIC, False),
        ("st.global.u32 [%rd4+4], %r1;", GENERIC, True),
        ("st.global.u32 [%rd4], %r1;", GENERIC, False),
        ("st.local.u32 [%rd6+4], %r1;", LOCAL, True),
        ("st.local.u32 [%rd6], %r1;", LOCAL, False),
        ("bar.sync 0;", LOCAL, True),
        ("bar.sync 0;", SHARED, False),
        ("call f;", LOCAL, False),
    ],
)
def test_spaces(between: str, load: str, expected: bool) -> None:
    assert same(between, load) is expected


@pytest.mark.parametrize(
    ("load", "expected"),
    [
        ("ld.global.u32 {}, [%rd4];", True),
        ("ld.global.cg.u32 {}, [%rd4];", True),
        ("ld.weak.global.u32 {}, [%rd4];", True),
        ("ld.global.cv.u32 {}, [%rd4];", False),
        ("ld.volatile.global.u32 {}, [%rd4];", False),
        ("ld.relaxed.gpu.global.u32 {}, [%rd4];", False),
        ("ld.acquire.gpu.global.u32 {}, [%rd4];", False),
        ("ldu.global.u32 {}, [%rd4];", False),
        ("atom.global.add.u32 {}, [%rd4], 0;", False),
        ("shfl.sync.idx.b32 {}, %r1, 0, 31, -1;", True),  # all lanes have the same %r1
        ("shfl.sync.idx.b32 {}, %r2, 0, 31, -1;", False),
        ("shfl.sync.down.b32 {}, %r1, 1, 31, -1;", False),
    ],
)
def test_loads_that_fetch_again(load: str, expected: bool) -> None:
    assert same("", load) is expected


def test_a_load_that_a_later_store_changes() -> None:
    """Within a loop every iteration loads anew."""
    assert not same(
        "mov.u32 %r3, 0; LOOP: ld.global.u32 %r27, [%rd4]; st.global.u32 [%rd4+4], %r3;"
        "add.s32 %r3, %r3, 1; setp.lt.s32 %p1, %r3, %r1; @%p1 bra LOOP;"
        "st.global.u32 [%rd4], %r1;"
    )


# ---------------------------------------------------------------- histories


def addresses(terms: Terms, count: int) -> list[Term]:
    base = terms.atom("p", 64, Variance.UNIFORM)
    return [terms.add(base, terms.const(4 * i, 64)) for i in range(count)]


def mark(terms: Terms, epochs: tuple[tuple[Epoch, ...], ...], address: Term) -> int:
    return Aliasing(terms).epoch(epochs[0], "global", address, 4, ())


def test_an_epoch_is_found_behind_stores_that_miss() -> None:
    terms = Terms()
    first, second, third, *_ = addresses(terms, 4)
    one = stored(FIRST, ("global",), Store("global", first, 4), 1)
    two = stored(one, ("global",), Store("global", second, 4), 2)
    assert [mark(terms, two, a) for a in (first, second, third)] == [1, 2, 0]
    assert two[1:] == FIRST[1:]
    three = ended(two, ("global", "shared"), 3)
    assert [mark(terms, three, a) for a in (first, second, third)] == [3, 3, 3]
    assert three[2] == FIRST[2]


def test_histories_are_bounded() -> None:
    """Of many stores the newest are looked at; behind them anything may lie."""
    terms = Terms()
    epochs = FIRST
    places = addresses(terms, 100)
    for at, address in enumerate(places):
        epochs = stored(epochs, ("global",), Store("global", address, 4), at + 1)
    far = terms.add(places[-1], terms.const(400, 64))
    assert mark(terms, epochs, places[-1]) == 100
    assert 0 < mark(terms, epochs, far) < 100
    assert mark(terms, epochs, places[0]) == mark(terms, epochs, far)


def test_joined_histories() -> None:
    """Behind a join lies what both sides stored since they parted."""
    terms = Terms()
    a, b, c, d = addresses(terms, 4)
    common = stored(FIRST, ("global",), Store("global", a, 4), 1)
    left = stored(common, ("global",), Store("global", b, 4), 2)
    right = stored(common, ("global",), Store("global", c, 4), 3)
    both = joined(left, right, 9)
    assert [mark(terms, both, x) for x in (a, b, c, d)] == [1, 9, 9, 0]
    assert [mark(terms, joined(common, left, 9), x) for x in (a, b, c, d)] == [1, 9, 0, 0]
    assert joined(left, left, 9) == left
    again = stored(common, ("global",), Store("global", d, 4), 2)  # the same event, elsewhere
    assert [mark(terms, joined(left, again, 9), x) for x in (a, b, c, d)] == [1, 2, 0, 2]
    cut = ended(left, ("global",), 4)
    assert [mark(terms, joined(cut, left, 9), x) for x in (a, b, c, d)] == [9, 9, 9, 9]


def test_questions_are_asked_once_and_not_forever() -> None:
    terms, solver = Terms(), Solver()
    aliasing = Aliasing(terms, solver)
    x, y = (terms.zext(terms.atom(n, 32, Variance.LANE), 64) for n in "xy")
    store = Store("global", terms.scale(x, 4), 4)
    history = (Epoch(0), Epoch(1, (store,)))
    given = [terms.ult(x, y)]
    assert aliasing.epoch(history, "global", terms.scale(y, 4), 4, given) == 0
    asked = solver.questions
    assert asked > 0
    assert aliasing.epoch(history, "global", terms.scale(y, 4), 4, given) == 0
    assert solver.questions == asked
    solver.pruning = 10**9
    assert aliasing.epoch(history, "global", terms.scale(y, 4), 4, [terms.ult(y, x)]) == 1
    assert solver.questions == asked


def test_some_distances_need_no_question() -> None:
    """Fields of different elements never meet; the distance of two pointers may be any."""
    terms, solver = Terms(), Solver()
    x, y, p, q = (terms.atom(n, 64, Variance.LANE) for n in "xypq")
    store = Store("global", terms.scale(x, 8), 4)
    far = terms.add(terms.scale(y, 8), terms.const(4, 64))
    found = Aliasing(terms, solver)
    assert found.epoch((Epoch(0), Epoch(1, (store,))), "global", far, 4, ()) == 0
    assert found.epoch((Epoch(0), Epoch(1, (store,))), "global", far, 1, ()) == 0
    store = Store("global", p, 4)
    assert found.epoch((Epoch(0), Epoch(1, (store,))), "global", q, 4, ()) == 1
    assert solver.questions == 0


@pytest.mark.parametrize("seed", range(40))
def test_claims_of_disjoint_bytes(seed: int) -> None:
    """What is claimed of a distance is that the ranges share no byte, in every wrap."""
    source = random.Random(seed)
    terms = Terms()
    atoms = [terms.atom(n, 8, Variance.LANE, source.choice([0xFF, 7, 3])) for n in "xy"]
    distance = terms.const(source.randrange(256), 8)
    for atom in atoms:
        distance = terms.add(distance, terms.scale(atom, source.choice([0, 1, 2, 4, 12, 128, -8])))
    stored_bytes, loaded = source.choice([1, 2, 4, 8]), source.choice([1, 2, 4, 8])
    claim = Aliasing(terms).apart(distance, stored_bytes, loaded)
    told = claim.kind is not op.CONST
    for x, y in itertools.product(range(ones(atoms[0]) + 1), range(0, ones(atoms[1]) + 1, 3)):
        values = {atoms[0]: x, atoms[1]: y}
        start = evaluate(distance, values)
        written = {at % 256 for at in range(stored_bytes)}
        read = {(start + at) % 256 for at in range(loaded)}
        holds = bool(evaluate(claim, values))
        assert written.isdisjoint(read) if holds else (not told or written & read)
