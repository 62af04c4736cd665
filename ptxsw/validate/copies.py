"""Places of the second text where the same code follows as at a place of the first.

    first text              second text: the first iteration stands before the loop
    LOOP:                       ld.global.f32 %f1, [%rd1];      LOOP is here
        ld.global.f32 …         @%p1 bra LOOP;
        @%p1 bra LOOP;          bra DONE;
                            LOOP:                               and here

Loops that begin in their middle, or of which an iteration stands before them, have labels where
the first text has none, or elsewhere. Two places are taken for the same if the same opcodes follow
on all ways from there, jumps left out. As all that is guessed about places, a wrong guess makes no
wrong proof.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ptxsw.flow.cfg import Cfg, build, ends_block
from ptxsw.ptx.ir import Body
from ptxsw.validate.edit_map import EditMap
from ptxsw.validate.spelling import refine_together


def with_copies(old: Body, new: Body, edits: EditMap) -> EditMap:
    """A map in which each place of the first text has all places from which the same follows as
    its images, if there are any."""
    texts = _Futures(build(old)), _Futures(build(new))
    refine_together(texts)
    places: dict[int, list[int]] = defaultdict(list)
    for at, colour in enumerate(texts[1].colours()):
        if not _jumps(new, at):
            places[colour].append(at)
    first = texts[0].colours()
    starts = [block.start for block in build(old).blocks if block.start < len(first)]
    found = {p: places[first[p]] for p in starts if places[first[p]]}
    kept = [(p, q) for p, q in edits.places if p not in found]
    pairs = {*kept, *((p, q) for p, qs in found.items() for q in qs)}
    # Where one text only jumps the other may have nothing: both run on to where something is.
    return EditMap(tuple(sorted(pair for pair in pairs if not _jumps(old, pair[0]))))


def _jumps(body: Body, at: int) -> bool:
    """Does nothing stand at a place but a jump to another?"""
    instruction = body.instructions[at] if at < len(body.instructions) else None
    return instruction is not None and instruction.opcode == "bra" and instruction.guard is None


class _Futures:
    """What follows the places of one text, as numbers: after some rounds, two places have one
    number if the same opcodes follow, over that many branches."""

    def __init__(self, cfg: Cfg) -> None:
        self._runs: list[int] = [0] * len(cfg.instructions)
        self._ends: list[int] = [0] * len(cfg.instructions)  # where control may part or end
        self._after: dict[int, Sequence[int]] = {}
        self._end_of: dict[int, tuple[int, int]] = {}
        for block in reversed(cfg.blocks):
            self._block(cfg, block.number)
        self._parting = dict.fromkeys(self._after, 0)

    def _block(self, cfg: Cfg, number: int) -> tuple[int, int]:
        """The number of the run that begins with a block, and where it ends."""
        known = self._end_of.get(number)
        if known is not None:
            return known
        self._end_of[number] = 0, -1  # while it is asked: jumps in a circle lead nowhere
        block = cfg.blocks[number]
        run = block.end - 1
        last = cfg.instructions[run] if block.end > block.start else None
        jumps = last is None or not ends_block(last)
        if last is not None and last.opcode == "bra" and last.guard is None:
            jumps, run = True, run - 1
        if jumps and len(block.successors) == 1:
            colour, end = self._block(cfg, block.successors[0])
        elif jumps or last is None:
            colour, end = 0, -1
        else:
            colour, end = hash((last.opcode, last.guard is None)), block.end - 1
            self._after[end] = self._targets(cfg, number)
            run -= 1
        for at in range(block.end - 1, run, -1):
            self._runs[at], self._ends[at] = colour, end
        for at in range(run, block.start - 1, -1):
            instruction = cfg.instructions[at]
            colour = hash((instruction.opcode, instruction.modifiers, colour))
            self._runs[at], self._ends[at] = colour, end
        self._end_of[number] = colour, end
        return colour, end

    def _targets(self, cfg: Cfg, number: int) -> Sequence[int]:
        """Where control goes: first if the predicate is true."""
        block = cfg.blocks[number]
        starts = [cfg.blocks[n].start for n in (*block.successors, *block.table)]
        guard = cfg.instructions[block.end - 1].guard
        return starts[::-1] if guard is not None and guard.negated else starts

    def _colour(self, at: int) -> int:
        if at >= len(self._runs):
            return 0
        return hash((self._runs[at], self._parting.get(self._ends[at], 0)))

    def refine(self) -> None:
        """Look over one branch more."""
        self._parting = {
            end: hash(tuple(map(self._colour, targets))) for end, targets in self._after.items()
        }

    @property
    def count(self) -> int:
        return len(set(self._parting.values()))

    def colours(self) -> list[int]:
        """The number of each place."""
        return [self._colour(at) for at in range(len(self._runs))]
