"""The page of the papers names commands that there are, and figures that were recorded."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from benchmarks.provenance import RESULTS, ROOT
from ptxsw.cli.app import GROUPS
from ptxsw.reproduce.paper import TABLE_2

PAGE = (ROOT / "docs" / "papers.md").read_text()
REGISTERS = (ROOT / "docs" / "rewrites" / "registers.md").read_text()
RECORDED = RESULTS / "linux-x86_64-2cores"
SECTIONS = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]
PAPERS = [section for section in SECTIONS if "| mechanism | here | shown by |" in section]


def rows(section: str) -> list[list[str]]:
    """The cells of the first table."""
    found = re.findall(r"^\|(.*)\|$", section, re.MULTILINE)
    return [re.split(r"(?<!\\)\|", row) for row in found][2:]


def test_each_paper_has_a_table() -> None:
    names = [section.partition("\n")[0] for section in PAPERS]
    assert names == ["PTXASW", "Orion", "RegDem", "gpucc", "NVIDIA's CUDA compiler"]


@pytest.mark.parametrize("section", PAPERS, ids=lambda text: text.partition("\n")[0])
def test_each_mechanism_is_shown_or_has_a_reason(section: str) -> None:
    shown = 0
    for mechanism, here, by in rows(section):
        assert mechanism.strip() and here.strip()
        commands = re.findall(r"`([^`]+)`", by)
        shown += bool(commands) or by.strip() == "the same"
        for words in (command.split() for command in commands):
            if words[:2] == ["python", "-m"]:
                assert importlib.util.find_spec(words[2]) is not None, words
            elif words[0] == "python":
                assert (ROOT / words[1]).is_file(), words
            else:
                assert words[0] == "ptxsw" and words[1] in sum(GROUPS.values(), ()), words
    assert shown >= 5


def test_figures_of_the_predictor_are_those_recorded() -> None:
    text = (RECORDED / "regdem.txt").read_text()
    found = re.findall(
        r"(\d+) kernels: the best by what it takes at least in (\d+), at most in (\d+), by both in "
        r"(\d+); certainly beaten in (\d+); longest against the best ([\d.]+) and ([\d.]+)",
        text,
    )
    assert len(found) == 3
    for numbers in found:
        assert f"| {' | '.join(numbers[:5])} | {numbers[5]}, {numbers[6]} |" in REGISTERS
    measured = text.partition("\nmeasured ")[2].splitlines()[1:]
    for kernel, own, taken, speedup, best, best_speedup in (line.split() for line in measured):
        shown = [kernel, own, taken, speedup, best, best_speedup]
        if taken == own:
            shown[2] = "original"
        if best == own:
            shown[4] = "original"
        assert f"| {' | '.join(shown)} |" in REGISTERS


def test_figures_of_occupancy_are_those_recorded() -> None:
    text = (RECORDED / "orion.txt").read_text()
    told, timed = re.findall(r"(\d+) of (\d+) kernels have one minimum; (\d+) have a plateau", text)
    for single, kernels, flat in (told, timed):
        assert f"| {single} of {kernels} | {flat} |" in PAGE
    for near, of, middle, most in re.findall(
        r"in (\d+) of (\d+) kernels, ([\d.]+) of it in the median, ([\d.]+) at most", text
    ):
        assert f"| {near} of {of} | {middle} | {most} |" in PAGE


def test_what_is_said_of_table_2() -> None:
    page = (ROOT / "docs" / "kernelgen.md").read_text()
    assert "for 12 of 16 operators" in page and len(TABLE_2) == 16
    assert Path(ROOT / "ptxsw" / "reproduce").is_dir()
