"""All rewrites there are, in the order in which a kernel goes through them."""

from __future__ import annotations

from collections.abc import Iterable

from ptxsw.rewrites.bank_conflicts import BankConflicts
from ptxsw.rewrites.base import Rewrite
from ptxsw.rewrites.load_elimination import LoadElimination
from ptxsw.rewrites.memory_spaces import MemorySpaces
from ptxsw.rewrites.narrowing import Narrowing
from ptxsw.rewrites.read_only_loads import ReadOnlyLoads
from ptxsw.rewrites.registers import Registers
from ptxsw.rewrites.scalar_replacement import ScalarReplacement
from ptxsw.rewrites.shuffle import Shuffle
from ptxsw.rewrites.strength_reduction import StrengthReduction
from ptxsw.rewrites.uniform_loops import UniformLoops
from ptxsw.rewrites.vectorize import Vectorize

REWRITES: tuple[Rewrite, ...] = (
    MemorySpaces(),
    Narrowing(),
    ReadOnlyLoads(),
    ScalarReplacement(),
    LoadElimination(),
    UniformLoops(),
    Shuffle(),
    Vectorize(),
    BankConflicts(),
    StrengthReduction(),  # behind others, from which a loop that stands twice hides its accesses
    Registers(),
)
"""Those that are part of ptxsw."""

_OTHERS: list[Rewrite] = []
_NAMED_ALONE = frozenset({Registers.name})


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
    known = tuple(one.name for one in every())
    if wanted == ("all",):
        return tuple(name for name in known if name not in _NAMED_ALONE)
    unknown = next((name for name in wanted if name not in known), None)
    if unknown is not None:
        raise ValueError(f"unknown rewrite {unknown!r}; known are all, {', '.join(known)}")
    if not wanted:
        raise ValueError(f"no rewrite is named; known are all, {', '.join(known)}")
    return wanted
