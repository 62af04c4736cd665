"""From the trace of a kernel to the plan that is carried out.

Each scheme is drafted, each draft in each form emitted and counted, `choose` picks, and the rows it
picked are put into one plan. Where only copies can come of it nothing else is drafted: in mode auto
that is known from what was tuned, from whether ptxas can be asked what shuffles cost, and from the
loads themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ptxsw.analysis.divergence import CALLED, divergent_regions
from ptxsw.changes.options import FORMS, SCHEMES, Options
from ptxsw.changes.plan import Plan, ServedLoad
from ptxsw.codegen.emit import emit
from ptxsw.cost.count import Added, Counter
from ptxsw.cost.ranking import Figures, Scale, of_arch
from ptxsw.cost.select import (
    ASKED,
    MODEL,
    TUNED,
    Choice,
    GroupVariants,
    Policy,
    Tuned,
    Variant,
    choose,
    left_alone,
)
from ptxsw.emulator.budget import OUT_OF_TIME, PLANNING, Budget
from ptxsw.emulator.trace import Trace
from ptxsw.ptx.ir import Special
from ptxsw.ptx.target import plain_name
from ptxsw.rewrites.weighing import cannot_count
from ptxsw.shuffle.candidate_plan import (
    CandidatePlan,
    LoadSources,
    RefusedLoad,
    draft,
    find,
    nothing,
)
from ptxsw.shuffle.combine import Component, combine, groups, in_uniform_loops, restyled, without
from ptxsw.shuffle.conflicts import conflicts_with_uniform_loops
from ptxsw.shuffle.legality import Legality
from ptxsw.shuffle.uniform_loops import LoopChoices, RefusedLoop, uniform_loops

UNIFORM = "uniform"
_UNDECIDED = "not decided yet"
_NO_NEIGHBOUR = "no load is known to read what another lane loads"
_NO_WAVEFRONT_LESS = "a shuffle takes as many passes of the memory pipe as this load"
_COPIES_ONLY = "scheme keep makes copies only"
_HALF = 16  # lanes: rows of so many threads are as usual as those of a whole warp
_VOLTA = 70  # from here on lanes have a program counter each
_AS_PAPER = ("paper", "early")  # schemes that need the same of the loads


class PlanDecision(Struct, frozen=True):
    """The plan for one kernel, and why it was chosen. `loops` are those that could not become
    uniform."""

    plan: Plan
    kept: tuple[RefusedLoad, ...]
    choice: Choice
    loops: tuple[RefusedLoop, ...] = ()


def decide(
    trace: Trace, judge: Legality, options: Options, arch: str | None, *, uniform: bool = True
) -> PlanDecision:
    """The plan for one kernel; without `uniform` no loop becomes uniform. Raises BadGpu where the
    file of the target's GPU is wrong."""
    policy = _policy(trace, options, arch)
    variants = _variants(options, arch, policy)
    if not uniform:
        variants = [(scheme, form) for scheme, form in variants if form != UNIFORM]
    # Unless the user forced it or `tune` measured it, a plan has to show that it pays.
    weighed = not (policy.force or policy.tuned)
    scale = None if policy.tuned or (policy.force and len(variants) < 2) else of_arch(arch)
    sources = find(trace, options.max_delta, judge)
    # Copies are always made: they need no other lane, and remain if nothing else is possible.
    without_source = not any(any(elements) for _, elements in sources)
    if without_source:
        copies = nothing(trace, sources)
    else:
        copies = _draft(trace, judge, options, "keep", sources)
    if options.scheme == "keep" and not variants:
        return _of_one(copies, Choice((), ASKED, None, _COPIES_ONLY))
    if not variants:
        return _of_one(copies, choose((), Figures(), scale, policy))
    hopeless = _hopeless(trace, sources, arch) if weighed else None
    if hopeless is not None:
        return _of_one(copies, hopeless)
    loops = _loops(trace, judge, variants)
    drafts: list[CandidatePlan] = []
    alone: dict[int, RefusedLoad] = {}
    needless = len(variants) > 1 and without_source  # all schemes would draft nothing
    if not needless:
        drafts, alone = _drafts(
            trace, judge, options, arch, variants, loops, sources, weighed=weighed
        )
    if not (drafts or needless) or (weighed and judge.budget.spent(PLANNING)):
        return _of_one(copies, Choice((), MODEL, None, OUT_OF_TIME))
    if needless:
        decision = _of_one(copies, choose((), Figures(), scale, policy))
    elif (len(drafts) > 1 or weighed) and not judge.budget.spent(PLANNING):
        decision = _chosen(trace, copies, drafts, alone, scale, policy, judge.budget)
    else:
        decision = _only(copies, drafts[0], policy)
    choice = decision.choice
    if options.form == UNIFORM and _number(arch) < _VOLTA:
        choice = replace(choice, reason=f"{choice.reason}; there is no form uniform before sm_70")
    return replace(decision, loops=loops.kept, choice=choice)


