"""The packages of ptxsw in their layers, as docs/architecture.md shows them.

    python -m tests.repository.layers

The layers are those of the import contract in pyproject.toml, the sentences those of the packages.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
HOUSE = ROOT / "ptxsw"


def layers() -> list[list[str]]:
    """The packages, from the top; those of one layer do not import one another."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = project["tool"]["importlinter"]["contracts"]
    [names] = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    return [[name.removeprefix("ptxsw.") for name in line.split(" | ")] for line in names]


def sentence(package: str) -> str:
    """The first paragraph of what a package says of itself."""
    text = (HOUSE / package / "__init__.py").read_text()
    return " ".join((ast.get_docstring(ast.parse(text)) or "").partition("\n\n")[0].split())


def table() -> Iterator[str]:
    yield "| | package | what it is |\n|---|---|---|\n"
    for number, packages in enumerate(layers(), 1):
        for package in packages:
            yield f"| {number} | `{package}` | {sentence(package)} |\n"


if __name__ == "__main__":
    print("".join(table()), end="")
