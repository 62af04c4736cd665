"""What the checks say of a program, against what its source expects."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import process_time
from typing import Any

import ptxsw
from benchmarks.faults.programs import FAULTY, RULES, Program
from benchmarks.faults.runs import SEEDS, SHOWS, seen
from ptxsw.parser import parse
from ptxsw.ptx.errors import PtxError
from ptxsw.report.model import Finding
from ptxsw.verify.launches import from_json

PREFIX = "ptxsw-"

_ACCESS = r"\b(ld|st|atom|red|cp\.async)\.\S*(global|shared|local)\S*"
_BARRIER = r"\bbar(rier)?\.(cta\.)?(sync|red|arrive)"
_OCCURS: Mapping[str, str] = {
    "data-race": r"\b(st|red|atom|cp\.async)\.(?!local|param|wait|commit)",
    "divergent-barrier": _BARRIER,
    "warp-mask": r"\b(shfl|vote|match|redux|elect)\.\S*sync|\bbar\.warp\.sync|\bactivemask",
    "out-of-bounds": r"\.(shared|local|const)\S*\s+[^;]*\[",
    "misaligned-access": _ACCESS + r"(?<![.][bsu]8)\s",
    "index-overflow": r"\b(ld|st|atom|red|cp\.async)\.\S*global",
    "undefined-value": r"\b(st|red|atom|bra|cp\.async)\b",
    "deadlock": rf"{_BARRIER}|\.sync\b|\bld\.(volatile|acquire|relaxed)|\batom\.",
    "async-wait": r"\bcp\.async\.c",
    "redundant-barrier": r"\bbar(rier)?\.(cta\.)?(sync|red)",
    "ptxas-warning": r"\bwgmma\.|\bsetmaxnreg\.",
}
"""By rule, what a text has that could have the fault."""


@dataclass(frozen=True)
class Judged:
    """Of one text. `found`: is the fault named on its line? `besides` is what else is said, which
    no source calls true; `replayed` says of each witness whether a run shows the fault."""

    program: Program
    twin: str
    found: bool
    besides: tuple[str, ...]
    replayed: tuple[bool, ...]
    verdicts: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # verdict, reason
    seconds: float = 0.0
    problem: str = ""

    @property
    def faulty(self) -> bool:
        return bool(self.program.faults) and self.twin == FAULTY

    @property
    def denied(self) -> bool:
        """Is there a fault that is proved absent?"""
        return self.faulty and self.verdicts.get(self.program.rule, ("", ""))[0] == "absent"

    def pairs(self) -> Mapping[str, tuple[str, str]]:
        """The verdicts of rules whose instructions occur in the text."""
        text = self.program.path(self.twin).read_text()
        return {rule: self.verdicts.get(rule, ("unknown", "no verdict"))
                for rule in RULES if occurs(rule, text)}  # fmt: skip


def occurs(rule: str, text: str) -> bool:
    """Has a text instructions that could have the fault of a rule?"""
    code = re.sub(r"//.*", "", text)
    return bool(re.search(_OCCURS[rule], code))


def judged(program: Program, twin: str, ask: Callable[..., Any] = ptxsw.check) -> Judged:
    """Asks the checks about one text."""
    text = program.path(twin).read_text()
    launches = {"": program.given} if program.given is not None else {}
    begin = process_time()
    try:
        report = ask(
            text, program.path(twin).name, select="correctness", block=program.block,
            launches=launches,
        )  # fmt: skip
    except (PtxError, ValueError) as error:
        return Judged(program, twin, False, (), (), problem=str(error))
    seconds = process_time() - begin
    [kernel] = report.kernels
    own = [(f, f.rule.removeprefix(PREFIX)) for f in kernel.findings or ()]
    named = [rule == program.rule and line(f) in program.faults for f, rule in own]
    found = any(named) and twin == FAULTY
    besides = tuple(
        _said(f, rule)
        for (f, rule), it in zip(own, named, strict=True)
        if not (it and twin == FAULTY) and (line(f), rule) not in program.true
    )
    replayed = tuple(_replays(text, f, rule) for f, rule in own if f.witness is not None)
    verdicts = {rule: (v.verdict, v.reason) for rule, v in (kernel.verdicts or {}).items()}
    problem = report.warning or ""
    if kernel.failed is not None:
        problem = str(kernel.failed)
    return Judged(program, twin, found, besides, replayed, verdicts, seconds, problem)


def _said(finding: Finding, rule: str) -> str:
    return f"{finding.level} {rule} at {line(finding)}: {finding.what}"


def line(finding: Finding) -> int:
    """In the source: of the PTX where there is no other."""
    return finding.source_line or finding.line


def _replays(text: str, finding: Finding, rule: str) -> bool:
    """Does a run of the witness show the fault?"""
    [launch] = from_json(json.dumps(finding.witness))
    module = parse(text)
    for seed in SEEDS:
        try:
            if any(each.rule in SHOWS.get(rule, {rule}) for each in seen(module, launch, seed)):
                return True
        except PtxError:
            return False
    return False
