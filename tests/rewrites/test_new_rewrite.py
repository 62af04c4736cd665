"""A new rewrite is two files of code and a line in the tuple; a local rule is an entry of a table.
Nothing else of the package has to be edited: both are added to a copy of it here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ptxsw
from tests.rewrites.pair import kernel

SEARCH = """
from ptxsw.changes.change import Change, Worth
from ptxsw.changes.plan import Proof
from ptxsw.codegen.builder import Builder
from ptxsw.codegen.lower_doubling import Doubled, lower

class Doubling:
    name = "doubling"
    summary = "A product with 2 becomes a sum."

    def find(self, kernel):
        for at, instruction in enumerate(kernel.trace.cfg.instructions):
            if instruction.name == "mul.lo.u32" and str(instruction.operands[2].value) == "2":
                yield Change(self.name, at, frozenset({at}), Proof(), Doubled(at), worth=Worth())

    def nothing(self, kernel):
        return "there is no product with 2"

    def lower(self, kernel, changes):
        builder = Builder(kernel.text, kernel.function, kernel.trace.cfg.instructions)
        lower(builder, changes)
        return builder.edits()
"""

LOWERING = """
from msgspec import Struct

from ptxsw.codegen.builder import written

class Doubled(Struct, frozen=True):
    at: int

    def facts(self, line):
        return {}

def lower(builder, changes):
    for change in changes:
        dest, source = map(written, builder.instructions[change.at].operands[:2])
        builder.replace(change.at, f"add.u32 {dest}, {source}, {source};")
"""

ENTRY = """
    LocalRewrite("doubling", "A product with 2 becomes a sum.", (
        LocalRule(("mul.lo.u32",), ("add.u32 {d}, {a}, {a};",), number={2: 2}.get),
    )),
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    package = Path(ptxsw.__file__).parent
    return Path(shutil.copytree(package, tmp_path / "ptxsw", ignore=lambda *_: ["__pycache__"]))


def with_line(copy: Path, line: str) -> None:
    """A line of the tuple, behind that of `narrowing`."""
    tuple_file = copy / "rewrites" / "__init__.py"
    before = tuple_file.read_text()
    after = before.replace("    NARROWING,\n", f"    NARROWING,\n{line}", 1)
    assert after != before
    tuple_file.write_text(after)


def said(copy: Path, *words: object) -> str:
    environ = {**os.environ, "PYTHONPATH": str(copy.parent)}
    command = [sys.executable, "-m", "ptxsw", *map(str, words)]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environ, cwd=copy.parent, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def works(copy: Path) -> None:
    """It is listed, made and proved."""
    assert "doubling" in said(copy, "rewrites")
    text, out = copy.parent / "k.ptx", copy.parent / "out.ptx"
    text.write_text(kernel("mul.lo.u32 %r4, %r2, 2;\nst.global.u32 [%rd5], %r4;"))
    given = ("optimize", text, "-o", out, "--mode", "force", "--rewrites", "doubling")
    assert "doubling" in said(copy, *given)
    assert "add.u32 %r4, %r2, %r2;" in out.read_text()


def test_a_rewrite_is_two_files_and_a_line(copy: Path) -> None:
    (copy / "rewrites" / "doubling.py").write_text(SEARCH)
    (copy / "codegen" / "lower_doubling.py").write_text(LOWERING)
    with_line(copy, '    LazyRewrite("doubling", Requires(words=("mul.lo.u32",))),\n')
    works(copy)


def test_a_local_rule_is_an_entry(copy: Path) -> None:
    table = copy / "rewrites" / "rules.py"
    table.write_text(f"{table.read_text()}\nDOUBLING = ({ENTRY})[0]\n")
    with_line(copy, "    DOUBLING,\n")
    tuple_file = copy / "rewrites" / "__init__.py"
    tuple_file.write_text(
        tuple_file.read_text().replace("import NARROWING", "import DOUBLING, NARROWING")
    )
    works(copy)
