"""From options to plans: what is drafted, and what decides."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from benchmarks.kernelgen import operators
from ptxsw.changes.options import FORMS, SCHEMES, Options
from ptxsw.cost.counted import cannot_count
from ptxsw.driver.pipeline import analyze, optimize
from ptxsw.parser import parse
from ptxsw.report import from_json, schema, to_json
from ptxsw.report.model import Kernel
from ptxsw.report.text import optimization_text
from ptxsw.rewrites import joint
from ptxsw.shuffle.candidate_plan import CandidatePlan, draft
from ptxsw.toolchain import tuned
from tests.analysis.test_divergence import ARMS
from tests.shuffle.judged import KERNEL
from tests.shuffle.pairs import PAIRS

PTX = Path(operators.__file__).parent / "ptx"


def text_of(name: str) -> str:
    return (PTX / f"{name}.ptx").read_text()


def kernel_of(name: str, **options: object) -> Kernel:
    (kernel,) = optimize(text_of(name), Options(**options)).report.kernels  # type: ignore[arg-type]
    return kernel


def styles(kernel: Kernel) -> set[tuple[str | None, str | None]]:
    return {(r.scheme, r.form) for r in kernel.rewrites or ()}


# ---------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "maybe"}, "mode is 'maybe'; it can be auto, force"),
        ({"scheme": "x"}, f"scheme is 'x'; it can be {', '.join(SCHEMES)}"),
        ({"form": "x"}, f"form is 'x'; it can be {', '.join(FORMS)}"),
        ({"max_delta": 32}, "max_delta is 32; it can be 0 to 31"),
        ({"arch": "gfx90a"}, "arch is 'gfx90a'; it must be a name such as sm_80"),
        ({"min_gain": -1.0}, "min_gain is -1; it must be 0 or more percent"),
        ({"min_gain": float("nan")}, "min_gain is nan; it must be 0 or more percent"),
        (
            {"min_gain": 3.0, "mode": "force"},
            "min_gain is for mode auto: force rewrites whatever is proved",
        ),
        ({"assume": frozenset({"luck"})}, "unknown assumption 'luck'"),
    ],
)
def test_what_makes_no_sense(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError) as error:
        Options(**options)  # type: ignore[arg-type]
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("options", "style"),
    [
        ({}, ("paper", "uniform")),
        ({"arch": "sm_60"}, ("paper", "keep")),
        ({"scheme": "paper"}, ("paper", "keep")),
        ({"scheme": "paper", "form": "versioned"}, ("paper", "versioned")),
        ({"scheme": "halo"}, ("halo", "uniform")),
        ({"scheme": "halo", "arch": "sm_60"}, ("halo", "keep")),
        ({"scheme": "early", "rewrites": ("shuffle",)}, ("early", "keep")),
        ({"form": "keep"}, ("paper", "keep")),
    ],
)
def test_what_auto_stands_for(options: dict[str, object], style: tuple[str, str]) -> None:
    """In a loop that lanes leave apart each shuffle would be a call on sm_80, but in form uniform.
    Before Volta a warp has one program counter."""
    kernel = kernel_of("gaussblur", mode="force", **options)
    assert kernel.shuffles == 20 and styles(kernel) == {style}


# ---------------------------------------------------------------- what decides


def test_force_with_names_does_as_it_is_told() -> None:
    for scheme in ("paper", "early", "halo"):
        for form in ("keep", "versioned"):
            kernel = kernel_of("gaussblur", mode="force", scheme=scheme, form=form)
            assert kernel.shuffles == 20 and styles(kernel) == {(scheme, form)}
            assert kernel.choice is not None and kernel.choice.by == "asked"
    assert styles(kernel_of("gaussblur", mode="force", scheme="paper")) == {("paper", "keep")}


def reasons_of_shuffles(kernel: Kernel) -> list[str]:
    """Why loads stay; loops have reasons of their own."""
    return [r.reason for r in kernel.refusals or () if r.rewrite == "shuffle"]


UNKNOWN_COST = "the register cost of shuffles is not known: "


@pytest.mark.parametrize(
    ("arch", "reason"),
    [
        ("sm_35", f"{UNKNOWN_COST}ptxsw cannot read machine code for sm_35; force rewrites it"),
        ("sm_52", f"{UNKNOWN_COST}ptxsw cannot read machine code for sm_52; force rewrites it"),
        ("sm_80", joint._NO_WAVEFRONT_LESS),
        ("sm_90a", joint._NO_WAVEFRONT_LESS),
        ("sm_999", f"{UNKNOWN_COST}no limits are known for 'sm_999'"),
    ],
)
def test_auto_makes_no_shuffle_that_may_cost(arch: str, reason: str) -> None:
    """On the TITAN X (sm_52) jacobi was measured to take 1.15 times as long with shuffles. What
    ptxas makes of them for it cannot be told any more, so nothing is certain."""
    if "passes" in reason and cannot_count(arch):
        pytest.skip("no ptxas")
    kernel = kernel_of("gaussblur", arch=arch)
    assert kernel.shuffles == 0 and kernel.choice is not None
    assert kernel.choice.by == "model" and kernel.choice.reason.startswith(reason)
    assert set(reasons_of_shuffles(kernel)) == {kernel.choice.reason}


@pytest.mark.parametrize("arch", ["sm_35", "sm_80", "sm_999"])
def test_no_reason_is_given_for_shuffles_that_nobody_could_make(arch: str) -> None:
    """Of vecadd no mode makes shuffles, whatever they cost: ptxas need not be there."""
    kernel = kernel_of("vecadd", arch=arch)
    assert kernel.choice is not None
    assert kernel.choice.reason == "no load is known to read what another lane loads"
    forced = kernel_of("vecadd", arch=arch, mode="force")
    assert forced.shuffles == 0 and not reasons_of_shuffles(forced)


def test_auto_drafts_only_copies_where_no_shuffle_can_pay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[bool] = []
    real = draft

    def watched(*given: object, **named: object) -> CandidatePlan:
        asked.append(named["why_not"] is None)
        return real(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(joint, "draft", watched)
    kernel_of("gaussblur", arch="sm_60")
    assert asked == [False]
    monkeypatch.setattr(joint, "_hopeless", lambda *_: None)
    kernel_of("gaussblur", arch="sm_60")
    assert asked[1:] == [True]


STRIDED = KERNEL.format(directives="", body="""
	mul.wide.u32 %rd3, %r3, STRIDE;
	add.s64 %rd4, %rd1, %rd3;
	ld.global.nc.f32 %f1, [%rd4];
	ld.global.nc.f32 %f2, [%rd4+STRIDE];
	ld.global.nc.f32 %f3, [%rd4+2*STRIDE];
	add.f32 %f3, %f1, %f2;
	add.s64 %rd5, %rd2, %rd3;
	st.global.f32 [%rd5], %f3;
