"""Drafts of one kernel taken apart into rows, and a plan put together from rows of several drafts.

Every draft is right as a whole. Loads that some draft connects, a destination with its sources,
are in one row; so no rewrite of one row needs to know what becomes of another, and rows of
different drafts may stand in one plan. The form is that of a whole stretch of code, so rows are
parted further into units: those of one unit take the same form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from ptxsw.emulator.trace import Trace
from ptxsw.shuffle.draft import Draft, Kept
from ptxsw.shuffle.find import Candidate
from ptxsw.shuffle.plan import Halo, Hoist, Plan, Rewrite


@dataclass(frozen=True, slots=True)
class Group:
    """Loads that the drafts connect, by their positions."""

    loads: frozenset[int]
    unit: int

    def of(self, draft: Draft) -> tuple[Rewrite, ...]:
        """The rewrites that a draft makes of these loads."""
        return tuple(r for r in draft.plan.rewrites if r.dest in self.loads)


def restyled(draft: Draft, scheme: str, form: str) -> Draft:
    """The same rewrites by a scheme that needs no more of the loads than `paper` does, or in
    another form of the code around them."""
    rewrites = tuple(
        replace(r, scheme=scheme if r.scheme == "paper" else r.scheme, form=form)
        for r in draft.plan.rewrites
    )
    return replace(draft, scheme=scheme, form=form, plan=replace(draft.plan, rewrites=rewrites))


def without(
    trace: Trace, draft: Draft, unwanted: Callable[[Rewrite], str | None]
) -> tuple[Draft, tuple[Kept, ...]]:
    """The draft without those rewrites for which there is a reason to leave the load alone, and
    these loads. What else was moved or loaded for them alone goes, too."""
    reasons = {r.dest: reason for r in draft.plan.rewrites if (reason := unwanted(r)) is not None}
    if not reasons:
        return draft, ()
    accesses = {a.index: a for a in trace.accesses}
    kept = []
    for rewrite in draft.plan.rewrites:
        if rewrite.dest in reasons:
            part = next((p for p in rewrite.parts if p.delta or p.mirror), rewrite.parts[0])
            dest, source = accesses[rewrite.dest], accesses[part.source]
            candidate = Candidate(dest, source, part.delta, part.element, mirror=part.mirror)
            kept.append(Kept(dest, candidate, reasons[rewrite.dest]))
    left = (r for r in draft.plan.rewrites if r.dest not in reasons)
    plan = _plan([draft], left)
    return replace(draft, plan=plan, kept=_sorted((*draft.kept, *kept))), tuple(kept)


def groups(drafts: Sequence[Draft]) -> list[Group]:
    """The rows in which some draft makes a shuffle, in program order."""
    rows, units = _Union(), _Union()
    shuffled: set[int] = set()
    for draft in drafts:
        for rewrite in draft.plan.rewrites:
            for part in rewrite.parts:
                rows.join(rewrite.dest, part.source)
            if not rewrite.is_copy:
                shuffled.add(rewrite.dest)
    members: dict[int, set[int]] = {}
    for load in rows.members():
        members.setdefault(rows.find(load), set()).add(load)
    found = {root: loads for root, loads in members.items() if loads & shuffled}
    for root, loads in found.items():
        for dest in loads & shuffled:
            units.join(root, -1 - drafts[0].plan.segments[dest])
    return [
        Group(frozenset(loads), units.find(root))
        for root, loads in sorted(found.items(), key=lambda item: min(item[1]))
    ]


def combine(
    copies: Draft, parts: Iterable[tuple[Group, Draft | None]]
) -> tuple[Plan, tuple[Kept, ...]]:
    """One plan of a draft for each row, and what is left alone. Where a row has no draft, and
    outside all rows, only the copies are made."""
    home: dict[int, Draft] = {}  # by load
    drafts = [copies]
    for group, draft in parts:
        if draft is not None:
            home.update(dict.fromkeys(group.loads, draft))
            drafts += [] if any(draft is d for d in drafts) else [draft]
    rewrites: list[Rewrite] = []
    kept: list[Kept] = []
    for draft in drafts:
        rewrites += (r for r in draft.plan.rewrites if home.get(r.dest, copies) is draft)
        kept += (k for k in draft.kept if home.get(k.dest.index, copies) is draft)
    return _plan(drafts, rewrites), _sorted(kept)


def _plan(drafts: Sequence[Draft], rewrites: Iterable[Rewrite]) -> Plan:
    """The plan of some rewrites from drafts that share no loads, with what these need."""
    rewrites = tuple(sorted(rewrites, key=lambda r: r.dest))
    chosen = {id(r) for r in rewrites}
    hoists: list[Hoist] = []
    halos: list[Halo] = []
    for draft in drafts:
        own = [r for r in draft.plan.rewrites if id(r) in chosen]
        used = {part.source for r in own for part in r.parts}
        leads = {r.source for r in own if r.scheme == "halo" and not r.is_copy}
        hoists += (h for h in draft.plan.hoists if h.load in used)
        halos += (h for h in draft.plan.halos if h.lead in leads)
    return replace(
        drafts[0].plan,
        rewrites=rewrites,
        hoists=tuple(sorted(hoists, key=lambda h: h.load)),
        halos=tuple(sorted(halos, key=lambda h: h.lead)),
    )


def _sorted(kept: Iterable[Kept]) -> tuple[Kept, ...]:
    return tuple(sorted(kept, key=lambda k: k.dest.index))


class _Union:
    """Sets of numbers that are joined and never parted."""

    def __init__(self) -> None:
        self._above: dict[int, int] = {}

    def members(self) -> Iterable[int]:
        return self._above

    def find(self, number: int) -> int:
        """The number by which the set is called."""
        above = self._above.setdefault(number, number)
        while above != number:
            self._above[number] = self._above[above]
            number, above = above, self._above[above]
        return number

    def join(self, one: int, other: int) -> None:
        self._above[self.find(one)] = self.find(other)
