"""Mode auto keeps what certainly pays by what ptxas makes of it, and says why."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import pytest
from msgspec import structs

from benchmarks.scale import many_kernels
from ptxsw.analysis.shared_banks import shared_arrays
from ptxsw.changes.assumptions import DEFAULT_ASSUME, IN_ARRAYS
from ptxsw.changes.change import Worth
from ptxsw.changes.permutation import Permutation
from ptxsw.codegen.excerpt import Excerpts
from ptxsw.cost import counted, disassembly, sass
from ptxsw.cost.account import Account, Case, Ends, Interval, exactly
from ptxsw.cost.combined import Question, combined, differ_in_one_kernel, together
from ptxsw.cost.counted import Counted, NotCounted, Use, cannot_count
from ptxsw.cost.decide import account, decide, gains
from ptxsw.cost.wavefronts import Wavefronts, alike, permuted, wavefronts_of
from ptxsw.cost.weighing import CostGate, WeighedText
from ptxsw.driver import passes
from ptxsw.driver.pipeline import Options, optimize
from ptxsw.emulator.run import emulate
from ptxsw.emulator.trace import Trace
from ptxsw.parser import parse
from ptxsw.ptx.ir import Module
from ptxsw.report.model import Decision, Kernel
from ptxsw.toolchain import ptxas
from tests.heads import head

PROGRAMS = Path(__file__).parents[2] / "benchmarks" / "programs" / "ptx"


def count(question: Question, programs: counted.Tools) -> tuple[counted.Counted, ...]:
    (answer,) = counted.answers([question], programs)
    assert not isinstance(answer, counted.NotCounted)
    return answer


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PTXSW_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def programs() -> None:
    """Skips where ptxas or nvdisasm is missing."""
    reason = cannot_count("sm_80")
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the programs were run."""
    found: Counter[str] = Counter()
    assemble, disassemble = ptxas.assemble, disassembly.disassemble

    def one(*args: Any, **more: Any) -> Any:
        found["ptxas"] += 1
        return assemble(*args, **more)

    def other(*args: Any, **more: Any) -> Any:
        found["nvdisasm"] += 1
        return disassemble(*args, **more)

    monkeypatch.setattr(sass, "assemble", one)
    monkeypatch.setattr(disassembly, "disassemble", other)
    return found


def text_of(program: str) -> str:
    return (PROGRAMS / f"{program}.ptx").read_text()


def twice_loaded() -> str:
    """A product of matrices that loads an element of one again behind the barrier."""
    again = "\tld.global.f32 \t%f6, [%rd7];\n\tst.shared.f32 \t[%r5], %f6;\n"
    barrier = "\tbar.sync \t0;\n"
    return text_of("matmul-float").replace(barrier, f"{barrier}{again}{barrier}", 1)


def optimized(text: str, **more: object) -> tuple[str, Kernel, Decision | None]:
    """What is made of a text of one kernel, and what was decided."""
    result = optimize(text, Options(**{"arch": "sm_80", **more}))  # type: ignore[arg-type]
    (kernel,) = result.report.kernels
    return result.text, kernel, kernel.decision


def auto(text: str, **more: object) -> tuple[str, Kernel, Decision]:
    """The same of mode auto, where there is something to decide."""
    made, kernel, decision = optimized(text, **more)
    assert decision is not None
    return made, kernel, decision


def names(kernel: Kernel) -> set[str]:
    return {rewrite.rewrite for rewrite in kernel.rewrites or ()}


def test_vectors_that_pay_are_kept(programs: None) -> None:
    _, kernel, decision = auto(text_of("chunks"))
    assert names(kernel) == {"vectorize"}
    assert decision.kept and decision.by == "ptxas"
    assert decision.before is not None and decision.after is not None
    assert (decision.before.wavefronts, decision.after.wavefronts) == (128, 32)
    assert decision.after.instructions < decision.before.instructions


