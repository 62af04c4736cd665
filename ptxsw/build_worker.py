"""A process that rewrites texts for the stand-ins of a build, one after the other.

The server (`ptxsw.build_server`) has forked it and hands it a connection to each stand-in. For each
it takes over all that the stand-in's own process would have: directory, environment, umask and
limits. What it keeps from one text to the next is what a process keeps from one kernel of a text to
the next: what was imported, and tables of PTX. It ends after a text for which it took limits that
it cannot give back, that failed, or that needed much memory.
"""

from __future__ import annotations

import gc
import os
import resource
import signal
import sys

from ptxsw.toolchain import other_process, request, server_client
from ptxsw.toolchain.process import end_with_parent
from ptxsw.toolchain.subprocess_guard import LENGTH, lead_nowhere, limit_time, tell_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Final, NoReturn

    from ptxsw.toolchain.cache import Answer
    from ptxsw.toolchain.request import Call, Optimize
    from ptxsw.toolchain.subprocess_guard import Tell
else:
    import _socket as socket

NAMES: Final = 4000
"""Bytes that the server is told at once: names of modules, a line each."""

_OURS: Final = frozenset({"ptxsw", "z3", "lark", "msgspec"})
_SELDOM: Final = 500_000
"""Objects that some fifty texts make, most of which are kept for other targets for a while."""

_MUCH: Final = 400 << 10  # KiB of memory that were held at once


class Worker:
    """Serves what comes through `channel`, a socket of whole messages to the server: a connection
    each. When it is ready for the next, it says what it has imported."""

    def __init__(self, channel: socket.socket, state: str, server: int) -> None:
        """`state` names that of ptxsw, and `server` the process that ends this one with it."""
        self._channel: Final = channel
        self._state: Final = state
        self._server: Final = server
        self._told = frozenset(sys.modules)
        self._born: Final = other_process.circumstances()

    def run(self) -> NoReturn:
        """Until the server wants no more, or this process is not what it was."""
        try:
            end_with_parent(self._server)
            lead_nowhere()
            from ptxsw import lean_start, other_targets

            other_targets.remember()
            lean_start.collect_seldom(_SELDOM)
            gc.freeze()  # what is here stays: looking through it costs more than a text
            while True:
                message, more, _, _ = self._channel.recvmsg(1, socket.CMSG_SPACE(4))
                if not message or not more:
                    os._exit(0)
                descriptor = int.from_bytes(more[0][2], sys.byteorder)
                if not self._serve(socket.socket(fileno=descriptor)):
                    os._exit(0)
        finally:  # never back into the server's code, whatever was raised
            os._exit(1)

    def _serve(self, connection: socket.socket) -> bool:
        """Reads a request and does what it asks for. Is this process ready for another one? Raises
        OSError, ValueError where it cannot be served."""
        connection.settimeout(server_client.PATIENCE)
        answer, data = _received(connection)
        who, mask, timeout, count, *rest = server_client.parted(data)
        caller, _ = server_client.peer(connection)
        if who != server_client.identity(self._state) or not other_process.sees_the_same(caller):
            return False
        fields, names = rest[: int(count)], rest[int(count) :]
        asked = request.of_fields(fields)
        environ = dict(zip(names[::2], names[1::2], strict=True))
        other_process.take_over(caller, int(mask), environ)
        from ptxsw import shim
        from ptxsw.toolchain.settings import Settings

        settings = Settings(os.environ)
        connection.send(server_client.ACCEPTED)

        def optimize(call: Call, tell: Tell) -> Answer:
            return shim.optimize(settings, call, tell)

        limit_time(float(timeout))
        right = tell_all(lambda tell: request.perform(asked, optimize, tell), answer)
        limit_time(0)
        again = right and self._is_as_it_was()
        goes_ahead = again and bool(asked.expected)
        if goes_ahead:
            self._channel.send(server_client.AHEAD)
        elif again:
            self._be_ready()
        os.close(answer)  # the last: now the stand-in goes on, and the build may ask for more
        connection.close()
        if goes_ahead:
            _work_ahead(asked, optimize, float(timeout))
            again = self._is_as_it_was()
            if again:
                self._be_ready()
        return again

    def _be_ready(self) -> None:
        """Leaves nothing of this text for the next one, and says so."""
        other_process.forget()
        self._channel.send(self._imported())

    def _is_as_it_was(self) -> bool:
        little = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < _MUCH
        return little and other_process.circumstances() == self._born

    def _imported(self) -> bytes:
        """What has been imported since the server was last told."""
        now = frozenset(sys.modules)
        names = (name for name in now - self._told if _may_be_shared(name))
        self._told = now
        data = "".join(f"{name}\n" for name in names).encode()
        return server_client.READY + data[: data.rfind(b"\n", 0, NAMES) + 1]


def _work_ahead(asked: request.CallRequest, optimize: Optimize, timeout: float) -> None:
    """Works on what is expected to be asked next. The server may end it at any time, and so does a
    text that takes too long: then nothing is left behind, and no slot of the build is kept."""
    import contextlib

    from ptxsw.toolchain import ahead

    def end(*_: object) -> NoReturn:
        sys.exit()

    def limit() -> None:
        limit_time(timeout)
        signal.signal(signal.SIGALRM, end)

    before = signal.signal(signal.SIGTERM, end)
    with contextlib.suppress(Exception):  # nobody has asked for it yet
        ahead.work(asked, optimize, limit)
    limit_time(0)
    signal.signal(signal.SIGTERM, before)


def _may_be_shared(name: str) -> bool:
    first = name.partition(".")[0]
    return first in _OURS or first in sys.stdlib_module_names


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
