"""The instructions that permute addresses of shared memory. A block uses what one that is run
before it has computed.

`rewrites/bank_conflicts.py` has the lines before and after.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from functools import cached_property

from msgspec import Struct, field

from ptxsw.changes.permutation import ROW, Permutation
from ptxsw.codegen.builder import Builder
from ptxsw.flow.cfg import Cfg
from ptxsw.flow.dataflow import writers
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Reg, Symbol


class AddressCode(Struct, dict=True):
    """The instructions: `lines` collects them for the access that is permuted, `instructions`
    counts how many machine instructions they all are at most, those at the entry left out."""

    builder: Builder
    permutation: Permutation
    lines: list[str] = field(default_factory=list)
    instructions: int = 0

    def computed(self, stem: str, opcode: str, *operands: object) -> str:
        """The register, of 32 bits, that an instruction computes."""
        name = self.builder.register(stem, "b32")
        self.lines.append(f"{opcode} {name}, {', '.join(map(str, operands))};")
        # Of `and` and `xor` ptxas makes one. Where an address of the text is shifted, its product
        # or the start of its array may have been folded into the access before, and is an
        # instruction now.
        if opcode not in ("and.b32", "cvt.u32.u64"):
            ours = str(operands[0]).startswith(self.builder.names.prefix)
            self.instructions += 2 if opcode == "shr.u32" and not ours else 1
        return name

    @cached_property
    def mask(self) -> str:
        """The mask of the permutation: a number, or a register set at the kernel's entry."""
        # Where start or size of dynamic memory is no multiple of a row, π would leave the array.
        # With mask 0 it is the identity. The test is one `and`: of an `or` of all ends.
        mask, builder = self.permutation.mask, self.builder
        if not self.permutation.dynamic:
            return str(mask)
        ends = builder.register("ends", "b32")
        builder.at_entry(f"mov.u32 {ends}, %dynamic_smem_size;")
        for name in self.permutation.dynamic:
            start, both = builder.register("start", "b32"), builder.register("ends", "b32")
            builder.at_entry(f"mov.u32 {start}, {name};", f"or.b32 {both}, {ends}, {start};")
            ends = both
        rest, whole = builder.register("rest", "b32"), builder.register("whole", "pred")
        chosen = builder.register("mask", "b32")
        builder.at_entry(
            f"and.b32 {rest}, {ends}, {ROW - 1};",
            f"setp.eq.u32 {whole}, {rest}, 0;",
            f"selp.b32 {chosen}, {mask}, 0, {whole};",
        )
        return chosen


class AddressValues(Struct, frozen=True, dict=True):
    """Which accesses find the same value in a register."""

    cfg: Cfg
    width: Callable[[Reg], int]  # of a register of the text, in bits
    _known: dict[int, str] = field(default_factory=dict)

    def of(self, base: Reg, at: int) -> str:
        """A name for what the address register of access `at` holds there: "0", or "0 7 1" behind
        one write in block 7. A register with one writer that dominates the access has one value;
        of any other only accesses of one block between two writes share it."""
        if at not in self._known:
            self._known[at] = self._value(base, at)
        return self._known[at]

    def _value(self, base: Reg, at: int) -> str:
        indices, block = self._writers.get(base, []), self.cfg.block_of[at]
        is_written_before = len(indices) == 1 and indices[0] < at
        if is_written_before and self.reaches(self.cfg.block_of[indices[0]], block):
            return f"{base.scope}"
        writes = bisect_left(indices, at) - bisect_left(indices, self.cfg.blocks[block].start)
        return f"{base.scope} {block} {writes}"

    @cached_property
    def _writers(self) -> Mapping[Reg, list[int]]:
        """The instructions that write each register, in order."""
        return writers(self.cfg.written)

    def reaches(self, block: int, other: int) -> bool:
        """Has a block surely been run before another one?"""
        if block == other:
            return True
        reachable = self.cfg.rank
        return block in reachable and other in reachable and self.cfg.dominates(block, other)


