"""All rewrites, in the order in which a kernel goes through them."""

from __future__ import annotations

from collections.abc import Iterable

from ptxsw.ptx import isa
from ptxsw.rewrites.base import (
    FOR_SHUFFLES,
    LOAD_ELIMINATION,
    SHUFFLE,
    TWO_LOADS,
    UNIFORM_LOOPS,
    LazyRewrite,
    Requires,
    Rewrite,
)
from ptxsw.rewrites.rules import NARROWING

REGISTERS = "registers"

_ACCESSES = tuple(f"{opcode}." for opcode in sorted(isa.opcodes(isa.Trait.SCALAR_ACCESS)))
_SPACES = ("global", "shared", "local", "const", "param")
# "st." and "red." also end these modifiers.
_NO_ACCESSES = ("const.", "shared.")
_NAMED = tuple(access + space for access in _ACCESSES for space in _SPACES)
_GENERIC = Requires(
    (3, 1), "has no generic addresses", 20, "has no generic addresses",
    words=_ACCESSES, but=(*_NAMED, *_NO_ACCESSES),
)  # fmt: skip
_BY_NC = Requires(
    (3, 1), "has no loads by .nc", 32, "has no loads by .nc", words=("ld.global.",), least=2
)  # fmt: skip
_VECTORS = ("ld.global", "ld.local", "ld.shared", "st.global", "st.local", "st.shared")
_CARRIED = ("ld.global", "ld.shared", "st.")
_NOT_REDUCED = ("ld.param", "ld.const", "const.")
_REDUCED = Requires(words=("ld.", "st."), but=_NOT_REDUCED, least=2, shorter_code=True)

REWRITES: tuple[Rewrite, ...] = (
    # First what tells accesses apart: behind a named space or `.nc` the later rewrites can merge
    # or move loads past stores.
    LazyRewrite("memory-spaces", _GENERIC),
    NARROWING,
    LazyRewrite("read-only-loads", _BY_NC, needs_ptxas=True),
    LazyRewrite(
        "scalar-replacement",
        Requires(words=_CARRIED, but=("const.",), least=2, loops=True),
        needs_ptxas=True,
    ),
    # These three make one plan; the last of them that is considered plans for all (`joint.py`).
    LazyRewrite(LOAD_ELIMINATION, TWO_LOADS),
    LazyRewrite(UNIFORM_LOOPS, FOR_SHUFFLES),
    LazyRewrite(SHUFFLE, FOR_SHUFFLES),
    LazyRewrite("vectorize", Requires(words=_VECTORS, least=2)),
    # Behind memory-spaces, since a generic access might reach an array past the permutation.
    LazyRewrite("bank-conflicts", Requires(words=(".shared",))),
    # Behind the others, because it writes loops twice, and rewrites skip the accesses of such a
    # loop. The second copy costs registers that only ptxas can count.
    LazyRewrite("strength-reduction", _REDUCED, needs_ptxas=True),
    LazyRewrite(REGISTERS),  # asks ptxas itself
)
"""Those that are part of ptxsw."""

_OTHERS: list[Rewrite] = []
NAMED_ALONE = frozenset({REGISTERS})


def every() -> tuple[Rewrite, ...]:
    """All rewrites in order: our own, then those that plugins have registered."""
    return (*REWRITES, *_OTHERS)


def register(rewrite: Rewrite) -> None:
    """Add a rewrite of a plugin. Raises ValueError where its name is taken."""
    if any(one.name == rewrite.name for one in every()):
        raise ValueError(f"the rewrite {rewrite.name!r} is known already")
    _OTHERS.append(rewrite)


def named(names: Iterable[str]) -> tuple[str, ...]:
    """The names of rewrites, checked; "all" stands for each but `registers`, which can make a
    launch fail. Raises ValueError for a name nobody knows."""
    wanted = tuple(dict.fromkeys(name.strip() for name in names if name.strip()))
    names = tuple(one.name for one in every())
    if wanted == ("all",):
        return tuple(name for name in names if name not in NAMED_ALONE)
    unknown = next((name for name in wanted if name not in names), None)
    if unknown is not None:
        raise ValueError(f"unknown rewrite {unknown!r}; known: all, {', '.join(names)}")
    if not wanted:
        raise ValueError(f"no rewrite is named; known: all, {', '.join(names)}")
    return wanted
