"""How often a warp executes each instruction of machine code, by how often it executes the blocks
of the PTX: where every loop is taken so many times, or as a run has counted.

    LOOP: ld.global.f32 %f1, [%rd1];        executed 16 times
          ...                         =>    LDG R2,[R4.64]     four in an unrolled loop and one in
          @%p1 bra LOOP;                    LDG R3,[R4.64+4]   the loop for the rest: each 16 / 5
                                            ...

ptxas unrolls a loop or not, and another text of the kernel may be unrolled another way. So the
loops of the machine code say nothing; the PTX does. A block of PTX of which ptxas made five copies
lends each of them a fifth of its executions. Copies are counted on instructions of which ptxas
makes one each: accesses, barriers and shuffles, and only where a block has none on floating-point
arithmetic, of which it makes a sum here and there again to save a register.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
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
_MADE_AGAIN: Final = frozenset({"add", "sub", "mul", "fma"})
"""What ptxas may make a second time where it is needed again, to save a register."""
_COUNTED: Final = frozenset(root for roots in _ONE_EACH.values() for root in roots)


Placement = Mapping[int, float]
"""Of an instruction of machine code: for blocks of PTX how often it is executed each time that they
are."""


def executions(code: MachineKernel, cfg: Cfg, trips: float) -> tuple[float, ...]:
    """For each instruction of `code` how often a warp executes it on average, where every loop of
    the PTX is taken `trips` times; `cfg` is the flow graph of the PTX it was made from."""
    times = [trips ** min(len(cfg.loops_around(b.number)), _DEEPEST) for b in cfg.blocks]
    return tuple([executed(placement, times) for placement in placements(code, cfg)])


def executed(placement: Placement, times: Sequence[float] | Mapping[int, float]) -> float:
    """How often an instruction is executed, if blocks of PTX are so often."""
    return sum([times[block] * share for block, share in placement.items()])


def placements(
    code: MachineKernel,
    cfg: Cfg,
    offset: Callable[[int], int] = int,
    *,
    fallback: frozenset[int] | None = None,
) -> tuple[Placement, ...]:
    """For each instruction of `code` the blocks of PTX with which it is executed; the lines have to
    be known. `offset` tells where in the text that `code` was made from a place of the text of
    `cfg` is.

    Code of `fallback` (None: that is reached only where a test of ours fails) counts 0, unless
    ptxas put it under predicates beside other code: then it is issued all the same. What ptxas
    moved out of a loop goes with the block before that. What ptxas adds counts as the block that it
    stands in, a routine as often as it is called.
    """
    if not code.routines:
        return ()
    scene = _scene(code, cfg, offset, fallback_blocks(cfg) if fallback is None else fallback)
    places: list[Placement] = [{}] * len(code.instructions)
    for block in code.routines[0].flow.blocks:
        places[block.start : block.end] = _of_block(scene, block)
    calls: defaultdict[str, list[Placement]] = defaultdict(list)
    for instruction, placement in zip(code.instructions, places, strict=True):
        if instruction.root == "CALL":
            calls[instruction.operands.strip("`()")].append(placement)
    for routine in code.routines[1:]:
        called = _sum(calls[routine.name])
        for block in routine.flow.blocks:
            places[block.start : block.end] = [called] * (block.end - block.start)
    return tuple(places)


def _sum(placements: Iterable[Placement], scale: float = 1.0) -> Placement:
    total: defaultdict[int, float] = defaultdict(float)
    for placement in placements:
        for block, share in placement.items():
            total[block] += share * scale
    return total


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
    each block of machine code the loops around it; for each block of PTX how deep its copies stand,
    and how many there are. `cold` are blocks of machine code for where a test failed."""

    cfg: Cfg
    origins: tuple[int | None, ...]
    depths: Mapping[int, int]
    deepest: Mapping[int | None, int]
    copies: Mapping[int, int]
    cold: frozenset[int]
    fallback: frozenset[int]


def _scene(
    code: MachineKernel, cfg: Cfg, offset: Callable[[int], int], fallback: frozenset[int]
) -> _Scene:
    starts = (offset(one.start) for one in cfg.instructions)
    at = dict[int | None, int](zip(starts, range(len(cfg.instructions)), strict=True))
    places = [at.get(instruction.ptx) for instruction in code.instructions]
    origins = tuple([None if place is None else cfg.block_of[place] for place in places])
    flow = code.routines[0].flow
    cold = _cold_blocks(code, places, origins, fallback) if fallback else frozenset[int]()
    depths = {block.number: len(flow.loops_around(block.number)) for block in flow.blocks}
    loops = [len(cfg.loops_around(block.number)) for block in cfg.blocks]
    hot = [block for block in flow.blocks if block.number not in cold]
    deepest: dict[int | None, int] = {}
    for block in hot:
        for origin in {*origins[block.start : block.end]} - {None}:
            # A loop that the PTX does not have, as that of a divergent shuffle, is none of these.
            depth = min(depths[block.number], loops[origin or 0])
            deepest[origin] = max(depth, deepest.get(origin, 0))
    inner = [
        number
        for block in hot
        for number in range(block.start, block.end)
        if deepest.get(origins[number], inf) <= depths[block.number]
    ]
    counted = ((code.instructions[number], places[number]) for number in inner)
    copies = _of_all_blocks(cfg, _copies(counted, cfg))
    return _Scene(cfg, origins, depths, deepest, copies, cold, fallback)


