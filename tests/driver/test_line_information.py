"""What says nothing of the code changes nothing that is said or made of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ptxsw.driver.checking import check
from ptxsw.driver.pipeline import Options, inspect
from ptxsw.parser import parse
from ptxsw.report.serial import Report, to_json
from ptxsw.toolchain import ptxas
from ptxsw.validate import Proved, validate
from tests.annotations import annotated, bare, spaced
from tests.real import CORPUS, FIXTURES, name_of, text_of

ROOT = Path(__file__).parents[2]
PAIRS = ROOT / "tests" / "regressions" / "ptx" / "pairs_lineinfo.ptx"
GENERATED = sorted((ROOT / "benchmarks").glob("*/ptx/*.ptx"))
USUAL = [
    path
    for path in (*FIXTURES, *GENERATED, PAIRS)
    if path.stem in ("gradient", "jacobi", "dynamic", "pairs_lineinfo", "triton_smooth_sm_80")
]
CALLING = next(path for path in FIXTURES if path.stem == "nvcc_branches_lineinfo_sm_90")
_OF_THE_SOURCE = {"source", "file", "source_line", "source_column", "column", "seconds"}
_LONG = 300_000  # characters


def said(report: Report) -> Any:
    """What a report says, but for places in the source. Findings that share a line of the source
    are told as one, so they count together here."""
    told = _without_sources(to_json(report))
    for kernel in told["kernels"]:
        rules: dict[str, list[Any]] = {}
        for finding in kernel.pop("findings", None) or ():
            rule = rules.setdefault(finding["rule"], [0.0, set()])
            rule[0] = round(rule[0] + finding["weight"], 6)
            rule[1].update(finding["lines"])
        kernel["findings"] = rules
    return told


def _without_sources(told: Any) -> Any:
    if isinstance(told, Mapping):
        return {k: _without_sources(v) for k, v in told.items() if k not in _OF_THE_SOURCE}
    return [_without_sources(each) for each in told] if isinstance(told, list) else told


def words(text: str) -> list[str]:
    """The words of a text that mean something."""
    return bare(text).partition('.file\t77 "annotated.cu"')[0].split()


def assert_the_same(path: Path) -> None:
    """All commands say and make the same of a text, whatever is noted in it."""
    text = text_of(path)
    plain = spaced(text)
    for noted in (bare(plain), annotated(text)):
        assert said(check(noted)) == said(check(plain))
        for mode in ("force", "auto"):
            options = Options(mode=mode, budget_s=1000)
            before, after = inspect(plain, options), inspect(noted, options)
            assert said(after.report) == said(before.report)
            assert words(after.text) == words(before.text)


@pytest.mark.parametrize("path", USUAL, ids=name_of)
def test_notes_change_nothing(path: Path) -> None:
    assert_the_same(path)


@pytest.mark.slow
@pytest.mark.parametrize("path", [*FIXTURES, *GENERATED, *CORPUS], ids=name_of)
def test_notes_change_nothing_anywhere(path: Path) -> None:
    if path.stat().st_size > _LONG:
        pytest.skip("long")
    assert_the_same(path)


@pytest.mark.parametrize("path", [*USUAL, CALLING], ids=name_of)
def test_a_text_equals_itself_with_notes(path: Path) -> None:
    plain = parse(text_of(path))
    for noted in map(parse, (bare(text_of(path)), annotated(text_of(path)))):
        for old, new in zip(plain.kernels, noted.kernels, strict=True):
            assert isinstance(validate((plain, old), (noted, new)), Proved)


def test_lineinfo_keeps_no_vector_from_being_made() -> None:
    """Between the loads stand `.loc`s, which stay, and in both copies the lines are right."""
    options = Options(mode="force", rewrites=("vectorize",))
    made = inspect(text_of(PAIRS), options).text
    assert made.count("ld.global.nc.v2.f32") == 2
    assert made.count("ld.global.nc.f32") == 4
    slow = made.partition("$sw_slow1:\n")[2].split("\n")
    assert [" ".join(line.split()) for line in slow[:4]] == [
        ".loc 1 6 3",
        "ld.global.nc.f32 %f1, [%rd9];",
        ".loc 1 5 3",
        "ld.global.nc.f32 %f2, [%rd7];",
    ]
    noted = [line for line in text_of(PAIRS).splitlines() if ".loc" in line]
    left = iter(made.splitlines())
    assert all(line in left for line in noted), "all stay, in their order"


def test_ptxas_takes_the_lines_of_vectors() -> None:
    try:
        program = ptxas.locate()
    except ptxas.NoPtxas as missing:
        pytest.skip(str(missing))
    options = Options(mode="force", rewrites=("vectorize",))
    made = inspect(text_of(PAIRS), options).text
    assert ptxas.assemble(made, "sm_80", ptxas=program, options=("-lineinfo",)).cubin
