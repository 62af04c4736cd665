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
from ptxsw.ptx.ir import Int, Operand, Reg, Symbol


class AddressCode(Struct, dict=True):
    """The instructions: `lines` collects them for the access that is permuted, `instructions`
    counts how many machine instructions they all are at most, those at the entry left out."""

    builder: Builder
    permutation: Permutation
    lines: list[str] = field(default_factory=list)
    instructions: int = 0
    folds: bool = False  # what is permuted is an element's number
    _masks: dict[int, str] = field(default_factory=dict)
    _whole: str = ""

    def computed(self, stem: str, opcode: str, *operands: object) -> str:
        """The register, of 32 bits, that an instruction computes."""
        name = self.builder.register(stem, "b32")
        self.lines.append(f"{opcode} {name}, {', '.join(map(str, operands))};")
        # Of `and` and `xor` ptxas makes one. Where an address of the text is shifted, its product
        # or the start of its array may have been folded into the access before, and is an
        # instruction now. What it folded stays so if an element's number is permuted.
        folded = self.folds and stem in ("scaled", "placed")
        if opcode not in ("and.b32", "cvt.u32.u64") and not folded:
            ours = str(operands[0]).startswith(self.builder.names.prefix)
            unfolded = opcode == "shr.u32" and not ours and not self.folds
            self.instructions += 2 if unfolded else 1
        return name

    def mask(self, scale: int = 0) -> str:
        """The mask of the permutation: a number, or a register set at the kernel's entry. For
        numbers of elements of `2^scale` bytes it has as many bits less."""
        if not self.permutation.dynamic:
            return str(self.permutation.mask >> scale)
        if scale not in self._masks:
            self._masks[scale] = self._tested(self.permutation.mask >> scale)
        return self._masks[scale]

    def _tested(self, mask: int) -> str:
        # Where start or size of dynamic memory is no multiple of a row, π would leave the array.
        # With mask 0 it is the identity. The test is one `and`: of an `or` of all ends. The start
        # does not matter to what is permuted from there.
        builder = self.builder
        whole = self._whole or builder.register("whole", "pred")
        if not self._whole:
            self._whole = whole
            ends = builder.register("ends", "b32")
            builder.at_entry(f"mov.u32 {ends}, %dynamic_smem_size;")
            for name in () if self.permutation.arrays else self.permutation.dynamic:
                start, both = builder.register("start", "b32"), builder.register("ends", "b32")
                builder.at_entry(f"mov.u32 {start}, {name};", f"or.b32 {both}, {ends}, {start};")
                ends = both
            rest = builder.register("rest", "b32")
            builder.at_entry(
                f"and.b32 {rest}, {ends}, {ROW - 1};", f"setp.eq.u32 {whole}, {rest}, 0;"
            )
        chosen = builder.register("mask", "b32")
        builder.at_entry(f"selp.b32 {chosen}, {mask}, 0, {whole};")
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

    def element(self, base: Reg, at: int, array: str, most: int) -> Element | None:
        """The element of an array, of up to `most` bytes, to which the register of access `at`
        points; None where the text does not show it."""
        writer = self._only_writer(base, at)
        if writer is None:
            return None
        opcode, operands = self._read(writer)
        if opcode == "mad.lo" and self._is_start(operands[3], writer, array):
            return self._scaled(operands[1], operands[2], writer, most)
        if opcode != "add":
            return None
        for one, other in (operands[1:], operands[:0:-1]):
            if self._is_start(one, writer, array) and isinstance(other, Reg):
                shifted = self._only_writer(other, writer)
                opcode, product = ("", ()) if shifted is None else self._read(shifted)
                if opcode in ("shl", "mul.lo") and shifted is not None:
                    factor = product[2]
                    if opcode == "shl" and isinstance(factor, Int):
                        factor = Int(1 << min(factor.value, 31))
                    element = self._scaled(product[1], factor, shifted, most)
                    if element is not None:
                        return element
                return Element(other, 0) if self._is_stable(other, writer) else None
        return None

    def _scaled(self, index: Operand, factor: Operand, at: int, most: int) -> Element | None:
        if not isinstance(index, Reg) or not isinstance(factor, Int):
            return None
        size = factor.value
        fits = 0 < size <= most and size & (size - 1) == 0 and self.width(index) == 32
        return (
            Element(index, size.bit_length() - 1) if fits and self._is_stable(index, at) else None
        )

    def _read(self, at: int) -> tuple[str, tuple[Operand, ...]]:
        """What an instruction of 32 bits computes: "add", "mad.lo" and the like."""
        instruction = self.cfg.instructions[at]
        *words, kind = instruction.modifiers or ("",)
        plain = kind in ("s32", "u32", "b32") and instruction.guard is None
        return ".".join((instruction.opcode, *words)) if plain else "", instruction.operands

    def _is_start(self, operand: Operand, at: int, array: str) -> bool:
        """Is it the address of an array?"""
        if isinstance(operand, Reg):
            writer = self._only_writer(operand, at)
            opcode, operands = ("", ()) if writer is None else self._read(writer)
            operand = operands[1] if opcode == "mov" else operand
        return isinstance(operand, Symbol) and (operand.name, operand.offset) == (array, 0)

    def _is_stable(self, register: Reg, at: int) -> bool:
        return self._only_writer(register, at) is not None and not register.scope

    def _only_writer(self, register: Reg, at: int) -> int | None:
        """The only instruction that writes a register, if it comes before instruction `at` on every
        way there: then no way leads from it to where `at` counts without `at`."""
        indices = self._writers.get(register, [])
        if len(indices) != 1:
            return None
        block, here = self.cfg.block_of[indices[0]], self.cfg.block_of[at]
        before = indices[0] < at if block == here else self.reaches(block, here)
        return indices[0] if before else None


