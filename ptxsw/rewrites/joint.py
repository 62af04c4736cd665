"""Load elimination, uniform loops and shuffles are planned together: a shuffle may need its loop to
be uniform, and a row of loads takes copies and shuffles alike. The last of them that is considered
plans for all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from ptxsw.analysis.lane_reuse import global_loads
from ptxsw.change import Change, Refusal
from ptxsw.codegen.lower_load_elimination import JoinedLoad, KeptValue
from ptxsw.codegen.lower_shuffle import as_plan
from ptxsw.codegen.lower_shuffle import lower as _lower
from ptxsw.codegen.splice import Edit
from ptxsw.codegen.version_region import as_written
from ptxsw.cost.select import Choice
from ptxsw.emulator.budget import OUT_OF_TIME
from ptxsw.ir import Module
from ptxsw.plan import Plan, Proof
from ptxsw.rewrites.base import Found, Kernel, Made
from ptxsw.rewrites.jointly_planned import (
    LOAD_ELIMINATION,
    SHUFFLE,
    TOGETHER,
    UNIFORM_LOOPS,
    RefusedSource,
)
from ptxsw.rewrites.planning import PlanDecision, decide
from ptxsw.shuffle.candidate_plan import CandidatePlan, RefusedLoad
from ptxsw.shuffle.combine import without
from ptxsw.shuffle.legality import Legality


def is_planned(made: Made) -> bool:
    """Is what was made one plan, whose lines are checked against it? All else is proved by
    `validate`, as what other rewrites make."""
    alone = any(isinstance(change.detail, KeptValue | JoinedLoad) for change in made.changes)
    return made.rewrite in TOGETHER and not alone


def follows_lines(made: Made) -> bool:
    """Are the lines of the plan checked, and not what they make of the kernel? `validate` proves
    loops that a vote drives, and all that is in them."""
    return is_planned(made) and not any(c.rewrite == UNIFORM_LOOPS for c in made.changes)


def find(kernel: Kernel) -> Iterator[Found]:
    """The changes of all of these rewrites that are considered."""
    if kernel.trace.statistics.timed_out:
        reason = f"the symbolic run took more than {kernel.options.budget_s:g} s"
        yield from (Refusal(SHUFFLE, load.index, reason) for load in global_loads(kernel.trace))
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
    yield from map(_refusal, decision.kept)
    for loop in decision.loops:
        yield Refusal(UNIFORM_LOOPS, loop.header, loop.reason)
    yield decision.choice


def _refusal(kept: RefusedLoad) -> Refusal:
    candidate = kept.candidate
    source = RefusedSource(candidate.source.index, candidate.delta) if candidate else None
    return Refusal(SHUFFLE, kept.dest.index, kept.reason, source)


def _decide(kernel: Kernel, judge: Legality) -> PlanDecision:
    """What is asked for, less what is not considered."""
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
        sources = frozenset(part.source for part in rewrite.parts)
        yield Change(
            name, rewrite.dest, frozenset({rewrite.dest}), rewrite.proof, rewrite, sources,
            rewrite.source, () if judge is None else judge.proved(rewrite),
        )  # fmt: skip
    for hoist in plan.hoists:
        yield Change(SHUFFLE, hoist.load, frozenset({hoist.load}), Proof(), hoist)
    for halo in plan.halos:
        kept = frozenset({halo.lead})
        yield Change(SHUFFLE, halo.lead, frozenset(), halo.proof, halo, kept)
    for loop in plan.loops:
        moved = loop.under | {loop.leave}
        yield Change(UNIFORM_LOOPS, loop.header, moved, Proof(), loop)


def lower(kernel: Kernel, changes: Sequence[Change]) -> tuple[Edit, ...]:
    """The edits that make all of these changes."""
    return _lower(kernel.text, kernel.function, kernel.trace.cfg, changes)


def check(kernel: Kernel, changes: Sequence[Change], rewritten: Module, share: float) -> str | None:
    """Where the written text is not what the changes say; None where it is. Raises OutOfTime where
    this share of the kernel's time is spent before the end."""
    from ptxsw.verify.local import check as check_lines

    plan = as_plan(kernel.function, kernel.trace.cfg, changes)
    problem = check_lines(plan, rewritten, kernel.budget, share)
    return None if problem is None else str(problem)


def reduced(made: Made, right: frozenset[int]) -> Made:
    """What was made without the changes of other loads than these, for which there is no time."""
    kernel = made.kernel
    plan = as_plan(kernel.function, kernel.trace.cfg, made.changes)
    whole = CandidatePlan("", "", plan, ())
    left, dropped = without(kernel.trace, whole, lambda r: None if r.dest in right else OUT_OF_TIME)
    known = {change.at: change for change in made.changes}
    kept = tuple(replace(c, obligations=known[c.at].obligations) for c in changes(left.plan, None))
    return replace(made, changes=kept, refusals=(*made.refusals, *map(_refusal, dropped)))


def with_less(made: Made, reason: str) -> Made | None:
    """What was made, less the loads that were taken to other ways, or else the values that are
    kept over stores: these are refused. Where there are none, what is made without uniform loops.
    None where that is nothing."""
    for kind in (JoinedLoad, KeptValue):
        less = tuple(change for change in made.changes if isinstance(change.detail, kind))
        others = tuple(change for change in made.changes if not isinstance(change.detail, kind))
        if less and others:
            refusals = tuple(Refusal(change.rewrite, change.at, reason) for change in less)
            return replace(made, changes=others, refusals=(*made.refusals, *refusals))
    return _without_loops(made, reason)


def _without_loops(made: Made, reason: str) -> Made | None:
    """What can be made where no loop becomes uniform: `validate` alone decides about such loops,
    and does not follow all that the rules of shuffles tell."""
    loops = [change for change in made.changes if change.rewrite == UNIFORM_LOOPS]
    if not loops or SHUFFLE not in made.kernel.considered:
        return None
    kernel = replace(made.kernel, considered=made.kernel.considered - {UNIFORM_LOOPS})
    outcomes = list(find(kernel))
    changes = tuple(one for one in outcomes if isinstance(one, Change))
    if not changes or made.kernel.options.form == "uniform":
        return None
    refusals = [one for one in outcomes if isinstance(one, Refusal)]
    refusals += (Refusal(UNIFORM_LOOPS, loop.at, reason) for loop in loops)
    choice = next((one for one in outcomes if isinstance(one, Choice)), None)
    return Made(made.rewrite, kernel, changes, tuple(refusals), choice)
