"""`python -m benchmarks.regdem`: the predictor's choices, judged by counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import regdem
from benchmarks.demotion import DEMOTED, of_block
from benchmarks.provenance import RESULTS
from benchmarks.regdem import AS_IT_IS, Row, Version, beaten, cells, chosen, registers_takes
from ptxsw.cost import disassembly
from ptxsw.toolchain import ptxas


def version(name: str, pace: float, least: float, most: float, local: int = 0) -> Version:
    return Version(name, 32, local, pace, least, most)


ORIGINAL = version(AS_IT_IS, 100, 10, 20)
LOCAL = version("32, local", 80, 12, 30, local=64)
SHARED = version("32, shared", 85, 11, 18)
OURS = version("32, us 4", 70, 10, 60)


def test_the_predictor_takes_what_stalls_least() -> None:
    assert chosen([ORIGINAL, LOCAL, SHARED, OURS]) is OURS
    assert registers_takes([ORIGINAL, LOCAL, SHARED, OURS]) is SHARED  # no more local memory
    assert registers_takes([ORIGINAL, version("32, shared", 96, 1, 1)]) is ORIGINAL  # under 5 %


def test_only_what_gains_whatever_overlaps_beats_a_choice() -> None:
    assert beaten(OURS, [ORIGINAL, OURS, SHARED]) is None
    better = version("40, shared", 90, 5, 9)
    assert beaten(OURS, [ORIGINAL, OURS, better]) is better
    line = cells(Row("k", (ORIGINAL, OURS, better)))
    assert len(line) == len(regdem.HEAD)
    assert line[3:7] == ("32, us 4", "2.00", "6.67", "40, shared")
    assert line[7:] == ("40, shared", "1.00", "1.00", "-")


def test_the_summary() -> None:
    rows = [Row("a", (ORIGINAL, SHARED)), Row("b", (ORIGINAL, SHARED, OURS))]
    whole, of_ptxas, taken = regdem.summary(rows)
    assert whole.startswith(
        "the predictor's choice, 2 kernels: the best by what it takes at least in 1, at most in 1, "
        "by both in 0; certainly beaten in 0; longest against the best 1.10 and 3.33"
    )
    assert "at most in 2" in of_ptxas and "at most in 2" in taken


def test_versions_of_a_kernel() -> None:
    """flux needs 40 registers where full occupancy leaves 32."""
    try:
        ptxas.locate()
        disassembly.locate()
    except (ptxas.NoPtxas, disassembly.NoNvdisasm) as error:
        pytest.skip(str(error))
    text = of_block(regdem.FLUX.read_text(), 256)
    made = regdem.texts(text, "sm_80", 256)
    assert list(made) == [
        AS_IT_IS, "32, local", "32, shared", *(f"32, us {count}" for count in DEMOTED),
    ]  # fmt: skip
    some = {name: made[name] for name in (AS_IT_IS, "32, local", "32, us 2")}
    first, local, ours = regdem.versions(some, "sm_80", 256)
    assert first.registers == 40 and local.registers == ours.registers == 32
    assert first.local == 0 < local.local and all(v.least < v.most for v in (first, local, ours))
    vecadd = regdem.kernels()["vecadd"].read_text()
    assert list(regdem.texts(of_block(vecadd, 256), "sm_80", 256)) == [AS_IT_IS]


def test_what_was_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head, *rows = regdem.measured(RESULTS / "gpu-nvidia-h200" / "tune.csv")
    assert head == regdem.MEASURED_HEAD
    found = {row[0]: row[1:] for row in rows}
    assert found["lbm"] == ("32", "32", "1.000", "56", "1.051")  # it stays, which is not best
    assert all(float(best) >= float(taken) for _, _, taken, _, best in found.values())
    (tmp_path / "a.csv").write_text("kernel,us\na,1\n")
    assert regdem.main(["--measured", str(tmp_path / "a.csv")]) == 2
    assert "is not a table of ptxsw tune" in capsys.readouterr().err


def test_an_unknown_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    assert regdem.main(["nope"]) == 2
    assert "no kernel 'nope'; available: divergence, " in capsys.readouterr().err
