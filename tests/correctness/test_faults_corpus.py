"""`python -m benchmarks.faults.corpus`: what it counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.faults.corpus import Pair, Said, files, lines, main, plain, said
from tests.correctness.small_kernels import kernel

RACE = kernel("ld.param.u64 %d1, [out]; mov.u32 %r1, %tid.x; st.global.u32 [%d1], %r1; ret;")
UNKNOWN = kernel("call g; ret;", ahead=".extern .func g();")


def test_pairs_are_those_whose_instructions_occur(tmp_path: Path) -> None:
    path = tmp_path / "race.ptx"
    path.write_text(RACE)
    found = said(path, (64, 1, 1), 10.0)
    assert {pair.rule: pair.verdict for pair in found.pairs} == {
        "data-race": "found", "misaligned-access": "absent", "index-overflow": "absent",
        "undefined-value": "absent",
    }  # fmt: skip
    assert len(found.found) == 1 and found.found[0].startswith("error ptxsw-data-race in ")
    assert found.problems == () and len(found.seconds) == 1


def test_what_is_no_ptx_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "bad.ptx"
    path.write_text(".version 8.0\n.target sm_80\n.entry k( {\n")
    assert len(said(path, None, 10.0).problems) == 1


def test_reasons_are_counted_without_lines_and_names() -> None:
    pairs = [
        Pair("f", "k", "data-race", "unknown", f"line {n} calls g, which is not followed")
        for n in (3, 4)
    ]
    answer = Said((*pairs, Pair("f", "k", "deadlock", "absent", "")))
    table = list(lines([answer]))
    assert table[0] == "1 texts, 1 kernels; pairs of kernel and rule:"
    assert table[2].split() == ["data-race", "2", "0", "(0.0%)", "0", "(0.0%)", "2", "(100.0%)"]
    assert "    2 line N calls g, which is not followed (data-race 2)" in table


@pytest.mark.parametrize(
    ("reason", "without"),
    [
        ("threads may access the same byte at lines 3 and 4: an address depends on data: f(x)",
         "threads may access the same byte: an address depends on data"),
        ("it calls f, which is not followed (line 7)", "it calls f, which is not followed"),
        ("in f: the index at line 3 is loaded", "in a function: the index is loaded"),
    ],
)  # fmt: skip
def test_plain(reason: str, without: str) -> None:
    assert plain(reason) == without


def test_each_nth_text_that_is_not_too_large(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"{number}.ptx").write_text(" " * 10)
    (tmp_path / "5.ptx").write_text(" " * 1000)
    assert [p.stem for p in files(tmp_path, 100, 2)] == ["0", "2", "4"]
    assert files(None, 100, 1) == []


def test_an_error_ends_in_exit_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, rows = tmp_path / "unknown.ptx", tmp_path / "rows.jsonl"
    path.write_text(UNKNOWN)
    assert main([str(path), "--verdicts", str(rows)]) == 0
    assert "it calls g, which is not followed" in capsys.readouterr().out
    assert '"rule":"data-race"' in rows.read_text().replace(" ", "")
    path.write_text(RACE)
    assert main([str(path), "--block", "64"]) == 1
