"""Branches at which the lanes of a warp part, and what decides them: values that lanes load from
different addresses, or their place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from ptxsw.analysis.divergence import arms
from ptxsw.emulator.state import State
from ptxsw.emulator.symbolic_machine import SymbolicMachine
from ptxsw.findings.base import Draft, Scene, Site, plural, rule
from ptxsw.findings.cost import of_blocks
from ptxsw.findings.whole_warps import branch_of_warps, loop_of_warps
from ptxsw.flow.cfg import Cfg
from ptxsw.flow.dataflow import defs, uses, writers
from ptxsw.flow.flow_graph import Loop
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Reg, Special
from ptxsw.terms.node import Term
from ptxsw.terms.terms import Terms

_LANES = ("%tid", "%laneid")


class _Dependence(Struct, frozen=True):
    """`loads` are those whose values differ from lane to lane; `thread`: does the place of the
    thread decide, too? `steps` are the instructions on the way."""

    loads: tuple[Site, ...]
    thread: bool
    steps: frozenset[int]


def _dependence(scene: Scene, branch: int) -> _Dependence:
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
    return _Dependence(tuple(loads), thread, frozenset(steps))


def _before(cfg: Cfg, branch: int) -> Iterator[int]:
    """The instructions from which control may come to a branch."""
    last = cfg.block_of[branch]
    for number in sorted(cfg.reaching([last])):
        block = cfg.blocks[number]
        yield from range(block.start, block.end)


def _predicate(scene: Scene, branch: int) -> Term | None:
    """The condition of a branch as a term, where straight code computes it from what is no memory;
    else None."""
    cfg = scene.trace.cfg
    cause = _dependence(scene, branch)
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


def _said(scene: Scene, cause: _Dependence) -> str:
    """ "the value of the load in line 24", "the index of the thread"."""
    parts = []
    if cause.loads:
        several = "s" * (len(cause.loads) > 1)
        lines = sorted({scene.shown_line(site.index) for site in cause.loads})
        where = "" if scene.place(cause.loads[0].index) else " of the PTX"
        parts.append(
            f"the value{several} of the load{several} in line{'s' * (len(lines) > 1)} "
            f"{_listed(lines)}{where}"
        )
    if cause.thread or not parts:
        parts.append("the index of the thread")
    return " and on ".join(parts)


def _listed(lines: list[int]) -> str:
    return ", ".join(map(str, lines[:3])) + ", …" * (len(lines) > 3)


@rule("ptxsw-divergent-loop", "Lanes leave a loop after different numbers of iterations.")
def divergent_loop(scene: Scene) -> Iterator[Draft]:
    cfg = scene.trace.cfg
    for header, loop in cfg.loops.items():
        if header in scene.trace.uniform_loops:
            continue
        for source in sorted({source for source, _ in loop.exits}):
            branch = cfg.blocks[source].end - 1
            cause = _dependence(scene, branch)
            if _tries_again(scene, cause):
                continue
            if cause.loads:  # what the index of the thread decides differs by an iteration or so
                yield _finding(scene, loop, branch, cause)
                break


def _tries_again(scene: Scene, cause: _Dependence) -> bool:
    """Does a loop go on until an atomic operation succeeds?"""
    instructions = scene.trace.cfg.instructions
    return any(instructions[index].opcode == "atom" for index in cause.steps)


def _finding(scene: Scene, loop: Loop, branch: int, cause: _Dependence) -> Draft:
    body = scene.executed_in(loop.blocks)
    return scene.finding(
        divergent_loop, "warning", [branch, *(site.index for site in cause.loads)],
        measure="as many iterations as the longest lane",
        what=f"The number of iterations of a lane depends on {_said(scene, cause)}. The warp "
        "continues until its last lane is done, and the other lanes idle.",
        advice=_advice_for_loop(scene, branch, cause),
        saves=of_blocks(scene, loop.blocks, 0.5),  # lengths spread evenly: half of the lanes wait
        weight=body / 2, by_lanes=False,
        instructions=body,
    )  # fmt: skip


def _advice_for_loop(scene: Scene, branch: int, cause: _Dependence) -> str:
    place = scene.place(branch)
    known = place is not None and place.file == scene.source.file and not cause.thread
    lines = loop_of_warps(scene, place.line, cause.loads) if place and known else None
    write = ""
    if lines is not None:
        index, loop = lines
        write = f" (`{index}` `{loop}`, then add up over the lanes; 32 times as many threads)"
    return (
        f"Give each item to a whole warp, whose lanes share its iterations{write}; or sort the "
        "items by length, so that the lanes of a warp have items of equal length."
    )


_FEW = 12  # instructions, which ptxas may execute under predicates
_SHARE = 0.05  # of the kernel's instructions


@rule(
    "ptxsw-divergent-branch",
    "Lanes of one warp take different branches, and both branches are long.",
)
def divergent_branch(scene: Scene) -> Iterator[Draft]:
    for branch, (one, other) in arms(scene.trace).items():
        work = sorted(round(scene.executed_in(side)) for side in (one, other))
        few = max(1, _FEW * scene.times(branch))
        if work[0] < few or not _splits_warps(scene, branch):
            continue
        cause = _dependence(scene, branch)
        todo = (
            _advice_for_branch(scene, branch)
            if not cause.loads
            else "Sort or bin the items, so that the lanes of a warp take the same side"
        )
        yield scene.finding(
            divergent_branch, "warning" if work[0] >= _SHARE * scene.executed else "note", [branch],
            measure=f"{plural(work[0], 'instruction')} beside {work[1]:,}",
            what=f"Lanes of one warp take different sides of this branch, which depends on "
            f"{_said(scene, cause)}. The warp executes both sides: {work[0]:,} and {work[1]:,} "
            "instructions, with the iterations of their loops.",
            advice=f"{todo}. Where both sides are short, compute both results and select one.",
            saves=of_blocks(scene, {*one, *other}, 0.5), weight=work[0],  # half of the warps each
            shorter=work[0], longer=work[1],
        )  # fmt: skip


def _advice_for_branch(scene: Scene, branch: int) -> str:
    place = scene.place(branch)
    line = ""
    if place is not None and place.file == scene.source.file:
        line = branch_of_warps(scene, place.line, _predicate(scene, branch))
    if not line:
        return "Let the branch depend on something that a whole warp shares (`threadIdx.x / 32`)"
    return (
        f"If it does not matter which threads take which side, let whole warps take one: `{line}`"
    )


def _splits_warps(scene: Scene, branch: int) -> bool:
    """Do lanes of one warp part, not whole warps only?"""
    condition = _predicate(scene, branch)
    return condition is None or not scene.warps.uniform(condition)
