"""Is an instruction made by one lane of a group alone: the first or the last one of a mask?

m = __ballot_sync(~0u, p);      vote.sync.ballot.b32 %r1, %p1, -1;
if (lane == __ffs(m) - 1)       brev.b32 %r6, %r1;  bfind.shiftamt.u32 %r7, %r6;
    atomicAdd(c, n);            setp.ne.s32 %p3, %r5, %r7;  @%p3 bra DONE;
"""

from __future__ import annotations

from ptxsw.flow.cfg import Cfg
from ptxsw.ptx.ir import Instruction, Int, Reg, Special
from ptxsw.ptx.operand import Operand

_MASKS = frozenset({"activemask", "match"})
_LANES = ("%tid", "%laneid")
_STEPS = frozenset({"and", "mov", "cvt", "rem"})  # from a thread's index to its lane
_BELOW = "%lanemask_lt"


def is_led(cfg: Cfg, index: int) -> bool:
    """Does a condition on the way to an instruction leave one lane of a group, at most?"""
    guard = cfg.instructions[index].guard
    if guard is not None and _leads(cfg, guard.reg, holds=not guard.negated):
        return True
    block = cfg.block_of[index]
    return any(_comes_from(cfg, number, block) for number in cfg.order if number != block)


def _comes_from(cfg: Cfg, number: int, block: int) -> bool:
    """Does a block end in a branch on whose way to another block a leader alone goes?"""
    inside = cfg.blocks[number]
    branch = cfg.instructions[inside.end - 1] if inside.end > inside.start else None
    if branch is None or branch.opcode != "bra" or branch.guard is None:
        return False
    for successor, taken in zip(inside.successors, (True, False), strict=False):
        alone = list(cfg.predecessors[successor]) == [number]
        if alone and cfg.dominates(successor, block):
            return _leads(cfg, branch.guard.reg, holds=taken != branch.guard.negated)
    return False


def _leads(cfg: Cfg, predicate: Reg, *, holds: bool) -> bool:
    """Is a predicate true, or false, in the leader of a group alone?"""
    compared = _writer(cfg, predicate)
    if compared is None or compared.opcode != "setp" or len(compared.operands) != 3:
        return False
    if ("eq" if holds else "ne") not in compared.modifiers:
        return False
    a, b = compared.operands[1:]
    if isinstance(b, Int):
        return b.value == 0 and _is_rank(cfg, a)
    pairs = ((a, b), (b, a))
    return any(_is_lane(cfg, one) and _is_first(cfg, other) for one, other in pairs)


def _writer(cfg: Cfg, operand: Operand) -> Instruction | None:
    """The one instruction that writes a register."""
    if not isinstance(operand, Reg):
        return None
    writers = cfg.writers.get(operand, ())
    return cfg.instructions[writers[0]] if len(writers) == 1 else None


def _is_own_mask(cfg: Cfg, operand: Operand) -> bool:
    """Is it a mask of lanes in which the lane's own bit is set?"""
    writer = _writer(cfg, operand)
    return writer is not None and writer.opcode in _MASKS


def _is_mask(cfg: Cfg, operand: Operand) -> bool:
    """Is it a mask that all lanes share, or all lanes of a group?"""
    writer = _writer(cfg, operand)
    if writer is None:
        return False
    return writer.opcode in _MASKS or (writer.opcode == "vote" and "ballot" in writer.modifiers)


def _is_rank(cfg: Cfg, operand: Operand) -> bool:
    """Is it 0 in the first lane of a mask alone: the lanes of the mask below, or their number?"""
    writer = _writer(cfg, operand)
    if writer is not None and writer.opcode == "popc":
        writer = _writer(cfg, writer.operands[1])
    if writer is None or writer.opcode != "and":
        return False
    a, b = writer.operands[1:3]
    return any(_is_below(cfg, one) and _is_own_mask(cfg, other) for one, other in ((a, b), (b, a)))


def _is_below(cfg: Cfg, operand: Operand) -> bool:
    if isinstance(operand, Special):
        return operand.name == _BELOW
    writer = _writer(cfg, operand)
    return writer is not None and writer.opcode == "mov" and _is_below(cfg, writer.operands[1])


def _is_first(cfg: Cfg, operand: Operand) -> bool:
    """Is it the number of the first or the last lane of a mask?"""
    writer = _writer(cfg, operand)
    if writer is None or writer.opcode != "bfind":
        return False
    source = writer.operands[1]
    reversed_bits = _writer(cfg, source)
    if reversed_bits is not None and reversed_bits.opcode == "brev":
        source = reversed_bits.operands[1]
    return _is_mask(cfg, source)


def _is_lane(cfg: Cfg, operand: Operand) -> bool:
    """Does a value tell the lanes of a warp apart?"""
    if isinstance(operand, Special):
        return operand.name.startswith(_LANES)
    writer = _writer(cfg, operand)
    return writer is not None and writer.opcode in _STEPS and _is_lane(cfg, writer.operands[1])
