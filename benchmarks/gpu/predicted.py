"""Were times predicted? Nothing is run for it: what part `faster` has measured is held against what
`predict` told of the card at hand, before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from msgspec import Struct

from benchmarks.gpu.faster import COPY, Series, forecast
from benchmarks.gpu.prepared import Forecast, Kernel
from benchmarks.ranks import rank_correlation

NAME, TITLE = "predicted", "Predicted?"


class Row(Struct, frozen=True):
    """A measured time beside its forecast."""

    kernel: str
    version: str
    seconds: float
    forecast: Forecast

    @property
    def off(self) -> float:
        """The time that is expected over what was measured."""
        return self.forecast.expected / self.seconds

    @property
    def likely(self) -> bool:
        return self.forecast.likely_low <= self.seconds <= self.forecast.likely_high

    @property
    def inside(self) -> bool:
        return self.forecast.low <= self.seconds <= self.forecast.high


class Figures(Struct, frozen=True):
    """Of all rows: shares inside the likely intervals and the bounds, the median error, Spearman's
    coefficient."""

    rows: int
    likely: float
    inside: float
    error: float
    ranks: float | None


def rows(
    kernels: Mapping[str, Kernel], results: Mapping[str, Series], device: str
) -> Iterator[Row]:
    for name, series in results.items():
        for timing in series.timings if name != COPY else ():
            told = forecast(kernels[name], timing.version, device)
            if told is not None and timing.seconds:
                yield Row(name, timing.version, timing.seconds, told)


def figures(found: Sequence[Row]) -> Figures | None:
    """None of no rows."""
    if not found:
        return None
    pairs = [(row.seconds, row.forecast.expected) for row in found]
    return Figures(
        len(found),
        sum(row.likely for row in found) / len(found),
        sum(row.inside for row in found) / len(found),
        median(abs(row.off - 1) for row in found),
        rank_correlation(pairs) if len(pairs) > 2 else None,
    )
