"""The server of a build: imports once, forks a process for each text that a stand-in asks about.

It runs nothing but imports itself, so that nothing of one text is left for another, and no lock
and no thread is there when it forks. What a process has imported besides, it imports before the
next fork. It starts with `ptxsw exec` and ends with the build and its last process
(`toolchain.server_client` has the other side). A process ends with its stand-in, and with the
server.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import site
import sys

from ptxsw.toolchain import cache, request, server_client
from ptxsw.toolchain.process import end_with_parent
from ptxsw.toolchain.subprocess_guard import LENGTH, run_function

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping
    from typing import Final, NoReturn
else:
    import _socket as socket

_PACKAGE = os.path.dirname(os.path.abspath(__file__))
_NAMES = 4000  # bytes of names of modules: what goes through a pipe in one piece
_OURS = frozenset({"ptxsw", "z3", "lark", "msgspec"})


def main() -> NoReturn:
    """Serves the build of which the arguments tell; does not return."""
    directory, listener, build = sys.argv[1:]
    server = Server(directory, socket.socket(fileno=int(listener)), int(build))
    try:
        server.run()
    finally:
        server.close()
        os._exit(0)


class _Process:
    """A process that works for a stand-in: its handle, the connection to whom it works for."""

    def __init__(self, number: int, handle: int, connection: socket.socket) -> None:
        self.number: Final = number
        self.handle: Final = handle
        self.connection: Final = connection


class Server:
    """Listens until the process behind the handle `build` ends."""

    def __init__(self, directory: str, listener: socket.socket, build: int) -> None:
        self._directory: Final = directory
        self._listener: socket.socket | None = listener
        self._build: Final = build
        self._state = ""  # of ptxsw, when it was imported
        self._processes: Final[dict[int, _Process]] = {}  # by handle, and by connection
        self._names, self._told = os.pipe()
        os.set_blocking(self._names, False)
        os.set_blocking(self._told, False)
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
        for path in (os.path.join(self._directory, "server"), self._directory):
            with contextlib.suppress(OSError):
                (os.unlink if path != self._directory else os.rmdir)(path)

    def _accept(self, listener: socket.socket) -> None:
        descriptor, _ = listener._accept()  # type: ignore[attr-defined]
        connection = socket.socket(fileno=descriptor)
        if server_client.peer(connection)[1] != os.geteuid():
            connection.close()
            return
        self._import()
        server = os.getpid()
        number = os.fork()
        if number == 0:
            try:
                end_with_parent(server)
                self._leave(connection)
                serve(connection, self._state, self._tell)
            finally:  # never back into the loop, whatever was raised
                os._exit(1)
        process = _Process(number, os.pidfd_open(number), connection)
        self._processes[process.handle] = self._processes[descriptor] = process
        self._poll.register(process.handle, select.POLLIN)
        self._poll.register(descriptor, 0)  # tells of its end alone

    def _look_after(self, descriptor: int) -> None:
        """A process has ended, or whom it works for."""
        process = self._processes[descriptor]
        if descriptor != process.handle:
            os.kill(process.number, signal.SIGKILL)
            self._poll.unregister(descriptor)
            return
        _, status = os.waitpid(process.number, 0)
        said = os.waitstatus_to_exitcode(status).to_bytes(server_client.STATUS, "big", signed=True)
        connection = process.connection
        with contextlib.suppress(OSError):  # nobody waits for it any more
            connection.send(said, socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)
        del self._processes[process.handle], self._processes[connection.fileno()]
        for one in (process.handle, connection.fileno()):
            with contextlib.suppress(KeyError):
                self._poll.unregister(one)
        os.close(process.handle)
        connection.close()

    # ------------------------------------------------------------ imports

    def _import(self) -> None:
        """Imports what every process needs, and what earlier ones have needed besides."""
        if not self._state:
            self._state = cache.fingerprint(_PACKAGE)
            site.main()  # it was started without installed packages
            names = ["ptxsw.shim", "ptxsw.pipeline"]
        else:
            names = []
        with contextlib.suppress(BlockingIOError):
            names += os.read(self._names, 1 << 16).decode().split()
        for name in names:
            with contextlib.suppress(Exception):  # it is tried again where it is needed
                __import__(name)
        if names:
            from ptxsw import patterns

            patterns.compile_all()

    def _tell(self, before: frozenset[str]) -> None:
        """Tells the server, from one of its processes, what that has imported since."""
        new = (name for name in sys.modules if name not in before and _may_be_shared(name))
        data = "".join(f"{name}\n" for name in new).encode()
        with contextlib.suppress(BlockingIOError):  # another one will tell
            os.write(self._told, data[: data.rfind(b"\n", 0, _NAMES) + 1])

    def _leave(self, connection: socket.socket) -> None:
        """Closes, in a new process, what belongs to the server."""
        kept = {0, 1, 2, connection.fileno(), self._told}
        for name in os.listdir("/proc/self/fd"):
            if int(name) not in kept:
                with contextlib.suppress(OSError):  # the one that has listed them
                    os.close(int(name))


def _may_be_shared(name: str) -> bool:
    first = name.partition(".")[0]
    return first in _OURS or first in sys.stdlib_module_names


# ---------------------------------------------------------------- one process


def serve(
    connection: socket.socket, state: str, tell_names: Callable[[frozenset[str]], None]
) -> NoReturn:
    """Reads a request and does what it asks for; ends without a word where it cannot be served."""
    connection.settimeout(server_client.PATIENCE)
    answer, data = _received(connection)
    who, mask, timeout, count, *rest = server_client.parted(data)
    if who != server_client.identity(state) or not _alike(connection):
        os._exit(0)
    fields, names = rest[: int(count)], rest[int(count) :]
    asked = request.of_fields(fields)
    environ = dict(zip(names[::2], names[1::2], strict=True))
    _become(server_client.peer(connection)[0], int(mask), environ)
    from ptxsw import shim
    from ptxsw.toolchain.settings import Settings

    settings = Settings(os.environ)
    before = frozenset(sys.modules)

    def work(tell: Callable[[bytes], None]) -> None:
        request.perform(asked, lambda call, told: shim.optimize(settings, call, told), tell)
        tell_names(before)

    connection.send(server_client.ACCEPTED)
    run_function(work, answer, float(timeout), os.getppid())


def _received(connection: socket.socket) -> tuple[int, bytes]:
    """The pipe for the answer, and the request. Raises OSError, ValueError."""
    first, more, _, _ = connection.recvmsg(1, socket.CMSG_SPACE(4))
    if not first or not more:
        raise ValueError("no request")
    answer = int.from_bytes(more[0][2], sys.byteorder)
    length = int.from_bytes(_exactly(connection, LENGTH), "big")
    return answer, _exactly(connection, length)


def _exactly(connection: socket.socket, length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        more = connection.recv(min(length - len(data), 1 << 20))
        if not more:
            raise ValueError("the request is cut off")
        data += more
    return bytes(data)


def _alike(connection: socket.socket) -> bool:
    """Does the other end see the same files as this process? Raises OSError."""
    process, _ = server_client.peer(connection)
    return process > 0 and all(
        _link(process, name) == _link(os.getpid(), name) for name in ("root", "ns/mnt", "ns/user")
    )


def _link(process: int, name: str) -> str:
    return os.readlink(f"/proc/{process}/{name}")


def _become(process: int, mask: int, environ: Mapping[bytes, bytes]) -> None:
    """Takes over from a process all that decides what its children may do. Raises OSError."""
    import resource

    os.chdir(f"/proc/{process}/cwd")
    os.umask(mask)
    os.environb.clear()
    os.environb.update(environ)
    os.sched_setaffinity(0, os.sched_getaffinity(process))
    os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, process))
    for name in dir(resource):
        if name.startswith("RLIMIT_"):
            limit = getattr(resource, name)
            resource.setrlimit(limit, resource.prlimit(process, limit))
