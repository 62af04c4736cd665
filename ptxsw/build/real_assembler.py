"""The real ptxas (or other assembler) of one call: running it, becoming it, a line in the log."""

from __future__ import annotations

import os
import sys

from ptxsw.toolchain import find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final, NoReturn

    from ptxsw.toolchain.process import Finished

FAILED = 255  # what ptxas says of any error


class Target:
    """The real ptxas, its arguments, and what to do where we can't do our part."""

    def __init__(
        self,
        path: str,
        arguments: Sequence[str],
        log: str | None = None,
        *,
        strict: bool = False,
        called: str = "ptxas",
    ) -> None:
        self.path: Final = path
        self.called: Final = called  # its own argv[0]
        self.arguments: Final = tuple(arguments)
        self.stdin = 0  # a descriptor with what was read from standard input, or 0
        self._log: Final = log
        self._strict: Final = strict

    @property
    def is_ptxas(self) -> bool:
        """Or is it GCC's assembler, which is called by its path?"""
        return self.called != self.path

    @property
    def environ(self) -> dict[str, str]:
        from ptxsw.toolchain.process import without_our_locale

        return find.remember(without_our_locale(os.environ), self.path)

    def replace_us(self) -> NoReturn:
        """Becomes the real ptxas with the arguments it was given, or ends as a shell would."""
        # without the enums of `signal`, which take longer than all else here
        import _signal as signal  # type: ignore[import-not-found]

        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, ptxas must not
            signal.signal(number, signal.SIG_DFL)
        if self.stdin != 0:
            os.lseek(self.stdin, 0, os.SEEK_SET)
            os.dup2(self.stdin, 0)
        try:
            os.execve(self.path, [self.called, *self.arguments], self.environ)
        except OSError as error:  # which was all that was left to do
            from ptxsw.toolchain.process import NOT_RUN

            sys.stderr.write(f"ptxsw: {self.path}: {error.strerror}\n")
            sys.exit(NOT_RUN)

    def run(self) -> Finished:
        """Runs the real ptxas with the arguments it was given; its words are held back."""
        from ptxsw.toolchain.process import run_captured

        if self.stdin != 0:
            os.lseek(self.stdin, 0, os.SEEK_SET)
        arguments = [self.called, *self.arguments]
        return run_captured(self.path, arguments, self.environ, self.stdin)

    def identity(self) -> str:
        """Changes with the real ptxas itself."""
        status = os.stat(self.path)
        return f"{os.path.realpath(self.path)} {status.st_size} {status.st_mtime_ns}"

    def leave_alone(self, reason: str) -> None:
        """Notes why the job is left to the real ptxas. With `PTXSW_STRICT` the call ends here, and
        says why."""
        if self._strict:
            sys.stderr.write(f"ptxsw: {reason}\n")
            sys.exit(FAILED)
        self.log(f"left alone: {reason}")

    def log(self, message: str) -> None:
        """One line, written at once, so that the lines of parallel builds do not mix. A log
        that can't be written is no reason to stop."""
        if self._log is None:
            return
        from time import strftime

        command = " ".join(argument[:200] for argument in self.arguments)
        words = f"{strftime('%Y-%m-%dT%H:%M:%S')} {os.getpid()} {message} [{command}]".split()
        try:
            descriptor = os.open(self._log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
            os.write(descriptor, " ".join(words).encode(errors="replace") + b"\n")
            os.close(descriptor)
        except OSError:
            return
