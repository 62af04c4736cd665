"""What the interpreter sees of a launch: faults by rule and line, as far as a run can show them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ptxsw.ptx.ir import Module
from ptxsw.simt import RACE, Conflict, Races, RunError
from ptxsw.simt import launch as simulate
from ptxsw.simt.state import Deadlock, MemoryFault, Poisoned, Runaway, Undefined
from ptxsw.verify.launches import Launch
from ptxsw.verify.runs import contents_of, placed

SEEDS = (None, 1, 2, 3)
"""Schedules: converging, and some that are not."""
STEPS = 1 << 18

SHOWS = {
    "data-race": {"data-race"},
    "divergent-barrier": {"divergent-barrier", "deadlock"},
    "warp-mask": {"warp-mask", "undefined-value", "deadlock"},
    "out-of-bounds": {"out-of-bounds"},
    "misaligned-access": {"misaligned-access"},
    "index-overflow": {"out-of-bounds"},
    "undefined-value": {"undefined-value"},
    "deadlock": {"deadlock"},
    "async-wait": {"async-wait"},
}
"""By rule, what a run that shows its fault may end with: lanes that do not come to a barrier are a
deadlock, too, and what a shuffle reads of nobody is undefined. Other rules are shown by no run."""


@dataclass(frozen=True)
class Seen:
    """A fault that a run showed: the rule whose it is, what was said, and the line of the PTX."""

    rule: str
    said: str
    line: int


def seen(
    module: Module, launch: Launch, seed: int | None = None, races: Races | None = None
) -> tuple[Seen, ...]:
    """What a run shows of the only kernel of a module; `races` is who watches it. Raises
    Unsupported."""
    [kernel] = module.kernels
    values, memory, _ = placed(module, kernel.name, launch)
    watch = Races() if races is None else races
    error: RunError | None = None
    try:
        simulate(
            module, kernel.name, launch.grid, launch.block, values, shared=launch.shared,
            memory=memory, variables=contents_of(launch), seed=seed, counters=False, limit=STEPS,
            races=watch, only=None if launch.only is None else range(*launch.only), results=False,
        )  # fmt: skip
    except RunError as caught:
        error = caught
    found = [_of_conflict(c) for c in watch.conflicts if c.kind == RACE]
    if error is not None:
        line = module.source.line(error.span.start)
        found.append(Seen(_rule(error), error.message, line))
    return tuple(found)


def _of_conflict(conflict: Conflict) -> Seen:
    said = conflict.error.message
    copies = "a copy that" in said
    return Seen("async-wait" if copies else "data-race", said, conflict.line)


def _rule(error: RunError) -> str:
    match error:
        case MemoryFault():
            return "misaligned-access" if "not aligned" in error.message else "out-of-bounds"
        case Poisoned():
            return "undefined-value"
        case Deadlock() | Runaway():
            return "deadlock"
        case Undefined():
            blocks = re.search(r": bar(rier)?\.(cta\.)?(sync|red|arrive)", error.message)
            return "divergent-barrier" if blocks else "warp-mask"
    return type(error).__name__
