"""What `cp.async` copies is there once the thread that copies has waited for it (PTX ISA 9.7.9.25):
until then nobody may use its destination, nor write its source.

    cp.async.ca.shared.global [%r1], [%rd1], 4;
    cp.async.commit_group;
    ld.shared.f32 %f1, [%r1];           before `cp.async.wait_group 0`: whatever was there

The thread itself is followed from each copy along all paths to the waits that cover it. Others must
leave the bytes alone behind each barrier that the thread passes meanwhile. What they do before the
next one is a question of order, as for any access: `data-race` answers it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from msgspec.structs import replace

from ptxsw.analysis.traffic import is_copy
from ptxsw.correctness.data_race import Unordered, answered
from ptxsw.correctness.intervals import AHEAD, Intervals
from ptxsw.correctness.lasting import beyond, while_pending
from ptxsw.correctness.subject import Subject
from ptxsw.correctness.touches import Touch, conflict, touches
from ptxsw.correctness.verdict import Assumption, Proof, Suspect
from ptxsw.emulator.memory import Aliasing
from ptxsw.emulator.trace import Access
from ptxsw.facts.memory_objects import touched_bytes
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Instruction
from ptxsw.ptx.isa import Effect
from ptxsw.report.reuse import Stable
from ptxsw.terms import op
from ptxsw.terms.node import Term, split, unknowns
from ptxsw.terms.origin import Origin
from ptxsw.terms.substitution import substitute

RULE = "async-wait"


def occurs(subject: Subject) -> bool:
    return any(map(_is_asynchronous, subject.cfg.instructions))


def _is_asynchronous(instruction: Instruction) -> bool:
    effects = isa.effects(instruction.opcode, instruction.modifiers)
    return bool(effects & Effect.ASYNC) and bool(effects & (Effect.READ | Effect.WRITE))


def prove(subject: Subject) -> Proof:
    cfg = subject.cfg
    for index, one in enumerate(cfg.instructions):
        if _is_asynchronous(one) and not is_copy(one):
            return Proof(unknown=f"{one.name} at line {subject.line(index)} is not followed")
    copies = [index for index, one in enumerate(cfg.instructions) if is_copy(one)]
    accesses = {access.index: access for access in subject.trace.accesses}
    open_ = []
    for copy in copies:
        for index, rounds in while_pending(cfg, copy):
            if index in accesses and not _misses(subject, accesses[copy], accesses[index], rounds):
                line = subject.line(index)
                why = f"line {line} may touch what line {subject.line(copy)} copies"
                open_.append(Suspect(RULE, index, copy, why=why))
    others = _others(subject, copies)
    return replace(
        others,
        open=(*open_, *(replace(suspect, rule=RULE) for suspect in others.open)),
        assumptions=others.assumptions | {Assumption.NO_ALIAS},
        needs=others.needs | {"data-race"},
        reason="",
    )


def _others(subject: Subject, copies: Sequence[int]) -> Proof:
    """May another thread touch what a copy touches, behind a barrier that its thread passes before
    it has waited?"""
    by_index: dict[int, list[Touch]] = {}
    for touch in touches(subject):
        by_index.setdefault(touch.index, []).append(touch)
    intervals = Intervals(subject.barriers, subject.budget.check)

    def pairs() -> Iterator[Unordered]:
        for copy in copies:
            for other, counters in beyond(intervals, copy, by_index):
                for one, two in product(by_index.get(copy, ()), by_index[other]):
                    if conflict(one, two, same_block=True):
                        facts = tuple((AHEAD, header, count) for header, count in counters)
                        yield Unordered(one, two, True, facts)

    return answered(subject, pairs())


def _misses(subject: Subject, copy: Access, other: Access, rounds: int | None) -> bool:
    """Does an access, so many rounds later, leave the bytes alone that the same thread copies, and
    those from where?"""
    if other.space in ("shared", "generic") and not _apart(subject, copy, other, rounds, False):
        return False
    writes = other.kind != "load" and not is_copy(other.instruction)
    if writes and other.space in ("global", "generic"):
        return _apart(subject, copy, other, rounds, True)
    return True


def _apart(subject: Subject, copy: Access, other: Access, rounds: int | None, source: bool) -> bool:
    terms = subject.trace.terms
    aliasing = Aliasing(terms)
    if source and _other_array(subject, copy, other):
        return True
    copied, touched = touched_bytes(copy), touched_bytes(other)
    if not (copied and touched):
        return False
    for one in copy.variants:
        at = one.copied if source else one.address
        for two in other.variants:
            if at is None or at.width != two.address.width:
                return False
            later = _later(subject, copy.index, two.address, rounds)
            distance = terms.sub(two.address if later is None else later, at)
            claim = aliasing.apart(distance, copied, touched)
            if later is None and distance.kind is not op.CONST:
                return False
            given = (*one.conditions, *(two.conditions if rounds == 0 else ()))
            if claim.kind is op.CONST:
                if not claim.value:
                    return False
            elif not subject.solver.proves(claim, given):
                return False
    return True


def _other_array(subject: Subject, copy: Access, other: Access) -> bool:
    """Is another pointer written through than the one that is copied from?"""
    sources = {_pointer(view.copied) for view in copy.variants if view.copied is not None}
    written = {_pointer(view.address) for view in other.variants}
    apart = None not in sources | written and sources.isdisjoint(written)
    return apart and subject.assumes(Assumption.NO_ALIAS)


def _pointer(address: Term) -> Term | None:
    """The one parameter of 64 bits that stands unscaled in an address."""
    pointers = [
        term
        for term, factor in split(address)[1]
        if factor == 1 and term.width == 64 and term.origin is Origin.PARAMETER
    ]
    return pointers[0] if len(pointers) == 1 else None


def _later(subject: Subject, copy: int, address: Term, rounds: int | None) -> Term | None:
    """An address as it is so many rounds of the innermost loop around a copy later; None where that
    is not known."""
    cfg, terms = subject.cfg, subject.trace.terms
    header = cfg.loop_of.get(cfg.block_of[copy])
    if rounds == 0:
        return address
    if rounds is None or header is None:
        return None
    stable, own = Stable(subject.trace, header), (cfg.name(header),)

    def counts(node: Term) -> bool:
        return node.origin is Origin.ITERATION and node.of == own

    def leaf(node: Term) -> Term | None:
        return terms.add(node, terms.const(rounds, node.width)) if counts(node) else None

    if not all(counts(node) or stable.holds(node) for node in unknowns(address)):
        return None

    return substitute(terms, address, leaf)
