"""From the trace of a kernel to the plan that is carried out.

Each scheme is drafted, each draft in each form emitted and counted, `choose` picks, and the rows it
picked are put into one plan. Where only copies can come of it nothing else is drafted: in mode auto
that is known from what was tuned and from the policy of the target's model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ptxsw.codegen.edit import apply
from ptxsw.codegen.emit import emit
from ptxsw.emulator.trace import Trace
from ptxsw.options import FORMS, SCHEMES, Options
from ptxsw.shuffle.choose import ASKED, MODEL, Choice, Policy, Row, Tuned, Way, choose, confirm
from ptxsw.shuffle.combine import Group, combine, groups, restyled, without
from ptxsw.shuffle.cost import PREDICT, Figures, Model, find_model, plain_name
from ptxsw.shuffle.count import Added, Counter
from ptxsw.shuffle.draft import Draft, Kept, draft
from ptxsw.shuffle.flow import CALLED, divergent_arms
from ptxsw.shuffle.legal import Judge
from ptxsw.shuffle.plan import Plan, Rewrite

_UNDECIDED = "not decided yet"
_AS_PAPER = ("paper", "early")  # schemes that need the same of the loads


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done with one kernel, and why."""

    plan: Plan
    kept: tuple[Kept, ...]
    choice: Choice


def decide(trace: Trace, judge: Judge, options: Options, arch: str | None) -> Decision:
    """The plan for one kernel. Raises BadModel where the model of the target is wrong."""
    policy = _policy(trace, options, arch)
    model = None if options.mode == "force" and not _open(options) else find_model(arch)
    copies = _draft(trace, judge, options, "keep")
    if not _shuffles_possible(options, policy, model):
        return _of_one(copies, choose((), Figures(), model, policy))
    apart = _leave_alone(trace, arch)
    drafts = []
    alone: dict[int, Kept] = {}
    for made in _drafts(trace, judge, options, arch):
        kept_draft, dropped = without(trace, made, apart)
        drafts.append(kept_draft)
        alone.update((kept.dest.index, kept) for kept in dropped)
    if len(drafts) == 1 and options.mode == "force":
        choice = Choice((), ASKED, None, "asked for by force")
        plan = replace(drafts[0].plan, unsafe_bound=options.unsafe_bound)
        return _of_one(replace(drafts[0], plan=plan), choice)
    return _chosen(trace, copies, drafts, alone, model, policy)


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
    found = tuned.find(trace.module.source.text[span.start : span.end], arch)
    if found is None:
        return None
    return Tuned(found.scheme, found.form, found.speedup, found.device, found.date)


def _open(options: Options) -> bool:
    """Is there a choice left by what was asked for?"""
    return len(_ways(options, None)) > 1


def _shuffles_possible(options: Options, policy: Policy, model: Model | None) -> bool:
    if options.scheme == "keep" and "uniform" not in FORMS:
        return False
    if options.mode == "force":
        return True
    if policy.tuned is not None:
        return (policy.tuned.scheme, policy.tuned.form) != ("keep", "keep")
    return model is not None and model.policy == PREDICT


def _ways(options: Options, arch: str | None) -> list[tuple[str, str]]:
    """The schemes and forms that may be taken."""
    if options.unsafe_bound is not None:
        return [("paper", "keep")]
    schemes = [s for s in SCHEMES if s not in ("auto", "keep")]
    forms = [f for f in FORMS if f != "auto"]
    if options.scheme != "auto":
        schemes = [options.scheme]
    if options.form != "auto":
        forms = [options.form]
    elif options.scheme == "paper":
        forms = ["keep"]
    return [(scheme, form) for form in forms for scheme in schemes]


def _leave_alone(trace: Trace, arch: str | None) -> Callable[[Rewrite], str | None]:
    """Why a rewrite is not made although it is legal: a shuffle in an arm of a divergent `if`
    becomes a call on some targets, whatever the scheme."""
    name = plain_name(arch)
    arms = divergent_arms(trace) if name and int(name[3:]) in CALLED else frozenset[int]()
    block_of = trace.cfg.block_of

    def reason(rewrite: Rewrite) -> str | None:
        if rewrite.is_copy or block_of[rewrite.dest] not in arms:
            return None
        return f"in an arm of a divergent `if` ptxas would make a call of a shuffle for {arch}"

    return reason


# ---------------------------------------------------------------- drafts


def _draft(trace: Trace, judge: Judge, options: Options, scheme: str) -> Draft:
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
    )


