"""What no run shows: the interpreter gives all accesses one order, and nothing else runs beside
the kernel. Two kernels that differ in this may do the same in all launches and yet not be equal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ptxsw.ptx.ir import Function, Instruction, Module
from ptxsw.ptx.isa import Effect, Trait, effects, row, space
from ptxsw.ptx.opcodes import ATOMIC, FENCE

_ORDER = frozenset({
    "volatile", "relaxed", "acquire", "release", "acq_rel", "sc", "mmio", "cta", "cluster", "gpu",
    "sys",
})  # fmt: skip


def beyond_runs(first: tuple[Module, Function], second: tuple[Module, Function]) -> str | None:
    """How two kernels differ in what no run shows; None where they do not."""
    one, other = [*_instructions(*first)], [*_instructions(*second)]
    if _read_only(other) - _read_only(one):
        return "no run shows what other kernels write to memory that is newly read by .nc"
    if any(map(_orders, (*one, *other))) and _accesses(one) != _accesses(other):
        return "no run shows whether fences and ordered accesses still order the others"
    return None


def _instructions(module: Module, kernel: Function) -> Iterator[Instruction]:
    """Those of a kernel, and of all functions it might call."""
    for function in module.functions:
        if function is kernel or (function.kind == "func" and function.body_span is not None):
            yield from function.body.instructions


def _read_only(instructions: list[Instruction]) -> Counter[str]:
    return Counter(i.opcode for i in instructions if "nc" in i.modifiers)


def _orders(instruction: Instruction) -> bool:
    """Is it there for the order of memory? Barriers of blocks order it too, and runs show that."""
    effect = effects(instruction.opcode, instruction.modifiers)
    if effect & ATOMIC and not _ORDER.isdisjoint(instruction.modifiers):
        return True
    op = row(instruction.opcode, instruction.modifiers)
    if effect & Effect.CALL or (op is not None and Trait.BARRIER in op.traits):
        return False
    return bool(effect & FENCE)


def _accesses(instructions: list[Instruction]) -> list[tuple[str, tuple[str, ...]]]:
    """All that touches memory which other threads see, or orders it, as it stands in the text."""
    touching = Effect.READ | Effect.WRITE | FENCE | ATOMIC
    return [
        (i.opcode, i.modifiers)
        for i in instructions
        if effects(i.opcode, i.modifiers) & touching and space(i) not in ("param", "const")
    ]
