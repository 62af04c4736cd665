"""Applying a part of the changes to a kernel, if not all of them can be proved, or not in time.

Changes that rest on tests of their own go first, then loops that become uniform. The rest of the
plan is split into rows of loads that do not depend on one another. Half of the rows are
tried, then halves of each half that is refused, until the faulty row stands alone or the attempts
are used up. If time is short, only as many rows are tried as can probably be proved in it.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence

from msgspec.structs import replace

from ptxsw.changes.change import Change, Refusal
from ptxsw.changes.plan import ServedLoad
from ptxsw.codegen.emit import as_plan
from ptxsw.codegen.lower_load_elimination import JoinedLoad, KeptValue
from ptxsw.codegen.lower_memory_spaces import CallOfCopy
from ptxsw.emulator.budget import CHECKING, OUT_OF_TIME
from ptxsw.rewrites import joint
from ptxsw.rewrites.base import SHUFFLE, UNIFORM_LOOPS, Attempt, Choice
from ptxsw.shuffle.candidate_plan import CandidatePlan, without

MOST = 12
"""Texts that are tried of one kernel after the first was refused. To single out one bad row of
2^n takes about 2·n."""

SECONDS_A_LOAD, SECONDS_A_LINE = 1e-3, 1.5e-4
"""What a served load and an instruction are likely to cost: written, read again, and proved."""

LEAST_SHARE = 8
"""After the time for checking has run out, an eighth of the rows is tried: few enough for the time
that is left."""

Row = frozenset[int]
"""Loads that share a source, by their positions."""

Attempts = Generator[tuple[Attempt, float], str | None, Attempt | str]
"""What to try next, and the share of the kernel's time until which. Sent is why it could not be
proved, or None; the end is what was made, the text of which is the last that was proved, or why
nothing is."""


def share_of_whole(attempt: Attempt) -> float | None:
    """Until which share of the kernel's time all that was made is tried to be proved. None for a
    plan that cannot be proved in time: that would use up the time, and nothing at all would be
    kept."""
    rows = _rows(attempt)
    if rows and len(rows) > _fitting(attempt, rows):
        return None
    return CHECKING if rows else 1.0


def attempts(attempt: Attempt, refused: str | None = None) -> Attempts:
    """All of what was made, unless it is known why that is `refused`, and less of it as long as
    that is refused."""
    share = share_of_whole(attempt)
    if share is None:
        rows = _rows(attempt)
        return (yield from _first_rows(attempt, rows, _fitting(attempt, rows)))
    reason = refused or (yield attempt, share)
    while reason is not None and reason != OUT_OF_TIME:
        less = _without_tests(attempt, reason) or _without_loops(attempt, reason)
        if less is None:
            return (yield from _halves(attempt, _rows(attempt), reason))
        attempt = less
        reason = yield attempt, 1.0
    if reason is None:
        return attempt
    rows = _rows(attempt)
    return (yield from _first_rows(attempt, rows, len(rows) // LEAST_SHARE))


# ---------------------------------------------------------------- kinds of changes


def _without_tests(attempt: Attempt, reason: str) -> Attempt | None:
    """The attempt without its loads at joins, or, if it has none, without its values kept over
    stores, or calls of copies: these are refused. None if it has none of them, or nothing else."""
    for kind in (JoinedLoad, KeptValue, CallOfCopy):
        less = tuple(change for change in attempt.changes if isinstance(change.detail, kind))
        others = tuple(change for change in attempt.changes if not isinstance(change.detail, kind))
        if less and others:
            refusals = tuple(Refusal(change.rewrite, change.at, reason) for change in less)
            return replace(attempt, changes=others, refusals=(*attempt.refusals, *refusals))
    return None


def _without_loops(attempt: Attempt, reason: str) -> Attempt | None:
    """A new plan without uniform loops, unless these were requested by name."""
    loops = [change for change in attempt.changes if change.rewrite == UNIFORM_LOOPS]
    kernel = attempt.kernel
    if not loops or SHUFFLE not in kernel.considered or kernel.options.form == "uniform":
        return None
    kernel = replace(kernel, considered=kernel.considered - {UNIFORM_LOOPS})
    outcomes = list(joint.find(kernel))
    changes = tuple(one for one in outcomes if isinstance(one, Change))
    if not changes:
        return None
    refusals = [one for one in outcomes if isinstance(one, Refusal)]
    refusals += (Refusal(UNIFORM_LOOPS, loop.at, reason) for loop in loops)
    choice = next((one for one in outcomes if isinstance(one, Choice)), None)
    return Attempt(attempt.rewrite, kernel, changes, tuple(refusals), choice)


# ---------------------------------------------------------------- rows of loads


def _rows(attempt: Attempt) -> list[Row]:
    """The rows of a plan in program order; none where loops become uniform with it, or where what
    was made is no plan."""
    if not joint.is_planned(attempt) or any(c.rewrite == UNIFORM_LOOPS for c in attempt.changes):
        return []
    served = [c.detail for c in attempt.changes if isinstance(c.detail, ServedLoad)]
    row_of: dict[int, set[int]] = {}
    for load in served:
        row = {load.dest, *(part.source for part in load.parts)}
        row.update(*(row_of[member] for member in row if member in row_of))
        row_of.update(dict.fromkeys(row, row))
    return sorted({id(row): frozenset(row) for row in row_of.values()}.values(), key=min)


def _fitting(attempt: Attempt, rows: Sequence[Row]) -> int:
    """How many rows are likely to be proved in the time for it; one at least."""
    budget, lines = attempt.kernel.budget, len(attempt.kernel.trace.cfg.instructions)
    left = CHECKING * budget.seconds - budget.used - SECONDS_A_LINE * lines
    for number, row in enumerate(rows):
        left -= SECONDS_A_LOAD * len(row)
        if left < 0:
            return max(number, 1)
    return len(rows)


def _first_rows(attempt: Attempt, rows: Sequence[Row], count: int) -> Attempts:
    """The first `count` rows, for which there is time."""
    if not count:
        return OUT_OF_TIME
    less = _with_rows(attempt, rows[:count], dict.fromkeys(rows, OUT_OF_TIME))
    reason = yield less, 1.0
    return less if reason is None else reason


def _halves(attempt: Attempt, rows: Sequence[Row], reason: str) -> Attempts:
    """All rows that can be proved together, found by bisection with a limited number of tries."""
    kept: list[Row] = []
    reasons = dict.fromkeys(rows, reason)
    untried = _parted(rows)
    for _ in range(MOST):
        if not untried or attempt.kernel.budget.spent(CHECKING):
            break
        part = untried.pop()
        problem = yield _with_rows(attempt, [*kept, *part], reasons), 1.0
        if problem is None:
            kept += part
        else:
            reasons.update(dict.fromkeys(part, problem))
            untried += _parted(part)
    return _with_rows(attempt, kept, reasons) if kept else reason


def _parted(rows: Sequence[Row]) -> list[Sequence[Row]]:
    """Two halves, the first of them last, where `pop` takes it; nothing of a single row."""
    middle = len(rows) // 2
    return [rows[middle:], rows[:middle]] if middle else []


def _with_rows(attempt: Attempt, rows: Sequence[Row], reasons: Mapping[Row, str]) -> Attempt:
    """The attempt with these rows alone; the loads of all other rows are refused."""
    kernel = attempt.kernel
    kept = frozenset[int]().union(*rows)
    why = {load: reason for row, reason in reasons.items() for load in row if load not in kept}
    plan = as_plan(kernel.function, kernel.trace.cfg, attempt.changes)
    left = without(kernel.trace, CandidatePlan(plan, ()), lambda served: why.get(served.dest))
    obligations = {change.at: change.obligations for change in attempt.changes}
    new = joint.changes(left.plan, None)
    changes = tuple(replace(c, obligations=obligations[c.at]) for c in new)
    refusals = (*attempt.refusals, *(joint.refusal(kernel, one) for one in left.kept))
    return replace(attempt, changes=changes, refusals=refusals)
