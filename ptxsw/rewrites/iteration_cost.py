"""What an iteration of a loop, or a kernel without its loops repeated, costs: instructions that
ptxas makes of those whose results are needed.

A 64-bit sum takes two, a product and sum of 64 bits one. What only an address needed that is made
in another way falls away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
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
        self.writers = writers(cfg.written, self._code)
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
        return self._total(needed - given if given else needed)

    def growing(self, moved: frozenset[int], kept: frozenset[str]) -> GrowingCost:
        """The same, ready for fewer accesses that need no registers, and more registers."""
        needed = self._needed(moved, frozenset(), kept)
        return GrowingCost(self, needed, self._total(needed))

    def of_more(self, needed: Set[int], new: Set[int]) -> float:
        """What further instructions add to some that are needed."""
        total = self._total(needed, new) if new else 0.0
        # A product that was one with no sum may be one with a new one.
        for at in {at for one in new if one in self._absorbs for at in self._absorbs[one]}:
            if at in needed and not self._is_fused(at, needed) and self._is_fused(at, needed, new):
                total -= self._weights[at]
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
        for reg, ats in self.writers.items():
            if reg in self._live_out or reg.name in kept:
                needed.update(ats)

        def sources(node: int) -> Iterable[int]:
            if node not in moved and node not in given:
                return self.sources[node]
            return self._registers_as_nodes(self._read(node, moved, given))

        return {node for node in reached(needed, sources) if node >= 0}

    @cached_property
    def _nodes(self) -> Mapping[Reg, int]:
        """Registers as nodes of a graph: below 0, since instructions have their positions."""
        return {reg: -1 - number for number, reg in enumerate(self.writers)}

    def _registers_as_nodes(self, registers: Iterable[Reg]) -> tuple[int, ...]:
        return tuple([self._nodes[reg] for reg in registers if reg in self._nodes])

    @cached_property
    def sources(self) -> Mapping[int, Sequence[int]]:
        """Of each instruction the registers that it reads, of each register what writes it. From
        instruction to instruction there are as many ways as both lists multiplied."""
        sources: dict[int, Sequence[int]] = {
            at: self._registers_as_nodes(self._cfg.read[at]) for at in self._code
        }
        sources.update((self._nodes[reg], ats) for reg, ats in self.writers.items())
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

    # ------------------------------------------------------------ what ptxas makes of them

    def _total(self, *needed: Set[int]) -> float:
        """What ptxas makes of the instructions in the last one of some sets, all of which are
        needed. A product or shift is one with the sum behind it."""
        weights, may_fuse = self._weights, self._absorbed_by
        return sum(
            [
                weights[at]
                for at in needed[-1]
                if at in weights and not (at in may_fuse and self._is_fused(at, *needed))
            ]
        )

    def _is_fused(self, at: int, *needed: Set[int]) -> bool:
        """Does a needed sum absorb each register that a product or shift sets?"""
        return all(
            any(not each.isdisjoint(sums) for each in needed) for sums in self._absorbed_by[at]
        )

    @cached_property
    def _weights(self) -> Mapping[int, float]:
        """What ptxas makes of each instruction by itself."""
        weights = {}
        for at in self._computes - self._offsets:
            instruction = self._code[at]
            own = _alone(instruction.opcode, instruction.modifiers)
            weights[at] = own.weight
            products = self._products.intersection(self._cfg.read[at])
            if own.absorbs and products:
                weights[at] = 1.0 if products.isdisjoint(self._shifted) else 2.0  # LEA, LEA.HI.X
        return weights

    @cached_property
    def _absorbed_by(self) -> Mapping[int, tuple[frozenset[int], ...]]:
        """For each operation on 64 bits that is no sum, and for each register that it sets: the
        sums behind it that absorb a product or shift in that register."""
        place = {at: number for number, at in enumerate(self._code)}
        sums: dict[Reg, list[int]] = {}
        for at in self._weights:
            instruction = self._code[at]
            if _alone(instruction.opcode, instruction.modifiers).absorbs:
                for register in self._products.intersection(self._cfg.read[at]):
                    sums.setdefault(register, []).append(at)
        found = {}
        for at in self._weights:
            own = _alone(self._code[at].opcode, self._code[at].modifiers)
            if own.is_wide and not own.absorbs:
                behind = (sums.get(register, ()) for register in self._cfg.written[at])
                found[at] = tuple(
                    frozenset(one for one in each if place[one] > place[at]) for each in behind
                )
        return found

    @cached_property
    def _absorbs(self) -> Mapping[int, tuple[int, ...]]:
        """The products and shifts that a sum absorbs."""
        found: dict[int, list[int]] = {}
        for at, sums in self._absorbed_by.items():
            for one in frozenset[int]().union(*sums):
                found.setdefault(one, []).append(at)
        return {one: tuple(ats) for one, ats in found.items()}


class GrowingCost:
    """What is needed so far, and its `total` in instructions. Accesses that get their own addresses
    back, and registers, need more."""

    def __init__(self, cost: IterationCost, needed: set[int], total: float) -> None:
        self._cost, self._needed, self.total = cost, needed, total

    def with_addresses(self, accesses: Iterable[int]) -> Added:
        """What is added by accesses whose addresses were not needed."""
        sources = self._cost.sources
        return self._with(source for at in accesses for source in sources[at])

    def with_register(self, register: Reg) -> Added:
        """What is added by a register that is needed besides."""
        return self._with(self._cost.writers.get(register, ()))

    def add(self, added: Added) -> None:
        """Count it with the rest."""
        self.total += added.cost
        self._needed |= added.needed

    def _with(self, start: Iterable[int]) -> Added:
        found = reached(start, self._cost.sources.__getitem__, barred=self._needed)
        new = {node for node in found if node >= 0}
        return Added(self._cost.of_more(self._needed, new), new)


class Added(Struct, frozen=True):
    """Further instructions that are needed, and what they cost."""

    cost: float
    needed: set[int]


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
