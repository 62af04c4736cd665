"""The server of a build: imports once, and forks processes that rewrite texts for stand-ins.

It runs nothing but imports itself, so that no lock and no thread is there when it forks. A process
(`ptxsw.build_worker`) that is done with a text waits for the next one; as many are there as texts
were asked about at once. What a process has imported besides, the server imports before the next
fork. It is forked from the front of the build (`build_front`) and ends with the build and its last
process (`toolchain.server_client` has the other side). A process ends with its stand-in, and with
the server.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import site

from ptxsw import lean_start
from ptxsw.toolchain import cache, server_client
from ptxsw.toolchain.process import close_all_but

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Final
else:
    import _socket as socket

_PACKAGE = os.path.dirname(os.path.abspath(__file__))
_IDLE: Final = 4
"""Processes that may wait for texts: they hold some ten MB each."""

_NEEDED: Final = (
    "ptxsw.build_worker", "ptxsw.shim", "ptxsw.pipeline", "ptxsw.rewrites.weighing",
    "ptxsw.cost.counted", "ptxsw.cost.wavefronts", "ptxsw.validate.proof", "ptxsw.checking",
    "ptxsw.rewrites.kept_values", "ptxsw.rewrites.partial_loads", "ptxsw.toolchain.held_registers",
    "ptxsw.toolchain.partial", "ptxsw.toolchain.tuned", "tomllib",
)  # fmt: skip
"""What nearly every text needs, and with it what nearly every rewrite needs to look at one."""


class _Process:
    """A process, its handle, the channel to it, and the connection to whom it works for, which is
    None while it waits, and while it works ahead."""

    def __init__(self, number: int, handle: int, channel: socket.socket) -> None:
        self.number: Final = number
        self.handle: Final = handle
        self.channel: Final = channel
        self.connection: socket.socket | None = None
        self.is_ahead = False


class Server:
    """Listens until the process behind the handle `build` ends."""

    def __init__(self, directory: str, listener: socket.socket, build: int) -> None:
        self._directory: Final = directory
        self._listener: socket.socket | None = listener
        self._build: Final = build
        self._state = ""  # of ptxsw, when it was imported
        self._processes: Final[dict[int, _Process]] = {}  # by handle, channel and connection
        self._waiting: Final[list[_Process]] = []
        self._names: Final[list[str]] = list(_NEEDED)  # still to be imported
        self._poll: Final = select.poll()
        self._poll.register(listener.fileno(), select.POLLIN)
        self._poll.register(build, select.POLLIN)

    def run(self) -> None:
        """Until the build has ended, and all that works for it. Raises OSError."""
        while self._listener is not None or self._processes:
            ready = {descriptor for descriptor, _ in self._poll.poll()}
            for descriptor in ready & self._processes.keys():
                if descriptor in self._processes:
                    self._look_after(descriptor)
            if self._listener is not None and self._listener.fileno() in ready:
                self._accept(self._listener)  # the last: descriptors get new meanings
            if self._build in ready:
                self._poll.unregister(self._build)
                self.close()

    def close(self) -> None:
        """Has nobody come any more."""
        if self._listener is None:
            return
        self._poll.unregister(self._listener.fileno())
        self._listener.close()
        self._listener = None
        for process in self._waiting:
            self._dismiss(process)
        self._waiting.clear()
        self._end_ahead()
        server_client.remove(self._directory)

    def _accept(self, listener: socket.socket) -> None:
        descriptor, _ = listener._accept()  # type: ignore[attr-defined]
        connection = socket.socket(fileno=descriptor)
        if server_client.peer(connection)[1] != os.geteuid():
            connection.close()
            return
        process = self._waiting.pop() if self._waiting else self._forked()
        process.connection = connection
        self._processes[descriptor] = process
        self._poll.register(descriptor, 0)  # tells of its end alone
        with contextlib.suppress(OSError):  # it has died: its end is told next
            server_client.hand_over(process.channel, descriptor)

    # ------------------------------------------------------------ processes

    def _forked(self) -> _Process:
        """A new process. Raises OSError."""
        self._import()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        server = os.getpid()
        number = os.fork()
        if number == 0:
            try:
                close_all_but(theirs.fileno())
                from ptxsw.build_worker import Worker

                Worker(theirs, self._state, server).run()
            finally:  # never back into the loop, whatever was raised
                os._exit(1)
        theirs.close()
        process = _Process(number, os.pidfd_open(number), ours)
        for descriptor in (process.handle, ours.fileno()):
            self._processes[descriptor] = process
            self._poll.register(descriptor, select.POLLIN)
        return process

    def _look_after(self, descriptor: int) -> None:
        """A process has ended, is done, or whom it works for has ended."""
        process = self._processes[descriptor]
        if descriptor == process.handle:
            self._bury(process)
            return
        connection = process.connection
        if self._is_done(process) or connection is None or connection.fileno() != descriptor:
            return
        os.kill(process.number, signal.SIGKILL)
        self._poll.unregister(descriptor)

    def _is_done(self, process: _Process) -> bool:
        """Has it said that it has answered? It says so before its stand-in can know."""
        try:
            said = process.channel.recv(1 << 16, socket.MSG_DONTWAIT)
        except OSError:
            return False
        if not said:  # it ends, which its handle will tell
            self._poll.unregister(process.channel.fileno())
            del self._processes[process.channel.fileno()]
            return False
        self._drop_connection(process)
        if said == server_client.AHEAD:
            self._end_ahead()  # one at a time
            process.is_ahead = self._listener is not None
            if not process.is_ahead:
                os.kill(process.number, signal.SIGTERM)
            return True
        process.is_ahead = False
        self._names.extend(said[1:].decode().split())
        if self._listener is None or len(self._waiting) >= _IDLE:
            self._dismiss(process)
        else:
            self._waiting.append(process)
        return True

    def _end_ahead(self) -> None:
        """Has the process end that works ahead."""
        for process in set(self._processes.values()):
            if process.is_ahead:
                process.is_ahead = False
                os.kill(process.number, signal.SIGTERM)

    def _dismiss(self, process: _Process) -> None:
        """Has a process that waits end."""
        process.channel.shutdown(socket.SHUT_RDWR)

    def _bury(self, process: _Process) -> None:
        _, status = os.waitpid(process.number, 0)
        said = os.waitstatus_to_exitcode(status).to_bytes(server_client.STATUS, "big", signed=True)
        if process.connection is not None:
            with contextlib.suppress(OSError):  # nobody waits for it any more
                process.connection.send(said, socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)
            self._drop_connection(process)
        if process in self._waiting:
            self._waiting.remove(process)
        for descriptor in (process.handle, process.channel.fileno()):
            self._processes.pop(descriptor, None)
            with contextlib.suppress(KeyError):
                self._poll.unregister(descriptor)
        os.close(process.handle)
        process.channel.close()

    def _drop_connection(self, process: _Process) -> None:
        if process.connection is None:
            return
        descriptor = process.connection.fileno()
        self._processes.pop(descriptor, None)
        with contextlib.suppress(KeyError):
            self._poll.unregister(descriptor)
        process.connection.close()
        process.connection = None

    # ------------------------------------------------------------ imports

    def prepare(self) -> None:
        """Imports before anybody asks: there is no answer in the cache, and compilers take their
        time before they call ptxas."""
        self._import()

    def _import(self) -> None:
        """Imports what every process needs, and what earlier ones have needed besides."""
        if not self._state:
            self._state = cache.fingerprint(_PACKAGE)
            lean_start.collect_seldom()
            site.main()  # it was started without installed packages
            lean_start.import_msgspec()
        names, self._names[:] = tuple(self._names), []
        for name in names:
            with contextlib.suppress(Exception):  # it is tried again where it is needed
                __import__(name)
        if _NEEDED[0] in names:
            from ptxsw.rewrites import every, named

            for rewrite in every():
                with contextlib.suppress(Exception):
                    if rewrite.name in named(["all"]):
                        _ = rewrite.summary  # imports the file with its search
        if names:
            from ptxsw import patterns

            patterns.compile_all()
