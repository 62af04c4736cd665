"""Texts and their bytes. Loads nothing: a build under `ptxsw exec` waits for it."""

from __future__ import annotations


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
