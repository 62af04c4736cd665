"""Calling a function in a child process that may hang, crash or run out of memory."""

from __future__ import annotations

import os
import signal

from ptxsw.toolchain.process import end_with_parent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn


class Lost(Exception):
    """The function gave no result; the message says why."""


def call(function: Callable[[], bytes], timeout: float) -> bytes:
    """The result of `function`, computed in a fork of this process.

    Nothing that it prints is seen. Raises Lost where it raises, or has not ended after
    `timeout` seconds, or dies. The kernel ends it on time, whatever it is doing.
    """
    reading, writing = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _run(function, writing, timeout, parent)
    os.close(writing)
    with open(reading, "rb") as pipe:
        data = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == -signal.SIGALRM:
        raise Lost(f"no answer within {timeout:g} s")
    if status != 0 or not data:
        raise Lost(f"the analysis died of {_name(status)}")
    if data.startswith(b"!"):
        raise Lost(data[1:].decode(errors="replace"))
    return data[1:]


def _name(status: int) -> str:
    return signal.Signals(-status).name if status < 0 else f"status {status}"


def _run(function: Callable[[], bytes], writing: int, timeout: float, parent: int) -> NoReturn:
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
        signal.setitimer(signal.ITIMER_REAL, timeout)
        end_with_parent(parent)  # a build that is killed leaves no analysis behind
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nowhere, descriptor)
        try:
            data = b"+" + function()
        except Exception as error:
            data = b"!" + f"{type(error).__name__}: {error}".encode()
        with open(writing, "wb") as pipe:
            pipe.write(data)
        os._exit(0)
    finally:  # never back into the caller's code, whatever was raised
        os._exit(1)