""")  # fmt: skip


def test_shuffles_are_weighed_as_all_that_is_rewritten() -> None:
    """Of loads that take more wavefronts than a shuffle and the load at the edge, what ptxas makes
    of the whole decides."""
    if cannot_count("sm_80"):
        pytest.skip("no ptxas")
    for stride, weighed in ((8, False), (16, True)):
        text = STRIDED.replace("2*STRIDE", str(2 * stride)).replace("STRIDE", str(stride))
        (kernel,) = optimize(text, Options(scheme="paper", arch="sm_80")).report.kernels
        assert kernel.shuffles == 0 and (kernel.decision is not None) == weighed
        if kernel.decision is None:
            assert kernel.choice is not None
            assert kernel.choice.reason.startswith(joint._NO_WAVEFRONT_LESS)
        else:
            assert "no clear gain in ptxas's output: " in kernel.decision.reason
            assert {r.reason for r in kernel.refusals or ()} == {kernel.decision.reason}


def test_copies_that_ptxas_makes_itself_are_left_to_it() -> None:
    """It merges two loads of one address where nothing is stored between them."""
    if cannot_count("sm_80"):
        pytest.skip("no ptxas")
    again = ARMS.replace("BRANCH", "").replace("[%rd3+4]", "[%rd3]").replace("AGAIN", "")
    (kernel,) = optimize(again, Options(mode="force", scheme="keep")).report.kernels
    assert (kernel.shuffles, kernel.copies) == (0, 1)
    for options in (Options(), Options(scheme="keep")):
        (kernel,) = optimize(again, options).report.kernels
        (refusal,) = kernel.refusals or ()
        assert (kernel.copies, refusal.rewrite) == (0, "load-elimination")
        assert "no clear gain in ptxas's output: instructions 11 to 11" in refusal.reason


def test_scheme_keep_says_so() -> None:
    kernel = kernel_of("jacobi", mode="force", scheme="keep")
    assert kernel.shuffles == 0 and kernel.choice is not None
    assert {r.reason for r in kernel.refusals or ()} == {"scheme keep only makes copies"}


def weightless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets mode auto draft shuffles wherever they are."""
    monkeypatch.setattr(joint, "_hopeless", lambda *_: None)
    monkeypatch.setattr(joint, "_exceeds_shuffles", lambda *_: True)


IF = "and.b32 %r3, %r2, 1; setp.eq.u32 %p2, %r3, 0; @%p2 bra $SKIP;"


