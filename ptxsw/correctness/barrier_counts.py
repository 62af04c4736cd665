"""Who comes to the barriers of a kernel, by number and count, as far as places in the block tell.

bar.sync 1, 64;          behind `@%p1 bra`, where %p1 is `%tid.x < 64`: the first two warps
bar.arrive %r1, 96;      %r1 is `1 + %tid.x / 64`: threads 0 to 63 at 1, others at 2
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from ptxsw.analysis.coalescing import LANES
from ptxsw.correctness.path_conditions import Ways
from ptxsw.correctness.subject import Subject
from ptxsw.facts.thread_columns import BlockColumns
from ptxsw.ptx.ir import Instruction, Int, Operand
from ptxsw.terms import op
from ptxsw.terms.node import Term, unknowns
from ptxsw.terms.substitution import substitute


class Coming(Struct, frozen=True):
    """A barrier: for each thread its number there, None where it does not come; how many it waits
    for, None for all that live; and whether who comes waits."""

    numbers: tuple[int | None, ...]
    count: int | None
    waits: bool


class BarrierRole(Struct, frozen=True):
    """Threads that come to the same barriers. `numbers` are those of the barriers there, by
    instruction."""

    threads: frozenset[int]
    numbers: dict[int, int]


def columns_of(subject: Subject) -> BlockColumns | None:
    """The threads of the block; None where they are not known."""
    return BlockColumns.of(subject.trace.terms, subject.two_threads.dimensions)


def needed(subject: Subject, place: int) -> list[Term]:
    """What holds for every thread that comes to an instruction."""
    return [subject.two_threads.views.own(c) for c in Ways(subject).needed(place)]


def coming_to(subject: Subject, columns: BlockColumns, at: int) -> Coming | None:
    """Who comes to a barrier; None where places in the block do not tell, or lanes of a warp come
    to barriers of several numbers."""
    instruction = subject.cfg.instructions[at]
    operands = operands_of(instruction)
    comes = columns.taking(needed(subject, at))
    found: list[Sequence[int]] = []
    for place, operand in enumerate(operands):
        value = number_read(subject, at, place, operand)
        told = value is not None and columns.is_told(value)
        if value is None or not told:
            return None
        found.append(columns.of_each(value))
    if not found or len({*found[1]} if len(found) > 1 else {0}) > 1:
        return None
    count = found[1][0] if len(found) > 1 else None
    numbers = tuple(n if here else None for n, here in zip(found[0], comes, strict=True))
    warps = (found[0][at : at + LANES] for at in range(0, len(numbers), LANES))
    if any(len({*warp}) > 1 for warp in warps):
        return None
    return Coming(numbers, count, "arrive" not in instruction.modifiers)


def operands_of(instruction: Instruction) -> Sequence[Operand]:
    """The number of a barrier, and how many it waits for."""
    operands = instruction.operands
    return operands[1:-1] if "red" in instruction.modifiers else operands


def number_read(subject: Subject, at: int, place: int, operand: Operand) -> Term | None:
    """What an operand is, on all paths."""
    terms = subject.trace.terms
    if isinstance(operand, Int):
        return terms.const(int(operand.value), 32)
    read = {one.values[place] for one in subject.trace.operands.get(at, ())}
    value = read.pop() if len(read) == 1 else None
    return subject.two_threads.views.own(value) if isinstance(value, Term) else None


def are_whole(coming: dict[int, Coming]) -> bool:
    """Does each barrier wait for all that come to it, once each?"""
    threads: dict[int, set[int]] = {}
    counts: dict[int, set[int | None]] = {}
    for one in coming.values():
        for thread, number in enumerate(one.numbers):
            if number is not None:
                threads.setdefault(number, set()).add(thread)
                counts.setdefault(number, set()).add(one.count)
    return all(
        known in ({None}, {len(threads[number])}) for number, known in counts.items()
    ) and all(one.waits or one.count is not None for one in coming.values())


def by_barriers(coming: dict[int, Coming]) -> tuple[BarrierRole, ...]:
    """The threads of a block by the barriers that they come to."""
    by_numbers: dict[tuple[int | None, ...], set[int]] = {}
    columns = [one.numbers for one in coming.values()]
    for thread, numbers in enumerate(zip(*columns, strict=True)):
        by_numbers.setdefault(numbers, set()).add(thread)
    return tuple(
        BarrierRole(frozenset(threads), {
            at: number for at, number in zip(coming, numbers, strict=True) if number is not None
        })
        for numbers, threads in by_numbers.items()
    )  # fmt: skip


def by_turns(
    subject: Subject, loops: Iterable[int], branch: int
) -> Iterator[tuple[int, bool | None, bool | None]]:
    """By the header of a loop whether a branch is taken in its first iteration, and in all
    later ones; None where that varies."""
    trace, terms = subject.trace, subject.trace.terms
    values = {v for d in trace.decisions.get(branch, ()) for v in d.values}
    value = values.pop() if len(values) == 1 else None
    if not isinstance(value, Term) or value.width != 1:
        return
    for header in loops:
        facts = trace.loop_facts.get(header)
        count = None if facts is None else terms.iteration(facts.label)
        if count is None or set(unknowns(value)) != {count}:
            continue
        first = substitute(terms, value, {count: terms.const(0, count.width)}.get)
        given = (
            terms.ule(terms.const(1, count.width), count),
            terms.ult(count, terms.const(1 << 31, count.width)),
        )
        later = [
            truth for truth in (True, False)
            if subject.solver.proves(value if truth else terms.not_(value), given)
        ]  # fmt: skip
        yield (
            header,
            bool(first.value) if first.kind is op.CONST else None,
            later[0] if later else None,
        )
