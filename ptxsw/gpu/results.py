"""From measurements to the variant a kernel is to have; and measurements for people: lines on a
terminal, CSV, a bar chart of speed-ups."""

from __future__ import annotations

import csv
import importlib
from collections.abc import Sequence
from datetime import date
from math import exp, log
from pathlib import Path

from msgspec import Struct

import ptxsw
from ptxsw.gpu.driver import Device, Shape
from ptxsw.gpu.measure import ORIGINAL, Measured
from ptxsw.ptx.errors import naming
from ptxsw.toolchain.tuned import KEEP, Timing, Tuned, padding

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

    @property
    def name(self) -> str:
        """As `Measured` has it."""
        return _name(self.scheme, self.form)

    def __str__(self) -> str:
        return f"{'kept as it is' if self.kept else self.name}: {self.why}"


def _name(scheme: str, form: str) -> str:
    return f"{scheme} {form}".strip()


def choose(rows: Sequence[Measured], *, padded: bool = False) -> VariantChoice:
    """The variant with the best geometric mean of its speed-ups over all problems that gave the
    original's bits in each, is faster by more than the noise, and slower in none by more. `padded`
    launches are no text: a build cannot choose them, a launch can."""
    rows = [r for r in rows if not r.bound and (padded or padding(r.scheme) is None)]
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
    name = _name(scheme, form)
    if mean < 1:
        return f"the best, {name}, takes {1 / mean:.3f} times as long"
    if slower == (mean, scheme, form):
        return f"{name} is {mean:.3f} times as fast on average, but slower on some launch"
    return (
        f"the best, {name}, is {mean:.3f} times as fast, and it takes more than "
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


# ---------------------------------------------------------------- shown

HEAD = (
    "kernel", "scheme", "form", "grid", "block", "microseconds", "noise %", "speed-up", "registers",
    "local bytes", "equal",
)  # fmt: skip


def cells(row: Measured) -> list[str]:
    """A line in the order of `HEAD`; what is not known is "-"."""
    return [
        row.kernel, row.scheme, row.form, sizes(row.grid), sizes(row.block),
        "-" if row.seconds is None else f"{row.seconds * 1e6:.2f}",
        "-" if row.noise is None else f"{row.noise * 100:.2f}",
        "-" if row.speedup is None else f"{row.speedup:.3f}",
        str(row.registers or "-"), str(row.local),
        row.wrong or ("wrong on purpose" if row.bound else "yes"),
    ]  # fmt: skip


def sizes(shape: Shape) -> str:
    """ "32x8x1"."""
    return "x".join(map(str, shape))


def plain(rows: Sequence[Measured]) -> str:
    """Aligned columns."""
    table = [list(HEAD), *(cells(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if 3 <= at < len(HEAD) - 1 else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in table
    )


def write_csv(path: Path, rows: Sequence[Measured], notes: Sequence[str]) -> None:
    """The cells as CSV, the notes in front as comments."""
    with naming(str(path)), path.open("w", newline="", encoding="utf-8") as out:
        out.writelines(f"# {note}\n" for note in notes)
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(HEAD)
        writer.writerows(map(cells, rows))


def speedups(rows: Sequence[Measured]) -> dict[str, dict[str, float]]:
    """By variant and kernel: the time of the original in its best block over the variant's in its
    own best block. What was wrong anywhere is left out."""
    best: dict[tuple[str, str], float] = {}
    bad = {(r.name, r.kernel) for r in rows if r.wrong is not None}
    for row in rows:
        key = (row.name, row.kernel)
        if row.seconds is not None and key not in bad:
            best[key] = min(best.get(key, row.seconds), row.seconds)
    ratios: dict[str, dict[str, float]] = {}
    for (name, kernel), seconds in best.items():
        if name != ORIGINAL and (ORIGINAL, kernel) in best:
            ratios.setdefault(name, {})[kernel] = best[ORIGINAL, kernel] / max(seconds, 1e-12)
    return ratios


def chart(path: Path, rows: Sequence[Measured], device: Device, title: str = "") -> None:
    """Bars of speed-ups for each kernel, one colour per variant, as PNG or SVG. Raises
    ImportError without matplotlib."""
    matplotlib = importlib.import_module("matplotlib")
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "ptxsw"  # equal figures are equal files
    plt = importlib.import_module("matplotlib.pyplot")
    ratios = speedups(rows)
    kernels = list(dict.fromkeys(row.kernel for row in rows))
    size = (max(6.0, 0.8 * (len(kernels) + 1)), 4.5)
    figure, axes = plt.subplots(figsize=size, layout="constrained")
    width = 0.8 / max(len(ratios), 1)
    for at, (name, own) in enumerate(ratios.items()):
        here = [index for index, kernel in enumerate(kernels) if kernel in own]
        left = [index - 0.4 + (at + 0.5) * width for index in here]
        axes.bar(left, [own[kernels[i]] for i in here], width, label=name)
        middle = len(kernels) - 0.4 + (at + 0.5) * width
        axes.bar([middle], [geometric_mean(list(own.values()))], width, color=f"C{at}")
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set_xticks(range(len(kernels) + 1), [*kernels, "geo. mean"], rotation=40, ha="right")
    axes.set_ylabel("speed-up over the original")
    axes.set_title(f"{title}\n{device}".strip(), fontsize="medium")
    if ratios:
        figure.legend(fontsize="small", ncols=5, loc="outside lower center")
    with naming(str(path)):
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)
