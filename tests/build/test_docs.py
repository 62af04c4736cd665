"""docs/integrations.md names tests that exist, and only commands that exist."""

from __future__ import annotations

import re

from tests.build.conftest import ROOT

TEXT = (ROOT / "docs" / "integrations.md").read_text()


def test_every_named_test_exists() -> None:
    tests = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    named = set(re.findall(r"`(test_\w+)`", TEXT))
    assert len(named) > 10
    assert [name for name in sorted(named) if f"def {name}(" not in tests] == []


def test_every_section_says_how_it_was_checked() -> None:
    for section in TEXT.split("\n## ")[1:]:
        title = section.partition("\n")[0]
        assert re.search("`(tests/build/)?test_", section) or "Not run here" in section, title


def test_every_command_exists() -> None:
    cli = "".join(path.read_text() for path in (ROOT / "ptxsw" / "cli").glob("*.py"))
    for command in set(re.findall(r"ptxsw (\w+)", re.sub(r"(?m)^(?!    ).*$", "", TEXT))):
        assert re.search(rf"^def {command}_?\(|name=\"{command}\"", cli, re.MULTILINE), command
