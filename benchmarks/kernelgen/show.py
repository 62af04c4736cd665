"""The table in the forms people want it: terminal, CSV, Markdown, a plot."""

from __future__ import annotations

import csv
import importlib
from collections.abc import Sequence
from pathlib import Path

from benchmarks.kernelgen.measure import ARCHS, Row
from ptxsw.reproduce.paper import TABLE_2

HEAD = (
    "operator", "scheme", "form", "paper shuffle/load", "ours", "copies", "paper mean N", "mean N",
    "paper s", "ours s", "loads/warp", "lanes/32", "sectors", "shfl/warp",
    *(f"{arch[3:]} {what}" for arch in ARCHS for what in ("regs", "spill", "occ")),
    "verify", "numpy",
)  # fmt: skip


def cells(row: Row) -> list[str]:
    """A row in the order of `HEAD`; what is not known is "-"."""
    paper = TABLE_2.get(row.name) if row.scheme != "original" else None
    rewritten = row.scheme != "original"
    out = [row.name, row.scheme, row.form]
    out.append(f"{paper.shuffles}/{paper.loads}" if paper else "-")
    out.append(f"{row.shuffles}/{row.loads}")
    out.append(str(row.copies))
    out.append(f"{paper.delta:.2f}" if paper and paper.delta is not None else "-")
    out.append(f"{row.delta:.2f}" if row.delta is not None else "-")
    out.append(f"{paper.seconds:.2f}" if paper else "-")
    out.append(f"{row.seconds:.3f}" if rewritten else "-")
    warp = row.per_warp
    out += [f"{v:.4g}" for v in (warp.loads, warp.lane_loads, warp.sectors, warp.shuffles)]
    for arch in ARCHS:
        made = row.assembled.get(arch)
        if made is None:
            out += ["-", "-", "-"]
        else:
            out += [str(made.registers), str(made.spilled), f"{100 * made.occupancy:.0f}%"]
    return [*out, row.verified, row.numpy]


def markdown(rows: Sequence[Row], notes: Sequence[str]) -> str:
    """A Markdown table under its notes."""
    lines = [*(f"- {note}" for note in notes), ""]
    lines.append("| " + " | ".join(HEAD) + " |")
    lines.append("|" + "---|" * len(HEAD))
    lines += ["| " + " | ".join(cells(row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def plain(rows: Sequence[Row]) -> str:
    """Aligned columns."""
    table = [list(HEAD), *(cells(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if at < 3 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in table
    )


def write_csv(path: Path, rows: Sequence[Row], notes: Sequence[str]) -> None:
    """The cells as CSV, the notes in front as comments."""
    with path.open("w", newline="") as out:
        out.writelines(f"# {note}\n" for note in notes)
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(HEAD)
        writer.writerows(map(cells, rows))


def plot(path: Path, rows: Sequence[Row], title: str) -> None:
    """What is executed per warp, over the original's loads: loads above, shuffles below, a bar
    for each scheme and form. Raises ImportError without matplotlib."""
    matplotlib = importlib.import_module("matplotlib")
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "ptxsw"  # equal figures are equal files
    plt = importlib.import_module("matplotlib.pyplot")
    whole = {row.name: row.per_warp.lane_loads for row in rows if row.scheme == "original"}
    names = list(whole)
    kinds = list(dict.fromkeys((r.scheme, r.form) for r in rows if r.scheme != "original"))
    figure, (above, below) = plt.subplots(
        2, 1, sharex=True, figsize=(13, 6.5), layout="constrained"
    )
    width = 0.84 / max(len(kinds), 1)
    for at, kind in enumerate(kinds):
        own = {row.name: row.per_warp for row in rows if (row.scheme, row.form) == kind}
        here = [index for index, name in enumerate(names) if name in own]
        left = [index - 0.42 + (at + 0.5) * width for index in here]
        for axes, figures in (
            (above, [own[names[i]].lane_loads / whole[names[i]] for i in here]),
            (below, [own[names[i]].shuffles / whole[names[i]] for i in here]),
        ):
            axes.bar(left, figures, width, label=" ".join(part for part in kind if part))
    above.axhline(1.0, color="black", linewidth=0.8)
    above.set_ylabel("loads (lanes) / original")
    below.set_ylabel("shuffles / original loads")
    below.set_xticks(range(len(names)), names, rotation=40, ha="right")
    above.set_title(title)
    handles, labels = above.get_legend_handles_labels()
    figure.legend(handles, labels, fontsize="small", ncols=5, loc="outside lower center")
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)