@pytest.mark.parametrize(
    ("arch", "shuffles"), [("sm_60", 1), ("sm_75", 0), ("sm_89", 0), ("sm_90", 1)]
)
def test_arms_of_divergent_ifs_are_left_alone_where_shuffles_are_calls(
    arch: str, shuffles: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In mode auto, even if they are rated better; they are right, so force makes them."""
    weightless(monkeypatch)
    text = ARMS.replace("BRANCH", IF).replace("AGAIN", "")
    for scheme in ("auto", "paper", "early", "halo"):
        (made,) = optimize(text, Options("force", scheme, arch=arch)).report.kernels
        assert made.shuffles == 1
        (kernel,) = optimize(text, Options(scheme=scheme, arch=arch)).report.kernels
        called = f"in an arm of a divergent `if`, ptxas turns a shuffle into a call for {arch}"
        assert kernel.shuffles == 0
        assert (reasons(kernel) == [called]) == (not shuffles)


FAR = KERNEL.format(directives="", body="""
	mov.u32 %r7, ROW;
	mul.wide.u32 %rd3, %r7, 4096;
	mul.wide.u32 %rd4, %r3, 4;
	add.s64 %rd5, %rd1, %rd3;
	add.s64 %rd5, %rd5, %rd4;
	ld.global.nc.f32 %f1, [%rd5];
	ld.global.nc.f32 %f2, [%rd5+FAR];
	add.f32 %f3, %f1, %f2;
	add.s64 %rd6, %rd2, %rd4;
	st.global.f32 [%rd6], %f3;
""")  # fmt: skip


@pytest.mark.parametrize(
    ("row", "delta", "unlikely"),
    [("%tid.y", 16, True), ("%tid.y", -31, True), ("%tid.y", 15, False), ("%ctaid.y", 16, False)],
)
def test_far_lanes_in_two_dimensions_are_a_bad_bet(
    row: str, delta: int, unlikely: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of 16 threads are as usual as rows of 32, and in them no lane would be served."""
    weightless(monkeypatch)
    text = FAR.replace("ROW", row).replace("FAR", str(4 * delta))
    (kernel,) = optimize(text, Options()).report.kernels
    (refusal,) = kernel.refusals or ()
    reason = "lanes half a warp apart may be in different rows of the block: the kernel uses %tid.y"
    assert (refusal.reason == reason) == unlikely
    (kernel,) = optimize(text, Options(mode="force")).report.kernels
    assert kernel.shuffles == 1


def reasons(kernel: Kernel) -> list[str]:
    return [r.reason for r in kernel.refusals or ()]


CHAIN = KERNEL.format(directives="", body="""
	mul.wide.u32 %rd3, %r3, 4;
	add.s64 %rd4, %rd1, %rd3;
	ld.global.nc.f32 %f1, [%rd4];
	ld.global.nc.f32 %f2, [%rd4+4];
	ld.global.nc.f32 %f3, [%rd4+128];
	add.s64 %rd5, %rd2, %rd3;
	st.global.f32 [%rd5], %f3;
""")  # fmt: skip
SHUFFLED = "the source gets its own value by a shuffle"
HALF = "not every element of the vector has a source"


@pytest.mark.parametrize(
    ("text", "shuffles", "reason"),
    [(CHAIN, 1, SHUFFLED), (PAIRS["half_of_the_vector"].text("wrong"), 0, HALF)],
)
def test_one_load_one_reason(text: str, shuffles: int, reason: str) -> None:
    """The same in each mode and in `analyze`; of nothing that force leaves alone it is said that
    force rewrites it."""
    (forced,) = optimize(text, Options(mode="force", scheme="paper")).report.kernels
    assert forced.shuffles == shuffles and reasons(forced) == [reason]
    (kernel,) = analyze(text).kernels
    outlooks = [a.optimizer for a in kernel.accesses or () if a.optimizer is not None]
    assert [o.reason for o in outlooks if o.reason] == [reason]
    (kernel,) = optimize(text, Options()).report.kernels
    assert reasons(kernel)[-1] == reason
    assert [r.endswith("force rewrites it") for r in reasons(kernel)[:-1]] == [True] * shuffles


TWO_INDICES = KERNEL.format(directives="", body="""
	add.s32 %r7, %r1, %r3;
	add.s32 %r8, %r7, 1;
	mul.wide.s32 %rd3, %r8, 8;
	add.s64 %rd4, %rd1, %rd3;
	ld.global.nc.f64 %fd1, [%rd4];
	ld.global.nc.f64 %fd2, [%rd4+8];
	mul.wide.s32 %rd5, %r7, 8;
	add.s64 %rd6, %rd1, %rd5;
	ld.global.nc.f64 %fd3, [%rd6+8];
	add.f64 %fd4, %fd1, %fd2;
	add.f64 %fd4, %fd4, %fd3;
	mul.wide.u32 %rd7, %r3, 8;
	add.s64 %rd8, %rd2, %rd7;
	st.global.f64 [%rd8], %fd4;
""")  # fmt: skip


def test_a_load_outside_all_rows_has_a_reason_of_its_own() -> None:
    """Its neighbour holds the value only as a shuffle's result, and this lane's own load would
    do if the index did not wrap: that, and not how its neighbours were rated, is told."""
    (kernel,) = optimize(TWO_INDICES, Options(mode="force")).report.kernels
    assert kernel.shuffles == 1
    assert [r.reason for r in kernel.refusals or ()] == ["the index may wrap"]


def test_what_was_tuned_is_done(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    store = tmp_path / "tuned.json"
    monkeypatch.setenv("PTXSW_TUNED", str(store))
    text = text_of("gaussblur")
    (function,) = parse(text).functions
    own = text[function.span.start : function.span.end]

    def timed(scheme: str, form: str, speedup: float) -> Kernel:
        tuned.store(own, "sm_80", tuned.Tuned(scheme, form, speedup, "a GPU", "2026-01-02"))
        return kernel_of("gaussblur")

    kernel = timed("halo", "versioned", 1.25)
    assert kernel.shuffles == 20 and styles(kernel) == {("halo", "versioned")}
    assert kernel.choice is not None and kernel.choice.by == "tuned" and kernel.choice.gain == 25
    assert kernel_of("gaussblur", min_gain=30.0).shuffles == 0
    assert kernel_of("gaussblur", min_gain=20.0).shuffles == 20
    assert kernel_of("gaussblur", scheme="early").shuffles == 0
    kernel = timed("keep", "keep", 1.0)
    assert kernel.shuffles == 0
    assert set(reasons_of_shuffles(kernel)) == {
        "measured on a GPU (2026-01-02): nothing beats the original"
    }
    assert kernel_of("gaussblur", mode="force").shuffles == 20


# ---------------------------------------------------------------- uniform loops


def test_a_uniform_loop_needs_no_shuffle() -> None:
    result = optimize(text_of("jacobi"), Options(mode="force", scheme="keep", form="uniform"))
    (kernel,) = result.report.kernels
    assert kernel.shuffles == 0 and "vote.sync.any" in result.text
    (loop,) = kernel.loops or ()
    assert (loop.form, loop.reason) == ("uniform", None)
    assert {r.reason for r in kernel.refusals or ()} == {"scheme keep only makes copies"}
    assert "the loop at line 67 is uniform" in optimization_text(result.report)


@pytest.mark.parametrize("scheme", ["paper", "early", "halo"])
def test_shuffles_in_uniform_loops(scheme: str) -> None:
    kernel = kernel_of("gaussblur", mode="force", scheme=scheme, form="uniform")
    assert kernel.shuffles == 20 and styles(kernel) == {(scheme, "uniform")}
    assert [loop.form for loop in kernel.loops or ()] == ["uniform"]


def test_before_volta_there_are_none() -> None:
    """A warp has one program counter there: its lanes are together anyway."""
    text = text_of("gaussblur")
    result = optimize(text, Options(mode="force", scheme="early", form="uniform", arch="sm_60"))
    (kernel,) = result.report.kernels
    assert styles(kernel) == {("early", "keep")} and kernel.loops is None
    assert kernel.choice is not None
    assert kernel.choice.reason == "requested by mode force; there is no form uniform before sm_70"
    result = optimize(text, Options(mode="force", scheme="keep", form="uniform", arch="sm_60"))
    assert result.text is text


def test_a_kernel_without_shuffles_can_be_tuned_to_uniform(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PTXSW_TUNED", str(tmp_path / "tuned.json"))
    text = text_of("matmul")
    (function,) = parse(text).functions
    own = text[function.span.start : function.span.end]
    best = tuned.Tuned("keep", "uniform", 1.1, "a GPU", "2026-01-02")
    tuned.store(own, "sm_80", best)
    kernel = kernel_of("matmul")
    assert kernel.choice is not None and kernel.choice.by == "tuned"
    assert {loop.form for loop in kernel.loops or ()} == {"uniform"}


# ---------------------------------------------------------------- the report


@pytest.mark.parametrize(
    "options",
    [
        Options(), Options(arch="sm_60"), Options(mode="force", form="uniform"),
        Options(mode="force", scheme="keep", form="uniform"),
    ],
    ids=["auto", "pascal", "uniform", "uniform alone"],
)  # fmt: skip
def test_reports_fit_the_schema(options: Options) -> None:
    report = optimize(text_of("gaussblur"), options).report
    data = json.loads(json.dumps(to_json(report)))
    jsonschema.validate(data, schema())
    assert from_json(data) == report
