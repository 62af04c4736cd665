"""Small changes of clean programs: what each does to a text, and what becomes of it."""

from __future__ import annotations

from random import Random

import pytest

from benchmarks.faults import mutants
from benchmarks.faults.changes import WAYS, changed
from benchmarks.faults.programs import programs
from ptxsw.parser import parse
from ptxsw.verify.arguments import parse_argument
from ptxsw.verify.launches import Launch

TEXT = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out)
{
.reg .b32 %r<9>; .reg .b64 %rd<9>;
.shared .align 4 .b8 s[256];
ld.param.u64 %rd1, [out];
mov.u32 %r1, %tid.x;
shl.b32 %r2, %r1, 2;
mov.u32 %r3, s;
add.s32 %r4, %r3, %r2;
st.shared.u32 [%r4], %r1;
membar.cta;
bar.sync 0;
ld.shared.u32 %r5, [%r4];
mul.wide.u32 %rd2, %r1, 4;
add.s64 %rd3, %rd1, %rd2;
st.global.u32 [%rd3], %r5;
ret;
}
"""


def made(way: str, seed: int = 0) -> tuple[str, int]:
    change = changed(TEXT, way, Random(seed))
    assert change is not None
    parse(change[0])
    return change


def test_what_is_gone() -> None:
    text, line = made("barrier gone")
    assert "bar.sync" not in text and line == 15
    text, line = made("fence gone")
    assert "membar" not in text and line == 14


def test_a_store_moves_over_a_barrier_if_what_it_reads_is_there() -> None:
    """That to global memory reads what is loaded behind the barrier, and stays."""
    for seed in range(5):
        text, line = made("store moved", seed)
        assert text.index("bar.sync 0") < text.index("st.shared.u32 [%r4], %r1;") and line == 13
        assert text.count("st.") == 2


def test_an_index_is_off_by_one_element() -> None:
    texts = {made("index off", seed)[0] for seed in range(40)}
    assert len(texts) == 6  # three accesses, both ways
    assert any("[%r4+-4]" in text for text in texts) and any("[%rd3+4]" in text for text in texts)


@pytest.mark.parametrize("way", WAYS)
def test_where_there_is_no_place(way: str) -> None:
    text = TEXT[: TEXT.index("st.shared")] + "ret;\n}\n"
    assert changed(text, way, Random(0)) is None


LAUNCH = Launch((1, 1, 1), (64, 1, 1), (parse_argument("zeros:64:u32"),))


def test_runs_say_what_is_harmless() -> None:
    """Threads read their own words: no barrier is needed, but one's neighbour's word races."""
    assert mutants.shown(made("barrier gone")[0], [LAUNCH]) == ({}, True)
    off = next(t for t, _ in map(lambda n: made("index off", n), range(40)) if "[%rd3+4]" in t)
    assert mutants.shown(off, [LAUNCH]) == ({}, True)  # all threads move on together
    racing = TEXT.replace("bar.sync 0;\nld.shared.u32 %r5, [%r4]", "ld.shared.u32 %r5, [s]")
    found, brute = mutants.shown(racing, [LAUNCH])
    assert "data-race" in found and brute


def test_a_fault_that_was_proved_absent_is_false() -> None:
    racing = TEXT.replace("bar.sync 0;\nld.shared.u32 %r5, [%r4]", "ld.shared.u32 %r5, [s]")
    for verdict, outcome in (("absent", "FALSE"), ("unknown", "missed")):
        told = mutants._against_runs(racing, [LAUNCH], {"data-race": verdict})
        assert told["outcome"] == outcome


@pytest.mark.slow
def test_each_seed_is_the_same_again() -> None:
    first, second = (mutants.judged(3, 1.0) for _ in range(2))
    first.pop("cpu"), second.pop("cpu")
    assert first == second and first["name"] in {s.name for s in mutants.subjects()}


def test_clean_programs_and_operators_are_there() -> None:
    names = {s.name for s in mutants.subjects()}
    assert {p.name for p in programs("clean")} < names and {"jacobi", "matmul"} < names
