"""Where a loop stands in the text, how control enters it, and whether it may be duplicated."""

from __future__ import annotations

from ptxsw.analysis.instruction_kinds import Kind, asked_anywhere, kind, meets
from ptxsw.codegen.versioning import LoopPlace
from ptxsw.flow.cfg import Cfg
from ptxsw.flow.flow_graph import Loop
from ptxsw.ptx.ir import Close, Directive, Open, Variable
from ptxsw.rewrites.base import Kernel


def loop_place(cfg: Cfg, loop: Loop) -> LoopPlace | str:
    """The text that holds a loop, and how control comes to it; or why nothing can stand before
    it."""
    blocks = [cfg.blocks[n] for n in loop.blocks]
    header = cfg.blocks[loop.header]
    start, end = min(b.start for b in blocks), max(b.end for b in blocks) - 1
    if not header.labels:
        return "the loop has no label"
    outside = [n for n in cfg.predecessors[loop.header] if n not in loop.blocks]
    if len(outside) != 1:
        return "the loop is entered from several places"
    block = cfg.blocks[outside[0]]
    if start <= block.start <= end:
        return "the code before the loop stands between its blocks"
    last = cfg.instructions[block.end - 1]
    # Lines before this branch are run exactly when the loop is entered. Before a conditional
    # branch they would also be run by threads that skip the loop, and could fault there.
    if last.opcode == "bra" and last.guard is None:
        return LoopPlace(header.start, start, end, block.end - 1)
    falls = block.end == header.start == start
    if not falls or (last.opcode == "bra" and block.successors[0] == loop.header):
        return "the loop is entered by a conditional branch"
    return LoopPlace(header.start, start, end, None)


def obstacle_to_loop_copy(kernel: Kernel, place: LoopPlace) -> str | None:
    """Why a loop may not be duplicated, with some threads in either copy; None if it may."""
    # Threads of one warp may take different copies. Any later `activemask` could then report other
    # lanes than before, and a barrier in the loop would be reached by only some of the threads.
    if asked_anywhere(kernel.trace.cfg):
        return "it would need a branch, and the kernel asks which lanes are active"
    body = kernel.trace.cfg.instructions[place.start : place.end + 1]
    for instruction in body:
        if meets(instruction) or kind(instruction) is Kind.EVENT:
            return f"{instruction.name} is in the loop, which would be duplicated"
        if instruction.opcode == "brx":
            return "an indirect branch is in the loop, which would be duplicated"
    first, last = body[0].start, body[-1].end
    for statement in kernel.function.body.others:
        if not first <= statement.span.start < last:
            continue
        if isinstance(statement, Open | Close | Variable):
            return "a scope or a variable begins inside the loop"
        if isinstance(statement, Directive) and statement.label:
            return "a table of branch targets is in the loop"
    return None
