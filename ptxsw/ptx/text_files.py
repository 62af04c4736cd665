"""Texts, names and JSON of files that others wrote. Loads nothing: a build under `ptxsw exec` waits
for it."""

from __future__ import annotations

from typing import Any

COMPILED = (b"\x7fELF", b"!<arch>\n", b"\x50\xed\x55\xba")
"""How objects and programs, libraries, and containers of device code begin."""


def decoded(data: bytes) -> str:
    """The text of a file; `encoded` gives the same bytes back. PTX may hold bytes that are not
    UTF-8: compilers copy lines of sources into comments as they are. Raises ValueError for what is
    no text."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        if b".version" not in data or b"\0" in data.rstrip(b"\0"):
            raise ValueError(f"byte {error.start} is not UTF-8") from error
    return data.decode("utf-8", "surrogateescape")


def encoded(text: str) -> bytes:
    """The bytes of a text that `decoded` has read."""
    return text.encode("utf-8", "surrogateescape")


def parsed(text: str | bytes) -> Any:
    """The value of a text. Raises ValueError with a sentence, whatever is wrong with it."""
    import json  # most runs read none

    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ValueError(f"not JSON: {where}: {error.msg}") from None
    except UnicodeDecodeError:
        raise ValueError("not JSON: it is not UTF-8") from None
    except RecursionError:
        raise ValueError("not JSON that can be read: nested too deeply") from None


_MOST_BYTES = 160  # of the 255 that file systems allow; the rest is for what is added


def file_stem(name: str) -> str:
    """What a file about `name` may be called: without characters that mean something to a shell or
    a file system, and a long one cut, with a digest that tells it from others."""
    stem = "".join(c if c.isalnum() or c in "-_.$%" else "_" for c in name)
    data = stem.encode()
    if len(data) <= _MOST_BYTES:
        return stem
    from hashlib import blake2b  # few names are so long

    digest = blake2b(name.encode("utf-8", "surrogateescape"), digest_size=6).hexdigest()
    return f"{data[: _MOST_BYTES - len(digest) - 1].decode(errors='ignore')}-{digest}"


def source_of_temporary(path: str) -> str | None:
    """What nvcc's name of a temporary file, another in every build, says of its source: "a.ptx" for
    `/tmp/tmpxft_00000001_00000000-6_a.ptx`; None for any other file."""
    name = path.rpartition("/")[2]
    if not name.startswith("tmpxft_"):
        return None
    import re  # few files are of this kind

    match = re.match(r"tmpxft_[0-9a-f]+_[0-9a-f]+-\d+_", name)
    return None if match is None else name[match.end() :]
