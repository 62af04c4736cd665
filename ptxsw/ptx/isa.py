"""What each PTX instruction writes and touches, by the row of its opcode in `ptxsw.ptx.opcodes`.

A row is found by the longest prefix of `opcode.modifier.modifier`: `bar.red` before `bar`. An
opcode without a row is still sound: it clobbers every register it names and all memory, and
counts as a barrier and a fence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple, TypeVar

from ptxsw.ptx.ir import (
    Args,
    Instruction,
    Mem,
    Operand,
    Pair,
    Reg,
    RegisterPart,
    Special,
    Symbol,
    Vec,
    leaves,
    type_width,
)
from ptxsw.ptx.opcodes import ATOMIC, EVERYTHING, FENCE, OPS, Effect, Op, Trait

__all__ = [
    "EVERYTHING", "OPS", "WITHIN_BLOCK", "Effect", "Op", "Trait", "access_type", "address",
    "by_name", "defs", "destinations", "effects", "has", "known", "may_write_global", "opcodes",
    "register", "row", "space", "space_named", "uses",
]  # fmt: skip


def has(instruction: Instruction, trait: Trait) -> bool:
    """Has the row of an instruction a trait? What has no row has none."""
    op = row(instruction.opcode, instruction.modifiers)
    return op is not None and trait in op.traits


def opcodes(trait: Trait) -> frozenset[str]:
    """The first words of all opcodes with a trait."""
    return frozenset(name.partition(".")[0] for name, op in OPS.items() if trait in op.traits)


_SPACES = frozenset({"global", "shared", "local", "const", "param"})
_ORDERING = frozenset({"acquire", "release", "acq_rel", "sc"})
STRONG = frozenset({"relaxed", "volatile", "mmio"}) | _ORDERING
_ACCESSES = frozenset({"ld", "st", "atom", "red", "multimem"})


_Value = TypeVar("_Value")
_BY_NAME: list[Callable[[], None]] = []


def by_name(
    function: Callable[[str, tuple[str, ...]], _Value],
) -> Callable[[str, tuple[str, ...]], _Value]:
    """Computes once what an opcode and its modifiers alone decide: texts have few different ones
    and many instructions."""
    cached = lru_cache(maxsize=8192)(function)
    _BY_NAME.append(cached.cache_clear)
    return cached


def register(name: str, op: Op) -> None:
    """Add a row."""
    OPS[name] = op
    for forget in _BY_NAME:
        forget()


@by_name
def row(opcode: str, modifiers: tuple[str, ...]) -> Op | None:
    """The row of an instruction, None for an opcode of which nothing is known."""
    words = (opcode, *(m.partition("::")[0] for m in modifiers[:3]))
    for count in range(len(words), 0, -1):
        op = OPS.get(".".join(words[:count]))
        if op is not None:
            return op
    return None


@by_name
def effects(opcode: str, modifiers: tuple[str, ...]) -> Effect:
    """What an instruction does beside writing registers; everything for an unknown one."""
    op = row(opcode, modifiers)
    if op is None:
        return EVERYTHING
    effect = op.effect
    if opcode in _ACCESSES:
        if not STRONG.isdisjoint(modifiers):
            effect |= ATOMIC
        if not _ORDERING.isdisjoint(modifiers):
            effect |= FENCE
    elif opcode == "cp" and any(m.startswith("mbarrier::complete_tx") for m in modifiers):
        effect |= ATOMIC
    return effect


def _registers(operands: Iterable[Operand]) -> Iterator[Reg | Special]:
    """Every register in operands, address bases included."""
    return (leaf for leaf in leaves(operands) if isinstance(leaf, Reg | Special))


def _written(operand: Operand) -> Iterator[Reg]:
    match operand:
        case Reg():
            yield operand
        case RegisterPart(base, _):
            yield from _written(base)
        case Vec(elements) | Args(elements):
            for element in elements:
                yield from _written(element)
        case Pair(first, second):
            yield from _written(first)
            yield from _written(second)


def _kept(operand: Operand) -> Iterator[Reg | Special]:
    """Registers a destination reads: address bases, and what a partial write leaves alone."""
    match operand:
        case RegisterPart():
            yield from _registers((operand,))
        case Mem():
            yield from _registers((operand,))
        case Vec(elements) | Args(elements):
            for element in elements:
                yield from _kept(element)
        case Pair(first, second):
            yield from _kept(first)
            yield from _kept(second)


def destinations(instruction: Instruction) -> int:
    """How many leading operands are known to be written: none for an unknown opcode."""
    op = row(instruction.opcode, instruction.modifiers)
    return 0 if op is None else _destinations(instruction, op)


def _destinations(instruction: Instruction, op: Op) -> int:
    if instruction.opcode != "call":
        return op.defs
    first = instruction.operands[:1]
    # `call (result), f, (arguments)`, but `call f, (arguments)`.
    return 1 if first and type(first[0]) is Args else 0


class CallParts(NamedTuple):
    """What a call names: where its results go, what it calls, and what it gives."""

    results: tuple[Operand, ...]
    target: Operand | None
    given: tuple[Operand, ...]

    @property
    def callee(self) -> str | None:
        """The function that is called; None for one through a pointer."""
        return self.target.name if isinstance(self.target, Symbol) else None


def call_parts(call: Instruction) -> CallParts:
    """The parts of `call (results), target, (given), prototype;`."""
    head = destinations(call)
    first, rest = call.operands[:head], call.operands[head:]
    results = first[0].elements if first and isinstance(first[0], Args) else ()
    given = next((o.elements for o in rest[1:] if isinstance(o, Args)), ())
    return CallParts(results, rest[0] if rest else None, given)


def known(instruction: Instruction) -> bool:
    """Has the opcode a row?"""
    return row(instruction.opcode, instruction.modifiers) is not None


def defs(instruction: Instruction) -> tuple[Reg, ...]:
    """Registers written, in order; every register it names for an unknown opcode."""
    op = row(instruction.opcode, instruction.modifiers)
    if op is None:
        return tuple(r for r in _registers(instruction.operands) if type(r) is Reg)
    written = instruction.operands[: _destinations(instruction, op)]
    if len(written) == 1 and type(written[0]) is Reg:  # nearly always
        return (written[0],)
    return tuple(reg for operand in written for reg in _written(operand))


def uses(instruction: Instruction) -> tuple[Reg | Special, ...]:
    """Registers read, in order: guard, address bases and sources; all for an unknown opcode."""
    guard = () if instruction.guard is None else (instruction.guard.reg,)
    operands = instruction.operands
    op = row(instruction.opcode, instruction.modifiers)
    if op is None:
        return (*guard, *_registers(operands))
    count = _destinations(instruction, op)
    read: list[Reg | Special] = [*guard]
    for operand in operands[:count]:
        if op.updates:
            read += _registers((operand,))
        elif type(operand) is not Reg:
            read += _kept(operand)
    for operand in operands[count:]:
        if type(operand) is Reg:
            read.append(operand)
        else:
            read += _registers((operand,))
    return tuple(read)


def space(instruction: Instruction) -> str | None:
    """State space an instruction accesses, None where it accesses no memory.

    "global", "shared", "local", "const", "param", "generic", "tex" or "surf"; of a copy the
    destination's. `shared::cta` is "shared". An unknown opcode may go anywhere: "generic".
    """
    return space_named(instruction.opcode, instruction.modifiers)


@by_name
def space_named(opcode: str, modifiers: tuple[str, ...]) -> str | None:
    """The same by the name of an instruction."""
    op = row(opcode, modifiers)
    if op is None:
        return "generic"
    if op.space != "generic":
        return op.space or None
    for modifier in modifiers:
        name = modifier.partition("::")[0]
        if name in _SPACES:
            return name
    return "generic"


def address(instruction: Instruction) -> Mem:
    """Where an access goes to. Raises StopIteration of what has no address operand."""
    bare = (o.base if isinstance(o, RegisterPart) else o for o in instruction.operands)
    return next(o for o in bare if isinstance(o, Mem))


def access_type(instruction: Instruction) -> str | None:
    """The type an instruction works on, without its dot: the last type among its modifiers."""
    for modifier in reversed(instruction.modifiers):
        if type_width(modifier):
            return modifier
    return None


WITHIN_BLOCK = frozenset({"shared", "local", "param"})
"""State spaces that the threads of no other block see."""


def may_write_global(instruction: Instruction) -> bool:
    """May it write memory that all threads of the grid see?"""
    return _may_write_global(instruction.opcode, instruction.modifiers)


@by_name
def _may_write_global(opcode: str, modifiers: tuple[str, ...]) -> bool:
    written = effects(opcode, modifiers)
    if written & Effect.CALL:
        return True
    return bool(written & Effect.WRITE) and space_named(opcode, modifiers) not in WITHIN_BLOCK
