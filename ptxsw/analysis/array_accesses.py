"""Which instructions access which array of shared memory, and where its address goes.

    mov.u32 %r1, tile;          %r1, %r2 and %r3 may hold an address in `tile`
    add.s32 %r3, %r1, %r2;
    st.shared.u32 [%r3], %r4;   an access to `tile`
    st.shared.u32 [%r4], %r3;   here the address gets away: somebody may load it again

An address that is built on an array is taken to lie in it, and whoever got no address of an array
cannot access it: so arrays of which all addresses are seen can be laid out anew, one by one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from functools import cached_property
from typing import NamedTuple

from ptxsw.flow.cfg import Cfg
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Instruction, Mem, Reg, Symbol, leaves
from ptxsw.ptx.isa import Effect

SIMPLE = isa.opcodes(isa.Trait.SCALAR_ACCESS)
"""Accesses whose address can be changed."""
GENERIC = "may reach shared memory through a generic address"
OWN_LAYOUT = "reaches shared memory in a different layout"
# Their results could depend on where an array lies, which changes when arrays get whole rows.
_COMPARES = frozenset({"setp", "set", "isspacep", "slct", "min", "max"})
_PASS_ON = frozenset({"shfl", "vote", "match", "redux", "mapa"})

Name = tuple[str, int]
"""Of an array, with its scope."""


class Sources(NamedTuple):
    """What an instruction computes with, or what an access stores: registers and arrays."""

    registers: tuple[Reg, ...]
    arrays: frozenset[Name]

    def hold(self, tainted: Set[Reg]) -> bool:
        """Is there an address of the arrays among them?"""
        return bool(self.arrays) or not tainted.isdisjoint(self.registers)


def sources(instruction: Instruction, names: Collection[Name]) -> Sources:
    """What an instruction has from some arrays; an access's own address is left out."""
    read = instruction.operands[isa.destinations(instruction) :]
    if instruction.opcode in SIMPLE:
        values = [operand for operand in instruction.operands if not isinstance(operand, Mem)]
        # The first operand of `ld` and `atom` is their destination.
        read = tuple(values if instruction.opcode in ("st", "red") else values[1:])
    registers, arrays = list[Reg](), set[Name]()
    for leaf in leaves(read):
        if isinstance(leaf, Reg):
            registers.append(leaf)
        elif isinstance(leaf, Symbol) and (leaf.name, leaf.scope) in names:
            arrays.add((leaf.name, leaf.scope))
    return Sources(tuple(registers), frozenset(arrays))


def holding(cfg: Cfg, read: Sequence[Sources]) -> Set[Reg]:
    """The registers that may hold an address of the arrays, or part of one."""
    computed = defaultdict[Reg, list[Reg]](list)
    work: list[Reg] = []
    for instruction, written, one in zip(cfg.instructions, cfg.written, read, strict=True):
        # What an access returns is no shared address: storing one is refused (`escape`).
        if written and instruction.opcode not in SIMPLE:
            for register in one.registers:
                computed[register] += written
            if one.arrays:
                work += written
    registers: set[Reg] = set()
    while work:
        register = work.pop()
        if register not in registers:
            registers.add(register)
            work += computed[register]
    return registers


def escape(instruction: Instruction, read: Sources, tainted: Set[Reg]) -> str | None:
    """What an instruction does with an address of shared memory, other than compute or access."""
    if not read.hold(tainted):
        return None
    if instruction.opcode in SIMPLE:
        return "stores a shared address"
    if instruction.opcode in _COMPARES:
        return "compares a shared address"
    computes = not isa.effects(instruction.opcode, instruction.modifiers)
    # Plain arithmetic only makes another tainted register; these hand the value to other threads.
    if computes and instruction.opcode not in _PASS_ON:
        return None
    return "passes a shared address on"


class ArrayAccesses:
    """The accesses to some arrays of shared memory, which are all that a kernel names."""

    def __init__(self, cfg: Cfg, names: Iterable[Name]) -> None:
        self._cfg = cfg
        self._names = tuple(names)

    @cached_property
    def _sources(self) -> Mapping[Name, Sequence[Sources]]:
        code = self._cfg.instructions
        return {name: [sources(one, (name,)) for one in code] for name in self._names}

    @cached_property
    def _holding(self) -> Mapping[Name, Set[Reg]]:
        return {name: holding(self._cfg, read) for name, read in self._sources.items()}

    def of(self, index: int) -> frozenset[Name]:
        """The arrays on which the address of an access may be built."""
        instruction = self._cfg.instructions[index]
        base = next((o.base for o in instruction.operands if isinstance(o, Mem)), None)
        if isinstance(base, Symbol):
            return frozenset({(base.name, base.scope)}.intersection(self._names))
        return frozenset(name for name, held in self._holding.items() if base in held)

    @cached_property
    def obstacles(self) -> Mapping[Name, tuple[int, str]]:
        """The arrays of which not all accesses can be changed: an instruction, and why."""
        found: dict[Name, tuple[int, str]] = {}
        for index, instruction in enumerate(self._cfg.instructions):
            for name, reason in self._obstacles(index, instruction):
                found.setdefault(name, (index, reason))
        return found

    def _obstacles(self, index: int, instruction: Instruction) -> Iterable[tuple[Name, str]]:
        for name in self._names:
            told = escape(instruction, self._sources[name][index], self._holding[name])
            if told is not None:
                yield name, told
        if instruction.opcode not in SIMPLE:
            return
        built_on = self.of(index)
        named = isa.space_named(instruction.opcode, instruction.modifiers)
        remote = any(m.startswith("shared::cluster") for m in instruction.modifiers)
        if named != "shared" or remote:
            yield from ((name, GENERIC) for name in built_on)
        elif len(built_on) > 1:
            yield from ((name, "has an address in one of several arrays") for name in built_on)
        elif not built_on:
            reason = "has an address that does not derive from an array of the kernel"
            yield from ((name, reason) for name in self._names)

    @cached_property
    def calls(self) -> bool:
        """Is another function called, which may name arrays of the module?"""
        effects = (isa.effects(i.opcode, i.modifiers) for i in self._cfg.instructions)
        return any(one & Effect.CALL for one in effects)
