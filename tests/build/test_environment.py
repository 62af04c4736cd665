"""A build under `ptxsw exec` meets the environment that it would meet without, but for ptxas."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ptxsw.build.assembler_job import names_a_line
from ptxsw.build.environment import (
    absolute_paths,
    build_environment,
    clang_variables,
    nvcc_variables,
    project_variable,
    triton_variables,
)
from ptxsw.build.script import usable_directory, write_script

ROOT = Path(__file__).parents[2]
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc")

FLIP = """\
__global__ void flip(float *o, const float *u) {
  __shared__ float s[32][32];
  s[threadIdx.y][threadIdx.x] = u[threadIdx.y * 32 + threadIdx.x];
  __syncthreads();
  o[threadIdx.y * 32 + threadIdx.x] = s[threadIdx.x][threadIdx.y];
}
"""


def environment(work: Path, **more: str) -> dict[str, str]:
    """A small environment of its own."""
    return {
        "PATH": os.environ["PATH"], "HOME": str(work / "home"), "PYTHONPATH": str(ROOT),
        "PTXSW_CACHE": str(work / "cache"), **more,
    }  # fmt: skip


def build(work: Path, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ptxsw", "exec", "--", *command],
        env=environment(work, **more), cwd=work, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@needs_nvcc
@pytest.mark.parametrize("name", ["O'Brien (&;#*) x\udcff", "a$HOME`b\\"])
def test_a_home_that_a_shell_would_not_take(name: str, tmp_path: Path) -> None:
    """nvcc hands the wrapper's path to a shell."""
    (tmp_path / "flip.cu").write_text(FLIP)
    log = tmp_path / "log"
    more = {"HOME": str(tmp_path / name), "TMPDIR": str(tmp_path), "PTXSW_LOG": str(log)}
    command = "nvcc -arch=sm_80 -cubin flip.cu -o flip.cubin"
    done = build(tmp_path, *command.split(), PTXSW_MODE="force", **more)
    assert (done.returncode, done.stderr) == (0, "")
    assert " rewritten " in log.read_text()