def _cold_blocks(
    code: MachineKernel,
    places: Sequence[int | None],
    origins: Sequence[int | None],
    fallback: frozenset[int],
) -> frozenset[int]:
    """The blocks of machine code that hold the way of a failed test alone. Where ptxas makes both
    ways one after the other, their accesses are under predicates, or serve both ways. An access of
    other code that is made in no other block shows that all come by."""
    blocks = code.routines[0].flow.blocks
    within = Counter(place for b in blocks for place in {*places[b.start : b.end]})
    cold = set()
    for block in blocks:
        inside = range(block.start, block.end)
        known = [(origins[n] in fallback, n) for n in inside if origins[n] is not None]
        accesses = [(ours, n) for ours, n in known if code.instructions[n].width is not None]
        if any(ours for ours, _ in accesses):
            sure = [(ours, n) for ours, n in accesses if not code.instructions[n].predicate]
            is_cold = any(ours for ours, _ in sure) and not any(
                within[places[n]] == 1 for ours, n in sure if not ours
            )
        else:
            is_cold = sum(ours for ours, _ in known) * 2 > len(known)
        if is_cold:
            cold.add(block.number)
    return frozenset(cold)


def _copies(counted: Iterable[tuple[MachineInstruction, int | None]], cfg: Cfg) -> dict[int, int]:
    """How many copies ptxas made of each block of PTX, where that shows: from instructions, and the
    places that they are from."""
    counts: Counter[int] = Counter()
    for instruction, place in counted:
        if place is not None and instruction.root in _COUNTED:
            roots = _ONE_EACH.get(cfg.instructions[place].opcode, ())
            counts[place] += instruction.root in roots
    sure: defaultdict[int, list[int]] = defaultdict(list)
    others: defaultdict[int, list[int]] = defaultdict(list)
    for place, count in counts.items():
        if count:
            again = cfg.instructions[place].opcode in _MADE_AGAIN
            (others if again else sure)[cfg.block_of[place]].append(count)
    most = {block: _most_frequent(shown) for block, shown in others.items()}
    return most | {block: max(shown) for block, shown in sure.items()}


def _most_frequent(counts: Sequence[int]) -> int:
    """The count that most of them are; of several the largest."""
    times = Counter(counts)
    return max(times, key=lambda count: (times[count], count))


def _of_all_blocks(cfg: Cfg, copies: Mapping[int, int]) -> dict[int, int]:
    """The copies of each block of PTX. One that shows none has as many as others of its loop."""
    of_loop: dict[int, int] = {}
    for block, count in copies.items():
        if block in cfg.loop_of:
            loop = cfg.loop_of[block]
            of_loop[loop] = max(count, of_loop.get(loop, 1))
    loops = {block: cfg.loops_around(block) for block in range(len(cfg.blocks))}
    return {
        block: copies.get(block, of_loop.get(around[0], 1)) if around else 1
        for block, around in loops.items()
    }


def _of_block(scene: _Scene, block: Block) -> list[Placement]:
    """Where the instructions of one block of machine code belong. What stands in fewer loops than
    other copies of its block of PTX was moved out of a loop, or is what unrolling leaves over; what
    stands in more loops than its block of PTX, to save a register, is executed as the rest."""
    if block.number in scene.cold:
        return [{}] * (block.end - block.start)
    depth = scene.depths[block.number]
    origins = scene.origins[block.start : block.end]
    known = {origin: _of_origin(scene, origin, depth) for origin in {*origins}}
    places = [known[origin] for origin in origins]
    certain = [placement for placement in places if placement is not None]
    shared: Placement = _sum(certain, 1 / len(certain)) if certain else {scene.cfg.order[0]: 1.0}
    return [shared if placement is None else placement for placement in places]


def _of_origin(scene: _Scene, origin: int | None, depth: int) -> Placement | None:
    """Of what is from a block of PTX and stands in so many loops; None where others beside it
    tell."""
    if origin is None or origin in scene.fallback:
        return None
    loops = scene.cfg.loops_around(origin)
    if depth > len(loops):
        return None
    if depth == scene.deepest[origin]:
        return {origin: 1 / scene.copies[origin]}
    left = loops[len(loops) - 1 - depth]  # the outermost loop that it no longer stands in
    return {scene.cfg.idom[left]: 1.0}
