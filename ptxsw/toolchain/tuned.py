"""What `ptxsw tune` measured on a GPU: which scheme and form a kernel is to have, kept in a file.

The file is JSON, so that it can be read, carried to a machine that has no GPU, or committed. It is
`tuned.json` beside the cached answers, or the file that `PTXSW_TUNED` names. A result is found by
the digest of a kernel's own text and by the architecture the kernel is assembled for. It can only
choose among rewrites that are proved, so a wrong one may cost time but never a right result.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any

from msgspec import Struct, to_builtins

from ptxsw.ptx.errors import naming
from ptxsw.ptx.patterns import pattern
from ptxsw.ptx.text_files import parsed
from ptxsw.toolchain.settings import tuned_file

KEEP = "keep"
PADDED = "padded"
"""The original with dynamic shared memory that nobody uses: "padded=75776" bytes of a block."""
SCHEMA = 1


class Timing(Struct, frozen=True):
    """One variant of a kernel as timed. `seconds` is the median over its launches; `noise` how far
    two identical series were apart, as a share of the smaller one; `block` the threads of a block
    along x, y and z. What did not give the original's results has `equal` False and counts for
    nothing."""

    scheme: str
    form: str
    block: tuple[int, int, int]
    seconds: float
    noise: float
    equal: bool = True


class Tuned(Struct, frozen=True):
    """The best that was found for a kernel on a device.

    `scheme` "keep": leave the loads as they are; with `form` "keep", too, the text as it is, but
    for loads that become copies. Without a form `scheme` names rewrites, with "+" between them;
    "registers=32-shared" is that candidate of `registers`.
    `speedup` is the original's time divided by that of the choice: 1.0 where the text is kept.
    """

    scheme: str
    form: str
    speedup: float
    device: str  # the name of the GPU
    date: str  # ISO 8601
    kernel: str = ""
    driver: str = ""
    ptxsw: str = ""  # the version that measured
    timings: tuple[Timing, ...] = ()

    @property
    def rewrites(self) -> tuple[str, ...]:
        """The rewrites that were chosen; none where a scheme was."""
        return () if self.form else _rewrites(self.scheme)

    @property
    def register_limit(self) -> str | None:
        """Which candidate of `registers` was chosen; None where its predictor is to choose."""
        return None if self.form else self.scheme.partition("=")[2] or None

    @property
    def measured(self) -> frozenset[str]:
        """The rewrites that were measured, chosen or not."""
        return frozenset(
            name
            for timing in self.timings
            if not timing.form and timing.scheme != "original" and padding(timing.scheme) is None
            for name in _rewrites(timing.scheme)
        )

    def __str__(self) -> str:
        place = f"measured on {self.device} ({self.date})"
        if (self.scheme, self.form) == (KEEP, KEEP):
            return f"{place}: nothing beats the original"
        return f"{place}: {self.speedup:.3f} times as fast with {self.scheme} {self.form}".rstrip()


def padding(scheme: str) -> int | None:
    """Bytes of dynamic shared memory that a variant is padded with; None where it is not."""
    name, _, count = scheme.partition("=")
    return int(count) if name == PADDED and count.isdigit() else None


def _rewrites(scheme: str) -> tuple[str, ...]:
    return tuple(part.partition("=")[0] for part in scheme.split("+"))


# ---------------------------------------------------------------- names of results

_PIECES = pattern(
    r"""(?P<string>"[^"\n]*")
      | (?P<nothing>//[^\n]* | /\*.*?\*/ | (?<![\w.$%])\.loc\b[^\n]* | \s+)
      | (?P<label>(?<![\w$%])\$[\w$]+)""",
    re.DOTALL | re.VERBOSE,
)


def digest(function_text: str) -> str:
    """Names a kernel by its own text, from its linkage or `.entry` to the closing brace.

    Comments, `.loc` and spacing do not count, nor do the names of labels (`$L__BB3_7`), in which
    compilers number the kernels of a file. So the kernel keeps its name when others are added to
    the file, or when it is compiled with line numbers. What it calls is not part of it.
    """
    from hashlib import blake2b  # where nothing was measured, nothing is named

    labels: dict[str, str] = {}

    def plain(match: re.Match[str]) -> str:
        if match["label"]:
            return labels.setdefault(match["label"], f"${len(labels)}")
        return " " if match["nothing"] else match[0]

    text = " ".join(_PIECES.sub(plain, function_text).split())
    # Where a comment touches a sign there is a space more than without it.
    text = re.sub(r" ?([^\w.$%\s]) ?", r"\1", text)
    return blake2b(text.encode("utf-8", "surrogateescape"), digest_size=20).hexdigest()


def same_arch(arch: str) -> str:
    """The name of an architecture in the file: sm_90a and compute_90 are sm_90."""
    match = re.fullmatch(r"(?:sm|compute|lto)_(\d+)[a-z]?", arch)
    return f"sm_{match[1]}" if match else arch


def _name(function_text: str, arch: str) -> str:
    return f"{digest(function_text)} {same_arch(arch)}"


# ---------------------------------------------------------------- looking up and storing


def find(function_text: str, arch: str, *, file: str | None = None) -> Tuned | None:
    """What was measured for a kernel and an architecture such as "sm_80"; None where nothing was.

    `file` is the store (default: the one of this process's environment). One that is damaged is
    the same as none: no build depends on it.
    """
    path = file or tuned_file(os.environ)
    if path is None:
        return None
    try:
        results = _load(path)
    except (OSError, ValueError):
        return None
    return results.get(_name(function_text, arch)) if results else None


def store(function_text: str, arch: str, tuned: Tuned, *, file: str | None = None) -> str:
    """Adds a result, in place of an earlier one; returns the path of the store.

    Raises OSError where it cannot be written, ValueError where there is none or it is damaged.
    """
    path = file or tuned_file(os.environ)
    if path is None:
        raise ValueError("nowhere to store results: set PTXSW_TUNED to a file")
    os.makedirs(os.path.dirname(os.path.abspath(path)), mode=0o700, exist_ok=True)
    with _alone(path):
        results = {**everything(path), _name(function_text, arch): tuned}
        _write(path, results)
    return path


def everything(path: str) -> Mapping[str, Tuned]:
    """All results of a store, by digest and architecture; none where there is no file.

    Raises OSError where it cannot be read, ValueError where it is no store.
    """
    try:
        return _load(path)
    except FileNotFoundError:
        return {}


def _load(path: str) -> Mapping[str, Tuned]:
    status = os.stat(path)
    return _loaded(path, status.st_mtime_ns, status.st_size, status.st_ino)


@lru_cache(maxsize=4)
def _loaded(path: str, mtime: int, size: int, inode: int) -> Mapping[str, Tuned]:
    with open(path, "rb") as file:
        try:
            given = parsed(file.read())
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
    if not isinstance(given, dict) or given.get("schema") != SCHEMA:
        raise ValueError(f"{path}: not a store of tune results of schema {SCHEMA}")
    try:
        return {str(name): _tuned(one) for name, one in given["results"].items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: damaged: {type(error).__name__}: {error}") from error


def _tuned(given: Any) -> Tuned:
    """Unknown keys are left out: a later version may have written them."""
    fields = {name: given[name] for name in Tuned.__struct_fields__ if name in given}
    timings = tuple(
        Timing(**{**{k: t[k] for k in Timing.__struct_fields__}, "block": tuple(t["block"])})
        for t in fields.pop("timings", ())
    )
    tuned = Tuned(**fields, timings=timings)
    if not isinstance(tuned.speedup, (int, float)) or not all(
        isinstance(word, str) for word in (tuned.scheme, tuned.form, tuned.device, tuned.date)
    ):
        raise TypeError("a result of the wrong types")
    return tuned


@contextmanager
def _alone(path: str) -> Iterator[None]:
    """Keeps other processes from writing the store meanwhile."""
    import fcntl

    with open(f"{path}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _write(path: str, results: Mapping[str, Tuned]) -> None:
    """A line for each kernel, for those who keep the file under version control. It appears whole
    or stays as it was."""
    import json

    entries = ((name, to_builtins(results[name])) for name in sorted(results))
    lines = [f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in entries]
    private = f"{path}.{os.getpid()}"
    try:
        with naming(path), open(private, "w", encoding="utf-8") as file:
            file.write(f'{{"schema": {SCHEMA}, "results": {{\n' + ",\n".join(lines) + "\n}}\n")
        os.replace(private, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(private)
        raise
