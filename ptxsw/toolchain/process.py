"""Running a program in our place: files that only it can read, its output held back until we
know that it is wanted, signals passed on."""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Final

_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class PrivateFile:
    """A file in memory that only we and our children see; it ends with us, however we end.

    `path` is its name for a child; a child inherits the descriptor.
    """

    def __init__(self, content: bytes) -> None:
        """Raises OSError where the system has no such files."""
        self.descriptor: Final = os.memfd_create("ptxsw", 0)
        self.path: Final = f"/proc/self/fd/{self.descriptor}"
        with open(self.descriptor, "wb", closefd=False) as file:
            file.write(content)
        os.lseek(self.descriptor, 0, os.SEEK_SET)

    def read(self) -> bytes:
        with open(self.descriptor, "rb", closefd=False) as file:
            file.seek(0)
            return file.read()


class Finished:
    """What became of a program. `status` is negative for the signal that ended it."""

    def __init__(self, status: int, stdout: bytes, stderr: bytes) -> None:
        self.status: Final = status
        self.stdout: Final = stdout
        self.stderr: Final = stderr


def run_captured(
    path: str, arguments: Sequence[str], environ: Mapping[str, str], stdin: int = 0
) -> Finished:
    """Runs a program to its end. Signals that end us reach it first; then we end by them."""
    stdout, stderr = PrivateFile(b""), PrivateFile(b"")
    actions = [
        (os.POSIX_SPAWN_DUP2, stdin, 0),
        (os.POSIX_SPAWN_DUP2, stdout.descriptor, 1),
        (os.POSIX_SPAWN_DUP2, stderr.descriptor, 2),
    ]
    caught: list[int] = []
    child = 0

    def pass_on(number: int, _frame: object) -> None:
        caught.append(number)
        if child:
            os.kill(child, number)

    before = {number: signal.signal(number, pass_on) for number in _PASSED_ON}
    try:
        child = os.posix_spawn(path, list(arguments), environ, file_actions=actions)
        if caught:
            os.kill(child, caught[0])
        _, status = os.waitpid(child, 0)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if caught:
        end_by(caught[0])
    return Finished(os.waitstatus_to_exitcode(status), stdout.read(), stderr.read())


def end_by(number: int) -> None:
    """Ends this process by a signal, as its parent expects of a program that met it."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def write_all(descriptor: int, data: bytes) -> None:
    """Writes all of `data`. Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
