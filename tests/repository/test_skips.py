"""A run says in one line what it skipped and why, and `--again` runs that alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = """
import os
import pytest

def needed(name):
    if name not in os.environ.get("INSTALLED", ""):
        pytest.skip(f"no {name}")

def test_always(): pass
def test_clang(): needed("clang")
@pytest.mark.parametrize("number", [1, 2])
def test_browser(number): needed("chromium")
def test_module(): pytest.importorskip("no_such_module")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "test_it.py").write_text(TESTS)
    return tmp_path


def run(folder: Path, *options: str, installed: str = "") -> tuple[int, str]:
    """The exit status of pytest, and its last line but that of the counts."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.skips", "--rootdir", str(folder),
         "-c", os.devnull, *options, str(folder)],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT),
             "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "INSTALLED": installed},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    return done.returncode, "; ".join(done.stdout.splitlines()[-2:]).partition(" in ")[0]


def test_what_is_skipped_is_said_and_run_again(folder: Path) -> None:
    said = "4 skipped: no chromium (2), no clang (1), no no_such_module (1)"
    assert run(folder) == (0, f"{said}; 1 passed, 4 skipped")
    status, told = run(folder, "--again", "--none-skipped", installed="chromium")
    assert (status, told) == (
        1, "2 skipped: no clang (1), no no_such_module (1); 2 passed, 2 skipped, 1 deselected"
    )  # fmt: skip
    assert run(folder, "--again", installed="clang") == (
        0, "1 skipped: no no_such_module (1); 1 passed, 1 skipped, 3 deselected"
    )  # fmt: skip
    (folder / "no_such_module.py").write_text("")
    assert run(folder, "--again")[1].endswith("; 1 passed, 4 deselected")
    assert run(folder, "--again", "--none-skipped")[0] == 0  # there is nothing left to run
