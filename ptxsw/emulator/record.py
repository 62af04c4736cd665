"""What a walk over the blocks shows of each instruction, collected for the trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import starmap
from typing import TypeVar

from ptxsw.emulator.state import MemoryAccess, State, Step, elements
from ptxsw.emulator.symbolic_machine import SymbolicMachine
from ptxsw.emulator.trace import (
    Access,
    AccessView,
    Held,
    LoadedPointer,
    OperandValues,
    Quotient,
    Widening,
)
from ptxsw.flow.cfg import Cfg
from ptxsw.flow.dataflow import defs, liveness, slice_registers, uses
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Instruction, Mem, Reg, type_width
from ptxsw.terms.digits import digits_in
from ptxsw.terms.node import Term, Variance
from ptxsw.terms.origin import Origin

_Key = TypeVar("_Key")
_WORD = 32  # bits that a shuffle moves
_POINTER = 64  # bits
_KINDS = {isa.Trait.LOAD: "load", isa.Trait.STORE: "store", isa.Trait.UPDATE: "atomic"}


class Record:
    """Accesses, extended registers, and the variance of registers and branches. `ways` tells how
    much it varies over lanes which of several states reaches a block."""

    def __init__(
        self,
        cfg: Cfg,
        machine: SymbolicMachine,
        tracked: frozenset[Reg],
        path_variance: Callable[[int], Variance],
    ) -> None:
        self._cfg, self._machine, self._tracked = cfg, machine, tracked
        self._path_variance = path_variance
        self._touches: dict[int, dict[MemoryAccess, frozenset[Term]]] = {}
        self._held: dict[tuple[int, Reg], dict[Term, frozenset[Term]]] = {}
        self._digits: dict[tuple[int, Reg], dict[Term, frozenset[Term]]] = {}
        self._pointers: dict[tuple[int, Reg], dict[Term, frozenset[Term]]] = {}
        self._first: dict[tuple[int, Reg], Term] = {}
        self._decided: dict[int, dict[tuple[Term | int, ...], frozenset[Term]]] = {}
        self._read: dict[int, dict[tuple[Term | int, ...], frozenset[Term]]] = {}
        self.branches: dict[int, Variance] = {}
        self.registers: dict[Reg, Variance] = {}

    # ------------------------------------------------------------ collecting

    def reads(self, step: Step, state: State, index: int) -> None:
        """An instruction that is followed is about to run."""
        get = self._machine.get(state)
        sources = tuple(self._machine.read(source, get) for source in step.sources)
        _note(self._read.setdefault(index, {}), sources, state)

    def step(self, step: Step, state: State, index: int, touch: MemoryAccess | None) -> None:
        """An instruction was run; `state` is what it left."""
        if step.instruction.guard is not None and isa.has(step.instruction, isa.Trait.BARRIER):
            goes = self._machine.guard(state, step.instruction)
            _note(self._decided.setdefault(index, {}), (goes,), state)
        for reg, width in step.dests:
            if reg in self._tracked:  # others are not followed through every instruction
                assert reg is not None
                value = state.env[reg]
                self._written(reg, value, index)
                if value.variance is Variance.LANE and width == _WORD and digits_in(value):
                    _note(self._digits.setdefault((index, reg), {}), value, state)
                if value.origin is Origin.LOAD and width == _POINTER:
                    _note(self._pointers.setdefault((index, reg), {}), value, state)
        for reg in step.widened:
            if reg not in [r for r, _ in step.dests]:
                value = self._machine.read_reg(state, reg)
                _note(self._held.setdefault((index, reg), {}), value, state)
        if touch is not None:
            _note(self._touches.setdefault(index, {}), touch, state)

    def _written(self, reg: Reg, value: Term, index: int) -> None:
        """Note how much a register varies at a place; where states give it different values, it
        matters which lanes are in which."""
        first = self._first.setdefault((index, reg), value)
        most = max(self.registers.get(reg, Variance.UNIFORM), value.variance)
        if first is not value and most < Variance.LANE:
            most = max(most, self._path_variance(self._cfg.block_of[index]))
        self.registers[reg] = most

    def branch(self, index: int, values: tuple[Term, ...], state: State) -> None:
        """A branch was run; `values` decided where it went."""
        decided = self._decided.setdefault(index, {})
        _note(decided, values, state)
        seen = max(self.branches.get(index, Variance.UNIFORM), *(v.variance for v in values))
        if len(decided) > 1 and seen < Variance.LANE:
            seen = max(seen, self._path_variance(self._cfg.block_of[index]))
        self.branches[index] = seen

    def left(self, state: State) -> None:
        """A state left a loop, its values renamed."""
        for reg, value in state.env.items():
            self.registers[reg] = max(self.registers.get(reg, value.variance), value.variance)

    # ------------------------------------------------------------ results

    def accesses(self) -> tuple[Access, ...]:
        return tuple(map(self._access, sorted(self._touches)))

    def widenings(self) -> tuple[Widening, ...]:
        return tuple(starmap(Widening, _values(self._held)))

    def quotients(self) -> tuple[Quotient, ...]:
        return tuple(starmap(Quotient, _values(self._digits)))

    def pointers(self) -> tuple[LoadedPointer, ...]:
        return tuple(starmap(LoadedPointer, _values(self._pointers)))

    def operands(self) -> dict[int, tuple[OperandValues, ...]]:
        return _operands(self._read)

    def decisions(self) -> dict[int, tuple[OperandValues, ...]]:
        return _operands(self._decided)

    def _access(self, index: int) -> Access:
        instruction = self._cfg.instructions[index]
        kind = next(
            (kind for trait, kind in _KINDS.items() if isa.has(instruction, trait)), "other"
        )
        touches = self._touches[index]
        spaces = {touch.space for touch in touches}
        one_space = len(spaces) == 1
        variants: dict[tuple[Term, Term, Term | None], frozenset[Term]] = {}
        for touch, conditions in touches.items():
            key = (touch.place if one_space else touch.address, touch.guard, touch.copied)
            variants[key] = conditions & variants.get(key, conditions)
        return Access(
            index,
            instruction,
            kind,
            (spaces.pop() if one_space else "generic") or "generic",
            type_width(isa.access_type(instruction) or ""),
            elements(instruction),
            tuple(
                AccessView(address, guard, conditions, copied)
                for (address, guard, copied), conditions in variants.items()
            ),
            self._apart(index, tuple(variants.values())),
        )

    def _apart(self, index: int, variants: Sequence[frozenset[Term]]) -> Variance:
        """How much it varies over lanes which of several variants is theirs, of each of which the
        conditions are given."""
        if len(variants) < 2 or self._machine.mutually_exclusive(variants):
            return Variance.UNIFORM
        return self._path_variance(self._cfg.block_of[index])


def _values(
    held: Mapping[tuple[int, Reg], Mapping[Term, frozenset[Term]]],
) -> Iterator[tuple[int, Reg, tuple[Held, ...]]]:
    """What registers hold at instructions, in order."""
    for (index, reg), seen in sorted(held.items(), key=lambda item: item[0][0]):
        yield index, reg, tuple(starmap(Held, seen.items()))


def _operands(
    read: Mapping[int, Mapping[tuple[Term | int, ...], frozenset[Term]]],
) -> dict[int, tuple[OperandValues, ...]]:
    return {index: tuple(starmap(OperandValues, seen.items())) for index, seen in read.items()}


def _note(seen: dict[_Key, frozenset[Term]], key: _Key, state: State) -> None:
    """Add what a state shows; of states that show the same the common conditions are kept."""
    facts = frozenset(state.conditions)
    entry = seen.get(key)
    seen[key] = facts if entry is None else entry & facts


# ---------------------------------------------------------------- what has to be tracked


def tracked(cfg: Cfg, follow: frozenset[str]) -> frozenset[Reg]:
    """The registers on which a trace depends; with all that instructions of the names in `follow`
    have to do with."""
    return slice_registers(cfg, partial(_roots, follow))


def followed(cfg: Cfg, names: frozenset[str]) -> frozenset[int]:
    """The instructions that have one of the names."""
    if not names:
        return frozenset()
    return frozenset(i for i, ins in enumerate(cfg.instructions) if ins.name in names)


def followed_anyway(cfg: Cfg, names: frozenset[str], tracked: frozenset[Reg]) -> frozenset[str]:
    """Those of some names whose instructions have to do with tracked registers alone."""
    at = followed(cfg, names)
    strange = (i for i in at if not tracked.issuperset((*cfg.written[i], *cfg.read[i])))
    return names - {cfg.instructions[i].name for i in strange}


def live_registers(cfg: Cfg, tracked: frozenset[Reg]) -> Mapping[int, tuple[Reg, ...]]:
    """By block, the tracked registers that live on at its start, in a fixed order."""

    def wanted(at: int) -> bool:
        if not tracked.isdisjoint(cfg.written[at]):
            return True
        ins = cfg.instructions[at]
        return bool(isa.effects(ins.opcode, ins.modifiers))

    facts = liveness(cfg, wanted)
    return {
        number: tuple(sorted(live & tracked, key=lambda r: (r.name, r.scope)))
        for number, live in facts.items()
    }


def _roots(follow: frozenset[str], instruction: Instruction) -> tuple[Reg, ...]:
    """Registers a trace needs: bases of addresses, what decides branches, guards of accesses, all
    that an instruction of a name in `follow` has to do with."""
    if follow and instruction.name in follow:
        return (*defs(instruction), *uses(instruction))
    roots = [o.base for o in instruction.operands if isinstance(o, Mem) and isinstance(o.base, Reg)]
    if instruction.opcode == "brx":
        roots.extend(o for o in instruction.operands if isinstance(o, Reg))
    if instruction.guard is not None and isa.effects(instruction.opcode, instruction.modifiers):
        roots.append(instruction.guard.reg)
    return tuple(roots)