class Element(Struct, frozen=True):
    """The register with an element's number, each of `2^scale` bytes."""

    number: Reg
    scale: int


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
    _scale: int = 0  # of the element's number that is permuted

    def of(self, at: int, in_row: bool, array: str = "", most: int = 1) -> Address:
        """The permuted address of access `at`. `in_row`: its offset may be added behind the
        permutation, since what it holds of a row carries nothing. `array`: what is permuted is the
        distance from its start, or the number of an element of up to `most` bytes."""
        cfg = self.values.cfg
        self._block = cfg.block_of[at]
        address = isa.address(cfg.instructions[at])
        base, offset = address.base, address.offset
        self._scale = 0
        self.code.folds = False
        if array and isinstance(base, Symbol):
            return self._of_number(array, base.offset + offset)
        if array and isinstance(base, Reg):
            return self._from(array, base, offset, in_row, at, most)
        if isinstance(base, Symbol):
            name = f"{base.name}{f'+{base.offset + offset}' if base.offset + offset else ''}"
            return self._image(self._once((name,), "array", "mov.u32", name)), 0
        assert isinstance(base, Reg)
        key = (base, self.values.of(base, at), offset, in_row, self._block)
        if key not in self._addresses:
            self._addresses[key] = self._moved(self._low(base, at), offset, in_row)
        return self._addresses[key]

    def _from(
        self, array: str, base: Reg, offset: int, in_row: bool, at: int, most: int
    ) -> Address:
        """The same from the start of an array."""
        key = (array, base, self.values.of(base, at), offset, in_row, most, self._block)
        if key in self._addresses:
            return self._addresses[key]
        if self.permutation.padded:
            self._addresses[key] = self._padded(array, base, offset, in_row, at)
            return self._addresses[key]
        element = self.values.element(base, at, array, most)
        start = self._once((array,), "array", "mov.u32", array)
        if element is None or offset % (1 << element.scale):
            held = self._low(base, at)
            held = f"{self._once((held, array), 'distance', 'sub.s32', _name(held), start)} 0"
        else:
            self._scale = element.scale
            self.code.folds = element.scale > 0
            held = f"{element.number.name} {self.values.of(element.number, at)} {element.scale}"
        image, more = self._moved(held, offset, in_row)
        if self._scale:
            image = self._once((image, self._scale), "scaled", "shl.b32", image, self._scale)
        placed = self._once((image, array), "placed", "add.s32", image, start)
        self._addresses[key] = placed, more
        return self._addresses[key]

    def _padded(self, array: str, base: Reg, offset: int, in_row: bool, at: int) -> Address:
        """The address of what lies so far in a padded array: as much further on as rows begin
        before it."""
        low, granule = offset % ROW, self.permutation.granule
        start = self._once((array,), "array", "mov.u32", array)
        held = self._low(base, at)
        before = self._once((held, array), "distance", "sub.s32", _name(held), start)
        if low and not in_row:
            before = self._once((before, offset), "distance", "add.s32", before, offset)
        # A pointer may lie before its array, where its accesses have positive offsets.
        row = self._once((before, "row"), "row", "shr.s32", before, ROW.bit_length() - 1)
        placed = self._once((held, row), "padded", "mad.lo.s32", row, granule, _name(held))
        return placed, offset if low and not in_row else self.permutation.of(offset)

    def _of_number(self, array: str, distance: int) -> Address:
        """The same of a place that is known."""
        image = self.permutation.of(distance)
        if not self.permutation.dynamic or image == distance:
            return array, image
        held = self._once((distance,), "address", "mov.u32", distance)
        start = self._once((array,), "array", "mov.u32", array)
        return self._once((held, array), "placed", "add.s32", self._image(f"{held} 0"), start), 0

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
        simple = len(self.permutation.shifts) == 1 and high % (1 << shift + self._scale) == 0
        # π(held + offset) without a sum of its own: bytes inside a granule are added behind π,
        # granules inside a row are exchanged by the same bits as `held` (an xor, since the offset
        # carries nothing), and rows further on only change the bits that decide.
        if in_row and (not rows or simple):
            inside = low % self.permutation.granule
            image = self._row_on(held, rows) if rows else self._image(held)
            return self._in_row(image, low - inside), high + inside
        more = offset >> self._scale
        total = self._once((held, offset), "address", "add.s32", _name(held), more)
        return self._image(total), 0

    def _in_row(self, image: str, low: int) -> str:
        """Inside a row, where nothing carries, granules are added behind the permutation."""
        if not low:
            return image
        return self._once((image, low), "bank", "xor.b32", image, low >> self._scale)

    def _row_on(self, held: str, offset: int) -> str:
        """The image of an address whole rows further on, less these rows: only the bits that
        decide change."""
        shift = self.permutation.shifts[0]
        row = self._once((held, "row"), "row", "shr.u32", _name(held), shift)
        more = offset >> shift + self._scale
        row = self._once((held, "row", offset), "row", "add.s32", row, more)
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
        mask = self.code.mask(self._scale)
        kept = self._once((deciding, "masked"), "swap", "and.b32", deciding, mask)
        return self._once((held, kept), "bank", "xor.b32", _name(held), kept)


def _name(held: str) -> str:
    return held.partition(" ")[0]
