"""A barrier that keeps no two accesses apart which the other barriers do not.

    st.shared.f32 [%r1], %f1;
    bar.sync 0;                   this one, or the next
    bar.sync 0;
    ld.shared.f32 %f2, [%r2];

The kernel is looked at without the barrier: whatever is unordered then, and was not before, must
touch no common byte. That holds for strong accesses, too, but for sums and the like that nobody
reads. Where releases, or copies on their way, may depend on barriers, none is called redundant. A
barrier is needed if accesses meet without it that had no byte in common before, or if a launch
races without it that did not. It is a note: each barrier alone, of two that do the work of one. The
copies that a compiler made of a barrier, as of a loop that it unrolled, are one: nobody can take
out the last of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxsw.correctness import data_race
from ptxsw.correctness.data_race import Unordered, meeting, within
from ptxsw.correctness.reasons import proved_for
from ptxsw.correctness.subject import Subject
from ptxsw.correctness.touches import Touch, touches
from ptxsw.correctness.verdict import Fault, Proof
from ptxsw.facts.two_threads import Apart, Meet
from ptxsw.ptx import isa
from ptxsw.report.source_places import SourcePlace

if TYPE_CHECKING:
    from ptxsw.correctness.barrier_removal import Runs

RULE = "redundant-barrier"
_WHAT = "Without this barrier, the kernel is still free of races."
_ADVICE = "Remove it, or accept its cost: it orders nothing that other barriers do not."
_RELEASING = frozenset({"release", "acquire", "acq_rel", "sc", "volatile", "mmio"})
_MOST_BARRIERS = 24


def occurs(subject: Subject) -> bool:
    return bool(subject.barriers.meeting)


def prove(subject: Subject) -> Proof:
    barriers = subject.barriers
    if len(barriers.meeting) > _MOST_BARRIERS:
        return Proof(unknown="there are too many barriers")
    needs, why = _leaning(subject)
    faults: list[Fault] = []
    unknown = ""
    found = touches(subject)
    before = set(within(subject, found, barriers, _order_matters))
    runs: Runs | None = None
    for copies in _of_one_place(subject):
        answer = _keeps(subject, copies, found, before)
        if answer is None or (why and not answer):
            runs = runs or _runs(subject)
            answer = runs.race_without(copies) or answer
        if answer is False and not why:
            faults.append(Fault(RULE, "note", copies[0], _WHAT, _ADVICE))
        elif not answer:
            line = subject.line(copies[0])
            unknown = why or f"what the barrier at line {line} separates is unknown"
    reason = f"each separates accesses, {proved_for(subject)}"
    needs = needs if faults else frozenset({"divergent-barrier"})
    return Proof((), "" if faults else unknown, reason, needs=needs, faults=tuple(faults))


def _runs(subject: Subject) -> Runs:
    from ptxsw.correctness.barrier_removal import Runs  # with numpy

    return Runs(subject)


def _leaning(subject: Subject) -> tuple[frozenset[str], str]:
    """On which rules it stands that a barrier is redundant, and why that cannot be said."""
    needs = frozenset({"data-race", "divergent-barrier"})
    if data_race.occurs(subject):
        races = data_race.prove(subject)
        if races.open or races.unknown:
            return needs, "whether there are data races is unknown"
        needs |= races.needs
    return needs, _depends(subject)


def _of_one_place(subject: Subject) -> list[list[int]]:
    """The barriers of a kernel, those together that are from one place of its source, or of its
    text, in a function that is called several times."""
    copies: dict[SourcePlace | int, list[int]] = {}
    for barrier in sorted(subject.barriers.meeting):
        place = subject.places.get(barrier, subject.cfg.instructions[barrier].start)
        copies.setdefault(place, []).append(barrier)
    return list(copies.values())


def _keeps(
    subject: Subject, copies: list[int], found: tuple[Touch, ...], before: set[Unordered]
) -> bool | None:
    """Do barriers keep two accesses apart that would touch a byte, or tell something? None
    where that is not known."""
    if any("red" in subject.cfg.instructions[barrier].modifiers for barrier in copies):
        return True
    left = subject.barriers.less(copies)
    if left.parting:
        return None
    known: bool | None = False
    for pair in within(subject, found, left, _order_matters):
        subject.budget.check()
        if pair in before:
            continue
        answer = subject.two_threads.ask(meeting(subject, pair))
        if isinstance(answer, Meet) and answer.certain and _was_apart(subject, pair, before):
            return True
        if not isinstance(answer, Apart) or answer.conditions:
            known = None
    return known


def _was_apart(subject: Subject, pair: Unordered, before: set[Unordered]) -> bool:
    """Did two touches have no byte in common wherever nothing ordered them before?"""
    same = (b for b in before if (b.first, b.second) == (pair.first, pair.second))
    return all(isinstance(subject.two_threads.ask(meeting(subject, b)), Apart) for b in same)


def _order_matters(a: Touch, b: Touch) -> bool:
    """Does it matter which of two accesses of a byte comes first?"""
    if a.commutes and b.commutes:
        return a.access.instruction.name != b.access.instruction.name
    return a.write or b.write


def _depends(subject: Subject) -> str:
    """What may depend on barriers beyond the accesses of a block."""
    for index in subject.cfg.indices(subject.cfg.order):
        instruction = subject.cfg.instructions[index]
        releases = isa.has(instruction, isa.Trait.FENCE) or _RELEASING & {*instruction.modifiers}
        if releases or (instruction.opcode == "cp" and "async" in instruction.modifiers):
            return f"{instruction.name} at line {subject.line(index)} may depend on barriers"
    return ""
