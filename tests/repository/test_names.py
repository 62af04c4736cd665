"""One word, one thing: a class or file has its name to itself, unless two rooms share the idea."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import ptxsw

ROOT = Path(ptxsw.__file__).parent

APART = ("report", "validate", "verify")
"""Rooms with words of their own. A report tells of what others have under the same name, and the
checks know of no rewrite what they check: neither shares a class with the rest of the house."""

SAME_CLASS = {
    "Apart": "a test that a loop does not overwrite what it reads, and an answer on two threads",
    "Format": "of the output of a command: each has its own",
    "Op": "a row of the table of opcodes, and the kind of a term",
    "Proof": "that a rewrite is right, and that a kernel has no fault of a kind",
    "Reader": "of the statements of a body, as each of its parts needs it",
}
SAME_FILE = {
    "bank_conflicts.py": "as a finding, and as a rewrite",
    "base.py": "what all of the room have in common: rules, rewrites",
    "entry_guard.py": "what to test, and its code",
    "loop_guard.py": "what to test, and its code",
    "memory.py": "over terms, and over bytes",
    "occupancy.py": "as a finding, and how it is counted",
    "options.py": "as given on the command line, and as a value",
    "run.py": "over terms, and over bytes",
    "wrapper.py": "the command, and what it does",
    "state.py": "over terms, and over bytes",
    "tune.py": "the command, and what it does",
    "uniform_loops.py": "the rewrite, and its rules",
    "witness.py": "values of terms, and launches",
}


def classes() -> dict[str, set[str]]:
    """For each public class at the top of a file, the files that have one of that name."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in ROOT.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].add(str(path.relative_to(ROOT)))
    return found


def files() -> dict[str, set[str]]:
    """For each name of a file, the files that have it."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in ROOT.rglob("*.py"):
        if not path.name.startswith("__"):
            found[path.name].add(str(path.relative_to(ROOT)))
    return found


def twice(named: dict[str, set[str]]) -> dict[str, list[str]]:
    """Names that stand in several files of the rooms that share their words."""
    own = {
        name: sorted(f for f in where if not f.startswith(APART)) for name, where in named.items()
    }
    return {name: where for name, where in own.items() if len(where) > 1}


def test_no_two_classes_have_one_name() -> None:
    new = {name: where for name, where in twice(classes()).items() if name not in SAME_CLASS}
    assert not new, "another word, or a reason in SAME_CLASS"


def test_no_two_files_have_one_name() -> None:
    new = {name: where for name, where in twice(files()).items() if name not in SAME_FILE}
    assert not new, "another word, or a reason in SAME_FILE"
