"""Verdicts and faults of a kernel as its report has them."""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from ptxsw.correctness.deciding import checked
from ptxsw.correctness.drawing import drawing
from ptxsw.correctness.fault_rules import RULES
from ptxsw.correctness.subject import Subject
from ptxsw.correctness.verdict import Fault, Verdict
from ptxsw.report import model
from ptxsw.report.source_places import source_places

_PREFIX = "ptxsw-"


def judged(
    subject: Subject, names: Collection[str], kernel: model.Kernel | None = None
) -> model.Kernel:
    """The report of a kernel with what the rules of these full names say of it: behind what
    `kernel` says already, if that is given. Raises ParseError."""
    found = checked(subject, [rule for rule in RULES if rule.full_name in names])
    findings = tuple(finding(subject, fault) for fault in found.faults)
    verdicts = {rule: _said(verdict) for rule, verdict in found.verdicts.items()}
    if kernel is None:
        count = subject.trace.statistics.instructions
        name, loads = subject.function.name, len(subject.trace.global_loads)
        return model.Kernel(name, loads, instructions=count, findings=findings, verdicts=verdicts)
    return replace(kernel, findings=(*findings, *(kernel.findings or ())), verdicts=verdicts)


def _said(verdict: Verdict) -> model.Verdict:
    return model.Verdict(verdict.kind.value, verdict.reason, verdict.condition, verdict.assumptions)


def finding(subject: Subject, fault: Fault) -> model.Finding:
    """A fault on its line: that of the access which comes second, as a reader would mend it."""
    instruction = subject.cfg.instructions[fault.index]
    source = subject.module.source
    line, column = source.place(instruction.span.start)
    place = source_places(subject.trace).get(fault.index)
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
    return f"{words[:1].upper()}{words[1:]}{end}"
