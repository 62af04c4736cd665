"""What the address of an access is made of, by the text alone: which parameters, whether memory,
and which parameters say how far a register in it counts.

    for (j = 0; j < n; j++) tile[8 * t + j] = x;      counts up to `n`: a caller keeps it below 8

Registers are followed through all instructions that write them, whatever their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

from msgspec import Struct

from ptxsw.flow.cfg import Cfg
from ptxsw.flow.convergence import waits_for
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Mem, Reg, Symbol, leaves
from ptxsw.ptx.isa import Effect

_BOUNDING = frozenset({"and", "xor", "rem", "selp", "bfe", "min", "max", "lop3", "or", "set"})
"""What keeps a register that changes in a loop within bounds, or lets it come back."""
_SCALING = frozenset({"shl", "shr", "div", "rem"})
_CHANGES = Effect.WRITE | Effect.ATOMIC | Effect.CALL
_OF_LANES = frozenset({"vote", "activemask", "match"})
_MASKING = frozenset({"and", "rem", "bfe"})
"""What brings any number into a range."""


class MadeOf(Struct, frozen=True):
    """`parameters` are names, with the offset of a field, as `verify.parameters` has them; `counts`
    are those that end loops which count up a register. `loads`: is any of it from memory, but for
    what a mask or a remainder keeps in range? `symbols` are variables. By `scales` something is
    shifted or divided."""

    parameters: frozenset[str] = frozenset()
    counts: frozenset[str] = frozenset()
    loads: bool = False
    symbols: frozenset[str] = frozenset()
    scales: frozenset[str] = frozenset()

    def __or__(self, other: MadeOf) -> MadeOf:
        return MadeOf(
            self.parameters | other.parameters, self.counts | other.counts,
            self.loads or other.loads, self.symbols | other.symbols, self.scales | other.scales,
        )  # fmt: skip


class Slices(Struct, frozen=True, dict=True):
    """Asked for instructions of a kernel by number."""

    cfg: Cfg
    names: frozenset[str]
    """Of the kernel's parameters."""

    def of_address(self, index: int, *, shared: bool = True) -> MadeOf:
        """Of the address that an instruction accesses; of a copy, that in `shared` memory or the
        other one."""
        instruction = self.cfg.instructions[index]
        places = [o for o in instruction.operands if isinstance(o, Mem)]
        places = places[:1] if shared else places[-1:]
        return self._made_of(leaves([part for o in places for part in (o.base, *o.extra)]))

    def of_operands(self, index: int) -> MadeOf:
        """Of all that an instruction names."""
        return self._made_of(leaves(self.cfg.instructions[index].operands))

    def of_mask(self, index: int) -> MadeOf:
        """Of the mask that names the lanes for which an instruction waits."""
        whom = waits_for(self.cfg.instructions[index])
        return MadeOf() if whom is None else self._made_of(leaves([whom]))

    def stored_from(self, index: int) -> frozenset[int]:
        """The loads that what an instruction stores is made of."""
        operands = self.cfg.instructions[index].operands[1:]
        regs = self._closure([o for o in leaves(operands) if isinstance(o, Reg)])
        written = (at for reg in regs for at in self.cfg.writers.get(reg, ()))
        return frozenset(at for at in written if self._parameter_of(at) == "")

    def _made_of(self, operands: Iterable[object]) -> MadeOf:
        operands = list(operands)
        symbols = {o.name for o in operands if isinstance(o, Symbol)}
        regs = self._closure([o for o in operands if isinstance(o, Reg)])
        parameters: set[str] = set()
        counts: frozenset[str] = frozenset()
        loads = False
        for reg in regs:
            for index in self.cfg.writers.get(reg, ()):
                read = self._parameter_of(index)
                if read:
                    parameters.add(read)
                symbols |= self._named(index)
        for reg in self._closure([o for o in operands if isinstance(o, Reg)], bounded=False):
            written = self.cfg.writers.get(reg, ())
            loads |= any(
                self._parameter_of(at) == "" and not self._of_own_shared(at) for at in written
            )
            counts |= self._counted.get(reg, frozenset())
        return MadeOf(frozenset(parameters), counts, loads, frozenset(symbols), self._scales(regs))

    def _scales(self, regs: set[Reg]) -> frozenset[str]:
        """The parameters by which some registers, or what they are made of, are scaled."""
        scaling = [
            self.cfg.instructions[index]
            for reg in regs for index in self.cfg.writers.get(reg, ())
            if self.cfg.instructions[index].opcode in _SCALING
        ]  # fmt: skip
        by = self._closure(
            [o for one in scaling for o in leaves(one.operands[2:]) if isinstance(o, Reg)]
        )
        written = (index for reg in by for index in self.cfg.writers.get(reg, ()))
        return frozenset(name for index in written if (name := self._parameter_of(index)))

    def _closure(self, regs: list[Reg], *, bounded: bool = True) -> set[Reg]:
        """The registers that some are made of; without those that are `bounded` first."""
        seen, work = set(regs), list(regs)
        while work:
            for index in self.cfg.writers.get(work.pop(), ()):
                if not bounded and self.cfg.instructions[index].opcode in _MASKING:
                    continue
                through = not bounded and self._of_own_shared(index)
                for reg in (self._stored_in_shared or ()) if through else self._sources(index):
                    if reg not in seen:
                        seen.add(reg)
                        work.append(reg)
        return seen

    def _sources(self, index: int) -> Iterator[Reg]:
        """What an instruction computes its results of; nothing where that is a load."""
        instruction = self.cfg.instructions[index]
        if self._parameter_of(index) is None and instruction.opcode not in _OF_LANES:
            guard = None if instruction.guard is None else instruction.guard.reg
            yield from (r for r in self.cfg.read[index] if r != guard)

    def _of_own_shared(self, index: int) -> bool:
        """Does an instruction load what plain stores of the kernel leave in shared memory?"""
        one = self.cfg.instructions[index]
        shared = one.opcode == "ld" and isa.space(one) == "shared"
        return shared and self._stored_in_shared is not None

    @cached_property
    def _stored_in_shared(self) -> tuple[Reg, ...] | None:
        """The registers that are stored in shared memory; None where more is written there."""
        found: dict[Reg, None] = {}
        for index in self.cfg.indices(self.cfg.order):
            one = self.cfg.instructions[index]
            touched = isa.effects(one.opcode, one.modifiers) & _CHANGES
            if not touched or isa.space(one) not in ("shared", "generic", None):
                continue
            if one.opcode != "st" or isa.space(one) != "shared":
                return None
            found.update(dict.fromkeys(r for r in leaves(one.operands[1:]) if isinstance(r, Reg)))
        return tuple(found)

    def _parameter_of(self, index: int) -> str | None:
        """The parameter that an instruction loads; "" for other memory, None where it is none."""
        instruction = self.cfg.instructions[index]
        if instruction.opcode in ("call", "tex", "tld4", "suld", "atom"):
            return ""
        if instruction.opcode not in ("ld", "ldu", "cp"):
            return None
        memory = instruction.operands[1] if len(instruction.operands) > 1 else None
        if not isinstance(memory, Mem) or not isinstance(memory.base, Symbol):
            return ""
        name = memory.base.name
        if "param" not in instruction.modifiers or name not in self.names:
            return ""
        return f"{name}+{memory.offset}" if memory.offset else name

    def _named(self, index: int) -> set[str]:
        instruction = self.cfg.instructions[index]
        if instruction.opcode in ("ld", "call"):
            return set()
        found = leaves(instruction.operands)
        return {o.name for o in found if isinstance(o, Symbol)}

    @cached_property
    def _counted(self) -> dict[Reg, frozenset[str]]:
        """The registers that loops count up or down, and the parameters that end those loops."""
        found: dict[Reg, frozenset[str]] = {}
        for loop in self.cfg.loops.values():
            inside = frozenset(self.cfg.indices(loop.blocks))
            counted = [
                reg for index in inside for reg in self.cfg.written[index]
                if self._comes_back(reg, inside)
            ]  # fmt: skip
            if counted:
                ends = self._ends(loop.exits)
                for reg in counted:
                    found[reg] = found.get(reg, frozenset()) | ends
        return found

    def _ends(self, exits: Iterable[tuple[int, int]]) -> frozenset[str]:
        """The parameters in the conditions of some exits of a loop."""
        ends: frozenset[str] = frozenset()
        for block, _ in exits:
            last = self.cfg.blocks[block].end - 1
            guard = self.cfg.instructions[last].guard
            if guard is not None:
                regs = self._closure([guard.reg])
                written = (i for reg in regs for i in self.cfg.writers.get(reg, ()))
                ends |= {name for i in written if (name := self._parameter_of(i))}
        return ends

    def _comes_back(self, start: Reg, inside: frozenset[int]) -> bool:
        """Is a register made of itself within a loop, by sums alone?"""
        seen: set[Reg] = set()
        work = [start]
        while work:
            for index in self.cfg.writers.get(work.pop(), ()):
                bounded = self.cfg.instructions[index].opcode in _BOUNDING
                if index not in inside or bounded:
                    continue
                for reg in self._sources(index):
                    if reg == start:
                        return True
                    if reg not in seen:
                        seen.add(reg)
                        work.append(reg)
        return False
