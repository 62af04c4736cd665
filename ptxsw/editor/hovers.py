"""What the accesses of a line cost, for an editor to show where the pointer rests."""

from __future__ import annotations

import os
from collections.abc import Iterator

from ptxsw.editor.answers import CheckAnswer, ShownAccess, ShownKernel
from ptxsw.report.tables import block_words

_MOST = 12  # accesses of a line


def hover(answer: CheckAnswer, directory: str, path: str, line: int) -> str | None:
    """The accesses of a line of a source or a PTX, counted from 1, as Markdown; None where it has
    none. `check` was run in the directory."""
    parts = [
        part for kernel in answer.kernels if (part := _of_kernel(kernel, directory, path, line))
    ]
    return "\n\n".join(parts) or None


def _of_kernel(kernel: ShownKernel, directory: str, path: str, line: int) -> str:
    here = [access for access in kernel.accesses if _is_at(access, directory, path, line)]
    if not here:
        return ""
    count = _plural(len(here), "access", "accesses")
    shape = "" if kernel.block is None else f", {block_words(kernel.block)}"
    table = [
        f"**{kernel.readable or kernel.name}**: {count}{shape}",
        "",
        "| access | bytes | from lane to lane | a warp takes | address |",
        "|---|---|---|---|---|",
        *(_row(access) for access in here[:_MOST]),
    ]
    if len(here) > _MOST:
        table += ["", f"and {len(here) - _MOST} more"]
    return "\n".join(table)


def _is_at(access: ShownAccess, directory: str, path: str, line: int) -> bool:
    if path.endswith(".ptx"):
        return access.line == line
    name, _, number = (access.source or "").rpartition(":")
    return number == str(line) and same_file(os.path.join(directory, name), path)


def same_file(one: str, other: str) -> bool:
    """Do two paths lead to one file?"""
    return os.path.realpath(one) == os.path.realpath(other)


def _row(access: ShownAccess) -> str:
    stride = "the same address" if access.uniform else _bytes(access.lane_stride)
    cells = (
        f"`{access.opcode}`", _number(access.bytes), stride, _cost(access),
        f"`{access.index}`" if access.index else "not known",
    )  # fmt: skip
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _cost(access: ShownAccess) -> str:
    return ", ".join(_costs(access)) or "not known"


def _costs(access: ShownAccess) -> Iterator[str]:
    if access.sectors is not None:
        used = "" if access.efficiency is None else f" ({100 * access.efficiency:.0f} % used)"
        yield f"{_plural(access.sectors, 'sector', 'sectors')}{used}"
    if access.bank_conflicts is not None and access.bank_conflicts > 1:
        yield f"{access.bank_conflicts}-way bank conflict"
    elif access.space == "shared" and access.bank_conflicts is not None:
        yield "no bank conflict"


def _bytes(stride: int | None) -> str:
    return "not known" if stride is None else f"{stride:,} bytes"


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


def _plural(count: float, one: str, several: str) -> str:
    return f"{count:g} {one if count == 1 else several}"
