"""Names of files that are written about kernels and inputs, whose own names may be anything."""

from __future__ import annotations

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