def test_a_step_of_occupancy_has_to_be_worth_it(programs: None) -> None:
    """The vectors of dct take registers, and with them resident warps. In rows of 32 elements they
    take so many wavefronts less that the kernel gains whatever overlaps; in rows of 8 they do
    not."""
    packed = text_of("dct")
    made, kernel, decision = auto(packed, block=(32, 1, 1))
    assert made == packed and not decision.kept
    text = packed.replace("%rd6, %r9, 4;", "%rd6, %r9, 16;")
    made, kernel, decision = auto(text, block=(32, 1, 1))
    assert names(kernel) == {"vectorize", "bank-conflicts"} and decision.kept
    assert decision.before is not None and decision.after is not None
    assert decision.after.occupancy["32"] < decision.before.occupancy["32"]
    assert (decision.after.at_most or 0) < decision.before.at_least
    assert decision.reason.startswith("although ptxas needs ")
    made, kernel, decision = auto(text, block=(32, 1, 1), min_gain=70.0)
    assert made == text and not decision.kept
    refused = kernel.refusals or ()
    assert {r.rewrite for r in refused} == {"vectorize", "bank-conflicts"}
    assert decision.reason in {r.reason for r in refused}
    assert decision.reason.startswith("ptxas needs ") and "(blocks of 32)" in decision.reason


def test_loads_that_wait_for_each_other_do_not_pay(programs: None) -> None:
    """Of the stencil's 14 loads 11 are left, of which a warp waits for four in place of three, one
    after the other: that took 9 % longer on an H100, and 10 % on an H200. In `box` and `z-march`
    fewer are left, and not more are waited for: 16 to 40 % faster."""
    text = text_of("stencil-nvcc")
    made, kernel, decision = auto(text, arch="sm_90", block=(128, 1, 1))
    assert made == text and not decision.kept
    (reason,) = {r.reason for r in kernel.refusals or () if r.rewrite == "scalar-replacement"}
    instructions, wavefronts, least, most, waiting = (
        (int(old), int(new)) for old, new in re.findall(r"(\d+) to (\d+)", reason)
    )
    assert all(new < old for old, new in (instructions, wavefronts, least, most))
    assert sum(new for _, new in (most, waiting)) > 1.01 * sum(old for old, _ in (most, waiting))
    for name in ("box-nvcc", "z-march"):
        _, kernel, decision = auto(text_of(name), arch="sm_90", block=(256, 1, 1))
        assert names(kernel) == {"read-only-loads", "scalar-replacement"} and decision.kept


def test_what_does_not_pay_is_no_obstacle_to_what_does(programs: None) -> None:
    """One load less by `.nc` is no gain in this product of matrices, whose banks conflict."""
    _, kernel, decision = auto(twice_loaded())
    assert names(kernel) == {"bank-conflicts"} and decision.kept
    refused = [r.reason for r in kernel.refusals or () if r.rewrite == "read-only-loads"]
    assert any("no clear gain" in reason for reason in refused)


def test_nobody_is_asked_about_loads_of_what_is_loaded_once(
    programs: None, runs: Counter[str]
) -> None:
    text = text_of("matmul-float-padded")
    made, kernel, _ = optimized(text)
    assert made == text and not kernel.refusals and runs == {}
    made, kernel, _ = optimized(text, rewrites=("read-only-loads",))
    assert made == text and runs == {}
    assert {r.reason for r in kernel.refusals or ()} == {
        "nothing is loaded twice, so ptxas could save nothing; force rewrites it"
    }
    made, _, _ = optimized(text, rewrites=("read-only-loads",), mode="force")
    assert made.count("ld.global.nc") == 2


LOOP = (
    head()
    + """.visible .entry k(.param .u64 a, .param .u64 b, .param .u32 n)
{
	.reg .pred %p<4>;
	.reg .b32 %r<8>;
	.reg .f32 %f<8>;
	.reg .b64 %rd<8>;
	ld.param.u64 %rd1, [a];
	ld.param.u64 %rd2, [b];
	ld.param.u32 %r1, [n];
	cvta.to.global.u64 %rd1, %rd1;
	cvta.to.global.u64 %rd2, %rd2;
	mov.u32 %r2, %tid.x;
	mul.wide.u32 %rd3, %r2, 4;
	add.s64 %rd4, %rd1, %rd3;
	add.s64 %rd5, %rd2, %rd3;
	mov.u32 %r3, 0;
LOOP:
	ld.global.f32 %f1, [%rd5];
	ld.global.f32 %f2, [%rd4];
	mul.f32 %f3, %f1, %f2;
	st.global.f32 [%rd4], %f3;
	add.s64 %rd4, %rd4, 4096;
	add.s32 %r3, %r3, 1;
	setp.lt.u32 %p1, %r3, 64;
	@%p1 bra LOOP;
	ret;
}
"""
)


