"""`python -m benchmarks.orion`: curves, their plateaus, and what was measured of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks import orion
from benchmarks.gpu.occupancy import AS_IT_IS, LIMITED, PADDED
from benchmarks.gpu.subjects import subjects
from benchmarks.orion import Point, cells, curve, measured, summary
from benchmarks.provenance import RESULTS
from ptxsw.cost.gpu import find

TABLE = RESULTS / "gpu-nvidia-h200" / "occupancy.csv"


def points(*times: float, way: str = PADDED) -> list[Point]:
    """At one, two, … resident blocks of as many as there are times; the last is as it is."""
    ways = [way] * (len(times) - 1) + [AS_IT_IS]
    return [
        Point(one, blocks, blocks / len(times), 32, 0, time)
        for blocks, (one, time) in enumerate(zip(ways, times, strict=True), 1)
    ]


@pytest.mark.parametrize(
    ("times", "one", "plateau", "spread"),
    [
        ((8, 4, 2, 2, 2), True, (3, 5), 4.0),  # flat behind its minimum
        ((8, 4, 2.05, 2, 2.08), True, (3, 5), 4.0),
        ((8, 2, 4, 6), True, (2, 2), 4.0),  # it gets slower
        ((8, 2, 4, 2.01), False, (2, 2), 4.0),  # two minima: the plateau is around one
        ((8, 8.1, 4, 2), True, (4, 4), 4.05),  # no more than noise
        ((1, 1.5, 2), True, (1, 1), 2.0),
    ],
)
def test_curves(times: Sequence[float], one: bool, plateau: tuple[int, int], spread: float) -> None:
    own = curve(points(*times))
    assert own.has_one_minimum is one
    assert (own.plateau[0].blocks, own.plateau[-1].blocks) == plateau
    assert own.spread == pytest.approx(spread)


def test_of_two_ways_to_one_occupancy_the_faster_counts() -> None:
    both = [*points(4, 2), *(Point(f"{LIMITED} 24", 2, 1.0, 24, 0, t) for t in (3, 1.5))]
    assert [point.seconds for point in curve(both).points] == [4, 1.5]


def test_what_the_forecast_costs() -> None:
    """The lowest occupancy that is forecast to be as good, in measured times."""
    told, timed = points(8, 4, 2, 2), points(8, 3, 2.2, 2)
    row = dict(zip(orion.HEAD, cells("k", told, timed), strict=False))
    line = cells("k", told, timed)
    assert len(line) == len(orion.HEAD) and line[-2:] == ("1.00", "1.10")
    assert (line[4], line[5]) == ("75 %", "75 to 100 %") and row["as it is"] == "100 %"
    assert cells("k", told, [])[-6:] == ("-",) * 6
    assert list(orion.costs({"k": told}, {"k": timed})) == [
        "as it is: within 5 % of the best that was measured in 1 of 1 kernels, 1.00 of it in the "
        "median, 1.00 at most",
        "the lowest occupancy of the plateau: within 5 % of the best that was measured in 0 of 1 "
        "kernels, 1.10 of it in the median, 1.10 at most",
    ]
    (said,) = summary({"a": told, "b": points(8, 2, 4, 1.99)}, "forecast")
    assert said.startswith("forecast: 1 of 2 kernels have one minimum; 1 have a plateau")


def test_the_measured_table() -> None:
    timed = measured([TABLE])
    assert timed.keys() <= subjects().keys() and len(timed) > 50
    best = {name: curve(found) for name, found in timed.items()}
    assert best["chunks"].points[best["chunks"].best].occupancy < 0.5
    assert best["kernelgen-gaussblur"].has_one_minimum


def test_another_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.csv").write_text("kernel,us\na,1\n")
    assert orion.main(["--measured", str(tmp_path / "a.csv")]) == 2
    assert "is not a table of benchmarks.gpu.occupancy" in capsys.readouterr().err
    assert orion.main(["nope"]) == 2


def test_a_kernel_on_a_small_launch() -> None:
    """Fewer blocks by padding, the code as it is; a kernel that calls no launch is told."""
    try:
        found = orion.forecast(subjects()["kernelgen-vecadd"], find("h200"), 0.3)
    except orion.NotForecast as error:
        pytest.skip(str(error))
    own = curve(found)
    assert [point.blocks for point in own.points] == list(range(1, len(found) + 1))
    assert own.points[0].seconds > 2 * own.points[-1].seconds
    with pytest.raises(orion.NotForecast, match="no launch of it is timed"):
        orion.forecast(subjects()["jacobi-gcc"], find("h200"), 0.1)