def _hopeless(trace: Trace, sources: LoadSources, arch: str | None) -> Choice | None:
    """The choice to make no shuffles, if the loads alone show that none can pay. That saves
    drafting."""
    shuffled = [
        access
        for access, elements in sources
        if any(c.delta or c.mirror for element in elements for c in element)
    ]
    if not shuffled:
        return Choice((), MODEL, None, _NO_NEIGHBOUR)
    reason = cannot_count(arch)
    if reason is not None:
        return left_alone(f"the cost of shuffles in registers is not known: {reason}")
    wide = any(map(Counter(trace, ()).exceeds_shuffles, shuffled))
    return None if wide else left_alone(_NO_WAVEFRONT_LESS)


def _loops(trace: Trace, judge: Legality, variants: Sequence[tuple[str, str]]) -> LoopChoices:
    wanted = any(form == UNIFORM for _, form in variants) and not judge.budget.spent(PLANNING)
    return uniform_loops(trace) if wanted else LoopChoices((), ())


def _only(copies: CandidatePlan, candidate: CandidatePlan, policy: Policy) -> PlanDecision:
    """The decision where there is a single draft: all of it, or copies alone."""
    variant = Variant(candidate.scheme, candidate.form, len(candidate.plan.rewrites))
    choice = choose((GroupVariants(0, (variant,)),), Figures(), None, policy)
    if choice.picks[0] is None:
        return _of_one(copies, choice)
    if candidate.scheme == "keep":
        measured = f"{choice.reason}; " if choice.by == TUNED else ""
        choice = replace(choice, reason=f"{measured}{_COPIES_ONLY}")
    return _of_one(candidate, choice)


# ---------------------------------------------------------------- what is asked for


def _policy(trace: Trace, options: Options, arch: str | None) -> Policy:
    force = options.mode == "force"
    return Policy(force, options.min_gain, arch, None if force else _tuned(trace, arch))


def _tuned(trace: Trace, arch: str | None) -> Tuned | None:
    """What `ptxsw tune` found out about the kernel."""
    if arch is None:
        return None
    from ptxsw.toolchain import tuned

    span = trace.function.span
    choice = tuned.find(trace.module.source.text[span.start : span.end], arch)
    if choice is None:
        return None
    return Tuned(choice.scheme, choice.form, choice.speedup, choice.device, choice.date)


def _variants(options: Options, arch: str | None, policy: Policy) -> list[tuple[str, str]]:
    """The schemes and forms that may be taken: what was tuned, or else all that was asked for.
    None where only copies are to be made."""
    forms = [f for f in FORMS if f != "auto" and (f != UNIFORM or _number(arch) >= _VOLTA)]
    if policy.tuned is not None:
        variant = (policy.tuned.scheme, policy.tuned.form)
        asked = options.scheme in ("auto", variant[0]) and options.form in ("auto", variant[1])
        there = variant[0] in SCHEMES and variant[1] in forms and variant != ("keep", "keep")
        return [variant] if asked and there else []
    schemes = [s for s in SCHEMES if s not in ("auto", "keep")]
    if options.scheme != "auto":
        schemes = [options.scheme]
    if options.form != "auto":
        forms = [f for f in forms if f == options.form] or ["keep"]
    elif options.scheme == "paper":
        forms = ["keep"]
    if schemes == ["keep"]:
        forms = [f for f in forms if f == options.form == UNIFORM]
    return [(scheme, form) for form in forms for scheme in schemes]


def _number(arch: str | None) -> int:
    """The number of an architecture: 80 for sm_80."""
    name = plain_name(arch)
    return int(name[3:]) if name else 0


