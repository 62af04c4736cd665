"""Permutations of shared memory inside its aligned rows of 128 bytes.

A row holds one word of each bank. Exchanging the words of a row by a number that the bits above
the row decide puts the words of a column into different banks.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

ROW = 128  # bytes: 32 banks of 4
_ROW_BITS = 7


class Permutation(Struct, frozen=True):
    """`a ^ ((a >> s1 ^ a >> s2 …) & mask)` for every byte address `a` of shared memory.

    All bits that decide lie above the row and all that change lie in it, so the function is its
    own inverse and keeps rows. Bytes of one `granule` stay together. `dynamic` names the
    arrays of dynamic size, which only a launch gives: addresses stay as they are where the start
    of one, or their size, is no multiple of a row. With `arrays`, these alone are permuted, and `a`
    is counted from the start of each. Raises ValueError for a function of another kind.

    Of arrays that are `padded` a granule of nothing follows each row: `a + (a >> 7) * granule`.
    Then what lies whole rows further on is moved by a number, too, which an access can hold.
    """

    shifts: tuple[int, ...]
    """s1, s2 and so on."""
    mask: int
    """The bits that change."""
    dynamic: tuple[str, ...] = ()
    arrays: tuple[str, ...] = ()
    padded: bool = False

    def __post_init__(self) -> None:
        if not self.shifts or not 0 < self.mask < ROW:
            raise ValueError("a permutation takes a shift and a mask inside a row")
        if min(self.shifts) + self.granule.bit_length() - 1 < _ROW_BITS:
            raise ValueError("the bits that decide have to lie above the row")
        if self.padded and (self.dynamic or not self.arrays):
            raise ValueError("only arrays of known size can be padded")

    @property
    def granule(self) -> int:
        """How many bytes stay together."""
        return self.mask & -self.mask

    @property
    def reach(self) -> int:
        """Addresses that differ by a multiple of this many bytes are moved alike."""
        return 1 << (self.mask.bit_length() + max(self.shifts))

    def of(self, address: int) -> int:
        """Where the byte at an address goes."""
        if self.padded:
            return address + (address >> _ROW_BITS) * self.granule
        field = 0
        for shift in self.shifts:
            field ^= address >> shift
        return address ^ (field & self.mask)

    def banks_of(self, words: Iterable[int]) -> list[int]:
        """The bank of each word of 4 bytes, where all addresses are moved."""
        if self.padded:
            more = self.granule >> 2
            return [word + (word >> _ROW_BITS - 2) * more & 31 for word in words]
        mask = self.mask >> 2
        match self.shifts:
            case (shift,):
                return [(word ^ word >> shift & mask) & 31 for word in words]
            case (one, other):
                return [(word ^ (word >> one ^ word >> other) & mask) & 31 for word in words]
        return [self.of(word << 2) >> 2 & 31 for word in words]

    def __str__(self) -> str:
        field = " ^ ".join(f"a >> {shift}" for shift in self.shifts)
        where = f" in {', '.join(self.arrays)}" if self.arrays else ""
        if self.padded:
            return f"a + (a >> {_ROW_BITS}) * {self.granule}{where}"
        return f"a ^ (({field}) & {self.mask:#x}){where}"
