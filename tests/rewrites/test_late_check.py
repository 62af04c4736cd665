"""Mode auto weighs what rewrites make, and checks it only where it pays."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ptxsw.cost.counted import cannot_count
from ptxsw.driver import checked_texts
from ptxsw.driver.pipeline import Options, optimize
from ptxsw.emulator.budget import OUT_OF_TIME, OutOfTime
from ptxsw.parser import parse
from ptxsw.report.model import Kernel
from ptxsw.toolchain import tuned
from ptxsw.validate import Proved, Unproved, validate
from tests.heads import head
from tests.rewrites.pair import kernel as kernel_of

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
PAYS = BENCHMARKS / "programs" / "ptx" / "neighbours-nvcc.ptx"
DOES_NOT = BENCHMARKS / "kernelgen" / "ptx" / "jacobi.ptx"


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is remembered. Skips where ptxas is missing."""
    monkeypatch.setenv("PTXSW_CACHE", str(tmp_path / "cache"))
    reason = cannot_count("sm_80")
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often texts were compared."""
    found: Counter[str] = Counter()

    def counted(*args: Any, **more: Any) -> Any:
        found["validate"] += 1
        return validate(*args, **more)

    monkeypatch.setattr("ptxsw.validate.validate", counted)
    return found


def auto(path: Path, *rewrites: str) -> tuple[str, Kernel]:
    result = optimize(path.read_text(), Options(arch="sm_80", rewrites=rewrites))
    (kernel,) = result.report.kernels
    return result.text, kernel


def reasons(kernel: Kernel, rewrite: str) -> set[str]:
    return {r.reason for r in kernel.refusals or () if r.rewrite == rewrite}


def test_what_pays_is_checked(checks: Counter[str]) -> None:
    text, kernel = auto(PAYS, "strength-reduction")
    assert text != PAYS.read_text()
    assert kernel.decision is not None and kernel.decision.kept
    assert checks == {"validate": 1}


def test_what_does_not_pay_is_not(checks: Counter[str]) -> None:
    text, kernel = auto(DOES_NOT, "strength-reduction")
    assert text == DOES_NOT.read_text()
    assert any("no clear gain" in reason for reason in reasons(kernel, "strength-reduction"))
    assert not checks


def test_what_others_build_on_is_checked_first(checks: Counter[str]) -> None:
    """Of two rewrites, the first is checked before the second reads what it made."""
    path = BENCHMARKS / "programs" / "ptx" / "chunks.ptx"
    _, kernel = auto(path, "vectorize", "strength-reduction")
    assert {r.rewrite for r in kernel.rewrites or ()} == {"vectorize"}
    assert checks == {"validate": 1}


def test_what_pays_and_cannot_be_proved_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was weighed but that, so nothing was decided."""
    monkeypatch.setattr("ptxsw.validate.validate", lambda *_, **__: Unproved("a loop has no end"))
    text, kernel = auto(PAYS, "strength-reduction")
    assert text == PAYS.read_text()
    assert not kernel.rewrites and kernel.decision is None
    (reason,) = reasons(kernel, "strength-reduction")
    assert reason.startswith(checked_texts.UNCHECKED) and "a loop has no end" in reason


MEASURED = """.visible .entry k(.param .u64 .ptr .global .align 16 out, .param .u64 in)
{
.reg .b32 %r<9>;
.reg .f32 %f<9>;
.reg .b64 %rd<9>;
ld.param.u64 %rd1, [out];
ld.param.u64 %rd2, [in];
cvta.to.global.u64 %rd1, %rd1;
cvta.to.global.u64 %rd2, %rd2;
mov.u32 %r1, %ctaid.x;
mov.u32 %r2, %ntid.x;
mov.u32 %r3, %tid.x;
mad.lo.s32 %r4, %r1, %r2, %r3;
mul.wide.s32 %rd3, %r4, 4;
add.s64 %rd4, %rd2, %rd3;
ld.global.nc.f32 %f1, [%rd4];
ld.global.nc.f32 %f2, [%rd4+4];
mul.wide.s32 %rd5, %r3, 8;
add.s64 %rd6, %rd1, %rd5;
st.global.f32 [%rd6], %f1;
st.global.f32 [%rd6+4], %f2;
ret;
}
"""


def test_what_stands_behind_measured_shuffles_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checks: Counter[str]
) -> None:
    """It is never weighed, since a measurement has chosen: so it is checked at once, as the
    shuffles are."""
    monkeypatch.setenv("PTXSW_TUNED", str(tmp_path / "tuned.json"))
    text = head("8.3") + MEASURED
    (function,) = parse(text).functions
    own = text[function.span.start : function.span.end]
    tuned.store(own, "sm_80", tuned.Tuned("paper", "keep", 1.5, "a GPU", "2026-01-02"))
    options = Options(arch="sm_80", rewrites=("shuffle", "vectorize"))
    (kernel,) = optimize(text, options).report.kernels
    assert {r.rewrite for r in kernel.rewrites or ()} == {"shuffle", "vectorize"}
    assert checks == {"validate": 2}
    calls = iter((True, False))

    def second_fails(*kernels: Any, **more: Any) -> Any:
        return validate(*kernels, **more) if next(calls) else Unproved("no reason")

    monkeypatch.setattr("ptxsw.validate.validate", second_fails)
    (kernel,) = optimize(text, options).report.kernels
    assert {r.rewrite for r in kernel.rewrites or ()} == {"shuffle"}
    assert any("no reason" in reason for reason in reasons(kernel, "vectorize"))


