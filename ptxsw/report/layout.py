"""Tables as aligned text that fits a terminal: long cells fold, unimportant columns give way.

line  access         sectors  address
  69  ld.global.f32       32  param_2[ctaid.x*ntid.x
                              + iter(BB0_2)*param_0 + tid.x]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from ptxsw.ptx.printable import one_line
from ptxsw.report.tables import Table, printed

Paint = Callable[[str, str, str], str]
"""Column, cell and the text as it is padded, to the text that is written."""

_APART = "  "
_NARROWEST = 24  # characters of a column that folds
_SQUEEZED = 10  # the same where no column can be left out
_FOLDING = frozenset(
    {
        "address",
        "banks",
        "same bytes",
        "optimize --mode force",
        "proof",
        "reason",
        "what",
        "because",
        "line",
    }
)
_LEAST_IMPORTANT = (
    "bytes", "optimize --mode force", "same bytes", "stride", "weight", "used", "source", "scheme",
    "form", "arch",
)  # fmt: skip
"""Columns in the order in which they give way."""


class _Fit(Struct, frozen=True):
    table: Table
    widths: tuple[int, ...]
    missing: tuple[str, ...]


def plain(column: str, cell: str, padded: str) -> str:
    """No colours."""
    return padded


def draw_text(table: Table, paint: Paint = plain, width: int | None = None) -> list[str]:
    """Lines of aligned columns, two spaces apart; `width` characters at most where it is given and
    that can be done. A last line names the columns that had no room."""
    fit = _fitted(printed(table, one_line), width)
    lines = []
    for number, cells in enumerate((fit.table.header, *fit.table.rows)):
        folded = [_folded(cell, room) for cell, room in zip(cells, fit.widths, strict=True)]
        for at in range(max(map(len, folded))):
            part = [lines_of[at] if at < len(lines_of) else "" for lines_of in folded]
            lines.append(_line(fit, cells, part, number == 0, paint))
    if fit.missing:
        note = f"(no room for: {', '.join(fit.missing)})"
        lines += (paint("note", note, part) for part in _folded(note, width or len(note)))
    return lines


def _line(fit: _Fit, cells: Sequence[str], part: Sequence[str], heading: bool, paint: Paint) -> str:
    """One line of a row; colours go by the whole cell."""
    header, last = fit.table.header, len(fit.table.header) - 1
    texts = []
    for i, (name, cell, text, width) in enumerate(
        zip(header, cells, part, fit.widths, strict=True)
    ):
        padded = text if i == last else text.ljust(width)
        padded = text.rjust(width) if name in fit.table.right else padded
        texts.append(paint("heading" if heading else name, cell, padded) if text else padded)
    return _APART.join(texts).rstrip()


def _fitted(table: Table, width: int | None) -> _Fit:
    """The table with folded columns, or without some, so that it fits; as it is where it does."""
    missing: list[str] = []
    while True:
        widths = _natural(table)
        if width is None:
            return _Fit(table, widths, ())
        narrow = _narrowed(table.header, widths, width, _NARROWEST)
        given_up = next((name for name in _LEAST_IMPORTANT if name in table.header), None)
        if narrow is None and given_up is None:
            narrow = _narrowed(table.header, widths, width, _SQUEEZED) or widths
        if narrow is not None:
            return _Fit(table, narrow, tuple(missing))
        assert given_up is not None
        missing.append(given_up)
        table = _without(table, given_up)


def _natural(table: Table) -> tuple[int, ...]:
    lines = (table.header, *table.rows)
    return tuple(max(len(line[i]) for line in lines) for i in range(len(table.header)))


def _narrowed(
    header: Sequence[str], widths: Sequence[int], width: int, narrowest: int
) -> tuple[int, ...] | None:
    """Widths at which the columns fit, the widest that fold made narrower, but not below
    `narrowest`; None where they do not."""
    narrowed = list(widths)
    folding = [i for i, name in enumerate(header) if name in _FOLDING]
    least = {i: min(widths[i], max(narrowest, len(header[i]))) for i in folding}
    too_much = sum(narrowed) + len(_APART) * (len(narrowed) - 1) - width
    while too_much > 0:
        widest = max(folding, key=lambda i: narrowed[i] - least[i], default=None)
        if widest is None or narrowed[widest] == least[widest]:
            return None
        narrowed[widest] -= 1
        too_much -= 1
    return tuple(narrowed)


def _without(table: Table, name: str) -> Table:
    at = table.header.index(name)

    def cut(cells: tuple[str, ...]) -> tuple[str, ...]:
        return cells[:at] + cells[at + 1 :]

    return Table(cut(table.header), tuple(map(cut, table.rows)), table.right - {name})


def _folded(cell: str, width: int) -> list[str]:
    """The lines of a cell: broken at spaces, and inside words that are longer than a line."""
    if len(cell) <= width:
        return [cell]
    lines = [""]
    for word in cell.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if len(joined) <= width:
            lines[-1] = joined
            continue
        pieces = [word[at : at + width] for at in range(0, len(word), width)]
        lines += pieces
    return [line for line in lines if line]