RECORDS = (
    head("7.0")
    + """.visible .entry sums(.param .u64 p, .param .u64 q, .param .u32 n)
{
	.reg .pred %p;
	.reg .b32 %r<6>;
	.reg .b64 %rd<14>;
	ld.param.u64 %rd1, [p];
	ld.param.u64 %rd2, [q];
	ld.param.u32 %r1, [n];
	mov.u32 %r2, %ntid.x;
	mov.u32 %r3, %ctaid.x;
	mov.u32 %r4, %tid.x;
	mad.lo.s32 %r5, %r3, %r2, %r4;
	setp.ge.s32 %p, %r5, %r1;
	@%p bra DONE;
	cvta.to.global.u64 %rd3, %rd1;
	mul.wide.s32 %rd4, %r5, 16;
	add.s64 %rd5, %rd3, %rd4;
	cvta.to.global.u64 %rd6, %rd2;
	add.s64 %rd7, %rd6, %rd4;
	ld.global.u64 %rd8, [%rd5];
	ld.global.u64 %rd9, [%rd5+8];
	ld.global.nc.u64 %rd10, [%rd7];
	ld.global.nc.u64 %rd11, [%rd7+8];
	add.s64 %rd12, %rd8, %rd10;
	add.s64 %rd13, %rd9, %rd11;
	ld.global.nc.u64 %rd10, [%rd7+16];
	add.s64 %rd12, %rd12, %rd10;
	ld.global.nc.u64 %rd11, [%rd7+24];
	add.s64 %rd13, %rd13, %rd11;
	st.global.u64 [%rd5], %rd12;
	st.global.u64 [%rd5+8], %rd13;
DONE:
	ret;
}
"""
)
"""Records of two words, each with those of the next lane."""


def test_shuffles_that_do_not_pay_are_no_obstacle(programs: None, runs: Counter[str]) -> None:
    """With shuffles in it no branch could be added, and vectors take one. So shuffles are weighed
    before vectors are looked for."""
    _, kernel, decision = auto(RECORDS)
    assert names(kernel) == {"vectorize"} and decision.kept
    assert decision.before is not None and decision.after is not None
    assert decision.after.wavefronts < 0.75 * decision.before.wavefronts
    (reason,) = {r.reason for r in kernel.refusals or () if r.rewrite == "shuffle"}
    assert reason.startswith("no clear gain in ptxas's output: ")
    assert runs["ptxas"] == 2


def test_loads_over_stores_are_made_where_they_pay(programs: None, runs: Counter[str]) -> None:
    """`b[i]` of a loop over stores is loaded once."""
    made, kernel, decision = auto(LOOP)
    assert names(kernel) == {"read-only-loads"} and decision.kept
    assert "ld.global.nc.f32" in made
    assert runs == {"ptxas": 1}  # both texts at once


def test_two_runs_are_the_most(programs: None, runs: Counter[str]) -> None:
    auto(twice_loaded())
    assert runs == {"ptxas": 2}


