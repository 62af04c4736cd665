"""How many processes one call may take while a build runs others.

`make -jN` counts them with a jobserver: a pipe that holds a byte for each further process that
may run; whoever takes one gives it back (GNU make, "Job Slots"). Without one the machine's load
tells how many processors are idle.
"""

from __future__ import annotations

import os
import stat

from ptxsw.toolchain.lineage import lineage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LONG = 48_000
"""Characters of kernels from which on it pays to divide them among processes: about a second."""

BY_LOAD = "load"
"""Stands for the path of a jobserver where there is no make."""

_MAKES = frozenset({"make", "gmake"})


class Jobs:
    """Processes that may run, this one among them: `count`, until `end`."""

    def __init__(self, jobserver: str, wanted: int, patience: float = 0.0) -> None:
        """Takes up to so many besides the one that there is, of those that are free, or of those
        of make that are the first to become free in so many seconds. `jobserver` is what the
        function of that name has said."""
        self._tokens = b""
        self._pipe = -1
        self.count = 1
        if not wanted:
            return
        if jobserver == BY_LOAD:
            idle = processors() - 1 - int(os.getloadavg()[0])
            self.count += min(wanted, max(0, idle))
            return
        self._pipe = _opened(jobserver)
        if self._pipe >= 0:
            if patience:
                from ptxsw.toolchain.process import is_readable

                is_readable(self._pipe, patience)
            self._take(wanted)
        self.count += len(self._tokens)

    def _take(self, wanted: int) -> None:
        try:
            while len(self._tokens) < wanted:
                token = os.read(self._pipe, 1)
                if not token:
                    return
                self._tokens += token
        except OSError:  # BlockingIOError: no more are free
            return

    def end(self) -> None:
        """Gives back what was taken: the very bytes, as make wants it."""
        if self._pipe >= 0:
            if self._tokens:
                os.write(self._pipe, self._tokens)
            os.close(self._pipe)
        self._pipe, self._tokens, self.count = -1, b"", 1


def processors() -> int:
    """How many there are for this process."""
    return len(os.sched_getaffinity(0))


def jobserver(environ: Mapping[str, str], process: int) -> str:
    """Where the slots of the build are counted that runs a process: the path of make's pipe, empty
    where there is none for this process, `BY_LOAD` outside of make. It holds as long as make runs.
    """
    if not environ.get("MAKELEVEL"):
        return BY_LOAD
    return _pipe_path(environ.get("MAKEFLAGS", ""), process)


def _opened(path: str) -> int:
    """A descriptor of make's pipe that does not wait; -1 where there is none.

    The pipe is opened anew, so that it does not stop waiting for the others who share it.
    """
    try:
        if path and stat.S_ISFIFO(os.stat(path).st_mode):
            return os.open(path, os.O_RDWR | os.O_NONBLOCK)
    except OSError:
        pass
    return -1


def _pipe_path(flags: str, process: int) -> str:
    """Where the pipe is that the last of make's flags names in a process; "" where none is."""
    for word in reversed(flags.split()):
        name, _, value = word.partition("=")
        if name not in ("--jobserver-auth", "--jobserver-fds"):
            continue
        kind, _, path = value.partition(":")
        if kind == "fifo":
            return path
        reading, _, writing = value.partition(",")
        if not (reading.isdigit() and writing.isdigit()):
            return ""
        # Before 4.4, make closes the pipe for a rule that is not marked as one that runs make, and
        # leaves the numbers in its flags: there they may be those of any file. So make itself is
        # looked at first, which has the pipe open. What is taken from it counts for all rules.
        for owner in (*_running_makes(process), process):
            if _one_pipe(owner, reading, writing):
                return f"/proc/{owner}/fd/{reading}"
        return ""
    return ""


def _one_pipe(owner: int, reading: str, writing: str) -> bool:
    """Are two descriptors of a process the ends of one pipe?"""
    try:
        ends = [os.stat(f"/proc/{owner}/fd/{number}") for number in (reading, writing)]
    except OSError:  # closed, or not ours to see
        return False
    return stat.S_ISFIFO(ends[0].st_mode) and ends[0].st_ino == ends[1].st_ino


def _running_makes(process: int) -> Iterator[int]:
    """The numbers of the processes that run one and are called make, the nearest first."""
    return (number for number, name in lineage(process) if name in _MAKES)
