"""What became of a kernel, as a report says it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ptxsw.changes.plan import ServedLoad, UniformLoop
from ptxsw.ptx.patterns import pattern
from ptxsw.report import model
from ptxsw.report.figures import shown
from ptxsw.rewrites.base import RefusedSource

if TYPE_CHECKING:
    from ptxsw.changes.change import Change, Refusal
    from ptxsw.changes.plan import Proof, WrapGuard
    from ptxsw.cost.accesses import KernelFigures
    from ptxsw.cost.account import Account
    from ptxsw.cost.decide import Decision
    from ptxsw.driver.kernel_state import KernelState
    from ptxsw.ptx.failures import Failure
    from ptxsw.ptx.ir import Function, Module
    from ptxsw.rewrites.base import Attempt


_NO_SHUFFLES = "shuffles were not considered"


def kernel_report(progress: KernelState) -> model.Kernel:
    """The kernel with all that was done to it, without its accesses."""
    trace = progress.original
    loads = trace.global_loads
    name, executed = trace.function.name, trace.statistics.instructions
    taken = [c.detail for attempt in progress.attempts for c in attempt.changes]
    served = [detail for detail in taken if isinstance(detail, ServedLoad)]
    copies = sum(rewrite.is_copy for rewrite in served)
    deltas = [abs(rewrite.delta) for rewrite in served]
    return model.Kernel(
        name,
        len(loads),
        len(served) - copies,
        copies,
        round(sum(deltas) / len(deltas), 4) if deltas else None,
        executed,
        rewrites=tuple(one for attempt in progress.attempts for one in _rewrites(attempt)),
        refusals=(
            *(one for attempt in progress.attempts for one in _refusals(attempt)),
            *_nothing_found(progress),
        ),
        choice=_choice(progress),
        loops=tuple(sorted(
            (one for each in progress.attempts for one in _loops(each)), key=lambda loop: loop.line
        )) or None,
        decision=None if progress.decision is None else _decision(progress.decision),
    )  # fmt: skip


def _decision(decision: Decision) -> model.Decision:
    both = zip((decision.before, decision.after), decision.figures, strict=True)
    before, after = (None if one is None else _cost(one, figures) for one, figures in both)
    return model.Decision(decision.kept, decision.by, decision.reason, before, after)


def _cost(account: Account, figures: KernelFigures | None) -> model.Cost:
    return model.Cost(
        account.registers,
        account.local,
        account.shared,
        {str(threads): round(share, 4) for threads, share in account.occupancy.items()},
        round(account.instructions.low, 1),
        round(account.wavefronts.low, 1),
        round(account.ends.busiest, 1),
        None if account.ends.is_open else round(account.ends.sum, 1),
        None if figures is None else shown(figures),
    )


def _choice(progress: KernelState) -> model.Choice | None:
    """Why the kernel's rewrites are these; None where none had anything to say."""
    choices = tuple(_of_each_rewrite(progress))
    for attempt in progress.attempts:
        if attempt.choice is not None:
            gain = attempt.choice.gain
            percent = None if gain is None else round(100 * gain, 2)
            return model.Choice(attempt.choice.by, percent, attempt.choice.reason, choices)
    forced = any(attempt.kernel.options.mode == "force" for attempt in progress.attempts)
    return (
        model.Choice("asked" if forced else "model", None, _NO_SHUFFLES, choices)
        if choices
        else None
    )


def _of_each_rewrite(progress: KernelState) -> Iterator[model.RewriteChoice]:
    """How many changes of each rewrite stay and why, or why none does."""
    decision = progress.decision
    kept = decision.reason if decision is not None and decision.kept else "it is proved"
    reasons: dict[str, Counter[str]] = {}
    changes = Counter(change.rewrite for each in progress.attempts for change in each.changes)
    for attempt in progress.attempts:
        for refusal in attempt.refusals:
            reasons.setdefault(refusal.rewrite, Counter())[refusal.reason] += 1
    for name, reason in (*progress.skipped.items(), *progress.nothing_found.items()):
        reasons.setdefault(name, Counter())[reason] += 1
    for name in dict.fromkeys((*changes, *reasons)):
        reason = kept if changes[name] else reasons[name].most_common(1)[0][0]
        yield model.RewriteChoice(name, changes[name], reason)


def _loops(attempt: Attempt) -> Iterator[model.Loop]:
    """Loops that became uniform, and those that were to."""
    for change in attempt.changes:
        if isinstance(change.detail, UniformLoop):
            yield model.Loop(attempt.line(change.at), "uniform", None)
    for refusal in attempt.refusals:
        if refusal.rewrite == "uniform-loops":
            yield model.Loop(attempt.line(refusal.at), "keep", refusal.reason)


def _refusals(attempt: Attempt) -> Iterator[model.Refusal]:
    for refusal in attempt.refusals:
        if refusal.rewrite != "uniform-loops":
            yield _refusal(attempt, refusal)


