"""Servers of sccache-dist run the wrapper as this machine would, or leave the step to it.

A slow test starts a scheduler and two servers on this machine, which needs root (they enter
namespaces); all else is seen from what is packed.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ptxsw.build import compiler_caches, sccache_dist
from ptxsw.build.compiler_caches import PACKED, is_outdated, variables
from tests.build.conftest import PTXSW
from tests.build.test_real_builds import FLIP, SAME

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


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with what `ptxsw env sccache-dist` has packed and printed."""
    for program in ("nvcc", "bwrap", "ldd"):
        if shutil.which(program) is None:
            pytest.skip(f"no {program}")
    work = tmp_path_factory.mktemp("farm")
    command = [str(PTXSW), "env", "sccache-dist"]
    environ = {**_plain_environ(), "XDG_DATA_HOME": str(work / "data")}
    (work / "lines").write_text(
        subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout
    )
    return work


def _plain_environ() -> dict[str, str]:
    ours = ("PTXSW_", "NVCC_", "SCCACHE_", "PYTHON")
    return {k: v for k, v in os.environ.items() if not k.startswith(ours)}


@pytest.mark.slow
def test_the_archive_is_whole(farm: Path, tmp_path: Path) -> None:
    """With nothing else, the wrapper runs as it does here; with reports to write, it declines."""
    root, settings = tmp_path / "root", farm / "data" / "ptxsw" / "settings"
    with tarfile.open(settings / "ptxas.tar.gz") as tar:
        tar.extractall(root, filter="fully_trusted")
    work = root / "tmp" / "step"
    work.mkdir(parents=True)
    (tmp_path / "flip.cu").write_text(FLIP)
    command = ["nvcc", "-arch=sm_80", "--ptx", "flip.cu", "-o", str(work / "flip.ptx")]
    subprocess.run(command, cwd=tmp_path, check=True)
    toolkit = Path(json.loads((settings / PACKED).read_text())["paths"].split(":")[0]).parent
    environ = {
        **_plain_environ(), "XDG_DATA_HOME": str(farm / "data"), "PTXSW_MODE": "force",
        "PTXSW_CACHE": str(tmp_path / "cache"), "PATH": f"{toolkit}:{os.environ['PATH']}",
    }  # fmt: skip
    step = "ptxas -arch=sm_80 -m64 flip.ptx -o flip.cubin"
    # As nvcc does: its toolkit first.
    inside = (
        f"PATH={toolkit}:$PATH exec bwrap --bind {root} / --proc /proc --dev /dev "
        f"--chdir /tmp/step {sccache_dist.PLACE}/{step}"
    )
    output = work / "flip.cubin"

    def run(line: str, **more: str) -> int:
        words = [str(PTXSW), "exec", "--", "sh", "-c", line]
        return subprocess.run(words, cwd=work, env={**environ, **more}).returncode

    def cubin(line: str, **more: str) -> bytes:
        assert run(line, **more) == 0
        content = output.read_bytes()
        output.unlink()
        return content

    assert cubin(inside) == cubin(f"exec {step}") != cubin(f"exec {step}", PTXSW_DISABLE="1")
    assert run(inside, PTXSW_REPORT="reports") == 1 and output.is_dir()


# ---------------------------------------------------------------- a farm of two


MAKEFILE = """\
all: $(patsubst %.cu,%.o,$(wildcard *.cu))
%.o: %.cu
\t$(LAUNCHER) nvcc -arch=sm_80 -c $< -o $@
"""


