"""The figures of a kernel as reports and predictions give them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxsw.report.model import Figures

if TYPE_CHECKING:
    from ptxsw.cost.accesses import KernelFigures
    from ptxsw.cost.account import Interval


def shown(counted: KernelFigures) -> Figures:
    """With ranges as pairs, rounded to a hundredth."""
    pipes = {pipe: _pair(count) for pipe, count in sorted(counted.pipes.items())}
    return Figures(
        counted.source, _pair(counted.instructions), pipes, _pair(counted.wavefronts),
        _pair(counted.sectors), counted.unknown, counted.registers, counted.shared,
    )  # fmt: skip


def _pair(interval: Interval) -> tuple[float, float]:
    return round(interval.low, 2), round(interval.high, 2)
