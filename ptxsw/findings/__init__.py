"""What costs a kernel most, and how to fix it: rules, each with its measure.

A rule looks at a `Scene`, a kernel that was run symbolically, and yields findings. They share one
unit (`cost`), so that the first of a list is the one to look at first. Rules that share their
reasoning share a file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

from msgspec.structs import replace

from ptxsw.findings.accidental_doubles import accidental_doubles
from ptxsw.findings.atomic_contention import atomic_contention
from ptxsw.findings.bank_conflicts import bank_conflicts
from ptxsw.findings.base import LEVELS, Draft, KernelResources, Rule, Scene
from ptxsw.findings.constant_by_lane import constant_by_lane
from ptxsw.findings.cost import gain
from ptxsw.findings.divergent_lanes import divergent_branch, divergent_loop
from ptxsw.findings.exposed_copies import exposed_copies
from ptxsw.findings.loop_work import uniform_loads, wide_division
from ptxsw.findings.misaligned_rows import misaligned_rows
from ptxsw.findings.occupancy import idle_lanes, occupancy
from ptxsw.findings.register_use import launch_bounds, local_array, register_ceiling, spills
from ptxsw.findings.repeated_loads import may_alias, neighbour_loads, repeated_loads
from ptxsw.findings.shared_tiles import shared_tile
from ptxsw.findings.swapped_axes import swapped_axes
from ptxsw.findings.wasted_sectors import array_of_structs, column, scalar_accesses, uncoalesced
from ptxsw.report.model import Finding

__all__ = [
    "LEVELS", "RULES", "KernelResources", "Rule", "Scene", "find", "severity", "worst_first",
]  # fmt: skip

RULES: tuple[Rule, ...] = (
    swapped_axes,
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
    constant_by_lane,
    accidental_doubles,
    exposed_copies,
    shared_tile,
    wide_division,
    divergent_loop,
    divergent_branch,
    idle_lanes,
    occupancy,
    spills,
    launch_bounds,
    register_ceiling,
)

_SHOWN = 4  # lines of the PTX that a sentence names


def find(scene: Scene, rules: Iterable[Rule] = RULES) -> tuple[Finding, ...]:
    """What rules find in a kernel, the worst first; one cause once."""
    drafts = _merged(_without_symptoms(draft for rule in rules for draft in rule.find(scene)))
    return worst_first(_estimated(scene, drafts))


_EXPLAINS = {
    swapped_axes.name: {column.name, uncoalesced.name, array_of_structs.name, bank_conflicts.name},
    shared_tile.name: {uniform_loads.name, neighbour_loads.name},
    may_alias.name: {uniform_loads.name},
}
"""Rules whose findings are symptoms of another's."""


def _without_symptoms(drafts: Iterable[Draft]) -> Iterator[Draft]:
    """What is not explained by another finding of the kernel: about the same instructions."""
    every = list(drafts)
    explained: dict[str, set[int]] = {}
    for draft in every:
        for symptom in _EXPLAINS.get(draft.finding.rule, ()):
            explained.setdefault(symptom, set()).update(draft.finding.lines)
    for draft in every:
        if not explained.get(draft.finding.rule, set()).issuperset(draft.finding.lines):
            yield draft


def _estimated(scene: Scene, drafts: Iterable[Draft]) -> Iterator[Finding]:
    """Findings that say what mending them brings."""
    for draft in drafts:
        shares = gain(scene, draft.saves)
        finding = _told(scene, draft)
        if shares is not None:
            finding = replace(finding, gain=(round(shares[0], 3), round(shares[1], 3)))
        yield finding


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """By level, then by weight, then in the order of the text."""
    return tuple(sorted(findings, key=lambda f: (*severity(f), f.line, f.column)))


def severity(finding: Finding) -> tuple[int, float]:
    """A key by which the worst comes first: the level, then the weight."""
    return -LEVELS.index(finding.level), -finding.weight


def _merged(drafts: Iterable[Draft]) -> list[Draft]:
    """Drafts of one rule and level that have a cause in common, or then a source line, as one: the
    heaviest, with the lines and the weight of all. Compilers make many instructions of a line,
    and who mends it needs to hear of it once."""
    by_cause = _joined(drafts, lambda draft: draft.cause)
    return _joined(by_cause, lambda draft: (draft.finding.file, draft.finding.source_line))


def _joined(drafts: Iterable[Draft], key: Callable[[Draft], Hashable]) -> list[Draft]:
    groups: dict[Hashable, list[Draft]] = {}
    for number, draft in enumerate(drafts):
        common = key(draft)
        if common == (None, None):
            common = number
        groups.setdefault((draft.finding.rule, draft.finding.level, common), []).append(draft)
    return [_one(sorted(group, key=lambda d: -d.finding.weight)) for group in groups.values()]


def _one(group: Sequence[Draft]) -> Draft:
    first, *others = group
    own = first.finding.lines
    more = sorted({line for each in others for line in each.finding.lines}.difference(own))
    saves = Counter[str]()
    for each in group:
        saves.update(each.saves)
    weight = round(sum(each.finding.weight for each in group), 1)
    finding = replace(first.finding, weight=weight, lines=(*own, *more))
    return replace(first, finding=finding, saves=saves)


def _told(scene: Scene, draft: Draft) -> Finding:
    """The finding, with a sentence on the lines of others that became one with it: those of the
    source, where they are known."""
    finding = draft.finding
    more, of = finding.lines[draft.own :], " of the PTX"
    if finding.file is not None:
        places = [scene.place_of_line(line) for line in more]
        if all(place is not None and place.file == finding.file for place in places):
            others = {place.line for place in places if place is not None}
            more, of = tuple(sorted(others - {finding.source_line})), ""
    if not more:
        return finding
    return replace(finding, what=f"{finding.what} The same holds for {_lines(more)}{of}.")


def _lines(numbers: Sequence[int]) -> str:
    """ "line 58", "lines 58 and 62", "lines 58, 62, 70, 81 and 12 others"."""
    if len(numbers) == 1:
        return f"line {numbers[0]}"
    if len(numbers) <= _SHOWN:
        return f"lines {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"
    rest = len(numbers) - _SHOWN
    return f"lines {', '.join(map(str, numbers[:_SHOWN]))} and {rest} other{'s' * (rest > 1)}"
