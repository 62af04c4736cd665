"""Where figures come from: date, command, versions, the state of the tree, the machine."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from datetime import date
from pathlib import Path

import ptxsw
from ptxsw.toolchain.find import real_ptxas
from ptxsw.toolchain.ptxas import version

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"


def machine(gpu: str | None = None) -> str:
    """A name for a kind of machine, as a folder: "linux-x86_64-2cores", or with a GPU
    "linux-x86_64-nvidia-a100"."""
    system = f"{platform.system().lower()}-{platform.machine()}"
    if gpu is not None:
        return f"{system}-{slug(gpu)}"
    return f"{system}-{os.cpu_count()}cores"


def slug(name: str) -> str:
    """A name as a part of the name of a folder."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def changes() -> list[str] | None:
    """The files that differ from the commit, but for results; None where there is no git."""
    status = _git("status", "--porcelain", "--untracked-files=all")
    if status is None:
        return None
    return [line[3:] for line in status.splitlines() if "benchmarks/results/" not in line]


def tree() -> str:
    """The commit, and whether the tree is what was committed."""
    commit, changed = _git("rev-parse", "--short=12", "HEAD"), changes()
    if commit is None or changed is None:
        return "not known (no git)"
    return f"{commit}, {f'NOT CLEAN: {len(changed)} files differ' if changed else 'clean'}"


def provenance(command: str, gpu: str | None = None) -> list[str]:
    """Lines to stand above figures."""
    found = real_ptxas(os.environ)
    ptxas = version(found.path) if found else "none"
    return [
        f"date: {date.today().isoformat()}",
        f"command: {command}",
        f"versions: ptxsw {ptxsw.__version__}, Python {platform.python_version()}, ptxas {ptxas}",
        f"tree: {tree()}",
        f"machine: {machine()}, {processor()}, {gpu or 'no GPU used'}",
    ]


def processor() -> str:
    """Its name, as far as the system tells."""
    try:
        told = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or "processor not known"
    found = re.search(r"^model name\s*:\s*(.+)$", told, re.MULTILINE)
    return found[1].strip() if found else "processor not known"


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.rstrip("\n") if done.returncode == 0 else None
