"""How many processes one call may take while a build runs others.

`make -jN` counts them with a jobserver: a pipe that holds a byte for each further process that
may run; whoever takes one gives it back (GNU make, "Job Slots"). Without one the machine's load
tells how many processors are idle.
"""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

LONG: Final = 48_000
"""Characters of kernels from which on it pays to divide them among processes: about a second."""


class Jobs:
    """Processes that may run, this one among them: `count`, until `end`."""

    def __init__(self, environ: Mapping[str, str], wanted: int) -> None:
        """Takes up to so many besides the one that there is, of those that are free."""
        self._tokens = b""
        self._pipe = -1
        self.count = 1
        if not wanted:
            return
        if not environ.get("MAKELEVEL"):
            idle = processors() - 1 - int(os.getloadavg()[0])
            self.count += min(wanted, max(0, idle))
            return
        self._pipe = _opened(_pipe_path(environ.get("MAKEFLAGS", "")))
        if self._pipe >= 0:
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


def _pipe_path(flags: str) -> str:
    """Where the pipe is that the last of make's flags names; "" where none is.

    Before 4.4, make closes the pipe for a rule that is not marked as one that runs make, and leaves
    the numbers in its flags: there they may be those of any file.
    """
    for word in reversed(flags.split()):
        name, _, value = word.partition("=")
        if name not in ("--jobserver-auth", "--jobserver-fds"):
            continue
        kind, _, path = value.partition(":")
        if kind == "fifo":
            return path
        reading, _, writing = value.partition(",")
        numbers = reading.isdigit() and writing.isdigit()
        return f"/proc/self/fd/{reading}" if numbers and _is_one_pipe(reading, writing) else ""
    return ""


def _is_one_pipe(reading: str, writing: str) -> bool:
    """Are two descriptors the ends of one pipe?"""
    try:
        ends = [os.fstat(int(number)) for number in (reading, writing)]
    except OSError:  # closed
        return False
    return stat.S_ISFIFO(ends[0].st_mode) and os.path.samestat(*ends)
