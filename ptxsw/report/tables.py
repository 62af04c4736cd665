"""The tables of a report, before they are drawn as text or Markdown."""

from __future__ import annotations

from dataclasses import dataclass

from ptxsw.report.model import Access, Kernel, Proof

UNKNOWN = "?"


@dataclass(frozen=True, slots=True)
class Table:
    """Cells as text. `right` names the columns that are aligned to the right."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[str] = frozenset()


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
    """One line of figures: "9 global loads, 6 shuffles, 0 copies, mean |N| 1.50"."""
    parts = [_plural(kernel.loads, "global load")]
    if kernel.shuffles is not None:
        parts.append(_plural(kernel.shuffles, "shuffle"))
    if kernel.copies is not None:
        parts.append(_plural(kernel.copies, "copy", "copies"))
    if kernel.mean_delta is not None:
        parts.append(f"mean |N| {kernel.mean_delta:.2f}")
    if kernel.instructions is not None:
        parts.append(_plural(kernel.instructions, "instruction"))
    return ", ".join(parts)


def _plural(count: int, one: str, many: str | None = None) -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"


def access_table(accesses: tuple[Access, ...]) -> Table:
    """Accesses in program order; the column of source lines only where there are any."""
    with_source = any(access.source for access in accesses)
    header: tuple[str, ...] = (
        "line",
        "kind",
        "space",
        "opcode",
        "bytes",
        "stride",
        "sectors",
        "uniform",
        "address",
    )
    rows = [
        tuple(
            show(cell)
            for cell in (
                a.line, a.kind, a.space, a.opcode, a.bytes, a.lane_stride, a.sectors, a.uniform,
                a.address,
            )
        )
        for a in accesses
    ]  # fmt: skip
    if with_source:
        header = ("line", "source", *header[1:])
        rows = [(row[0], a.source or "", *row[1:]) for row, a in zip(rows, accesses, strict=True)]
    return Table(header, tuple(rows), frozenset({"line", "bytes", "stride", "sectors"}))


def rewrite_table(kernel: Kernel) -> Table:
    """Loads that were served by another lane or another register."""
    rows = tuple(
        (show(r.line), show(r.source_line), _delta(r.delta), r.scheme, r.form, proof_text(r.proof))
        for r in kernel.rewrites or ()
    )
    header = ("line", "from", "N", "scheme", "form", "proof")
    return Table(header, rows, frozenset({"line", "from", "N"}))


def proof_text(proof: Proof) -> str:
    """As in: guarded by a; b, assuming c."""
    text = proof.status
    if proof.guards:
        text += f" by {'; '.join(proof.guards)}"
    if proof.assumptions:
        text += (
            f"{'' if proof.status == 'assumed' else ', assuming'} {', '.join(proof.assumptions)}"
        )
    return text


def refusal_table(kernel: Kernel) -> Table:
    """Loads that were left alone, and why."""
    rows = tuple(
        (show(r.line), show(r.source_line), _delta(r.delta), r.reason)
        for r in kernel.refusals or ()
    )
    return Table(("line", "from", "N", "reason"), rows, frozenset({"line", "from", "N"}))
