"""Permuted addresses of shared accesses; `rewrites/bank_conflicts.py` has the lines before and
after."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from msgspec import Struct, field

from ptxsw import isa
from ptxsw.change import Change, Line
from ptxsw.codegen.builder import Builder
from ptxsw.codegen.splice import Edit
from ptxsw.flow.cfg import Cfg
from ptxsw.flow.dataflow import writers
from ptxsw.ir import Reg, Symbol, Variable
from ptxsw.permutation import ROW, Permutation


class SharedAccess(Struct, frozen=True):
    """Access `at`, and the wavefronts of a warp before and behind the change (0: not known).
    `in_row`: its offset may be added behind the permutation, since what it holds of a row (bytes,
    modulo 128) carries nothing."""

    at: int
    in_row: bool = False
    before: float = 0.0
    after: float = 0.0
    banks: tuple[int, ...] = ()  # words wanted of each, where most are wanted of one
    banks_after: tuple[int, ...] = ()


class PermutedBanks(Struct, frozen=True):
    """All shared accesses of a kernel go through one permutation; `arrays` are its own arrays,
    which get whole rows."""

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
    for change in changes:
        detail = change.detail
        assert isinstance(detail, PermutedBanks)
        writer = PermutedAddresses(builder, cfg, text, detail.permutation)
        for access in sorted(detail.accesses, key=lambda a: a.at):
            lines, instruction = writer.permuted(access)
            builder.before(access.at, *lines)
            builder.replace(access.at, instruction)
        edits += [_whole_rows(array) for array in detail.arrays]
    return tuple(edits)


def most_added(lines: Iterable[str]) -> int:
    """How many machine instructions some lines are at most. Of `and` and `xor` ptxas makes one.
    Where an address of the text is shifted, its product or the start of its array may have been
    folded into the access before, and is an instruction now."""
    shifted = re.compile(r"shr\.u32 \S+ (?!%sw_)")
    free = ("and.", "cvt.")
    return sum(0 if line.startswith(free) else 2 if shifted.match(line) else 1 for line in lines)


_Key = tuple[object, ...]


class PermutedAddresses(Struct, dict=True):
    """Computes permuted addresses; what a block has computed those that it dominates use again."""

    builder: Builder
    cfg: Cfg
    text: str
    permutation: Permutation
    _known: dict[_Key, dict[int, str]] = field(default_factory=dict)  # by block
    _block: int = 0  # of the access that is written
    _mask: str = ""

    def permuted(self, access: SharedAccess) -> tuple[list[str], str]:
        """The lines before an access, and the access itself with its new address."""
        self._block = self.cfg.block_of[access.at]
        instruction = self.builder.instructions[access.at]
        address = isa.address(instruction)
        lines: list[str] = []
        base, offset = address.base, address.offset
        if isinstance(base, Symbol):
            name = f"{base.name}{f'+{base.offset + offset}' if base.offset + offset else ''}"
            register, more = self._image(self._symbol(name, lines), lines), 0
        else:
            assert isinstance(base, Reg)
            held = self._low(base, access.at, lines)
            register, more = self._moved(held, offset, access.in_row, lines)
        span = instruction.span
        head, _, rest = self.text[span.start : span.end].partition("[")
        tail = rest.partition("]")[2]
        return lines, f"{head}[{register}{f'+{more}' if more else ''}]{tail}"

    def _once(self, key: _Key, stem: str, line: str, lines: list[str]) -> str:
        """A register that `line` computes (`$` stands for it), unless it has been computed in this
        block or in one that dominates it."""
        names = self._known.setdefault(key, {})
        name = next((name for block, name in names.items() if self._reaches(block)), None)
        if name is None:
            name = names[self._block] = self.builder.register(stem, "b32")
            lines.append(line.replace("$", name))
        return name

    def _symbol(self, name: str, lines: list[str]) -> str:
        return self._once((name,), "array", f"mov.u32 $, {name};", lines)

    def _reaches(self, block: int) -> bool:
        """Has a block surely been run before the one that is written?"""
        here, reachable = self._block, self.cfg.rank
        if block == here:
            return True
        return block in reachable and here in reachable and self.cfg.dominates(block, here)

    def _low(self, base: Reg, at: int, lines: list[str]) -> str:
        """A name for the value of an address register, and the register: "%r4 0", or "%r4 0 7 1"
        for its value behind one write in block 7. A register with one writer that dominates the
        access has one value; of any other only accesses of one block between two writes share it.
        Of a 64-bit register the low half is taken: shared addresses fit 32 bits."""
        indices, value = self._writers.get(base, []), f"{base.scope}"
        once = (
            len(indices) == 1 and indices[0] < at and self._reaches(self.cfg.block_of[indices[0]])
        )
        if not once:
            start = self.cfg.blocks[self._block].start
            value += f" {self._block} {bisect_left(indices, at) - bisect_left(indices, start)}"
        if self.builder.width(base) == 32:
            return f"{base.name} {value}"
        return self._once((base, value), "address", f"cvt.u32.u64 $, {base.name};", lines)

    @cached_property
    def _writers(self) -> Mapping[Reg, list[int]]:
        """The instructions that write each register, in order."""
        return writers(self.cfg.written)

    def _moved(self, held: str, offset: int, in_row: bool, lines: list[str]) -> tuple[str, int]:
        """The image of `held + offset`: a register, and what is added in the address."""
        low = offset % ROW
        high = offset - low
        shift = self.permutation.shifts[0]
        # The permutation reads address bits below `reach` only. Whole multiples of that change
        # nothing in it, and stay in the access as an offset.
        rows = high % self.permutation.reach
        simple = len(self.permutation.shifts) == 1 and high % (1 << shift) == 0
        # π(held + offset) without a sum of its own: bytes inside a granule are added behind π,
        # granules inside a row are exchanged by the same bits as `held` (an xor, since the offset
        # carries nothing), and rows further on only change the bits that decide.
        if in_row and (not rows or simple):
            inside = low % self.permutation.granule
            image = self._row_on(held, rows, lines) if rows else self._image(held, lines)
            return self._in_row(image, low - inside, lines), high + inside
        line = f"add.s32 $, {_name(held)}, {offset};"
        return self._image(self._once((held, offset), "address", line, lines), lines), 0

    def _in_row(self, image: str, low: int, lines: list[str]) -> str:
        """Inside a row, where nothing carries, granules are added behind the permutation."""
        if not low:
            return image
        return self._once((image, low), "bank", f"xor.b32 $, {image}, {low};", lines)

    def _row_on(self, held: str, offset: int, lines: list[str]) -> str:
        """The image of an address whole rows further on, less these rows: only the bits that
        decide change."""
        shift = self.permutation.shifts[0]
        row = self._once((held, "row"), "row", f"shr.u32 $, {_name(held)}, {shift};", lines)
        line = f"add.s32 $, {row}, {offset >> shift};"
        row = self._once((held, "row", offset), "row", line, lines)
        return self._exchanged(held, row, lines)

    def _image(self, held: str, lines: list[str]) -> str:
        """π of an address in a register."""
        field = ""
        for shift in self.permutation.shifts:
            line = f"shr.u32 $, {_name(held)}, {shift};"
            key = (held, "row") if shift == self.permutation.shifts[0] else (held, "row", -shift)
            row = self._once(key, "row", line, lines)
            line = f"xor.b32 $, {field}, {row};"
            field = self._once((field, row), "row", line, lines) if field else row
        return self._exchanged(held, field, lines)

    def _exchanged(self, held: str, field: str, lines: list[str]) -> str:
        line = f"and.b32 $, {field}, {self._mask or self._masked()};"
        kept = self._once((field, "masked"), "swap", line, lines)
        return self._once((held, kept), "bank", f"xor.b32 $, {_name(held)}, {kept};", lines)

    def _masked(self) -> str:
        """The mask: a number, or with dynamic memory a register set at the kernel's entry."""
        # Where start or size of dynamic memory is no multiple of a row, π would leave the array.
        # With mask 0 it is the identity. The test is one `and`: of an `or` of all ends.
        mask = self.permutation.mask
        self._mask = str(mask)
        if self.permutation.dynamic:
            builder = self.builder
            ends = builder.register("ends", "b32")
            builder.at_entry(f"mov.u32 {ends}, %dynamic_smem_size;")
            for name in self.permutation.dynamic:
                start, both = builder.register("start", "b32"), builder.register("ends", "b32")
                builder.at_entry(f"mov.u32 {start}, {name};", f"or.b32 {both}, {ends}, {start};")
                ends = both
            rest, whole = builder.register("rest", "b32"), builder.register("whole", "pred")
            self._mask = builder.register("mask", "b32")
            builder.at_entry(
                f"and.b32 {rest}, {ends}, {ROW - 1};",
                f"setp.eq.u32 {whole}, {rest}, 0;",
                f"selp.b32 {self._mask}, {mask}, 0, {whole};",
            )
        return self._mask


def _name(held: str) -> str:
    return held.partition(" ")[0]


def has_whole_rows(array: Variable) -> bool:
    """Does an array, as it is declared, begin and end where a row does?"""
    return (array.align or 1) % ROW == 0 and array.size % ROW == 0


def _whole_rows(array: Variable) -> Edit:
    """The declaration of an array of whole rows."""
    rows = -(-array.size // ROW) * ROW
    align = max(ROW, array.align or 1)
    linkage = "".join(f".{word} " for word in array.linkage)
    return Edit(array.span, f"{linkage}.shared .align {align} .b8 {array.name}[{rows}];")
