"""From measurements to the scheme and form a kernel is to have."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from math import exp, log

from msgspec import Struct

import ptxsw
from ptxsw.gpu.driver import Device
from ptxsw.gpu.measure import ORIGINAL, Measured
from ptxsw.toolchain.tuned import KEEP, Timing, Tuned

LEAST_GAIN = 0.02
"""A variant that is not this much faster is not worth having."""


class VariantChoice(Struct, frozen=True):
    """The variant chosen, or the text as it is, and why."""

    scheme: str
    form: str
    speedup: float
    why: str

    @property
    def kept(self) -> bool:
        """Is the text to stay as it is?"""
        return (self.scheme, self.form) == (KEEP, KEEP)

    def __str__(self) -> str:
        what = "kept as it is" if self.kept else f"{self.scheme} {self.form}"
        return f"{what}: {self.why}"


def choose(rows: Sequence[Measured]) -> VariantChoice:
    """The variant with the best geometric mean of its speed-ups over all problems that gave the
    original's bits in each, is faster by more than the noise, and slower in none by more."""
    rows = [r for r in rows if not r.bound]
    noise = max((r.noise for r in rows if r.noise is not None), default=0.0)
    names = dict.fromkeys((r.scheme, r.form) for r in rows if r.scheme != ORIGINAL)
    best, best_slower = None, None
    for scheme, form in names:
        own = [r for r in rows if (r.scheme, r.form) == (scheme, form)]
        ratios = [r.speedup for r in own if r.speedup is not None and r.wrong is None]
        if len(ratios) < len(own):
            continue
        mean = geometric_mean(ratios)
        if min(ratios) < 1 - max(noise, LEAST_GAIN):
            best_slower = max(best_slower or (0.0, "", ""), (mean, scheme, form))
        elif best is None or mean > best[0]:
            best = (mean, scheme, form)
    if best is not None and best[0] > 1 + max(noise, LEAST_GAIN):
        return VariantChoice(best[1], best[2], best[0], f"{best[0]:.3f} times as fast")
    return VariantChoice(KEEP, KEEP, 1.0, _why_kept(best, best_slower, noise, bool(names)))


def _why_kept(
    best: tuple[float, str, str] | None,
    slower: tuple[float, str, str] | None,
    noise: float,
    any_variant: bool,
) -> str:
    if not any_variant:
        return "no scheme changes it"
    if best is None and slower is None:
        return "no variant gives the original's results"
    mean, scheme, form = max(x for x in (best, slower) if x is not None)
    if mean < 1:
        return f"the best, {scheme} {form}, takes {1 / mean:.3f} times as long"
    if slower == (mean, scheme, form):
        return f"{scheme} {form} is {mean:.3f} times as fast on average, but slower on some launch"
    return (
        f"the best, {scheme} {form}, is {mean:.3f} times as fast, and it takes more than "
        f"{1 + max(noise, LEAST_GAIN):.3f}"
    )


def geometric_mean(ratios: Sequence[float]) -> float:
    """Of positive numbers."""
    return exp(sum(map(log, ratios)) / len(ratios))


def tuned(rows: Sequence[Measured], choice: VariantChoice, device: Device, kernel: str) -> Tuned:
    """The choice as it is stored, with what it rests on."""
    return Tuned(
        choice.scheme,
        choice.form,
        round(choice.speedup, 4),
        device.name,
        date.today().isoformat(),
        kernel,
        device.driver,
        ptxsw.__version__,
        tuple(
            Timing(r.scheme, r.form, r.block, r.seconds, r.noise or 0.0)
            if r.seconds is not None
            else Timing(r.scheme, r.form, r.block, 0.0, 0.0, False)
            for r in rows
            if not r.bound
        ),
    )
