"""Which permutations of shared memory a rewritten text may have made: read off what it computes.

Nothing is judged here. A layout that is read wrongly proves nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import combinations, islice, product

from ptxsw.changes.permutation import ROW, Permutation
from ptxsw.ptx.ir import Function, Instruction, Int, Module, Special, leaves

_MOST = 24
_MOST_SHIFTS = 3


def layouts(module: Module, first: Function, second: Function) -> Iterator[Permutation]:
    """The permutations of which the shifts and masks stand in lines that only the second text
    has, the likeliest first. `module` is that of the second text."""
    if not any(v.space == "shared" for v in (*module.variables, *second.body.variables)):
        return
    added = tuple(_added(first, second))
    shifts = sorted(set(_numbers(added, "shr")))
    masks = sorted({m for op in ("and", "selp") for m in _numbers(added, op) if 0 < m < ROW - 1})
    dynamic = _dynamic(module, second) if _asks_size(added) else ()
    counts = range(min(len(shifts), _MOST_SHIFTS), 0, -1)
    chosen = (some for count in counts for some in combinations(shifts, count))
    yield from islice(_permutations(chosen, masks, dynamic), _MOST)


def _permutations(
    shifts: Iterable[tuple[int, ...]], masks: list[int], dynamic: tuple[str, ...]
) -> Iterator[Permutation]:
    for some, mask in product(shifts, masks):
        try:
            yield Permutation(some, mask, dynamic)
        except ValueError:
            continue  # these numbers make none


def _added(first: Function, second: Function) -> Iterator[Instruction]:
    """The instructions of the second text that the first does not have, or not as often."""
    left = Counter(_key(i) for i in first.body.instructions)
    for instruction in second.body.instructions:
        key = _key(instruction)
        if left[key]:
            left[key] -= 1
        else:
            yield instruction


def _key(instruction: Instruction) -> tuple[object, ...]:
    return instruction.opcode, instruction.modifiers, instruction.operands, instruction.guard


def _numbers(added: Iterable[Instruction], opcode: str) -> Iterator[int]:
    for instruction in added:
        if instruction.opcode == opcode:
            yield from (o.value for o in instruction.operands if isinstance(o, Int))


def _asks_size(added: Iterable[Instruction]) -> bool:
    size = Special("%dynamic_smem_size")
    return any(leaf == size for i in added for leaf in leaves(i.operands))


def _dynamic(module: Module, function: Function) -> tuple[str, ...]:
    declared = (*module.variables, *function.body.variables)
    return tuple(v.name for v in declared if v.space == "shared" and v.is_dynamic)
