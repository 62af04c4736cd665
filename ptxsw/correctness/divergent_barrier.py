"""An aligned barrier that only some threads of a block reach.

    setp.lt.u32 %p1, %tid.x, 16;
    @!%p1 bra OVER;
    bar.sync 0;                   half of the first warp never comes here
    OVER:

Undefined for a warp of which some lanes come, a hang where others wait for those that do not.
`barriers` proves that all threads that live come to the same barriers in the same iterations.
"""

from __future__ import annotations

from ptxsw.correctness import callees
from ptxsw.correctness.barriers import of_block
from ptxsw.correctness.block_roles import roles_of
from ptxsw.correctness.reasons import proved_for, why_not_shared
from ptxsw.correctness.segments import BARRIER
from ptxsw.correctness.subject import Subject
from ptxsw.correctness.verdict import Proof, Suspect

RULE = "divergent-barrier"


def occurs(subject: Subject) -> bool:
    cfg = subject.cfg
    if any(of_block(cfg.instructions[at]) for at in cfg.indices(cfg.order)):
        return True
    return any(True for _ in callees.outside(subject.module, cfg))


def prove(subject: Subject) -> Proof:
    for index, name in callees.outside(subject.module, subject.cfg):
        where = subject.line(index)
        return Proof(unknown=f"line {where} calls {name}, which may have barriers")
    found, roles = subject.barriers, roles_of(subject)
    if roles is not None and roles.problem:
        return Proof(unknown=roles.problem)
    if roles is not None:  # a warp of one goes one way: what is left are those for all
        found = found.less(found.meeting - roles.for_all)
    suspects = tuple(
        Suspect(RULE, _barrier(subject, branch), branch, why=why_not_shared(subject, branch))
        for branch in found.parting
    )
    if suspects:
        return Proof(open=suspects)
    if found.others and roles is None:
        line = subject.line(found.others[0])
        return Proof(unknown=f"who meets at the barrier of some threads at line {line} is unknown")
    return Proof(reason=proved_for(subject))


def _barrier(subject: Subject, branch: int) -> int:
    """A barrier that comes next on some sides of a branch."""
    segments = subject.barriers.segments
    sides = segments.sides(segments.of[branch])
    reached = sorted(at for side in sides for kind, at in side if kind == BARRIER)
    return reached[0] if reached else min(subject.barriers.meeting)
