"""What works for a build ends with it, however the build is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux only")

PARENT = """
import os, signal, time
{before}
from ptxsw.toolchain.process import end_with_parent
ready, told = os.pipe()
parent = os.getpid()
child = os.fork()
if child == 0:
    end_with_parent(parent)
    os.close(1)
    os.write(told, b"!")
    time.sleep(60)
    os._exit(0)
os.read(ready, 1)
print(child, flush=True)
os.kill(parent, signal.SIGKILL)
"""


def is_running(process: int) -> bool:
    """A process that was killed may still be listed until somebody asks how it ended."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


@pytest.mark.parametrize("before", ["", "import _ctypes; del _ctypes.dlsym"])
def test_a_child_ends_with_its_parent(before: str) -> None:
    """Also where a Python does not have what `ctypes` is made of."""
    script = PARENT.format(before=before)
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, check=False)
    assert done.returncode < 0
    child = int(done.stdout)
    for _ in range(100):
        if not is_running(child):
            return
        time.sleep(0.05)
    os.kill(child, 9)
    pytest.fail("the child goes on")
