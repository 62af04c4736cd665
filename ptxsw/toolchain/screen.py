"""Can a PTX text profit at all? Answered from its bytes, without a parser."""

from __future__ import annotations

# Below PTX 6.2 there is no activemask, without which no lane knows who else is there.
OLDEST = (6, 2)

# Loads that never are global loads; `ld.` itself may be generic.
_OTHER = (b"ld.param", b"ld.shared", b"ld.local", b"ld.const")


def can_profit(ptx: bytes) -> bool:
    """False only where no function has two loads that may be global, the PTX is too old, or
    ptxas will refuse it anyway. True promises nothing."""
    if not ptx.isascii() or b"\0" in ptx:
        return False
    if version(ptx) < OLDEST:
        return False
    return any(_loads(part) > 1 for part in _functions(ptx))


def version(ptx: bytes) -> tuple[int, int]:
    """The number after the first `.version`; (0, 0) where there is none."""
    words = ptx.partition(b".version")[2][:40].split(maxsplit=1)
    major, dot, minor = words[0].rstrip(b";").partition(b".") if words else (b"", b"", b"")
    if dot and major.isdigit() and minor.isdigit():
        return int(major), int(minor)
    return (0, 0)


def _functions(ptx: bytes) -> list[bytes]:
    """The text cut before each function; a prototype is a cut too many, which does no harm
    because it comes before the function's body."""
    return [part for entry in ptx.split(b".entry") for part in entry.split(b".func")]


def _loads(part: bytes) -> int:
    return part.count(b"ld.") - sum(part.count(other) for other in _OTHER)
