"""The real ptxas (or other assembler) of one call: running it, becoming it, a line in the log."""

from __future__ import annotations

import os
import sys

from ptxsw.toolchain import find
from ptxsw.toolchain.large_pages import with_large_pages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final, NoReturn

    from ptxsw.toolchain.process import Finished, Running

FAILED = 255  # what ptxas says of any error
NOT_RUN = 126  # what a shell says of a command that it can't run


def refused(reason: str, status: int) -> Finished:
    """A call that ends without ptxas, with a line of ours about it."""
    from ptxsw.toolchain.process import Finished

    return Finished(status, b"", f"ptxsw: {reason}\n".encode(errors="replace"))


class NoInput(Exception):
    """Standard input is to be read, and only the process that was called has it."""


class Target:
    """The real ptxas, its arguments, and what to do where we can't do our part. `process` is the
    one that was called; 0 for this one."""

    def __init__(
        self,
        path: str,
        arguments: Sequence[str],
        log: str | None = None,
        *,
        strict: bool = False,
        called: str = "ptxas",
        process: int = 0,
    ) -> None:
        self.path: Final = path
        self.called: Final = called  # its own argv[0]
        self.arguments: Final = tuple(arguments)
        self.process: Final = process or os.getpid()
        self.stdin = 0  # a descriptor with what was read from standard input, or 0
        self.done: Finished | None = None  # what it has said, where its output is there already
        self._log: Final = log
        self._strict: Final = strict

    @property
    def environ(self) -> dict[str, str]:
        return find.remember(with_large_pages(os.environ), self.path)

    def replace_us(self) -> NoReturn:
        """Becomes the real ptxas with the arguments it was given. Raises OSError."""
        # without the enums of `signal`, which take longer than all else here
        import _signal as signal  # type: ignore[import-not-found]

        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, ptxas must not
            signal.signal(number, signal.SIG_DFL)
        if self.stdin != 0:
            os.lseek(self.stdin, 0, os.SEEK_SET)
            os.dup2(self.stdin, 0)
        os.execve(self.path, [self.called, *self.arguments], self.environ)

    def start(self) -> Running:
        """Starts the real ptxas with the arguments it was given; its words are held back."""
        from ptxsw.toolchain.process import Running

        if self.stdin != 0:
            os.lseek(self.stdin, 0, os.SEEK_SET)
        return Running(self.path, [self.called, *self.arguments], self.environ, self.stdin)

    def run(self) -> Finished:
        """The same, to its end."""
        return self.start().finish()

    def identity(self) -> str:
        """Changes with the real ptxas itself."""
        status = os.stat(self.path)
        return f"{os.path.realpath(self.path)} {status.st_size} {status.st_mtime_ns}"

    def leave_alone(self, reason: str) -> Finished | None:
        """Leaves the job to the real ptxas: what it has said, or None where it is to do it. With
        `PTXSW_STRICT` the call fails, and says why."""
        if self._strict:
            return refused(reason, FAILED)
        self.log(f"left alone: {reason}")
        return self.done

    def log(self, message: str) -> None:
        """One line, written at once, so that the lines of parallel builds do not mix. A log
        that can't be written is no reason to stop."""
        if self._log is None:
            return
        from time import strftime

        command = " ".join(argument[:200] for argument in self.arguments)
        words = f"{strftime('%Y-%m-%dT%H:%M:%S')} {self.process} {message} [{command}]".split()
        try:
            descriptor = os.open(self._log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
            os.write(descriptor, " ".join(words).encode(errors="replace") + b"\n")
            os.close(descriptor)
        except OSError:
            return


class Ending:
    """How a call of the stand-in ends: as `done` has ended, or by becoming the target."""

    def __init__(self, target: Target | None, done: Finished | None) -> None:
        """One of the two is there."""
        self.target: Final = target
        self.done: Final = done

    def follow(self) -> NoReturn:
        """Ends this process so."""
        if self.done is not None:
            from ptxsw.toolchain.process import end_as

            end_as(self.done)
        assert self.target is not None
        try:
            self.target.replace_us()
        except OSError as error:  # which was all that was left to do
            sys.stderr.write(f"ptxsw: {self.target.path}: {error.strerror}\n")
            sys.exit(NOT_RUN)
