"""What another process of the same user is: its arguments, its environment, and all else that
decides what its children may do. (Linux only.)"""

from __future__ import annotations

import os
import resource
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

_LIMITS: Final = tuple(
    getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")
)


def arguments(process: int, count: int) -> list[str]:
    """The last `count` words of a process's command line. Raises OSError; ValueError where it has
    fewer."""
    words = command_line(process)
    if len(words) < count:
        raise ValueError(f"{len(words)} words")
    return words[len(words) - count :]


def command_line(process: int) -> list[str]:
    """Its words. Raises OSError."""
    with open(f"/proc/{process}/cmdline", "rb") as file:
        return [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]


def environment(process: int) -> dict[bytes, bytes]:
    """The environment with which a process was started. Raises OSError."""
    with open(f"/proc/{process}/environ", "rb") as file:
        entries = (entry.partition(b"=") for entry in file.read().split(b"\0"))
        return {name: value for name, equals, value in entries if equals}


def umask(process: int) -> int:
    """Raises OSError; ValueError where the kernel does not tell (before Linux 4.7)."""
    with open(f"/proc/{process}/status", "rb") as file:
        for line in file:
            if line.startswith(b"Umask:"):
                return int(line.split()[1], 8)
    raise ValueError("no umask is told")


def has_open(process: int, descriptor: int, file: int) -> bool:
    """Is a descriptor of a process the same file as the descriptor `file` of this one?"""
    try:
        theirs = os.stat(f"/proc/{process}/fd/{descriptor}")
    except OSError:
        return False
    return os.path.samestat(theirs, os.fstat(file))


def sees_the_same(process: int) -> bool:
    """Does a process see the same files as this one? Raises OSError."""
    return process > 0 and all(
        _link(process, name) == _link(os.getpid(), name) for name in ("root", "ns/mnt", "ns/user")
    )


def _link(process: int, name: str) -> str:
    return os.readlink(f"/proc/{process}/{name}")


def take_over(process: int, mask: int, environ: Mapping[bytes, bytes]) -> None:
    """Gives this process the directory, limits, priority and processors of another one, a umask and
    an environment. Raises OSError."""
    os.chdir(f"/proc/{process}/cwd")
    os.umask(mask)
    os.environb.clear()
    os.environb.update(environ)
    os.sched_setaffinity(0, os.sched_getaffinity(process))
    os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, process))
    for limit in _LIMITS:
        resource.setrlimit(limit, resource.prlimit(process, limit))


def forget() -> None:
    """Leaves the directory, and forgets what was read of the environment: the next process to take
    over may have others."""
    os.chdir("/")
    if "tempfile" in sys.modules:  # it remembers TMPDIR
        sys.modules["tempfile"].tempdir = None  # type: ignore[attr-defined]


def circumstances() -> tuple[object, ...]:
    """What this process may be unable to take back: limits, priority, processors."""
    limits = tuple(resource.getrlimit(limit) for limit in _LIMITS)
    return limits, os.getpriority(os.PRIO_PROCESS, 0), os.sched_getaffinity(0)
