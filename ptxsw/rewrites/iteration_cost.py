"""What an iteration of a loop costs: instructions that ptxas makes of those whose results are
needed.

A 64-bit sum takes two, a product and sum of 64 bits one. What only an address needed that is made
in another way falls away.
"""

from __future__ import annotations

from collections.abc import Mapping

from ptxsw.analysis.instruction_kinds import Kind, kind
from ptxsw.flow.cfg import Cfg
from ptxsw.flow.dataflow import Facts, writers
from ptxsw.flow.flow_graph import Loop
from ptxsw.ir import Instruction, Mem, Reg

_PRODUCT = 4.0  # a product of 64 bits: IMAD.WIDE, two IMAD, and a sum


class IterationCost:
    """The cost of one loop's iterations. `live` are the registers live at the start of each
    block."""

    def __init__(self, cfg: Cfg, loop: Loop, live: Mapping[int, Facts]) -> None:
        inside = cfg.indices(cfg.in_order(loop.blocks))
        self._code = {at: cfg.instructions[at] for at in inside}
        self._uses = {at: frozenset(cfg.read[at]) for at in self._code}
        self._defs = {at: cfg.written[at] for at in self._code}
        self._computes = frozenset(at for at, i in self._code.items() if kind(i) is Kind.COMPUTE)
        self._live_out = frozenset().union(*(live[target] for _, target in loop.exits))
        self._writers = writers(cfg.written, self._code)
        # An add that reads one of these merges with it: `mul.wide` and `add` into IMAD.WIDE,
        # `shl` and `add` into LEA.
        self._products = frozenset(
            r for at, i in self._code.items()
            if "wide" in i.modifiers or (i.opcode == "shl" and "b64" in i.modifiers)
            for r in self._defs[at]
        )  # fmt: skip
        self._shifted = frozenset(
            r for at, i in self._code.items() if i.opcode == "shl" for r in self._defs[at]
        )
        self._costs: dict[tuple[frozenset[int], frozenset[int], frozenset[str]], float] = {}

    def of(
        self,
        moved: frozenset[int] = frozenset(),
        given: frozenset[int] = frozenset(),
        kept: frozenset[str] = frozenset(),
    ) -> float:
        """Instructions of an iteration, if the accesses `moved` need no registers for their
        addresses, the results of the instructions `given` come from elsewhere, and the registers
        `kept` are needed besides."""
        key = (moved, given, kept)
        cost = self._costs.get(key)
        if cost is None:
            cost = self._costs[key] = self._counted(moved, given, kept)
        return cost

    def _counted(self, moved: frozenset[int], given: frozenset[int], kept: frozenset[str]) -> float:
        needed = self._needed(moved, given, kept)
        fused: set[Reg] = set()
        total = 0.0
        # Backwards, so that a sum is met before the product that it absorbs.
        for at, instruction in reversed(self._code.items()):
            if at in needed and at not in given and at in self._computes:
                total += self._weight(at, instruction, fused)
        return total

    def readers(
        self, register: Reg, moved: frozenset[int], kept: frozenset[str]
    ) -> frozenset[int] | None:
        """The instructions that read a register in an iteration, if the accesses `moved` need none
        for their addresses and the registers `kept` are needed besides; None where it is read
        behind the loop."""
        if register in self._live_out or register.name in kept:
            return None
        needed = self._needed(moved, frozenset(), kept)
        return frozenset(at for at in needed if register in self._read(at, moved, frozenset()))

    def _needed(
        self, moved: frozenset[int], given: frozenset[int], kept: frozenset[str]
    ) -> set[int]:
        # Dead code elimination as ptxas does it: accesses and branches are needed, and so is
        # everything they read. All writers of a register count, whichever reaches the reader: that
        # overestimates the loop before and after the change alike.
        work = [at for at in self._code if at not in self._computes]
        alive = self._live_out | {reg for reg in self._writers if reg.name in kept}
        work += [at for reg in alive for at in self._writers.get(reg, ())]
        needed: set[int] = set()
        while work:
            at = work.pop()
            if at not in needed:
                needed.add(at)
                read = self._read(at, moved, given)
                work += [m for reg in read for m in self._writers.get(reg, ())]
        return needed

    def _read(self, at: int, moved: frozenset[int], given: frozenset[int]) -> frozenset[Reg]:
        if at in given:
            return frozenset()
        if at in moved:
            return self._uses[at] - _address_registers(self._code[at])
        return self._uses[at]

    def _weight(self, at: int, instruction: Instruction, fused: set[Reg]) -> float:
        """What ptxas makes of an instruction. The sum behind a product or shift is one with it."""
        name, wide = instruction.opcode, any(m.endswith("64") for m in instruction.modifiers)
        if name == "add" and wide:
            products = self._uses[at] & self._products
            fused |= products
            if products & self._shifted:
                return 2.0  # LEA, LEA.HI.X
            return 1.0 if products else 2.0
        if not wide and "wide" not in instruction.modifiers:
            return 1.0
        if fused.issuperset(self._defs[at]):
            return 0.0  # counted with the sum that absorbs it
        if name in ("mul", "mad") and wide and "wide" not in instruction.modifiers:
            return _PRODUCT
        # Other 64-bit operations take an instruction for each half.
        return 1.0 if name in ("cvt", "mul", "mad") else 2.0


def _address_registers(access: Instruction) -> frozenset[Reg]:
    """The registers that only the address of an access names."""
    address = {o.base for o in access.operands if isinstance(o, Mem) and isinstance(o.base, Reg)}
    others = {o for o in access.operands if isinstance(o, Reg)}
    return frozenset(r for r in address if isinstance(r, Reg) and r not in others)
