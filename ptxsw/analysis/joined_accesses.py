"""Which neighbouring accesses of shared memory ptxas makes one of: loads of 4 bytes at consecutive
addresses become one of 16. Bank conflicts are counted on the result."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence

from msgspec.structs import replace

from ptxsw.analysis.shared_banks import BankTraffic
from ptxsw.flow.cfg import Cfg
from ptxsw.flow.segments import segments
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Reg

_WIDTHS = (16, 8)  # bytes
_WORD = 4  # what is smaller stays alone

_Group = dict[int, BankTraffic]
"""By its offset an access of each kind, out of a segment, at addresses that have all else in
common."""


class Joinable:
    """The accesses of a kernel, of which ptxas may make fewer. `aligned` are those to whose address
    register adding the offset carries nothing."""

    def __init__(self, cfg: Cfg, traffic: Sequence[BankTraffic], aligned: Collection[int]) -> None:
        self._traffic = traffic
        self._kinds = {t.access.index: t.access.kind for t in traffic}
        self._groups = _groups(cfg, traffic, aligned)

    def joined(self, limit: int) -> tuple[BankTraffic, ...]:
        """What is left when ptxas has joined accesses of up to `limit` bytes together."""
        left = {t.access.index: t for t in self._traffic}
        for group in self._groups:
            # Widest first, as ptxas does; what is joined is no longer in `left` for the next width.
            for width in (w for w in _WIDTHS if w <= limit):
                for members in _runs(group, width):
                    indices = [m.access.index for m in members]
                    if all(i in left for i in indices) and _undisturbed(self._kinds, indices):
                        for index in indices:
                            del left[index]
                        left[indices[0]] = replace(members[0], size=width, members=tuple(indices))
        return tuple(left.values())


def _groups(cfg: Cfg, traffic: Sequence[BankTraffic], aligned: Collection[int]) -> Iterable[_Group]:
    plain: list[tuple[BankTraffic, object, int]] = []
    for one in traffic:
        instruction = one.access.instruction
        address = isa.address(instruction)
        accesses = one.access.kind in ("load", "store") and instruction.guard is None
        if accesses and one.access.index in aligned and isinstance(address.base, Reg):
            plain.append((one, (instruction.name, address.base, one.size), address.offset))
    often = Counter(key for _, key, _ in plain)
    if all(count == 1 for count in often.values()):
        return ()
    number = segments(cfg)
    groups: defaultdict[object, _Group] = defaultdict(dict)
    for one, key, offset in plain:
        groups[number[one.access.index], key].setdefault(offset, one)
    return groups.values()


def _runs(group: dict[int, BankTraffic], width: int) -> Iterator[list[BankTraffic]]:
    """Accesses that fill `width` aligned bytes, in the order of their offsets."""
    size = next(iter(group.values())).size
    for offset in sorted(group):
        if _WORD <= size < width and offset % width == 0:
            members = [group.get(offset + step) for step in range(0, width, size)]
            if None not in members:
                yield [m for m in members if m is not None]


def _undisturbed(kinds: dict[int, str], members: Sequence[int]) -> bool:
    """Does no access of another kind stand between them?"""
    first, last = min(members), max(members)
    return all(kind == kinds[first] for at, kind in kinds.items() if first < at < last)
