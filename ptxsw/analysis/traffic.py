"""What one access moves: its size, and the sectors or banks that a warp asks for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ptxsw.analysis.coalescing import LANES, SECTOR
from ptxsw.analysis.touched_memory import bank_ways, local_sectors, meeting, sectors, used
from ptxsw.analysis.warp_addresses import Case, Request, requests, separate_banks
from ptxsw.analysis.warps import Offsets, Warps
from ptxsw.emulator.trace import Access
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Int
from ptxsw.ptx.isa import Trait
from ptxsw.terms.affine import Affine
from ptxsw.terms.node import Variance, walk
from ptxsw.terms.origin import Origin

_SECTOR_SPACES = ("global", "generic", "local")
_PLAIN = isa.opcodes(Trait.SCALAR_ACCESS) | isa.opcodes(Trait.LOAD)
_MATRIX_ROW = 16  # bytes of a row of a matrix of 8 x 8 halves
_MATRICES = {"x1": 1, "x2": 2, "x4": 4}


class Traffic(Struct, frozen=True):
    """One access as the lanes of the warps make it."""

    access: Access
    size: int | None  # bytes at each lane's address; None where the instruction decides itself
    cases: tuple[Case, ...]  # empty: not known
    warps: Warps

    @classmethod
    def of(cls, access: Access, affine: Affine, warps: Warps) -> Traffic:
        return cls(access, _size(access), _cases(access, affine, warps), warps)

    @property
    def requests(self) -> tuple[Request, ...]:
        return tuple(request for case in self.cases for request in case)

    @property
    def offsets(self) -> Offsets | None:
        """Bytes from lane 0's address for each lane, where they are always the same."""
        return _common(r.offsets for r in self.requests)

    @property
    def usual_offsets(self) -> Offsets | None:
        """The same for all lanes of almost all warps, where the last iteration of a loop that they
        leave decides it."""
        return _common(replace(r, exact=True).offsets for r in self.requests)

    @property
    def phase(self) -> int | None:
        """Bytes by which lane 0 is past the start of a line."""
        return _common(r.phase for r in self.requests)

    def sectors(self) -> tuple[int | None, float | None]:
        """Sectors of the warp that touches most, and the share of their bytes asked for."""
        if not self.requests or not self.size or self.access.space not in _SECTOR_SPACES:
            return None, None
        if _is_local(self.access):
            return self._local()
        counts = [{_worst(request, self.size) for request in case} for case in self.cases]
        # One sector more or less is a matter of where in a line lane 0 begins.
        if any(max(of_warps)[0] - min(of_warps)[0] > 1 for of_warps in counts):
            return None, None  # it depends on what only the run knows, and not on the phase alone
        worst, unused = max(count for of_warps in counts for count in of_warps)
        return worst, round(-unused / (worst * SECTOR), 4)

    def _local(self) -> tuple[int | None, float | None]:
        offsets = self.offsets
        if offsets is None or not self.size:
            return None, None
        touched = local_sectors(offsets, self.size)
        return touched, round(len(offsets) * self.size / (touched * SECTOR), 4)

    def banks(self, affine: Affine) -> int | None:
        """Passes through the banks of shared memory, of the warp that needs most."""
        size = self.size
        if self.access.space != "shared" or not size:
            return None
        if self.requests and all(r.exact for r in self.requests):
            first = slice(0, _addressing_lanes(self.access))
            return max(bank_ways(w[first], size) for r in self.requests for w in r.warps)
        addresses = {v.address for v in self.access.variants}
        separate = all(separate_banks(affine, a, self.warps, size) for a in addresses)
        return 1 if separate and len(addresses) == 1 else None

    def contention(self) -> int | None:
        """The most lanes of a warp that wait for each other because their atomic operations go to
        one word of shared memory."""
        if self.access.space != "shared" or self.access.kind != "atomic" or not self.size:
            return None
        if not self.requests or not all(r.exact for r in self.requests):
            return None
        return max(meeting(w, self.size) for r in self.requests for w in r.warps)


_COPIED = (4, 8, 16)  # bytes that a lane may copy (PTX ISA, cp.async)


def _size(access: Access) -> int | None:
    """Bytes that are read or written at the address of each lane. Instructions for a whole warp or
    block (wmma, bulk copies, barriers in memory) have addresses of another kind."""
    instruction = access.instruction
    if instruction.opcode in _PLAIN:
        return access.bytes or None
    # Each lane gives the address of one row of a matrix.
    if instruction.opcode in ("ldmatrix", "stmatrix") and "m8n8" in instruction.modifiers:
        return _MATRIX_ROW
    if instruction.opcode == "cp" and "bulk" not in instruction.modifiers:
        length = instruction.operands[2] if len(instruction.operands) > 2 else None
        return length.value if isinstance(length, Int) and length.value in _COPIED else None
    return None


def _addressing_lanes(access: Access) -> int:
    """How many lanes give addresses: of ldmatrix and stmatrix 8 for each matrix."""
    if access.instruction.opcode in ("ldmatrix", "stmatrix"):
        return 8 * max((_MATRICES.get(m, 0) for m in access.instruction.modifiers), default=4)
    return LANES


def _worst(request: Request, size: int) -> tuple[int, int]:
    """For the warp that touches most: its sectors, and the negated number of bytes that it uses of
    them, so that of equal warps the one that uses fewest is the maximum."""
    return max((sectors(w, size), -used(w, size)) for w in request.warps)


def _cases(access: Access, affine: Affine, warps: Warps) -> tuple[Case, ...]:
    """What the warps ask for on the paths that lead to the access; empty where that is not known,
    as where lanes on different paths may point to different places."""
    addresses = dict.fromkeys(v.address for v in access.variants)
    if len(addresses) > 1 and access.ways is not Variance.UNIFORM:
        return ()
    cases = [requests(affine, address, warps) for address in addresses]
    return tuple(case for each in cases for case in each) if all(cases) else ()


_T = TypeVar("_T")


def _common(values: Iterable[_T | None]) -> _T | None:
    """The one value of all, if there is one."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else None


def _is_local(access: Access) -> bool:
    """Is local memory touched, also through a generic address?"""
    return access.space == "local" or any(
        term.origin is Origin.WINDOW and term.of == ("local",)
        for variant in access.variants
        for term in walk(variant.address)
    )