def _leave_alone(trace: Trace, arch: str | None) -> Callable[[ServedLoad], str | None]:
    """Why a legal rewrite is not weighed in any scheme. In an arm of a divergent `if`, a shuffle
    becomes a call on some targets. And if the shape of the block is unknown, rows of 16 threads, in
    which no lane would be served, are as likely as rows of a whole warp."""
    arms = divergent_regions(trace) if _number(arch) in CALLED else frozenset[int]()
    flat = not _uses(trace, "%tid.y")
    block_of = trace.cfg.block_of

    def reason(rewrite: ServedLoad) -> str | None:
        if rewrite.is_copy:
            return None
        if block_of[rewrite.dest] in arms:
            return f"in an arm of a divergent `if`, ptxas turns a shuffle into a call for {arch}"
        far = any(abs(part.delta) >= _HALF and not part.mirror for part in rewrite.parts)
        if far and rewrite.proof.block_shape and not flat:
            return (
                "lanes half a warp apart may be in different rows of the block: "
                "the kernel uses %tid.y"
            )
        return None

    return reason


def _make_all(_: ServedLoad) -> str | None:
    return None


def _uses(trace: Trace, name: str) -> bool:
    """Does the kernel read a special register?"""
    special = Special(name)
    return any(special in instruction.operands for instruction in trace.cfg.instructions)


# ---------------------------------------------------------------- drafts


def _draft(
    trace: Trace, judge: Legality, options: Options, scheme: str, sources: LoadSources | None = None
) -> CandidatePlan:
    hoist = scheme == "halo" if options.hoist is None else options.hoist
    return draft(
        trace,
        judge,
        scheme="paper" if scheme == "keep" else scheme,
        form="keep",
        max_delta=options.max_delta,
        hoist=hoist,
        shuffles=scheme != "keep",
        why_not=_UNDECIDED,
        sources=sources,
    )


def _drafts(
    trace: Trace,
    judge: Legality,
    options: Options,
    arch: str | None,
    variants: Sequence[tuple[str, str]],
    loops: LoopChoices,
    sources: LoadSources,
    *,
    weighed: bool,
) -> tuple[list[CandidatePlan], dict[int, RefusedLoad]]:
    """A draft for each scheme and form, until the time for planning is over, and the loads that
    were ruled out: by `_leave_alone`, which is not asked if the rewrites were requested or
    measured, or because a uniform loop cannot hold them."""
    apart = _leave_alone(trace, arch) if weighed else _make_all
    drafted: dict[tuple[str, bool], CandidatePlan] = {}
    alone: dict[int, RefusedLoad] = {}
    plans = []
    for scheme, form in variants:
        # Legality is the expensive part. It depends on where a scheme tests and on whether loops
        # are uniform, so variants that agree in both share a draft and only differ in style.
        kind = "paper" if scheme in _AS_PAPER else scheme
        key = (kind, form == UNIFORM and bool(loops.uniform))
        if judge.budget.spent(PLANNING):
            break
        if key not in drafted:
            judged = judge.in_step(loops.uniform) if form == UNIFORM else judge
            drafted[key], dropped = without(
                trace, _draft(trace, judged, options, kind, sources), apart
            )
            alone.update((kept.dest.index, kept) for kept in dropped)
        candidate = restyled(drafted[key], scheme, "keep" if form == UNIFORM else form)
        if form == UNIFORM:
            candidate, dropped = without(
                trace, candidate, conflicts_with_uniform_loops(loops.uniform)
            )
            alone.update((kept.dest.index, kept) for kept in dropped)
            candidate = in_uniform_loops(candidate, loops.uniform)
        plans.append(candidate)
    return plans, alone


def reduced(trace: Trace, decision: PlanDecision, right: frozenset[int]) -> PlanDecision:
    """The decision without the rewrites of other loads than these, for which there is no time."""
    candidate = CandidatePlan("", "", decision.plan, decision.kept)
    left, _ = without(trace, candidate, lambda r: None if r.dest in right else OUT_OF_TIME)
    return replace(decision, plan=left.plan, kept=left.kept)


def _of_one(candidate: CandidatePlan, choice: Choice) -> PlanDecision:
    kept = tuple(
        replace(k, reason=choice.reason) if k.reason == _UNDECIDED else k for k in candidate.kept
    )
    return PlanDecision(candidate.plan, kept, choice)


# ---------------------------------------------------------------- choosing


