"""Values of options that several commands read alike."""

from __future__ import annotations

from ptxsw.cli.files import CommandError

_MOST_THREADS = 1024  # of a block


def block_shape(text: str | None) -> tuple[int, int, int] | None:
    """The shape of a block, as in 256, 16x16 or 8x8x4."""
    if text is None:
        return None
    parts = text.replace(",", "x").split("x")
    if not 1 <= len(parts) <= 3 or not all(part.isascii() and part.isdigit() for part in parts):
        raise CommandError(f"--block: {text!r} is no shape; write 256, 16x16 or 8x8x4")
    x, y, z = (*(int(part[:9]) for part in parts), 1, 1)[:3]
    if not 1 <= x * y * z <= _MOST_THREADS:
        raise CommandError(
            f"--block: {text} is {x * y * z} threads; it can be 1 to {_MOST_THREADS}"
        )
    return x, y, z


def assumptions(text: str | None) -> frozenset[str]:
    from ptxsw.toolchain.settings import parse_assume

    try:
        return parse_assume(text)
    except ValueError as error:
        raise CommandError(f"--assume: {error}") from error
