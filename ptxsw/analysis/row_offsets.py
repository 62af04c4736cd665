"""Which shared accesses may have their offset added behind a permutation, and which neighbours of
them ptxas makes one of.

[%r5+36], where %r5 = tile + 128 * %tid.x: bits 2 and 5 of the address come from the offset
alone, so `xor` with 36 behind the permutation of %r5 is what the permutation of %r5 + 36 is

Loads of 4 bytes at consecutive addresses become one of 16, on which bank conflicts are counted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from msgspec.structs import replace

from ptxsw.analysis.shared_banks import BankTraffic
from ptxsw.changes.permutation import ROW
from ptxsw.emulator.trace import Access, Trace
from ptxsw.flow.cfg import Cfg
from ptxsw.flow.convergence import segments
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Reg
from ptxsw.terms import op
from ptxsw.terms.node import Term, ones, split, walk
from ptxsw.terms.origin import Origin

_MOST_ITEMS = 4  # of a sum behind whose permutation something is added
_WIDTHS = (16, 8)  # bytes
_WORD = 4  # what is smaller stays alone

_Group = dict[int, BankTraffic]
"""By its offset an access of each kind, out of a segment, at addresses that have all else in
common."""


def in_rows(trace: Trace, rows: Collection[str]) -> frozenset[int]:
    """The accesses whose offset may be added behind the permutation: what it holds of a row
    certainly carries nothing. An address has to be made by one instruction and of nothing that a
    loop carries, so that whoever looks at the text alone sees the same. `rows` are the atoms of
    arrays that begin with a row."""
    written = Counter(chain.from_iterable(trace.cfg.written))
    shared = (a for a in trace.accesses if isa.space(a.instruction) == "shared")
    carried = _CarriedByLoops()
    return frozenset(a.index for a in shared if _in_row(trace, a, written, rows, carried))


class _CarriedByLoops(dict[Term, bool]):
    """Is a term made of anything that a loop carries?"""

    def __missing__(self, term: Term) -> bool:
        is_carried = any(t.origin in (Origin.ITERATION, Origin.LOOP_VALUE) for t in walk(term))
        self[term] = is_carried
        return is_carried


def _in_row(
    trace: Trace,
    access: Access,
    written: Mapping[Reg, int],
    rows: Collection[str],
    carried: Mapping[Term, bool],
) -> bool:
    address = isa.address(access.instruction)
    if not address.offset:
        return True
    wholes = {variant.address for variant in access.variants}
    if not isinstance(address.base, Reg) or len(wholes) != 1:
        return False
    if written[address.base] != 1:
        return False
    terms = trace.terms
    (whole,) = wholes
    if any(carried[item] for item, _ in split(whole)[1]):
        return False
    base = terms.sub(whole, terms.const(address.offset, whole.width))
    return _is_simple(base) and not _may_be_set(base, rows) & (address.offset % ROW)


def _is_simple(term: Term) -> bool:
    """A sum of a few shifted values. Of others the proof that a permutation and an addition can be
    exchanged takes more work than a question may cost."""
    _, items = split(term)
    powers = all(0 < factor == factor & -factor for _, factor in items)
    return powers and len(items) <= _MOST_ITEMS


def _may_be_set(term: Term, rows: Collection[str]) -> int:
    """The bits below a row that may be set in an address, where arrays begin with a row."""
    constant, items = split(term)
    total = constant % ROW
    for item, factor in items:
        # An array that begins with a row adds nothing to the bits inside rows.
        whole = item.args[0] if item.kind in (op.EXTRACT, op.ZEXT) and not item.value else item
        if whole.kind is op.ATOM and whole.value in rows:
            continue
        low = factor & -factor
        bits = ones(item) * low
        # Multiplied by 12, for example, a carry may set any bit above the lowest one.
        if factor != low:
            bits = -(bits & -bits)
        total = _sum_bits(total, bits % ROW)
    return total


def _sum_bits(a: int, b: int) -> int:
    """The bits that may be set in a sum of numbers whose bits may be set as in `a` and `b`."""
    # Where both may have a bit, a carry may begin: from the lowest such bit on, any may be set.
    both = a & b
    if not both:
        return a | b
    return (a | b | -(both & -both)) % ROW


# ---------------------------------------------------------------- joined by ptxas


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
