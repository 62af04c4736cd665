"""No package has a circle of imports; imports for types alone count."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import ptxsw

ROOT = Path(ptxsw.__file__).parent


def modules() -> dict[str, Path]:
    found = {}
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(path: Path) -> Iterator[str]:
    """All names that a file imports, wherever the import stands."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                yield f"{node.module}.{alias.name}"
                yield node.module


def edges() -> dict[str, set[str]]:
    """Which module imports which. A package's own file counts only for what it is asked for
    itself, not for the modules in it."""
    known = modules()
    graph: dict[str, set[str]] = {}
    for name, path in known.items():
        names = list(imported(path))
        direct = {n for n in names if n in known and n != name}
        packages = {n.rpartition(".")[0] for n in direct}
        graph[name] = direct - packages
    return graph


def circles(graph: Mapping[str, set[str]]) -> list[frozenset[str]]:
    """Modules that reach themselves, those that reach one another together."""
    reach: dict[str, set[str]] = {}
    for name in graph:
        seen: set[str] = set()
        work = [*graph[name]]
        while work:
            top = work.pop()
            if top not in seen:
                seen.add(top)
                work.extend(graph.get(top, ()))
        reach[name] = seen
    together = {frozenset(b for b in reach[a] if a in reach[b]) for a in graph if a in reach[a]}
    return sorted(together, key=sorted)


def test_what_counts_as_a_circle() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == [frozenset("bc")]
    assert not circles({"a": {"b", "c"}, "b": {"c"}, "c": set()})


def test_no_package_has_a_circle() -> None:
    """Nor do packages import one another in a circle."""
    assert not circles(edges())
