"""What is done outside the body of a kernel: in functions that it calls."""

from __future__ import annotations

from collections.abc import Iterator

from ptxsw.flow.cfg import Cfg
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Args, Function, Instruction, Module, Symbol

KNOWN_CALLS = frozenset({"vprintf", "malloc", "free", "__assertfail", "__nv_assertfail"})
"""Functions of CUDA's run time: of memory that a kernel names they touch what they are given."""

OWN = frozenset({"local", "param", "const"})
"""Spaces that no other thread writes, or sees."""


def outside(module: Module, cfg: Cfg) -> Iterator[tuple[int, str, bool]]:
    """The calls that may touch memory that threads share, or keep threads at a barrier: the
    instruction, the name of what is called or "", and whether barriers may be there."""
    for index in cfg.indices(cfg.order):
        instruction = cfg.instructions[index]
        if instruction.opcode == "call":
            name = called(instruction)
            met: set[str] = set()
            if name is None or not _harmless(module, name, met):
                barriers = name is None or any(_has_barrier(module, each) for each in met)
                yield index, name or "", barriers


def called(instruction: Instruction) -> str | None:
    """The function that a call names; None for one through a pointer."""
    plain = [o for o in instruction.operands if not isinstance(o, Args)]
    return plain[0].name if plain and isinstance(plain[0], Symbol) else None


def _function(module: Module, name: str) -> Function | None:
    found = [f for f in module.functions if f.name == name and f.body_span is not None]
    return found[0] if found else None


def _harmless(module: Module, name: str, met: set[str]) -> bool:
    """Does a function, and what it calls, touch only memory of its own thread?"""
    if name in KNOWN_CALLS or name in met:
        return True
    met.add(name)
    function = _function(module, name)
    if function is None:
        return False
    harmless = True
    for instruction in function.body.instructions:
        if instruction.opcode == "call":
            inner = called(instruction)
            harmless &= inner is not None and _harmless(module, inner, met)
        elif not isa.known(instruction):
            return False
        else:
            effects = isa.effects(instruction.opcode, instruction.modifiers)
            touched = effects & ~(isa.Effect.BRANCH | isa.Effect.EXIT)
            harmless &= not touched or isa.space(instruction) in OWN
    return harmless


def _has_barrier(module: Module, name: str) -> bool:
    function = _function(module, name)
    if function is None:
        return name not in KNOWN_CALLS
    return any(
        isa.has(i, isa.Trait.BARRIER)
        or not isa.known(i)
        or (i.opcode == "call" and called(i) is None)
        for i in function.body.instructions
    )
