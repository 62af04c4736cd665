"""From a kernel to its verdicts: proofs first, then a search for launches that show what is open.

A proof that leans on another rule counts only while that rule is absent. So the rules that it needs
are proved, too, where nobody asked for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from ptxsw.correctness.fault_rules import RULES, FaultRule
from ptxsw.correctness.subject import Subject
from ptxsw.correctness.verdict import NOTHING, Checked, Fault, Proof, Verdict, VerdictKind
from ptxsw.emulator.budget import OutOfTime
from ptxsw.report.model import LEVELS

LIMIT = "limit: the time for this kernel ran out"


def checked(subject: Subject, rules: Iterable[FaultRule] = RULES) -> Checked:
    """The verdicts of some rules on a kernel, and the faults that they found. Raises ParseError."""
    asked = tuple(rules)
    proofs: dict[str, Proof | None] = {}
    with subject.budget:
        pending = [rule.name for rule in asked]
        while pending:
            name = pending.pop(0)
            if name not in proofs:
                proofs[name] = proof = _proof(subject, _named(name))
                needs = proof.needs if proof is not None else frozenset()
                pending += sorted(needs & {rule.name for rule in RULES})
        faults = [f for p in proofs.values() if p is not None for f in p.faults]
        left = {
            name: proof
            for name, proof in proofs.items()
            if proof is not None and _verdict(name, proofs, faults).kind is VerdictKind.UNKNOWN
        }
        shown, not_run = _shown(subject, left)
        faults += _once(shown)
    verdicts = {
        rule.name: _with_reason(_verdict(rule.name, proofs, faults), proofs[rule.name], not_run)
        for rule in asked
    }
    told = [f for f in faults if f.rule in verdicts and verdicts[f.rule].kind is VerdictKind.FOUND]
    told.sort(key=lambda f: (-LEVELS.index(f.level), f.index))
    return Checked(subject.function.name, verdicts, tuple(told))


def _with_reason(verdict: Verdict, proof: Proof | None, not_run: str) -> Verdict:
    """A fault that may be there is a warning only if a run cannot tell; so why none did."""
    suspected = proof is not None and proof.open and not proof.unknown
    if verdict.kind is not VerdictKind.UNKNOWN or not suspected or not not_run:
        return verdict
    return replace(verdict, reason=f"{verdict.reason}; no launch decides it: {not_run}")


def _once(faults: Iterable[Fault]) -> Iterator[Fault]:
    """Of those that need the same of a block, or lanes that do not run in step, one of a rule."""
    told: set[tuple[str, str, bool]] = set()
    for fault in faults:
        key = fault.rule, fault.condition, fault.in_step
        if key not in told or not (fault.condition or fault.in_step):
            told.add(key)
            yield fault


def _named(name: str) -> FaultRule:
    return next(rule for rule in RULES if rule.name == name)


def _proof(subject: Subject, rule: FaultRule) -> Proof | None:
    """None where the kernel has nothing that the rule speaks of."""
    module = rule.load()
    try:
        if not module.occurs(subject):
            return None
        if subject.trace.statistics.timed_out:
            return Proof(unknown=LIMIT)
        proof = module.prove(subject)
        return replace(proof, assumptions=proof.assumptions | subject.assumed)
    except OutOfTime:
        return Proof(unknown=LIMIT)


def _shown(subject: Subject, left: Mapping[str, Proof]) -> tuple[tuple[Fault, ...], str]:
    """The faults that launches show, and why none could be run."""
    if not left:
        return (), ""
    from ptxsw.correctness.witness import search  # with numpy

    found = search(subject, left)
    return found.faults, found.not_run


def _verdict(
    name: str, proofs: Mapping[str, Proof | None], faults: Iterable[Fault],
    above: frozenset[str] = frozenset(),
) -> Verdict:  # fmt: skip
    """`above` are rules that lean on this one. Where rules lean on each other, each proof says that
    its fault is not the first, so all of them hold together."""
    proof = proofs[name]
    if proof is None:
        return Verdict(VerdictKind.ABSENT, NOTHING)
    own = [fault for fault in faults if fault.rule == name]
    leans = next(_leaning(name, proof, proofs, faults, above), None)
    if any(fault.level != "note" or fault.witness is not None for fault in own) or (
        own and leans is None
    ):
        return Verdict(VerdictKind.FOUND, own[0].measure or own[0].what, own[0].condition)
    if proof.unknown or proof.open:
        why = proof.unknown or next((s.why for s in proof.open if s.why), "not decided")
        return Verdict(VerdictKind.UNKNOWN, why)
    if leans is not None:
        return leans
    assumptions = tuple(sorted(proof.assumptions))
    return Verdict(VerdictKind.ABSENT, proof.reason, proof.condition, assumptions)


def _leaning(
    name: str, proof: Proof, proofs: Mapping[str, Proof | None], faults: Iterable[Fault],
    above: frozenset[str],
) -> Iterator[Verdict]:  # fmt: skip
    """That a rule is not absent on which a proof leans."""
    for other in sorted(proof.needs - above - {name}):
        if other not in proofs:
            yield Verdict(VerdictKind.UNKNOWN, f"it leans on {other}, which is not looked for")
            continue
        verdict = _verdict(other, proofs, faults, above | {name})
        if verdict.kind is not VerdictKind.ABSENT:
            yield Verdict(VerdictKind.UNKNOWN, f"it leans on {other}, which is {verdict.kind}")
