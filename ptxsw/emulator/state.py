"""The state of one path, and an instruction made ready to change it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from msgspec import Struct

from ptxsw.emulator.memory import FIRST, SPACES, Epochs
from ptxsw.ptx import isa
from ptxsw.ptx.ir import (
    Instruction,
    Mem,
    Operand,
    Reg,
    type_width,
)
from ptxsw.semantics import Meaning
from ptxsw.terms import op
from ptxsw.terms.node import Term, Variance
from ptxsw.terms.origin import Origin
from ptxsw.terms.terms import Terms

# Facts beyond the newest are forgotten, which is always sound.
_MAX_CONDITIONS = 96

# What an instruction does only to the memory at its address.
_AT_ITS_ADDRESS = isa.Effect.READ | isa.Effect.WRITE | isa.Effect.ATOMIC


class State(Struct):
    """Values of the tracked registers on one path, what is known on it, and the time of memory."""

    env: dict[Reg, Term]
    conditions: tuple[Term, ...] = ()
    epochs: Epochs = FIRST

    def copy(self) -> State:
        """As it is now: a state changes with each instruction that is run."""
        return State(dict(self.env), self.conditions, self.epochs)

    def assume(self, condition: Term) -> tuple[Term, ...]:
        """The path's conditions with one more."""
        if condition.kind is op.CONST or condition in self.conditions:
            return self.conditions
        return (*self.conditions, condition)[-_MAX_CONDITIONS:]


class MemoryAccess(Struct, frozen=True):
    """A memory access as an instruction performs it in a state. It is at `place` in `space`;
    `address` is what the instruction says: another number where `space` is a window of the
    generic space that it was resolved to. `copied` is where an asynchronous copy reads, in global
    memory."""

    address: Term
    guard: Term
    """A term of one bit: is it made?"""
    space: str
    place: Term
    copied: Term | None = None


class Step(Struct, frozen=True):
    """An instruction made ready to run: what it writes, what it reads, what it means."""

    instruction: Instruction
    dests: tuple[tuple[Reg | None, int], ...]  # None and width 0 for a sink
    sources: tuple[Operand, ...]  # vectors flattened
    meaning: Meaning | None
    address: Mem | None
    space: str  # "" where it has none
    clobbers: tuple[str, ...]  # spaces that may be written
    elsewhere: bool  # may it write at other places than `address`?
    stores: int  # bytes that it writes at `address`; 0: not known
    widened: tuple[Reg, ...]  # narrower register sources of an extension
    opaque: bool = False  # nothing is known of what it writes
    copied: Mem | None = None  # where an asynchronous copy of each lane's bytes reads


class Reach(Struct, frozen=True):
    """Where an instruction may act by its name: does it do more than compute and branch, which
    spaces may it write, does it write at other places than the address that it names?"""

    touches: bool
    clobbers: tuple[str, ...]
    elsewhere: bool


@isa.by_name
def reach(opcode: str, modifiers: tuple[str, ...]) -> Reach:
    effects = isa.effects(opcode, modifiers)
    return Reach(
        bool(effects & ~(isa.Effect.BRANCH | isa.Effect.EXIT)),
        _clobbered(effects, isa.space_named(opcode, modifiers)),
        bool(effects & ~_AT_ITS_ADDRESS),
    )


def _clobbered(effects: isa.Effect, space: str | None) -> tuple[str, ...]:
    """Spaces that another value may be found in afterwards."""
    order = isa.Effect.BARRIER | isa.Effect.FENCE | isa.Effect.CALL | isa.Effect.ASYNC
    if effects & order:
        return SPACES if effects & isa.Effect.CALL else ("global", "shared")
    if effects & (isa.Effect.WRITE | isa.Effect.ATOMIC):
        if space is not None and space in SPACES:
            return (space,)
        return () if space == "param" else SPACES
    return ()


def needs_type(instruction: Instruction) -> bool:
    """Is it a load, store or atomic, which has a type to say how much it accesses?"""
    if instruction.opcode == "st":
        return "bulk" not in instruction.modifiers  # which has a size among its operands
    return instruction.opcode in ("ld", "ldu", "atom", "red")


def stored_bytes(instruction: Instruction) -> int:
    """How many bytes a plain store writes; 0 for whatever else writes."""
    effects = isa.effects(instruction.opcode, instruction.modifiers)
    if instruction.opcode != "st" or effects != isa.Effect.WRITE:
        return 0
    return type_width(isa.access_type(instruction) or "") * elements(instruction) // 8


def elements(instruction: Instruction) -> int:
    """How many elements an access moves."""
    for modifier in instruction.modifiers:
        if modifier in ("v2", "v4", "v8"):
            return int(modifier[1:])
    return 1


def named(reg: Reg) -> str:
    """A register with its scope; those of nested scopes may share a name."""
    return f"{reg.name}@{reg.scope}" if reg.scope else reg.name


def undefined(terms: Terms, reg: Reg, width: int) -> Term:
    """What a register holds that nobody has written."""
    name = f"undefined({named(reg)})"
    return terms.atom(name, width, Variance.LANE, None, Origin.UNDEFINED)


class Iteration(NamedTuple):
    """What one iteration of a loop computes, by instruction: addresses that it accesses, and what
    it leaves in registers."""

    addresses: dict[int, Term]
    values: dict[int, Term]


Hook: TypeAlias = Callable[[int, State, MemoryAccess | None], None]
"""Told of an instruction that was run on some path: its number in `Cfg.instructions`, the state
that it left, and the access to memory that it made. The state changes afterwards: keep copies."""
