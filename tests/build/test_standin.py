"""The wrapper where build tools look for ptxas; real builds where there is a compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ptxsw.build import advice, environment
from ptxsw.build.script import write_script
from ptxsw.build.toolkit import MARKER, ToolkitError, make_toolkit, used_toolkit
from ptxsw.toolchain import find
from tests.build.conftest import ROOT, StandIn, run

SOURCES = ROOT / "benchmarks" / "kernelgen" / "cuda"


@pytest.fixture
def cuda(tmp_path: Path) -> Path:
    """Something with the shape of a toolkit."""
    root = tmp_path / "cuda"
    (root / "bin").mkdir(parents=True)
    (root / "include").mkdir()
    (root / "version.json").write_text("{}")
    for name in ("ptxas", "nvcc"):
        (root / "bin" / name).write_text(f"#!/bin/sh\necho real {name} $*\n")
        (root / "bin" / name).chmod(0o755)
    return root


def output(program: Path, *arguments: str, **environ: str) -> str:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PTXSW_")}
    return subprocess.run(
        [program, *arguments], env={**kept, **environ}, capture_output=True, text=True, check=True
    ).stdout


def test_script(tmp_path: Path) -> None:
    script = write_script(tmp_path / "a b" / "ptxas")
    assert find.is_wrapper(str(script)) and os.access(script, os.X_OK)
    before = script.stat().st_mtime_ns
    assert write_script(script).stat().st_mtime_ns == before
    assert [path.name for path in script.parent.iterdir()] == ["ptxas"]


def test_shadow_toolkit(cuda: Path, tmp_path: Path) -> None:
    shadow = make_toolkit(cuda, tmp_path / "shadow")
    assert output(shadow / "bin" / "nvcc", "x") == "real nvcc x\n"
    assert output(shadow / "bin" / "ptxas", "-v") == "real ptxas -v\n"
    assert (shadow / "include").is_symlink() and (shadow / "version.json").read_text() == "{}"
    assert not (shadow / "bin" / "ptxas").is_symlink()
    assert (cuda / "bin" / "ptxas").read_text().startswith("#!/bin/sh\necho real")


def test_making_it_again_follows_the_toolkit(cuda: Path, tmp_path: Path) -> None:
    shadow = make_toolkit(cuda, tmp_path / "shadow")
    (cuda / "version.json").unlink()
    (cuda / "bin" / "nvlink").write_text("")
    make_toolkit(cuda, shadow)
    names = {path.name for path in shadow.iterdir()}
    assert names == {"bin", "include", MARKER}
    assert {path.name for path in (shadow / "bin").iterdir()} == {"ptxas", "nvcc", "nvlink"}


def test_refusals(cuda: Path, tmp_path: Path) -> None:
    def refused(source: Path, destination: Path) -> str:
        with pytest.raises(ToolkitError) as error:
            make_toolkit(source, destination)
        return str(error.value)

    shadow = make_toolkit(cuda, tmp_path / "shadow")
    assert "is a shadow toolkit" in refused(shadow, tmp_path / "other")
    assert "no bin/ptxas" in refused(tmp_path, tmp_path / "other")
    assert "the toolkit itself" in refused(cuda, cuda)
    assert "exists and is not a shadow" in refused(cuda, ROOT)
    (tmp_path / "link").symlink_to(cuda)
    assert "the toolkit itself" in refused(cuda, tmp_path / "link")
    assert not (tmp_path / "other").exists()


def test_finding_the_toolkit(cuda: Path, tmp_path: Path) -> None:
    shadow = make_toolkit(cuda, tmp_path / "shadow")
    assert used_toolkit({"CUDA_HOME": str(cuda)}) == str(cuda)
    assert used_toolkit({"CUDA_PATH": str(shadow)}) == str(cuda)


def test_advice(cuda: Path, tmp_path: Path) -> None:
    environ = {"XDG_DATA_HOME": str(tmp_path), "CUDA_HOME": str(cuda), "PATH": ""}
    script = tmp_path / "ptxsw" / "bin" / "ptxas"
    assert f"NVCC_APPEND_FLAGS=--ptxas-prefix={script}\n" in advice.advice("nvcc", environ)
    chosen = {**environ, "TRITON_PTXAS_PATH": str(cuda / "bin" / "ptxas")}
    assert f"TRITON_PTXAS_PATH={tmp_path}/ptxsw/triton/" in advice.advice("triton", chosen)
    for tool in ("clang", "nvhpc", "cmake", "jax"):
        lines = advice.advice(tool, environ).splitlines()
        assert lines[0].startswith("# ") and lines[1].startswith("export ")
        assert all(line.startswith(("# ", "export ")) for line in lines)
        assert ("SCCACHE_C_CUSTOM_CACHE_BUSTER" in lines[-1]) is (tool != "jax")
        assert str(tmp_path / "ptxsw" / "toolkits") in lines[1]
        subprocess.run(["sh", "-euc", "\n".join(lines)], check=True)
    with pytest.raises(ToolkitError, match="no nvptx-none-as found"):
        advice.advice("gcc", {**environ, "PTXSW_REAL_NVPTX_AS": "/none/as"})
    with pytest.raises(ValueError, match="no advice for 'make'"):
        advice.advice("make", environ)


def test_flags_are_appended_once(tmp_path: Path) -> None:
    environ = {"XDG_DATA_HOME": str(tmp_path), "NVCC_APPEND_FLAGS": "-lineinfo", "PATH": ""}
    once = environment.build_environment(environ)["NVCC_APPEND_FLAGS"]
    twice = environment.build_environment({**environ, "NVCC_APPEND_FLAGS": once})[
        "NVCC_APPEND_FLAGS"
    ]
    assert once == twice and once.startswith("-lineinfo --ptxas-prefix=")


# ---------------------------------------------------------------- real builds

PROJECT = sorted(SOURCES.glob("*.cu"))[:10]
ROUTES = ("prefix", "shadow", "exec")


@pytest.fixture(scope="session")
def toolkit() -> Path:
    """A CUDA toolkit with nvcc: the machine's, or the wheel's."""
    path = used_toolkit(os.environ)
    found = None if path is None else Path(path)
    if found is None:
        wheel = next((c for c in find.candidates(os.environ) if "package" in c.origin), None)
        found = Path(wheel.path).parents[1] if wheel is not None else None
    if found is None or not (found / "bin" / "nvcc").exists() or shutil.which("g++") is None:
        pytest.skip("no nvcc")
    return found


def build_environ(work: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PTXSW_", "NVCC_"))}
    return {
        **kept, "PTXSW_CACHE": str(work / "cache"), "XDG_DATA_HOME": str(work / "data"),
        "PTXSW_LOG": str(work / "log"),
    }  # fmt: skip


def command(route: str, toolkit: Path, work: Path, environ: dict[str, str]) -> list[str]:
    """How to call nvcc on this route."""
    if route == "shadow":
        return [str(make_toolkit(toolkit, work / "shadow") / "bin" / "nvcc")]
    nvcc = str(toolkit / "bin" / "nvcc")
    if route == "exec":
        return [sys.executable, "-m", "ptxsw", "exec", "--", nvcc]
    environ["NVCC_APPEND_FLAGS"] = f"--ptxas-prefix={environment.script(environ)}"
    return [nvcc]


ARCH = ["-arch=sm_80"]
TWO = ["-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90,code=sm_90"]
OPTIONS = {
    "plain": ARCH,
    "threads": [*TWO, "-t", "4"],
    "gencode": TWO,
    "rdc": [*ARCH, "-rdc=true"],
    "debug": [*ARCH, "-G"],
    "lineinfo": [*ARCH, "-lineinfo"],
}


def make_all(
    work: Path, nvcc: str, options: str, environ: dict[str, str], sources: list[Path]
) -> dict[str, bytes]:
    """Cubins of sources by `make -j4`, by name. nvcc is made to keep them under known names:
    a cubin holds the command line that made it."""
    names = [path.stem for path in sources]
    (work / "Makefile").write_text(
        f"all: {' '.join(f'{name}.o' for name in names)}\n"
        f"%.o: {SOURCES}/%.cu\n\tmkdir -p kept/$*\n"
        f"\t$(NVCC) {' '.join(OPTIONS[options])} --keep --keep-dir kept/$* -c $< -o $@\n"
    )
    make = ["make", "-s", "-j4", "-C", str(work), f"NVCC={nvcc}"]
    done = run(make, work, environ, timeout=300)
    assert (done.status, done.stderr) == (0, b"")
    assert all((work / f"{name}.o").stat().st_size > 0 for name in names)
    return {path.name: path.read_bytes() for path in (work / "kept").rglob("*.cubin")}


@pytest.mark.slow
@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("options", OPTIONS)
def test_nvcc_builds(options: str, route: str, toolkit: Path, work: Path) -> None:
    """Ten files under `make -j4`: nothing is rewritten, so all cubins are nvcc's own. Both are
    made in one directory, which -G writes into them."""
    plain = make_all(work, f"{toolkit}/bin/nvcc", options, build_environ(work), PROJECT)
    shutil.rmtree(work / "kept")
    for path in work.glob("*.o"):
        path.unlink()
    environ = {**build_environ(work), "PYTHONPATH": str(ROOT)}
    nvcc = " ".join(command(route, toolkit, work, environ))
    made = make_all(work, nvcc, options, environ, PROJECT)
    assert len(made) == (20 if TWO[0] in OPTIONS[options] else 10)
    assert made == plain
    met = (work / "cache").exists()
    assert met is (options != "debug"), "the wrapper was (not) asked"


def test_nvcc_build(toolkit: Path, work: Path) -> None:
    """One file by one route: the matrix above in short."""
    environ = build_environ(work)
    nvcc = command("prefix", toolkit, work, environ)
    jacobi = [SOURCES / "jacobi.cu"]
    made = make_all(work, " ".join(nvcc), "plain", environ, jacobi)
    assert (work / "cache").exists(), "the wrapper was asked"
    shutil.rmtree(work / "kept")
    (work / "jacobi.o").unlink()
    assert made == make_all(work, nvcc[0], "plain", {**environ, "PTXSW_DISABLE": "1"}, jacobi)


@pytest.mark.slow
def test_force_changes_the_code(toolkit: Path, work: Path) -> None:
    environ = build_environ(work)
    nvcc = command("prefix", toolkit, work, environ)
    arguments = ["-arch=sm_80", "-cubin", str(SOURCES / "jacobi.cu"), "-o"]
    assert run([*nvcc, *arguments, "plain"], work, environ).status == 0
    forced = {**environ, "PTXSW_MODE": "force", "PTXSW_REPORT": str(work / "reports")}
    assert run([*nvcc, *arguments, "forced"], work, forced).status == 0
    assert (work / "plain").read_bytes() != (work / "forced").read_bytes()
    [report] = (work / "reports").iterdir()
    assert report.name.startswith("jacobi.sm_80.")


def test_clang(work: Path, ptxas: str, stand_in: StandIn) -> None:
    """What clang calls, replayed: its assembly file ends in .s, and it names options at length."""
    (work / "k-1.s").write_bytes((work / "add.ptx").read_bytes())
    done = stand_in("-m64", "-O3", "--gpu-name", "sm_80", "--output-file", "k.cubin", "k-1.s", "-c")
    assert (done.status, done.stderr) == (0, b"") and (work / "k.cubin").stat().st_size > 0
    assert "rewritten" in (work / "log").read_text()


def test_nvhpc(work: Path, stand_in: StandIn) -> None:
    """NVHPC's arguments, replayed."""
    done = stand_in("-arch=sm_80", "-w", "-m64", "-O3", "-o", "k.bin", "--compile-only", "add.ptx")
    assert (done.status, done.stderr) == (0, b"") and (work / "k.bin").stat().st_size > 0
    assert "rewritten" in (work / "log").read_text()


