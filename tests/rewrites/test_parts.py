"""Of what is not proved as a whole, the part is kept that is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.loads import ROW, kernel
from ptxsw.changes.plan import ServedLoad
from ptxsw.driver import checked_texts
from ptxsw.driver.pipeline import Options, optimize
from ptxsw.emulator.budget import OUT_OF_TIME, OutOfTime
from ptxsw.parser import parse
from ptxsw.ptx.ir import Module
from ptxsw.report.model import Kernel
from ptxsw.rewrites import parts
from ptxsw.rewrites.base import Attempt
from ptxsw.validate import Proved, validate

ROWS = 16
TEXT = kernel(ROWS * ROW, "rows")
WAYS = [(s, f) for s in ("paper", "early", "halo") for f in ("keep", "versioned")]
WRONG = "the text is wrong"
Check = Callable[[list[int]], str | None]


def served(made: Attempt) -> list[int]:
    return [change.at for change in made.changes if isinstance(change.detail, ServedLoad)]


def rewritten(
    patch: pytest.MonkeyPatch, check: Check, scheme: str = "paper", form: str = "keep"
) -> tuple[list[list[int]], Kernel]:
    """The loads of each text that was checked, and the report. What is kept is proved."""
    problem, tried = checked_texts.problem, list[list[int]]()

    def answer(made: Attempt, text: Module, share: float = 1.0) -> str | None:
        tried.append(served(made))
        return check(tried[-1]) or problem(made, text, share)

    patch.setattr(checked_texts, "problem", answer)
    result = optimize(TEXT, Options("force", scheme=scheme, form=form))
    old, new = parse(TEXT), parse(result.text)
    assert isinstance(validate((old, old.kernel("k")), (new, new.kernel("k"))), Proved)
    (report,) = result.report.kernels
    assert result.text.count("shfl.sync") == report.shuffles
    return tried, report


def refused(report: Kernel, reason: str) -> int:
    return sum(refusal.reason == reason for refusal in report.refusals or ())


@pytest.mark.parametrize(("scheme", "form"), WAYS)
def test_a_row_that_is_refused_is_left_out(
    scheme: str, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All others are made, and each of its loads is told why not."""
    (every, *_), report = rewritten(monkeypatch, lambda _: None, scheme, form)
    assert report.shuffles == len(every) == ROWS * (ROW - 1)
    wrong = every[len(every) // 2]
    monkeypatch.undo()

    def check(loads: list[int]) -> str | None:
        return WRONG if wrong in loads else None

    tried, report = rewritten(monkeypatch, check, scheme, form)
    assert report.shuffles == (ROWS - 1) * (ROW - 1)
    assert refused(report, WRONG) == ROW - 1
    assert len(tried) <= 1 + parts.MOST


def test_rows_that_are_wrong_together_only_are_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    _, report = rewritten(monkeypatch, lambda loads: WRONG if len(loads) > 40 else None)
    assert report.shuffles == 40 and refused(report, WRONG) == ROWS * (ROW - 1) - 40


def test_nothing_is_kept_where_all_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    tried, report = rewritten(monkeypatch, lambda _: WRONG)
    assert not report.shuffles and len(tried) == 1 + parts.MOST
    assert {refusal.reason for refusal in report.refusals or ()} == {WRONG}


def test_of_what_takes_too_long_the_first_rows_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(loads: list[int]) -> str | None:
        if len(loads) > 20:
            raise OutOfTime
        return None

    tried, report = rewritten(monkeypatch, check)
    first = ROWS // parts.LEAST_SHARE * (ROW - 1)
    assert [len(loads) for loads in tried] == [ROWS * (ROW - 1), first]
    assert tried[1] == tried[0][:first]
    assert report.shuffles == first and refused(report, OUT_OF_TIME) == len(tried[0]) - first


def test_what_would_take_too_long_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "SECONDS_A_LOAD", 0.5)
    tried, report = rewritten(monkeypatch, lambda _: None)
    assert len(tried) == 1 and 0 < len(tried[0]) < 20
    assert report.shuffles == len(tried[0])
    assert refused(report, OUT_OF_TIME) == ROWS * (ROW - 1) - len(tried[0])


def test_nothing_is_kept_without_any_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(_: list[int]) -> str | None:
        raise OutOfTime

    _, report = rewritten(monkeypatch, check)
    assert {refusal.reason for refusal in report.refusals or ()} == {OUT_OF_TIME}