def _drafts(trace: Trace, judge: Judge, options: Options, arch: str | None) -> list[Draft]:
    """A draft for each way, in the order of the forms."""
    known: dict[str, Draft] = {}
    found = []
    for scheme, form in _ways(options, arch):
        kind = "paper" if scheme in _AS_PAPER else scheme
        if kind not in known:
            known[kind] = _draft(trace, judge, options, kind)
        found.append(restyled(known[kind], scheme, form))
    return found


def _of_one(made: Draft, choice: Choice) -> Decision:
    kept = tuple(
        replace(k, reason=choice.reason) if k.reason == _UNDECIDED else k for k in made.kept
    )
    return Decision(made.plan, kept, choice)


# ---------------------------------------------------------------- choosing


def _chosen(
    trace: Trace,
    copies: Draft,
    drafts: Sequence[Draft],
    alone: dict[int, Kept],
    model: Model | None,
    policy: Policy,
) -> Decision:
    """Counts all ways of all rows, has one picked for each, and puts these together."""
    found = groups([copies, *drafts])
    counter = Counter(trace, copies.plan.segments)
    original = counter.original()
    ways = [_ways_of(counter, each, found) for each in drafts]
    rows = []
    homes: list[list[Draft]] = []  # the draft of each way of each row
    for number, group in enumerate(found):
        own = [
            (way, made)
            for each, made in zip(ways, drafts, strict=True)
            if (way := each[number]) is not None
        ]
        rows.append(Row(group.unit, tuple(way for way, _ in own)))
        homes.append([d for _, d in own])
    choice = choose(rows, original, model, policy)
    if choice.by == MODEL and any(p is not None for p in choice.picks):
        assert model is not None
        plan, _ = combine(copies, _parts(found, homes, choice))
        registers = _registers(trace, plan, policy.arch)
        if registers is not None:
            choice = confirm(choice, rows, original, model, registers, policy.min_gain)
    plan, kept = combine(copies, _parts(found, homes, choice))
    kept = tuple(alone.get(k.dest.index, k) if k.reason == _UNDECIDED else k for k in kept)
    return _of_one(Draft("", "", plan, kept), choice)


def _parts(
    found: Sequence[Group], homes: Sequence[Sequence[Draft]], choice: Choice
) -> list[tuple[Group, Draft | None]]:
    return [
        (group, None if pick is None else own[pick])
        for group, own, pick in zip(found, homes, choice.picks, strict=True)
    ]


def _ways_of(counter: Counter, made: Draft, found: Sequence[Group]) -> list[Way | None]:
    """What a draft makes of each row. Lines that serve one row alone are counted there, all
    others shared out over the draft's rewrites."""
    edits = [Added(e.span.start, e.span.end, e.text) for e in emit(counter.text, made.plan)]
    row_of = {load: n for n, group in enumerate(found) for load in group.loads}
    own: dict[int, list[Added]] = {}
    shared = 0.0
    for edit in edits:
        row = row_of.get(counter.index(edit.start)) if made.form == "keep" else None
        if row is None:
            shared += counter.lines(edit)
        else:
            own.setdefault(row, []).append(edit)
    everything = max(1, sum(not r.is_copy for r in made.plan.rewrites))
    result: list[Way | None] = []
    for number, group in enumerate(found):
        rewrites = group.of(made)
        shuffled = [r for r in rewrites if not r.is_copy]
        share = shared * len(shuffled) / everything
        added = counter.added(made.plan, shuffled, own.get(number, ()), share)
        way = Way(made.scheme, made.form, len(rewrites), added)
        result.append(way if shuffled else None)
    return result


def _registers(trace: Trace, plan: Plan, arch: str | None) -> tuple[int, int] | None:
    """Registers of the original and of the rewritten kernel, where there is a ptxas that knows
    the architecture."""
    import subprocess

    from ptxsw.toolchain import ptxas

    text = trace.module.source.text
    name = trace.function.name
    counts = []
    for each in (text, apply(text, emit(text, plan))):
        try:
            made = ptxas.assemble(each, str(plain_name(arch)), timeout=_PATIENCE)
        except (ptxas.NoPtxas, ptxas.AssemblyError, OSError, subprocess.TimeoutExpired):
            return None
        counts += [r.registers for r in made.resources if r.kernel == name]
    return (counts[0], counts[1]) if len(counts) == 2 else None


_PATIENCE = 20.0  # seconds for ptxas, which is asked for advice only
