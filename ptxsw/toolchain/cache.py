"""Answers kept from build to build, by the content they answer.

An entry is written to a private name and renamed, so that a reader sees all of it or nothing; it
carries a checksum, and one that does not fit is removed and answered anew. The directory is used
only if it is ours alone.
"""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from hashlib import blake2b as blake2b
    from typing import Final
else:
    try:
        from _blake2 import blake2b  # hashlib's own; hashlib imports OpenSSL besides
    except ImportError:
        from hashlib import blake2b

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

MAX_BYTES = 256 << 20
COUNTED = "counted-"  # before the names of entries that tell what ptxas makes of texts
KERNEL = "kernel-"  # before the names of entries that tell of one kernel
_SUFFIX = ".ptxsw"
_MAGIC = b"ptxsw-cache-2"
_HEAD = 256  # bytes that hold the first two lines of an entry


class Answer:
    """What `optimize` made of a text. `text` is None where it left it alone.

    `fault` says why something is left alone that need not be, and is told at each use: ptxas
    refused the rewritten text, a kernel met a fault of ptxsw, or (`limit` > 0) kernels were not
    finished within so many seconds.
    """

    def __init__(
        self, text: bytes | None, report: bytes, fault: str = "", limit: float = 0.0
    ) -> None:
        self.text: Final = text
        self.report: Final = report  # JSON; empty where there is none
        self.fault: Final = fault
        self.limit: Final = limit


class Tally:
    """What a cache holds: numbers of answers, and the bytes of all that is kept."""

    def __init__(
        self, answers: int, kernels: int, refused: int, unfinished: int, size: int
    ) -> None:
        self.answers: Final = answers  # for whole files
        self.kernels: Final = kernels  # for single kernels
        self.refused: Final = refused  # of these, by ptxas
        self.unfinished: Final = unfinished  # of these, for want of time
        self.size: Final = size

    def __str__(self) -> str:
        notes = []
        if self.refused:
            notes.append(f"{self.refused} rejected by ptxas")
        if self.unfinished:
            notes.append(f"{self.unfinished} not finished in time")
        among = f" ({', '.join(notes)})" if notes else ""
        kernels = f", {self.kernels} kernels" if self.kernels else ""
        files = f"{self.answers} file{'s' * (self.answers != 1)}"
        return f"{files}{among}{kernels}, {self.size / 1e6:.1f} MB"


def key(*parts: bytes) -> str:
    """The name of an entry for these inputs."""
    digest = blake2b(digest_size=20)
    for part in parts:
        digest.update(b"%d:" % len(part))
        digest.update(part)
    return digest.hexdigest()


def fingerprint(package: str) -> str:
    """Names the state of ptxsw itself, so that a change of it outdates all answers: the newest
    modification and the number of files of the package in this directory."""
    newest, count, directories = 0, 0, [package]
    while directories:
        with os.scandir(directories.pop()) as entries:
            for entry in entries:
                if entry.is_dir():
                    if entry.name != "__pycache__":
                        directories.append(entry.path)
                else:
                    newest = max(newest, entry.stat().st_mtime_ns)
                    count += 1
    return f"{count}-{newest}"


