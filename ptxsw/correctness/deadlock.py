"""Threads that wait for what cannot come: a barrier with another count, a word that nobody writes,
lanes of a warp that wait for each other.

Where all living threads of a block come to the same barriers, each without a count, and no loop
waits for memory, nobody waits for ever: the proof leans on `divergent-barrier` and `warp-mask`.
"""

from __future__ import annotations

from ptxsw.correctness.barriers import meets_all, of_block
from ptxsw.correctness.block_roles import roles_of
from ptxsw.correctness.subject import Subject
from ptxsw.correctness.verdict import Assumption, Proof, Suspect
from ptxsw.correctness.warp_mask import is_masked
from ptxsw.flow.loop_exits import memory_dependence, waits_for_mbarrier
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Instruction, Int, Mem, Reg, leaves
from ptxsw.ptx.isa import Effect, Trait

RULE = "deadlock"


def occurs(subject: Subject) -> bool:
    instructions = subject.cfg.instructions
    return any(map(_waits, instructions)) or bool(_spins(subject) or _endless(subject))


def _waits(instruction: Instruction) -> bool:
    return isa.has(instruction, Trait.BARRIER) or is_masked(instruction)


def prove(subject: Subject) -> Proof:
    cfg = subject.cfg
    open_ = [
        Suspect(RULE, index, why=f"line {subject.line(index)}: {why}")
        for index, instruction in enumerate(cfg.instructions)
        if cfg.block_of[index] in cfg.rank and (why := _odd_barrier(subject, instruction))
    ]
    open_ += [Suspect(RULE, index, why=_waits_for(subject, index)) for index in _spins(subject)]
    open_ += [
        Suspect(RULE, index, why=f"nothing ends the loop at line {subject.line(index)}")
        for index in _endless(subject)
    ]
    needs = set[str]()
    if any(isa.has(one, Trait.BARRIER) and not is_masked(one) for one in cfg.instructions):
        needs.add("divergent-barrier")
    if any(map(is_masked, cfg.instructions)):
        needs.add("warp-mask")
    return Proof(tuple(open_), assumptions=frozenset({Assumption.FAIR}), needs=frozenset(needs))


def _waits_for(subject: Subject, index: int) -> str:
    line = subject.line(index)
    return f"a loop waits for what line {line} reads; that another thread writes it is not followed"


def _odd_barrier(subject: Subject, instruction: Instruction) -> str:
    """Why a barrier may wait for others than the living threads of its block; "" if it does not."""
    if not isa.has(instruction, Trait.BARRIER) or is_masked(instruction):
        return ""
    modifiers = instruction.modifiers
    if "cluster" in modifiers:
        return "barriers of a cluster are not followed"
    if "arrive" in modifiers:
        return "some threads only arrive at this barrier"
    operands = instruction.operands
    numbers = operands[1:-1] if "red" in modifiers else operands
    if roles_of(subject) is not None:
        return "warps with roles wait for each other here, in an order that is not followed"
    if not numbers or meets_all(instruction, subject.shape):
        return ""
    if len(numbers) < 2:
        return "its number varies"
    count = numbers[1]
    if not isinstance(count, Int) or not isinstance(numbers[0], Int):
        return "how many threads it waits for is computed"
    return f"it waits for {count.value} threads"


def _spins(subject: Subject) -> tuple[int, ...]:
    """What loops read that go on until another thread has written it."""
    cfg = subject.cfg
    found = []
    for loop in cfg.loops.values():
        index = memory_dependence(cfg, loop)
        if index is None:
            continue
        instruction = cfg.instructions[index]
        effects = isa.effects(instruction.opcode, instruction.modifiers)
        strong = bool(effects & (Effect.ATOMIC | Effect.BARRIER)) or waits_for_mbarrier(cfg, loop)
        strong = strong and not of_block(instruction)  # all go round together
        if strong or not (_works(subject, loop.blocks) or _walks(subject, index, loop.blocks)):
            found.append(index)
    return tuple(sorted(found))


def _endless(subject: Subject) -> tuple[int, ...]:
    """The first instructions of loops that are left in the first iteration or never: what decides
    is not changed in them."""
    cfg = subject.cfg
    found = []
    for header, loop in cfg.loops.items():
        leaving = {cfg.blocks[source].end - 1 for source, _ in loop.exits}
        inside = cfg.indices(loop.blocks)
        deciding = {reg for at in leaving for reg in cfg.read[at]}
        ends = any(
            isa.effects(cfg.instructions[at].opcode, cfg.instructions[at].modifiers) & Effect.EXIT
            for at in inside
        )
        changed = any(deciding & {*cfg.written[at]} for at in inside)
        if not ends and not changed:
            found.append(cfg.blocks[header].start)
    return tuple(sorted(found))


def _walks(subject: Subject, index: int, blocks: frozenset[int]) -> bool:
    """Does a loop read another place each time, so that it waits for none?"""
    cfg = subject.cfg
    written = {reg for at in cfg.indices(blocks) for reg in cfg.written[at]}
    places = [o for o in cfg.instructions[index].operands if isinstance(o, Mem)]
    return any(isinstance(part, Reg) and part in written for part in leaves(places))


def _works(subject: Subject, blocks: frozenset[int]) -> bool:
    """Does a loop write memory, so that it does not only wait?"""
    cfg = subject.cfg
    return any(
        isa.effects(one.opcode, one.modifiers) & Effect.WRITE
        for one in (cfg.instructions[index] for index in cfg.indices(blocks))
    )
