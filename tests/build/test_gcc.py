"""The wrapper for GCC's nvptx-none-as, beside the real one."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from ptxsw.build import gcc
from ptxsw.build.advice import advice
from ptxsw.build.gcc import AsCommandLine
from tests.build.conftest import DRIVER, PTXSW, ROOT, Done, environment, run

PREAMBLE = """\
// BEGIN PREAMBLE
\t.version\t{version}
\t.target\tsm_80
\t.address_size 64
// END PREAMBLE

"""
KERNEL = """\
// BEGIN GLOBAL FUNCTION DECL: add
.entry add (.param .u64 %in_ar0);
// BEGIN GLOBAL FUNCTION DEF: add
.entry add (.param .u64 %in_ar0)
{
\t.reg .u64 %r1;
\t.reg .f32 %r2, %r3, %r4;
\tld.param.u64 %r1, [%in_ar0];
\tld.f32 %r2, [%r1];
\tld.f32 %r3, [%r1+4];
\tadd.rn.f32 %r4, %r2, %r3;
\tst.f32 [%r1+8], %r4;
\tret;
}
"""
OPENACC = """\
void blur(const float *restrict a, float *restrict out, int n)
{
#pragma acc parallel loop deviceptr(a, out)
    for (int i = 1; i < n - 1; i++) out[i] = a[i - 1] + a[i] + a[i + 1];
}
int main(void) { blur(0, 0, 0); return 0; }
"""
LINES = [
    "-o out k.s", "k.s -o out", "-oout k.s", "-m sm_90 -o out k.s", "-msm_90 -vo out k.s",
    "--no-verify -o out k.s", "--verify -o out -- k.s", "-o out old.s", "-o out bad.s",
    "-o out nofile", "-o out", "k.s old.s -o out", "-o missing/out k.s", "--nonsense k.s",
    "--help", "--version", "-o out empty.s", "-x", "",
]  # fmt: skip


@pytest.fixture(scope="module")
def real() -> str:
    found = gcc.real_nvptx_as(os.environ)
    if found is None:
        pytest.skip("no nvptx-none-as")
    return os.path.abspath(found.path)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    new, old = (PREAMBLE.format(version=version) + KERNEL for version in ("7.0", "6.0"))
    (tmp_path / "k.s").write_text(new)
    (tmp_path / "old.s").write_text(old)
    (tmp_path / "bad.s").write_text(new.replace("ld.f32", "bogus.f32"))
    (tmp_path / "empty.s").write_text("")
    return tmp_path


def call(files: Path, real: str, behaviour: str, *arguments: str, **more: str) -> Done:
    environ = environment(files, real, {"ENTRY": "nvptx_as", gcc.VARIABLE: real, **more})
    del environ["PTXSW_REAL_PTXAS"]
    command = [sys.executable, "-I", "-S", "-c", DRIVER, str(ROOT), behaviour, *arguments]
    return run(command, files, environ)


def taken(done: Done, files: Path) -> tuple[object, ...]:
    out = files / "out"
    data = out.read_bytes() if out.exists() else None
    out.unlink(missing_ok=True)
    return done.status, done.stdout, done.stderr, data


@pytest.mark.parametrize("line", LINES)
def test_gcc_contract(line: str, files: Path, real: str) -> None:
    """Nobody can tell the wrapper from the assembler where nothing is rewritten."""
    expected = taken(run([real, *line.split()], files, environment(files, real, {})), files)
    assert taken(call(files, real, "same", *line.split()), files) == expected


def test_gcc_rewrites(files: Path, real: str) -> None:
    done = call(files, real, "sub", "-o", "out", "k.s")
    assert (done.status, done.stdout, done.stderr) == (0, b"", b"")
    assert b"sub.rn.f32" in (files / "out").read_bytes()
    assert "add.rn.f32" in (files / "k.s").read_text()
    assert "rewritten" in (files / "log").read_text()


@pytest.mark.parametrize("behaviour", ["hang", "raise", "bad"])
def test_gcc_faults_fall_back(behaviour: str, files: Path, real: str, ptxas: str) -> None:
    path = {"PATH": f"{Path(ptxas).parent}:{os.environ['PATH']}"}  # it has ptxas check the text
    done = call(files, real, behaviour, "-o", "out", "k.s", PTXSW_TIMEOUT="0.5", **path)
    assert (done.status, done.stdout, done.stderr) == (0, b"", b"")
    assert b"add.rn.f32" in (files / "out").read_bytes()
    assert len((files / "log").read_text().splitlines()) == 1


def test_no_nvptx_as(files: Path) -> None:
    done = call(files, "/none/as", "same", "-o", "out", "k.s")
    assert done.status == 127 and done.stderr.startswith(b"ptxsw: no nvptx-none-as found")


def test_gcc_wrapper(files: Path, real: str) -> None:
    wrapper = str(ROOT / "wrappers" / "nvptx-none-as")
    path = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", gcc.VARIABLE: real}
    done = run([wrapper, "--version"], files, environment(files, real, path))
    assert done == run([real, "--version"], files, environment(files, real, {}))


def test_gcc_arguments() -> None:
    line = AsCommandLine(["-vmsm_80", "-o", "out", "-v", "--", "-k.s"])
    assert (line.arch, line.output, [i.value for i in line.inputs]) == ("sm_80", "out", ["-k.s"])
    assert line.replace({5: "new"}) == ["-vmsm_80", "-o", "out", "-v", "--", "new"]
    assert not AsCommandLine(["-o", "out", "-"]).worthwhile  # standard input stays the real one's
    assert not AsCommandLine(["--version", "k.s"]).worthwhile


@pytest.mark.parametrize("version", ["7.0", "6.3"])
def test_gcc_builds(version: str, files: Path, real: str, ptxas: str) -> None:
    """GCC itself, with what `ptxsw env gcc` says, offloads and meets the wrapper."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no gcc")
    path = {"PATH": f"{Path(ptxas).parent}:{os.environ['PATH']}", "XDG_DATA_HOME": str(files)}
    environ = environment(files, real, {**path, "PTXSW_REPORT": str(files / "reports")})
    del environ["PTXSW_REAL_PTXAS"]
    said = re.search(r'LDFLAGS="\$\{LDFLAGS-\} (.*)"', advice("gcc", environ))
    assert said is not None
    (files / "blur.c").write_text(OPENACC)
    arch = "sm_80" if version == "7.0" else "sm_53"
    offload = f"-foffload-options=nvptx-none=-misa={arch} -mptx={version} -Wa,--no-verify"
    command = [compiler, "-O2", "-fopenacc", "-foffload=nvptx-none", offload, "-w"]
    made = run([*command, "blur.c", "-o", "plain"], files, environ)
    if made.status != 0:
        pytest.skip("a gcc without nvptx offloading")
    done = run([*command, "blur.c", "-o", "blur", *shlex.split(said[1])], files, environ)
    assert done.status == 0 and (files / "blur").stat().st_size > 0
    assert (files / "reports").exists(), "the wrapper was asked"


def test_exec_reaches_the_assembler_of_gcc(files: Path, real: str, ptxas: str) -> None:
    """By the compilers for nvptx, which GCC looks for on `PATH`. Reports have no temporary names:
    a second build replaces them."""
    if shutil.which("gcc") is None:
        pytest.skip("no gcc")
    path = {"PATH": f"{Path(ptxas).parent}:{os.environ['PATH']}", "XDG_DATA_HOME": str(files)}
    environ = {**environment(files, real, path), "PTXSW_REPORT": str(files / "reports")}
    (files / "blur.c").write_text(OPENACC)
    offload = "-foffload-options=nvptx-none=-misa=sm_80 -mptx=7.0 -Wa,--no-verify"
    command = ["gcc", "-O2", "-fopenacc", "-foffload=nvptx-none", offload, "-w", "blur.c"]
    if run([*command, "-o", "plain"], files, environ).status != 0:
        pytest.skip("a gcc without nvptx offloading")
    for _ in range(2):
        done = run([str(PTXSW), "exec", "--", *command, "-o", "blur"], files, environ)
        assert done.status == 0, done.stderr
        (report,) = (files / "reports").iterdir()
        assert not report.name.startswith("cc")
