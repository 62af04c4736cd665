"""What is said of the correctness of each kernel, in a line or two.

sum_rows: no data races (proved for all blocks), no divergent barrier; found: misaligned-access
    not decided: out-of-bounds (the index at line 31 is loaded from memory)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ptxsw.correctness.fault_rules import RULES
from ptxsw.correctness.verdict import NOTHING, Assumption, VerdictKind
from ptxsw.ptx.cxx_names import readable
from ptxsw.report.model import Kernel, Verdict

_UNUSED = "assuming that dimensions it never reads are 1"
"""The assumption that a user may not expect: others are in the documentation and in the JSON."""


def verdict_lines(kernels: Iterable[Kernel]) -> Iterator[tuple[str, str]]:
    """A lead and what follows it, for each line; nothing for a kernel whose verdicts nobody asked
    for."""
    for kernel in kernels:
        if kernel.verdicts is not None:
            words = _words(kernel, kernel.verdicts)
            name = f"{readable(kernel.name) or kernel.name}: "
            open_ = [
                f"{rule} ({said.reason})"
                for rule, said in kernel.verdicts.items()
                if said.verdict == VerdictKind.UNKNOWN
            ]
            if words or not open_:
                yield name, words or "nothing to decide"
            if open_:
                lead = "    " if words else name
                yield f"{lead}not decided: ", "; ".join(open_)


def _words(kernel: Kernel, verdicts: Mapping[str, Verdict]) -> str:
    absent: list[str] = []
    found: list[str] = []
    told: set[str] = set()  # reasons: each once
    for rule in RULES:
        said = verdicts.get(rule.name)
        if said is None or said.reason == NOTHING:
            continue
        if said.verdict == VerdictKind.ABSENT:
            absent.append(rule.absent + _reasoned(said, told))
        elif said.verdict == VerdictKind.FOUND:
            found.append(f"{rule.name}{_places(kernel, rule.full_name)}")
    parts = [", ".join(absent)] if absent else []
    return "; ".join([*parts, *([f"found: {', '.join(found)}"] if found else [])])


def _places(kernel: Kernel, rule: str) -> str:
    """The lines of what was found, of the source where it is known."""
    own = [f for f in kernel.findings or () if f.rule == rule]
    if own and all(f.level == "note" for f in own):
        return f" ({own[0].measure})"
    lines = dict.fromkeys(f.source_line or f.line for f in own)
    return f" (line{'s' * (len(lines) > 1)} {', '.join(map(str, lines))})" if lines else ""


def _reasoned(said: Verdict, told: set[str]) -> str:
    parts = [said.reason] if said.reason and said.reason not in told else []
    told.add(said.reason)
    if Assumption.UNUSED_DIMENSIONS in said.assumptions and _UNUSED not in told:
        told.add(_UNUSED)
        parts.append(_UNUSED)
    parts += [f"if {said.condition}"] if said.condition else []
    return f" ({'; '.join(parts)})" if parts else ""
