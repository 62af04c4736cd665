"""What a command imports. A start costs what it imports, and builds start thousands of times."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from ptxsw.rewrites import REWRITES

ROOT = Path(__file__).parents[2]
KERNELS = ROOT / "benchmarks" / "kernelgen" / "ptx"
VECADD, JACOBI = KERNELS / "vecadd.ptx", KERNELS / "jacobi.ptx"

PLAIN = """
.version 7.0
.target sm_80
.address_size 64

.visible .entry k(.param .u64 p)
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [p];
    ld.global.u32 %r1, [%rd1];
    add.s32 %r2, %r1, 1;
    st.global.u32 [%rd1], %r2;
    ret;
}
"""


def _done(program: str, *words: object) -> subprocess.CompletedProcess[str]:
    whole = f"import sys\ntry:\n    {program}\nfinally:\n    print(*sys.modules, file=sys.stderr)"
    line = [sys.executable, "-c", whole, *map(str, words)]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True)


def imported(program: str, *words: object) -> frozenset[str]:
    """The modules that are there when a program has ended."""
    return frozenset(_done(program, *words).stderr.split())


def printed(program: str) -> str:
    return _done(program).stdout


def run(*words: object) -> frozenset[str]:
    return imported("from ptxsw.__main__ import main; main()", *words)


def among(modules: Iterable[str], *packages: str) -> list[str]:
    """Those of the modules that are one of these, or in it."""
    inside = tuple(f"{package}." for package in packages)
    return sorted(m for m in modules if m in packages or m.startswith(inside))


HEAVY = (
    "z3",
    "lark",
    "numpy",
    "typer",
    "click",
    "multiprocessing",
    "subprocess",
    "pathlib",
    "fractions",
)
CHECKS = ("ptxsw.validate", "ptxsw.verify", "ptxsw.simt")
JUDGES = ("ptxsw.findings", "ptxsw.driver.description", "ptxsw.report.describe", "ptxsw.cost")


def searches(modules: Iterable[str]) -> set[str]:
    """The names of the rewrites whose files are among the modules."""
    files = {f"ptxsw.rewrites.{one.name.replace('-', '_')}": one.name for one in REWRITES}
    return {name for file, name in files.items() if file in modules}


def test_the_pipeline_imports_no_rewrite_and_no_check() -> None:
    modules = imported("import ptxsw.driver.pipeline")
    assert not among(modules, *HEAVY, *CHECKS, *JUDGES)
    assert among(modules, "ptxsw.rewrites") == [
        "ptxsw.rewrites", "ptxsw.rewrites.base", "ptxsw.rewrites.rules",
    ]  # fmt: skip
    assert not {m for m in modules if m.startswith(("ptxsw.codegen.lower", "ptxsw.shuffle.l"))}


def test_a_build_waits_for_nothing_that_it_does_without() -> None:
    program = (
        "import os; os.execvpe = lambda *_: sys.exit(); from ptxsw.__main__ import main; main()"
    )
    modules = imported(program, "exec", "--", "true")
    assert "ptxsw.build.environment" in modules
    assert not among(
        modules, "z3", "lark", "numpy", "msgspec", "typer", "hashlib", "ptxsw.cli.rows"
    )


@pytest.mark.parametrize("name", ["memory-spaces", "narrowing", "vectorize", "read-only-loads"])
def test_a_rewrite_that_changes_nothing_brings_no_other(name: str, tmp_path: Path) -> None:
    kernel = tmp_path / "k.ptx"
    kernel.write_text(PLAIN)
    modules = run("optimize", kernel, "-o", tmp_path / "o", "--rewrites", name, "--mode", "force")
    assert (tmp_path / "o").read_text() == PLAIN
    assert searches(modules) <= {name}
    assert not among(modules, *HEAVY, *CHECKS, *JUDGES)
    assert not among(modules, "ptxsw.shuffle.legality", "ptxsw.rewrites.joint")


def test_a_rewrite_without_its_words_is_not_imported(tmp_path: Path) -> None:
    """No division, no product and no shared memory are in jacobi; `registers` is not asked for."""
    modules = run("optimize", JACOBI, "-o", tmp_path / "o", "--mode", "force")
    missing = {one.name for one in REWRITES} - searches(modules)
    assert {"bank-conflicts", "registers"} <= missing
    assert not among(modules, "typer", "numpy", "ptxsw.findings", "ptxsw.report.describe")


@pytest.mark.parametrize("mode", ["auto", "force"])
def test_a_kernel_that_stays_is_neither_checked_nor_weighed(mode: str, tmp_path: Path) -> None:
    modules = run("optimize", VECADD, "-o", tmp_path / "o", "--mode", mode)
    assert (tmp_path / "o").read_text() == VECADD.read_text()
    assert not among(modules, *HEAVY, *CHECKS, "ptxsw.findings", "ptxsw.cost.counted")


def test_what_is_changed_is_checked(tmp_path: Path) -> None:
    """So the tests above can fail."""
    modules = run("optimize", JACOBI, "-o", tmp_path / "o", "--mode", "force")
    assert "ptxsw.validate" in modules and "ptxsw.rewrites.joint" in modules
    assert "ptxsw.driver.description" in run("analyze", JACOBI)


def test_patterns_are_compiled_when_they_are_used() -> None:
    """None of ours is by an import."""
    program = (
        "import re\n"
        "    compile = re.compile\n"
        "    def noted(*given):\n"
        "        place = sys._getframe(1).f_globals['__name__']\n"
        "        if place.startswith('ptxsw'):\n"
        "            print(place, given)\n"
        "        return compile(*given)\n"
        "    re.compile = noted\n"
        "    import ptxsw.cli.optimize_run, ptxsw.driver.pipeline\n"
        "    import ptxsw.rewrites.joint, ptxsw.validate\n"
        "    ptxsw.driver.pipeline.parse('.version 7.0 .target sm_80')"
    )
    assert "ptxsw.ptx.patterns" in printed(program)
    assert not printed(program.rpartition("\n")[0])


def test_msgspec_comes_without_typing_extensions(tmp_path: Path) -> None:
    """It would take a third of the time of msgspec. Who has it, or asks for it later, gets it."""
    modules = run("optimize", JACOBI, "-o", tmp_path / "o", "--mode", "force")
    assert "msgspec" in modules
    assert not among(modules, "typing_extensions", "inspect")
    assert not among(modules, "ast") or sys.version_info >= (3, 14)  # in which annotations need it
    later = (
        "from ptxsw.__main__ import main; main(); import typing_extensions as t; t.TypedDict",
        "import typing_extensions as t; from ptxsw.__main__ import main; main(); "
        "assert sys.modules['typing_extensions'] is t",
    )
    for program in later:
        assert "typing_extensions" in imported(program, "optimize", VECADD, "-o", tmp_path / "v")


def test_the_collector_leaves_alone_what_dies_at_the_end() -> None:
    ends = (
        "import atexit, gc; before = gc.get_freeze_count()\n"  # Python 3.12 freezes some itself
        "    atexit._run_exitfuncs(); print(gc.get_freeze_count() > before)"
    )
    frozen = printed(f"from ptxsw.__main__ import main; sys.argv[1:] = ['--version']; {ends}")
    assert frozen == "False\n"
    line = f"sys.argv[1:] = ['optimize', {str(VECADD)!r}, '-o', '/dev/null']"
    frozen = printed(f"from ptxsw.__main__ import main; {line}; main(); {ends}")
    assert frozen.endswith("True\n")
