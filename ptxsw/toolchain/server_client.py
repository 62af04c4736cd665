"""Asking the server of a build (`ptxsw.build_server`), and starting its front beside the build.

A process that rewrites a text spends most of its time on imports. `ptxsw exec` starts a process
that imports once for the whole build, and forks one for each text. Nothing depends on it: where it
is not there, is another version or another user's, does not answer or dies, the stand-in forks a
process of its own.

A request goes over a Unix socket, whose path stands in the environment: a byte with the pipe for
the answer, the length of the rest, and parts, each behind its length. A process that has
everything it needs says so with a byte; when it has ended its status comes behind that.
"""

from __future__ import annotations

import os
import select
import stat
import sys
from io import BytesIO
from time import monotonic

from ptxsw import __version__
from ptxsw.toolchain import front
from ptxsw.toolchain.process import close_all_but
from ptxsw.toolchain.request import CallRequest
from ptxsw.toolchain.settings import cache_directory
from ptxsw.toolchain.subprocess_guard import (
    LENGTH,
    Died,
    Transcript,
    is_complete,
    lead_nowhere,
    read_pieces,
    transcript,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Final
else:
    import _socket as socket  # without the enums of `socket`, which take longer than all else here

VARIABLE: Final = "PTXSW_SERVER"
"""The path of the socket; `off` where no server is wanted."""

ACCEPTED: Final = b"+"
READY: Final = b"."  # a process waits for the next text, and names behind it what it has imported
AHEAD: Final = b">"  # it has answered, and works on what it expects to be asked
STATUS: Final = 4  # bytes of the status of the process, with its sign
PATIENCE: Final = 5.0  # seconds in which it is accepted; else it is quicker without
_SOCKET: Final = "server"  # in a directory of its own
_PREFIX: Final = "ptxsw-build-"
_NAMES: Final = frozenset({_SOCKET, front.CALLS, front.NUMBER, f".{front.NUMBER}"})
_NUMBERED: Final = frozenset({front.ANSWERS, front.CLAIM, front.BEGUN})
_DIGITS: Final = "0123456789"
_BLOCK: Final = 1 << 16
_CREDENTIALS: Final = 12  # bytes: process, user and group
_ROOT: Final = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_PROGRAM: Final = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from ptxsw.build_front import main; main()"
)


# ---------------------------------------------------------------- the stand-in's side


def call(
    request: CallRequest, state: str, timeout: float, environ: Mapping[str, str]
) -> Transcript | None:
    """What the server's process told, as `subprocess_guard.call` has it; None where there is no
    server, or it failed. `state` names the state of ptxsw itself. Raises Lost where `optimize`
    raised."""
    path = environ.get(VARIABLE, "")
    if not path.startswith("/"):
        return None
    try:
        with_socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # The server ends a process that takes longer, unless it is stuck itself.
            parts = _parts(request, state, timeout, environ)
            return _asked(with_socket, path, parts, timeout + PATIENCE)
        finally:
            with_socket.close()
    except ConnectionRefusedError:  # it was killed
        remove(os.path.dirname(path))
        return None
    except (OSError, Died):  # among them: nobody listens, too late
        return None


def identity(state: str) -> bytes:
    """Equal for those who can serve each other."""
    return os.fsencode(f"1 {__version__} {state} {sys.executable} {_ROOT}")


def peer(connection: socket.socket) -> tuple[int, int]:
    """The process and the user at the other end; process 0 where it cannot be seen from here."""
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS)
    return int.from_bytes(data[:4], sys.byteorder), int.from_bytes(data[4:8], sys.byteorder)


