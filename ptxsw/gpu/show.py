"""Measurements for people: lines on a terminal, CSV, a bar chart of speed-ups."""

from __future__ import annotations

import csv
import importlib
from collections.abc import Sequence
from pathlib import Path

from ptxsw.gpu.choose import geometric_mean
from ptxsw.gpu.driver import Device, Shape
from ptxsw.gpu.measure import ORIGINAL, Measured
from ptxsw.ptx.errors import naming

HEAD = (
    "kernel", "scheme", "form", "grid", "block", "microseconds", "noise %", "speed-up", "registers",
    "local bytes", "equal",
)  # fmt: skip


def cells(row: Measured) -> list[str]:
    """A line in the order of `HEAD`; what is not known is "-"."""
    return [
        row.kernel, row.scheme, row.form, _size(row.grid), _size(row.block),
        "-" if row.seconds is None else f"{row.seconds * 1e6:.2f}",
        "-" if row.noise is None else f"{row.noise * 100:.2f}",
        "-" if row.speedup is None else f"{row.speedup:.3f}",
        str(row.registers or "-"), str(row.local),
        row.wrong or ("wrong on purpose" if row.bound else "yes"),
    ]  # fmt: skip


def _size(shape: Shape) -> str:
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


def markdown(rows: Sequence[Measured], notes: Sequence[str]) -> str:
    """A Markdown table under its notes."""
    lines = [*(f"- {note}" for note in notes), "", "| " + " | ".join(HEAD) + " |"]
    lines.append("|" + "---|" * len(HEAD))
    lines += ["| " + " | ".join(cells(row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


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
