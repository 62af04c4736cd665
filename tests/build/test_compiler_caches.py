"""ccache and sccache in front of nvcc: an object made under some settings is handed out under the
same settings only. With the real programs, where they are installed."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ptxsw.build import compiler_caches
from ptxsw.build.compiler_caches import BUSTER, EXTRA_FILES, outdated, variables
from tests.build.conftest import PTXSW, Done, run

SOURCE = """\
__global__ void jac(const float* __restrict__ a, float* __restrict__ b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i > 0 && i < n - 1) b[i] = 0.3f * (a[i - 1] + a[i] + a[i + 1]);
}
"""
FORCE, AUTO, OFF = {"PTXSW_MODE": "force"}, {"PTXSW_MODE": "auto"}, {"PTXSW_DISABLE": "1"}


class Cached:
    """Builds of one source in one directory, with a compiler cache in front of nvcc."""

    def __init__(self, cache: str, work: Path, port: int) -> None:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PTXSW_", "NVCC_"))}
        self.work = work
        self.environ = {
            **kept, "XDG_DATA_HOME": str(work / "data"), "PTXSW_CACHE": str(work / "cache"),
            "PTXSW_LOG": str(work / "log"), "CCACHE_DIR": str(work / "ccache"),
            "SCCACHE_DIR": str(work / "sccache"), "SCCACHE_SERVER_PORT": str(port),
        }  # fmt: skip
        self.compile = f"{cache} nvcc -arch=sm_80 -c jac.cu -o jac.o"
        (work / "jac.cu").write_text(SOURCE)

    def exec(self, settings: dict[str, str]) -> bytes:
        """The object that a build under `ptxsw exec` gets."""
        return self._built([str(PTXSW), "exec", "--", *self.compile.split()], settings)

    def shell(self, lines: str, settings: dict[str, str]) -> bytes:
        """The object that a shell gets which has read `ptxsw env nvcc` under these settings,
        and then these lines."""
        script = f'eval "$({PTXSW} env nvcc)"\n{lines}\nexec {self.compile}'
        return self._built(["sh", "-c", script], settings)

    def _built(self, command: list[str], settings: dict[str, str]) -> bytes:
        (self.work / "jac.o").unlink(missing_ok=True)
        done = run(command, self.work, {**self.environ, **settings}, timeout=300)
        assert done.status == 0, done
        return (self.work / "jac.o").read_bytes()

    def rewritten(self) -> int:
        """How many files the wrapper has rewritten until now."""
        log = self.work / "log"
        return log.read_text().count(" rewritten ") if log.exists() else 0


@pytest.fixture(params=["ccache", "sccache"])
def cached(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cached]:
    for program in (request.param, "nvcc", "g++"):
        if shutil.which(program) is None:
            pytest.skip(f"no {program}")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    made = Cached(request.param, tmp_path, port)
    if request.param == "ccache":
        yield made
        return
    # The server knows nothing of ptxsw: all settings come with the calls.
    sccache(made, "--start-server")
    try:
        yield made
    finally:
        sccache(made, "--stop-server")


def sccache(made: Cached, action: str) -> None:
    command = ["sccache", action]
    nowhere = subprocess.DEVNULL  # the server would keep a pipe open
    subprocess.run(command, env=made.environ, stdout=nowhere, stderr=nowhere, timeout=60)


def test_exec(cached: Cached) -> None:
    forced = cached.exec(FORCE)
    assert cached.rewritten() == 1
    assert cached.exec(FORCE) == forced and cached.rewritten() == 1, "the cache is at work"
    plain = cached.exec(AUTO)
    disabled = cached.exec(OFF)
    assert cached.rewritten() == 1
    assert forced not in (plain, disabled)
    assert cached.exec(FORCE) == forced and cached.exec(OFF) == disabled


@pytest.mark.slow
def test_each_build_has_its_own_settings(cached: Cached) -> None:
    """What is asked for is done, whatever was built before: there is a report of it."""
    for number, settings in enumerate((OFF, AUTO, FORCE, {**FORCE, "PTXSW_SCHEME": "halo"})):
        directory = cached.work / f"reports{number}"
        cached.exec({**settings, "PTXSW_REPORT": str(directory)})
        found = list(directory.glob("*.json")) if directory.exists() else []
        if settings == OFF:
            assert found == []
            continue
        [kernel] = json.loads(found[0].read_text())["kernels"]
        schemes = {rewrite["scheme"] for rewrite in kernel["rewrites"]}
        assert schemes == (set() if settings == AUTO else {settings.get("PTXSW_SCHEME", "paper")})


@pytest.mark.slow
def test_env(cached: Cached) -> None:
    forced = cached.shell("", FORCE)
    assert cached.rewritten() == 1
    assert cached.shell("", AUTO) != forced
    assert cached.shell("", OFF) != forced
    assert cached.shell("", FORCE) == forced and cached.rewritten() == 1


@pytest.mark.slow
def test_settings_that_change_after_env(cached: Cached) -> None:
    """They are obeyed, but a cache knows of them only when `ptxsw env` is asked again."""
    forced = cached.shell("", FORCE)
    assert cached.shell("export PTXSW_DISABLE=1", FORCE) == forced, "nobody could tell"
    again = f'export PTXSW_DISABLE=1; eval "$({PTXSW} env ccache)"'
    assert cached.shell(again, FORCE) != forced
    script = f'eval "$({PTXSW} env nvcc)"; PTXSW_MODE=force exec {PTXSW} doctor'
    done = run(["sh", "-c", script], cached.work, cached.environ)
    lines = [line for line in done.stdout.decode().splitlines() if line.startswith("! ")]
    for variable in (EXTRA_FILES, BUSTER):
        assert any(variable in line and "run `ptxsw env` again" in line for line in lines)


@pytest.mark.slow
def test_the_settings_of_a_project_hold(cached: Cached) -> None:
    """sccache 0.16 runs ptxas in a directory of its own, where no project is."""
    forced = cached.exec(FORCE)
    (cached.work / "ptxsw.toml").write_text('[skip]\nkernels = ["*jac*"]\n')
    assert cached.exec(FORCE) != forced
    assert cached.shell("", FORCE) != forced
    assert cached.rewritten() == 1


# ---------------------------------------------------------------- what they are told


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "settings"


def test_what_decides_is_told(directory: Path, tmp_path: Path) -> None:
    ptxas, tuned = tmp_path / "ptxas", tmp_path / "tuned.json"
    ptxas.write_text("one")
    tuned.write_text("{}")
    deciding: list[dict[str, str]] = [
        {}, {"PTXSW_MODE": "force"}, {"PTXSW_SCHEME": "halo"}, {"PTXSW_MAX_DELTA": "1"},
        {"PTXSW_ASSUME": "none"}, {"PTXSW_TIMEOUT": "5"}, {"PTXSW_DISABLE": "1"},
        {"PTXSW_REWRITES": "shuffle"}, {"PTXSW_REWRITES": "vectorize"}, {"PTXSW_SKIP": "a.cu"},
        {"PTXSW_TUNED": str(tuned)}, {"PTXSW_REAL_PTXAS": str(ptxas)}, {"PTXSW_MODE": "nonsense"},
    ]  # fmt: skip
    told = [variables({"PATH": "", **each}, directory) for each in deciding]
    for variable in (EXTRA_FILES, BUSTER):
        assert len({each[variable] for each in told}) == len(deciding)
    before = told[-2][BUSTER]
    ptxas.write_text("two")
    assert variables({"PATH": "", **deciding[-2]}, directory)[BUSTER] != before


def test_what_does_not_decide_is_not_told(directory: Path) -> None:
    same = {"PTXSW_LOG": "log", "PTXSW_REPORT": "reports", "PTXSW_STRICT": "1", "HOME": "/home/me"}
    assert variables({"PATH": "", **same}, directory) == variables({"PATH": ""}, directory)


def test_another_ptxsw_is_told(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By content: the same ptxsw installed twice is the same."""
    told = []
    for name, content in (("a", "x = 1"), ("b", "x = 1"), ("c", "x = 2")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "module.py").write_text(content)
        monkeypatch.setattr(compiler_caches, "_PACKAGE", tmp_path / name)
        told.append(variables({"PATH": ""}, directory)[BUSTER])
    assert told[0] == told[1] != told[2]
    (tmp_path / "c" / "module.py").write_text("x = 1")
    assert variables({"PATH": ""}, directory)[BUSTER] == told[0]


