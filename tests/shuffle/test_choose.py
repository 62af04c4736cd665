"""The choice as a table: ways of rows and their figures in, picks and reasons out."""

from __future__ import annotations

import sys

import pytest
from msgspec.structs import replace

from ptxsw.cost.ranking import CacheRequest, Figures, Scale, Wait, of_arch
from ptxsw.cost.select import (
    ASKED,
    MODEL,
    TUNED,
    Policy,
    Tuned,
    Variant,
    choose,
)
from ptxsw.cost.select import GroupVariants as Row

AUTO, FORCE = Policy(arch="sm_60"), Policy(force=True, arch="sm_60")
FULL, EDGE = CacheRequest(4, 32, 4, 1), CacheRequest(4, 1, 1, 1)


def scale(arch: str) -> Scale:
    found = of_arch(arch)
    assert found is not None
    return found


PASCAL, KEPLER, AMPERE = scale("sm_60"), scale("sm_35"), scale("sm_80")
KERNEL = Figures(issued=40, requests={FULL: 20.0}, waits={1: (1.0, Wait(loads=1))})


def way(
    scheme: str, form: str = "keep", loads: int = 8, issued: float = 16, times: float = 1
) -> Variant:
    """One that turns loads into shuffles and edge loads."""
    added = Figures(
        issued, shuffles=loads, requests={FULL: -float(loads), EDGE: float(loads)},
        waits={1: (times, Wait(loads=2, shuffles=1))},
    )  # fmt: skip
    return Variant(scheme, form, loads, added)


ROW = Row(0, (way("paper"), way("early", issued=24), way("halo", issued=32)))
TIMED = Tuned("halo", "keep", 1.25, "a GPU", "2026-01-02")


@pytest.mark.parametrize(
    ("rows", "target", "policy", "picks", "by", "reason"),
    [
        # Force: all that is legal; the model rates the ways, without one the first is taken.
        ([ROW], PASCAL, FORCE, (0,), ASKED, "rated best for Tesla P100-SXM2-16GB, by counts: "),
        ([ROW], None, FORCE, (0,), ASKED, "asked for by mode force"),
        ([Row(0, (way("halo"),))], KEPLER, FORCE, (0,), ASKED, "asked for by mode force"),
        ([Row(0, (way("early", issued=30), way("paper")))], PASCAL, FORCE, (1,), ASKED, "rated"),
        # More loads rewritten comes before a better rating.
        ([Row(0, (way("paper"), way("halo", loads=9, issued=90)))], PASCAL, FORCE, (1,), ASKED, ""),
        # The form alone is a way, too.
        (
            [Row(0, (Variant("keep", "uniform", 0),))],
            None, FORCE, (0,), ASKED, "asked for by mode force",
        ),
        # The rating alone; what comes of it is weighed by what ptxas makes of it.
        ([ROW], PASCAL, AUTO, (0,), MODEL, "by counts for Tesla P100-SXM2-16GB: +"),
        ([ROW], KEPLER, AUTO, (None,), MODEL, "by counts for Tesla K40: -"),
        ([ROW], AMPERE, AUTO, (None,), MODEL, "at best (scheme paper, form keep); force rewrites"),
        ([ROW], None, AUTO, (None,), MODEL, "no GPU of sm_60 is described; force rewrites it"),
        ([], PASCAL, AUTO, (), MODEL, "by counts for Tesla P100-SXM2-16GB: no gain; force rewrit"),
        # Row by row: one that costs more than it brings stays as it is.
        ([ROW, Row(0, (way("paper", loads=1, issued=90),))], PASCAL, AUTO, (0, None), MODEL, ""),
        # What was measured comes before any model.
        (
            [ROW], KEPLER, replace(AUTO, tuned=TIMED), (2,), TUNED,
            "measured on a GPU (2026-01-02): 1.250 times as fast with scheme halo, form keep",
        ),
        ([ROW, Row(0, ROW.variants[:2])], AMPERE, replace(AUTO, tuned=TIMED), (2, None), TUNED, ""),
        (
            [Row(0, ROW.variants[:2])], PASCAL, replace(AUTO, tuned=TIMED), (None,), TUNED,
            "which cannot be made here",
        ),
        (
            [ROW], PASCAL, replace(AUTO, tuned=replace(TIMED, scheme="keep", speedup=1.0)),
            (None,), TUNED, "measured on a GPU (2026-01-02): nothing is faster than the original",
        ),
        (
            [ROW], PASCAL, replace(AUTO, tuned=TIMED, min_gain=30), (None,), TUNED,
            "1.250 times as fast with scheme halo, form keep, less than the 30% asked for",
        ),
    ],
)  # fmt: skip
def test_table(
    rows: list[Row],
    target: Scale | None,
    policy: Policy,
    picks: tuple[int | None, ...],
    by: str,
    reason: str,
) -> None:
    choice = choose(rows, KERNEL, target, policy)
    assert (choice.picks, choice.by) == (picks, by)
    assert reason in choice.reason


def test_rows_of_one_unit_share_a_form() -> None:
    """Alone each row would take another form; together they take the one that is best in sum."""
    one = (way("paper", "keep", issued=16), way("paper", "versioned", issued=12))
    other = (way("paper", "keep", issued=1), way("paper", "versioned", issued=16))
    apart = choose([Row(0, one), Row(1, other)], KERNEL, PASCAL, AUTO)
    assert apart.picks == (1, 0)
    together = choose([Row(0, one), Row(0, other)], KERNEL, PASCAL, AUTO)
    assert together.picks == (0, 0)


def test_one_scheme_for_all_may_be_better_than_the_best_for_the_first() -> None:
    """The shuffle unit is a bound of its own: halo rows fill what paper rows leave."""
    rows = [Row(0, (way("paper", issued=i), way("halo", issued=j))) for i, j in ((9, 8), (9, 60))]
    choice = choose(rows, KERNEL, PASCAL, FORCE)
    best = min(
        PASCAL.cycles(KERNEL.plus(rows[0].variants[a].added, rows[1].variants[b].added))
        for a in (0, 1)
        for b in (0, 1)
    )
    chosen = [
        row.variants[p].added for row, p in zip(rows, choice.picks, strict=True) if p is not None
    ]
    assert PASCAL.cycles(KERNEL.plus(*chosen)) == pytest.approx(best)


def test_the_gain_is_that_of_the_picks() -> None:
    choice = choose([ROW], KERNEL, PASCAL, AUTO)
    expected = PASCAL.cycles(KERNEL) / PASCAL.cycles(KERNEL.plus(ROW.variants[0].added)) - 1
    assert choice.gain == pytest.approx(expected) and expected > 0.1


def test_choosing_is_linear_in_the_rows() -> None:
    def calls(rows: int) -> int:
        """How many functions of Python are called."""
        counted = 0

        def count(_: object, event: str, __: object) -> None:
            nonlocal counted
            counted += event == "call"

        one = [Row(0, ROW.variants) for _ in range(rows)]
        kernel = KERNEL.plus(*[KERNEL] * 9)
        sys.setprofile(count)
        try:
            choose(one, kernel, PASCAL, FORCE)
        finally:
            sys.setprofile(None)
        return counted

    assert calls(2000) < 11 * calls(200)
