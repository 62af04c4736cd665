"""Opcodes and rewrites from outside, brought by other packages.

A package names a function of its own as an entry point of the group `ptxsw.plugins`:

    [project.entry-points."ptxsw.plugins"]
    mine = "my_package.ptx:register"

`ptxsw --plugins mine COMMAND`, or `ptxsw.plugins.load("mine")`, calls it, and it calls
`register_opcode` and `register_rewrite`. Nothing is loaded unasked, and nothing by the wrapper for
ptxas: a build runs no foreign code. What a rewrite from outside has written is proved by `validate`
like everything else. The meaning of an opcode is taken at its word: proofs rest on it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ptxsw.ptx.isa import Op
    from ptxsw.rewrites.base import Rewrite
    from ptxsw.semantics.registry import Meaning, Modifiers

GROUP = "ptxsw.plugins"


def load(*names: str) -> tuple[str, ...]:
    """Load the plugins with these names, or `all` installed ones, and return their names. Raises
    ValueError for a name that no installed package has."""
    from importlib.metadata import entry_points

    points = {point.name: point for point in entry_points(group=GROUP)}
    wanted = sorted(points) if names == ("all",) else list(dict.fromkeys(names))
    for name in wanted:
        if name not in points:
            offered = ", ".join(sorted(points)) or "none"
            raise ValueError(f"there is no plugin {name!r}; installed are: {offered}")
        if name not in _LOADED:
            points[name].load()()
            _LOADED.add(name)
    return tuple(wanted)


_LOADED: set[str] = set()


def register_opcode(
    name: str, op: Op, builder: Callable[[Modifiers], Meaning] | None = None
) -> None:
    """Register an opcode: what it writes and accesses (`isa.Op`), and what it computes, given its
    modifiers. Without a builder, its results are unknown values. Raises ValueError for a known
    opcode."""
    from ptxsw.ptx import isa
    from ptxsw.semantics import registry

    if name in isa.OPS or name in registry.opcodes():
        raise ValueError(f"the opcode {name!r} is known already")
    isa.register(name, op)
    if builder is not None:
        registry.semantics(name, "plugin")(builder)
    registry.meaning.cache_clear()


def register_rewrite(rewrite: Rewrite) -> None:
    """Register a rewrite, which runs after all others. Raises ValueError if the name is taken,
    TypeError if a part of `rewrites.base.Rewrite` is missing."""
    from ptxsw import rewrites

    missing = [part for part in _parts() if not hasattr(rewrite, part)]
    if missing:
        raise TypeError(f"{type(rewrite).__name__} is not a rewrite: it lacks {', '.join(missing)}")
    rewrites.register(rewrite)


def _parts() -> tuple[str, ...]:
    return ("name", "summary", "requires", "needs_ptxas", "follows", "find", "lower")
