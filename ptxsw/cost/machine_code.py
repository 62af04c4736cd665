"""Machine code (SASS): instructions with their control words, pipelines, blocks and loops.

    LDG.E.CONSTANT R16,[R4.64]    pipe lsu, PTX line 71, stall 4, sets barrier 2
    FADD R16,R16,R17              pipe fma, PTX line 79, waits for barriers 2 and 3

Control words: from Volta on an instruction has 128 bits, and bits 105 to 125 steer the scheduler:
stall (4 bits), yield (1), write and read barrier (3 each, 7 for none), wait mask (6), reuse (4).
Source: Z. Jia, M. Maggioni, B. Staiger, D. Scarpazza, "Dissecting the NVIDIA Volta GPU Architecture
via Microbenchmarking", arXiv:1804.06826, 2018, section 2.1; the tests hold it on later ones.

Pipelines have the names of NVIDIA's profiler: "alu", "fma", "fp16", "fp64", "xu", "lsu", "adu",
"cbu", "uniform", "tensor", "tc", "tmem", "tex". What NVIDIA's documents do not say is "unknown".
`pipes.toml` has the opcodes, each group with its source. (How many lanes a pipe serves is in
`gpus/*.toml`.)

A block ends at a branch, exit or return, as in PTX (`ptxsw.flow.cfg`); a call does not end one.
ptxas also leaves loops by a `CALL.REL.NOINC` that never comes back: such a call is a jump. Where a
branch depends on a register (`BRX`), the cubin lists its targets.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from msgspec import Struct

from ptxsw.cost.cubin import FunctionCode
from ptxsw.cost.disassembly import DisassembledLine
from ptxsw.flow.flow_graph import Block, FlowGraph, reverse_postorder

BYTES: Final = 16  # of an instruction
_ENDS: Final = frozenset({"BRA", "BRX", "BRXU", "EXIT", "JMP", "JMX", "JMXU", "KILL", "RET"})
_LEAVES: Final = frozenset({"EXIT", "KILL", "RET"})
_DIRECT: Final = frozenset({"BRA", "CALL", "JMP", "WARPSYNC"})
_IF_TOGETHER: Final = frozenset({"CONV", "DIV"})  # of BRA, on sm_75 without a further operand
_INDIRECT: Final = frozenset({"BRX", "BRXU", "JMX", "JMXU"})
_STEERING: Final = _ENDS | _LEAVES | _DIRECT | _INDIRECT
_MEMORY: Final = frozenset(
    {"LD", "LDG", "LDL", "LDS", "LDC", "LDCU", "ST", "STG", "STL", "STS", "LDGSTS"}
)
_WIDTHS: Final = {
    "U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "96": 12, "128": 16, "256": 32,
}  # fmt: skip
UNKNOWN: Final = "unknown"
TENSOR: Final = frozenset({"tensor", "tc", "tmem"})
"""Pipes of tensor cores and their memory."""
_FILE: Final = os.path.join(os.path.dirname(__file__), "pipes.toml")


class Control(NamedTuple):
    """What the scheduler is told with an instruction.

    `stall` is in cycles until the warp's next one. `write` is the barrier (0 to 5) that is set
    until the result is there, `read` that until the sources are read, each None for none. `wait`
    has a bit for each barrier waited for, `reuse` one for each source operand kept.
    """

    stall: int
    yields: bool  # to another warp; the bit in the code is 0 for yes
    write: int | None
    read: int | None
    wait: int
    reuse: int


class MachineInstruction(NamedTuple):
    """One instruction of machine code. `address` is in bytes from the start of its function;
    `predicate` is such as "!P0", or empty. `line` counts from 1 in the PTX text, and `ptx` is the
    offset there of the PTX instruction; both None where it is from none, or that is not known."""

    address: int
    opcode: str  # "LDG.E.CONSTANT"
    operands: str
    predicate: str
    control: Control
    pipe: str
    line: int | None
    ptx: int | None

    @property
    def root(self) -> str:
        """The opcode without modifiers: "LDG"."""
        return _root(self.opcode)

    @property
    def width(self) -> int | None:
        """Bytes for each lane that a load or store moves; None for any other instruction."""
        return width(self.opcode)


@lru_cache(maxsize=1 << 12)
def _root(opcode: str) -> str:
    return opcode.partition(".")[0]


@lru_cache(maxsize=1 << 12)
def width(opcode: str) -> int | None:
    """Bytes for each lane that a load or store moves; None for any other opcode."""
    if _root(opcode) not in _MEMORY:
        return None
    return next((w for m, w in _WIDTHS.items() if m in opcode.split(".")), 4)


class Routine(Struct, frozen=True):
    """Code with an entry of its own: the kernel itself, or what it calls. Its blocks are runs of
    the kernel's instructions. `unresolved` are the blocks that end in an indirect branch whose
    targets are not known."""

    name: str
    flow: FlowGraph
    unresolved: frozenset[int]


class MachineKernel(Struct, frozen=True, kw_only=True, dict=True):
    """One kernel as ptxas made it.

    `stack`, `spill_stores` and `spill_loads` are bytes of one thread; the spills are None where
    ptxas did not tell them. `shared` is a block's static shared memory in bytes, without what the
    system reserves. `instructions` is empty where there is no nvdisasm; the first of `routines` is
    the kernel's own.
    """

    name: str
    registers: int
    stack: int
    spill_stores: int | None
    spill_loads: int | None
    shared: int
    barriers: int
    instructions: tuple[MachineInstruction, ...]
    routines: tuple[Routine, ...]

    def of_block(self, block: Block) -> tuple[MachineInstruction, ...]:
        """The instructions of one block."""
        return self.instructions[block.start : block.end]


def control(word: int) -> Control:
    """The control word of an instruction of 128 bits."""
    return _control(word >> 105 & (1 << 21) - 1)


@lru_cache(maxsize=1 << 12)
def _control(bits: int) -> Control:
    write, read = bits >> 5 & 7, bits >> 8 & 7
    return Control(
        stall=bits & 15,
        yields=not bits >> 4 & 1,
        write=None if write == 7 else write,
        read=None if read == 7 else read,
        wait=bits >> 11 & 63,
        reuse=bits >> 17 & 15,
    )


# ---------------------------------------------------------------- pipelines


@lru_cache(maxsize=1 << 12)
def pipe(opcode: str, arch: int) -> str:
    """The pipeline of an opcode such as "LDG.E.128" on an architecture such as 80 (sm_80)."""
    exceptions, by_opcode = _tables(arch)
    root, _, modifiers = opcode.partition(".")
    first = f"{root}.{modifiers.partition('.')[0]}"
    return exceptions.get(first) or by_opcode.get(root, UNKNOWN)


@lru_cache(maxsize=1)
def _given() -> Mapping[str, Any]:
    import tomllib

    with open(_FILE, "rb") as file:
        return tomllib.load(file)


@lru_cache(maxsize=32)
def _tables(arch: int) -> tuple[Mapping[str, str], Mapping[str, str]]:
    given = _given()
    by_opcode: dict[str, str] = {}
    for rule in given["rule"]:
        if rule.get("from", 0) <= arch < rule.get("below", 1000):
            for opcode in rule["opcodes"]:
                assert opcode not in by_opcode, f"{opcode} has two pipes on {arch}"
                by_opcode[opcode] = rule["pipe"]
    return given["exceptions"], by_opcode


# ---------------------------------------------------------------- blocks


def routines(listing: Sequence[DisassembledLine], code: FunctionCode) -> tuple[Routine, ...]:
    """The kernel's own code first, then the routines in it. `listing` is without padding."""
    starts = [(0, code.name), *((at // BYTES, name) for at, name in code.routines)]
    ends = [start for start, _ in starts[1:]] + [len(listing)]
    return tuple(
        _routine(name, _Stretch(start, min(end, len(listing)), listing, code.branches))
        for (start, name), end in zip(starts, ends, strict=True)
        if start < min(end, len(listing))
    )


def without_padding(listing: Sequence[DisassembledLine]) -> int:
    """How many instructions there are before what only fills the end: NOPs, and before them a
    branch to itself that nothing leads to."""
    end = len(listing)
    while end and listing[end - 1].opcode == "NOP":
        end -= 1
    last = end - 1
    if last < 1 or not _always_jumps(listing[last]) or _target(listing[last]) != last:
        return end
    led_to = any(_target(line) == last for line in listing[:last] if _steers(line.opcode))
    return end if led_to or _falls_through(listing[last - 1]) else last


class _Stretch(NamedTuple):
    """The code of one routine: instructions `start` to `end` of a listing."""

    start: int
    end: int
    listing: Sequence[DisassembledLine]
    branches: Mapping[int, tuple[int, ...]]

    def steering(self) -> list[int]:
        """Behind which instructions control may go on elsewhere than at the next one."""
        lines = self.listing[self.start : self.end]
        return [at for at, line in enumerate(lines, self.start) if _steers(line.opcode)]

    def successors(self, number: int) -> tuple[list[int], bool]:
        """Where control goes from an instruction, taken side first; and is all of that known?"""
        line = self.listing[number]
        root = line.opcode.partition(".")[0]
        after = [number + 1] if number + 1 < self.end and _falls_through(line) else []
        if root in _INDIRECT:
            targets = self.branches.get(number * BYTES)
            return self._inside(at // BYTES for at in targets or ()) + after, bool(targets)
        target = _target(line)
        return self._inside(() if target is None else (target,)) + after, True

    def _inside(self, targets: Iterable[int]) -> list[int]:
        return [at for at in targets if self.start <= at < self.end]


def _routine(name: str, stretch: _Stretch) -> Routine:
    leaders, targets, unresolved = {stretch.start}, dict[int, list[int]](), set[int]()
    for number in stretch.steering():
        to, is_known = stretch.successors(number)
        if not is_known:
            unresolved.add(number)
        if to == [number + 1] and not _ends_block(stretch.listing[number]):
            continue
        targets[number] = to
        leaders.update(to)
        if number + 1 < stretch.end:
            leaders.add(number + 1)
    starts = sorted(leaders)
    at = {start: number for number, start in enumerate(starts)}
    blocks = []
    for number, start in enumerate(starts):
        end = starts[number + 1] if number + 1 < len(starts) else stretch.end
        after = targets.get(end - 1, [end] if end < stretch.end else [])
        blocks.append(Block(number, start, end, (), tuple(dict.fromkeys(at[t] for t in after))))
    order = reverse_postorder(0, {b.number: b.successors for b in blocks})
    open_ends = frozenset(b.number for b in blocks if b.end - 1 in unresolved)
    return Routine(name, FlowGraph(tuple(blocks), tuple(order)), open_ends)


# ---------------------------------------------------------------- one instruction


@lru_cache(maxsize=1 << 10)
def _steers(opcode: str) -> bool:
    """May control go on elsewhere than at the next instruction, or does a block end here?"""
    return opcode.partition(".")[0] in _STEERING


def _ends_block(line: DisassembledLine) -> bool:
    return line.opcode.partition(".")[0] in _ENDS


def _always_jumps(line: DisassembledLine) -> bool:
    """A branch without any condition: neither a predicate before it nor one among its operands, nor
    whether the warp is together."""
    root, _, modifier = line.opcode.partition(".")
    jumps = root in ("BRA", "JMP") or (root == "CALL" and _target(line) is not None)
    asks = line.predicate or "," in line.operands or modifier in _IF_TOGETHER
    return jumps and not asks


def _falls_through(line: DisassembledLine) -> bool:
    """May control go on behind this instruction?"""
    root = line.opcode.partition(".")[0]
    if root in _LEAVES or root in _INDIRECT:
        return line.predicate != ""
    return not _always_jumps(line)


def _target(line: DisassembledLine) -> int | None:
    """The number of the instruction that a direct branch leads to, None for anything else:
    `BSSY` names where lanes will meet, and the operand of `BPT` or `NANOSLEEP` is a plain number.
    """
    last = line.operands.rpartition(",")[2]
    if line.call or line.opcode.partition(".")[0] not in _DIRECT:
        return None
    return int(last, 16) // BYTES if last.startswith("0x") else None
