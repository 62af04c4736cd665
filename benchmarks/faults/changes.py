"""Small changes to a text that may make a fault: a barrier or a fence less, a store moved over a
barrier, an index that is one too large or too small."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from random import Random

from ptxsw.flow.def_use import defs, uses
from ptxsw.parser import parse
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Function, Instruction, Label, type_width

Way = Callable[[str, Function, Random], tuple[str, int] | None]
"""From a text and its kernel to the new text and the line of the change; None: there is no place
for it."""


def _one(random: Random, instructions: Sequence[Instruction]) -> Instruction | None:
    return random.choice(instructions) if instructions else None


def _is_barrier(instruction: Instruction) -> bool:
    named = instruction.opcode in ("bar", "barrier")
    return named and not {"red", "cluster"} & set(instruction.modifiers)


def _without(text: str, instruction: Instruction) -> str:
    return text[: instruction.start] + text[instruction.end :]


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def barrier_gone(text: str, kernel: Function, random: Random) -> tuple[str, int] | None:
    """Without one barrier of the block or of a warp."""
    one = _one(random, [i for i in kernel.body.instructions if _is_barrier(i)])
    return one and (_without(text, one), _line(text, one.start))


def fence_gone(text: str, kernel: Function, random: Random) -> tuple[str, int] | None:
    """Without one fence."""
    fences = [i for i in kernel.body.instructions if i.opcode in ("membar", "fence")]
    one = _one(random, fences)
    return one and (_without(text, one), _line(text, one.start))


def store_moved(text: str, kernel: Function, random: Random) -> tuple[str, int] | None:
    """A store on the other side of the barrier before or after it."""
    body = kernel.body.instructions
    stores = [n for n, i in enumerate(body) if i.opcode == "st" and isa.space(i) != "param"]
    random.shuffle(stores)
    labels = [s.span.start for s in kernel.body.others if isinstance(s, Label)]
    for number in stores:
        for step in random.sample((1, -1), 2):
            to = _barrier_beside(body, number, step, labels)
            if to is not None:
                store, barrier = body[number], body[to]
                moved = text[store.start : store.end]
                line = _line(text, store.start)
                if step > 0:
                    between = text[store.end : barrier.end]
                    return text[: store.start] + between + "\n\t" + moved + text[
                        barrier.end :
                    ], line
                between = text[barrier.start : store.start]
                return text[: barrier.start] + moved + "\n\t" + between + text[store.end :], line
    return None


def _barrier_beside(
    body: Sequence[Instruction], number: int, step: int, labels: Sequence[int]
) -> int | None:
    """The next barrier of straight code, with nothing on the way that sets what the store reads."""
    read, at = uses(body[number]), number + step
    while 0 <= at < len(body):
        low, high = sorted((body[at].start, body[number].start))
        jumps = body[at].opcode in ("bra", "ret", "exit", "brx", "call")
        if jumps or any(low < label < high for label in labels):
            return None
        if _is_barrier(body[at]):
            return at
        if read & set(defs(body[at])):
            return None
        at += step
    return None


def index_off(text: str, kernel: Function, random: Random) -> tuple[str, int] | None:
    """An access of the element before or after."""
    spaces = ("global", "shared", "local")
    able = [
        i for i in kernel.body.instructions
        if i.opcode in ("ld", "st", "atom", "red") and isa.space(i) in spaces
    ]  # fmt: skip
    one = _one(random, able)
    if one is None:
        return None
    said = text[one.start : one.end]
    place = re.search(r"\[(%?\w+)(?:\+(-?\d+))?\]", said)
    if place is None:
        return None
    offset = int(place[2] or 0) + random.choice((1, -1)) * _bytes(one)
    new = f"[{place[1]}+{offset}]" if offset else f"[{place[1]}]"
    changed = said[: place.start()] + new + said[place.end() :]
    return text[: one.start] + changed + text[one.end :], _line(text, one.start)


def _bytes(instruction: Instruction) -> int:
    count = {"v2": 2, "v4": 4}
    vector = next((count[m] for m in instruction.modifiers if m in count), 1)
    return vector * (type_width(instruction.modifiers[-1]) or 32) // 8


WAYS: Mapping[str, Way] = {
    "barrier gone": barrier_gone,
    "fence gone": fence_gone,
    "store moved": store_moved,
    "index off": index_off,
}


def changed(text: str, way: str, random: Random) -> tuple[str, int] | None:
    """The text of one kernel with a change of a kind, and the line of it."""
    [kernel] = parse(text).kernels
    return WAYS[way](text, kernel, random)
