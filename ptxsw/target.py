"""Names of architectures."""

from __future__ import annotations


def plain_name(arch: str | None) -> str | None:
    """ "sm_90" for sm_90a, compute_90 and the like; None for what is no such name."""
    number = arch.partition("_")[2].rstrip("abcdefghijklmnopqrstuvwxyz") if arch else ""
    return f"sm_{number}" if number.isdigit() else None
