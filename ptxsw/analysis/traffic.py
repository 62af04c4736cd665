"""What one access moves: its size, and the sectors or banks that the lanes of each warp ask for.

    if (tid.x < 4) o[32 * tid.x] = 0;       four lanes take part, so four sectors

`requests` tells at which bytes all lanes point. Lanes that the conditions of the access leave out
ask for nothing (`Warps.taking`); conditions on what only the run knows leave out none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import compress, product
from operator import or_
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ptxsw.analysis.banks import bank_ways, contention
from ptxsw.analysis.coalescing import LANES, SECTOR, Offsets, local_sectors, sectors, used
from ptxsw.analysis.requests import Case, Request, requests, separate_banks
from ptxsw.analysis.warps import Taking, Warps
from ptxsw.emulator.trace import Access
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Instruction, Int
from ptxsw.ptx.isa import Trait
from ptxsw.terms.node import Term, Variance, walk
from ptxsw.terms.origin import Origin
from ptxsw.terms.readings import UnwrappedReading

_SECTOR_SPACES = ("global", "generic", "local")
_PLAIN = isa.opcodes(Trait.SCALAR_ACCESS) | isa.opcodes(Trait.LOAD)
_T = TypeVar("_T")

_COPIED = (4, 8, 16)  # bytes that a lane may copy (PTX ISA, cp.async)
_MATRIX_ROW = 16  # bytes of a row of a matrix of 8 x 8 halves
_MATRICES = {"x1": 1, "x2": 2, "x4": 4}
_EVERY: Taking = (None,)


class Traffic(Struct, frozen=True, dict=True):
    """One access as the lanes of the warps make it. `cases` are where all lanes point, `asked` what
    those ask for that take part; both are empty where that is not known."""

    access: Access
    size: int | None  # bytes at each lane's address; None where the instruction decides itself
    cases: tuple[Case, ...]
    asked: tuple[Case, ...]
    warps: Warps

    @classmethod
    def of(cls, access: Access, unwrapped: UnwrappedReading, warps: Warps) -> Traffic:
        cases, asked = _cases(access, unwrapped, warps)
        return cls(access, lane_bytes(access), cases, asked, warps)

    @cached_property
    def requests(self) -> tuple[Request, ...]:
        """Of the lanes that take part."""
        return tuple(request for case in self.asked for request in case)

    @cached_property
    def _everywhere(self) -> tuple[Request, ...]:
        return tuple(request for case in self.cases for request in case)

    @property
    def offsets(self) -> Offsets | None:
        """Bytes from lane 0's address for each lane, where they are always the same."""
        return _common(r.offsets for r in self._everywhere)

    @property
    def usual_offsets(self) -> Offsets | None:
        """The same for all lanes of almost all warps, where the last iteration of a loop that they
        leave decides it."""
        return _common(replace(r, exact=True).offsets for r in self._everywhere)

    @property
    def phase(self) -> int | None:
        """Bytes by which lane 0 is past the start of a line."""
        return _common(r.phase for r in self._everywhere)

    def sectors(self) -> tuple[int | None, float | None]:
        """Sectors of the warp that touches most, and the share of their bytes asked for."""
        if not self.requests or not self.size or self.access.space not in _SECTOR_SPACES:
            return None, None
        if _is_local(self.access):
            return self._local()
        counts = [{_worst(request, self.size) for request in case} for case in self.asked]
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

    def banks(self, unwrapped: UnwrappedReading) -> int | None:
        """Passes through the banks of shared memory, of the warp that needs most."""
        size = self.size
        if self.access.space != "shared" or not size:
            return None
        if self.requests and all(r.exact for r in self.requests):
            first = slice(0, addressing_lanes(self.access))
            return max(bank_ways(w[first], size) for r in self.requests for w in r.warps)
        addresses = {v.address for v in self.access.variants}
        separate = all(separate_banks(unwrapped, a, self.warps, size) for a in addresses)
        return 1 if separate and len(addresses) == 1 else None

    def contention(self) -> int | None:
        """The most lanes of a warp that wait for each other because their atomic operations go to
        one word of shared memory."""
        if self.access.space != "shared" or self.access.kind != "atomic" or not self.size:
            return None
        if not self.requests or not all(r.exact for r in self.requests):
            return None
        return max(contention(w, self.size) for r in self.requests for w in r.warps)