def test_what_the_user_has_is_kept(directory: Path) -> None:
    theirs = {"PATH": "", EXTRA_FILES: "/a:/b", BUSTER: "2024 x"}
    first = variables(theirs, directory)
    assert first[EXTRA_FILES].startswith(f"/a:/b:{directory}/")
    assert first[BUSTER].startswith("2024 x ptxsw-")
    forced = {**theirs, **first, "PTXSW_MODE": "force"}
    assert list(outdated({**theirs, **first}, directory)) == []
    assert list(outdated(forced, directory)) == [EXTRA_FILES, BUSTER]
    second = variables(forced, directory)
    assert second == variables({**theirs, "PTXSW_MODE": "force"}, directory)
    assert list(outdated({**forced, **second}, directory)) == []


def test_ccaches_own_configuration_is_kept(directory: Path, tmp_path: Path) -> None:
    ccache = shutil.which("ccache")
    if ccache is None:
        pytest.skip("no ccache")
    (tmp_path / "ccache.conf").write_text("extra_files_to_hash = /etc/version\n")
    environ = {"PATH": os.path.dirname(ccache), "CCACHE_DIR": str(tmp_path)}
    assert variables(environ, directory)[EXTRA_FILES].startswith(f"/etc/version:{directory}/")


def test_env_of_a_cache(tmp_path: Path) -> None:
    """For a shadow toolkit, or any other way to the wrapper."""

    def told(tool: str) -> Done:
        environ = {**os.environ, "XDG_DATA_HOME": str(tmp_path)}
        return run([str(PTXSW), "env", tool], tmp_path, environ)

    assert told("ccache") == told("sccache")
    assert told("ccache").status == 0 and told("ccache").stdout.count(b"\nexport ") == 2
