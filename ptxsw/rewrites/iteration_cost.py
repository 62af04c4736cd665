"""What an iteration of a loop, or a kernel without its loops repeated, costs: instructions that
ptxas makes of those whose results are needed.

A 64-bit sum takes two, a product and sum of 64 bits one. What only an address needed that is made
in another way falls away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from msgspec import Struct

from ptxsw.analysis.instruction_kinds import Kind, kind
from ptxsw.flow.cfg import Cfg
from ptxsw.flow.dataflow import liveness, writers
from ptxsw.flow.flow_graph import Loop, reached
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Instruction, Int, Mem, Reg

_PRODUCT = 4.0  # a product of 64 bits: IMAD.WIDE, two IMAD, and a sum


class IterationCost:
    """The cost of one loop's iterations; of all code once, where `loop` is None."""

    def __init__(self, cfg: Cfg, loop: Loop | None) -> None:
        self._cfg, self._loop = cfg, loop
        inside = cfg.indices(cfg.order if loop is None else cfg.in_order(loop.blocks))
        self._code = {at: cfg.instructions[at] for at in inside}
        self._computes = frozenset(at for at, i in self._code.items() if kind(i) is Kind.COMPUTE)
        self._writers = writers(cfg.written, self._code)
        # An add that reads one of these merges with it: `mul.wide` and `add` into IMAD.WIDE,
        # `shl` and `add` into LEA.
        self._products: set[Reg] = set()
        self._shifted: set[Reg] = set()
        for at, instruction in self._code.items():
            shifts = instruction.opcode == "shl"
            if shifts:
                self._shifted.update(cfg.written[at])
            if "wide" in instruction.modifiers or (shifts and "b64" in instruction.modifiers):
                self._products.update(cfg.written[at])

    @cached_property
    def _live_out(self) -> frozenset[Reg]:
        """The registers that are live where the loop is left."""
        if self._loop is None:
            return frozenset()
        live = liveness(self._cfg)
        return frozenset[Reg]().union(*(live.get(target, ()) for _, target in self._loop.exits))

    def of(
        self,
        moved: frozenset[int] = frozenset(),
        given: frozenset[int] = frozenset(),
        kept: frozenset[str] = frozenset(),
    ) -> float:
        """Instructions of an iteration, if the accesses `moved` need no registers for their
        addresses, the results of the instructions `given` come from elsewhere, and the registers
        `kept` are needed besides."""
        needed = self._needed(moved, given, kept)
        fused: set[Reg] = set()
        total = 0.0
        # Backwards, so that a sum is met before the product that it absorbs.
        for at, instruction in reversed(self._code.items()):
            if at in needed and at not in given and at in self._computes:
                total += self._weight(at, instruction, fused)
        return total

    def is_hardly_less(self, saved: float, mode: str) -> bool:
        """Will mode auto keep nothing that saves so few instructions?"""
        if mode != "auto":
            return False
        from ptxsw.cost.decide import FALLS  # with what reads machine code

        return saved < FALLS * self.of()

    def carried(self, moved: frozenset[int], kept: frozenset[str]) -> int:
        """Sums of 64 bits by which an iteration moves a pointer on for the next one, if that is
        needed then."""
        needed = self._needed(moved, frozenset(), kept)
        return sum(at in self._moves_on and at in needed for at in self._code)

    @cached_property
    def _moves_on(self) -> frozenset[int]:
        sums = (
            at for at, i in self._code.items() if i.opcode == "add" and i.modifiers[-1][1:] == "64"
        )
        return frozenset(
            at for at in sums if not set(self._cfg.read[at]).isdisjoint(self._cfg.written[at])
        )

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
        needed = set(self._code.keys() - self._computes)
        for reg, ats in self._writers.items():
            if reg in self._live_out or reg.name in kept:
                needed.update(ats)

        def sources(node: int) -> Iterable[int]:
            if node not in moved and node not in given:
                return self._sources[node]
            return self._registers_as_nodes(self._read(node, moved, given))

        return {node for node in reached(needed, sources) if node >= 0}

    @cached_property
    def _nodes(self) -> Mapping[Reg, int]:
        """Registers as nodes of a graph: below 0, since instructions have their positions."""
        return {reg: -1 - number for number, reg in enumerate(self._writers)}

    def _registers_as_nodes(self, registers: Iterable[Reg]) -> tuple[int, ...]:
        return tuple([self._nodes[reg] for reg in registers if reg in self._nodes])

    @cached_property
    def _sources(self) -> Mapping[int, Sequence[int]]:
        """Of each instruction the registers that it reads, of each register what writes it. From
        instruction to instruction there are as many ways as both lists multiplied."""
        sources: dict[int, Sequence[int]] = {
            at: self._registers_as_nodes(self._cfg.read[at]) for at in self._code
        }
        sources.update((self._nodes[reg], ats) for reg, ats in self._writers.items())
        return sources

    @cached_property
    def _offsets(self) -> frozenset[int]:
        """The sums with a number that only make addresses: of a kernel that is looked at as a
        whole. ptxas adds such numbers where memory is accessed."""
        if self._loop is not None:
            return frozenset()
        others = {reg for at in self._code for reg in self._read_but_as_address(at)}
        sums = (at for at, i in self._code.items() if i.opcode == "add" and i.guard is None)
        return frozenset(
            at
            for at in sums
            if isinstance(self._code[at].operands[-1], Int)
            and others.isdisjoint(self._cfg.written[at])
        )

    def _read_but_as_address(self, at: int) -> frozenset[Reg]:
        return frozenset(self._cfg.read[at]) - _address_registers(self._code[at])

    def _read(
        self, at: int, moved: frozenset[int], given: frozenset[int]
    ) -> tuple[Reg, ...] | frozenset[Reg]:
        if at in given:
            return ()
        if at in moved:
            return self._read_but_as_address(at)
        return self._cfg.read[at]

    def _weight(self, at: int, instruction: Instruction, fused: set[Reg]) -> float:
        """What ptxas makes of an instruction. The sum behind a product or shift is one with it."""
        if at in self._offsets:
            return 0.0
        own = _alone(instruction.opcode, instruction.modifiers)
        if own.absorbs:
            products = self._products.intersection(self._cfg.read[at])
            fused |= products
            if products:
                return 1.0 if products.isdisjoint(self._shifted) else 2.0  # LEA, LEA.HI.X
        elif own.is_wide and fused.issuperset(self._cfg.written[at]):
            return 0.0  # counted with the sum that absorbs it
        return own.weight


class _Alone(Struct, frozen=True):
    """What ptxas makes of an instruction that it merges with no other: is there something of 64
    bits in it, and does it absorb products?"""

    weight: float
    is_wide: bool
    absorbs: bool


@isa.by_name
def _alone(opcode: str, modifiers: tuple[str, ...]) -> _Alone:
    wide = any(modifier.endswith("64") for modifier in modifiers)
    widens = "wide" in modifiers
    absorbs = opcode == "add" and wide
    if absorbs or not (wide or widens):
        return _Alone(2.0 if absorbs else 1.0, wide, absorbs)
    if opcode in ("mul", "mad") and wide and not widens:
        return _Alone(_PRODUCT, True, False)
    # Other 64-bit operations take an instruction for each half.
    return _Alone(1.0 if opcode in ("cvt", "mul", "mad") else 2.0, True, False)


def _address_registers(access: Instruction) -> frozenset[Reg]:
    """The registers that only the address of an access names."""
    address = {o.base for o in access.operands if isinstance(o, Mem) and isinstance(o.base, Reg)}
    others = {o for o in access.operands if isinstance(o, Reg)}
    return frozenset(r for r in address if isinstance(r, Reg) and r not in others)