def _chosen(
    trace: Trace,
    copies: CandidatePlan,
    drafts: Sequence[CandidatePlan],
    alone: dict[int, RefusedLoad],
    scale: Scale | None,
    policy: Policy,
    budget: Budget,
) -> PlanDecision:
    """Counts the cost of each variant of each row, has the best picked, and combines them."""
    components = groups([copies, *drafts])
    rows: list[GroupVariants] = []
    homes: list[list[CandidatePlan]] = []  # the draft of each variant of each row
    original = Figures()
    if components:
        counter = Counter(trace, copies.plan.segments)
        original = counter.original()
        variants = [_variants_of(counter, drafts[0], components)]
        for each in drafts[1:]:
            if budget.spent(PLANNING):
                break
            variants.append(_variants_of(counter, each, components))
        drafts = drafts[: len(variants)]
        for number, group in enumerate(components):
            each_draft = [(v[number], draft) for v, draft in zip(variants, drafts, strict=True)]
            pairs = [(variant, draft) for variant, draft in each_draft if variant is not None]
            rows.append(GroupVariants(group.unit, tuple(variant for variant, _ in pairs)))
            homes.append([draft for _, draft in pairs])
    choice = choose(rows, original, scale, policy)
    plan, kept = combine(copies, _parts(components, homes, choice))
    # A load of no row is one that no draft rewrites: what these have against it is the reason.
    inside = frozenset[int]().union(*(group.loads for group in components))
    # The first draft is that of scheme paper, if it may be taken, as `analyze` makes it.
    against = {k.dest.index: k for candidate in reversed(drafts) for k in candidate.kept} | alone
    kept = tuple(
        against.get(k.dest.index, k)
        if k.reason == _UNDECIDED and (k.dest.index in alone or k.dest.index not in inside)
        else k
        for k in kept
    )
    candidate, _ = without(
        trace, CandidatePlan("", "", plan, kept), conflicts_with_uniform_loops(plan.loops)
    )
    return _of_one(candidate, choice)


def _parts(
    rows: Sequence[Component], homes: Sequence[Sequence[CandidatePlan]], choice: Choice
) -> list[tuple[Component, CandidatePlan | None]]:
    return [
        (group, None if pick is None else own[pick])
        for group, own, pick in zip(rows, homes, choice.picks, strict=True)
    ]


def _variants_of(
    counter: Counter, candidate: CandidatePlan, rows: Sequence[Component]
) -> list[Variant | None]:
    """What a draft makes of each row. Lines that serve one row alone are counted there, all
    others shared out over the draft's rewrites."""
    row_of = {load: n for n, group in enumerate(rows) for load in group.loads}
    if not any(_is_rewritten(candidate, rewrite, row_of) for rewrite in candidate.plan.rewrites):
        return [None] * len(rows)
    edits = [
        Added(e.span.start, e.span.end, e.text)
        for e in sorted(
            emit(counter.text, candidate.plan), key=lambda e: (e.span.start, e.span.end)
        )
    ]
    own: dict[int | None, float] = {}
    for edit, lines in zip(edits, counter.lines(edits), strict=True):
        row = row_of.get(counter.index(edit.start)) if candidate.form == "keep" else None
        own[row] = own.get(row, 0.0) + lines
    rewrites: dict[int, list[ServedLoad]] = {}
    for rewrite in candidate.plan.rewrites:
        if rewrite.dest in row_of:
            rewrites.setdefault(row_of[rewrite.dest], []).append(rewrite)
    everything = sum(not r.is_copy for r in candidate.plan.rewrites)
    result: list[Variant | None] = [None] * len(rows)
    for row, of_row in rewrites.items():
        shuffled = [r for r in of_row if not r.is_copy]
        same = candidate.form == UNIFORM and all(r.form != UNIFORM for r in shuffled)
        if not shuffled or same:  # outside of uniform loops the form is keep
            continue
        issued = own.get(row, 0.0) + own.get(None, 0.0) * len(shuffled) / everything
        added = counter.added(candidate.plan, shuffled, issued)
        result[row] = Variant(candidate.scheme, candidate.form, len(of_row), added)
    return result


def _is_rewritten(candidate: CandidatePlan, rewrite: ServedLoad, row_of: Mapping[int, int]) -> bool:
    """Does a load of a row take a shuffle, in the form of the draft?"""
    in_form = candidate.form != UNIFORM or rewrite.form == UNIFORM
    return rewrite.dest in row_of and not rewrite.is_copy and in_form
