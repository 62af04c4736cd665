"""One thread at a time, on plain integers: what an emulation says is held against this.

The interpreter shares nothing with the emulator but the parser, the flow graph and the meanings
of opcodes. It notes at each access what every unknown of the symbolic run stands for there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ptxsw.flow.cfg import Cfg
from ptxsw.ptx import isa
from ptxsw.ptx.ir import (
    Instruction,
    Int,
    Mem,
    Module,
    Not,
    Operand,
    Pair,
    Reg,
    Special,
    Symbol,
    Vec,
)
from ptxsw.semantics import meaning
from tests.semantics.ints import Int as Value
from tests.semantics.ints import Ints

CARRY = Reg("%cc", -1)

WINDOW = 1 << 32
"""Where shared memory begins among generic addresses."""


@dataclass(frozen=True)
class Event:
    """An instruction that a thread executed, its guard true where it has one."""

    index: int
    iterations: tuple[tuple[int, int], ...]  # of the loops around it: header and iteration, from 0
    address: int | None  # of an access, as the instruction names it
    place: tuple[str, int] | None  # where that is: "shared" or "global", and the address there
    counts: Mapping[int, int]  # iteration of each loop entered so far, by header
    heads: Mapping[int, Mapping[Reg, int]]  # registers at the start of that iteration
    loads: Mapping[tuple[str, int], tuple[int, ...]]  # what was loaded so far, by address
    written: tuple[tuple[Reg, int], ...]  # registers and their values after it
    taken: bool | None  # of a guarded branch


@dataclass
class Thread:
    """One thread's run over at most `fuel` instructions."""

    module: Module
    cfg: Cfg
    specials: Mapping[str, int]
    params: Mapping[str, int]
    initial: Mapping[Reg, int]  # what registers hold that nobody has written
    memory: Mapping[int, int]  # read by `.nc` loads; others start with it
    fuel: int = 600
    events: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.env: dict[Reg, int] = dict(self.initial)
        self.stored: dict[tuple[str, int], int] = {}
        self.counts: dict[int, int] = {}
        self.heads: dict[int, dict[Reg, int]] = {}
        self.loads: dict[tuple[str, int], tuple[int, ...]] = {}
        self.body = self.module.functions[-1].body

    def run(self) -> list[Event]:
        block: int | None = 0
        source = -1
        while block is not None and self.fuel > 0:
            self._enter(block, source)
            source, block = block, self._block(block)
        return self.events

    def _enter(self, block: int, source: int) -> None:
        loop = self.cfg.loops.get(block)
        if loop is not None:
            inside = source in loop.blocks
            self.counts[block] = self.counts[block] + 1 if inside else 0
            self.heads[block] = dict(self.env)

    def _block(self, number: int) -> int | None:
        block = self.cfg.blocks[number]
        for index in range(block.start, block.end):
            self.fuel -= 1
            ins = self.cfg.instructions[index]
            holds = ins.guard is None or bool(
                self.env.get(ins.guard.reg, 0) ^ int(ins.guard.negated)
            )
            if ins.opcode in ("bra", "brx", "ret", "exit"):
                taken = holds if ins.guard is not None else None
                self._note(index, None, (), taken)
                return self._next(number, ins, holds)
            if holds:
                self._step(index, ins)
        return block.successors[0] if block.successors else None

    def _next(self, number: int, ins: Instruction, holds: bool) -> int | None:
        block = self.cfg.blocks[number]
        if ins.opcode in ("ret", "exit"):
            return None if holds else next(iter(block.successors), None)
        if holds:
            name = self._target(ins)
            found = [b.number for b in self.cfg.blocks if name in b.labels]
            return found[0] if found else None
        return number + 1 if number + 1 < len(self.cfg.blocks) else None

    def _target(self, ins: Instruction) -> str:
        if ins.opcode == "bra":
            assert isinstance(ins.operands[0], Symbol)
            return ins.operands[0].name
        assert isinstance(ins.operands[1], Symbol)
        text = self.module.source.text.split(f"{ins.operands[1].name}:")[1]
        names = text.split(".branchtargets")[1].split(";")[0].replace(",", " ").split()
        return names[self.value(ins.operands[0]) % len(names)]

    def _step(self, index: int, ins: Instruction) -> None:
        written: list[tuple[Reg, int]] = []
        address = place = None
        if ins.opcode in ("ld", "st"):
            address, place, written = self._access(ins)
        elif ins.opcode not in ("bar",):
            written = self._compute(ins)
        self.env.update(written)
        self._note(index, address, tuple(written), None, place)

    def _compute(self, ins: Instruction) -> list[tuple[Reg, int]]:
        if ins.opcode == "cvta":
            assert isinstance(ins.operands[0], Reg) and "shared" in ins.modifiers
            window = -WINDOW if "to" in ins.modifiers else WINDOW
            return [(ins.operands[0], (self.value(ins.operands[1]) + window) % 2**64)]
        sense = meaning(ins.opcode, ins.modifiers)
        assert sense is not None, ins.name
        count = isa.destinations(ins)
        dests = [r for o in ins.operands[:count] for r in _registers(o)]
        sources = [self._source(o) for o in ins.operands[count:]]
        widths = [self.body.width(r) for r in dests]
        carry = Value(self.env.get(CARRY, 0), 1) if sense.reads_carry else None
        out = sense.run(Ints(), sources, widths, carry)
        written = [(r, v.value) for r, v in zip(dests, out, strict=False)]
        if sense.writes_carry:
            written.append((CARRY, out[-1].value))
        return written

    def _access(
        self, ins: Instruction
    ) -> tuple[int, tuple[str, int] | None, list[tuple[Reg, int]]]:
        space = isa.space(ins) or "generic"
        operand = next(o for o in ins.operands if isinstance(o, Mem))
        if space == "param":
            assert isinstance(operand.base, Symbol) and isinstance(ins.operands[0], Reg)
            return 0, None, [(ins.operands[0], self.params[operand.base.name])]
        address = (self.value(operand.base) + operand.offset) % 2**64
        place = place_of(address) if space == "generic" else (space, address)
        if ins.opcode == "st":
            self.stored[place] = self.value(ins.operands[1]) % 2**32
            return address, place, []
        value = self.memory.get(place[1], place[1] * 0x9E3779B1 >> 7 & 7)
        if "nc" not in ins.modifiers:
            value = self.stored.get(place, value + (3 if place[0] == "shared" else 0))
        seen = self.loads.get(place, ())
        self.loads[place] = (*seen, value)
        assert isinstance(ins.operands[0], Reg)
        return address, place, [(ins.operands[0], value)]

    def _source(self, operand: Operand) -> Value | int:
        if isinstance(operand, Int):
            return operand.value
        width = 32
        if isinstance(operand, Reg):
            width = self.body.width(operand)
        elif isinstance(operand, Not):
            width = 1
        elif isinstance(operand, Symbol):
            width = 64
        return Value(self.value(operand) % (1 << width), width)

    def value(self, operand: Operand) -> int:
        match operand:
            case Reg():
                return self.env.get(operand, 0)
            case Int(value):
                return value
            case Special(name):
                return self.specials[name]
            case Not(inner):
                return 1 - self.value(inner)
            case Symbol(name, offset):
                return 0x1000 + sum(map(ord, name)) + offset
        raise AssertionError(operand)

    def _note(
        self,
        index: int,
        address: int | None,
        written: tuple[tuple[Reg, int], ...],
        taken: bool | None,
        place: tuple[str, int] | None = None,
    ) -> None:
        around = self.cfg.loops_around(self.cfg.block_of[index])
        iterations = tuple((h, self.counts[h]) for h in around if h in self.counts)
        self.events.append(
            Event(
                index, iterations, address, place, dict(self.counts), dict(self.heads),
                dict(self.loads), written, taken,
            )
        )  # fmt: skip


def place_of(address: int) -> tuple[str, int]:
    """Where a generic address lies."""
    if WINDOW <= address < WINDOW + (1 << 16):
        return "shared", address - WINDOW
    return "global", address


def _registers(operand: Operand) -> list[Reg]:
    match operand:
        case Reg():
            return [operand]
        case Pair(first, second):
            return [*_registers(first), *_registers(second)]
        case Vec(elements):
            return [r for e in elements for r in _registers(e)]
    return []
