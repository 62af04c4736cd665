"""Two numbers side by side can be given in the wrong order, and nothing says so: figures came out
wrong that way. Where costs are counted, told and measured, such parameters are given by name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import ptxsw

HOUSE = Path(ptxsw.__file__).parent
BENCHMARKS = HOUSE.parent / "benchmarks"
ROOMS = (HOUSE / "cost", HOUSE / "report", HOUSE / "findings", BENCHMARKS)
ORDERED = {"at", "row", "copy", "download"}  # of i, j, k, and of what memcpy takes: it is known


def numbers(annotation: ast.expr | None) -> set[str]:
    words = set(ast.unparse(annotation).split(" | ")) if annotation is not None else set()
    return words & {"int", "float"}


def alike(function: ast.FunctionDef) -> bool:
    parameters = [*function.args.posonlyargs, *function.args.args]
    return any(numbers(a.annotation) & numbers(b.annotation) for a, b in pairwise(parameters))


def functions(path: Path) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield node


def test_numbers_side_by_side_are_given_by_name() -> None:
    paths = [path for room in ROOMS for path in room.rglob("*.py")] + [
        HOUSE / "driver" / "prediction.py"
    ]
    wrong = [
        f"{path.relative_to(HOUSE.parent)}:{function.lineno} {function.name}"
        for path in sorted(paths)
        for function in functions(path)
        if alike(function) and function.name not in ORDERED
    ]
    assert wrong == []
