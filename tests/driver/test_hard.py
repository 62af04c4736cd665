"""Hard kernels through every command: an answer in words, and in time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ptxsw.analysis import requests
from ptxsw.analysis.address_text import AddressWriter, cause
from ptxsw.analysis.warps import Warps
from ptxsw.cli.commands import app
from ptxsw.driver import pipeline
from ptxsw.emulator import symbolic_machine
from ptxsw.emulator.run import emulate
from ptxsw.facts import lane_equality as prove
from ptxsw.facts.extensions import NoOverflow, discharge
from ptxsw.facts.lane_views import ShiftedLane
from ptxsw.parser import parse
from ptxsw.terms.evaluate import evaluate
from ptxsw.terms.node import Term, Variance, ones, unknowns
from ptxsw.terms.readings import UnwrappedReading
from ptxsw.terms.samples import Samples
from ptxsw.terms.show import show
from ptxsw.terms.solver import Proved, Solver
from ptxsw.terms.terms import Terms
from ptxsw.validate import Proved as Equal
from tests import hard
from tests.validate.test_warp import AFTER, BEFORE, SHUFFLE, judged

DEPTH = 50_000

SIZES = {
    "squares": 500, "hash": 1000, "nest": 40, "ifs": 200, "products": 200, "divs": 100,
    "ldst": 500, "neighbours": 100, "brx": 200, "irreducible": 60, "clamp": 400, "scopes": 300,
}  # fmt: skip

SIZES_RUN = {"nest": 3, "irreducible": 8}
"""Where the kernel itself would run for hours: 4^40 iterations."""


def run(*words: object) -> int:
    """The exit code of a command; what it raises goes on."""
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    return result.exit_code


def looked_at(path: Path) -> Path:
    """Looked at, drawn and rewritten."""
    out, page = path.with_suffix(".out.ptx"), path.with_suffix(".html")
    assert run("analyze", path) == 0
    assert run("report", path, "--html", page) == 0
    assert run("optimize", path, "-o", out, "--mode", "force") == 0
    assert "</html>" in page.read_text()
    return out


def through_all(path: Path) -> None:
    """And compared, by proof or by runs."""
    out = looked_at(path)
    assert run("verify", path, out) in (0, 3)
    assert run("verify", path, path) == 0


@pytest.mark.parametrize("name", sorted(SIZES))
def test_a_hard_kernel(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.ptx"
    path.write_text(hard.text(name, SIZES[name]))
    looked_at(path)
    path.write_text(hard.text(name, SIZES_RUN.get(name, SIZES[name])))
    through_all(path)


def test_a_long_initialiser(tmp_path: Path) -> None:
    path = tmp_path / "init.ptx"
    path.write_text(hard.initialised(100_000))
    through_all(path)


def test_an_index_made_from_a_float_of_the_lane(tmp_path: Path) -> None:
    path = Path(__file__).parents[1] / "report" / "ptx" / "float_index.ptx"
    assert run("analyze", path) == 0
    assert run("report", path, "--html", tmp_path / "page.html") == 0


# ---------------------------------------------------------------- terms deeper than the stack


def chained(links: int) -> str:
    """An index that is as deep as the code is long: nothing in it is ever given up."""

    def body() -> Iterator[str]:
        yield " add.u32 %r9, %r2, %r3;"
        for n in range(links):
            yield f" {('xor', 'or')[n % 2]}.b32 %r9, %r9, %r{1 + n % 3};"
            if n % 10 == 9:
                yield " add.u32 %r9, %r9, %r3;"
        yield " mul.wide.s32 %rd3, %r9, 4;\n add.s64 %rd4, %rd1, %rd3;"
        yield " ld.global.f32 %f1, [%rd4];\n ld.global.f32 %f2, [%rd4+4];"
        yield " add.f32 %f3, %f1, %f2;\n st.global.f32 [%rd2], %f3;"

    return hard.kernel(body())


@pytest.mark.parametrize("links", [5_000, pytest.param(DEPTH, marks=pytest.mark.slow)])
def test_an_address_of_any_depth(
    links: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(symbolic_machine, "_MAX_SIZE", 1 << 31)
    path = tmp_path / "chain.ptx"
    path.write_text(chained(links))
    through_all(path)


CHAINS = {
    "sums": " add.u32 %r9, %r9, %r2;\n xor.b32 %r9, %r9, %r3;",
    "floats": " fma.rn.f32 %f9, %f9, %f9, %f9;\n add.f32 %f9, %f9, %f9;",
    "choices": " setp.lt.s32 %p1, %r9, {n};\n selp.b32 %r9, %r2, %r9, %p1;",
    "guards": " setp.lt.s32 %p1, %r9, {n};\n @%p1 add.s32 %r9, %r9, {n};",
    "branches": " setp.lt.s32 %p1, %r9, {n};\n @%p1 bra L{n};\n add.s32 %r9, %r9, {n};\nL{n}:",
    "extensions": " cvt.u64.u32 %rd9, %r9;\n cvt.u32.u64 %r9, %rd9;\n shl.b32 %r9, %r9, 1;",
}


@pytest.mark.parametrize(
    "name",
    ["guards", *(pytest.param(n, marks=pytest.mark.slow) for n in
                              ("floats", "sums", "choices", "branches", "extensions"))],
)  # fmt: skip
def test_20_000_instructions_that_follow_from_one_another(name: str, tmp_path: Path) -> None:
    link = CHAINS[name]
    links = 20_000 // (link.count(";"))
    body = ["mov.u32 %r9, %r2;", "mov.f32 %f9, 0f3F800000;"]
    body += [link.replace("{n}", str(n)) for n in range(links)]
    body += ["mul.wide.s32 %rd3, %r9, 4;", "add.s64 %rd4, %rd1, %rd3;",
             "ld.global.f32 %f1, [%rd4];", "ld.global.f32 %f2, [%rd4+4];",
             "fma.rn.f32 %f3, %f1, %f2, %f9;", "st.global.f32 [%rd2], %f3;"]  # fmt: skip
    path = tmp_path / "chain.ptx"
    path.write_text(hard.kernel(iter(body)))
    out = path.with_suffix(".out")
    assert run("optimize", path, "-o", out, "--mode", "force") == 0
    assert run("check", path, "--no-ptxas") in (0, 1)


def test_a_pointer_that_was_loaded_through_any_number_of_others() -> None:
    first = " mul.wide.s32 %rd3, %r2, 8;\n add.s64 %rd9, %rd1, %rd3;"
    body = [first, *[" ld.global.u64 %rd9, [%rd9];"] * 2_500]
    module = parse(hard.kernel(iter([*body, " st.global.u64 [%rd9], %rd2;"])))
    trace = emulate(module, module.functions[0])
    store = trace.accesses[-1]
    line = module.source.line(store.instruction.span.start)
    assert cause(trace, store) == f"index loaded at line {line - 1}"


def test_a_hash_that_as_a_tree_would_fill_the_universe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(symbolic_machine, "_MAX_SIZE", 1 << 31)
    path = tmp_path / "hash.ptx"
    path.write_text(hard.text("hash", 80))
    through_all(path)
    accesses = pipeline.analyze(path.read_text()).kernels[0].accesses or ()
    assert len(accesses[0].address or "") < 5_000


TERMS = Terms()
THREAD = TERMS.atom("%tid.x", 32, Variance.LANE, 0x3FF)
COUNT = TERMS.atom("n", 32, Variance.UNIFORM)
FLAG = TERMS.atom("flag", 1, Variance.UNIFORM)

LINKS: dict[str, Callable[[Term], Term]] = {
    "xor": lambda t: TERMS.add(TERMS.xor(t, COUNT), THREAD),
    "and": lambda t: TERMS.and_(TERMS.or_(t, COUNT), TERMS.xor(t, THREAD)),
    "choice": lambda t: TERMS.ite(FLAG, TERMS.lshr(t, COUNT), TERMS.xor(t, COUNT)),
    "division": lambda t: TERMS.udiv(TERMS.add(t, COUNT), TERMS.const(3, 32)),
    "load": lambda t: TERMS.apply(("load", "const"), 32, (t,), Variance.UNIFORM),
    "float": lambda t: TERMS.floating("sqrt", 32, (t,)),
    "wide": lambda t: TERMS.extract(
        TERMS.add(TERMS.sext(TERMS.add(t, COUNT), 64), TERMS.sext(TERMS.lshr(t, COUNT), 64)),
        1, 32,
    ),
    "product": lambda t: TERMS.add(TERMS.mul(t, t), THREAD),
}  # fmt: skip


def deep(name: str, depth: int) -> Term:
    term, link = THREAD, LINKS[name]
    for _ in range(depth // 2):  # each link is two nodes deep, or more
        term = link(term)
    return term


@pytest.fixture(scope="module", params=[5_000, pytest.param(DEPTH, marks=pytest.mark.slow)])
def depth(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module", params=sorted(LINKS))
def tower(request: pytest.FixtureRequest, depth: int) -> Term:
    return deep(str(request.param), depth)


def test_what_is_read_off_a_term(tower: Term) -> None:
    assert ones(tower) <= 0xFFFFFFFF
    assert len(show(tower)) < 5_000
    unwrapped = UnwrappedReading()
    assert unwrapped.polynomial(tower).items
    assert len(AddressWriter(unwrapped, "k").address(TERMS.zext(tower, 64), 4)) < 5_000
    assert Warps(None).uniform(tower) in (True, False)
    requests.requests(unwrapped, tower, Warps((32, 1, 1)))


def test_bits_values_and_other_lanes_of_a_term(tower: Term) -> None:
    assert TERMS.extract(tower, 3, 7).width == 7
    assert TERMS.extract(TERMS.zext(tower, 64), 0, 16).width == 16
    moved = ShiftedLane(TERMS, 1)(tower)
    assert Samples().value(moved, 3) <= 0xFFFFFFFF
    known = {term: 5 for term in unknowns(tower)}
    assert evaluate(tower, known) == evaluate(tower, known) <= 0xFFFFFFFF
    unwrap = prove.NoOverflowView(TERMS)
    prove.assume_no_overflow(unwrap, TERMS.sext(tower, 64), TERMS.sext(moved, 64))


@pytest.mark.slow
def test_a_proof_about_a_term(tower: Term) -> None:
    claim = TERMS.ule(TERMS.and_(tower, TERMS.const(7, 32)), TERMS.const(7, 32))
    assert isinstance(Solver().prove(claim), Proved)
    claim = TERMS.eq(TERMS.xor(tower, COUNT), TERMS.const(1, 32))
    Solver().soon(claim, [TERMS.ult(tower, COUNT)])
    assert "declare" in Solver().smt2(claim)


def test_conditions_as_deep() -> None:
    condition = FLAG
    for n in range(DEPTH):
        other = TERMS.ult(THREAD, TERMS.const(n + 1, 32))
        condition = TERMS.and_(condition, other) if n % 2 else TERMS.or_(condition, other)
    need = NoOverflow(THREAD, 1, False)
    discharge(TERMS, Solver(), need, frozenset({condition}))


def test_shuffles_of_shuffles() -> None:
    """A text may shuffle what it has shuffled, as often as it likes."""
    own = next(line for line in SHUFFLE.splitlines() if line.startswith("@%sw_own"))
    lines = [f"shfl.sync.down.b32 %sw_index, %sw_near, {1 + n % 2}, 31, %sw_mask;\n"
             f"add.s32 %sw_near, %sw_index, {n};" for n in range(DEPTH // 100)]  # fmt: skip
    text = AFTER.replace(own, "\n".join((own, "mov.b32 %sw_near, %sw_src;", *lines)))
    assert text != AFTER
    assert isinstance(judged(BEFORE, text), Equal)