def hand_over(connection: socket.socket, descriptor: int) -> None:
    """Gives the other end a descriptor of this process, behind a byte. Raises OSError."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptor.to_bytes(4, sys.byteorder))]
    connection.sendmsg([b"?"], rights, socket.MSG_NOSIGNAL)


def parted(data: bytes) -> list[bytes]:
    """The parts that were sent. Raises ValueError."""
    parts, at = [], 0
    while at < len(data):
        end = at + LENGTH + int.from_bytes(data[at : at + LENGTH], "big")
        if end > len(data):
            raise ValueError("a part is cut off")
        parts.append(data[at + LENGTH : end])
        at = end
    return parts


def _parts(
    request: CallRequest, state: str, timeout: float, environ: Mapping[str, str]
) -> Iterator[bytes]:
    """What is sent: who asks, umask, seconds, request, environment."""
    mask = os.umask(0o077)
    os.umask(mask)
    fields = request.fields()
    yield identity(state)
    yield b"%d" % mask
    yield repr(timeout).encode()
    yield b"%d" % len(fields)
    yield from fields
    for name, value in environ.items():
        yield os.fsencode(name)
        yield os.fsencode(value)


def _asked(
    connection: socket.socket, path: str, parts: Iterable[bytes], seconds: float
) -> Transcript | None:
    connection.settimeout(PATIENCE)
    connection.connect(path)
    if peer(connection)[1] != os.geteuid():
        return None
    data = b"".join(len(part).to_bytes(LENGTH, "big") + part for part in parts)
    reading, writing = os.pipe()
    try:
        try:
            hand_over(connection, writing)
        finally:
            os.close(writing)
        connection.sendall(len(data).to_bytes(LENGTH, "big") + data)
        if connection.recv(1) != ACCEPTED:
            return None
        pieces = list(read_pieces(BytesIO(_read_within(reading, seconds))))
    finally:
        os.close(reading)
    if is_complete(pieces):
        return transcript(pieces, 0)
    said = b""
    while len(said) < STATUS:
        more = connection.recv(STATUS - len(said))
        if not more:
            return None
        said += more
    return transcript(pieces, int.from_bytes(said, "big", signed=True))


def _read_within(descriptor: int, seconds: float) -> bytes:
    """What comes until the other end is closed. Raises TimeoutError when `seconds` are over."""
    end = monotonic() + seconds
    ready = select.poll()
    ready.register(descriptor, select.POLLIN)
    parts: list[bytes] = []
    while True:
        if not ready.poll(max(0, 1000 * (end - monotonic()))):
            raise TimeoutError
        part = os.read(descriptor, _BLOCK)
        if not part:
            return b"".join(parts)
        parts.append(part)


# ---------------------------------------------------------------- beside a build


def begin(environ: Mapping[str, str]) -> dict[str, str]:
    """Starts the front of a server for the build that this process is about to become: it ends with
    the build. The variable that leads to it; nothing where there is none."""
    if environ.get(VARIABLE, "").lower() in ("0", "no", "off", "false"):
        return {}
    if not hasattr(os, "pidfd_open"):  # Linux only
        return {}
    import fcntl

    directory = None
    try:
        parent = _temporary(environ)
        _remove_left(parent)
        directory = os.path.join(parent, f"{_PREFIX}{os.urandom(6).hex()}")
        os.mkdir(directory, 0o700)
        path = os.path.join(directory, _SOCKET)
        held = os.open(directory, os.O_RDONLY)  # by the front, as long as it lives
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            fcntl.flock(held, fcntl.LOCK_EX)
            listener.bind(path)
            listener.listen(socket.SOMAXCONN)
            build = os.pidfd_open(os.getpid())
            try:
                given = (listener.fileno(), build, held)
                _start(directory, given, at_once=_is_first(environ))
            finally:
                os.close(build)
        finally:
            listener.close()
            os.close(held)
    except (OSError, ValueError):
        if directory is not None:
            remove(directory)
        return {VARIABLE: ""} if environ.get(VARIABLE) else {}
    return {VARIABLE: path}


def _temporary(environ: Mapping[str, str]) -> str:
    """Where temporary files are put. (`tempfile` imports more than all else here.)"""
    for name in ("TMPDIR", "TEMP", "TMP"):
        path = environ.get(name, "")
        if path.startswith("/") and os.access(path, os.W_OK):
            return path
    return "/tmp"


def remove(directory: str) -> None:
    """Removes the directory of a server and its front, if it is one that `begin` made, and only
    what they put there. What cannot be removed stays."""
    try:
        if not _is_ours(directory):
            return
        for name in os.listdir(directory):
            if name in _NAMES or name.rstrip(_DIGITS) in _NUMBERED:
                os.unlink(os.path.join(directory, name))
        os.rmdir(directory)
    except OSError:  # another one removes it as well, or has put something there
        return


def _is_ours(directory: str) -> bool:
    """Is it a directory that `begin` makes? The name comes from the environment. Raises OSError."""
    status = os.lstat(directory)
    return (
        os.path.basename(directory).startswith(_PREFIX)
        and stat.S_ISDIR(status.st_mode)
        and status.st_uid == os.geteuid()
    )


def _remove_left(parent: str) -> None:
    """Removes what killed servers left: directories of ours that no process holds."""
    import fcntl

    for entry in os.scandir(parent):
        if not entry.name.startswith(_PREFIX) or not os.path.exists(f"{entry.path}/{_SOCKET}"):
            continue
        try:
            held = os.open(entry.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(held).st_uid == os.geteuid():
                    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    remove(entry.path)
            finally:
                os.close(held)
        except OSError:  # its server lives, or it is another's
            continue


def _is_first(environ: Mapping[str, str]) -> bool:
    """Is no answer kept of an earlier build?"""
    directory = cache_directory(environ)
    try:
        return directory is None or not os.listdir(directory)
    except OSError:
        return True


def _start(directory: str, given: tuple[int, ...], *, at_once: bool) -> None:
    """As a process that is nobody's child: the build waits for its own alone. Raises OSError."""
    between = os.fork()
    if between == 0:
        try:
            if os.fork() == 0:
                _become_front(directory, given, at_once)
            os._exit(0)
        finally:  # never back into the caller's code, whatever was raised
            os._exit(1)
    if os.waitpid(between, 0)[1] != 0:
        raise OSError("the front did not start")


def _become_front(directory: str, given: tuple[int, ...], at_once: bool) -> None:
    os.setsid()
    os.chdir("/")
    lead_nowhere()
    close_all_but(*given)
    for descriptor in given:
        os.set_inheritable(descriptor, True)
    numbers = map(str, given)
    os.execv(
        sys.executable,
        [
            sys.executable, "-I", "-S", "-c", _PROGRAM, _ROOT, directory, *numbers,
            "1" if at_once else "",
        ],
    )  # fmt: skip
