"""docs/architecture.md shows the import contract, and files keep to the limits of the house."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from tests.conftest import LONGEST
from tests.repository.layers import HOUSE, ROOT, layers, table

DOCUMENT = ROOT / "docs" / "architecture.md"


def test_the_document_shows_the_import_contract(golden: Callable[[Path, str], None]) -> None:
    packages = {path.parent.name for path in HOUSE.glob("*/__init__.py")}
    assert {name for layer in layers() for name in layer} == packages
    text = DOCUMENT.read_text()
    shown = re.sub(r"(?ms)^\| \| package .*?(?=^\n)", lambda _: "".join(table()), text)
    golden(DOCUMENT, shown)


def test_twenty_files_to_read() -> None:
    listed = re.findall(r"^\d+\. `(ptxsw/[\w/]+\.py)`", DOCUMENT.read_text(), re.MULTILINE)
    assert len(listed) == len(set(listed)) == 20
    assert [name for name in listed if not (ROOT / name).is_file()] == []


MOST_LINES = 400
MOST_SHORT_FILES = 50
"""Of fewer than 60 lines each, but for findings."""


def test_files_are_neither_long_nor_many_of_them_short() -> None:
    lines = {
        str(path.relative_to(HOUSE)): len(path.read_text().splitlines())
        for path in HOUSE.rglob("*.py")
        if path.name != "__init__.py"
    }
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}
    short = [n for n, count in lines.items() if count < 60 and not n.startswith("findings/")]
    assert len(short) <= MOST_SHORT_FILES, sorted(short)


def test_every_file_has_a_folder() -> None:
    loose = {path.name for path in HOUSE.iterdir() if path.is_file()}
    assert loose == {"__init__.py", "__init__.pyi", "__main__.py", "py.typed"}


def test_the_map_of_the_tests_has_every_folder() -> None:
    """Those of the packages apart, which have their names."""
    packages = {path.parent.name for path in HOUSE.glob("*/__init__.py")}
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir()}
    beside = folders - packages - {"__pycache__"}
    said = (ROOT / "CONTRIBUTING.md").read_text().partition("## A map of the tests")[2]
    assert beside == set(re.findall(r"`tests/(\w+)`", said)) - packages


def test_what_is_left_to_the_slow_runs_is_there() -> None:
    for name in LONGEST:
        file, _, test = name.partition("::")
        assert f"def {test.partition('[')[0]}(" in (ROOT / "tests" / file).read_text(), name
