"""The table beside the paper's: its figures, its formats, its exit status."""

from __future__ import annotations

import csv
import dataclasses
import importlib.util
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from benchmarks import provenance
from benchmarks.kernelgen import __main__ as harness
from benchmarks.kernelgen import measure as measuring
from benchmarks.kernelgen import show
from benchmarks.kernelgen.cases import CASES
from benchmarks.kernelgen.measure import Row, Subject, measure
from benchmarks.kernelgen.operators import OPERATORS
from benchmarks.programs.cases import PROGRAMS
from ptxsw.driver.checked_texts import UNCHECKED
from ptxsw.driver.pipeline import FORMS, SCHEMES, optimize
from ptxsw.report.model import Refusal
from ptxsw.reproduce.paper import TABLE_2
from ptxsw.simt.run import launch


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
    honest = optimize

    def wrong(*args: object) -> object:
        result = honest(*args)  # type: ignore[arg-type]
        return replace(result, text=result.text.replace("shfl.sync.down", "shfl.sync.up"))

    monkeypatch.setattr(measuring, "optimize", wrong)
    _, rewritten = measure(CASES["laplacian"], "paper", "keep", "float")
    assert "DIFFERS" in rewritten.verified
    assert "DIFFERS" in rewritten.numpy
    assert not rewritten.good


def test_a_bug_of_ours_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the check of the written lines takes back is not taken for nothing to do."""
    honest = optimize

    def refused(text: str, *args: object) -> object:
        result = honest(text, *args)  # type: ignore[arg-type]
        (kernel,) = result.report.kernels
        refusal = Refusal(1, None, None, f"{UNCHECKED}: line 3: it differs")
        kernels = (replace(kernel, shuffles=0, refusals=(refusal,)),)
        return replace(result, text=text, report=replace(result.report, kernels=kernels))

    monkeypatch.setattr(measuring, "optimize", refused)
    _, rewritten = measure(CASES["laplacian"], "paper", "keep", "float")
    assert rewritten.verified == "BUG" and not rewritten.good


def test_equal_texts_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []
    honest = launch

    def counted(*args: object, **more: object) -> object:
        ran.append(args[2])
        return honest(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(measuring, "launch", counted)
    subject = Subject(CASES["vecadd"], "float")
    assert subject.original().numpy == subject.rewritten("paper", "keep").numpy == "equal"
    assert len(ran) == 2


def test_what_is_shown() -> None:
    everything = harness.kinds()
    assert ("paper", "keep") in everything and ("keep", "uniform") in everything
    assert {scheme for scheme, _ in everything} >= set(SCHEMES) - {"auto", "keep"}
    assert {form for _, form in everything} == set(FORMS) - {"auto"}
    assert ("keep", "keep") not in everything  # nothing to see
    assert harness.kinds("paper") == [kind for kind in everything if kind[0] == "paper"]
    assert harness.kinds("paper", "keep") == [("paper", "keep")]


@pytest.mark.parametrize("kind", harness.kinds(), ids=" ".join)
def test_every_scheme_and_form(kind: tuple[str, str]) -> None:
    """Of a stencil in two dimensions, as many shuffles as in the paper."""
    _, rewritten = measure(CASES["jacobi"], *kind, "float")
    assert rewritten.verified in ("proved", "tested") and rewritten.numpy == "equal"
    assert rewritten.shuffles == (6 if kind[0] != "keep" else 0)


def test_references_are_compared_bit_for_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES["vecadd"]
    whole, ragged = case.runs("float")
    off = {name: np.nextafter(array, 9) for name, array in whole.expected.items()}
    other = dataclasses.replace(
        case, runs=lambda _: (dataclasses.replace(whole, expected=off), ragged)
    )
    _, rewritten = measure(other, "paper", "keep", "float")
    assert rewritten.numpy == "c DIFFERS"


TABLES = sorted(provenance.RESULTS.glob("[!g]*/*.csv"))  # but for those of benchmarks.gpu


def read(path: Path) -> tuple[str, list[dict[str, str]]]:
    """The notes of a committed table, and its rows."""
    lines = path.read_text().splitlines()
    notes = [line for line in lines if line.startswith("#")]
    return "\n".join(notes), list(csv.DictReader(lines[len(notes) :]))


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_the_committed_occupancies_are_those_of_their_registers(path: Path) -> None:
    _, rows = read(path)
    for row in rows:
        for arch in measuring.ARCHS:
            share = measuring.resident(arch, int(row[f"{arch[3:]} regs"]))
            assert row[f"{arch[3:]} occ"] == f"{100 * share:.0f}%", (row["operator"], arch)
    assert {row["80 occ"] for row in rows} > {"100%"}


@pytest.mark.parametrize(
    ("stem", "real", "name"),
    [
        ("kernelgen-float", "float", "tricubic"), ("kernelgen-double", "double", "lapgsrb"),
        ("programs", "float", "lbm"),
    ],
)  # fmt: skip
def test_the_committed_table_is_what_is_printed(stem: str, real: str, name: str) -> None:
    """But for the seconds, and what another ptxas makes of it."""
    [path] = [path for path in TABLES if path.stem == stem]
    notes, rows = read(path)
    [committed] = [row for row in rows if (row["operator"], row["scheme"]) == (name, "original")]
    case = {**CASES, **PROGRAMS}[name]
    printed = dict(zip(show.HEAD, show.cells(Subject(case, real).original()), strict=True))
    [versions] = [note for note in provenance.provenance("") if note.startswith("versions")]
    if versions.split(", ")[-1] not in notes:
        for head in show.HEAD:
            if head[0].isdigit():
                committed[head] = printed[head] = ""
    assert printed == committed


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
