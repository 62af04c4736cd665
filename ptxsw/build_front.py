"""The front of a build: acts for the scripts that stand for ptxas.

Python takes ten times as long to start as a shell, and a build calls ptxas thousands of times. So
`ptxsw exec` starts one process that has imported what each call needs. A script
(`toolchain.script`) tells it its number. It hands the call to a process that it has forked
(`build_proxy`), which does the stand-in's work and says how the call ends. The script then says
what ptxas said and exits, or it becomes the real ptxas.

Texts are rewritten elsewhere: by the server (`build_server`), which the front forks when somebody
first calls at its socket, or at once where nothing is kept of an earlier build.

A process that is done waits for the next call. It ends with the script that it acts for, and with
the front. That ends with the build and the last call. Where the front is not there, is silent or
dies, scripts start Python.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import sys

from ptxsw import build_proxy
from ptxsw.toolchain import ahead as ahead  # which forks will need, as the next ones
from ptxsw.toolchain import assembler_job, cache, front, server_client
from ptxsw.toolchain import jobs as jobs
from ptxsw.toolchain import nvcc_targets as nvcc_targets
from ptxsw.toolchain.process import close_all_but, end_with_parent, is_readable

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from typing import Final, NoReturn
else:
    import _socket as socket

_IDLE: Final = 8
"""Processes that may wait for calls: they hold some three MB each."""

_PATIENCE: Final = 0.05  # seconds in which a process whose script has ended may say that it is done
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


class _Proxy:
    """A process, its handle, the channel to it, and the call that it acts for, which is None while
    it waits."""

    def __init__(self, number: int, channel: socket.socket) -> None:
        """Raises OSError."""
        self.number: Final = number
        self.handle: Final = os.pidfd_open(number)
        self.channel: Final = channel
        self.call: _Call | None = None


class _Call:
    """A call of the script behind the handle `caller`, which waits at the pipe `answers`."""

    def __init__(self, pipe: int, answers: int, caller: int) -> None:
        self.pipe: Final = pipe
        self.answers: Final = answers
        self.caller: Final = caller
        self.proxy: _Proxy | None = None  # as long as it acts


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
        self._calls: Final[dict[int, _Call]] = {}  # by pipe
        self._idle: Final[list[_Proxy]] = []
        self._ready: Final[dict[int, Callable[[], object]]] = {}  # what to do, by descriptor
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
            # What opens files comes last: new descriptors may have the numbers of closed ones.
            for descriptor in sorted(ready, key=lambda d: d in (self._listener, self._incoming)):
                if descriptor in self._ready:
                    self._ready[descriptor]()

    def close(self) -> None:
        """Has nobody come any more."""
        for descriptor in (self._build, self._listener, self._incoming):
            self._ignore(descriptor)
        for proxy in self._idle:
            proxy.channel.shutdown(socket.SHUT_RDWR)
        self._idle.clear()
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

    def _watch(self, descriptor: int, call: Callable[[], object]) -> None:
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
                self._begin(line)

    def _begin(self, line: bytes) -> None:
        """Has a process act for a call. Raises OSError where the script does not wait for it."""
        said = front.ScriptCall(line)
        if said.pipe in self._calls:
            return
        answers = os.open(self._path(f"{front.ANSWERS}{said.pipe}"), os.O_RDWR | os.O_NONBLOCK)
        try:
            caller = os.pidfd_open(said.process)
        except OSError:
            self._release(said.pipe, answers)
            raise
        call = self._calls[said.pipe] = _Call(said.pipe, answers, caller)
        self._watch(caller, lambda: self._caller_ended(call))
        begun = os.open(self._path(f"{front.BEGUN}{said.pipe}"), os.O_CREAT | os.O_EXCL)
        os.close(begun)
        try:
            call.proxy = self._idle.pop() if self._idle else self._forked()
        except OSError:
            os.write(answers, front.SELF)
            raise
        call.proxy.call = call
        with contextlib.suppress(OSError):  # it has died: its end is told next
            call.proxy.channel.send(line, socket.MSG_NOSIGNAL)

    def _forked(self) -> _Proxy:
        """A new process. Raises OSError."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        parent = os.getpid()
        number = os.fork()
        if number == 0:
            build_proxy.serve(theirs, self._directory, parent)
        theirs.close()
        proxy = _Proxy(number, ours)
        self._watch(proxy.handle, lambda: self._proxy_ended(proxy))
        self._watch(ours.fileno(), lambda: self._is_done(proxy))
        return proxy

    def _is_done(self, proxy: _Proxy, patience: float = 0.0) -> bool:
        """Has a process said that it waits for the next call, or does it in so many seconds?"""
        if patience:
            is_readable(proxy.channel.fileno(), patience)
        try:
            said = proxy.channel.recv(1, socket.MSG_DONTWAIT)
        except OSError:
            return False
        if not said:  # it ends, which its handle will tell
            self._ignore(proxy.channel.fileno())
            return False
        self._end_call(proxy)
        if self._build not in self._ready or len(self._idle) >= _IDLE:
            proxy.channel.shutdown(socket.SHUT_RDWR)
        else:
            self._idle.append(proxy)
        return True

    def _proxy_ended(self, proxy: _Proxy) -> None:
        self._ignore(proxy.handle)
        self._ignore(proxy.channel.fileno())
        if proxy in self._idle:
            self._idle.remove(proxy)
        os.close(proxy.handle)
        proxy.channel.close()
        _, status = os.waitpid(proxy.number, 0)
        if status != build_proxy.ANSWERED and proxy.call is not None:
            with contextlib.suppress(OSError):  # nobody reads, and it is full
                os.write(proxy.call.answers, front.SELF)
        self._end_call(proxy)

    def _end_call(self, proxy: _Proxy) -> None:
        """Nobody acts for its call any more."""
        call, proxy.call = proxy.call, None
        if call is not None:
            call.proxy = None
            if call.caller not in self._ready:
                self._forget(call)

    def _caller_ended(self, call: _Call) -> None:
        """The process of the script has ended, as itself or as the real ptxas."""
        self._ignore(call.caller)
        if call.proxy is None:
            self._forget(call)
        elif not self._is_done(call.proxy, _PATIENCE):
            os.kill(call.proxy.number, signal.SIGKILL)

    def _forget(self, call: _Call) -> None:
        os.close(call.caller)
        del self._calls[call.pipe]
        self._release(call.pipe, call.answers)

    def _release(self, pipe: int, answers: int) -> None:
        """Lets others take a pipe, without what was not read."""
        with contextlib.suppress(BlockingIOError):
            while os.read(answers, 1 << 16):
                pass
        os.close(answers)
        for name in (front.BEGUN, front.CLAIM):
            with contextlib.suppress(OSError):  # it was not made; or the build has ended
                os.unlink(self._path(f"{name}{pipe}"))