def test_a_check_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*_: Any, **__: Any) -> Any:
        raise OutOfTime

    monkeypatch.setattr("ptxsw.validate.validate", slow)
    text, kernel = auto(PAYS, "strength-reduction")
    assert text == PAYS.read_text()
    assert reasons(kernel, "strength-reduction") == {OUT_OF_TIME}


def test_what_was_made_before_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The texts before are weighed again, by what ptxas has said of them already."""
    path = BENCHMARKS / "programs" / "ptx" / "box-nvcc-rolled.ptx"
    before = ("read-only-loads", "scalar-replacement")
    expected, _ = auto(path, *before)
    assert expected != path.read_text()
    calls = 0

    def third_fails(*kernels: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        return Unproved("no reason") if calls == 3 else validate(*kernels, **more)

    monkeypatch.setattr("ptxsw.validate.validate", third_fails)
    text, kernel = auto(path, *before, "strength-reduction")
    assert (calls, text) == (3, expected)
    assert {r.rewrite for r in kernel.rewrites or ()} == set(before)
    assert kernel.decision is not None and kernel.decision.kept
    assert any("no reason" in reason for reason in reasons(kernel, "strength-reduction"))


def test_what_is_built_on_is_not_checked_where_nothing_pays(checks: Counter[str]) -> None:
    """Three rewrites, each on the text of the one before, none of which gains nine tenths."""
    text = (BENCHMARKS / "programs" / "ptx" / "box-nvcc-rolled.ptx").read_text()
    names = ("read-only-loads", "scalar-replacement", "strength-reduction")
    result = optimize(text, Options(arch="sm_80", rewrites=names, min_gain=90))
    (kernel,) = result.report.kernels
    assert result.text == text
    assert all(any("no clear gain" in reason for reason in reasons(kernel, name)) for name in names)
    assert not checks


@pytest.mark.parametrize("wrong", [1, 2, 3])
def test_what_was_built_on_a_wrong_text_is_made_anew(
    wrong: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the rewrite that wrote it had found nothing: what comes behind sees the text before."""
    path = BENCHMARKS / "programs" / "ptx" / "box-nvcc-rolled.ptx"
    names = ("read-only-loads", "scalar-replacement", "strength-reduction")
    calls = 0

    def one_fails(*kernels: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        return Unproved("no reason") if calls == wrong else validate(*kernels, **more)

    monkeypatch.setattr("ptxsw.validate.validate", one_fails)
    text, kernel = auto(path, *names)
    failed = names[wrong - 1]
    assert any("no reason" in reason for reason in reasons(kernel, failed))
    monkeypatch.undo()
    monkeypatch.setenv("PTXSW_CACHE", "off")
    expected, without = auto(path, *(name for name in names if name != failed))
    assert text == expected
    assert kernel.decision == without.decision
    assert (kernel.rewrites or ()) == (without.rewrites or ())


# ---------------------------------------------------------------- what is planned together

REPEATS = kernel_of("""
    ld.global.f32 %f1, [%rd4];
    ld.global.f32 %f2, [%rd4+4];
    ld.global.f32 %f3, [%rd4];
    ld.global.f32 %f4, [%rd4+4];
    add.f32 %f1, %f1, %f2;
    add.f32 %f3, %f3, %f4;
    add.f32 %f1, %f1, %f3;
    st.global.f32 [%rd5], %f1;
""").replace(".param .u64 in", ".param .u64 .ptr .global .align 8 in")
"""ptxas removes the repeats itself: copies alone gain nothing, with a vector they stay."""


def test_copies_that_do_not_pay_are_not_checked(checks: Counter[str]) -> None:
    result = optimize(REPEATS, Options(arch="sm_80", rewrites=("load-elimination",)))
    (kernel,) = result.report.kernels
    assert result.text == REPEATS
    assert any("no clear gain" in reason for reason in reasons(kernel, "load-elimination"))
    assert not checks


@pytest.mark.parametrize(("wrong", "copies"), [((), 2), ((1,), 2), ((1, 2), 1), ((1, 2, 3), 0)])
def test_of_copies_that_pay_those_stay_that_are_right(
    wrong: tuple[int, ...], copies: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are checked, then one, then the other; the vector is found anew behind what stays."""
    calls = 0

    def some_fail(*kernels: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        return Unproved("no reason") if calls in wrong else validate(*kernels, **more)

    monkeypatch.setattr("ptxsw.validate.validate", some_fail)
    names = ("load-elimination", "vectorize")
    result = optimize(REPEATS, Options(arch="sm_80", rewrites=names))
    (kernel,) = result.report.kernels
    made = Counter(r.rewrite for r in kernel.rewrites or ())
    assert made == Counter({"load-elimination": copies, "vectorize": 1})
    assert kernel.decision is not None and kernel.decision.kept
    assert any("no reason" in r for r in reasons(kernel, "load-elimination")) == (copies < 2)
    old, new = parse(REPEATS), parse(result.text)
    monkeypatch.undo()
    assert isinstance(validate((old, old.kernels[0]), (new, new.kernels[0])), Proved)
