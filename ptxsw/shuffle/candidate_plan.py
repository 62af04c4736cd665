"""The plan of one scheme and form for one kernel: every legal rewrite that it can make. Nothing is
weighed here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile

from msgspec import Struct, field

from ptxsw.analysis.lane_reuse import Candidate, Places, candidates
from ptxsw.changes.plan import ElementSource, Halo, HoistedLoad, Plan, Proof, Refused, ServedLoad
from ptxsw.emulator.budget import OUT_OF_TIME, PLANNING, Budget
from ptxsw.emulator.trace import Access, Trace
from ptxsw.ptx.garbage import no_collection
from ptxsw.shuffle.legality import Legality
from ptxsw.shuffle.load_groups import LoadGroup, centre, rows

Elements = tuple[list[Candidate], ...]
LoadSources = Sequence[tuple[Access, Elements]]

_SHUFFLED = "the source gets its own value by a shuffle"


class RefusedLoad(Struct, frozen=True):
    """A load that stays as it is: it has a candidate that was refused, or may not take part."""

    dest: Access
    candidate: Candidate | None
    reason: str


class CandidatePlan(Struct, frozen=True):
    """What becomes of the loads of a kernel, and those that stay, with the reasons."""

    plan: Plan
    kept: tuple[RefusedLoad, ...]


def load_sources(trace: Trace, max_delta: int, places: Places, budget: Budget) -> LoadSources:
    """The candidates for each load, until the time for planning is over."""
    with no_collection():
        loads = candidates(trace, max_delta, places)
        return tuple(takewhile(lambda _: not budget.spent(PLANNING), loads))


def draft(
    trace: Trace,
    judge: Legality,
    *,
    scheme: str,
    form: str,
    max_delta: int,
    hoist: bool,
    why_not: str | None = None,
    sources: LoadSources | None = None,
) -> CandidatePlan:
    """Every legal rewrite by one scheme, in form `uniform` where the judge's loops are that, and
    else in `form`. With `hoist` the middle load of a row is moved up to be the source. Where there
    is a reason `why_not` only copies are made. `judge` is asked no more than needed; when its time
    for planning is over, all that was not looked at stays. `sources`: the candidates for
    `max_delta`, where they are known."""
    if sources is None:
        sources = load_sources(trace, max_delta, judge.places, judge.budget)
    drafting = _Drafting(trace, judge, scheme, form, max_delta, hoist, why_not)
    if any(any(elements) for _, elements in sources):
        with no_collection():
            drafting.make(sources)
    # The loads of which no candidates were looked for.
    rest = trace.global_loads[len(sources) :]
    drafting.kept += [RefusedLoad(access, None, OUT_OF_TIME) for access in rest]
    drafting.rewrites.sort(key=lambda rewrite: rewrite.dest)
    used = {part.source for rewrite in drafting.rewrites for part in rewrite.parts}
    plan = Plan(
        trace.function,
        trace.cfg.instructions,
        tuple(drafting.rewrites),
        judge.segments if drafting.rewrites else (),
        tuple(h for h in drafting.hoists if h.load in used),
        tuple(drafting.halos),
        judge.loops,
    )
    return CandidatePlan(plan, tuple(drafting.kept))


def without(
    trace: Trace, drafted: CandidatePlan, unwanted: Callable[[ServedLoad], str | None]
) -> CandidatePlan:
    """The plan without those rewrites for which there is a reason to leave the load alone. What
    else was moved or loaded for them alone goes, too."""
    reasons = {r.dest: reason for r in drafted.plan.rewrites if (reason := unwanted(r)) is not None}
    if not reasons:
        return drafted
    accesses = {a.index: a for a in trace.accesses}
    kept = list(drafted.kept)
    for rewrite in drafted.plan.rewrites:
        if rewrite.dest in reasons:
            part = next((p for p in rewrite.parts if p.delta or p.mirror), rewrite.parts[0])
            dest, source = accesses[rewrite.dest], accesses[part.source]
            candidate = Candidate(dest, source, part.delta, part.element, mirror=part.mirror)
            kept.append(RefusedLoad(dest, candidate, reasons[rewrite.dest]))
    plan = drafted.plan.only({r.dest for r in drafted.plan.rewrites} - reasons.keys())
    return CandidatePlan(plan, tuple(sorted(kept, key=lambda each: each.dest.index)))


class _Drafting(Struct):
    trace: Trace
    judge: Legality
    scheme: str
    form: str
    max_delta: int
    hoist: bool
    why_not: str | None  # only copies are made
    rewrites: list[ServedLoad] = field(default_factory=list)
    kept: list[RefusedLoad] = field(default_factory=list)
    hoists: list[HoistedLoad] = field(default_factory=list)
    halos: list[Halo] = field(default_factory=list)
    done: set[int] = field(default_factory=set)  # loads of which is decided
    shuffled: set[int] = field(default_factory=set)
    moved: dict[int, list[tuple[Access, int, int]]] = field(default_factory=dict)

    def make(self, sources: LoadSources) -> None:
        """Everything, until the time for planning is over."""
        if self.why_not is None and (self.hoist or self.scheme == "halo"):
            starting = {access.index for access, elements in sources if not any(elements)}
            for row in rows(self.trace, self.judge):
                if self.judge.budget.spent(PLANNING):
                    break
                self.row(row, starting)
        self.others(sources)

    def form_of(self, dest: Access) -> str:
        if dest.index in self.judge.loop_of:
            return "uniform"
        return "keep" if self.form == "uniform" else self.form

    # ------------------------------------------------------------ rows

    def row(self, row: LoadGroup, starting: set[int]) -> None:
        """Moves the middle load of a row up, and makes a halo row if the scheme is `halo`. Only for
        rows whose first load has no source of its own."""
        members = list(row.members)
        spent = self.judge.budget.spent
        while len(members) > 1 and members[0].index in starting and not spent(PLANNING):
            lead, at = members[0], members[0].index
            middle = centre(row, members) if self.hoist else lead
            if middle is not lead:
                hoist = row.hoist_address(self.trace, self.judge, middle, lead)
                if hoist is not None:
                    self.hoists.append(hoist)
                    lead = middle
            if self.scheme != "halo":
                self._offer(row, members, lead, at)
                return
            taken = self._halo(row, members, lead, at)
            members = [m for m in members if m.index not in taken and m is not lead]

    def _offer(self, row: LoadGroup, members: list[Access], lead: Access, at: int) -> None:
        """Makes a lead that was moved up a source for the rest of its row."""
        if lead.index == at:
            return
        self.done.add(lead.index)
        for member in members:
            delta = row.delta(lead, member)
            if member is not lead and abs(delta) <= self.max_delta:
                self.moved.setdefault(member.index, []).append((lead, delta, at))

    def _halo(self, row: LoadGroup, members: list[Access], lead: Access, at: int) -> set[int]:
        """One halo row around a lead; the members it took."""
        proofs: list[Proof] = []
        taken: list[ServedLoad] = []
        low = high = 0
        for member in members:
            delta = row.delta(lead, member)
            least, most = min(low, delta), max(high, delta)
            # The first `most` lanes load what lies beyond the end of the warp, the last `-least`
            # what lies before its begin. Up to 31 together, no lane has to load both.
            if member is lead or most - least > 31 or abs(delta) > self.max_delta:
                continue
            proof = self._halo_member(row, lead, member, delta, at)
            if proof is None:
                continue
            low, high = least, most
            proofs.append(proof)
            part = ElementSource(lead.index, 0, delta)
            form = self.form_of(member)
            taken.append(ServedLoad(member.index, (part,), "halo", form, proof))
        # Copies alone need no partial load: they are found as such later.
        if any(rewrite.delta for rewrite in taken):
            self.rewrites += taken
            self.shuffled |= {rewrite.dest for rewrite in taken if rewrite.delta}
            self.halos.append(Halo(lead.index, low, high, row.stride, Proof.joined(proofs)))
            self.done |= {lead.index, *(rewrite.dest for rewrite in taken)}
        return {rewrite.dest for rewrite in taken}

    def _halo_member(
        self, row: LoadGroup, lead: Access, member: Access, delta: int, at: int
    ) -> Proof | None:
        """The proof that a member may take the lead's value from lane i + delta, or from the halo;
        None if it may not. Registers of other lanes cannot be compared here, since the halo is
        loaded before the result of such a comparison is known."""
        source_at = at if lead.index != at else None
        direct = Candidate(member, lead, delta)
        proof = self.judge.legal(direct, before=at, source_at=source_at)
        if isinstance(proof, Refused) or proof.steps:
            return None
        if not delta:
            return proof
        # What lane i + delta would have, were the warp longer: that lane is i + delta - 32 of this
        # warp, at its own address and 32 strides.
        far = -32 if delta > 0 else 32
        beyond = Candidate(member, lead, delta + far, displacement=-far * row.stride)
        other = self.judge.legal(beyond, before=at, source_at=source_at)
        if isinstance(other, Refused) or other.steps:
            return None
        return Proof.joined([proof, other])

    # ------------------------------------------------------------ the rest

    def others(self, loads: LoadSources) -> None:
        """Serve each element of each load by its nearest legal source. A source must itself come
        from memory: a shuffle of a shuffled value would wait for the first one. A load stays as it
        is if one element has no source."""
        for dest, elements in loads:
            if dest.index in self.done:
                continue
            if self.judge.budget.spent(PLANNING):
                self.kept.append(RefusedLoad(dest, None, OUT_OF_TIME))
                continue
            if not any(elements) and dest.index not in self.moved:
                continue
            sources = [self._with_moved(dest, candidates) for candidates in elements]
            served = []
            for several in sources:
                one = self._nearest(dest, several)
                if not isinstance(one, tuple):
                    left = one or self._partly(sources)
                    self.kept += [left] if left is not None else []
                    break
                served.append(one)
            else:
                crossing = next((c for c, _ in served if c.crosses), None)
                if crossing is not None:
                    self.shuffled.add(dest.index)
                if crossing is not None and self.why_not is not None:
                    self.kept.append(RefusedLoad(dest, crossing, self.why_not))
                else:
                    self._rewrite(dest, served)

    def _with_moved(
        self, dest: Access, sources: list[Candidate]
    ) -> list[tuple[Candidate, int | None]]:
        """The sources of an element, nearest lanes first, those that were moved up among them."""
        reachable: list[tuple[Candidate, int | None]] = [(source, None) for source in sources]
        moved = self.moved.get(dest.index, [])
        reachable += [(Candidate(dest, s, delta), at) for s, delta, at in moved]
        return (
            sorted(reachable, key=lambda pair: (pair[0].mirror, abs(pair[0].delta)))
            if moved
            else reachable
        )

    def _nearest(
        self, dest: Access, sources: list[tuple[Candidate, int | None]]
    ) -> tuple[Candidate, Proof] | RefusedLoad | None:
        """The first legal source of one element and its proof; the refusal if no candidate is
        legal; None if there is no candidate."""
        refused: RefusedLoad | None = None
        passed: RefusedLoad | None = None
        for candidate, at in sources:
            if candidate.crosses and candidate.source.index in self.shuffled:
                passed = passed or RefusedLoad(dest, candidate, _SHUFFLED)
                continue
            verdict = self.judge.legal(candidate, source_at=at)
            if isinstance(verdict, Proof):
                return candidate, verdict
            refused = refused or RefusedLoad(dest, candidate, verdict.reason)
        return refused or passed

    def _partly(self, sources: list[list[tuple[Candidate, int | None]]]) -> RefusedLoad | None:
        """The refusal of a vector load of which some elements have a candidate, but not all."""
        seen = next((c for candidates in sources for c, _ in candidates), None)
        if seen is None:
            return None
        return RefusedLoad(seen.dest, seen, "not every element of the vector has a source")

    def _rewrite(self, dest: Access, served: list[tuple[Candidate, Proof]]) -> None:
        parts = tuple(
            ElementSource(c.source.index, c.element, c.delta, c.mirror) for c, _ in served
        )
        scheme = "paper" if self.scheme == "halo" else self.scheme
        proof = Proof.joined([proof for _, proof in served])
        self.rewrites.append(ServedLoad(dest.index, parts, scheme, self.form_of(dest), proof))
