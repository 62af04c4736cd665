"""Do two orders agree?"""

from __future__ import annotations

from collections.abc import Sequence


def rank_correlation(pairs: Sequence[tuple[float, float]]) -> float:
    """Spearman's coefficient. Equal numbers share their ranks."""
    first, second = _ranks([a for a, _ in pairs]), _ranks([b for _, b in pairs])
    middle = (len(pairs) - 1) / 2
    both = sum((a - middle) * (b - middle) for a, b in zip(first, second, strict=True))
    spread = [sum((a - middle) ** 2 for a in ranks) for ranks in (first, second)]
    return both / (spread[0] * spread[1]) ** 0.5 if all(spread) else 0.0


def _ranks(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) - 1) / 2 for value in values]
