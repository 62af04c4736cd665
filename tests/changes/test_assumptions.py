"""The default assumptions are the same wherever they are listed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ptxsw.changes.assumptions import ASSUMPTIONS, DEFAULT_ASSUME
from tests.command_line import ptxsw

ROOT = Path(__file__).parents[2]
NAMES = "|".join(ASSUMPTIONS)


def tables(text: str) -> list[list[str]]:
    """The rows of each table in a document whose rows begin with names of assumptions."""
    row = rf"^\|(?: *`(?:{NAMES})`,?)+ *\|.*\n"
    return [m[0].splitlines() for m in re.finditer(rf"(?:{row})+", text, re.MULTILINE)]


LISTED = {
    path.relative_to(ROOT).as_posix(): tables(path.read_text(encoding="utf-8"))
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
}


def test_the_documents_that_list_them_are_found() -> None:
    assert {"README.md", "docs/soundness.md", "docs/validate.md"} <= {
        name for name, found in LISTED.items() if found
    }


OTHERS = "docs/correctness.md"  # of verdicts, which share names with those of rewrites


@pytest.mark.parametrize(
    "document", [name for name, found in LISTED.items() if found and name != OTHERS]
)
def test_a_document_lists_all_defaults_and_says_which_they_are(document: str) -> None:
    for rows in LISTED[document]:
        listed = {name: row for row in rows for name in re.findall(NAMES, row.split("|")[1])}
        assert listed.keys() >= DEFAULT_ASSUME
        if len(listed) > len(DEFAULT_ASSUME):
            assert listed.keys() == ASSUMPTIONS.keys()
            for name, row in listed.items():
                assert row.rstrip("| ").endswith(" on" if name in DEFAULT_ASSUME else " off"), row


@pytest.mark.parametrize("command", ["optimize", "tune"])
def test_help_lists_them(command: str) -> None:
    text = " ".join(ptxsw(command, "--help").stdout.decode().split())
    found = re.search(r"none, or some of ([a-z, -]*) \(these by default\), ([a-z, -]*)\.", text)
    assert found is not None
    defaults, others = (set(part.replace(" ", "").split(",")) for part in found.groups())
    assert defaults == DEFAULT_ASSUME
    assert others == ASSUMPTIONS.keys() - DEFAULT_ASSUME
