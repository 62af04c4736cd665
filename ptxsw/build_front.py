"""The front of a build: acts for the scripts that stand for ptxas.

Python takes ten times as long to start as a shell, and a build calls ptxas thousands of times. So
`ptxsw exec` starts one process that has imported what each call needs. A script
(`toolchain.script`) tells it its number. It forks a process, which takes over directory,
environment, umask and limits from that of the script, does the stand-in's work (`shim`), and says
how the call ends. The script then says what ptxas said and exits, or it becomes the real ptxas.

Texts are rewritten elsewhere: by the server (`build_server`), which the front forks when somebody
first calls at its socket, or at once where nothing is kept of an earlier build.

A process ends with the script that it acts for, and with the front. That ends with the build and
the last of them. Where the front is not there, is silent or dies, scripts start Python.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import sys

from ptxsw import shim
from ptxsw.toolchain import ahead as ahead  # which forks will need, as the next ones
from ptxsw.toolchain import assembler_job, cache, front, other_process, server_client
from ptxsw.toolchain import jobs as jobs
from ptxsw.toolchain import nvcc_targets as nvcc_targets
from ptxsw.toolchain.process import close_all_but, end_with_parent, write_all
from ptxsw.toolchain.real_assembler import NoInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from typing import Final, NoReturn
else:
    import _socket as socket

_ANSWERED: Final = 0  # status of a process that has answered
_ENTRIES: Final = {"main": shim.as_ptxas, "nvptx_as": shim.as_nvptx_as}
_VARIABLES: Final = {"main": b"PTXSW_REAL_PTXAS", "nvptx_as": b"PTXSW_REAL_NVPTX_AS"}
_SERVERS: Final = 3  # are started one after the other, if they die


def main() -> NoReturn:
    """Serves the build of which the arguments tell; does not return."""
    directory, listener, build, held, at_once = sys.argv[1:]
    one = Front(directory, int(listener), int(build), int(held))
    try:
        one.run(at_once=bool(at_once))
    finally:
        one.close()
        os._exit(0)


class _Acting:
    """A call of the script behind the handle `caller`, which waits at the pipe `answers`."""

    def __init__(self, pipe: int, answers: int, caller: int) -> None:
        self.pipe: Final = pipe
        self.answers: Final = answers
        self.caller: Final = caller
        self.number = 0  # of the process that acts for it
        self.handle = -1  # of the same, as long as it runs


class Front:
    """Listens until the process behind the handle `build` ends. `held` keeps the directory from
    being taken for one that is left over."""

    def __init__(self, directory: str, listener: int, build: int, held: int) -> None:
        self._directory: Final = directory
        self._listener: Final = listener
        self._build: Final = build
        self._held: Final = held
        self._servers = 0
        self._incoming = -1
        self._line = b""  # as far as it has come
        self._calls: Final[dict[int, _Acting]] = {}  # by pipe
        self._ready: Final[dict[int, Callable[[], None]]] = {}  # what to do, by descriptor
        self._poll: Final = select.poll()

    def run(self, *, at_once: bool) -> None:
        """Until the build has ended, and all that works for it. Raises OSError."""
        self._open()
        self._watch(self._build, self.close)
        if at_once:
            self._start_server()
        else:
            self._watch(self._listener, self._start_server)
        while self._ready:
            ready = [descriptor for descriptor, _ in self._poll.poll()]
            # New calls come last: their descriptors may be numbers that were others' before.
            for descriptor in sorted(ready, key=lambda d: d == self._incoming):
                if descriptor in self._ready:
                    self._ready[descriptor]()

    def close(self) -> None:
        """Has nobody come any more."""
        for descriptor in (self._build, self._listener, self._incoming):
            self._ignore(descriptor)
        server_client.remove(self._directory)

    def _open(self) -> None:
        """Makes the pipes, and says that they are there."""
        for number in range(front.PIPES):
            os.mkfifo(self._path(f"{front.ANSWERS}{number}"), 0o600)
        os.mkfifo(self._path(front.CALLS), 0o600)
        # open for writing as well, so that it does not end between two scripts
        self._incoming = os.open(self._path(front.CALLS), os.O_RDWR | os.O_NONBLOCK)
        self._watch(self._incoming, self._listen)
        cache.keep_fingerprint(assembler_job.PACKAGE)
        end_with_parent(0)  # imports what forks will need
        gc.freeze()  # what is here stays, in each of them
        private = self._path(f".{front.NUMBER}")
        with open(private, "w", encoding="ascii") as file:
            file.write(f"{os.getpid()}\n")
        os.replace(private, self._path(front.NUMBER))

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, name)

    def _watch(self, descriptor: int, call: Callable[[], None]) -> None:
        self._ready[descriptor] = call
        self._poll.register(descriptor, select.POLLIN)

    def _ignore(self, descriptor: int) -> None:
        if self._ready.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    # ------------------------------------------------------------ the server

    def _start_server(self) -> None:
        """Somebody calls at the socket, and nobody is there."""
        self._ignore(self._listener)
        self._servers += 1
        number = os.fork()
        if number == 0:
            self._become_server()
        handle = os.pidfd_open(number)
        self._watch(handle, lambda: self._server_ended(number, handle))

    def _become_server(self) -> NoReturn:
        try:
            close_all_but(self._listener, self._build, self._held)
            from ptxsw.build_server import Server

            server = Server(self._directory, socket.socket(fileno=self._listener), self._build)
            server.prepare()
            server.run()
        finally:  # never back into the front's code, whatever was raised
            os._exit(0)

    def _server_ended(self, number: int, handle: int) -> None:
        self._ignore(handle)
        os.close(handle)
        os.waitpid(number, 0)
        if self._build not in self._ready:
            return
        if self._servers < _SERVERS:
            self._watch(self._listener, self._start_server)
        else:
            self.close()

    # ------------------------------------------------------------ calls

    def _listen(self) -> None:
        *lines, self._line = (self._line + os.read(self._incoming, 1 << 16)).split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError, OSError):  # nonsense; or the script has ended
                self._begin(front.ScriptCall(line))

    def _begin(self, call: front.ScriptCall) -> None:
        """Forks a process for a call. Raises OSError where the script does not wait for it."""
        if call.pipe in self._calls:
            return
        path = self._path(f"{front.ANSWERS}{call.pipe}")
        answers = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        try:
            caller = os.pidfd_open(call.process)
        except OSError:
            self._release(call.pipe, answers)
            raise
        acting = self._calls[call.pipe] = _Acting(call.pipe, answers, caller)
        self._watch(caller, lambda: self._caller_ended(acting))
        begun = os.open(self._path(f"{front.BEGUN}{call.pipe}"), os.O_CREAT | os.O_EXCL)
        os.close(begun)
        parent = os.getpid()
        try:
            acting.number = os.fork()
        except OSError:
            os.write(answers, front.SELF)
            raise
        if acting.number == 0:
            _act(call, path, parent)
        acting.handle = os.pidfd_open(acting.number)
        self._watch(acting.handle, lambda: self._answered(acting))

    def _answered(self, acting: _Acting) -> None:
        """The process that acts has ended."""
        self._ignore(acting.handle)
        os.close(acting.handle)
        acting.handle = -1
        _, status = os.waitpid(acting.number, 0)
        if status != _ANSWERED:
            with contextlib.suppress(OSError):  # nobody reads, and it is full
                os.write(acting.answers, front.SELF)
        if acting.caller not in self._ready:
            self._forget(acting)

    def _caller_ended(self, acting: _Acting) -> None:
        """The process of the script has ended, as itself or as the real ptxas."""
        self._ignore(acting.caller)
        if acting.handle < 0:
            self._forget(acting)
        else:
            os.kill(acting.number, signal.SIGKILL)

    def _forget(self, acting: _Acting) -> None:
        os.close(acting.caller)
        del self._calls[acting.pipe]
        self._release(acting.pipe, acting.answers)

    def _release(self, pipe: int, answers: int) -> None:
        """Lets others take a pipe, without what was not read."""
        with contextlib.suppress(BlockingIOError):
            while os.read(answers, 1 << 16):
                pass
        os.close(answers)
        for name in (front.BEGUN, front.CLAIM):
            with contextlib.suppress(OSError):  # it was not made; or the build has ended
                os.unlink(self._path(f"{name}{pipe}"))


def _act(call: front.ScriptCall, path: str, parent: int) -> NoReturn:
    """The part of a process that acts for a script."""
    try:
        end_with_parent(parent)
        close_all_but()
        answers = os.open(path, os.O_RDWR)
        if other_process.has_open(call.process, call.descriptor, answers):
            write_all(answers, _answer(call))
            os._exit(_ANSWERED)
    finally:  # never back into the front's code, whatever was raised
        os._exit(1)


def _answer(call: front.ScriptCall) -> bytes:
    """How a call ends. Raises OSError, ValueError where the script has to find that out."""
    process = call.process
    if not other_process.sees_the_same(process):
        return front.SELF
    arguments = other_process.arguments(process, call.count)
    environ = other_process.environment(process)
    if call.real and not environ.get(_VARIABLES[call.entry]):
        environ[_VARIABLES[call.entry]] = call.real
    other_process.take_over(process, other_process.umask(process), environ)
    try:
        ending = _ENTRIES[call.entry](arguments, process)
    except NoInput:
        return front.SELF
    return front.answer(ending, len(arguments))
