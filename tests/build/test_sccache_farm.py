"""What is packed for servers of sccache-dist, and a farm of two of them on this machine.

Servers need root, since they enter namespaces.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tarfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ptxsw.build import sccache_dist
from ptxsw.build.compiler_caches import PACKED
from tests.build.conftest import PTXSW
from tests.build.test_real_builds import FLIP, SAME

pytestmark = pytest.mark.slow


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


def test_the_archive_is_whole(farm: Path, tmp_path: Path) -> None:
    """With nothing else, the wrapper runs as it does here, or declines."""
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
    output.rmdir()
    shutil.rmtree(next(root.rglob("msgspec")))
    assert run(inside, PTXSW_CACHE="off") == 1 and output.is_dir(), "a fault there alone"


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