CLANG_KERNEL = """\
extern "C" __attribute__((global)) void blur(const float *a, float *out)
{
    int i = __nvvm_read_ptx_sreg_tid_x();
    out[i] = a[i] + a[i + 1] + a[i + 2];
}
"""


def test_clang_builds(work: Path, ptxas: str) -> None:
    """clang with --ptxas-path, without any CUDA toolkit."""
    clang = shutil.which("clang")
    if clang is None:
        pytest.skip("no clang")
    (work / "blur.cu").write_text(CLANG_KERNEL)
    stand_in = write_script(work / "bin" / "ptxas", ptxas)
    options = ["-x", "cuda", "-nocudainc", "-nocudalib", "--cuda-gpu-arch=sm_80", "-O2", "-w"]
    call = [clang, *options, "--cuda-device-only", "-c", "blur.cu", "-o", "blur.o"]
    done = run([*call, f"--ptxas-path={stand_in}"], work, build_environ(work))
    if b"Unsupported" in done.stderr or b"unsupported" in done.stderr:
        pytest.skip("a clang without NVPTX")
    assert done.status == 0, done.stderr
    assert (work / "blur.o").stat().st_size > 0
    assert (work / "cache").exists(), "the wrapper was asked"


@pytest.mark.slow
def test_cmake_finds_a_compiler(toolkit: Path, work: Path) -> None:
    """CMake's probes of CUDA and a build, through the shadow toolkit."""
    cmake = shutil.which("cmake")
    if cmake is None:
        pytest.skip("no cmake")
    (work / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(p LANGUAGES CXX CUDA)\n"
        f"add_library(k OBJECT {SOURCES}/jacobi.cu)\n"
    )
    environ = build_environ(work)
    nvcc = command("shadow", toolkit, work, environ)[0]
    environ["CUDACXX"] = nvcc
    configure = [cmake, "-S", ".", "-B", "build", "-DCMAKE_CUDA_ARCHITECTURES=80"]
    for step in (configure, [cmake, "--build", "build"]):
        done = run(step, work, environ)
        assert done.status == 0, done.stdout + done.stderr
    assert (work / "cache").exists(), "the wrapper was asked"
