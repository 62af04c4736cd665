"""The command line, run in this process: a start of its own would take ten times as long.

What needs a process (streams that do not work, signals, what is imported at the start) calls
`process`, and so does whatever becomes another program or hands its own streams on.
"""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ptxsw import cli

ROOT = Path(__file__).parents[1]
KERNELS = ROOT / "benchmarks" / "kernelgen" / "ptx"
JACOBI = KERNELS / "jacobi.ptx"

Done = subprocess.CompletedProcess[bytes]

_PROCESSES = {"assemble", "exec"}
"""Commands that become other programs, or whose programs write to this process's streams."""


def process(
    *arguments: object,
    cwd: Path | None = None,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    **environ: str,
) -> Done:
    """`ptxsw` with some arguments, without settings but those that are given."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PTXSW_")}
    return subprocess.run(
        [sys.executable, "-m", "ptxsw", *map(str, arguments)],
        cwd=cwd or ROOT, env={**kept, **(env or {}), **environ}, input=stdin,
        capture_output=True, timeout=60,
    )  # fmt: skip


def ptxsw(
    *arguments: object,
    cwd: Path | None = None,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    **environ: str,
) -> Done:
    """The same without a process."""
    words = list(map(str, arguments))
    if not words or words[0] in _PROCESSES:
        return process(*words, cwd=cwd, stdin=stdin, env=env, **environ)
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("PTXSW_")]:
            patch.delenv(name)
        for name, value in {**(env or {}), **environ}.items():
            patch.setenv(name, value)
        patch.chdir(cwd or ROOT)
        patch.setattr(sys, "argv", ["ptxsw", *words])
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), "utf-8"))
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        patch.setattr(signal, "signal", lambda *_: None)
        status = _status()
    streams = [stream.buffer for stream in (out, err)]
    assert all(isinstance(stream, io.BytesIO) for stream in streams)
    return Done(words, status, *(stream.getvalue() for stream in streams))


def in_text(*arguments: object, **more: Any) -> subprocess.CompletedProcess[str]:
    """The same, its output as text."""
    done = ptxsw(*arguments, **more)
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


def _status() -> int:
    try:
        cli.run()
    except SystemExit as error:
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
            return 1
        return error.code or 0
    except Exception:
        traceback.print_exc()
        return 1
    return 0