@pytest.mark.parametrize("program", ["alignment"])
def test_a_permutation_that_does_not_pay_is_not_run(
    programs: None, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    """What it asks of memory follows from the permutation."""
    ran: list[str] = []

    def emulated(module: Module, *args: Any, **more: Any) -> Trace:
        ran.append(module.source.text)
        return emulate(module, *args, **more)

    monkeypatch.setattr(passes, "emulate", emulated)
    made, kernel, decision = auto(text_of(program))
    assert made == text_of(program) and not decision.kept
    assert "bank-conflicts" in {r.rewrite for r in kernel.refusals or ()}
    assert len(ran) == 1


PERMUTED = [
    path.stem
    for path in sorted(PROGRAMS.glob("*.ptx"))
    if ".shared" in path.read_text()
    and not path.stem.endswith("-padded")
    # Left alone: accesses may leave their arrays, nothing conflicts, a function is called.
    and path.stem not in ("staged", "buffers", "called")
]


@pytest.mark.parametrize("block", [None, (32, 8, 1), (64, 1, 1), (20, 3, 1)])
@pytest.mark.parametrize("program", PERMUTED)
def test_what_is_foreseen_of_a_permutation_is_what_a_run_tells(
    program: str, block: tuple[int, int, int] | None
) -> None:
    text = text_of(program)
    # Of arrays that are moved one by one no address tells whether it moves: those texts are run.
    options = Options(
        mode="force", rewrites=("bank-conflicts",), arch="sm_80", block=block,
        assume=DEFAULT_ASSUME - {IN_ARRAYS},
    )  # fmt: skip
    result = optimize(text, options)
    old, new = (emulate(m, m.kernels[0]) for m in (parse(text), parse(result.text)))
    (change,) = result.report.kernels[0].rewrites or ()
    permutation = told_permutation(change.detail or {}, old)
    foreseen = permuted(wavefronts_of(old, block), old.cfg, new.cfg, permutation)
    assert foreseen == wavefronts_of(new, block)


def told_permutation(detail: Mapping[str, Any], trace: Trace) -> Permutation:
    """The one of which a report says `a ^ ((a >> 3 ^ a >> 4) & 0x70)`."""
    *shifts, mask = re.findall(r">> (\d+)|& (0x[0-9a-f]+)", detail["permutation"])
    dynamic = tuple(a.name for a in shared_arrays(trace) if a.is_dynamic)
    return Permutation(tuple(int(shift) for shift, _ in shifts), int(mask[1], 16), dynamic)


def test_nothing_is_foreseen_of_other_accesses() -> None:
    text = text_of("lu")
    other = text.replace("ld.shared.f32 \t%f27, [%r44];", "mov.f32 \t%f27, 0f00000000;")
    old, new = (emulate(m, m.kernels[0]) for m in (parse(text), parse(other)))
    assert len(old.accesses) == len(new.accesses) + 1
    assert permuted(wavefronts_of(old, None), old.cfg, new.cfg, Permutation((4,), 120)) is None


def test_what_was_counted_is_remembered(programs: None, runs: Counter[str], cache: Path) -> None:
    first = auto(LOOP)[0]
    assert [path.name.startswith("counted-") for path in cache.iterdir()] == [True]
    runs.clear()
    assert auto(LOOP)[0] == first
    assert not runs


def test_nothing_to_decide_starts_nothing(runs: Counter[str]) -> None:
    text = LOOP.replace("ld.global.f32 %f1, [%rd5];", "mov.f32 %f1, %f2;")
    result = optimize(text, Options(arch="sm_80"))
    assert result.text == text and not runs
    assert result.report.kernels[0].decision is None


def test_force_asks_nobody(runs: Counter[str]) -> None:
    result = optimize(text_of("dct"), Options(mode="force", rewrites=("vectorize",)))
    assert result.report.kernels[0].decision is None and not runs


def test_without_ptxas_the_rewrites_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """What only ptxas knows the cost of is left alone; the reason says what to install."""
    monkeypatch.setenv("PTXSW_REAL_PTXAS", "/nowhere/ptxas")
    _, kernel, decision = auto(text_of("chunks"))
    assert names(kernel) == {"vectorize"}
    assert decision.kept and decision.by == "counts" and decision.before is None
    assert "install nvidia-cuda-nvcc with pip" in decision.reason
    result = optimize(LOOP, Options(arch="sm_80"))
    assert result.text == LOOP
    (reason,) = {r.reason for r in result.report.kernels[0].refusals or () if "ptxas" in r.reason}
    assert reason.startswith("its register cost is not known: no ptxas found")


@pytest.mark.parametrize(
    ("worths", "kept"),
    [
        ([Worth(-1.0)], 1),
        ([Worth(0.0)], 0),
        ([Worth(50.0)], 0),
        ([Worth(6.0, -2.0)], 1),  # an SM issues four instructions in the time of a wavefront
        ([Worth(8.0, -2.0)], 0),
        ([Worth(0.0), Worth(-1.0)], 2),
        ([Worth(-1.0), Worth(50.0)], 1),
        ([Worth(50.0), Worth(-99.0)], 0),
        ([Worth(-1.0), None, Worth(-1.0)], 1),  # what the second one costs, only ptxas knows
        ([None], 0),
    ],
)
def test_without_ptxas_only_what_pays_by_its_own_counts_stays(
    worths: list[Worth | None], kept: int
) -> None:
    """Each text holds the changes of all before it."""
    module = parse(LOOP)

    def trace() -> NoReturn:
        raise AssertionError("nobody has to run it")

    texts = [WeighedText(module, trace)]
    texts += [WeighedText(module, trace, None if w is None else w.cycles) for w in worths]
    with pytest.raises(StopIteration) as end:
        next(CostGate("k", "sm_60", None).choose(texts, 0))
    assert end.value.value.kept == kept
    assert end.value.value.decision.kept == (kept > 0)


@pytest.mark.parametrize("error", [TimeoutError("took too long"), OSError("no memory")])
def test_a_ptxas_that_fails_is_as_none(
    programs: None, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(sass, "assemble", fails)
    made, _, decision = auto(LOOP)
    assert made == LOOP and not decision.kept and decision.by == "counts"
    made, kernel, decision = auto(text_of("chunks"))
    assert names(kernel) == {"vectorize"} and decision.kept
    assert f"ptxas could not be run: {error}" in decision.reason


def test_what_takes_too_long_is_left_alone(programs: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine is no reason to make what nobody has weighed."""

    def slow(*_: object, **__: object) -> None:
        raise subprocess.TimeoutExpired(["/bin/ptxas", "-v"], 20.0)

    monkeypatch.setattr(sass, "assemble", slow)
    made, _, decision = auto(text_of("chunks"))
    assert made == text_of("chunks") and not decision.kept
    assert decision.reason == "ptxas took more than 20 s for its code"


def test_what_ptxas_refuses_is_left_alone(programs: None) -> None:
    """As GCC's texts are that call functions they do not declare."""
    text = text_of("chunks").replace("\tret;", "\tcall.uni nowhere;\n\tret;")
    made, _, decision = auto(text)
    assert made == text and not decision.kept
    assert decision.reason.startswith("ptxas rejects it: ")


def test_code_that_nvdisasm_cannot_read_is_left_alone(
    programs: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ptxas has spoken, and what it said is not known: the rewrites' own counts are no answer."""

    def crashes(*given: Any, **more: Any) -> Any:
        raise disassembly.NoNvdisasm("nvdisasm cannot read this cubin (it ended with status -11)")

    monkeypatch.setattr(disassembly, "disassemble", crashes)
    monkeypatch.setattr(sass, "_decoded", lambda cubin: None)
    made, _, decision = auto(text_of("chunks"))
    assert made == text_of("chunks") and not decision.kept
    assert decision.reason.endswith("nvdisasm cannot read this cubin (it ended with status -11)")


def test_a_target_that_ptxas_does_not_know(programs: None) -> None:
    """CUDA 13 has left out what comes before sm_75: no fault of the rewrite."""
    if ptxas.version(ptxas.locate()).split(".")[0] != "13":
        pytest.skip("another ptxas may know it")
    reason = (
        "their register cost is not known: ptxas does not support sm_70: "
        "name one that does in PTXSW_REAL_PTXAS, or another target with --arch"
    )
    _, kernel, decision = auto(text_of("chunks").replace("sm_80", "sm_70"), arch="sm_70")
    assert names(kernel) == {"vectorize"} and (decision.kept, decision.by) == (True, "counts")
    assert decision.reason == f"by the rewrites' own counts; {reason}"


@pytest.mark.parametrize("arch", ["sm_60", "sm_999"])
def test_targets_whose_code_is_not_read(arch: str) -> None:
    assert cannot_count(arch) is not None


# ---------------------------------------------------------------- the rule


def cost(
    memory: float = 100, issue: float = 100, waits: tuple[float, float] = (0, 0), **more: object
) -> Account:
    """Cycles of the memory pipe and of the issue slots, and those that a warp waits."""
    cases = tuple(Case({"wavefronts": memory, "issue slots": issue}, one) for one in waits)
    given = {"registers": 32, "local": 0, "shared": 0, "occupancy": {256: 1.0}, "warps": 64,
             "instructions": exactly(400.0), "wavefronts": exactly(100.0),
             "cases": cases}  # fmt: skip
    return Account(**{**given, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        ({"memory": 90, "issue": 90}, True),
        ({"memory": 100.5, "issue": 79.5}, True),
        ({"memory": 102, "issue": 48}, False),  # the busiest takes longer
        ({"memory": 96, "issue": 96}, False),  # too little
        ({"memory": 50, "issue": 50, "registers": 30}, True),
        # 6400 or 6800 cycles of waiting are shared by 64 warps: 50 + 50 + 100 cycles are no more
        # than before, 206 are, if loads go to memory.
        ({"memory": 50, "issue": 50, "waits": (64, 6400)}, True),
        ({"memory": 50, "issue": 50, "waits": (64, 6800)}, False),
        # With fewer warps, or spills, both are not enough: 50 + 50 cycles are not below 100.
        ({"memory": 50, "issue": 50, "occupancy": {256: 0.75}}, False),
        ({"memory": 50, "issue": 50, "local": 8}, False),
        # The upper end, 20 + 50 cycles, is below the lower end, 100.
        ({"memory": 20, "issue": 50, "occupancy": {256: 0.75}}, True),
        ({"memory": 20, "issue": 50, "local": 8}, True),
        # 640 to 6400 cycles of waiting are shared by 48 warps: 13 to 133 cycles.
        ({"memory": 20, "issue": 50, "waits": (640, 640), "occupancy": {256: 0.75}}, True),
        ({"memory": 20, "issue": 50, "waits": (640, 6400), "occupancy": {256: 0.75}}, False),
    ],
)
def test_what_is_kept(change: dict[str, object], kept: bool) -> None:
    decision = decide(cost(), cost(**change))  # type: ignore[arg-type]
    assert decision.kept is kept
    if kept and {"occupancy", "local"} & change.keys():
        assert decision.reason.startswith("although ptxas ")


def test_what_cannot_differ_cancels() -> None:
    """Of two texts that are as busy with memory only the rest is compared."""
    old = {"memory": 500.0, "banks": 100.0, "issue": 10.0}
    assert gains({"memory": 500.0, "banks": 10.0, "issue": 15.0}, old)
    assert not gains({"memory": 501.0, "banks": 10.0, "issue": 15.0}, old)
    assert not gains({"memory": 500.0, "banks": 80.0, "issue": 10.0}, old)  # 4 % of the whole
    assert not gains(old, old)


def test_min_gain_is_what_has_to_be_gained() -> None:
    other = cost(memory=90, issue=90)
    assert decide(cost(), other, 0.1).kept and not decide(cost(), other, 0.11).kept


def test_figures_are_those_of_all_resources() -> None:
    """400 FMAs take a pipe of half the lanes 200 cycles, and 100 of the issue slots; 25 accesses of
    two wavefronts the memory pipe 50, for which a warp waits."""
    made = Counted(
        arch=80, registers=40, local=0, shared=0, pipes={"fma": 400.0}, uses=(Use(3, 4, 25.0),)
    )
    found = account(made, Wavefronts({}, {3: lanes(8)}), "sm_80", (256, 1, 1))
    assert found.wavefronts == exactly(50)
    assert found.ends == Ends(200, 350)
    assert {case.waits for case in found.cases} == {50} and found.resident_warps(256) == 48
    assert {case.cycles["fma"] for case in found.cases} == {200}
    assert found.occupancy == {256: 0.75}


def lanes(stride: int) -> tuple[tuple[int, ...], ...]:
    """What one warp asks for whose lanes are so many bytes from each other."""
    return (tuple(lane * stride for lane in range(32)),)


@pytest.mark.parametrize(
    ("stride", "width", "count"),
    [(0, 4, 1), (4, 4, 1), (8, 8, 2), (32, 4, 8), (32, 16, 8), (128, 4, 32)],
)
def test_wavefronts_of_global_memory(stride: int, width: int, count: int) -> None:
    """A line of 128 bytes at a time."""
    assert Wavefronts({}, {3: lanes(stride)}).of(3, width=width) == exactly(count)
    assert Wavefronts({}, {3: lanes(stride)}).of(4, width=width) == exactly(
        0
    )  # parameters, constants


@pytest.mark.parametrize(("width", "least"), [(1, 1), (4, 1), (8, 2), (16, 4)])
def test_what_is_not_known_lies_side_by_side_or_far_apart(width: int, least: int) -> None:
    assert Wavefronts({}, {3: ()}).of(3, width=width) == Interval(least, 32)
    assert Wavefronts({3: ()}, {}).of(3, width=width) == Interval(least, 32)


def test_no_text_gains_by_being_easier_to_understand() -> None:
    """The load of line 7 is instruction 3 before and 5 after; only after is its stride known. What
    is known of that of line 8 stays."""
    before = Wavefronts({}, {3: (), 4: lanes(4)})
    after = Wavefronts({}, {5: lanes(4), 6: lanes(8)})
    old, new = alike(before, {3: 7, 4: 8}.__getitem__, after, {5: 7, 6: 8}.__getitem__)
    assert (set(old.unknown), set(new.unknown)) == ({3}, {5})
    assert (old.of(4, width=4), new.of(6, width=4)) == (exactly(1), exactly(2))
    new, old = alike(after, {5: 7, 6: 8}.__getitem__, before, {3: 7, 4: 8}.__getitem__)
    assert (set(old.unknown), set(new.unknown)) == ({3}, {5})


def test_both_ends_of_what_is_not_known_have_to_gain() -> None:
    """Two loads of lanes anywhere become one: a gain, wherever they are. An access that is only
    made less often where it is scattered is none."""
    counts = Counted(
        arch=80, registers=32, local=0, shared=0, pipes={"alu": 8.0},
        uses=(Use(3, 4, 100.0), Use(4, 4, 100.0)),
    )  # fmt: skip
    once = structs.replace(counts, uses=counts.uses[:1])
    wide = structs.replace(counts, uses=(Use(3, 8, 100.0),))
    before, one, vector = (
        account(each, Wavefronts({}, {3: (), 4: ()}), "sm_80", (256, 1, 1))
        for each in (counts, once, wide)
    )
    assert decide(before, one).kept and not decide(before, vector).kept
    assert "wavefronts at least 200 to 100," in decide(before, one).reason


def test_a_row_chosen_in_memory(programs: None) -> None:
    """Which row of a table is added stands in memory, and only behind `.nc` it is sure that all
    lanes read the same. The loop stays what it was, so nothing is gained, though the other copy of
    the kernel would be."""
    text = (Path(__file__).parent / "programs" / "indexed_row.ptx").read_text()
    made, kernel, decision = auto(text)
    assert made == text and not decision.kept
    (reason,) = {r.reason for r in kernel.refusals or () if r.rewrite == "read-only-loads"}
    assert "wavefronts 49 to 49" in reason


def test_one_run_serves_texts_that_differ_in_the_kernel(programs: None) -> None:
    """And gives what runs of their own give, the names of the copies aside."""
    other = LOOP.replace("mul.f32 %f3, %f1, %f2;", "add.f32 %f3, %f1, %f2;")
    modules = [parse(LOOP), parse(other)]
    assert differ_in_one_kernel(modules, "k")
    tools = counted.tools("sm_80")
    at_once = count(Question(tuple(modules), "k", "sm_80"), tools)
    alone = (count(Question((module,), "k", "sm_80"), tools) for module in modules)
    assert at_once == tuple(each for (each,) in alone)
    moved = parse(LOOP.replace(".visible", ".shared .b32 x[4];\n.visible"))
    assert not differ_in_one_kernel([modules[0], moved], "k")


# ---------------------------------------------------------------- several kernels


def module_of(*bodies: str) -> str:
    """The kernels of some modules as one module, under names of their own."""
    head = bodies[0][: bodies[0].index(".visible")]
    renamed = (
        body[body.index(".visible") :].replace(" k(", f" k{number}(")
        for number, body in enumerate(bodies)
    )
    return head + "\n".join(f"// the next one\n{body}" for body in renamed)


LOADS = (
    head()
    + """.visible .entry k(.param .align 16 .u64 .ptr .global .align 16 a)
{
	.reg .b32 %r<8>;
	.reg .b64 %rd<8>;
	ld.param.u64 %rd1, [a];
	cvta.to.global.u64 %rd1, %rd1;
	ld.global.u32 %r1, [%rd1];
	ld.global.u32 %r2, [%rd1+4];
	add.s32 %r1, %r1, %r2;
	st.global.u32 [%rd1+8], %r1;
	ret;
}
"""
)
SLOWER = LOOP.replace("mul.f32 %f3, %f1, %f2;", "div.rn.f32 %f3, %f1, %f2;")


def questions(text: str) -> list[Question]:
    """One for each kernel of a text, alone in its module."""
    excerpts, kernels = Excerpts(parse(text)), parse(text).kernels
    modules = [(excerpts.of(kernel).module, kernel.name) for kernel in kernels]
    return [Question((module,), name, "sm_80") for module, name in modules]


DEVICE = """.func (.reg .b32 %out) NAME(.reg .b32 %in)
{
	add.s32 %out, %in, 1; mul.lo.s32 %out, %out, %in;
	ret;
}
"""


def test_functions_stand_where_they_are_said_to() -> None:
    """Those of several texts in one, the kernel under longer names, and what stands around it."""
    start = LOOP.index(".visible")
    device = [DEVICE.replace("NAME", name) for name in ("before", "behind")]
    text = LOOP[:start] + device[0] + LOOP[start:] + device[1]
    changed = text.replace("ld.global.f32", "ld.global.nc.f32")
    asked = Question((parse(text), parse(changed)), "k", "sm_80")
    whole = combined([asked, *questions(module_of(SLOWER, LOADS))])
    assert [f.name for f in whole.functions if not f.asked] == ["before", "behind"]
    assert [f.name for f in whole.functions if f.asked][:2] == ["k", "k$sw1"]
    sources = [
        text,
        changed,
        *(q.texts[0].source.text for q in questions(module_of(SLOWER, LOADS))),
    ]
    sources += [text, text]
    for placed, source in zip(whole.functions, sources, strict=True):
        assert whole.text.count(f"{placed.name}(") == 1
        for one in placed.function.body.instructions:
            there = whole.text[one.start + placed.offset : one.end + placed.offset]
            assert there == source[one.start : one.end] and there.endswith(";")


def test_many_kernels_are_asked_about_at_once(programs: None, runs: Counter[str]) -> None:
    """What is decided about each is what is decided about it alone."""
    again = "st.global.u32 [%rd1+8], %r1;"
    more = f"{again}\n\tld.global.u32 %r3, [%rd1];\n\tst.global.u32 [%rd1+12], %r3;"
    text = module_of(LOOP, SLOWER, LOADS.replace(again, more))
    whole = optimize(text, Options())
    assert runs == {"ptxas": 2}  # the last kernel is weighed twice
    for kernel in whole.report.kernels:
        runs.clear()
        (alone,) = optimize(text, Options(only=kernel.name)).report.kernels
        assert not runs  # each is remembered by itself
        assert alone == kernel
    assert [k.decision is not None for k in whole.report.kernels] == [True, True, True]
    assert len({str(k.decision.before) for k in whole.report.kernels if k.decision}) == 3


def test_answers_together_are_those_of_each(programs: None, cache: Path) -> None:
    """On what a compiler wrote."""
    asked = questions(many_kernels(25))[::5]
    assert list(together(asked)) == [[*range(5)]]
    at_once = counted.answers(asked, counted.tools("sm_80"))
    for path in cache.iterdir():
        path.unlink()
    assert at_once == [count(question, counted.tools("sm_80")) for question in asked]


def test_one_that_ptxas_refuses_spoils_no_other(programs: None, runs: Counter[str]) -> None:
    """All are asked about again, each by itself."""
    asked = questions(module_of(LOOP, LOADS.replace("st.global.u32 [%rd1+8]", "st.shared.u32 [1]")))
    good, bad = counted.answers(asked, counted.tools("sm_80"))
    assert runs == {"ptxas": 3}
    assert not isinstance(good, NotCounted)
    assert isinstance(bad, counted.RefusedByPtxas) and str(bad).startswith("ptxas rejects it: ")


@pytest.mark.parametrize(
    "changed",
    [
        lambda text: text.replace(
            ".visible", ".shared .b32 x[4];\n.visible", 1
        ),  # it lays these out
        lambda text: text.replace("ret;", "call.uni f;\n\tret;"),  # and may inline this
    ],
)
def test_some_kernels_are_asked_about_alone(changed: Callable[[str], str]) -> None:
    text = module_of(LOOP, SLOWER)
    assert list(together(questions(text))) == [[0, 1]]
    assert list(together(questions(changed(text)))) == [[0], [1]]


def test_a_file_for_ptxas_has_an_end() -> None:
    body = "\tadd.f32 %f1, %f1, %f1;\n" * 2000
    long = LOOP.replace("\tret;", f"{body}\tret;")
    groups = list(together(questions(module_of(*[long] * 5))))
    assert groups == [[0, 1], [2, 3], [4]]


def test_tools_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTXSW_REAL_PTXAS", "/nowhere/ptxas")
    with pytest.raises(NotCounted, match="install nvidia-cuda-nvcc with pip"):
        counted.tools("sm_80")


def test_nvdisasm_is_asked_for_where_it_is_needed(
    programs: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Machine code is read from its bits from sm_80 on; before, and where the table of opcodes
    ends, nobody can say what a kernel costs."""

    def none() -> str:
        raise disassembly.NoNvdisasm("no nvdisasm found; install it")

    monkeypatch.setattr(disassembly, "locate", none)
    assert cannot_count("sm_80") is None
    assert cannot_count("sm_70") == "no nvdisasm found; install it"
    _, kernel, decision = auto(text_of("chunks"))
    assert names(kernel) == {"vectorize"} and (decision.kept, decision.by) == (True, "ptxas")
    monkeypatch.setenv("PTXSW_CACHE", "off")
    monkeypatch.setattr(sass, "_decoded", lambda cubin: None)
    _, kernel, decision = auto(text_of("chunks"))
    assert names(kernel) == {"vectorize"} and (decision.kept, decision.by) == (True, "counts")
    assert decision.reason == (
        "by the rewrites' own counts; their register cost is not known: its code has "
        "instructions that only nvdisasm knows: `pip install 'ptxsw[sass]'` brings it"
    )


def test_the_command_says_why(programs: None, tmp_path: Path, cache: Path) -> None:
    program = Path(sys.executable).parent / "ptxsw"
    source, out = str(PROGRAMS / "chunks.ptx"), str(tmp_path / "out.ptx")
    command = [str(program), "optimize", source, "-o", out]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert "kept by ptxas's output: instructions " in done.stdout
