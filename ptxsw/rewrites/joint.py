"""Load elimination, uniform loops and shuffles are planned together: a shuffle may need its loop to
be uniform, and a row of loads takes copies and shuffles alike. The last of them that is considered
plans for all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from ptxsw.analysis.lane_reuse import global_loads
from ptxsw.changes.change import Change, Refusal
from ptxsw.changes.plan import Plan, Proof
from ptxsw.codegen.lower_load_elimination import JoinedLoad, KeptValue
from ptxsw.codegen.lower_shuffle import lower as _lower
from ptxsw.codegen.splice import Edit
from ptxsw.codegen.version_region import as_written
from ptxsw.rewrites.base import Attempt, Kernel, Outcome
from ptxsw.rewrites.jointly_planned import (
    LOAD_ELIMINATION,
    SHUFFLE,
    TOGETHER,
    UNIFORM_LOOPS,
    RefusedSource,
)
from ptxsw.rewrites.planning import PlanDecision, decide
from ptxsw.shuffle.candidate_plan import RefusedLoad
from ptxsw.shuffle.legality import Legality


def is_planned(attempt: Attempt) -> bool:
    """Do all changes of the attempt belong to the joint plan?"""
    alone = any(isinstance(change.detail, KeptValue | JoinedLoad) for change in attempt.changes)
    return attempt.rewrite in TOGETHER and not alone


def find(kernel: Kernel) -> Iterator[Outcome]:
    """The changes of all of these rewrites that are considered."""
    if kernel.trace.statistics.timed_out:
        reason = f"the symbolic run took more than {kernel.options.budget_s:g} s"
        name = _of_loads(kernel)
        yield from (Refusal(name, load.index, reason) for load in global_loads(kernel.trace))
        return
    judge = Legality(
        kernel.trace,
        kernel.solver,
        kernel.options.assume,
        kernel.budget,
        block=kernel.function.block_shape or kernel.block,
    )
    decision = _decide(kernel, judge)
    plan = as_written(decision.plan)
    yield from changes(plan, judge if kernel.options.smt2 else None)
    yield from (refusal(kernel, kept) for kept in decision.kept)
    for loop in decision.loops:
        yield Refusal(UNIFORM_LOOPS, loop.header, loop.reason)
    yield decision.choice


def _of_loads(kernel: Kernel) -> str:
    """The rewrite that says why loads stay as they are."""
    copies_alone = SHUFFLE not in kernel.considered and LOAD_ELIMINATION in kernel.considered
    return LOAD_ELIMINATION if copies_alone else SHUFFLE


def refusal(kernel: Kernel, kept: RefusedLoad) -> Refusal:
    """A load that stays as it is."""
    candidate = kept.candidate
    source = RefusedSource(candidate.source.index, candidate.delta) if candidate else None
    return Refusal(_of_loads(kernel), kept.dest.index, kept.reason, source)


def _decide(kernel: Kernel, judge: Legality) -> PlanDecision:
    """The plan that the options ask for, without the rewrites that are not considered."""
    options = kernel.options
    uniform = UNIFORM_LOOPS in kernel.considered
    if SHUFFLE not in kernel.considered:
        form = "uniform" if uniform and options.mode == "force" else options.form
        options = replace(options, scheme="keep", form=form)
    decision = decide(kernel.trace, judge, options, kernel.arch, uniform=uniform)
    if LOAD_ELIMINATION in kernel.considered:
        return decision
    shuffles = tuple(r for r in decision.plan.rewrites if not r.is_copy)
    return replace(decision, plan=replace(decision.plan, rewrites=shuffles))


# ---------------------------------------------------------------- plans as changes


def changes(plan: Plan, judge: Legality | None) -> Iterator[Change]:
    """Each thing that a plan does. With a `judge`, its obligations, too."""
    for rewrite in plan.rewrites:
        name = LOAD_ELIMINATION if rewrite.is_copy else SHUFFLE
        yield Change(
            name, rewrite.dest, frozenset({rewrite.dest}), rewrite.proof, rewrite,
            rewrite.source, () if judge is None else judge.proved(rewrite),
        )  # fmt: skip
    for hoist in plan.hoists:
        yield Change(SHUFFLE, hoist.load, frozenset({hoist.load}), Proof(), hoist)
    for halo in plan.halos:
        yield Change(SHUFFLE, halo.lead, frozenset(), halo.proof, halo)
    for loop in plan.loops:
        moved = loop.under | {loop.leave}
        yield Change(UNIFORM_LOOPS, loop.header, moved, Proof(), loop)


def lower(kernel: Kernel, changes: Sequence[Change]) -> tuple[Edit, ...]:
    """The edits that make all of these changes."""
    return _lower(kernel.text, kernel.function, kernel.trace.cfg, changes)
