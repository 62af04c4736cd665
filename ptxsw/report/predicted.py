"""What was computed, as `predict` says it."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

from ptxsw.cost.account import Interval
from ptxsw.cost.estimate import Estimate
from ptxsw.cost.iterations import Stretch
from ptxsw.cost.occupancy import Occupancy
from ptxsw.report import prediction as model


def iteration(stretch: Stretch, estimate: Estimate) -> model.Stretch:
    """One iteration of a loop. Nothing is known of what is likely: the bounds are all there is."""
    return model.Stretch(
        stretch.label, stretch.line, estimate.unit, _range(estimate.time), _range(estimate.time),
        None, _loads(estimate), stretch.unknown,
    )  # fmt: skip


def launched(line: int, estimate: Estimate) -> model.Stretch:
    """A launch of a kernel that begins on a line."""
    return model.Stretch(
        None, line, estimate.unit, _range(estimate.time), _range(estimate.likely),
        None if estimate.is_open else estimate.expected, _loads(estimate),
    )  # fmt: skip


def occupancy(resident: Occupancy, *, registers: int, shared: int, threads: int) -> model.Occupancy:
    """What a multiprocessor holds of a kernel."""
    steps = tuple(model.OccupancyStep(*step) for step in resident.next_steps)
    return model.Occupancy(
        registers=registers, shared=shared, threads=threads, blocks=resident.blocks,
        warps=resident.warps, fraction=resident.fraction, limiter=resident.limiter,
        next_steps=steps,
    )  # fmt: skip


def candidate(facts: Mapping[str, Any]) -> model.RegisterCandidate:
    """An outcome of the rewrite `registers`, from its facts."""
    return model.RegisterCandidate(
        limit=facts["maxnreg"], spills_to_shared=facts["spills_to_shared"],
        registers=facts["registers"], local=facts["local"], shared=facts["shared"],
        fraction=facts["occupancy"], pace=facts["pace"],
    )  # fmt: skip


def _loads(estimate: Estimate) -> tuple[model.Load, ...]:
    return tuple(model.Load(r.name, _range(r.time), r.busy_with) for r in estimate.resources)


def _range(interval: Interval) -> model.Range:
    return model.Range(interval.low, None if interval.high == inf else interval.high)
