"""What costs a kernel most, and what to do about it: a rule a file, each with its measure.

A rule looks at a `Scene`, a kernel that was run symbolically, and yields findings. They share one
unit (`cost`), so that the first of a list is the one to look at first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ptxsw.findings import (
    array_of_structs,
    atomic_contention,
    bank_conflicts,
    column,
    divergent_branch,
    divergent_loop,
    idle_lanes,
    launch_bounds,
    local_array,
    may_alias,
    misaligned_rows,
    neighbour_loads,
    occupancy,
    register_ceiling,
    repeated_loads,
    scalar_accesses,
    spills,
    uncoalesced,
    uniform_loads,
    wide_division,
)
from ptxsw.findings.base import LEVELS, KernelResources, Rule, Scene
from ptxsw.findings.merging import merged
from ptxsw.report.model import Finding

__all__ = [
    "LEVELS",
    "RULES",
    "KernelResources",
    "Rule",
    "Scene",
    "find",
    "named",
    "severity",
    "worst_first",
]

RULES: tuple[Rule, ...] = (
    uncoalesced.RULE,
    array_of_structs.RULE,
    column.RULE,
    scalar_accesses.RULE,
    misaligned_rows.RULE,
    bank_conflicts.RULE,
    repeated_loads.RULE,
    may_alias.RULE,
    neighbour_loads.RULE,
    uniform_loads.RULE,
    local_array.RULE,
    atomic_contention.RULE,
    wide_division.RULE,
    divergent_loop.RULE,
    divergent_branch.RULE,
    idle_lanes.RULE,
    occupancy.RULE,
    spills.RULE,
    launch_bounds.RULE,
    register_ceiling.RULE,
)


def find(scene: Scene, rules: Iterable[Rule] = RULES) -> tuple[Finding, ...]:
    """What rules find in a kernel, the worst first; of one line and rule once."""
    return worst_first(merged(finding for rule in rules for finding in rule.find(scene)))


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
