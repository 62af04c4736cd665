"""Servers of sccache-dist run the wrapper as this machine would, or leave the step to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ptxsw.build import compiler_caches, sccache_dist, shim
from ptxsw.build.compiler_caches import PACKED, is_outdated, variables
from tests.build.conftest import PTXSW

# ---------------------------------------------------------------- when a server does a step


class Server:
    """What a server has: the contents of an archive. A build here is told of them."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.settings = work / "settings"
        self.settings.mkdir()
        self.ptxas = work / "cuda" / "bin" / "ptxas"
        self.ptxas.parent.mkdir(parents=True)
        self.ptxas.write_text("one")
        self.environ = {"PATH": f"{work}/cuda/nvvm/bin:{work}/cuda/bin/../bin:/bin"}
        self.pack()

    def pack(self) -> None:
        given = compiler_caches.contents(self.environ, self.settings, str(self.ptxas))
        text = json.dumps({**given, "paths": f"{self.ptxas}:{self.work}/link/bin/ptxas"})
        (self.settings / PACKED).write_text(text)
        (self.work / "contents").write_text(text)

    def told(self, **more: str) -> dict[str, str]:
        """The environment of a build."""
        environ = {**self.environ, **more}
        return {**environ, **variables(environ, self.settings)}

    def does(self, environ: dict[str, str]) -> bool:
        return sccache_dist.is_as_packed(environ, self.work / "contents")


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path)


def test_a_server_does_what_this_machine_would_do(server: Server) -> None:
    assert server.does(server.told())
    assert server.does(server.told(PTXSW_MODE="force", PTXSW_SCHEME="halo"))
    assert server.does(server.told(PTXSW_REPORT="", PTXSW_LOG="0"))
    assert not server.does(server.environ), "whoever called told nothing"
    assert not server.does({**server.told(), "PTXSW_MODE": "force"}), "told of other settings"


def test_a_toolkit_may_have_several_names(server: Server) -> None:
    told = server.told()
    assert server.does({**told, "PATH": f"{server.work}/link/nvvm/bin:{server.work}/link/bin"})
    assert not server.does({**told, "PATH": f"{server.work}/other/bin:{server.work}/link/bin"})


def test_a_server_writes_no_files_of_ours(server: Server) -> None:
    for name in ("PTXSW_LOG", "PTXSW_REPORT"):
        assert not server.does(server.told(**{name: "there"}))


def test_what_changes_here_is_not_what_was_packed(server: Server, tmp_path: Path) -> None:
    tuned = tmp_path / "tuned.json"
    tuned.write_text("{}")
    assert not is_outdated(server.environ, server.settings)
    assert not server.does(server.told(PTXSW_TUNED=str(tuned)))
    server.ptxas.write_text("two")
    assert is_outdated(server.environ, server.settings)
    assert not server.does(server.told())
    server.pack()
    assert not is_outdated(server.environ, server.settings)
    assert server.does(server.told())


def test_another_ptxsw_is_not_what_was_packed(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = server.told()
    monkeypatch.setattr(compiler_caches, "_package", lambda _: "another")
    assert is_outdated(server.environ, server.settings)
    assert server.does(before) and not server.does(server.told())


def test_without_an_archive_nothing_is_told_of_one(tmp_path: Path) -> None:
    before = variables({"PATH": ""}, tmp_path)
    assert not is_outdated({"PATH": ""}, tmp_path)
    for nonsense in ("nonsense", "[1]", "{}", '{"path": "ptxas"}'):
        (tmp_path / PACKED).write_text(nonsense)
        assert variables({"PATH": ""}, tmp_path) == before


def test_the_ptxas_is_the_one_of_the_call(server: Server) -> None:
    """Another nvcc puts its own directories first."""
    ptxas, cuda = str(server.ptxas), server.work / "cuda"
    for path, leads in (
        (f"{cuda}/bin", True),
        (f"{cuda}/bin/../nvvm/bin:{cuda}/bin:/bin", True),
        (f"/bin:{cuda}/bin", False),
        (f"/other/nvvm/bin:/other/bin:{cuda}/bin", False),
        (f"{cuda}-2/bin:{cuda}/bin", False),
        ("", False),
    ):
        assert sccache_dist.leads_to(ptxas, {"PATH": path}) is leads, path
    chosen = {"PTXSW_REAL_PTXAS": ptxas}
    assert sccache_dist.leads_to(ptxas, chosen)
    assert not sccache_dist.leads_to(ptxas, {"PTXSW_REAL_PTXAS": "/other", "PATH": f"{cuda}/bin"})


def test_a_server_with_a_fault_of_its_own_declines(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def main() -> None:
        assert os.environ["PTXSW_STRICT"] == "1"
        raise SystemExit(255)

    monkeypatch.setattr(os, "environ", server.told())
    monkeypatch.setattr(sys, "argv", ["ptxas", "a.ptx", "-o", "a.cubin"])
    monkeypatch.setattr(sccache_dist, "PLACE", str(server.work))
    monkeypatch.setattr(shim, "main", main)
    started: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(os, "execv", lambda *command: started.append(command))
    sccache_dist.act()
    arguments = ["sh", f"{server.work}/ptxas", "a.ptx", "-o", "a.cubin"]
    assert started == [("/bin/sh", arguments)] and os.environ["PTXSW_PLAIN"] == "1"


def test_a_server_that_cannot_run_python_declines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The output is a directory, which sccache cannot read."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no python"))
    script = tmp_path / "ptxas"
    script.write_text(sccache_dist.script("/bin/mkdir"))
    output = tmp_path / "a b.cubin"
    command = ["/bin/sh", str(script), "-arch=sm_80", "a.ptx", "-o", str(output)]
    done = subprocess.run(command, capture_output=True)
    assert done.returncode == 1 and done.stdout == b""
    assert output.is_dir()


# ---------------------------------------------------------------- what is packed


@pytest.mark.parametrize(
    ("ptxas", "why"),
    [("none", "{work}/none does not exist"), ("script", "{work}/script is the wrapper itself")],
)
def test_a_ptxas_that_cannot_be_packed(ptxas: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "script").write_text("#!/bin/sh\n# ptxsw\n")
    (tmp_path / "script").chmod(0o755)
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PTXSW_REAL_PTXAS": ptxas}
    command = [str(PTXSW), "env", "sccache-dist"]
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True)
    said = f"nothing is packed for sccache-dist: {why.format(work=tmp_path)}\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)
