"""Load elimination: a load of bytes that this thread has loaded already becomes a copy.

ld.global.f32 %f1, [%rd4];            ld.global.f32 %f1, [%rd4];
add.f32 %f2, %f1, %f9;         =>     add.f32 %f2, %f1, %f9;
ld.global.f32 %f3, [%rd5+-8];         mov.b32 %f3, %f1;         // %rd5 is %rd4 + 8

So does a load of bytes that this thread has stored, and, where a test finds at the kernel's entry
that no store of the kernel meets them, a load behind stores through other pointers:

ld.global.f32 %f1, [%rd4];            ld.global.f32 %f1, [%rd4];
                                      mov.b32 %sw_held1, %f1;
st.global.f32 [%rd5], %f2;     =>     st.global.f32 [%rd5], %f2;
ld.global.f32 %f3, [%rd4];            mov.b32 %f3, %sw_held1;
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from ptxsw.changes.change import Change, Refusal
from ptxsw.changes.plan import ServedLoad
from ptxsw.codegen.builder import Builder
from ptxsw.codegen.lower_load_elimination import (
    JoinedLoad,
    KeptValue,
    LoadBeforeBranch,
    lower,
    lower_hoisted,
    lower_joins,
)
from ptxsw.codegen.splice import Edit
from ptxsw.rewrites import joint
from ptxsw.rewrites.base import LOAD_ELIMINATION, Choice, Kernel, Outcome, leads


class LoadElimination:
    """See above. Plain repeats are planned together with the others of `TOGETHER`. Whoever
    asks for a scheme or a form asks for these alone."""

    name: ClassVar[str] = LOAD_ELIMINATION
    summary: ClassVar[str] = (
        "A load of bytes that the thread already has in a register becomes a copy."
    )

    def find(self, kernel: Kernel) -> Iterator[Outcome]:
        """Changes, refusals, and the choice between schemes and forms."""
        # Three searches may have a result for one load, but it is reported once. A value kept over
        # stores wins over the plan, and the plan over a join. A change always wins over a refusal;
        # of several refusals that of a join comes first, then that of a value kept over stores.
        options = kernel.options
        if (options.scheme, options.form) != ("auto", "auto"):
            yield from joint.find(kernel) if leads(self.name, kernel) else ()
            return
        from ptxsw.rewrites.access_groups import AccessGroups
        from ptxsw.rewrites.available_loads import available_loads
        from ptxsw.rewrites.hoisted_loads import hoisted_loads
        from ptxsw.rewrites.partial_loads import joined_loads

        groups = AccessGroups(kernel)
        kept: list[Change | Refusal] = list(available_loads(kernel, groups))
        planned = list(joint.find(kernel)) if leads(self.name, kernel) else []
        served = {one.at for one in (*kept, *planned) if isinstance(one, Change)}
        joined = list(joined_loads(kernel, groups, frozenset(served)))
        at_joins = {one.at for one in joined}
        kept = [*(one for one in kept if one.at not in at_joins), *joined]
        # A load that stands for others stays where it is.
        changes = [one for one in (*kept, *planned) if isinstance(one, Change)]
        used = frozenset(at for change in changes for at in _used(change))
        before = list(hoisted_loads(kernel, groups, used))
        moved = {at for one in before if isinstance(one, Change) for at in one.replaces}
        kept = [*(one for one in kept if one.at not in moved), *before]
        served = {one.at for one in kept if isinstance(one, Change)}
        copied = {one.at for one in planned if isinstance(one, Change)} - served
        told = ({one.at for one in kept} | moved) - copied
        yield from (one for one in kept if one.at not in copied)
        yield from (one for one in planned if isinstance(one, Choice) or one.at not in told)

    def nothing(self, kernel: Kernel) -> str:
        """See `OwnSearch`."""
        return "no load reads bytes that this thread has loaded or stored before"

    def lower(self, kernel: Kernel, changes: Sequence[Change]) -> tuple[Edit, ...]:
        """The edits that make the changes."""
        early = [c.detail for c in changes if isinstance(c.detail, LoadBeforeBranch)]
        kept = [c.detail for c in changes if isinstance(c.detail, KeptValue)]
        joined = [c.detail for c in changes if isinstance(c.detail, JoinedLoad)]
        own = KeptValue | JoinedLoad | LoadBeforeBranch
        planned = [c for c in changes if not isinstance(c.detail, own)]
        builder = Builder(kernel.text, kernel.function, kernel.trace.cfg.instructions)
        lower_hoisted(builder, kernel.text, kernel.function, early)
        lower_joins(builder, kernel.text, joined)
        lower(builder, kernel.text, kept)
        return (*(joint.lower(kernel, planned) if planned else ()), *builder.edits())


def _used(change: Change) -> Iterator[int]:
    """The accesses that a change replaces, or takes values from."""
    yield from change.replaces
    if isinstance(change.detail, JoinedLoad):
        yield from change.detail.sources
    elif isinstance(change.detail, ServedLoad):
        yield from (part.source for part in change.detail.parts)
    elif change.source is not None:
        yield change.source
