"""Can a PTX text profit at all? Answered from its bytes, without a parser."""

from __future__ import annotations

# Below PTX 6.2 there is no activemask, without which no lane knows who else is there.
OLDEST = (6, 2)

# Loads that never are global loads; `ld.` itself may be generic.
_OTHER = (b"ld.param", b"ld.shared", b"ld.local", b"ld.const")

# What `narrowing` rewrites. These are no imports: the stand-in has to answer within milliseconds.
WIDE = (b"div.u64", b"div.s64", b"rem.u64", b"rem.s64", b"mul.lo.u64", b"mul.lo.s64")

# Opcodes, each with a modifier that ends in it.
_ACCESSES = ((b"ld.", b"\0"), (b"st.", b"const."), (b"atom.", b"\0"), (b"red.", b"shared."))
_SPACES = (b"global", b"shared", b"local", b"const", b"param")


def may_contain_candidates(ptx: bytes) -> bool:
    """False only where no rewrite has anything to do, or ptxas will refuse the text anyway. True
    promises nothing."""
    if not ptx.isascii() or b"\0" in ptx:
        return False
    if any(word in ptx for word in WIDE) or _generic(ptx) or b".shared" in ptx:
        return True
    if any(_vectors(part) or _extends_in_loops(part) for part in _functions(ptx)):
        return True
    return version(ptx) >= OLDEST and any(_loads(part) > 1 for part in _functions(ptx))


def _generic(ptx: bytes) -> bool:
    """Is there an access that may not name its state space? `memory-spaces` looks at these."""
    return any(
        ptx.count(opcode) - ptx.count(other) > sum(ptx.count(opcode + space) for space in _SPACES)
        for opcode, other in _ACCESSES
    )


def _vectors(part: bytes) -> bool:
    """Are there two stores, or two loads of local memory, which `vectorize` may join?"""
    return part.count(b"st.") - part.count(b"const.") > 1 or part.count(b"ld.local") > 1


def _extends_in_loops(part: bytes) -> bool:
    """Are there branches, accesses and products of 64 bits, as in the loops that
    `strength-reduction` looks at?"""
    accesses = _loads(part) + part.count(b"st.") + part.count(b"atom.") + part.count(b"red.")
    extended = b".wide." in part or b"cvt.s64.s32" in part or b"mul.lo.s64" in part
    return accesses > 1 and b"bra" in part and extended


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
