"""What a loop reads again and again, in words."""

from __future__ import annotations

from collections.abc import Iterator

from ptxsw.ptx.ir import Instruction, Mem, Reg, Symbol, flatten, leaves
from ptxsw.simt.chunk import Chunk
from ptxsw.simt.code import Code
from ptxsw.simt.memory import FIRST, SHARED, WINDOW
from ptxsw.simt.state import Fragment

SPINS = "spins, and nothing changes what it does"
_POLLS = {"volatile", "relaxed", "acquire", "mmio"}


def spins(chunk: Chunk, fragment: Fragment, thread: int) -> str:
    """What a thread does at the head of a loop that goes on for ever, and what it waits for."""
    code = fragment.frame.code
    loop = list(_loop(code, fragment.pc))
    reads = [one for one in loop if _reads(one)]
    if not reads:
        return SPINS
    asked = [one for one in reads if one.opcode == "atom" or _POLLS & {*one.modifiers}]
    read = (asked or reads)[0]
    line = code.source.line(read.span.start)
    place = _place(chunk, fragment, loop, read, thread)
    return f"spins, and nothing changes what it reads at line {line}{place}"


def _loop(code: Code, head: int) -> Iterator[Instruction]:
    cfg = code.cfg
    loop = cfg.loops.get(cfg.block_of[head])
    for number in sorted(loop.blocks) if loop is not None else ():
        block = cfg.blocks[number]
        yield from code.instructions[block.start : block.end]


def _reads(instruction: Instruction) -> bool:
    shared = {"param", "local"}.isdisjoint(instruction.modifiers)
    return instruction.opcode in ("ld", "ldu", "atom") and shared


def _place(
    chunk: Chunk, fragment: Fragment, loop: list[Instruction], read: Instruction, thread: int
) -> str:
    """Where it reads, after a colon; nothing where that moves in the loop."""
    code, memory = fragment.frame.code, read.operands[1]
    if not isinstance(memory, Mem):
        return ""
    if isinstance(memory.base, Symbol):
        address = code.address(memory.base)[0]
    elif isinstance(memory.base, Reg):
        written = {leaf for one in loop for leaf in leaves(flatten(one.operands[:1]))}
        values = fragment.frame.values[code.slot(memory.base)]
        if memory.base in written or values is None:
            return ""
        address = int(values[thread])
    else:
        return ""
    address = (address + memory.offset) % (1 << 64)
    if SHARED <= address < SHARED + WINDOW or (address < FIRST and "shared" in read.modifiers):
        return f": byte {address % WINDOW} of shared memory"
    return f": {chunk.program.arena.named(address)}"