_Key = tuple[object, ...]
Address = tuple[str, int]
"""A register, and what is added in the access."""


class PermutedAddresses(Struct):
    """Computes permuted addresses; what a block has computed those that it dominates use again."""

    code: AddressCode
    values: AddressValues
    permutation: Permutation
    _known: dict[_Key, dict[int, str]] = field(default_factory=dict)  # by block
    _addresses: dict[_Key, Address] = field(default_factory=dict)
    _block: int = 0  # of the access that is permuted

    def of(self, at: int, in_row: bool) -> Address:
        """The permuted address of access `at`. `in_row`: its offset may be added behind the
        permutation, since what it holds of a row carries nothing."""
        cfg = self.values.cfg
        self._block = cfg.block_of[at]
        address = isa.address(cfg.instructions[at])
        base, offset = address.base, address.offset
        if isinstance(base, Symbol):
            name = f"{base.name}{f'+{base.offset + offset}' if base.offset + offset else ''}"
            return self._image(self._once((name,), "array", "mov.u32", name)), 0
        assert isinstance(base, Reg)
        key = (base, self.values.of(base, at), offset, in_row, self._block)
        if key not in self._addresses:
            self._addresses[key] = self._moved(self._low(base, at), offset, in_row)
        return self._addresses[key]

    def _once(self, key: _Key, stem: str, opcode: str, *operands: object) -> str:
        """A register that an instruction computes, unless it has been computed in this block or in
        one that dominates it."""
        names, here = self._known.setdefault(key, {}), self._block
        if here in names:
            return names[here]
        reaches = self.values.reaches
        name = next((name for block, name in names.items() if reaches(block, here)), None)
        if name is None:
            name = names[here] = self.code.computed(stem, opcode, *operands)
        return name

    def _low(self, base: Reg, at: int) -> str:
        """A name for the value of an address register, which begins with that of a register: "%r4
        0" (`AddressValues`). Of a 64-bit register the low half is taken: shared addresses fit 32
        bits."""
        value = self.values.of(base, at)
        if self.values.width(base) == 32:
            return f"{base.name} {value}"
        return self._once((base, value), "address", "cvt.u32.u64", base.name)

    def _moved(self, held: str, offset: int, in_row: bool) -> Address:
        """The image of `held + offset`."""
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
            image = self._row_on(held, rows) if rows else self._image(held)
            return self._in_row(image, low - inside), high + inside
        return self._image(
            self._once((held, offset), "address", "add.s32", _name(held), offset)
        ), 0  # fmt: skip

    def _in_row(self, image: str, low: int) -> str:
        """Inside a row, where nothing carries, granules are added behind the permutation."""
        return self._once((image, low), "bank", "xor.b32", image, low) if low else image

    def _row_on(self, held: str, offset: int) -> str:
        """The image of an address whole rows further on, less these rows: only the bits that
        decide change."""
        shift = self.permutation.shifts[0]
        row = self._once((held, "row"), "row", "shr.u32", _name(held), shift)
        row = self._once((held, "row", offset), "row", "add.s32", row, offset >> shift)
        return self._exchanged(held, row)

    def _image(self, held: str) -> str:
        """π of an address in a register."""
        deciding = ""
        for shift in self.permutation.shifts:
            key = (held, "row") if shift == self.permutation.shifts[0] else (held, "row", -shift)
            row = self._once(key, "row", "shr.u32", _name(held), shift)
            both = (deciding, row)
            deciding = self._once(both, "row", "xor.b32", *both) if deciding else row
        return self._exchanged(held, deciding)

    def _exchanged(self, held: str, deciding: str) -> str:
        kept = self._once((deciding, "masked"), "swap", "and.b32", deciding, self.code.mask)
        return self._once((held, kept), "bank", "xor.b32", _name(held), kept)


def _name(held: str) -> str:
    return held.partition(" ")[0]
