"""Reports as text, as HTML for notebooks, and as data frames."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import ptxsw
from ptxsw.report.text import analysis_text
from ptxsw.report.weights import ordered
from tests.heads import head

EMPTY = head() + ""
TRANSPOSE = Path(__file__).parent / "ptx" / "transpose.ptx"


@pytest.fixture(scope="module")
def report() -> ptxsw.Report:
    return ptxsw.analyze(TRANSPOSE.read_text(), "a<b>.ptx")


def test_a_report_reads_as_what_analyze_prints(report: ptxsw.Report) -> None:
    assert str(report) == analysis_text(ordered(report))
    assert str(report).startswith("conflicting: ")


def test_a_report_shows_itself_in_a_notebook(report: ptxsw.Report) -> None:
    html = report._repr_html_()
    assert html.count("<table>") == 2 * len(report.kernels)
    assert html.index("32-way conflict") < html.index("straight")
    assert ptxsw.analyze(EMPTY, "a<b>.ptx")._repr_html_() == (
        "<p>a&lt;b&gt;.ptx: no kernel with a body</p>"
    )


def test_findings_and_verdicts_are_shown_too() -> None:
    report = ptxsw.check(TRANSPOSE.read_text(), "a.ptx", select="all", ptxas=False)
    html = report._repr_html_()
    said = "<li><b>warning</b>, transpose.cu:17: 32-way bank conflict in `tile`: "
    assert said in html and "[ptxsw-bank-conflicts]</li>" in html
    assert ">data-race</td>" in html and ">proved for all blocks</td>" in html
    assert html.count("<li>") == sum(len(kernel.findings or ()) for kernel in report.kernels) > 0


def test_what_is_no_report_shows_itself_as_it_is_printed() -> None:
    text = TRANSPOSE.read_text()
    options = ptxsw.Options(mode="force", rewrites=("bank-conflicts",), only="conflicting")
    result = ptxsw.optimize(text, options)
    for shown, begins in (
        (result, "conflicting: "),
        (ptxsw.predict(text, gpu="h100", block=(32, 32), kernel="column"), "H100-SXM5"),
        (ptxsw.verify(text, text), "proved"),
    ):
        printer = SimpleNamespace(said="")
        printer.text = lambda words, printer=printer: setattr(printer, "said", words)
        shown._repr_pretty_(printer, False)
        assert printer.said == str(shown) and printer.said.startswith(begins)
    assert "bank-conflicts" in str(result)


def test_a_row_for_each_access(report: ptxsw.Report) -> None:
    frame = pytest.importorskip("pandas") and report.to_dataframe()
    assert len(frame) == sum(len(k.accesses or ()) for k in report.kernels)
    worst = frame.sort_values("weight").iloc[-1]
    assert (worst["kernel"], worst["line"], worst["bank_conflicts"]) == ("conflicting", 103, 32)


def test_polars_where_there_is_no_pandas(
    report: ptxsw.Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "polars", SimpleNamespace(DataFrame=dict))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name == "polars" or None)
    frame = report.to_dataframe()
    assert frame["line"][:2] == [47, 51] and list(frame)[:2] == ["kernel", "line"]


def test_without_either_it_says_what_to_install(
    report: ptxsw.Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="needs pandas or polars: pip install"):
        report.to_dataframe()


def test_everything_public_is_listed() -> None:
    """`dir` shows what there is, and all of it is there."""
    assert set(ptxsw.__all__) == {n for n in dir(ptxsw) if n == "__version__" or n[:2] != "__"}
    for name in ptxsw.__all__:
        assert getattr(ptxsw, name) is not None
    report = ptxsw.analyze(EMPTY)
    assert {"kernels", "file", "to_dataframe", "warning"} <= set(dir(report))