def test_a_directory_that_is_gone(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    command = f"cd {gone}; rmdir {gone}; exec {sys.executable} -m ptxsw exec -- sh -c 'exit 3'"
    environ = environment(tmp_path)
    done = subprocess.run(["sh", "-c", command], env=environ, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("ptxsw: the build runs without ptxsw: ")


def test_no_wrapper_that_nvccs_shell_would_not_take(tmp_path: Path) -> None:
    assert nvcc_variables({"PATH": ""}, tmp_path / "a$b" / "ptxas") == {}


# ---------------------------------------------------------------- what a build inherits


def test_the_settings_of_a_project_are_named_where_the_wrapper_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers of sccache-dist decline where they are named."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "ptxsw.toml"
    assert project_variable({}) == {}
    for text, named in (
        ('ignore = ["a"]\n', {}), ('[skip]\nfiles = []\n', {"PTXSW_PROJECT": str(path)}),
        ("[skip\n", {"PTXSW_PROJECT": str(path)}),
    ):  # fmt: skip
        path.write_text(text)
        assert project_variable({}) == named
    path.write_text('ignore = ["a"]\n')
    assert project_variable({"PTXSW_PROJECT": "/other"}) == {"PTXSW_PROJECT": ""}


def test_signals_that_python_ignores_are_not_ignored(tmp_path: Path) -> None:
    done = build(tmp_path, "bash", "-c", "seq 1 100000 | head -1; echo ${PIPESTATUS[@]}")
    assert (done.stdout, done.stderr) == ("1\n141 0\n", "")


def test_no_variable_is_added_but_those_of_the_table(tmp_path: Path) -> None:
    """Nor a locale: in the C locale, Python adds one to its own environment."""
    done = build(tmp_path, sys.executable, "-I", "-c",
                 "print(*open('/proc/self/environ').read().split('\\0'), sep='\\n')")  # fmt: skip
    names = {line.partition("=")[0] for line in done.stdout.split()}
    added = names - environment(tmp_path).keys()
    assert "NVCC_APPEND_FLAGS" in added and "CCACHE_EXTRAFILES" in added
    assert added <= {
        "NVCC_APPEND_FLAGS", "CCC_OVERRIDE_OPTIONS", "TRITON_PTXAS_PATH", "NVHPC_CUDA_HOME",
        "TRITON_PTXAS_BLACKWELL_PATH", "CCACHE_EXTRAFILES", "SCCACHE_C_CUSTOM_CACHE_BUSTER",
    } | {word for word in names if word.startswith(("+--", "^--"))}  # fmt: skip


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    listing = "import os; print(sorted(os.listdir('/proc/self/fd')))"
    done = build(tmp_path, sys.executable, "-I", "-S", "-c", listing)
    plain = subprocess.run(
        [sys.executable, "-I", "-S", "-c", listing], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == plain.stdout


def test_settings_that_are_paths_hold_in_every_directory(tmp_path: Path) -> None:
    given = {"PTXSW_REPORT": "reports", "PTXSW_LOG": "/var/log/p", "PTXSW_CACHE": "off",
             "PTXSW_REAL_PTXAS": "ptxas"}  # fmt: skip
    here = os.getcwd()
    assert absolute_paths(given) == {"PTXSW_REPORT": f"{here}/reports", "PTXSW_LOG": "/var/log/p"}


def test_a_command_that_cannot_run_ends_as_in_a_shell(tmp_path: Path) -> None:
    missing, directory = build(tmp_path, "no-such-command"), build(tmp_path, "/")
    assert (missing.returncode, directory.returncode) == (127, 126)
    assert missing.stderr == "ptxsw: no-such-command: No such file or directory\n"
    assert directory.stderr == "ptxsw: /: Permission denied\n"


def test_an_nvcc_that_does_not_know_the_option_is_left_alone(tmp_path: Path) -> None:
    """It would stop at it."""
    says = 'case "$*" in *--ptxas-prefix*) echo "nvcc fatal : Unknown option" >&2; exit 1;; esac'
    program(tmp_path / "bin" / "nvcc", says)
    environ = environment(tmp_path) | {"PATH": f"{tmp_path}/bin:/usr/bin:/bin"}
    assert nvcc_variables(environ, tmp_path / "ptxas") == {}
    program(tmp_path / "bin" / "nvcc", "exit 0")
    flags = nvcc_variables(environ, tmp_path / "ptxas")["NVCC_APPEND_FLAGS"]
    assert flags == f"--ptxas-prefix={tmp_path}/ptxas"


def test_clang_is_led_to_the_wrapper(tmp_path: Path) -> None:
    """And goes on taking the toolkit of the first ptxas on `PATH`."""
    for name in ("clang", "clang-16"):
        program(tmp_path / "bin" / name, "")
    cuda = tmp_path / "cuda"
    (cuda / "nvvm" / "libdevice").mkdir(parents=True)
    program(cuda / "bin" / "ptxas", "")
    environ = environment(tmp_path) | {"PATH": f"{tmp_path}/bin:{cuda}/bin"}
    words = clang_variables(environ)["CCC_OVERRIDE_OPTIONS"].split()
    (wrapper,) = (tmp_path / "home" / ".local" / "share" / "ptxsw" / "clang").glob("*/ptxas")
    assert f"export PTXSW_REAL_PTXAS={cuda}/bin/ptxas" in wrapper.read_text()
    assert words == ["#", "+--start-no-unused-arguments", f"+--ptxas-path={wrapper}",
                     "+--end-no-unused-arguments", f"^--cuda-path={cuda}"]  # fmt: skip
    inner = {**environ, "CCC_OVERRIDE_OPTIONS": " ".join(words), "PATH": f"{tmp_path}/bin"}
    assert clang_variables(inner) == {}, "a build within the build keeps what it was given"
    assert f"export PTXSW_REAL_PTXAS={cuda}/bin/ptxas" in wrapper.read_text()
    program(tmp_path / "bin" / "clang-11", "")  # it would not know these options
    assert clang_variables(environ) == {}


def test_triton_keeps_its_own_ptxas(tmp_path: Path) -> None:
    own = tmp_path / "lib" / "python3.11" / "site-packages" / "triton" / "backends" / "nvidia"
    for name in ("ptxas", "ptxas-blackwell"):
        program(own / "bin" / name, f"echo {name}")
    program(tmp_path / "bin" / "python", "")
    environ = environment(tmp_path) | {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    wrappers = triton_variables(environ)
    said = [
        subprocess.run([path, "--help"], env=environ, capture_output=True, text=True).stdout
        for path in wrappers.values()
    ]
    assert said == ["ptxas\n", "ptxas-blackwell\n"]


# ---------------------------------------------------------------- where the wrapper cannot work


def test_a_home_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")  # no directory can be made below
    done = build(tmp_path, "echo", "built", TMPDIR=str(tmp_path))
    assert (done.stdout, done.stderr, done.returncode) == ("built\n", "", 0)
    assert (
        usable_directory(environment(tmp_path, TMPDIR=str(tmp_path))).name
        == f"ptxsw-{os.geteuid()}"
    )


def test_nowhere_to_write(tmp_path: Path) -> None:
    """The build runs all the same."""
    (tmp_path / "home").write_text("")
    (tmp_path / f"ptxsw-{os.geteuid()}").write_text("")
    done = build(tmp_path, "echo", "built", TMPDIR=str(tmp_path))
    assert (done.stdout, done.returncode) == ("built\n", 0)
    assert done.stderr.startswith("ptxsw: the build runs without ptxsw: ")


@pytest.mark.parametrize("lost", ["python", "package"])
@pytest.mark.parametrize("route", ["prefix", "PATH", "variable"])
def test_a_script_without_ptxsw_becomes_the_real_ptxas(
    lost: str, route: str, tmp_path: Path
) -> None:
    real = program(tmp_path / "cuda" / "bin" / "ptxas", 'echo real "$@"')
    script = write_script(tmp_path / "bin" / "ptxas")
    text = script.read_text()
    if lost == "python":
        text = text.replace(f"python={sys.executable}", "python=/gone/python")
    else:
        text = text.replace(f" {ROOT} ", " /gone ")
    assert text != script.read_text()
    script.write_text(text)
    environ = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    arguments = ["a b.ptx", "-o", "c"]
    if route == "prefix":
        command = [str(script), str(real), *arguments]
    else:
        command = [str(script), *arguments]
        environ |= (
            {"PTXSW_REAL_PTXAS": str(real)} if route == "variable"
            else {"PATH": f"{tmp_path}/bin:{real.parent}:{os.environ['PATH']}"}
        )  # fmt: skip
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr, done.returncode) == ("real a b.ptx -o c\n", "", 0)


@pytest.mark.parametrize("name", ["ptxas", "nvptx-none-as"])
def test_the_wrapper_of_a_checkout_falls_back_as_the_script_does(name: str, tmp_path: Path) -> None:
    script = write_script(tmp_path / name, for_gcc=name != "ptxas").read_text()
    checkout = (ROOT / "wrappers" / name).read_text()
    mark = "unset PTXSW_PLAIN\n"
    assert checkout.partition(mark)[2] == script.partition(mark)[2] != ""


def test_only_what_ptxas_says_of_a_line_is_a_refusal(tmp_path: Path) -> None:
    values = {3: "/proc/self/fd/3"}
    of_text = b"ptxas /proc/self/fd/3, line 7; error   : Unknown symbol 'x'\n"
    of_file = b"ptxas fatal   : Input file '/proc/self/fd/3' could not be opened\n"
    assert names_a_line(of_text, values) and not names_a_line(of_file, values)


def test_many_builds_may_begin_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ptxsw", "exec", "--", "true"]
    started = [
        subprocess.Popen(command, env=environment(tmp_path), stderr=subprocess.PIPE)
        for _ in range(4)
    ]
    assert [(each.communicate()[1], each.returncode) for each in started] == [(b"", 0)] * 4


# ---------------------------------------------------------------- what stays behind


@needs_nvcc
def test_no_path_of_ours_in_an_object(tmp_path: Path) -> None:
    """With -lineinfo a cubin names the headers that its source includes."""
    (tmp_path / "k.cu").write_text(
        "#include <cooperative_groups.h>\n"
        "__global__ void k(float *o) { o[cooperative_groups::this_thread_block().thread_rank()] "
        "= 1; }\n"
    )
    nvcc = ("nvcc", "-arch=sm_80", "-lineinfo", "-cubin", "k.cu", "-o")
    subprocess.run([*nvcc, "plain.cubin"], cwd=tmp_path, check=True)
    assert build(tmp_path, *nvcc, "made.cubin").returncode == 0
    assert (tmp_path / "made.cubin").read_bytes() == (tmp_path / "plain.cubin").read_bytes()


@needs_nvcc
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cmake") is None, reason="no cmake")
def test_a_directory_configured_under_exec_is_built_without(tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_text(FLIP)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nset(CMAKE_CUDA_ARCHITECTURES 80)\n"
        "project(p LANGUAGES CUDA)\nadd_library(k OBJECT a.cu)\n"
    )
    log = {"PTXSW_LOG": str(tmp_path / "log"), "PTXSW_MODE": "force"}
    assert build(tmp_path, "cmake", "-S", ".", "-B", "build", **log).returncode == 0
    cache = (tmp_path / "build" / "CMakeCache.txt").read_text()
    assert "ptxsw" not in cache
    (tmp_path / "log").unlink(missing_ok=True)
    subprocess.run(
        ["cmake", "--build", "build"], cwd=tmp_path, env=environment(tmp_path, **log), check=True,
        capture_output=True,
    )  # fmt: skip
    assert not (tmp_path / "log").exists()


@needs_nvcc
@pytest.mark.slow
def test_no_path_of_ours_in_a_linked_program(tmp_path: Path) -> None:
    (tmp_path / "x.cu").write_text("__global__ void k(int*p){*p=1;} int main(){k<<<1,1>>>(0);}")
    assert build(tmp_path, "nvcc", "-arch=sm_80", "-rdc=true", "x.cu", "-o", "x").returncode == 0
    assert b"ptxsw" not in (tmp_path / "x").read_bytes()


def test_exec_adds_nothing_to_path_but_the_wrapper(tmp_path: Path) -> None:
    made = build_environment(environment(tmp_path))
    first, _, rest = made["PATH"].partition(os.pathsep)
    assert rest == os.environ["PATH"]
    others = {name for name in os.listdir(first) if "accel-nvptx-none-gcc" not in name}
    assert others == {"ptxas"}
