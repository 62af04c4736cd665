"""What stands around the code: the package's metadata, its lock file, the hooks of commits."""

from __future__ import annotations

import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.skips import LAST

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_readme_of_the_package_has_no_relative_link() -> None:
    """A package index has none of the files beside it."""
    hook = PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    text = (ROOT / "README.md").read_text()
    assert re.search(r"\]\(docs/", text)
    for substitution in hook["substitutions"]:
        text = re.sub(substitution["pattern"], substitution["replacement"], text)
    assert [link for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link] == []
    for said in (
        "(how to read it: `docs/reading-a-trace.md`)",
        "`ptxsw tune` (`docs/tuning.md`)",
        "docs/soundness.md has the rules",
    ):
        assert said in text


def test_the_lock_is_of_this_project() -> None:
    """Every direct dependency is in it, and everything in it comes from the public index."""
    lock = tomllib.loads((ROOT / "uv.lock").read_text())
    [own] = [package for package in lock["package"] if package["name"] == "ptxsw"]
    listed = {one["name"]: one.get("specifier") for one in own["metadata"]["requires-dist"]}
    asked = [*PROJECT["project"]["dependencies"]]
    for extra in PROJECT["project"]["optional-dependencies"].values():
        asked += extra
    for requirement in asked:
        [(name, specifier)] = re.findall(r"^([\w-]+)(?:\[\w+\])?(.*)$", requirement)
        if name != "ptxsw":
            assert set((listed[name] or "").split(",")) == set(specifier.split(",")), name
    hosts = set(re.findall(r"\w+://[^/\"]+", (ROOT / "uv.lock").read_text()))
    assert hosts == {"https://pypi.org", "https://files.pythonhosted.org"}


def test_commits_are_checked_by_what_is_quick_of_make_check() -> None:
    makefile = (ROOT / "Makefile").read_text()
    [targets] = re.findall(r"^check: (.*)$", makefile, re.MULTILINE)
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    assert re.findall(r"entry: make (\w+)", hooks) == ["lint"] and "lint" in targets.split()


def test_the_hosted_run_is_ours() -> None:
    """What the first job skips is what the second one runs; what is slow runs at night."""
    hosted = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    first, second, third = re.split(r"(?<=\n)  (?:everything|nightly):", hosted)
    assert "run: bash .ci/run\n" in first and "run: sh .ci/everything\n" in second
    assert "run: make slow\n" in third and "run: make newest\n" in third
    assert "run: make packages\n" in first
    assert f"path: .pytest_cache/v/{LAST}\n" in first
    assert f"path: .pytest_cache/v/{LAST.partition('/')[0]}\n" in second
    least = PROJECT["project"]["requires-python"].removeprefix(">=")
    assert f'python: ["{least}", "3.12", "3.13", "3.14"]\n' in first


def test_no_folder_of_tests_is_left_out(pytestconfig: pytest.Config) -> None:
    """By default pytest looks into none that is called `build`."""
    left_out = pytestconfig.getini("norecursedirs")
    folders = {path.parent.relative_to(ROOT) for path in (ROOT / "tests").rglob("test_*.py")}
    assert Path("tests/build") in folders
    names = {name for folder in folders for name in folder.parts}
    assert [name for name in names if any(fnmatch(name, one) for one in left_out)] == []
