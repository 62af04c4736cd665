"""Shared accesses with permuted addresses, and arrays of whole rows;
`rewrites/bank_conflicts.py` has the lines before and after."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from ptxsw.changes.change import Change, Line
from ptxsw.changes.permutation import ROW, Permutation
from ptxsw.codegen.builder import Builder
from ptxsw.codegen.permuted_addresses import AddressCode, AddressValues, PermutedAddresses
from ptxsw.codegen.splice import Edit
from ptxsw.flow.cfg import Cfg
from ptxsw.ptx.ir import Instruction, Variable


class SharedAccess(Struct, frozen=True):
    """Access `at`, and the wavefronts of a warp before and behind the change (0: not known).
    `in_row`: its offset may be added behind the permutation, since what it holds of a row (bytes,
    modulo 128) carries nothing. `array`: from whose start it is permuted, if arrays are so one by
    one; then the number of an element of up to `element` bytes may be permuted."""

    at: int
    in_row: bool = False
    before: float = 0.0
    after: float = 0.0
    banks: tuple[int, ...] = ()  # words wanted of each, where most are wanted of one
    banks_after: tuple[int, ...] = ()
    array: str = ""
    element: int = 1

    @property
    def address(self) -> tuple[int, bool, str, int]:
        """What its new address depends on."""
        return self.at, self.in_row, self.array, self.element


class PermutedBanks(Struct, frozen=True):
    """All shared accesses of a kernel go through one permutation, or all those to some arrays;
    `arrays` are those of its own that get whole rows."""

    permutation: Permutation
    accesses: tuple[SharedAccess, ...]
    arrays: tuple[Variable, ...] = ()

    def facts(self, line: Line) -> Mapping[str, Any]:
        """What a report says of it."""
        return {
            "permutation": str(self.permutation),
            "granule": self.permutation.granule,
            "accesses": [_told(access, line) for access in self.accesses],
        }


def _told(access: SharedAccess, line: Line) -> dict[str, Any]:
    """The wavefronts of an access, and of one that is changed its banks."""
    facts = {
        "line": line(access.at),
        "wavefronts": round(access.before, 2),
        "wavefronts_after": round(access.after, 2),
    }
    if access.before == access.after:
        return facts
    return facts | {"banks": list(access.banks), "banks_after": list(access.banks_after)}


def lower(builder: Builder, cfg: Cfg, text: str, changes: Iterable[Change]) -> tuple[Edit, ...]:
    """Write all changes; `text` is that of the whole module. The edits of declarations."""
    edits: list[Edit] = []
    values = AddressValues(cfg, builder.width)
    for change in changes:
        detail = change.detail
        assert isinstance(detail, PermutedBanks)
        code = AddressCode(builder, detail.permutation)
        addresses = PermutedAddresses(code, values, detail.permutation)
        for access in sorted(detail.accesses, key=lambda a: a.at):
            code.lines = []
            register, more = addresses.of(*access.address)
            builder.before(access.at, *code.lines)
            instruction = cfg.instructions[access.at]
            builder.replace(access.at, _with_address(text, instruction, register, more))
        edits += [_whole_rows(array, detail.permutation) for array in detail.arrays]
    return tuple(edits)


def _with_address(text: str, instruction: Instruction, register: str, more: int) -> str:
    """An access as it stands in the text, but for its address."""
    span = instruction.span
    head, _, rest = text[span.start : span.end].partition("[")
    tail = rest.partition("]")[2]
    return f"{head}[{register}{f'+{more}' if more else ''}]{tail}"


def has_whole_rows(array: Variable, align: int = ROW) -> bool:
    """Does an array, as it is declared, have whole rows, and begin at a multiple of `align`?"""
    return (array.align or 1) % align == 0 and array.size % ROW == 0


def _whole_rows(array: Variable, permutation: Permutation) -> Edit:
    """The declaration of an array of whole rows, each with its padding if there is any."""
    rows = -(-array.size // ROW)
    size = permutation.of(rows * ROW) if permutation.padded else rows * ROW
    align = max(permutation.granule if permutation.arrays else ROW, array.align or 1)
    linkage = "".join(f".{word} " for word in array.linkage)
    return Edit(array.span, f"{linkage}.shared .align {align} .b8 {array.name}[{size}];")
