"""Table 2: shuffles among loads, their mean delta and the seconds of the analysis, with the reason
wherever a figure is not the paper's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from ptxsw.changes.options import Options
from ptxsw.driver.pipeline import optimize
from ptxsw.report import model
from ptxsw.report.layout import draw_text
from ptxsw.report.tables import Table
from ptxsw.reproduce.operators import operator_text
from ptxsw.reproduce.paper import TABLE_2, TITLE, Figures
from ptxsw.rewrites.base import SHUFFLE

_AS_IN_THE_PAPER: Final = Options(mode="force", scheme="paper", form="keep")
_HEAD: Final = (
    "operator", "lang", "shuffle/load", "ours", "mean |N|", "ours", "by rows", "seconds", "ours",
)  # fmt: skip
_OTHER_TEXT: Final = {
    "matmul": "nvcc unrolls the sum by 4: 8 loads in that loop, as in the paper, and 6 in what is "
    "left over",
    "matvec": "nvcc unrolls the sum by 4: 8 loads in that loop, and 6 in what is left over",
    "sincos": "2 loads of data, as in the paper, and 2 from the table by which CUDA's library "
    "reduces large arguments",
    "whispering": "in the paper one of six has N = 0, a load that the thread repeats (five of "
    "|N| = 1 and that one are 0.83 on average); nvcc's text repeats none",
}
"""Why the loads of the texts differ: nvcc's are written anew in CUDA, the paper's are by NVHPC."""
_NOTES: Final = (
    "by rows: the mean |N| if the first load of each row were the one at its end. The paper's "
    "distances are these; its Listing 6 shows how NVHPC begins a row of jacobi at its end.",
    "seconds: the paper's of its tool on an Intel Core i7-5930K, ours on this machine, without the "
    "start of Python.",
)


class Row(Struct, frozen=True):
    """An operator: the paper's figures and ours. `by_rows` is the mean |N| if the load that serves
    others were always the one at the end of what it serves. `reasons` say why ours differ; `open`:
    is there a difference without one?"""

    operator: str
    paper: Figures
    shuffles: int
    loads: int
    delta: float | None
    by_rows: float | None
    seconds: float
    reasons: tuple[str, ...]
    open: bool


def table2(operators: Sequence[str] = tuple(TABLE_2)) -> Iterator[Row]:
    """The lines of some operators. Raises OSError where this installation has not their texts."""
    optimize(operator_text("vecadd"), _AS_IN_THE_PAPER)  # imports, which are not to be counted
    for name in operators:
        report = optimize(operator_text(name), _AS_IN_THE_PAPER, f"{name}.ptx").report
        (kernel,) = report.kernels
        yield _row(name, kernel, report.seconds or 0.0)


def _row(name: str, kernel: model.Kernel, seconds: float) -> Row:
    paper, shuffles, delta = TABLE_2[name], kernel.shuffles or 0, kernel.mean_delta
    by_rows = from_the_ends(kernel.rewrites or ())
    as_counted = (shuffles, kernel.loads) == (paper.shuffles, paper.loads)
    as_far = _same(delta, paper.delta)
    reasons = []
    if name in _OTHER_TEXT and not (as_counted and as_far):
        reasons.append(_OTHER_TEXT[name])
    elif not as_far and _same(by_rows, paper.delta):
        reasons.append(f"nvcc begins the rows in their middle; from their ends it is {by_rows:.2f}")
    is_open = not (as_counted and as_far) and not reasons
    return Row(
        name, paper, shuffles, kernel.loads, delta, by_rows, seconds, tuple(reasons), is_open
    )


def from_the_ends(rewrites: Sequence[model.Rewrite]) -> float | None:
    """The mean |N| of shuffles if of each row, a load and those that it serves, the one at the end
    served all others; None without shuffles."""
    rows: dict[int | None, set[int]] = defaultdict(lambda: {0})
    for one in rewrites:
        if one.rewrite == SHUFFLE and one.delta:
            rows[one.source_line].add(one.delta)
    far = [delta - min(row) for row in rows.values() for delta in row if delta != min(row)]
    return sum(far) / len(far) if far else None


def _same(ours: float | None, paper: float | None) -> bool:
    """To the two decimals that the paper prints."""
    if ours is None or paper is None:
        return ours is paper
    return round(ours, 2) == paper


# ---------------------------------------------------------------- shown


def shown(rows: Sequence[Row]) -> str:
    """The lines as a table, and below it the reasons."""
    table = Table(_HEAD, tuple(map(_cells, rows)), frozenset(_HEAD[2:]))
    told = [f"  {row.operator}: {reason}" for row in rows for reason in row.reasons]
    told += [f"  {row.operator}: NOT EXPLAINED" for row in rows if row.open]
    below = ["", "where they differ:", *told] if told else []
    title = f"Table 2 of {TITLE}, and ours of nvcc's PTX"
    return "\n".join([title, "", *draw_text(table), *below, "", *_NOTES, ""])


def _cells(row: Row) -> tuple[str, ...]:
    paper = row.paper
    return (
        row.operator, paper.language,
        f"{paper.shuffles}/{paper.loads}", f"{row.shuffles}/{row.loads}",
        *(number(delta) for delta in (paper.delta, row.delta, row.by_rows)),
        f"{paper.seconds:.2f}", f"{row.seconds:.2f}",
    )  # fmt: skip


def number(value: float | None) -> str:
    """With two decimals; "-" for none."""
    return "-" if value is None else f"{value:.2f}"
