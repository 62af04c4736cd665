"""Findings of one rule about one line of the source, told once.

    kernel.cu:14:9: warning: The lanes of this load are 256 bytes apart ...
    kernel.cu:14:9: warning: The lanes of this store are 256 bytes apart ...
 =>
    kernel.cu:14:9: warning: The lanes of this load are 256 bytes apart ... The same goes for line
    58 of the PTX.

Compilers unroll loops and split statements, so that one line becomes many instructions; the person
who mends the line needs to hear of it once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from msgspec.structs import replace

from ptxsw.report.model import Finding

_SHOWN = 4  # lines of the PTX that a sentence names


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """The findings, of those that share rule, level, kernel and source line the heaviest alone. It
    has the lines and the weight of all. Where the source line is not known, nothing is merged."""
    groups: dict[Hashable, list[Finding]] = {}
    for number, each in enumerate(findings):
        is_placed = each.file is not None and each.source_line is not None
        place = (each.file, each.source_line) if is_placed else number
        groups.setdefault((each.rule, each.level, each.kernel, place), []).append(each)
    return [_one(sorted(group, key=lambda f: -f.weight)) for group in groups.values()]


def _one(group: Sequence[Finding]) -> Finding:
    first, *others = group
    own = set(first.lines)
    more = sorted({line for each in others for line in each.lines} - own)
    weight = round(sum(each.weight for each in group), 1)
    if not more:
        return replace(first, weight=weight) if others else first
    what = f"{first.what} The same goes for {_lines(more)} of the PTX."
    return replace(first, what=what, weight=weight, lines=(*first.lines, *more))


def _lines(numbers: Sequence[int]) -> str:
    """ "line 58", "lines 58 and 62", "lines 58, 62, 70, 81 and 12 others"."""
    if len(numbers) == 1:
        return f"line {numbers[0]}"
    if len(numbers) <= _SHOWN:
        return f"lines {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"
    rest = len(numbers) - _SHOWN
    return f"lines {', '.join(map(str, numbers[:_SHOWN]))} and {rest} other{'s' * (rest > 1)}"
