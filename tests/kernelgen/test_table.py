"""The table beside the paper's: its figures, its formats, its exit status."""

from __future__ import annotations

import csv
import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.kernelgen import __main__ as harness
from benchmarks.kernelgen import measure as measuring
from benchmarks.kernelgen import show
from benchmarks.kernelgen.cases import CASES
from benchmarks.kernelgen.measure import Row, measure
from benchmarks.kernelgen.occupancy import occupancy
from benchmarks.kernelgen.operators import OPERATORS
from benchmarks.kernelgen.paper import TABLE_2


@pytest.fixture(scope="module")
def jacobi() -> tuple[Row, Row]:
    return measure(CASES["jacobi"], "paper", "keep", "float")


def test_every_operator_has_a_line_in_the_paper() -> None:
    assert set(TABLE_2) == set(CASES) == set(OPERATORS)


def test_jacobi(jacobi: tuple[Row, Row]) -> None:
    original, rewritten = jacobi
    assert (original.shuffles, rewritten.shuffles, rewritten.loads) == (0, 6, 9)
    assert (rewritten.verified, rewritten.numpy) == ("proved", "equal")
    assert original.per_warp.lane_loads == 9
    assert rewritten.per_warp.lane_loads == 3 + 6 / 32
    assert (original.per_warp.shuffles, rewritten.per_warp.shuffles) == (0, 6)


def test_doubles_get_as_many_rewrites() -> None:
    _, rewritten = measure(CASES["laplacian"], "paper", "keep", "double")
    assert (rewritten.shuffles, rewritten.verified, rewritten.numpy) == (2, "proved", "equal")
    assert rewritten.per_warp.shuffles == 4  # two of 32 bits for each


def test_a_wrong_rewrite_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = measuring.optimize

    def wrong(*args: object) -> object:
        result = honest(*args)  # type: ignore[arg-type]
        return replace(result, text=result.text.replace("shfl.sync.down", "shfl.sync.up"))

    monkeypatch.setattr(measuring, "optimize", wrong)
    _, rewritten = measure(CASES["laplacian"], "paper", "keep", "float")
    assert "DIFFERS" in rewritten.verified
    assert "DIFFERS" in rewritten.numpy
    assert not rewritten.good


def test_references_are_compared_bit_for_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES["vecadd"]
    whole, ragged = case.runs("float")
    off = {name: np.nextafter(array, 9) for name, array in whole.expected.items()}
    other = replace(case, runs=lambda _: (replace(whole, expected=off), ragged))
    _, rewritten = measure(other, "paper", "keep", "float")
    assert rewritten.numpy == "c DIFFERS"


@pytest.mark.parametrize(
    ("arch", "registers", "block", "expected"),
    [
        ("sm_80", 32, 128, 1.0),
        ("sm_80", 40, 128, 0.75),
        ("sm_80", 255, 128, 0.125),
        ("sm_75", 64, 128, 1.0),
        ("sm_90", 72, 128, 0.4375),
        ("sm_90", 16, 32, 0.5),  # 32 blocks of one warp
        ("sm_80", 128, 1024, 0.0),  # needs 32 warps where 16 fit: it can't be launched
    ],
)
def test_occupancy(arch: str, registers: int, block: int, expected: float) -> None:
    assert occupancy(arch, registers, block) == expected


def test_formats(jacobi: tuple[Row, Row], tmp_path: Path) -> None:
    show.write_csv(tmp_path / "t.csv", jacobi, ["date: today"])
    first, *lines = (tmp_path / "t.csv").read_text().splitlines()
    assert first == "# date: today"
    _, rewritten = csv.DictReader(lines)
    assert (rewritten["paper shuffle/load"], rewritten["ours"]) == ("6/9", "6/9")
    assert rewritten["paper s"] == "4.12"
    table = show.markdown(jacobi, ["date: today"]).splitlines()
    assert table[0] == "- date: today"
    assert {line.count("|") for line in table[2:]} == {len(show.HEAD) + 1}
    assert len(show.plain(jacobi).splitlines()) == 3


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="no matplotlib")
@pytest.mark.parametrize(("suffix", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_plot(jacobi: tuple[Row, Row], tmp_path: Path, suffix: str, magic: bytes) -> None:
    show.plot(tmp_path / f"p.{suffix}", jacobi, "title")
    assert (tmp_path / f"p.{suffix}").read_bytes().startswith(magic)


def test_unknown_operator(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness.main(["jacobbi"]) == 2
    assert "no operator 'jacobbi'" in capsys.readouterr().err


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    markdown = tmp_path / "t.md"
    assert harness.main(["vecadd", "--markdown", str(markdown), "--jobs", "1"]) == 0
    assert "vecadd" in capsys.readouterr().out
    assert "command: python -m benchmarks.kernelgen vecadd" in markdown.read_text()
