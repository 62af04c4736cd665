"""How often a warp executes each instruction of machine code, where every loop of the PTX is taken
so many times.

    LOOP: ld.global.f32 %f1, [%rd1];        executed 16 times
          ...                         =>    LDG R2,[R4.64]     four in an unrolled loop and one in
          @%p1 bra LOOP;                    LDG R3,[R4.64+4]   the loop for the rest: each 16 / 5
                                            ...

ptxas unrolls a loop or not, and another text of the kernel may be unrolled another way. So the
loops of the machine code say nothing; the PTX does. A block of PTX of which ptxas made five copies
lends each of them a fifth of its executions. Copies are counted on instructions of which ptxas
makes one each: accesses, barriers, shuffles, floating-point arithmetic.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from ptxsw.codegen.builder import FALLBACKS, is_label_of
from ptxsw.cost.machine_code import MachineInstruction, MachineKernel
from ptxsw.flow.cfg import Cfg
from ptxsw.flow.flow_graph import Block

_DEEPEST: Final = 3  # loops are not multiplied beyond this depth
_ONE_EACH: Final[Mapping[str, tuple[str, ...]]] = {
    "ld": ("LD", "LDG", "LDS", "LDL"),
    "st": ("ST", "STG", "STS", "STL"),
    "atom": ("ATOM", "ATOMG", "ATOMS"),
    "red": ("RED", "REDG", "ATOMS"),
    "bar": ("BAR",),
    "barrier": ("BAR",),
    "shfl": ("SHFL",),
    "add": ("FADD", "DADD"),
    "sub": ("FADD", "DADD"),
    "mul": ("FMUL", "DMUL"),
    "fma": ("FFMA", "DFMA"),
}
_COUNTED: Final = frozenset(root for roots in _ONE_EACH.values() for root in roots)


def executions(code: MachineKernel, cfg: Cfg, trips: float) -> tuple[float, ...]:
    """For each instruction of `code` how often a warp executes it on average; `cfg` is the flow
    graph of the PTX it was made from, and the lines have to be known.

    Code that is reached only where a test of ours fails counts 0, unless ptxas put it under
    predicates beside other code: then it is issued all the same. What ptxas adds counts as the
    block that it stands in, a routine as often as it is called.
    """
    if not code.routines:
        return ()
    scene = _scene(code, cfg, trips)
    counts = [0.0] * len(code.instructions)
    for block in code.routines[0].flow.blocks:
        counts[block.start : block.end] = _of_block(scene, block)
    calls: defaultdict[str, float] = defaultdict(float)
    for instruction, times in zip(code.instructions, counts, strict=True):
        if instruction.root == "CALL":
            calls[instruction.operands.strip("`()")] += times
    for routine in code.routines[1:]:
        for block in routine.flow.blocks:
            counts[block.start : block.end] = [calls[routine.name]] * (block.end - block.start)
    return tuple(counts)


def fallback_blocks(cfg: Cfg) -> frozenset[int]:
    """Blocks of PTX that are reached only where a test of ours fails: the kernel as it was."""
    heads = [
        b.number for b in cfg.blocks if any(is_label_of(label, *FALLBACKS) for label in b.labels)
    ]
    reachable = set(cfg.order)
    return frozenset(
        b.number
        for b in cfg.blocks
        for head in heads
        if {b.number, head} <= reachable and cfg.dominates(head, b.number)
    )


class _Scene(Struct, frozen=True):
    """What is known of the machine code: for each instruction the block of PTX that it is from; for
    each block of machine code the loops around it; for each block of PTX the loops around it, how
    deep its copies stand, and how often one of these is executed. `cold` are blocks of machine code
    for where a test failed."""

    origins: tuple[int | None, ...]
    depths: Mapping[int, int]
    loops: Sequence[int]
    deepest: Mapping[int | None, int]
    times: Mapping[int, float]
    cold: frozenset[int]
    fallback: frozenset[int]
    trips: float


def _scene(code: MachineKernel, cfg: Cfg, trips: float) -> _Scene:
    at = dict[int | None, int]((one.start, number) for number, one in enumerate(cfg.instructions))
    places = [at.get(instruction.ptx) for instruction in code.instructions]
    origins = tuple([None if place is None else cfg.block_of[place] for place in places])
    fallback = fallback_blocks(cfg)
    flow = code.routines[0].flow
    cold = frozenset(
        block.number
        for block in flow.blocks
        if fallback and _is_cold(code.of_block(block), origins[block.start : block.end], fallback)
    )
    depths = {block.number: len(flow.loops_around(block.number)) for block in flow.blocks}
    hot = [block for block in flow.blocks if block.number not in cold]
    deepest: dict[int | None, int] = {}
    for block in hot:
        for origin in {*origins[block.start : block.end]} - {None}:
            deepest[origin] = max(depths[block.number], deepest.get(origin, 0))
    inner = [
        number
        for block in hot
        for number in range(block.start, block.end)
        if deepest.get(origins[number]) == depths[block.number]
    ]
    counted = ((code.instructions[number], places[number]) for number in inner)
    times = _per_copy(cfg, _copies(counted, cfg), trips)
    loops = [len(cfg.loops_around(block.number)) for block in cfg.blocks]
    return _Scene(origins, depths, loops, deepest, times, cold, fallback, trips)


def _is_cold(
    instructions: Sequence[MachineInstruction],
    origins: Sequence[int | None],
    fallback: frozenset[int],
) -> bool:
    """Does a block of machine code hold the way of a failed test alone? Where ptxas makes both
    ways one after the other, their accesses are under predicates."""
    ours = [
        not instruction.predicate
        for instruction, origin in zip(instructions, origins, strict=True)
        if origin in fallback and instruction.width is not None
    ]
    if ours:
        return any(ours)
    cold = [origin in fallback for origin in origins if origin is not None]
    return any(cold) and sum(cold) * 2 > len(cold)


def _copies(counted: Iterable[tuple[MachineInstruction, int | None]], cfg: Cfg) -> dict[int, int]:
    """How many copies ptxas made of each block of PTX, where that shows: from instructions, and the
    places that they are from."""
    counts: Counter[int] = Counter()
    for instruction, place in counted:
        if place is not None and instruction.root in _COUNTED:
            roots = _ONE_EACH.get(cfg.instructions[place].opcode, ())
            counts[place] += instruction.root in roots
    copies: dict[int, int] = {}
    for place, count in counts.items():
        if count:
            block = cfg.block_of[place]
            copies[block] = max(count, copies.get(block, 0))
    return copies


def _per_copy(cfg: Cfg, copies: Mapping[int, int], trips: float) -> dict[int, float]:
    """Executions of one copy of each block of PTX. A block that shows no copies has as many as
    others of its loop."""
    of_loop: dict[int, int] = {}
    for block, count in copies.items():
        if block in cfg.loop_of:
            loop = cfg.loop_of[block]
            of_loop[loop] = max(count, of_loop.get(loop, 1))
    counts: dict[int, float] = {}
    for block in range(len(cfg.blocks)):
        loops = cfg.loops_around(block)
        shown = copies.get(block, of_loop.get(loops[0], 1)) if loops else 1
        counts[block] = trips ** min(len(loops), _DEEPEST) / shown
    return counts


def _of_block(scene: _Scene, block: Block) -> list[float]:
    """Executions of the instructions of one block of machine code. What stands in fewer loops than
    other copies of its block of PTX was moved out of a loop, or is what unrolling leaves over; what
    stands in more loops than its block of PTX, to save a register, is executed as the rest."""
    if block.number in scene.cold:
        return [0.0] * (block.end - block.start)
    depth = scene.depths[block.number]
    origins = scene.origins[block.start : block.end]
    known = {origin: _of_origin(scene, origin, depth) for origin in {*origins}}
    counts = [known[origin] for origin in origins]
    certain = [times for times in counts if times is not None]
    shared = sum(certain) / len(certain) if certain else 1.0
    return [shared if times is None else times for times in counts]


def _of_origin(scene: _Scene, origin: int | None, depth: int) -> float | None:
    """Executions of what is from a block of PTX and stands in so many loops; None where others
    beside it tell."""
    if origin is None or origin in scene.fallback or depth > scene.loops[origin]:
        return None
    return scene.trips**depth if depth < scene.deepest[origin] else scene.times[origin]
