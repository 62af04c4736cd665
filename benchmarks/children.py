"""What a program costs from its start to its end, as its parent sees it."""

from __future__ import annotations

import compileall
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median

import ptxsw


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one run: CPU and elapsed time in seconds, the most memory held in MB."""

    cpu: float
    elapsed: float
    memory: float


def cost(command: Sequence[str], environ: Mapping[str, str] | None = None) -> Cost:
    """Runs a program with its output thrown away. Raises RuntimeError where it fails."""
    _make_bytecode()
    kept = {k: v for k, v in (environ or os.environ).items() if k != "PYTHONDONTWRITEBYTECODE"}
    nowhere = os.open(os.devnull, os.O_RDWR)
    actions = [(os.POSIX_SPAWN_DUP2, nowhere, descriptor) for descriptor in (0, 1, 2)]
    begin = time.perf_counter()
    child = os.posix_spawnp(command[0], list(command), kept, file_actions=actions)
    _, status, usage = os.wait4(child, 0)
    elapsed = time.perf_counter() - begin
    os.close(nowhere)
    if status != 0:
        raise RuntimeError(f"{' '.join(command)}: status {os.waitstatus_to_exitcode(status)}")
    return Cost(usage.ru_utime + usage.ru_stime, elapsed, usage.ru_maxrss / 1024)


@cache
def _make_bytecode() -> None:
    """What is installed has it; a checkout only of what was imported before."""
    compileall.compile_dir(Path(ptxsw.__file__).parent, quiet=1)


def typical(costs: Sequence[Cost]) -> Cost:
    """The median of each figure; of memory the maximum."""
    return Cost(
        median(c.cpu for c in costs),
        median(c.elapsed for c in costs),
        max(c.memory for c in costs),
    )
