"""Strong accesses that nothing orders: no race, but what they leave depends on who comes first.

    ld.volatile.shared.f32 %f1, [%r1+64];     the last steps of a tree of partial sums, without
    st.volatile.shared.f32 [%r1], %f2;        `__syncwarp`: right while the lanes run in step

Before sm_70 the lanes of a warp did; since then they go their own ways.
"""

from __future__ import annotations

from ptxsw.correctness.subject import Subject
from ptxsw.correctness.touches import Touch
from ptxsw.correctness.verdict import Fault
from ptxsw.ptx.target import plain_name

INDEPENDENT = 70
"""The first target whose lanes go their own ways."""


def in_step_before(subject: Subject) -> bool:
    """Do the lanes of a warp run in step on all targets that a text names?"""
    names = [name for name in map(plain_name, subject.module.targets) if name is not None]
    return bool(names) and max(int(name[3:]) for name in names) < INDEPENDENT


def decides(one: Touch, two: Touch) -> bool:
    """Does the order of two accesses that do not race decide what they leave? Both are strong, and
    one is a plain write or read: atomic operations of one word come in any order."""
    if not (one.strong and two.strong) or not (one.write or two.write):
        return False
    return any(touch.access.kind != "atomic" for touch in (one, two))


def in_step(subject: Subject, first: int, second: int) -> Fault:
    """Code for targets on which the lanes of a warp run in step, and that needs it."""
    one, two = sorted((first, second))
    lines = f"lines {subject.line(one)} and {subject.line(two)} of the PTX"
    return Fault(
        "data-race", "warning", one,
        f"lanes of a warp exchange data by {lines} without `__syncwarp()`: correct if they run in "
        f"lockstep, as before sm_{INDEPENDENT}, and not since",
        "put `__syncwarp()` between the reads and the writes, or use shuffles",
        two, measure="needs lanes in lockstep", in_step=True,
    )  # fmt: skip
