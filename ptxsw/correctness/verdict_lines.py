"""What is said of the correctness of each kernel, in a line or two.

sum_rows: no data races (proved for all blocks), no divergent barrier; found: misaligned-access
    not decided: out-of-bounds (the index at line 31 is loaded from memory)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ptxsw.correctness.fault_rules import RULES
from ptxsw.correctness.verdict import NOTHING, VerdictKind
from ptxsw.ptx.cxx_names import readable
from ptxsw.report.model import Kernel, Verdict


def verdict_lines(kernels: Iterable[Kernel]) -> Iterator[tuple[str, str]]:
    """A lead and what follows it, for each line; nothing for a kernel whose verdicts nobody asked
    for."""
    for kernel in kernels:
        if kernel.verdicts is not None:
            words = _words(kernel.verdicts)
            yield f"{readable(kernel.name) or kernel.name}: ", words or "nothing to decide"
            open_ = [
                f"{rule} ({said.reason})"
                for rule, said in kernel.verdicts.items()
                if said.verdict == VerdictKind.UNKNOWN
            ]
            if open_:
                yield "    not decided: ", "; ".join(open_)


def _words(verdicts: Mapping[str, Verdict]) -> str:
    absent: list[str] = []
    found: list[str] = []
    for rule in RULES:
        said = verdicts.get(rule.name)
        if said is None or said.reason == NOTHING:
            continue
        if said.verdict == VerdictKind.ABSENT:
            absent.append(rule.absent + _reasoned(said))
        elif said.verdict == VerdictKind.FOUND:
            found.append(f"{rule.name}" + _reasoned(said))
    parts = [", ".join(absent)] if absent else []
    return "; ".join([*parts, *([f"found: {', '.join(found)}"] if found else [])])


def _reasoned(said: Verdict) -> str:
    parts = [said.reason] if said.reason else []
    parts += [f"if {said.condition}"] if said.condition else []
    return f" ({'; '.join(parts)})" if parts else ""
