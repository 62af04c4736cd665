"""More places that correspond: where ways of the second text alone meet again, inside a block of
the first.

A test that the second text makes for one instruction doubles the paths of the block around it, so
ten such tests make a thousand. Where the ways behind a test have met, and no register of the second
text alone is needed any more, both texts stand behind the same instruction. Which one that is, is
told by what the instructions around it write.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from difflib import SequenceMatcher

from ptxsw.flow.cfg import Cfg, build, ends_block
from ptxsw.flow.dataflow import live_at, liveness
from ptxsw.ptx.ir import Body, Reg
from ptxsw.validate.edit_map import EditMap, Pair


def finer(old: Body, new: Body, edits: EditMap) -> EditMap | None:
    """A map with such places, too; None where there are none."""
    first, second = build(old), build(new)
    named = frozenset(reg for regs in (*first.written, *first.read) for reg in regs)
    begins = sorted({q for _, q in edits.places} | {0, len(second.instructions)})
    places: set[Pair] = set()
    for block in first.blocks:
        images = edits.images.get(block.start, frozenset({0} if block.start == 0 else ()))
        for image in images:
            end = next((q for q in begins if q > image), image)
            pairs = _met(first, range(block.start, block.end), second, range(image, end), named)
            places.update(pairs)
    return EditMap(edits.places, tuple(sorted(places))) if places else None


def _met(first: Cfg, old: range, second: Cfg, new: range, named: frozenset[Reg]) -> Iterator[Pair]:
    """The places in part of the second text, which stands for a block of the first."""
    joins = [
        block.start
        for block in second.blocks
        if block.start in new and len(second.predecessors[block.number]) > 1
    ]
    if not joins or joins == [new.start]:
        return
    keys = [(at, key) for at in new if (key := _key(second, at, named)) is not None]
    before = {new.start - 1: old.start}  # behind which of the first text's instructions each is
    matcher = SequenceMatcher(
        None, [_key(first, at, named) for at in old], [key for _, key in keys], autojunk=False
    )
    for a, b, size in matcher.get_matching_blocks():
        before |= {keys[b + n][0]: old.start + a + n + 1 for n in range(size)}
    nothing: frozenset[Reg] = frozenset()
    told = liveness(second)

    def live(number: int) -> frozenset[Reg]:
        return told.get(number, nothing)

    for join in joins:
        place = join
        while place in new and not live_at(second, live, place) <= named:
            if ends_block(second.instructions[place]):
                break
            place += 1
        else:
            at = before[max(b for b in before if b < place)]
            if place in new and at in old and at > old.start:
                yield at, place


def _key(cfg: Cfg, at: int, named: frozenset[Reg]) -> Hashable:
    """By what an instruction is known in both texts: the registers that it writes, of those that
    both have, or all of it, if it writes none; None for one of the second text's own."""
    written = cfg.written[at]
    own = tuple(reg for reg in written if reg in named)
    instruction = cfg.instructions[at]
    if own or not written:
        return own or (instruction.opcode, instruction.modifiers, instruction.operands)
    return None
