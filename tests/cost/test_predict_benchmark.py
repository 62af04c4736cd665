"""`python -m benchmarks.predict`: how predictions are held against measured times."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.predict import (
    Figure,
    Row,
    figures,
    main,
    orders,
    ratios,
    reasons,
)
from benchmarks.ranks import rank_correlation
from ptxsw.cost.account import Interval
from ptxsw.cost.estimate import Estimate, Resource
from ptxsw.reproduce.operators import OPERATORS, launched
from ptxsw.reproduce.paper import GPUS, VARIANTS, logs


def row(gpu: str, operator: str, variant: str, measured: float, *bounds: float) -> Row:
    time = Interval(*bounds)
    return Row(gpu, operator, variant, measured, Estimate(time, (Resource("dram", time, "bytes"),)))


def test_the_table_is_whole() -> None:
    count = Counter((log.gpu, log.variant) for log in logs())
    assert count == {(gpu, variant): 9 for gpu in GPUS for variant in VARIANTS}
    assert {log.operator for log in logs()} <= OPERATORS.keys()
    assert all(log.seconds > 0 and log.registers > 0 for log in logs())


def test_launches_have_the_shape_of_the_directives() -> None:
    wave = launched(OPERATORS["wave13pt"], (512, 1024, 1024))
    assert (wave.grid, wave.block) == ((1020, 1, 1), (512, 1, 1))
    life = launched(OPERATORS["gameoflife"], (32768, 32768))
    assert (life.grid, life.block) == ((32766, 1, 1), (128, 1, 1))
    assert len(wave.args) == len(OPERATORS["wave13pt"].params) + 3


def test_ranks() -> None:
    assert rank_correlation([(1, 10), (2, 20), (3, 30)]) == 1
    assert rank_correlation([(1, 30), (2, 20), (3, 10)]) == -1
    assert rank_correlation([(1, 10), (2, 30), (3, 20), (4, 40)]) == 0.8


def test_figures_of_rows() -> None:
    rows = [
        row("A", "one", "original", 1.0, 0.5, 2.0),
        row("A", "two", "original", 2.0, 1.0, 9.0),
        row("A", "three", "original", 4.0, 5.0, 5.0),
        row("A", "one", "paper", 2.0, 0.5, 1.5),
    ]
    named = {figure.name: figure for figure in figures(rows)}
    assert named["median error, originals and noload"].value == pytest.approx(0.25)
    assert named["largest factor of a row, originals and noload"].value == pytest.approx(1.5)
    assert named["rank correlation, original, A"].value == 1
    assert named["share of likely intervals no wider than 2.5"].value == 1
    assert named["share of measured times within the bounds"].value == 0.5
    assert named["share of bounds no wider than 2.5"].value == 0.25
    within = [figure for figure in figures(rows) if figure.name.endswith("within these")]
    assert [(figure.value, figure.wanted) for figure in within] == [(0.5, 0.8), (0.0, None)]
    assert named["right signs of paper against original, beyond 10 %"].value == 0
    [(_, measured, predicted)] = ratios(rows)
    assert measured == 2.0
    assert predicted == pytest.approx(0.866, abs=1e-3)


def test_rows_that_are_off_have_a_reason() -> None:
    wide = Interval(1.0, 4.0)
    found = Estimate(
        wide, (Resource("dram", Interval(1, 1), ""), Resource("l2", Interval(3, 3), ""))
    )
    one = Row("A", "one", "original", 4.5, found, {"memory dependency": 70.0, "sync": 2.0})
    width, error = reasons(one)
    assert width.startswith("bounds 4.0 apart: 1.3 between all and no overlap of dram, l2; 3.0 by")
    assert error.endswith("warps were seen to wait for memory dependency 70 %, sync 2 %")
    assert not list(reasons(row("A", "one", "original", 1.0, 0.9, 1.1)))


def test_orders_are_told_where_ranks_are_off() -> None:
    times = ((1.0, 3.0), (2.0, 2.0), (3.0, 1.0))
    rows = [row("A", f"o{n}", "original", m, e, e) for n, (m, e) in enumerate(times)]
    assert list(orders(rows)) == [
        "A, original: measured o0 1.00, o1 2.00, o2 3.00",
        "A, original: expected o2, o1, o0",
        "A, original: o0 takes 0.50 of o1, expected 1.50: expected 3.00 and 1.00 of what was "
        "measured, bound by dram and dram; the likely intervals do not overlap",
        "A, original: o0 takes 0.33 of o2, expected 3.00: expected 3.00 and 0.33 of what was "
        "measured, bound by dram and dram; the likely intervals do not overlap",
        "A, original: o1 takes 0.67 of o2, expected 2.00: expected 1.00 and 0.33 of what was "
        "measured, bound by dram and dram; the likely intervals do not overlap",
    ]


def test_what_is_met() -> None:
    assert Figure("error", 0.2, 0.35, at_least=False).met
    missed = Figure("share", 0.2, 0.8, at_least=True)
    assert not missed.met
    assert str(missed) == "share: 0.200 (wanted >= 0.8) NOT MET"
    assert str(Figure("width", 0.3)) == "width: 0.300"


@pytest.mark.slow
def test_one_operator_is_predicted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["jacobi"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith(tuple(GPUS)) for line in lines) == 12
    assert any(line.startswith("median error, originals and noload: ") for line in lines)


def test_an_operator_that_is_not_in_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["vecadd"]) == 2
    assert capsys.readouterr().err == "no rows of vecadd\n"
