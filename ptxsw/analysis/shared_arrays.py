"""The arrays of shared memory that a kernel names, where they are taken to lie, and for blocks of
which shapes accesses are counted."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from ptxsw.analysis.warp_columns import Block
from ptxsw.changes.permutation import ROW
from ptxsw.emulator.trace import Trace
from ptxsw.ptx.ir import Symbol, Variable, leaves
from ptxsw.terms import op
from ptxsw.terms.node import walk


def shared_arrays(trace: Trace) -> tuple[Variable, ...]:
    """The variables in shared memory that the kernel names."""
    declared = (*trace.module.variables, *trace.function.body.variables)
    body = trace.module.source.text[trace.function.body.span.start : trace.function.body.span.end]
    arrays = {(v.name, v.scope): v for v in declared if v.space == "shared" and v.name in body}
    unnamed = set(arrays)
    for instruction in trace.cfg.instructions:
        if not unnamed:
            break
        for leaf in leaves(instruction.operands):
            if isinstance(leaf, Symbol):
                unnamed.discard((leaf.name, leaf.scope))
    return tuple(array for key, array in arrays.items() if key not in unnamed)


def atom(array: Variable) -> str:
    """The name of an array's address among terms."""
    return f"&{array.name}@{array.scope}" if array.scope else f"&{array.name}"


def places(arrays: Sequence[Variable]) -> tuple[dict[str, int], int | None]:
    """Addresses for arrays: whole rows one behind the other, what is dynamic at the end; and where
    shared memory ends, if that is known."""
    offsets: dict[str, int] = {}
    at = 0
    for array in sorted(arrays, key=attrgetter("is_dynamic")):
        offsets[atom(array)] = at
        if not array.is_dynamic:
            at += -(-array.size // ROW) * ROW
    return offsets, None if any(array.is_dynamic for array in arrays) else at


def block_shapes(trace: Trace, asked: Block | None) -> tuple[Block, ...]:
    """The shapes of the block to count with: the one that was given, or common ones."""
    if asked is not None:
        return (asked,)
    shared = (access for access in trace.accesses if access.space == "shared")
    addresses = {variant.address for access in shared for variant in access.variants}
    names = (term.value for term in walk(*addresses) if term.kind is op.ATOM)
    plane = any(name in ("%tid.y", "%tid.z") for name in names)
    for name, text in trace.function.directives:
        if name == "maxntid":
            sizes = [int(part) for part in text.replace(",", " ").split() if part.isdigit()]
            x, y, z = (*sizes, 1, 1, 1)[:3]
            # `.maxntid 256` beside uses of %tid.y is only a limit: the launch has some plane.
            if min(x, y, z) > 0 and (y > 1 or not plane):
                return ((x, y, z),)
    return ((32, 8, 1), (16, 16, 1)) if plane else ((256, 1, 1),)
