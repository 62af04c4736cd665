"""Verdicts and faults of a kernel as its report has them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from msgspec.structs import replace

from ptxsw.correctness.deciding import checked
from ptxsw.correctness.drawing import drawing
from ptxsw.correctness.fault_rules import RULES
from ptxsw.correctness.subject import Subject
from ptxsw.correctness.verdict import Fault, Verdict
from ptxsw.report import model

_PREFIX = "ptxsw-"


def judged(
    subject: Subject,
    names: Collection[str],
    kernel: model.Kernel | None = None,
    named: Callable[[str], str] = lambda words: words,
) -> model.Kernel:
    """The report of a kernel with what the rules of these full names say of it: before what
    `kernel` says already, if that is given. `named` puts the source's names for `param_0`. Raises
    ParseError."""

    def told(words: str) -> str:
        return named(words.replace(f"{subject.function.name}_param_", "param_"))

    found = checked(subject, [rule for rule in RULES if rule.full_name in names])
    every = (_renamed(finding(subject, fault), told) for fault in found.faults)
    findings = tuple(_joined(every))
    verdicts = {rule: _said(verdict, told) for rule, verdict in found.verdicts.items()}
    if kernel is None:
        count = subject.trace.statistics.instructions
        name, loads = subject.function.name, len(subject.trace.global_loads)
        return model.Kernel(name, loads, instructions=count, findings=findings, verdicts=verdicts)
    return replace(kernel, findings=(*findings, *(kernel.findings or ())), verdicts=verdicts)


def _joined(findings: Iterable[model.Finding]) -> Iterator[model.Finding]:
    """One of those that a rule has on one line of the source, of which a compiler made several
    instructions: the first, with the lines of all."""
    groups: dict[tuple[object, ...], list[model.Finding]] = {}
    for one in findings:
        place = (one.file, one.source_line) if one.source_line else (None, one.line)
        groups.setdefault((one.rule, one.level, *place), []).append(one)
    for first, *others in groups.values():
        lines = dict.fromkeys(line for one in (first, *others) for line in one.lines)
        yield replace(first, lines=tuple(lines))


def _said(verdict: Verdict, told: Callable[[str], str]) -> model.Verdict:
    reason, condition = told(verdict.reason), told(verdict.condition)
    return model.Verdict(verdict.kind.value, reason, condition, verdict.assumptions)


def _renamed(finding: model.Finding, told: Callable[[str], str]) -> model.Finding:
    return replace(
        finding, measure=told(finding.measure), what=told(finding.what),
        advice=told(finding.advice), drawing=tuple(map(told, finding.drawing)),
        condition=finding.condition and told(finding.condition),
    )  # fmt: skip


def finding(subject: Subject, fault: Fault) -> model.Finding:
    """A fault on its line: that of the access which comes second, as a reader would mend it."""
    instruction = subject.cfg.instructions[fault.index]
    source = subject.module.source
    line, column = source.place(instruction.span.start)
    place = subject.places.get(fault.index)
    lines = tuple(
        dict.fromkeys(subject.line(i) for i in (fault.index, fault.other) if i is not None)
    )
    return model.Finding(
        _PREFIX + fault.rule, fault.level, subject.function.name, line, column,
        fault.measure or fault.rule, _sentence(fault.what), _sentence(fault.advice), 0.0,
        file=place.file if place else None,
        source_line=place.line if place else None,
        source_column=(place.column or None) if place else None,
        lines=lines,
        condition=fault.condition or None,
        witness=None if fault.witness is None else fault.witness.json(),
        threads=fault.threads,
        drawing=drawing(subject, fault),
    )  # fmt: skip


def _sentence(words: str) -> str:
    """With a capital letter and a full stop."""
    end = "" if words.endswith((".", "?", "!")) else "."
    first = words[:1] if words.startswith(("ptxas", "`")) else words[:1].upper()
    return f"{first}{words[1:]}{end}"
