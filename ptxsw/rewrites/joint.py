"""Load elimination, uniform loops and shuffles are planned together: a shuffle may need its loop to
be uniform, and a row of loads takes copies and shuffles alike. The last of them that is considered
plans for all.

Loads are rewritten in one scheme and form: those that were asked for or measured, or else scheme
`paper`, uniform where lanes leave a loop in different iterations. In mode auto nothing is drafted
but copies where a shuffle cannot pay, and what ptxas makes of the rest decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ptxsw.analysis.coalescing import LANES, lane_stride, touched
from ptxsw.analysis.divergence import CALLED, divergent_regions
from ptxsw.analysis.lane_reuse import Places
from ptxsw.changes.change import Change, Refusal
from ptxsw.changes.options import FORMS, SCHEMES, Options
from ptxsw.changes.plan import Plan, Proof, ServedLoad
from ptxsw.codegen.emit import as_plan, emit
from ptxsw.codegen.lower_load_elimination import JoinedLoad, KeptValue
from ptxsw.codegen.splice import Edit
from ptxsw.codegen.version_region import as_written
from ptxsw.emulator.budget import OUT_OF_TIME, PLANNING
from ptxsw.emulator.trace import Access, Trace
from ptxsw.ptx.ir import Special
from ptxsw.ptx.target import plain_name
from ptxsw.rewrites.base import (
    ASKED,
    LOAD_ELIMINATION,
    MODEL,
    SHUFFLE,
    TOGETHER,
    TUNED,
    UNIFORM_LOOPS,
    Attempt,
    Choice,
    Kernel,
    Outcome,
    RefusedSource,
)
from ptxsw.shuffle.candidate_plan import (
    CandidatePlan,
    LoadSources,
    RefusedLoad,
    draft,
    load_sources,
    without,
)
from ptxsw.shuffle.legality import Legality
from ptxsw.shuffle.uniform_loops import LoopChoices, uniform_loops

if TYPE_CHECKING:
    from ptxsw.toolchain.tuned import Tuned

AUTO, KEEP, UNIFORM = "auto", "keep", "uniform"
_COPIES_ONLY = "scheme keep only makes copies"
_BY_PTXAS = "ptxas's output for shuffles decides"
_COPIES_FIRST = "loads of the kernel become copies, which are weighed without shuffles"
_NO_NEIGHBOUR = "no load is known to read what another lane loads"
_NO_WAVEFRONT_LESS = (
    "a shuffle and the load at the edge take as many passes of the memory pipe as this load"
)
_FORCE = "force rewrites it"
_HALF = 16  # lanes: rows of so many threads are as usual as those of a whole warp
_VOLTA = 70  # from here on lanes have a program counter each
_WORD, _LINE = 4, 128  # bytes that a shuffle moves for a lane, and of a wavefront

Style = tuple[str, str]
"""Scheme and form."""


def is_planned(attempt: Attempt) -> bool:
    """Do all changes of the attempt belong to the joint plan?"""
    alone = any(isinstance(change.detail, KeptValue | JoinedLoad) for change in attempt.changes)
    return attempt.rewrite in TOGETHER and not alone


def find(kernel: Kernel) -> Iterator[Outcome]:
    """The changes of all of these rewrites that are considered."""
    if kernel.trace.statistics.timed_out:
        reason = f"the symbolic run took more than {kernel.options.budget_s:g} s"
        name = _of_loads(kernel)
        yield from (Refusal(name, load.index, reason) for load in kernel.trace.global_loads)
        return
    trace, budget = kernel.trace, kernel.budget
    style, choice = _style(kernel)
    places = Places(trace)
    sources = load_sources(trace, kernel.options.max_delta, places, budget)
    if choice.by == MODEL:
        hopeless = _hopeless(kernel, sources)
        style, choice = (style, choice) if hopeless is None else (None, hopeless)
    loops = LoopChoices((), ())
    if style is not None and style[1] in (UNIFORM, AUTO) and not budget.spent(PLANNING):
        loops = uniform_loops(trace)
    judge = Legality(
        trace, kernel.solver, kernel.options.assume, budget, loops=loops.uniform, places=places,
        block=kernel.function.block_shape or kernel.block,
    )  # fmt: skip
    drafted = _drafted(kernel, judge, sources, style, choice)
    plan = as_written(drafted.plan)
    if LOAD_ELIMINATION not in kernel.considered:
        plan = replace(plan, rewrites=tuple(r for r in plan.rewrites if not r.is_copy))
    yield from changes(plan, judge if kernel.options.smt2 else None)
    yield from (refusal(kernel, kept) for kept in drafted.kept)
    for loop in loops.kept:
        yield Refusal(UNIFORM_LOOPS, loop.header, loop.reason)
    yield choice


def _of_loads(kernel: Kernel) -> str:
    """The rewrite that says why loads stay as they are."""
    copies_alone = SHUFFLE not in kernel.considered and LOAD_ELIMINATION in kernel.considered
    return LOAD_ELIMINATION if copies_alone else SHUFFLE


def refusal(kernel: Kernel, kept: RefusedLoad) -> Refusal:
    """A load that stays as it is."""
    candidate = kept.candidate
    source = RefusedSource(candidate.source.index, candidate.delta) if candidate else None
    return Refusal(_of_loads(kernel), kept.dest.index, kept.reason, source)


# ---------------------------------------------------------------- scheme and form


def _style(kernel: Kernel) -> tuple[Style | None, Choice]:
    """The scheme and form in which loads are rewritten, None where only copies are made, and why.
    Form auto is uniform in those loops that need it for a shuffle, and keep elsewhere."""
    options, force = kernel.options, kernel.options.mode == "force"
    uniform = UNIFORM_LOOPS in kernel.considered
    if SHUFFLE not in kernel.considered:
        form = UNIFORM if uniform and force else options.form
        options = replace(options, scheme=KEEP, form=form)
    before_volta = _number(kernel.arch) < _VOLTA
    uniform &= not before_volta
    tuned = None if force else _tuned(kernel)
    if tuned is not None:
        return _as_tuned(tuned, options, uniform)
    form = options.form
    if options.scheme == KEEP:
        style = (KEEP, UNIFORM) if force and uniform and form == UNIFORM else None
        choice = Choice(ASKED, None, _COPIES_ONLY)
    else:
        if form == AUTO:
            form = AUTO if uniform and options.scheme != "paper" else KEEP
        style = "paper" if options.scheme == AUTO else options.scheme, form
        if form == UNIFORM and not uniform:
            style = style[0], KEEP
        choice = Choice(ASKED, None, "requested by mode force")
        choice = choice if force else Choice(MODEL, None, _BY_PTXAS)
    if form == UNIFORM and before_volta:
        choice = replace(choice, reason=f"{choice.reason}; there is no form uniform before sm_70")
    return style, choice


def _tuned(kernel: Kernel) -> Tuned | None:
    """What `ptxsw tune` found out about the kernel."""
    if kernel.arch is None:
        return None
    from ptxsw.toolchain import tuned

    return tuned.find(kernel.module.source.slice(kernel.function.span), kernel.arch)


def _as_tuned(tuned: Tuned, options: Options, uniform: bool) -> tuple[Style | None, Choice]:
    place = f"measured on {tuned.device} ({tuned.date})"
    style, gain = (tuned.scheme, tuned.form), tuned.speedup - 1
    if style == (KEEP, KEEP):
        return None, Choice(TUNED, 0.0, f"{place}: nothing beats the original")
    faster = f"{place}: {tuned.speedup:.3f} times as fast with"
    if not tuned.form:
        return None, Choice(TUNED, 0.0, f"{faster} {tuned.scheme}")
    faster = f"{faster} scheme {tuned.scheme}, form {tuned.form}"
    least = options.min_gain
    if least is not None and gain * 100 < least:
        return None, Choice(TUNED, 0.0, f"{faster}, less than the required {least:g}%")
    asked = options.scheme in (AUTO, tuned.scheme) and options.form in (AUTO, tuned.form)
    known = AUTO not in style and tuned.scheme in SCHEMES and tuned.form in FORMS
    if not asked or not known or (tuned.form == UNIFORM and not uniform):
        return None, Choice(TUNED, 0.0, f"{faster}, which cannot be made here")
    if tuned.scheme == KEEP:
        faster = f"{faster}; {_COPIES_ONLY}"
    return style, Choice(TUNED, gain, faster)


def _number(arch: str | None) -> int:
    """The number of an architecture: 80 for sm_80."""
    name = plain_name(arch)
    return int(name[3:]) if name else 0


# ---------------------------------------------------------------- the draft


def _drafted(
    kernel: Kernel, judge: Legality, sources: LoadSources, style: Style | None, choice: Choice
) -> CandidatePlan:
    """All that is legal in the scheme and form. In mode auto without what cannot pay."""
    options, trace = kernel.options, kernel.trace
    scheme, form = style or (KEEP, KEEP)
    drafted = draft(
        trace, judge, sources=sources, max_delta=options.max_delta,
        scheme="paper" if scheme == KEEP else scheme, form=KEEP if form == AUTO else form,
        hoist=scheme == "halo" if options.hoist is None else options.hoist,
        why_not=choice.reason if scheme == KEEP else None,
    )  # fmt: skip
    if choice.by == MODEL and scheme != KEEP:
        spent = judge.budget.spent(PLANNING)
        drafted = without(
            trace, drafted, _all_shuffles(OUT_OF_TIME) if spent else _leave_alone(kernel)
        )
        if any(rewrite.is_copy for rewrite in drafted.plan.rewrites):
            drafted = without(trace, drafted, _all_shuffles(_COPIES_FIRST))
    if form == AUTO:
        needed = drafted.plan.only({rewrite.dest for rewrite in drafted.plan.rewrites})
        drafted = replace(drafted, plan=needed)
    return drafted


def _all_shuffles(reason: str) -> Callable[[ServedLoad], str | None]:
    return lambda rewrite: None if rewrite.is_copy else reason


def _hopeless(kernel: Kernel, sources: LoadSources) -> Choice | None:
    """The choice to make no shuffles, if the loads alone show that none can pay. That saves
    drafting."""
    shuffled = [
        access
        for access, elements in sources
        if any(candidate.crosses for element in elements for candidate in element)
    ]
    if not shuffled:
        return Choice(MODEL, None, _NO_NEIGHBOUR)
    from ptxsw.cost.counted import cannot_count

    reason = cannot_count(kernel.arch)
    if reason is not None:
        reason = f"the register cost of shuffles is not known: {reason}"
    elif not any(_exceeds_shuffles(kernel.trace, access) for access in shuffled):
        reason = _NO_WAVEFRONT_LESS
    return None if reason is None else Choice(MODEL, None, f"{reason}; {_FORCE}")


def _exceeds_shuffles(trace: Trace, load: Access) -> bool:
    """Does a load take more wavefronts than its shuffles, and the load in the lanes at the edge?"""
    stride = lane_stride(trace.unwrapped, load)
    if stride is None:
        return True
    lines = len(touched([lane * stride for lane in range(LANES)], load.bytes, _LINE))
    return max(lines, LANES * load.bytes // _LINE) > max(1, load.bytes // _WORD) + 1


def _leave_alone(kernel: Kernel) -> Callable[[ServedLoad], str | None]:
    """Why mode auto does not make a legal rewrite. In an arm of a divergent `if`, a shuffle becomes
    a call on some targets. And if the shape of the block is unknown, rows of 16 threads, in which
    no lane would be served, are as likely as rows of a whole warp."""
    trace, arch = kernel.trace, kernel.arch
    arms = divergent_regions(trace) if _number(arch) in CALLED else frozenset[int]()
    rows = any(Special("%tid.y") in instruction.operands for instruction in trace.cfg.instructions)
    block_of = trace.cfg.block_of
    accesses = {access.index: access for access in trace.accesses}

    def reason(rewrite: ServedLoad) -> str | None:
        if rewrite.is_copy:
            return None
        if block_of[rewrite.dest] in arms:
            return f"in an arm of a divergent `if`, ptxas turns a shuffle into a call for {arch}"
        far = any(abs(part.delta) >= _HALF and not part.mirror for part in rewrite.parts)
        if far and rewrite.proof.block_shape and rows:
            return (
                "lanes half a warp apart may be in different rows of the block: "
                "the kernel uses %tid.y"
            )
        if not _exceeds_shuffles(trace, accesses[rewrite.dest]):
            return f"{_NO_WAVEFRONT_LESS}; {_FORCE}"
        return None

    return reason


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
    return emit(kernel.text, as_plan(kernel.function, kernel.trace.cfg, changes))
