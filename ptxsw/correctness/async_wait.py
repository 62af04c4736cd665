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

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from msgspec.structs import replace

from ptxsw.analysis.traffic import is_copy
from ptxsw.correctness.async_copy_lifetime import beyond, while_pending
from ptxsw.correctness.data_race import Unordered, answered
from ptxsw.correctness.may_happen_in_parallel import Intervals
from ptxsw.correctness.subject import Subject
from ptxsw.correctness.touches import Touch, conflict, touches
from ptxsw.correctness.verdict import Proof
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Instruction
from ptxsw.ptx.isa import Effect

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
    by_index: dict[int, list[Touch]] = {}
    for touch in touches(subject):
        by_index.setdefault(touch.index, []).append(touch)
    own = answered(subject, _own(subject, copies, by_index))
    others = answered(subject, _others(subject, copies, by_index))
    return Proof(
        tuple(replace(suspect, rule=RULE) for suspect in (*own.open, *others.open)),
        own.unknown or others.unknown,
        condition=" and ".join(dict.fromkeys(filter(None, (own.condition, others.condition)))),
        assumptions=own.assumptions | others.assumptions,
        needs=own.needs | others.needs | {"data-race"},
    )


def _own(
    subject: Subject, copies: Sequence[int], by_index: Mapping[int, Sequence[Touch]]
) -> Iterator[Unordered]:
    """What the thread of a copy touches before it has waited."""
    for copy in copies:
        for at in while_pending(subject.cfg, copy):
            for one, two in product(by_index.get(copy, ()), by_index.get(at.index, ())):
                if conflict(one, two, same_block=True):
                    facts = at.facts(subject.cfg, copy)
                    yield Unordered(one, two, True, facts, same_thread=True)


def _others(
    subject: Subject, copies: Sequence[int], by_index: Mapping[int, Sequence[Touch]]
) -> Iterator[Unordered]:
    """What other threads touch behind a barrier that the thread of a copy passes before it has
    waited."""
    intervals = Intervals(subject.barriers, subject.budget.check)
    for copy in copies:
        for other, facts in beyond(intervals, copy, by_index):
            for one, two in product(by_index.get(copy, ()), by_index[other]):
                if conflict(one, two, same_block=True):
                    yield Unordered(one, two, True, facts)