class Cache:
    """The entries in one directory."""

    def __init__(self, directory: str, limit: int = MAX_BYTES) -> None:
        self.directory: Final = directory
        self._limit: Final = limit

    @property
    def problem(self) -> str | None:
        """Why the directory is not used, or None; also None where it is not there yet."""
        try:
            status = os.stat(self.directory)
        except FileNotFoundError:
            return None
        except OSError as error:
            return error.strerror or "cannot be read"
        if not stat.S_ISDIR(status.st_mode):
            return "is not a directory"
        if status.st_uid != os.geteuid():
            return "belongs to another user"
        if status.st_mode & 0o022:
            return "can be written by other users"
        return None

    def get(self, name: str) -> Answer | None:
        """The entry, or None. A damaged entry is removed."""
        path = self._path(name)
        try:
            with open(path, "rb") as file:
                data = file.read()
        except OSError:
            return None
        answer = decode(data)
        try:  # without `contextlib`, which takes longer than all else here
            if answer is None:
                os.unlink(path)
            else:
                os.utime(path)  # the least recently used go first
        except OSError:
            pass
        return answer

    def put(self, name: str, answer: Answer, *, trim: bool = True) -> None:
        """Adds an entry, and with `trim` removes those that are then too many. Raises OSError where
        it cannot be written; nothing is left then."""
        os.makedirs(self.directory, mode=0o700, exist_ok=True)
        private = os.path.join(self.directory, f".{name}.{os.getpid()}")
        try:
            with open(private, "xb", opener=_open_private) as file:
                file.write(encode(answer))
            os.replace(private, self._path(name))
        except OSError:
            _remove(private)
            raise
        if trim:
            self._trim()

    def tally(self) -> Tally:
        """Counts the entries; of each only the head is read."""
        answers = kernels = refused = unfinished = size = 0
        for entry in self._entries():
            try:
                with open(entry.path, "rb") as file:
                    limit, fault = _told(file.read(_HEAD).partition(b"\n")[2])
                    size += os.fstat(file.fileno()).st_size
            except OSError:
                continue
            is_refusal = fault and not limit
            answers += not is_refusal and not entry.name.startswith((KERNEL, COUNTED))
            kernels += entry.name.startswith(KERNEL)
            refused += bool(is_refusal)
            unfinished += limit > 0
        return Tally(answers, kernels, refused, unfinished, size)

    def clear(self) -> int:
        """Removes all entries, and what killed writers left; returns the number of entries."""
        count = 0
        for entry in self._entries(every=True):
            os.unlink(entry.path)
            count += entry.name.endswith(_SUFFIX)
        return count

    def _path(self, name: str) -> str:
        return os.path.join(self.directory, name + _SUFFIX)

    def _entries(self, *, every: bool = False) -> Iterator[os.DirEntry[str]]:
        try:
            entries = list(os.scandir(self.directory))
        except OSError:
            return
        for entry in entries:
            left_over = entry.name.startswith(".") and every
            if entry.name.endswith(_SUFFIX) or (left_over and entry.is_file()):
                yield entry

    def _trim(self) -> None:
        """Removes what was not used for longest until the rest is within the limit."""
        aged = []
        for entry in self._entries():
            try:
                status = entry.stat()
            except OSError:  # another process may have removed it
                continue
            aged.append((status.st_mtime_ns, status.st_size, entry.path))
        total = sum(size for _, size, _ in aged)
        for _, size, path in sorted(aged):
            if total <= self._limit:
                return
            _remove(path)
            total -= size


def _remove(path: str) -> None:
    """Removes a file, if that is possible."""
    try:
        os.unlink(path)
    except OSError:
        return


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def encode(answer: Answer) -> bytes:
    """An answer as bytes, with a checksum."""
    text = b"-" if answer.text is None else b"+" + answer.text
    fault = answer.fault.encode()
    head = b"%d %d %s\n" % (len(text), len(fault), repr(answer.limit).encode())
    body = head + text + fault + answer.report
    return b"%s %s\n" % (_MAGIC, key(body).encode()) + body


def decode(data: bytes) -> Answer | None:
    """The answer that `encode` made into `data`; None where it is damaged."""
    head, _, body = data.partition(b"\n")
    if head != b"%s %s" % (_MAGIC, key(body).encode()):
        return None
    sizes, _, rest = body.partition(b"\n")
    words = sizes.split()
    end = int(words[0])
    after = end + int(words[1])
    text = rest[1:end] if rest.startswith(b"+") else None
    return Answer(text, rest[after:], rest[end:after].decode(), float(words[2]))


def _told(body: bytes) -> tuple[float, bool]:
    """The limit in the head of an entry, and whether a fault is noted there."""
    words = body.partition(b"\n")[0].split()
    try:
        return float(words[2]), int(words[1]) > 0
    except (IndexError, ValueError):  # damaged; whoever asks for it will notice
        return 0.0, False


class KernelCache:
    """Entries named by all that decides what becomes of a kernel: its text with what it needs of
    its file, and what `settings` tells. Reports hold line numbers: with `lines`, a kernel that has
    moved in its file is another one."""

    def __init__(self, cache: Cache, settings: bytes, *, lines: bool) -> None:
        self._cache: Final = cache
        self._settings: Final = settings
        self._lines: Final = lines

    def get(self, text: str, line: int) -> bytes | None:
        data = self._cache.get(self._name(text, line))
        return None if data is None else data.report

    def put(self, text: str, line: int, data: bytes) -> None:
        """Adds an entry. What cannot be written is not kept."""
        try:
            self._cache.put(self._name(text, line), Answer(None, data), trim=False)
        except OSError:
            return

    def _name(self, text: str, line: int) -> str:
        place = b"%d" % line if self._lines else b""
        return KERNEL + key(text.encode(), self._settings, place)
