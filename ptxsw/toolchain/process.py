"""Running a program in our place: files that only it can read, its output held back until we
know that it is wanted, signals passed on."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Mapping, Sequence
    from typing import Final, NoReturn
else:
    import _signal as signal  # without the enums of `signal`, which take longer than all else here

_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_PR_SET_PDEATHSIG = 1
_COERCED = ("C.UTF-8", "C.utf8", "UTF-8")  # what Python makes of the C locale
NOT_RUN = 126  # what a shell says of a command that it can't run


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
    """Runs a program to its end, its output held back. Signals that end us reach it first; then we
    end by them. Raises OSError where it cannot be started."""
    stdout, stderr = PrivateFile(b""), PrivateFile(b"")
    streams = (stdin, stdout.descriptor, stderr.descriptor)
    end_with_parent(0)  # imports what the child will need
    caught: list[int] = []
    child, parent = 0, os.getpid()

    def pass_on(number: int, _frame: object) -> None:
        caught.append(number)
        if child:
            os.kill(child, number)

    wanted = [number for number in _PASSED_ON if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, pass_on) for number in wanted}
    failure, told = os.pipe()  # closed when the program has begun
    try:
        child = os.fork()
        if child == 0:
            _become(path, arguments, environ, streams, told, parent)
        if caught:
            os.kill(child, caught[0])
        _, status = os.waitpid(child, 0)
    finally:
        os.close(told)
        for number, handler in before.items():
            signal.signal(number, handler)
    if caught:
        end_by(caught[0])
    with open(failure, "rb") as why:
        error = why.read()
    if error:
        raise OSError(int(error), os.strerror(int(error)))
    return Finished(os.waitstatus_to_exitcode(status), stdout.read(), stderr.read())


def _become(
    path: str,
    arguments: Sequence[str],
    environ: Mapping[str, str],
    streams: tuple[int, int, int],
    told: int,
    parent: int,
) -> NoReturn:
    """Turns this fork into a program that does not outlive `parent`; tells the number of the error
    where that fails."""
    try:
        for number in _PASSED_ON:
            if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
                signal.signal(number, signal.SIG_DFL)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them
            signal.signal(number, signal.SIG_DFL)
        end_with_parent(parent)
        for descriptor, wanted in zip(streams, (0, 1, 2), strict=True):
            os.dup2(descriptor, wanted)
        os.execve(path, list(arguments), environ)
    except OSError as error:
        os.write(told, b"%d" % (error.errno or 0))
    finally:  # never back into the caller's code, whatever was raised
        os._exit(NOT_RUN)


def end_with_parent(parent: int) -> None:
    """Has the kernel kill this process when `parent` is gone, however that ends; for 0 nothing
    is asked for. (Linux only.)"""
    if sys.platform.startswith("linux"):
        kill_with_parent = _prctl()
        if parent:
            kill_with_parent(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)


def _prctl() -> Callable[[int, int], object]:
    """The C library's function. `ctypes` takes longer to import than all else here, so that what
    it is made of is asked first; a Python may have it under other names."""
    try:
        import _ctypes

        place = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]
        return lambda option, value: _ctypes.call_function(place, (option, value))
    except (ImportError, AttributeError):
        import ctypes

        prctl: Callable[[int, int], object] = ctypes.CDLL(None).prctl
        return prctl


def without_our_locale(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment as this process was given it: in the C locale Python adds an `LC_CTYPE`
    (PEP 538), which programs that we start would obey."""
    if environ.get("LC_CTYPE") in _COERCED:
        try:
            with open("/proc/self/environ", "rb") as file:
                given = b"LC_CTYPE=" in {line[:9] for line in file.read().split(b"\0")}
        except OSError:
            given = True
        if not given:
            return {name: value for name, value in environ.items() if name != "LC_CTYPE"}
    return dict(environ)


def end_by(number: int) -> None:
    """Ends this process by a signal, as its parent expects of a program that met it."""
    if number != signal.SIGKILL:  # which nobody can handle
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def end_as(done: Finished) -> NoReturn:
    """Says what a program said, as far as anybody listens, and ends as it ended."""
    for descriptor, words in ((1, done.stdout), (2, done.stderr)):
        try:
            write_all(descriptor, words)
        except OSError:
            continue
    if done.status < 0:
        end_by(-done.status)
    os._exit(done.status)


def write_all(descriptor: int, data: bytes) -> None:
    """Writes all of `data`. Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
