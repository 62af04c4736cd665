"""The tables of a report, before they are drawn as text or Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ptxsw.report.model import Access, Carried, Kernel, Proof, Row
from ptxsw.report.weights import weight

UNKNOWN = "?"


class Table(Struct, frozen=True):
    """Cells as text. `right` names the columns that are aligned to the right."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[str] = frozenset()


def printed(table: Table, form: Callable[[str], str]) -> Table:
    """The same table with `form` of every cell."""
    rows = tuple(tuple(map(form, row)) for row in table.rows)
    return Table(tuple(map(form, table.header)), rows, table.right)


def show(value: object) -> str:
    """A cell: yes and no for truth values, "?" for what is not known."""
    match value:
        case None:
            return UNKNOWN
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.2f}"
        case _:
            return str(value)


def _delta(delta: int | None) -> str:
    return UNKNOWN if delta is None else f"{delta:+d}" if delta else "0"


def counts(kernel: Kernel) -> str:
    """One line of figures: "9 global loads, 6 shuffles, 0 copies, mean |N| 1.50". Changes that
    are neither shuffles nor copies are counted by their rewrites: "vectorize 3". Or why
    there are none."""
    if kernel.failed is not None:
        return str(kernel.failed)
    parts = [_plural(kernel.loads, "global load")]
    if kernel.shuffles is not None:
        parts.append(_plural(kernel.shuffles, "shuffle"))
    if kernel.copies is not None:
        parts.append(_plural(kernel.copies, "copy", "copies"))
    changed = Counter(r.rewrite for r in kernel.rewrites or () if r.source_line is None)
    parts.extend(f"{name} {count}" for name, count in changed.items())
    if kernel.mean_delta is not None:
        parts.append(f"mean |N| {kernel.mean_delta:.2f}")
    if kernel.instructions is not None:
        parts.append(_plural(kernel.instructions, "instruction"))
    if kernel.block is not None:
        parts.append(block_words(kernel.block))
    return ", ".join(parts)


def block_words(block: tuple[int, int, int]) -> str:
    """ "blocks of 32x8"."""
    x, y, z = block
    shape = f"{x}x{y}x{z}" if z > 1 else f"{x}x{y}" if y > 1 else str(x)
    return f"blocks of {shape}"


def _plural(count: int, one: str, many: str | None = None) -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"


def access_table(accesses: Sequence[Access], *, by_source: bool = False) -> Table:
    """Accesses in their order, or those of a line of the source that are alike as one row, behind
    each other, the most expensive line first. Columns that would be empty are left out."""
    groups = _of_source_lines(accesses) if by_source else [[access] for access in accesses]
    cells = {name: [_cell(name, group) for group in groups] for name in _CELLS}
    if by_source and any(cells["source"]):
        cells = {"source": cells.pop("source"), **cells}
    kept = {name: column for name, column in cells.items() if any(column)}
    rows = tuple(zip(*kept.values(), strict=True))
    right = frozenset({"line", "bytes", "stride", "sectors", "used", "weight"})
    return Table(tuple(kept), rows, right)


def _cell(name: str, group: Sequence[Access]) -> str:
    """A cell about accesses that are one row: what differs is told of the first."""
    if name == "weight":
        return f"{sum(map(weight, group)):.0f}"
    cells = [_CELLS[name](access) for access in group]
    if name == "line":
        return _first_few(cells)
    others = len(set(cells)) - 1
    return f"{cells[0]} +{others}" if others else cells[0]


def _of_source_lines(accesses: Sequence[Access]) -> list[list[Access]]:
    """The accesses that look alike of each line of the source; what has none stays alone."""
    alike: dict[tuple[str, ...], list[Access]] = {}
    totals: Counter[str] = Counter()
    for access in accesses:
        place = access.source or f" {access.line}"
        totals[place] += int(weight(access))
        same = ("access", "bytes", "stride", "sectors", "used", "banks", "why unknown")
        alike.setdefault((place, *(_CELLS[name](access) for name in same)), []).append(access)
    lines = list(totals)
    ordered = sorted(
        alike.items(),
        key=lambda item: (
            -totals[item[0][0]], lines.index(item[0][0]), -sum(map(weight, item[1])),
        ),
    )  # fmt: skip
    return [group for _, group in ordered]


def row_table(rows: tuple[Row, ...]) -> Table:
    """What the letters of the address column stand for."""
    return Table(("row", "address"), tuple((row.name, row.address) for row in rows))


def _file_name(source: str | None) -> str:
    return source.rpartition("/")[2] if source else ""