class Farm:
    """A scheduler and two servers of sccache-dist, and builds that use them."""

    def __init__(self, work: Path, data: Path, programs: str, lines: str) -> None:
        self.work = work
        self.ports = _free_ports(4)
        self.processes: list[subprocess.Popen[bytes]] = []
        self.programs = programs
        self.environ = {
            **_plain_environ(), "XDG_DATA_HOME": str(data), "PTXSW_CACHE": str(work / "answers"),
            "SCCACHE_SERVER_PORT": str(self.ports[3]), "SCCACHE_CONF": str(work / "client"),
            "PATH": f"{programs}:{os.environ['PATH']}", "PTXSW_MODE": "force",
        }  # fmt: skip
        self.lines = lines
        (work / "project").mkdir()

    def sccache_dist(self, *arguments: str) -> str:
        command = [f"{self.programs}/sccache-dist", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def start(self) -> None:
        secret = self.sccache_dist("auth", "generate-jwt-hs256-key")
        scheduler, *servers = (f"127.0.0.1:{port}" for port in self.ports[:3])
        (self.work / "scheduler").write_text(
            f'public_addr = "{scheduler}"\n[client_auth]\ntype = "token"\ntoken = "t"\n'
            f'[server_auth]\ntype = "jwt_hs256"\nsecret_key = "{secret}"\n'
        )
        self._start("scheduler")
        for server in servers:
            name = f"server{servers.index(server)}"
            token = self.sccache_dist(
                "auth",
                "generate-jwt-hs256-server-token",
                "--secret-key",
                secret,
                "--server",
                server,
            )
            (self.work / name).write_text(
                f'cache_dir = "{self.work}/{name}-toolchains"\npublic_addr = "{server}"\n'
                f'scheduler_url = "http://{scheduler}"\n[builder]\ntype = "overlay"\n'
                f'build_dir = "{self.work}/{name}-builds"\nbwrap_path = "{shutil.which("bwrap")}"\n'
                f'[scheduler_auth]\ntype = "jwt_token"\ntoken = "{token}"\n'
            )
            self._start(name)
        (self.work / "client").write_text(
            f'[dist]\nscheduler_url = "http://{scheduler}"\ncache_dir = "{self.work}/packed"\n'
            f'[dist.auth]\ntype = "token"\ntoken = "t"\n'
            f'[cache.disk]\ndir = "{self.work}/objects"\n{self.lines}'
        )
        self.sccache("--start-server")
        for _ in range(100):
            if '"num_servers":2' in self.sccache("--dist-status"):
                return
            time.sleep(0.1)
        pytest.skip("the servers of sccache-dist do not start here")

    def _start(self, name: str) -> None:
        kind = "scheduler" if name == "scheduler" else "server"
        command = [f"{self.programs}/sccache-dist", kind, "--config", str(self.work / name)]
        environ = {**self.environ, "SCCACHE_NO_DAEMON": "1", "SCCACHE_LOG": "info"}
        with open(self.work / f"{name}.log", "wb") as log:
            self.processes.append(subprocess.Popen(command, env=environ, stdout=log, stderr=log))
        time.sleep(0.5)

    def sccache(self, action: str) -> str:
        with open(self.work / "answer", "w+") as answer:  # the server would keep a pipe open
            command = [f"{self.programs}/sccache", action]
            subprocess.run(command, env=self.environ, stdout=answer, stderr=answer, timeout=60)
            answer.seek(0)
            return answer.read()

    def forget(self) -> None:
        """Empties the cache."""
        shutil.rmtree(self.work / "objects")
        self.sccache("--stop-server")
        self.sccache("--start-server")

    def counts(self) -> tuple[int, int]:
        """How many steps servers have done, and how many they have not."""
        with open(self.work / "answer", "w+") as answer:
            command = [f"{self.programs}/sccache", "--show-stats", "--stats-format=json"]
            subprocess.run(command, env=self.environ, stdout=answer, timeout=60, check=True)
            answer.seek(0)
            stats = json.load(answer)["stats"]
        return sum(stats["dist_compiles"].values()), stats["dist_errors"]

    def build(self, jobs: int, *, here: bool = False, **more: str) -> dict[str, bytes]:
        """The code of devices in the objects."""
        assert self.begin(jobs, here=here, **more).wait(300) == 0
        return self.code()

    def begin(self, jobs: int, *, here: bool = False, **more: str) -> subprocess.Popen[bytes]:
        launcher = "LAUNCHER=" + ("" if here else "sccache")
        command = [str(PTXSW), "exec", "--", "make", "-B", "-s", f"-j{jobs}", launcher]
        return subprocess.Popen(command, cwd=self.work / "project", env={**self.environ, **more})

    def code(self) -> dict[str, bytes]:
        code = {}
        for path in (self.work / "project").glob("*.o"):
            section = ["--only-section=.nv_fatbin", str(path), str(self.work / "section")]
            subprocess.run(["objcopy", "-O", "binary", *section], check=True)
            code[path.name] = (self.work / "section").read_bytes()
        return code

    def end(self) -> None:
        self.sccache("--stop-server")
        for process in self.processes:
            with suppress(ProcessLookupError):
                process.kill()
            process.wait()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


@pytest.fixture
def two_servers(farm: Path, tmp_path: Path) -> Iterator[Farm]:
    program = shutil.which("sccache-dist")
    if program is None:
        pytest.skip("no sccache-dist")
    if os.geteuid() != 0:
        pytest.skip("servers of sccache-dist need root")
    lines = (farm / "lines").read_text()
    made = Farm(tmp_path, farm / "data", os.path.dirname(program), lines)
    project = tmp_path / "project"
    (project / "Makefile").write_text(MAKEFILE)
    for number in range(4):
        (project / f"flip{number}.cu").write_text(FLIP.replace("flip", f"flip{number}"))
        (project / f"same{number}.cu").write_text(SAME.replace("scale", f"scale{number}"))
    try:
        made.start()
        yield made
    finally:
        made.end()


@pytest.mark.slow
def test_a_farm_builds_what_one_machine_builds(two_servers: Farm) -> None:
    """Also if one server is killed on the way; and with other settings it builds something else."""
    farm = two_servers
    alone = farm.build(1, here=True)
    assert farm.build(2) == alone and len(alone) == 8
    assert farm.counts() == (32, 0), "four steps of each file, ptxas among them"
    plain = farm.build(2, PTXSW_DISABLE="1")
    assert all(plain[name] != alone[name] for name in alone if name.startswith("flip"))
    done, _ = farm.counts()
    assert farm.build(2) == alone
    assert farm.counts()[0] <= done + 8, "the cache has all but the code of the host"

    farm.forget()
    reports = farm.work / "reports"
    assert farm.build(2, PTXSW_REPORT=str(reports)) == alone
    assert farm.counts() == (24, 8), "the step that writes a report is done here"
    assert len(list(reports.glob("*.json"))) == 8

    farm.forget()
    build = farm.begin(2)
    while farm.counts()[0] < 6:
        assert build.poll() is None
        time.sleep(0.05)
    farm.processes[1].kill()
    assert build.wait(300) == 0
    assert farm.code() == alone
