"""Does a kernel use what nothing wrote: a register, or bytes of shared or local memory?

Registers are followed by the flow graph and by values (`undefined_registers`), memory by the stores
that surely come before (`written_before`). Where nobody declares a block, one is looked for with
which all that is read was written: it is a condition of the verdict then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from ptxsw.correctness.arrays import NO_ACCESS, Arrays, InArray
from ptxsw.correctness.kernel_values import KernelValues
from ptxsw.correctness.reasons import proved_for
from ptxsw.correctness.subject import Subject
from ptxsw.correctness.undefined_registers import unwritten
from ptxsw.correctness.unfollowed import through_calls
from ptxsw.correctness.verdict import Proof, Suspect
from ptxsw.correctness.written_before import WrittenBefore
from ptxsw.emulator.trace import Access
from ptxsw.facts.memory_objects import touched_bytes
from ptxsw.ptx.ir import Special

RULE = "undefined-value"
_SPACES = frozenset({"shared", "local"})
_READING = frozenset({"load", "atomic"})
_SHAPES = ((16, 16, 1), (32, 32, 1), (32, 8, 1), (8, 8, 1), (32, 4, 1), (32, 16, 1))
_ROWS = (1024, 512, 256, 128, 64, 32)

Read = tuple[Access, InArray, int]


def occurs(subject: Subject) -> bool:
    """Every kernel has registers."""
    return bool(subject.cfg.instructions)


def prove(subject: Subject) -> Proof:
    return through_calls(subject, _proof)


def _proof(subject: Subject) -> Proof:
    registers = unwritten(subject, RULE)
    subject.budget.check()
    reads, why = _reads(subject)
    unknown = registers.unknown or why
    values = KernelValues(subject)
    alone = WrittenBefore(subject, values)
    left = [read for read in reads if not alone.by_thread(*read)]
    shared = [read for read in left if read[0].space == "shared"]
    conditions, needs = [registers.condition], frozenset[str]()
    if shared and len(shared) == len(left):
        shape = _shape(subject, shared)
        if shape is not None:
            left, needs = [], frozenset({"divergent-barrier", "warp-mask"})
            conditions.append("" if shape == subject.shape else _in_words(shape))
    suspects = [*registers.open, *(_suspect(subject, access) for access, _, _ in left)]
    unique = {suspect.index: suspect for suspect in suspects}
    condition = " and ".join(filter(None, conditions))
    reason = "proved" if condition else proved_for(subject)
    copies = any(access.instruction.opcode == "cp" for access in subject.trace.accesses)
    if reads and copies:  # they have written once they are waited for
        needs |= {"async-wait"}
    return Proof(tuple(unique.values()), unknown, reason, condition, needs=needs)


def _suspect(subject: Subject, access: Access) -> Suspect:
    line, space = subject.line(access.index), access.space
    block = "" if subject.shape or space == "local" else "; no block is declared"
    return Suspect(
        RULE, access.index,
        why=f"{space} memory read at line {line} was not shown to be written before{block}",
    )  # fmt: skip


def _reads(subject: Subject) -> tuple[list[Read], str]:
    """What is read of arrays in shared and local memory, and what stands in the way."""
    arrays, reads = Arrays(subject), list[Read]()
    for access in subject.trace.accesses:
        matrix = access.instruction.opcode == "ldmatrix"
        if access.space not in _SPACES or not (access.kind in _READING or matrix):
            continue
        if access.instruction.opcode in NO_ACCESS:
            continue
        size, line = touched_bytes(access), subject.line(access.index)
        for view in access.variants:
            for place in arrays.places(view.address, (*view.conditions, view.guard)):
                if place is None or not size:
                    return reads, f"the address at line {line} does not derive from one array"
                reads.append((access, place, size))
    return reads, ""


# ---------------------------------------------------------------- blocks


def _shape(subject: Subject, reads: Sequence[Read]) -> tuple[int, int, int] | None:
    """A block whose threads have written all that is read: the declared one, if there is one."""
    for shape in [subject.shape] if subject.shape is not None else _guessed(subject):
        subject.budget.check()
        tried = subject.with_block(shape)
        written = WrittenBefore(tried, KernelValues(tried))
        declared = shape == subject.shape
        if (declared or written.fits({place.name for _, place, _ in reads})) and all(
            written.by_block(*read) for read in reads
        ):
            return shape
    return None


def _guessed(subject: Subject) -> Iterator[tuple[int, int, int]]:
    """Blocks that a kernel may be made for."""
    most = KernelValues(subject).most_threads
    if any(name in ("%tid.y", "%ntid.y") for name in _specials(subject)):
        yield from (shape for shape in _SHAPES if prod(shape) <= most)
    else:
        yield from ((size, 1, 1) for size in dict.fromkeys((most, *_ROWS)) if size <= most)


def _specials(subject: Subject) -> Iterator[str]:
    for instruction in subject.cfg.instructions:
        for operand in instruction.operands:
            if isinstance(operand, Special):
                yield operand.name


def _in_words(shape: tuple[int, int, int]) -> str:
    return f"the block is {' x '.join(map(str, shape))}"
