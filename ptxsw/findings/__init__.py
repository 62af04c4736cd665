"""What costs a kernel most, and what to do about it: rules, each with its measure.

A rule looks at a `Scene`, a kernel that was run symbolically, and yields findings. They share one
unit (`cost`), so that the first of a list is the one to look at first. Rules that share their
reasoning share a file.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from msgspec.structs import replace

from ptxsw.findings.atomic_contention import atomic_contention
from ptxsw.findings.bank_conflicts import bank_conflicts
from ptxsw.findings.base import LEVELS, KernelResources, Rule, Scene
from ptxsw.findings.divergent_lanes import divergent_branch, divergent_loop
from ptxsw.findings.loop_work import uniform_loads, wide_division
from ptxsw.findings.misaligned_rows import misaligned_rows
from ptxsw.findings.occupancy import idle_lanes, occupancy
from ptxsw.findings.register_use import launch_bounds, local_array, register_ceiling, spills
from ptxsw.findings.repeated_loads import may_alias, neighbour_loads, repeated_loads
from ptxsw.findings.wasted_sectors import array_of_structs, column, scalar_accesses, uncoalesced
from ptxsw.ptx.patterns import pattern
from ptxsw.report.model import Finding

__all__ = [
    "LEVELS", "RULES", "KernelResources", "Rule", "Scene", "find", "named", "pages", "severity",
    "worst_first",
]  # fmt: skip

RULES: tuple[Rule, ...] = (
    uncoalesced,
    array_of_structs,
    column,
    scalar_accesses,
    misaligned_rows,
    bank_conflicts,
    repeated_loads,
    may_alias,
    neighbour_loads,
    uniform_loads,
    local_array,
    atomic_contention,
    wide_division,
    divergent_loop,
    divergent_branch,
    idle_lanes,
    occupancy,
    spills,
    launch_bounds,
    register_ceiling,
)

_HERE = Path(__file__).parent
_PLACES = (_HERE / "findings.md", _HERE.parents[1] / "docs" / "findings.md")
_SECTION = pattern(r"^## (ptxsw-[a-z-]+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_SHOWN = 4  # lines of the PTX that a sentence names


def find(scene: Scene, rules: Iterable[Rule] = RULES) -> tuple[Finding, ...]:
    """What rules find in a kernel, the worst first; of one line and rule once."""
    return worst_first(_merged(finding for rule in rules for finding in rule.find(scene)))


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """By level, then by weight, then in the order of the text."""
    return tuple(sorted(findings, key=lambda f: (*severity(f), f.line, f.column)))


def severity(finding: Finding) -> tuple[int, float]:
    """A key by which the worst comes first: the level, then the weight."""
    return -LEVELS.index(finding.level), -finding.weight


def named(names: Collection[str]) -> frozenset[str]:
    """Names of rules, which may be given without `ptxsw-`. Raises ValueError for one nobody
    knows."""
    rules = {rule.name for rule in RULES}
    full = {name if name.startswith("ptxsw-") else f"ptxsw-{name}" for name in names}
    if unknown := sorted(full - rules):
        raise ValueError(f"there is no rule {unknown[0]}; known are {', '.join(sorted(rules))}")
    return frozenset(full)


@lru_cache(maxsize=1)
def pages() -> Mapping[str, str]:
    """The page of each rule as Markdown: a section of `docs/findings.md`, which the wheel carries,
    too. None where it is not installed."""
    for place in _PLACES:
        if place.exists():
            text = place.read_text(encoding="utf-8")
            return {match[1]: match[2].strip() for match in _SECTION.finditer(text)}
    return {}


def _merged(findings: Iterable[Finding]) -> list[Finding]:
    """The findings; of those that share rule, level, kernel and source line the heaviest alone. It
    has the lines and the weight of all: compilers make many instructions of a line, and who mends
    it needs to hear of it once. Where the source line is not known, nothing is merged."""
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
