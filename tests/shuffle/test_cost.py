"""How variants of a rewrite are put in order: what is counted, and the cycles that it takes."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from benchmarks.kernelgen import operators
from ptxsw.analysis.divergence import divergent_regions
from ptxsw.changes.assumptions import LOCKSTEP, NO_RACE
from ptxsw.changes.options import Options
from ptxsw.cost.count import Added, Counter, issue_slots, slots
from ptxsw.cost.ranking import CacheRequest, Figures, Scale, Wait, of_arch
from ptxsw.driver.pipeline import optimize
from ptxsw.emulator.run import emulate
from ptxsw.parser import parse
from ptxsw.rewrites import planning
from ptxsw.shuffle.candidate_plan import find
from ptxsw.shuffle.combine import groups
from ptxsw.shuffle.legality import Legality
from ptxsw.shuffle.uniform_loops import LoopChoices
from ptxsw.terms.solver import Solver
from tests.real import FIXTURES, text_of

PTX = Path(operators.__file__).parent / "ptx"


def test_no_gpu_stands_for_it() -> None:
    assert of_arch("sm_999") is None and of_arch(None) is None and of_arch("x") is None


def test_a_target_without_limits_is_rewritten_without_a_model() -> None:
    """Clang's OpenCL names sm_30, of which no occupancy limits are written down."""
    assert of_arch("sm_30") is None
    text = text_of(FIXTURES[0].parent / "clang_opencl_O2_sm_60.ptx")
    old = text.replace(".target sm_60", ".target sm_30")
    assert old != text and optimize(old, Options()).report.kernels


def test_only_the_file_that_is_asked_for_is_read() -> None:
    program = (
        "import sys; from ptxsw.cost.ranking import of_arch;"
        "print('tomllib' in sys.modules); of_arch('sm_80');"
        "print(*sorted({'numpy', 'z3', 'lark'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["False", ""]


# ---------------------------------------------------------------- cycles


def _scale(arch: str) -> Scale:
    found = of_arch(arch)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("arch", "request_", "passes"),
    [
        ("sm_52", CacheRequest(4, 32, 4, 1), 2.8),  # 8 to 16 lanes at a time
        ("sm_52", CacheRequest(8, 32, 8, 2), 5.7),
        ("sm_52", CacheRequest(4, 1, 1, 1), 0.7),
        ("sm_80", CacheRequest(4, 32, 4, 1), 1.0),  # 124 to 128 bytes
        ("sm_80", CacheRequest(4, 32, 5, 2), 1.3),  # a misaligned one touches a fifth sector
        ("sm_80", CacheRequest(4, 32, 32, 32), 8.1),
        ("sm_80", CacheRequest(2, 32, 2, 1), 1.0),
    ],
)
def test_passes_through_the_cache(arch: str, request_: CacheRequest, passes: float) -> None:
    assert _scale(arch).passes(request_) == pytest.approx(passes, abs=0.05)


def test_each_bound_counts() -> None:
    volta = _scale("sm_70")
    base = Figures(100, 4, 0, {CacheRequest(4, 32, 4, 1): 10.0}, {1: (1.0, Wait(loads=1))}, 256)
    more = [
        Figures(issued=100), Figures(shuffles=100), Figures(unsure=10), Figures(memory=4096),
        Figures(requests={CacheRequest(4, 32, 4, 1): 50.0}), Figures(waits={2: (99.0, Wait(9, 9))}),
    ]  # fmt: skip
    for one in more:
        assert volta.cycles(base.plus(one)) > volta.cycles(base)
    assert volta.cycles(Figures()) == 0


def test_waits_of_one_stretch_are_one() -> None:
    one = Figures(waits={1: (2.0, Wait(loads=1))})
    other = Figures(waits={1: (2.0, Wait(loads=1, shuffles=1)), 2: (1.0, Wait(loads=1))})
    assert one.plus(other).waits == other.waits


# ---------------------------------------------------------------- counting


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("mov.b32 %r1, %r2;", 0),
        ("add.s32 %r1, %r2, 1;\nadd.s64 %rd1, %rd2, %rd3; // shl.b32 in a comment;", 3),
        ("@%p1 ld.global.f32 %f1, [%rd1];\nmov.b64 {%r1, %r2}, %rd1;", 1),
        ("mad.wide.s32 %rd1, %r1, 4, %rd2;", 1),
        ("div.rn.f32 %f1, %f2, %f3;", 8),
        # A whole warp goes through the fast copy, and past the slow one.
        (
            "activemask.b32 %m; @%slow bra $slow;\nadd.s32 %a, %b, 1;\nbra.uni $done;\n"
            "$slow:\nadd.s32 %a, %b, 1;\nsub.s32 %c, %a, 1;\n$done:\nadd.s32 %a, %a, 1;",
            5,
        ),
    ],
)
def test_instructions_of_a_text(text: str, count: int) -> None:
    assert slots(text) == count