def is_copy(instruction: Instruction) -> bool:
    """Is it a `cp.async` of each lane by itself?"""
    return (
        instruction.opcode == "cp"
        and {"async", "global"} <= set(instruction.modifiers)
        and "bulk" not in instruction.modifiers
    )


def read_by_copy(access: Access) -> Access | None:
    """Of an asynchronous copy to shared memory the access that reads global memory; None of any
    other access."""
    views = [replace(v, address=v.copied, copied=None) for v in access.variants if v.copied]
    if not views or len(views) < len(access.variants):
        return None
    return replace(access, kind="load", space="global", variants=tuple(views))


def lane_bytes(access: Access) -> int | None:
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


def addressing_lanes(access: Access) -> int:
    """How many lanes give addresses: of ldmatrix and stmatrix 8 for each matrix."""
    if access.instruction.opcode in ("ldmatrix", "stmatrix"):
        return 8 * max((_MATRICES.get(m, 0) for m in access.instruction.modifiers), default=4)
    return LANES


def _worst(request: Request, size: int) -> tuple[int, int]:
    """For the warp that touches most: its sectors, and the negated number of bytes that it uses of
    them, so that of equal warps the one that uses fewest is the maximum."""
    return max((sectors(w, size), -used(w, size)) for w in request.warps)


def _cases(
    access: Access, unwrapped: UnwrappedReading, warps: Warps
) -> tuple[tuple[Case, ...], tuple[Case, ...]]:
    """Where the lanes of the warps point on the paths that lead to the access, and what those of
    them ask for that take part; empty where that is not known, as where lanes on different paths
    may point to different places."""
    taking: dict[Term, list[Taking]] = {}
    for view in access.variants:
        on_path = warps.taking(frozenset({view.guard, *view.conditions}))
        taking.setdefault(view.address, []).append(on_path)
    if len(taking) > 1 and access.ways is not Variance.UNIFORM:
        return (), ()
    cases: list[Case] = []
    asked: list[Case] = []
    for address, met in taking.items():
        own = requests(unwrapped, address, warps)
        if not own:
            return (), ()
        cases += own
        any_way = _any_of(met)
        asked += [tuple([_of_some(request, any_way) for request in case]) for case in own]
    return tuple(cases), tuple(asked)


def taking_part(access: Access, warps: Warps, every: Offsets) -> tuple[Offsets, ...]:
    """Of offsets of all lanes, those of the lanes that take part in some warps."""
    met = [warps.taking(frozenset({v.guard, *v.conditions})) for v in access.variants]
    return tuple(dict.fromkeys(_of_some(Request((every,), True), _any_of(met)).warps))


def _any_of(ways: Sequence[Taking]) -> Taking:
    """The lanes that come by any of several paths."""
    if _EVERY in ways:
        return _EVERY
    return tuple([_either(masks) for masks in zip(*ways, strict=True)])


def _either(masks: Sequence[Offsets | None]) -> Offsets | None:
    either: Offsets = ()
    for mask in masks:
        if mask is None:
            return None
        either = tuple(map(or_, either, mask)) if either and mask else either or mask
    return either


def _of_some(request: Request, taking: Taking) -> Request:
    """What the lanes ask for that take part, of warps of which some do."""
    if taking == _EVERY:
        return request
    warps = request.warps
    # Fewer warps than may take part differ in nothing else.
    alike = len(warps) != len(taking)
    pairs = product(warps, dict.fromkeys(taking)) if alike else zip(warps, taking, strict=True)
    some = (warp if mask is None else tuple(compress(warp, mask)) for warp, mask in pairs)
    return replace(request, warps=tuple(filter(None, some)) or warps)


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
