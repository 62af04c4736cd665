"""`ptxsw rule`, and the findings of `check` counted by rule."""

from __future__ import annotations

import json

import pytest

from ptxsw.correctness.fault_rules import RULES as FAULT_RULES
from ptxsw.findings import RULES
from tests.command_line import ROOT, in_text

TRANSPOSE = ROOT / "tests" / "report" / "ptx" / "transpose.ptx"


def test_all_rules_are_listed_with_their_sentences() -> None:
    listed = in_text("rule").stdout.splitlines()
    names = [line.split()[0] for line in listed]
    findings = [rule.name.removeprefix("ptxsw-") for rule in RULES]
    assert sorted(names) == sorted([*findings, *(r.name for r in FAULT_RULES), "resources"])
    assert all(line.endswith(".") for line in listed)


@pytest.mark.parametrize("name", ["column", "ptxsw-column"])
def test_a_rule_is_explained_by_its_page(name: str) -> None:
    text = in_text("rule", name).stdout
    assert text.startswith("ptxsw-column: ")
    assert text.count("```") == 2 and "after(" in text
    assert text.endswith(
        "Silence it on a source line: // ptxsw: ignore[column]\n"
        "Leave the rule out: ptxsw check --ignore column\n"
    )


def test_the_rule_of_pinned_resources_has_no_line_to_silence() -> None:
    text = in_text("rule", "resources").stdout
    assert "--write-baseline" in text and "ignore" not in text


@pytest.mark.parametrize(
    ("name", "hint"), [("colunm", "did you mean column?"), ("zzz", "`ptxsw rule` lists all")]
)
def test_a_rule_that_there_is_not(name: str, hint: str) -> None:
    done = in_text("rule", name)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"there is no rule {name!r}; {hint}\n"


def test_findings_are_counted_by_rule_and_level() -> None:
    """As many as are told without it, in the same order, with the same status."""
    given = ("check", TRANSPOSE, "--no-ptxas")
    every = in_text(*given, "--format", "json")
    counted = in_text(*given, "--statistics", "--format", "json")
    assert counted.returncode == every.returncode == 1
    findings = json.loads(every.stdout)["findings"]
    rows = json.loads(counted.stdout)["statistics"]
    keys = [(each["rule"], each["level"]) for each in findings]
    assert [(row["rule"], row["level"]) for row in rows] == list(dict.fromkeys(keys))
    for row in rows:
        same = [f for f in findings if (f["rule"], f["level"]) == (row["rule"], row["level"])]
        assert row["count"] == len(same)
        assert row["kernels"] == len({f["kernel"] for f in same})
    text = in_text(*given, "--statistics").stdout.splitlines()
    assert text[0].split() == ["count", "level", "rule", "kernels"]
    assert len(text) == len(rows) + 2 and text[-1] == in_text(*given).stdout.splitlines()[-1]


def test_annotations_are_not_counted() -> None:
    done = in_text("check", TRANSPOSE, "--statistics", "--format", "sarif")
    assert done.returncode == 2
    assert done.stderr == "--statistics has no --format sarif: use text or json\n"
