"""The real ptxas, PTX to give it, and the wrapper with a rewriter that is known."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from ptxsw.toolchain import find
from tests.heads import head

ROOT = Path(__file__).parents[2]
PTXSW = Path(sys.executable).parent / "ptxsw"
KERNELS = ROOT / "benchmarks" / "kernelgen" / "ptx"

# A pipeline whose rewriting can be recognised in the cubin, and which misbehaves on request. It
# stands in for ptxsw.driver.pipeline, so that these tests are about the wrapper and nothing else.
DRIVER = """
import sys, types
sys.path.insert(0, sys.argv.pop(1))
behaviour = sys.argv.pop(1)
if behaviour != "real":
    import dataclasses, os, time
    pipeline = types.ModuleType("ptxsw.driver.pipeline")
    @dataclasses.dataclass(frozen=True)
    class Options:
        mode: str = "auto"
        scheme: str = "auto"
        max_delta: int = 31
        assume: frozenset = frozenset()
        arch: object = None
        rewrites: object = None
        skip: tuple = ()
    @dataclasses.dataclass(frozen=True)
    class Result:
        text: str
        report: object
    def optimize(text, options, name, watch, jobs, keep):
        from ptxsw.report import Kernel, Report
        print("noise"); print("noise", file=sys.stderr)
        if os.environ.get("COUNT"):
            with open(os.environ["COUNT"], "a") as file:
                file.write("x")
        match behaviour:
            case "hang":
                time.sleep(1000)
            case "partly":
                from ptxsw.codegen.splice import Edit
                from ptxsw.ptx.source import Span
                slow, quick = Kernel("slow", 2, 0, 0), Kernel("quick", 2, 1, 0, 1.0)
                watch.begin(Report("0", name, options.arch, None, (slow, slow)))
                at = text.index("add.rn.f32")
                watch.finished(1, quick, (Edit(Span(at, at + 3), "sub"),))
                time.sleep(1000)
            case "failed":
                from ptxsw.ptx.failures import Failure
                fault = Failure("vecadd", "vectorize", "KeyError: 1", "ptxsw/a.py:1", 1, None, "")
                kernels = (Kernel("vecadd", 2, failed=fault),)
                return Result(text, Report("0", name, options.arch, 0.5, kernels))
            case "crash":
                os.kill(os.getpid(), 9)
            case "raise":
                raise RuntimeError("something went wrong")
            case "exit":
                sys.exit(3)
            case "no z3":
                raise ModuleNotFoundError("No module named 'z3'")
            case "bad":
                text = text.replace("add.rn.f32", "nonsense.f32")
            case "sub":
                text = text.replace("add.rn.f32", "sub.rn.f32")
            case "lines":
                text = text.replace("add.rn.f32", "\\n\\nsub.rn.f32")
        return Result(text, Report("0", name, options.arch, 0.5, (Kernel("k", 2, 1, 0, 1.0),)))
    pipeline.Options, pipeline.optimize = Options, optimize
    sys.modules["ptxsw.driver.pipeline"] = pipeline
import os, ptxsw.build.shim
getattr(ptxsw.build.shim, os.environ.pop("ENTRY", "main"))()
"""


@dataclass(frozen=True)
class Done:
    status: int
    stdout: bytes
    stderr: bytes


StandIn = Callable[..., Done]


@pytest.fixture(scope="session")
def ptxas() -> str:
    found = find.real_ptxas(os.environ)
    if found is None:
        pytest.skip("no ptxas")
    return found.path


@pytest.fixture(scope="session")
def add() -> str:
    return (KERNELS / "vecadd.ptx").read_text()


@pytest.fixture
def work(tmp_path: Path, add: str) -> Path:
    """A directory with add.ptx, one.ptx (nothing to rewrite) and bad.ptx."""
    (tmp_path / "add.ptx").write_text(add)
    (tmp_path / "bad.ptx").write_text(add.replace("add.rn.f32", "bogus.f32"))
    (tmp_path / "one.ptx").write_text(
        head("7.0", "sm_70") + ".visible .entry one()\n{\n\tret;\n}\n"
    )
    return tmp_path


def environment(work: Path, ptxas: str, more: Mapping[str, str]) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PTXSW_", "TRITON_"))}
    return {
        **kept, "PTXSW_REAL_PTXAS": ptxas, "PTXSW_CACHE": str(work / "cache"),
        "PTXSW_LOG": str(work / "log"), **more,
    }  # fmt: skip


def run(
    command: Sequence[str],
    work: Path,
    environ: Mapping[str, str],
    stdin: bytes = b"",
    timeout: float = 60,
) -> Done:
    done = subprocess.run(
        command, cwd=work, env=environ, input=stdin, capture_output=True, timeout=timeout
    )
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def stand_in(work: Path, ptxas: str) -> StandIn:
    """Runs the wrapper in the work directory: `stand_in("-arch=sm_80", …, behaviour="sub")`."""

    def call(*arguments: str, behaviour: str = "sub", stdin: bytes = b"", **more: str) -> Done:
        command = [sys.executable, "-I", "-S", "-c", DRIVER, str(ROOT), behaviour, *arguments]
        return run(command, work, environment(work, ptxas, more), stdin)

    return call


@pytest.fixture
def plain(work: Path, ptxas: str) -> StandIn:
    """Runs the real ptxas in the same way."""

    def call(*arguments: str, stdin: bytes = b"") -> Done:
        return run([ptxas, *arguments], work, environment(work, ptxas, {}), stdin)

    return call


class Build:
    """Calls of ptxas in one directory, as a build under `ptxsw exec` makes them."""

    def __init__(self, work: Path, ptxas: str) -> None:
        self.work = work
        self.ptxas = ptxas
        (work / "jacobi.ptx").write_bytes((KERNELS / "jacobi.ptx").read_bytes())

    def ptxsw(self, *arguments: str, **more: str) -> Done:
        forced = {"PTXSW_MODE": "force", "XDG_DATA_HOME": str(self.work / "data"), **more}
        environ = environment(self.work, self.ptxas, forced)
        return run([str(PTXSW), *arguments], self.work, environ)

    def __call__(self, *arguments: str, **more: str) -> Done:
        return self.ptxsw("exec", "--", "ptxas", *arguments, **more)

    def log(self) -> list[str]:
        path = self.work / "log"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def build(work: Path, ptxas: str) -> Build:
    return Build(work, ptxas)
