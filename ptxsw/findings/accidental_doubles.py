"""Doubles that a literal made of floats: computed in double precision, and rounded to float again.

    s = s * 0.99 + x;       cvt.f64.f32; mul.f64; add.f64; cvt.rn.f32.f64

Sums that are kept in doubles over a loop are meant so, and so is what comes from memory or goes
there as double.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ptxsw.analysis.coalescing import LANES
from ptxsw.cost.instructions import cost
from ptxsw.findings.base import WAVEFRONT, Draft, Saved, Scene, plural, rule
from ptxsw.findings.cost import gpu_of
from ptxsw.flow.def_use import defs, uses
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Float, Instruction, Mem, Reg, Symbol, type_width
from ptxsw.terms.origin import Origin

_DOUBLE = "f64"
_WIDTH = 64  # bits
_SHORT = frozenset({"u8", "s8", "b8", "u16", "s16", "b16"})
_SMALL = _SHORT | {"f16", "f32"}
_CARRIED = frozenset({"mov", "selp", "cvt", "neg", "abs"})  # no arithmetic


@rule("ptxsw-accidental-doubles", "A literal makes the kernel compute floats in double precision.")
def accidental_doubles(scene: Scene) -> Iterator[Draft]:
    instructions = scene.trace.cfg.instructions
    for group in _connected(scene):
        members = [instructions[index] for index in group]
        work = [i for i in group if instructions[i].opcode not in _CARRIED]
        if not work or not _is_by_accident(scene, group, members) or _is_moved(scene, members):
            continue
        yield scene.finding(
            accidental_doubles, "warning", sorted(work, key=lambda i: (-scene.times(i), i)),
            measure=f"{plural(len(work), 'instruction')} of doubles",
            what=f"{plural(len(work), 'instruction')} in double precision between floats: a "
            f"literal or function without `f` made them so. {_rate(scene)}",
            advice="Write literals with `f` (`0.99f`) and call the functions of floats (`sinf`, "
            "`expf`, `fabsf`).",
            saves=_saved(scene, group), weight=_time(scene, group),
            by_lanes=False, instructions=len(work),
        )  # fmt: skip


def _connected(scene: Scene) -> Iterator[tuple[int, ...]]:
    """Instructions on doubles, in groups that share registers."""
    parent: dict[Reg, Reg] = {}

    def root(reg: Reg) -> Reg:
        while parent.setdefault(reg, reg) is not reg:
            parent[reg] = reg = parent[parent[reg]]
        return reg

    every = [
        (index, doubles)
        for index, instruction in enumerate(scene.trace.cfg.instructions)
        if _DOUBLE in instruction.modifiers and (doubles := _doubles(scene, instruction))
    ]
    for _, (first, *others) in every:
        for other in others:
            parent[root(other)] = root(first)
    groups: dict[Reg, list[int]] = {}
    for index, (first, *_) in every:
        groups.setdefault(root(first), []).append(index)
    yield from map(tuple, groups.values())


def _doubles(scene: Scene, instruction: Instruction) -> list[Reg]:
    """The registers of 64 bits of an instruction on doubles, but for addresses."""
    body = scene.trace.function.body
    bases = {o.base for o in instruction.operands if isinstance(o, Mem)}
    registers = [r for r in (*defs(instruction), *uses(instruction)) if isinstance(r, Reg)]
    return [r for r in registers if r not in bases and body.width(r) == _WIDTH]


def _is_by_accident(scene: Scene, group: Sequence[int], members: Sequence[Instruction]) -> bool:
    """Do all doubles come from floats and literals, and become floats again?"""
    widens = any(_widens(one) for one in members)
    narrows = any(_narrows(scene, one) for one in members)
    literal = any(isinstance(o, Float) for one in members for o in one.operands)
    if not (widens and narrows and literal):
        return False
    return not any(_is_meant(scene, i) for i in group) and not _is_carried(scene, group)


def _widens(instruction: Instruction) -> bool:
    """Does it make a double of a float, or of what a float holds as well?"""
    types = [m for m in instruction.modifiers if type_width(m)]
    return instruction.opcode == "cvt" and types[:1] == [_DOUBLE] and types[1] in _SMALL


def _narrows(scene: Scene, instruction: Instruction) -> bool:
    """Does it make a float of a double, or a number of 8 or 16 bits that is stored?"""
    types = [m for m in instruction.modifiers if type_width(m)]
    if instruction.opcode != "cvt" or types[1:] != [_DOUBLE]:
        return False
    if types[0] == "f32":
        return True
    made = {*defs(instruction)}
    used = [one for one in scene.trace.cfg.instructions if made & uses(one)]
    return bool(used) and all(
        one.opcode == "st" and not _SHORT.isdisjoint(one.modifiers) for one in used
    )


def _is_moved(scene: Scene, members: Sequence[Instruction]) -> bool:
    """Is one of the doubles loaded or stored as so many bits?"""
    ours = {reg for one in members for reg in _doubles(scene, one)}
    return any(
        _DOUBLE not in one.modifiers
        and isa.space(one) not in (None, "param")
        and not ours.isdisjoint(_doubles(scene, one))
        and not _is_table(scene, index)
        for index, one in enumerate(scene.trace.cfg.instructions)
    )


def _is_meant(scene: Scene, index: int) -> bool:
    """Does a double come from memory or go there, or is it a parameter of the kernel? Tables of
    functions such as `sin`, and what these call, do not count."""
    instruction = scene.trace.cfg.instructions[index]
    space = isa.space(instruction)
    if space == "param":
        given = {parameter.name for parameter in scene.trace.function.params}
        bases = [o.base for o in instruction.operands if isinstance(o, Mem)]
        return any(isinstance(base, Symbol) and base.name in given for base in bases)
    return space is not None and not _is_table(scene, index)


def _is_table(scene: Scene, index: int) -> bool:
    site = next((site for site in scene.sites if site.index == index), None)
    polynomial = None if site is None else scene.polynomial(site.access)
    return polynomial is not None and any(
        term.origin is Origin.SYMBOL for monomial, _ in polynomial for term in monomial
    )


def _is_carried(scene: Scene, group: Sequence[int]) -> bool:
    """Does a loop carry a double from one iteration to the next: is one read that only what comes
    later in the loop has written?"""
    cfg = scene.trace.cfg
    for loop in cfg.loops.values():
        blocks = set(cfg.indices(loop.blocks))
        inside = [index for index in group if index in blocks]
        written = {reg for index in inside for reg in defs(cfg.instructions[index])}
        seen: set[Reg] = set()
        for index in inside:
            if any(
                reg in written - seen
                for reg in _doubles(scene, cfg.instructions[index])
                if reg in uses(cfg.instructions[index])
            ):
                return True
            seen.update(defs(cfg.instructions[index]))
    return False


def _rate(scene: Scene) -> str:
    """How slow doubles are."""
    gpu = gpu_of(scene)
    if gpu is None:
        return "Doubles are slower than floats, on most GPUs by far."
    ratio = round(gpu.lanes("fma").high / gpu.lanes("fp64").high)
    return f"On {gpu.name}, doubles run at 1/{ratio} of the rate of floats."


def _time(scene: Scene, group: Sequence[int]) -> float:
    """Quarters of a cycle of the pipeline of doubles."""
    gpu = gpu_of(scene)
    unit = 2.0 if gpu is None else WAVEFRONT * LANES / gpu.lanes("fp64").high
    return unit * _doubles_in(scene, group)


def _saved(scene: Scene, group: Sequence[int]) -> Saved:
    """Floats need no conversions, and another pipeline."""
    instructions = scene.trace.cfg.instructions
    converted = sum(scene.times(i) for i in group if instructions[i].opcode == "cvt")
    special = sum(
        cost(instructions[i])["xu"].high * scene.times(i)
        for i in group
        if instructions[i].opcode == "cvt" and "xu" in cost(instructions[i])
    )
    work = sum(scene.times(i) for i in group if instructions[i].opcode not in _CARRIED)
    return {
        "fp64": _doubles_in(scene, group), "xu": special, "fma": -work, "instructions": converted,
    }  # fmt: skip


def _doubles_in(scene: Scene, group: Sequence[int]) -> float:
    """Warp instructions of the pipeline of doubles."""
    instructions = scene.trace.cfg.instructions
    return sum(
        cost(instructions[i])["fp64"].low * scene.times(i)
        for i in group
        if "fp64" in cost(instructions[i])
    )
