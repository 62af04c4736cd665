"""Drafts of one kernel taken apart into rows, and a plan put together from rows of several drafts.

Every draft is right as a whole. Loads that some draft connects, a destination with its sources,
are in one row; so no rewrite of one row needs to know what becomes of another, and rows of
different drafts may stand in one plan. The form is that of a whole stretch of code, so rows are
parted further into units: those of one unit take the same form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ptxsw.analysis.lane_reuse import Candidate
from ptxsw.changes.plan import Halo, HoistedLoad, Plan, ServedLoad, UniformLoop
from ptxsw.emulator.trace import Trace
from ptxsw.shuffle.candidate_plan import CandidatePlan, RefusedLoad


class Component(Struct, frozen=True):
    """Loads that the drafts connect, by their positions."""

    loads: frozenset[int]
    unit: int


def restyled(draft: CandidatePlan, scheme: str, form: str) -> CandidatePlan:
    """The same rewrites in another form of the code around them, those of a `paper` draft by
    another scheme that needs no more of the loads."""
    rewrites = tuple(
        replace(r, scheme=scheme if draft.scheme == "paper" else r.scheme, form=form)
        for r in draft.plan.rewrites
    )
    return replace(draft, scheme=scheme, form=form, plan=replace(draft.plan, rewrites=rewrites))


def in_uniform_loops(draft: CandidatePlan, loops: tuple[UniformLoop, ...]) -> CandidatePlan:
    """The draft with these loops made uniform, and its rewrites in them in that form."""
    plan = replace(draft.plan, loops=loops)
    around = plan.loop_around
    rewrites = tuple(
        replace(r, form="uniform" if r.dest in around else "keep") for r in plan.rewrites
    )
    return replace(draft, form="uniform", plan=replace(plan, rewrites=rewrites))


def without(
    trace: Trace, draft: CandidatePlan, unwanted: Callable[[ServedLoad], str | None]
) -> tuple[CandidatePlan, tuple[RefusedLoad, ...]]:
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
            kept.append(RefusedLoad(dest, candidate, reasons[rewrite.dest]))
    left = (r for r in draft.plan.rewrites if r.dest not in reasons)
    plan = _plan([draft], left)
    return replace(draft, plan=plan, kept=_sorted((*draft.kept, *kept))), tuple(kept)


def connected(served: Iterable[ServedLoad]) -> list[frozenset[int]]:
    """The rows of some loads and their sources, in program order."""
    rows = _Union()
    for rewrite in served:
        for part in rewrite.parts:
            rows.join(rewrite.dest, part.source)
    members: dict[int, set[int]] = {}
    for load in rows.members():
        members.setdefault(rows.find(load), set()).add(load)
    return sorted(map(frozenset, members.values()), key=min)


def groups(drafts: Sequence[CandidatePlan]) -> list[Component]:
    """The rows in which some draft makes a shuffle, in program order."""
    units = _Union()
    served = [rewrite for draft in drafts for rewrite in draft.plan.rewrites]
    shuffled = {rewrite.dest for rewrite in served if not rewrite.is_copy}
    by_root = {min(loads): loads for loads in connected(served) if loads & shuffled}
    nests = {index: nest for draft in drafts for index, nest in _nests(draft.plan).items()}
    for root, loads in by_root.items():
        # Rows are joined with numbers for their segments and uniform loops. Loads are positions
        # from 0 on, so these are negative: even for a segment, odd for a loop.
        for dest in loads & shuffled:
            segment = drafts[0].plan.segments[dest]
            units.join(root, -2 - 2 * segment)
            if dest in nests:
                units.join(root, -1 - 2 * nests[dest])
    return [Component(loads, units.find(root)) for root, loads in by_root.items()]


def combine(
    copies: CandidatePlan, parts: Iterable[tuple[Component, CandidatePlan | None]]
) -> tuple[Plan, tuple[RefusedLoad, ...]]:
    """One plan that takes each row from its draft, and the loads that stay as they are. A row
    without a draft, and everything outside the rows, gets only the copies."""
    home: dict[int, CandidatePlan] = {}  # by load
    drafts = [copies]
    for group, draft in parts:
        if draft is not None:
            home.update(dict.fromkeys(group.loads, draft))
            drafts += [] if any(draft is d for d in drafts) else [draft]
    rewrites: list[ServedLoad] = []
    kept: list[RefusedLoad] = []
    for draft in drafts:
        rewrites += (r for r in draft.plan.rewrites if home.get(r.dest, copies) is draft)
        kept += (k for k in draft.kept if home.get(k.dest.index, copies) is draft)
    return _plan(drafts, rewrites), _sorted(kept)


def _plan(drafts: Sequence[CandidatePlan], rewrites: Iterable[ServedLoad]) -> Plan:
    """The plan of some rewrites from drafts that share no loads, with what these need."""
    rewrites = tuple(sorted(rewrites, key=lambda r: r.dest))
    chosen = {id(r) for r in rewrites}
    hoists: list[HoistedLoad] = []
    halos: list[Halo] = []
    loops: dict[int, UniformLoop] = {}  # by header
    for draft in drafts:
        own = [r for r in draft.plan.rewrites if id(r) in chosen]
        used = {part.source for r in own for part in r.parts}
        leads = {r.source for r in own if r.scheme == "halo" and not r.is_copy}
        hoists += (h for h in draft.plan.hoists if h.load in used)
        halos += (h for h in draft.plan.halos if h.lead in leads)
        loops.update((loop.header, loop) for loop in _loops(draft.plan, own))
    # A copy of a halo row needs no halo. Where the row's shuffles were dropped, it stays as a
    # rewrite of scheme paper, which does the same for a copy.
    rows = {halo.lead for halo in halos}
    return replace(
        drafts[0].plan,
        rewrites=tuple(
            r if r.scheme != "halo" or r.source in rows else replace(r, scheme="paper")
            for r in rewrites
        ),
        hoists=tuple(sorted(hoists, key=lambda h: h.load)),
        halos=tuple(sorted(halos, key=lambda h: h.lead)),
        loops=tuple(loops.values()),
    )


def _nests(plan: Plan) -> dict[int, int]:
    """For each instruction in a uniform loop the header of the outermost one around it."""
    outer = {loop.header: loop.outer for loop in plan.loops}
    roots: dict[int, int] = {}
    for index, loop in plan.loop_around.items():
        header = loop.header
        while (above := outer.get(header)) is not None:
            header = above
        roots[index] = header
    return roots


def _loops(plan: Plan, rewrites: Iterable[ServedLoad]) -> list[UniformLoop]:
    """The loops that some rewrites need to be uniform, with all those around and inside them."""
    nests = _nests(plan)
    wanted = {nests[r.dest] for r in rewrites if r.form == "uniform"}
    return [loop for loop in plan.loops if any(nests.get(index) in wanted for index in loop.inside)]


def _sorted(kept: Iterable[RefusedLoad]) -> tuple[RefusedLoad, ...]:
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
        while above != number:  # halves the way for the next who asks
            self._above[number] = self._above[above]
            number, above = above, self._above[above]
        return number

    def join(self, one: int, other: int) -> None:
        self._above[self.find(one)] = self.find(other)
