"""Can a PTX text profit at all? Answered from its bytes, without a parser, by what the rewrites say
that they require."""

from __future__ import annotations


def may_contain_candidates(ptx: bytes) -> bool:
    """False only where no rewrite that is made unnamed has anything to do, or ptxas will refuse the
    text anyway. True promises nothing."""
    known = version(ptx)
    if known == (0, 0) or not ptx.isascii() or b"\0" in ptx:
        return False
    from ptxsw.rewrites import NAMED_ALONE, REWRITES  # not for what is no PTX

    requirements = [
        rewrite.requires
        for rewrite in REWRITES
        if rewrite.name not in NAMED_ALONE and rewrite.requires.version <= known
    ]
    functions = _functions(ptx.decode())
    return any(one.may_profit(text) for text in functions for one in requirements)


def version(ptx: bytes) -> tuple[int, int]:
    """The number after the first `.version`; (0, 0) where there is none."""
    words = ptx.partition(b".version")[2][:40].split(maxsplit=1)
    major, dot, minor = words[0].rstrip(b";").partition(b".") if words else (b"", b"", b"")
    if dot and major.isdigit() and minor.isdigit():
        return int(major), int(minor)
    return (0, 0)


def _functions(text: str) -> list[str]:
    """The text cut before each function; a prototype is a cut too many, which does no harm
    because it comes before the function's body."""
    return [part for entry in text.split(".entry") for part in entry.split(".func")]
