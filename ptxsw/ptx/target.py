"""Names of architectures, and what all of them share."""

from __future__ import annotations

MOST_THREADS = 1024  # of a block
MOST_DEEP = 64  # of them along z (CUDA programming guide, compute capabilities)


def plain_name(arch: str | None) -> str | None:
    """ "sm_90" for sm_90a, compute_90 and the like; None for what is no such name."""
    number = arch.partition("_")[2].rstrip("abcdefghijklmnopqrstuvwxyz") if arch else ""
    return f"sm_{number}" if number.isdigit() else None


def assembled_for(arch: str) -> str:
    """What ptxas is asked for where a kernel is to be assembled for `arch`: sm_90a as it is,
    compute_90 as sm_90."""
    return arch if arch.startswith("sm_") else str(plain_name(arch))