def test_a_copy_for_whole_warps_is_counted_alone() -> None:
    """The original lines become the slow copy between two edits: a whole warp goes past them."""
    module = parse(ARMS.replace("BRANCH", "").replace("AGAIN", ""))
    trace = emulate(module, module.functions[0])
    counter = Counter(trace, (0,) * len(trace.cfg.instructions))
    start = counter.text.index("ld.global.f32 %f1")
    end = counter.text.index("$SKIP")  # two loads and an addition
    fast = "@%slow bra $slow;\nld.global.f32 %f1, [%rd3];\nbra.uni $done;\n$slow:\n"
    assert counter.lines([Added(start, start, fast), Added(end, end, "$done:\n")]) == [3, -3]
    assert counter.lines([Added(start, end, "")]) == [-3]


def test_instruction_names() -> None:
    assert [issue_slots(n) for n in ("ld.global.u64", "fma.rn.f64", "mul.lo.s64", "bra")] == [
        1, 1, 4, 1,
    ]  # fmt: skip


@cache
def _ratios(name: str) -> dict[tuple[str, str], dict[str, float]]:
    """By scheme and form, then architecture: how many times as fast it is by counts."""
    text = (PTX / f"{name}.ptx").read_text()
    module = parse(text)
    solver = Solver()
    trace = emulate(module, module.functions[0], solver=solver)
    judge = Legality(trace, solver, frozenset({LOCKSTEP, NO_RACE}))
    ways = [(s, f) for f in ("keep", "versioned") for s in ("paper", "early", "halo")]
    drafts, _ = planning._drafts(
        trace, judge, Options(mode="force"), None, ways, LoopChoices((), ()),
        find(trace, 31, judge), weighed=False,
    )  # fmt: skip
    counter = Counter(trace, drafts[0].plan.segments)
    original = counter.original()
    found = groups(drafts)
    result = {}
    for draft in drafts:
        rows = planning._variants_of(counter, draft, found)
        new = original.plus(*[way.added for way in rows if way is not None])
        result[draft.scheme, draft.form] = {
            arch: _scale(arch).cycles(original) / _scale(arch).cycles(new)
            for arch in ("sm_35", "sm_52", "sm_70", "sm_80", "sm_90")
        }
    return result


OPERATORS = [
    "divergence", "gameoflife", "gaussblur", "gradient", "jacobi", "lapgsrb", "laplacian",
    "tricubic", "tricubic2", "uxx1", "wave13pt", "whispering",
]  # fmt: skip


@pytest.mark.parametrize("arch", ["sm_70", "sm_80", "sm_90"])
def test_no_gain_is_seen_from_volta_on(arch: str) -> None:
    """As nobody has measured one: a shuffle and the load of the edge take as much as the load."""
    assert all(by[arch] < 1.01 for name in OPERATORS for by in _ratios(name).values())


def test_gaussblur_gains_on_maxwell_as_measured() -> None:
    """CC'23: 132%. Loads go 8 to 16 lanes at a time there, and shuffles past them."""
    assert _ratios("gaussblur")["paper", "keep"]["sm_52"] > 1.2


# ---------------------------------------------------------------- divergent flow


ARMS = """
.version 7.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 a, .param .u32 n)
{
    .reg .pred %p<9>;
    .reg .b32 %r<9>;
    .reg .f32 %f<9>;
    .reg .b64 %rd<9>;
    ld.param.u64 %rd1, [a];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x;
    setp.ge.u32 %p1, %r2, %r1;
    @%p1 bra $END;
    mul.wide.u32 %rd2, %r2, 4;
    add.s64 %rd3, %rd1, %rd2;
    BRANCH
    ld.global.f32 %f1, [%rd3];
    ld.global.f32 %f2, [%rd3+4];
    add.f32 %f3, %f1, %f2;
    AGAIN
$SKIP:
    st.global.f32 [%rd3+4096], %f3;
$END:
    ret;
}
"""


@pytest.mark.parametrize(
    ("branch", "again", "in_an_arm"),
    [
        ("", "", False),  # behind an early exit
        ("and.b32 %r3, %r2, 1; setp.eq.u32 %p2, %r3, 0; @%p2 bra $SKIP;", "", True),
        ("setp.eq.u32 %p2, %r1, 7; @%p2 bra $SKIP;", "", False),  # uniform
        (  # a loop whose trip count varies, and the test before it
            "mov.u32 %r4, %r2; setp.gt.u32 %p2, %r4, 90; @%p2 bra $SKIP;\n$LOOP:",
            "add.u32 %r4, %r4, 32; setp.lt.u32 %p3, %r4, 90; @%p3 bra $LOOP;",
            False,
        ),
        (  # a uniform loop in an arm
            "mov.u32 %r4, 0; setp.gt.u32 %p2, %r2, 90; @%p2 bra $SKIP;\n$LOOP:",
            "add.u32 %r4, %r4, 1; setp.lt.u32 %p3, %r4, %r1; @%p3 bra $LOOP;",
            True,
        ),
    ],
    ids=["early exit", "if", "uniform if", "loop", "loop in an if"],
)
def test_arms_of_divergent_ifs(branch: str, again: str, in_an_arm: bool) -> None:
    text = ARMS.replace("BRANCH", branch).replace("AGAIN", again)
    module = parse(text)
    trace = emulate(module, module.functions[0])
    loads = [a.index for a in trace.accesses if a.kind == "load" and a.space == "global"]
    assert len(loads) == 2
    arms = divergent_regions(trace)
    assert {trace.cfg.block_of[index] in arms for index in loads} == {in_an_arm}
