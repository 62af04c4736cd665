"""Shared by all tests: files that hold what is expected."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write what was found into the golden files; look at the difference afterwards",
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Compares a text with the file that holds the expected one."""

    def check(path: Path, text: str) -> None:
        if request.config.getoption("--update-golden"):
            path.write_bytes(text.encode())
        assert path.read_bytes().decode() == text

    return check