def _stride(access: Access) -> str:
    if access.uniform:
        return "uniform"
    if _own(access):
        return "own"
    if access.lane_stride is not None:
        return str(access.lane_stride)
    if access.phase is not None and access.lane_step and access.lane_step.lstrip("-").isdigit():
        return f"{access.lane_step} in rows"  # of a block that are shorter than a warp
    if access.lanes is not None or (access.sectors is not None and access.lane_step is None):
        return "irregular"
    return access.lane_step or "varies"


def _own(access: Access) -> bool:
    """Does each lane use its own word at one address of local memory?"""
    return access.lane_stride == 0 and (access.sectors or 0) >= 4


def _sectors(access: Access) -> str:
    if access.sectors is not None:
        most = str(access.sectors)
        counts = [t.sectors for t in access.iterations if t.sectors is not None]
        return most if len(set(counts)) < 2 else f"{min(counts)} to {most}"
    return "up to 32" if access.space in ("global", "generic") and access.bytes else ""


def _used(access: Access) -> str:
    """Of the bytes that are moved, how many are asked for."""
    if (
        not _own(access)
        and access.sectors is not None
        and (access.uniform or access.lane_stride == 0)
    ):
        return "one"
    return "" if access.efficiency is None else f"{100 * access.efficiency:.0f}%"


def _banks(access: Access) -> str:
    if access.space != "shared" or access.bytes is None:
        return ""
    ways = access.bank_conflicts
    if ways is None:
        return UNKNOWN
    if (access.contention or 1) > 1:
        conflict = "" if ways == 1 else f"{ways}-way conflict, "
        return f"{conflict}contention of {access.contention}"
    counts = [t.bank_conflicts for t in access.iterations if t.bank_conflicts is not None]
    if len(set(counts)) > 1:
        worst = next(t.value for t in access.iterations if t.bank_conflicts == ways)
        return f"{min(counts)}- to {ways}-way conflict, worst at {access.changing} = {worst}"
    return "ok" if ways == 1 else f"{ways}-way conflict"


def _place(access: Access) -> str:
    if access.row is None or access.offset is None:
        return access.index or "differs by path"
    return access.row if not access.offset else f"{access.row}{access.offset:+d}"


def _reuse(access: Access) -> str:
    """The nearest loads of the same bytes: as in "70 by lane +1", "67 an iteration of BB0_2
    ago"."""
    parts = []
    for reuse in access.reuse[:1]:
        who = f"lane {reuse.delta:+d}" if reuse.delta else "this thread"
        parts.append(f"{reuse.line} by {who}")
    if not access.reuse or access.reuse[0].delta:
        parts.extend(carried_text(access, carried) for carried in access.carried[:1])
    return "; ".join(parts)


def carried_text(access: Access, carried: Carried) -> str:
    """As in "67 by lane +1 2 iterations of BB0_2 ago"."""
    which = "itself" if carried.line == access.line else str(carried.line)
    who = f" by lane {carried.delta:+d}" if carried.delta else ""
    when = "an iteration" if carried.iterations == 1 else f"{carried.iterations} iterations"
    return f"{which}{who} {when} of {carried.loop} ago"


def _outlook(access: Access) -> str:
    """As in "shuffle from 70 lane -1, guarded", "load: read-only, behind a test"."""
    outlook, over_stores = access.optimizer, access.over_stores
    if over_stores is not None and (
        outlook is None or (outlook.action, outlook.reason) == ("keep", None)
    ):
        return f"{access.kind}: {over_stores}"
    if outlook is None:
        return ""
    if outlook.action in ("shuffle", "copy"):
        lane = f" lane {outlook.delta:+d}" if outlook.delta else ""
        return f"{outlook.action} from {outlook.source_line}{lane}, {outlook.proof}"
    if outlook.action == "source":
        return "load, for others too"
    return f"load: {outlook.reason}" if outlook.reason else "load"


_CELLS: Mapping[str, Callable[[Access], str]] = {
    "line": lambda a: show(a.line),
    "source": lambda a: _file_name(a.source),
    "access": lambda a: a.opcode,
    "bytes": lambda a: show(a.bytes),
    "stride": _stride,
    "sectors": _sectors,
    "used": _used,
    "banks": _banks,
    "weight": lambda a: f"{weight(a):.0f}",
    "address": _place,
    "why unknown": lambda a: (a.hidden or "") if a.bytes else "",
    "same bytes": _reuse,
    "optimize --mode force": _outlook,
}
"""What is told of an access, column by column."""


