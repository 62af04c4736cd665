"""What a predicate depends on: values that lanes load from different addresses, or their place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from ptxsw.emulator.state import State
from ptxsw.emulator.symbolic_machine import SymbolicMachine
from ptxsw.findings.base import Scene, Site
from ptxsw.flow.cfg import Cfg
from ptxsw.flow.dataflow import defs, uses, writers
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Reg, Special
from ptxsw.terms.node import Term
from ptxsw.terms.terms import Terms

_LANES = ("%tid", "%laneid")


class Dependence(Struct, frozen=True):
    """`loads` are those whose values differ from lane to lane; `thread`: does the place of the
    thread decide, too? `steps` are the instructions on the way."""

    loads: tuple[Site, ...]
    thread: bool
    steps: frozenset[int]


def dependence(scene: Scene, branch: int) -> Dependence:
    """What the guard of a branch depends on through data."""
    instructions = scene.trace.cfg.instructions
    written_at = writers(scene.trace.cfg.written, _before(scene.trace.cfg, branch))
    sites = {site.index: site for site in scene.sites}
    guard = instructions[branch].guard
    work, steps = [guard.reg] if guard is not None else [], set[int]()
    loads: list[Site] = []
    thread = False
    while work:
        for index in written_at.get(work.pop(), ()):
            if index in steps:
                continue
            steps.add(index)
            site = sites.get(index)
            if site is not None and _differs(site) is not None:
                loads += [site] if _differs(site) else []
                continue
            thread |= _reads_place(isa.uses(instructions[index]))
            work += uses(instructions[index])
    loads.sort(key=lambda site: site.index)
    return Dependence(tuple(loads), thread, frozenset(steps))


def _before(cfg: Cfg, branch: int) -> Iterator[int]:
    """The instructions from which control may come to a branch."""
    last = cfg.block_of[branch]
    for number in sorted(cfg.reaching([last])):
        block = cfg.blocks[number]
        yield from range(block.start, block.end)


def predicate(scene: Scene, branch: int) -> Term | None:
    """The condition of a branch as a term, where straight code computes it from what is no memory;
    else None."""
    cfg = scene.trace.cfg
    cause = dependence(scene, branch)
    instructions = [cfg.instructions[index] for index in sorted(cause.steps)]
    written = [reg for instruction in instructions for reg in defs(instruction)]
    once = len(written) == len(set(written))
    block = cfg.block_of[branch]
    straight = all(
        cfg.dominates(cfg.block_of[i], block) and cfg.instructions[i].guard is None
        for i in cause.steps
    )
    if cause.loads or not once or not straight:
        return None
    machine = SymbolicMachine(scene.trace.module, scene.trace.function, Terms())
    state = State({})
    for index in sorted(cause.steps):
        step = machine.prepare(cfg.instructions[index], frozenset(written))
        if step is not None:
            machine.run(step, state, index)
    return machine.guard(state, cfg.instructions[branch])


def _differs(site: Site) -> bool | None:
    """Do lanes load from different addresses? None where that is not known; then it depends on
    what the address depends on."""
    shown = site.shown
    if shown.uniform or shown.lane_stride == 0:
        return False
    step = shown.lane_stride or shown.lanes or shown.lane_step not in (None, "0")
    return True if step else None


def _reads_place(read: Iterable[Reg | Special]) -> bool:
    return any(isinstance(one, Special) and one.name.startswith(_LANES) for one in read)


def said(scene: Scene, cause: Dependence) -> str:
    """ "the value of the load at line 61 of the PTX", "the index of the thread"."""
    parts = []
    if cause.loads:
        lines = sorted({site.shown.line for site in cause.loads})
        several = "s" * (len(lines) > 1)
        parts.append(
            f"the value{several} of the load{several} at line{several} {_listed(lines)} of the PTX"
        )
    if cause.thread or not parts:
        parts.append("the index of the thread")
    return " and on ".join(parts)


def _listed(lines: list[int]) -> str:
    return ", ".join(map(str, lines[:3])) + ", …" * (len(lines) > 3)