def _nothing_found(progress: KernelState) -> Iterator[model.Refusal]:
    """Rewrites that were named and found nothing, with the line where the kernel begins."""
    module, function = progress.excerpt.module, progress.excerpt.function
    line = module.source.line(function.span.start)
    for name, reason in progress.nothing_found.items():
        yield model.Refusal(line, None, None, reason, name)


def _refusal(attempt: Attempt, refusal: Refusal) -> model.Refusal:
    source = refusal.detail if isinstance(refusal.detail, RefusedSource) else None
    facts = {} if source or not refusal.detail else dict(refusal.detail.facts(attempt.line))
    return model.Refusal(
        attempt.line(refusal.at),
        None if source is None else attempt.line(source.index),
        None if source is None else source.delta,
        refusal.reason,
        refusal.rewrite,
        facts,
    )


def _rewrites(attempt: Attempt) -> Iterator[model.Rewrite]:
    """An entry for each change that is one of an instruction."""
    for change in attempt.changes:
        detail = change.detail
        if isinstance(detail, ServedLoad):
            yield _served(attempt, change, detail)
        elif change.rewrite not in ("shuffle", "uniform-loops"):
            facts = dict(detail.facts(attempt.line))
            yield model.Rewrite(
                line=attempt.line(change.at),
                proof=_proof(attempt, change.proof),
                rewrite=change.rewrite,
                detail=facts,
            )


def _served(attempt: Attempt, change: Change, rewrite: ServedLoad) -> model.Rewrite:
    """A load that takes its value from a register, or from another lane."""
    proof = _proof(attempt, rewrite.proof)
    if not rewrite.is_copy:
        guards = (*proof.guards, "whole warp")
        proof = model.Proof(proof.status, proof.assumptions, guards)
    return model.Rewrite(
        line=attempt.line(rewrite.dest),
        source_line=attempt.line(rewrite.source),
        delta=rewrite.delta,
        scheme=rewrite.scheme,
        form=rewrite.form,
        proof=proof,
        parts=_parts(attempt, rewrite),
        rewrite=change.rewrite,
        detail=dict(rewrite.facts(attempt.line)),
    )


def _sums(attempt: Attempt, guards: Sequence[WrapGuard]) -> Iterator[tuple[str, int]]:
    """The sums that are tested, with their lines; what is added and taken away is said at once."""
    for guard in guards:
        moved = f"{guard.reg.name}{_added(guard.addend)}"
        if replace(guard, step=-guard.step) not in guards:
            yield f"{moved}{_added(guard.step)}", attempt.line(guard.index)
        elif guard.step > 0:
            yield f"{moved} ± {guard.step}", attempt.line(guard.index)


def _proof(attempt: Attempt, proof: Proof) -> model.Proof:
    guards = [
        f"{moved} does not wrap (line {line})" for moved, line in _sums(attempt, proof.guards)
    ]
    if proof.block_shape:
        guards.append("no row of the block wraps inside a warp")
    guards += [
        f"{s.reg.name} in lane i{s.delta:+} is {s.reg.name}{_added(s.step)}"
        + (", and does not point to local memory" if s.pointer else "")
        for s in proof.steps
    ]
    guards += proof.tests
    tested = proof.guards or proof.steps or proof.tests
    status = "guarded" if tested else "assumed" if proof.assumptions else "proved"
    return model.Proof(status, proof.assumptions, tuple(guards))


def _parts(attempt: Attempt, rewrite: ServedLoad) -> tuple[model.Part, ...]:
    """Nothing where the one source and its lane say it all."""
    if len(rewrite.parts) == 1 and not rewrite.parts[0].mirror and not rewrite.parts[0].element:
        return ()
    return tuple(
        model.Part(attempt.line(part.source), part.element, part.delta, part.mirror)
        for part in rewrite.parts
    )


def _added(value: int) -> str:
    return f" {'-' if value < 0 else '+'} {abs(value)}" if value else ""


def failed_report(module: Module, function: Function, failed: Failure) -> model.Kernel:
    """A kernel that was not finished for a fault of ptxsw."""
    waiting = waiting_report(module, function)
    return model.Kernel(waiting.name, waiting.loads, failed=failed)


# ---------------------------------------------------------------- before anything is known

_NO_TIME = "the time for the file ran out before this kernel was finished"
_LOADS = pattern(
    r"""//[^\n]* | /\*.*?\*/
      | (?<![\w.$%]) (?P<load>ld\.(?![\w.:]*\b(?:param|shared|local|const)\b))""",
    re.DOTALL | re.VERBOSE,
)


def waiting_report(module: Module, function: Function) -> model.Kernel:
    """A kernel of which nothing is known but its text."""
    text, span = module.source.text, function.span
    loads = [m.start() for m in _LOADS.finditer(text, span.start, span.end) if m["load"]]
    return model.Kernel(
        function.name, len(loads), 0, 0, rewrites=(),
        refusals=tuple(
            model.Refusal(module.source.line(at), None, None, _NO_TIME) for at in loads
        ),
    )  # fmt: skip