def rewrite_table(kernel: Kernel) -> Table:
    """Loads that were served by another lane or another register."""
    rows = tuple(
        (show(r.line), show(r.source_line), _delta(r.delta), show(r.scheme), show(r.form),
         proof_text(r.proof))
        for r in kernel.rewrites or ()
        if r.source_line is not None
    )  # fmt: skip
    header = ("line", "from", "N", "scheme", "form", "proof")
    return Table(header, rows, frozenset({"line", "from", "N"}))


def change_table(kernel: Kernel) -> Table:
    """What was done by rewrites that take no value from another load."""
    rows = tuple(
        (show(r.line), r.rewrite, _facts(r.detail), proof_text(r.proof))
        for r in kernel.rewrites or ()
        if r.source_line is None
    )
    return Table(("line", "rewrite", "what", "proof"), rows, frozenset({"line"}))


def _facts(detail: Mapping[str, Any]) -> str:
    """As in "lines 46, 50; bytes 8"; a yes is its name alone ("tested"). What is not there is left
    out, and what has several fields has a table of its own."""
    return "; ".join(
        name.replace("_", " ") + ("" if value is True else f" {_listed(value)}")
        for name, value in detail.items()
        if value is not None
        and value is not False
        and not (isinstance(value, Sequence) and (not value or isinstance(value[0], Mapping)))
    )


def _listed(value: Any) -> str:
    several = isinstance(value, Sequence) and not isinstance(value, str)
    return ", ".join(dict.fromkeys(map(str, value))) if several else str(value)


def wavefront_table(kernel: Kernel) -> Table:
    """Shared accesses that ask the banks of their memory less or more often than before."""
    rows = tuple(
        (show(access["line"]), _count(access["wavefronts"]), _count(access["wavefronts_after"]))
        for rewrite in kernel.rewrites or ()
        if rewrite.rewrite == "bank-conflicts"
        for access in rewrite.detail["accesses"]
        if access["wavefronts"] != access["wavefronts_after"]
    )
    return Table(("line", "wavefronts", "after"), rows, frozenset(("line", "wavefronts", "after")))


def _count(number: float) -> str:
    return f"{number:g}"


def proof_text(proof: Proof) -> str:
    """As in: tested at run time: a; b, assuming c."""
    parts = []
    if proof.guards:
        lead = "tested at run time:" if proof.status == "guarded" else "proved where"
        parts.append(f"{lead} {'; '.join(proof.guards)}")
    elif proof.status == "proved":
        parts.append("proved")
    if proof.assumptions:
        parts.append(f"assuming {', '.join(proof.assumptions)}")
    return ", ".join(parts)


def refusal_table(kernel: Kernel) -> Table:
    """What was left alone, and why. Which rewrite did so is said unless all could only have
    taken a value from another load."""
    refusals = kernel.refusals or ()
    right = frozenset({"line", "from", "N"})
    if all(r.rewrite in _TAKE_VALUES for r in refusals):
        rows = tuple(
            (show(r.line), show(r.source_line), _delta(r.delta), r.reason) for r in refusals
        )
        return Table(("line", "from", "N", "reason"), rows, right)
    named = tuple(
        (
            show(r.line),
            r.rewrite or "",
            "" if r.source_line is None else show(r.source_line),
            "" if r.delta is None else _delta(r.delta),
            r.reason,
        )
        for r in refusals
    )
    return Table(("line", "rewrite", "from", "N", "reason"), named, right)


_TAKE_VALUES = frozenset({None, "shuffle", "load-elimination"})

_PLACES = frozenset({"line", "from", "N"})
_FEW = 3


def told_once(table: Table) -> Table:
    """The same table, in which many rows that differ in their places alone are one row. It names
    the first places and counts the others: "76, 78, 87 +3". Equal rows, of code that stands twice,
    are one: "76 (twice)"."""
    is_place = [name in _PLACES for name in table.header]
    by_text: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for row in table.rows:
        said = tuple(cell for cell, place in zip(row, is_place, strict=True) if not place)
        by_text.setdefault(said, []).append(row)
    rows: list[tuple[str, ...]] = []
    for same in by_text.values():
        if len(set(same)) > _FEW:
            rows.append(tuple(map(_first_few, zip(*same, strict=True))))
            continue
        for row, count in Counter(same).items():
            times = {1: "", 2: " (twice)"}.get(count, f" ({count} times)")
            rows.append((row[0] + times, *row[1:]))
    return Table(table.header, tuple(rows), table.right)


def _first_few(cells: Sequence[str]) -> str:
    different = tuple(dict.fromkeys(cells))
    more = len(different) - _FEW
    return ", ".join(different[:_FEW]) + (f" +{more}" if more > 0 else "")
