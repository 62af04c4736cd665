"""`import ptxsw`: what it offers, and that it costs next to nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

import ptxsw
from ptxsw.verify import Proved, Verdict

JACOBI = Path(__file__).parents[2] / "benchmarks" / "kernelgen" / "ptx" / "jacobi.ptx"


def test_the_way_of_the_readme() -> None:
    text = JACOBI.read_text()
    assert [f.name for f in ptxsw.parse(text).functions] == ["jacobi"]
    report = ptxsw.analyze(text)
    assert isinstance(report, ptxsw.Report) and report.kernels[0].loads == 9
    result = ptxsw.optimize(text, ptxsw.Options(mode="force"))
    assert result.text != text and result.report.kernels[0].shuffles == 6
    # Its type is known to mypy, too, although `ptxsw.verify` is a package.
    verdict: Verdict = ptxsw.verify(text, result.text, seeds=())
    assert isinstance(verdict, Proved)


def test_every_name_is_there() -> None:
    assert all(hasattr(ptxsw, name) for name in ptxsw.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = ptxsw.nothing  # type: ignore[attr-defined]
    assert issubclass(ptxsw.ParseError, ptxsw.PtxError)
    assert resources.files("ptxsw").joinpath("py.typed").is_file()


def test_nothing_heavy_is_imported() -> None:
    program = "import sys, ptxsw; print(sorted({'z3','lark','numpy','typer'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[]\n"


def test_importing_is_cheap() -> None:
    def seconds(program: str) -> float:
        pid = os.posix_spawn(sys.executable, [sys.executable, "-c", program], os.environ)
        used = os.wait4(pid, 0)[2]
        return used.ru_utime + used.ru_stime

    seconds("import ptxsw")
    ours = min(seconds("import ptxsw") for _ in range(7))
    assert ours <= 3 * min(seconds("pass") for _ in range(7))
