"""What a rewrite costs the house: the lines that are there for it alone, and who else names it.

    python -m benchmarks.new_rewrite

For each rewrite: its own files of code with their lines, other files of the package that import
these, its lines of tests, and those of its page. A new one should cost two files, one line in the
tuple, one test file and one page. Left out are those that are made of local rules
(`ptxsw/rewrites/rules.py`), which have no files, and load elimination, uniform loops and shuffles,
which are planned together (`ptxsw/rewrites/joint.py`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from msgspec import Struct

from ptxsw.rewrites import REWRITES
from ptxsw.rewrites.base import TOGETHER
from ptxsw.rewrites.rules import LocalRewrite

ROOT = Path(__file__).parents[1]
HELPERS = {
    "bank-conflicts": ("rewrites/bank_choice.py",),
    "vectorize": ("rewrites/adjacent_accesses.py",),
    "scalar-replacement": (
        "rewrites/loop_streams.py",
        "rewrites/loop_ranges.py",
        "rewrites/loop_reuse.py",
        "codegen/carried_claims.py",
    ),
    "strength-reduction": (
        "rewrites/address_bases.py",
        "rewrites/iteration_cost.py",
        "rewrites/loop_guard.py",
        "rewrites/pointer_guard.py",
    ),
}
"""Files of one rewrite beside the two that each has."""


NAMES = [
    rewrite.name
    for rewrite in REWRITES
    if rewrite.name not in TOGETHER and not isinstance(rewrite, LocalRewrite)
]
"""Of the rewrites that are found and lowered by themselves."""


class Price(Struct, frozen=True):
    """Lines by file, and the files elsewhere that import one of the rewrite's own."""

    name: str
    code: dict[str, int]
    tests: dict[str, int]
    page: int
    elsewhere: tuple[str, ...]


def price(name: str) -> Price:
    """What is there for one rewrite."""
    stem = name.replace("-", "_")
    own = [f"rewrites/{stem}.py", f"codegen/lower_{stem}.py", *HELPERS.get(name, ())]
    code = {file: lines(ROOT / "ptxsw" / file) for file in own}
    stems = {Path(file).stem for file in own if file.startswith("rewrites/")}
    tests = {
        str(path.relative_to(ROOT)): lines(path)
        for path in sorted((ROOT / "tests" / "rewrites").glob("test_*.py"))
        if any(path.stem.startswith(f"test_{each}") for each in stems)
    }
    return Price(
        name,
        code,
        tests,
        lines(ROOT / "docs" / "rewrites" / f"{name}.md"),
        tuple(sorted(elsewhere(own))),
    )


def lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def elsewhere(own: list[str]) -> Iterator[str]:
    """Other files of the package that import the rewrite's, the tuple's file apart."""
    modules = {"ptxsw." + file.removesuffix(".py").replace("/", ".") for file in own}
    for file, names in imports().items():
        if file not in (*own, "rewrites/__init__.py") and names & modules:
            yield file


@cache
def imports() -> dict[str, set[str]]:
    """What each file of the package imports."""
    found: dict[str, set[str]] = {}
    for path in (ROOT / "ptxsw").rglob("*.py"):
        names = found[str(path.relative_to(ROOT / "ptxsw"))] = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                names |= {f"{node.module}", *(f"{node.module}.{a.name}" for a in node.names)}
    return found


def main() -> None:
    for one in map(price, NAMES):
        print(f"{one.name}: {sum(one.code.values())} lines of code, "
              f"{sum(one.tests.values())} of tests, {one.page} of docs")  # fmt: skip
        for file, count in (*one.code.items(), *one.tests.items()):
            print(f"    {file:44} {count:5}")
        for file in one.elsewhere:
            print(f"    imported by {file}")


if __name__ == "__main__":
    main()
