"""Calling a function in a child process that may hang, crash or run out of memory."""

from __future__ import annotations

import os

from ptxsw.toolchain.process import end_with_parent, write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Iterator
    from typing import BinaryIO, Final, NoReturn

    Tell = Callable[[bytes], None]
else:
    import _signal as signal  # without the enums of `signal`, which take longer than all else here

_TOLD, _ENDED, _FAILED = b"+", b".", b"!"  # the first byte of each piece
_LENGTH = 8  # bytes of the number before it


class Lost(Exception):
    """The function has failed; the message says how."""


class Transcript:
    """What a function told, in order. `in_time`: it came to its end."""

    def __init__(self, pieces: list[bytes], *, in_time: bool) -> None:
        self.pieces: Final = pieces
        self.in_time: Final = in_time


def call(function: Callable[[Tell], None], timeout: float) -> Transcript:
    """What `function` tells, computed in a fork of this process.

    It is given a function that sends bytes to this process; what was sent is here, whatever
    becomes of the rest. After `timeout` seconds the kernel ends it, whatever it is doing. Nothing
    that it prints is seen. Raises Lost where it raises or dies.
    """
    reading, writing = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _run(function, writing, timeout, parent)
    os.close(writing)
    with open(reading, "rb") as pipe:
        pieces = list(_pieces(pipe))
    return _transcript(pieces, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def _transcript(pieces: list[bytes], status: int) -> Transcript:
    """What the pieces say, of a process with this status at its end. Raises Lost."""
    if pieces and pieces[-1].startswith(_FAILED):
        raise Lost(pieces[-1][1:].decode(errors="replace"))
    in_time = bool(pieces) and pieces[-1].startswith(_ENDED)
    if not in_time and status != -signal.SIGALRM:
        raise Lost(f"the analysis was ended by {_name(status)}")
    return Transcript([piece[1:] for piece in pieces if piece.startswith(_TOLD)], in_time=in_time)


def _pieces(pipe: BinaryIO) -> Iterator[bytes]:
    """What came whole: each piece follows its length."""
    while len(head := pipe.read(_LENGTH)) == _LENGTH:
        length = int.from_bytes(head, "big")
        piece = pipe.read(length)
        if len(piece) < length:
            return
        yield piece


def _name(status: int) -> str:
    import signal

    return signal.Signals(-status).name if status < 0 else f"status {status}"


def _run(function: Callable[[Tell], None], writing: int, timeout: float, parent: int) -> NoReturn:
    """Runs it to its end, or that of the time or of `parent`; this process ends with it."""
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
        signal.setitimer(signal.ITIMER_REAL, timeout)
        end_with_parent(parent)  # a build that is killed leaves no analysis behind
        _lead_nowhere()
        _tell_all(function, writing)
        os._exit(0)
    finally:  # never back into the caller's code, whatever was raised
        os._exit(1)


def _lead_nowhere() -> None:
    """Has nothing that this process prints be seen."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _tell_all(function: Callable[[Tell], None], writing: int) -> None:
    """Runs it to its end, and writes what it tells, and how it ended."""

    def send(kind: bytes, data: bytes) -> None:
        write_all(writing, (len(data) + 1).to_bytes(_LENGTH, "big") + kind + data)

    try:
        function(lambda data: send(_TOLD, data))
    except Exception as error:
        send(_FAILED, f"{type(error).__name__}: {error}".encode())
    else:
        send(_ENDED, b"")
