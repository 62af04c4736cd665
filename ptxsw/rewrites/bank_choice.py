"""Which permutation of shared memory takes the fewest wavefronts, and does it pay?

Every member of the family is counted on the addresses of some warps. In mode auto what is saved has
to dominate what is added: of instructions that is the most that ptxas makes of the new lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import cached_property, reduce
from itertools import chain
from math import inf
from operator import or_
from typing import NamedTuple

from msgspec import Struct

from ptxsw.analysis.banks import BANKS, Banks, wavefronts
from ptxsw.analysis.coalescing import Offsets
from ptxsw.analysis.row_offsets import Joinable
from ptxsw.analysis.shared_banks import BankTraffic, times
from ptxsw.changes.permutation import ROW, Permutation
from ptxsw.codegen.lower_bank_conflicts import PermutedBanks, SharedAccess
from ptxsw.cost.account import Ends
from ptxsw.cost.decide import dominates, ends_by_counts
from ptxsw.flow.cfg import Cfg
from ptxsw.ptx.ir import Variable
from ptxsw.rewrites.added_instructions import AddedInstructions, permuted
from ptxsw.rewrites.base import Kernel

GRANULES = (16, 8, 4)  # bytes
NONE_HELPS = "no permutation of this kind takes fewer wavefronts"
_WORD = 4  # bytes
_ROUNDED = 1 + 1e-9  # sums in another order may differ by less
_SHIFTS = 6  # of each granule, from the first that reads above the row

_FREE = ("mov", "cvta", "ld.param", "pragma", "loc")
_LONG = {"div": 12, "rem": 12, "sqrt": 6, "sin": 2, "cos": 2, "mul": 4, "mad": 4}  # of 64 bits
_SHORT = {"div": 8, "rem": 8, "sqrt": 4}


class JoinedTraffic(dict[int, tuple[BankTraffic, ...]]):
    """By the size of a granule in bytes: the accesses that ptxas generates if granules of this
    size stay together."""

    def __init__(self, cfg: Cfg, traffic: Sequence[BankTraffic], in_row: frozenset[int]) -> None:
        super().__init__()
        self._joinable = Joinable(cfg, traffic, in_row)

    def __missing__(self, size: int) -> tuple[BankTraffic, ...]:
        together = self[size] = self._joinable.joined(size)
        return together

    @cached_property
    def stays(self) -> Banks:
        """No permutation."""
        return Banks()

    @cached_property
    def wanted(self) -> _WantedWords:
        return _WantedWords(self)


class _Pass(NamedTuple):
    """Words that accesses want at a time, how often a warp makes such a pass, and the fewest
    wavefronts that it may take."""

    words: frozenset[int]
    weight: float
    least: int


class _Wanted(NamedTuple):
    """All passes, those with the most wavefronts first; the fewest wavefronts that they may take
    together; and the bits of their words, each alone."""

    passes: tuple[_Pass, ...]
    least: float
    bits: tuple[int, ...]


class _WantedWords(dict[int, _Wanted]):
    """By the size of a granule."""

    def __init__(self, traffic: JoinedTraffic) -> None:
        super().__init__()
        self._traffic = traffic

    def __missing__(self, size: int) -> _Wanted:
        weights = dict[frozenset[int], float]()
        for one in self._traffic[size]:
            for words, often in one.passes:
                weight = one.weight * often / len(one.requests)
                weights[words] = weights.get(words, 0.0) + weight
        stays = self._traffic.stays
        most = sorted(
            weights, key=lambda words: weights[words] * stays.of_pass(words), reverse=True
        )
        used = reduce(or_, chain.from_iterable(weights), 0)
        bits = tuple([1 << bit for bit in range(used.bit_length()) if used >> bit & 1])
        passes = [_Pass(words, weights[words], -(-len(words) // BANKS)) for words in most]
        least = sum(weight * least for _, weight, least in passes)
        wanted = self[size] = _Wanted(tuple(passes), least, bits)
        return wanted


class PermutationCosts(Struct, frozen=True):
    """What all permutations are judged by. `dynamic` names the arrays of dynamic size, `narrow`
    are those that have to get whole rows."""

    kernel: Kernel
    dynamic: tuple[str, ...]
    narrow: tuple[Variable, ...]
    in_row: frozenset[int]
    traffic: JoinedTraffic

    @property
    def stays(self) -> Banks:
        return self.traffic.stays

    @property
    def before(self) -> Sequence[BankTraffic]:
        return self.traffic[GRANULES[0]]

    def after(self, permutation: Permutation) -> Sequence[BankTraffic]:
        return self.traffic[permutation.granule]

    def wanted(self, permutation: Permutation) -> _Wanted:
        return self.traffic.wanted[permutation.granule]


def ways(traffic: BankTraffic, count: Callable[[Offsets, int], int] = wavefronts) -> float:
    """The factor by which the worst warp takes more wavefronts than for adjacent words; `count`
    counts those of one request, without a permutation if none is given."""
    return max(
        (
            count(one, traffic.size) / -(-len(one) * max(_WORD, traffic.size) // ROW)
            for one in traffic.requests
        ),
        default=1.0,
    )


class PermutationChoice(Struct, frozen=True):
    """A permutation, and what it saves and adds for a warp that runs once through the kernel."""

    detail: PermutedBanks
    saved: float  # wavefronts
    added: float  # instructions, at most


def best(scene: PermutationCosts) -> PermutationChoice | str:
    """The permutation that gains most by count, or why none does."""
    before, shares = _total(scene.before, scene.stays), _shares(scene.before, scene.stays)
    # One winner for each granule and number of shifts. These decide how many instructions an access
    # costs in addition, so wavefronts alone compare only permutations that agree in both. One more
    # shift is an instruction more, and has to save something by itself.
    shortlist: dict[tuple[int, int], tuple[float, Permutation]] = {}
    for permutation, banks in _different(scene):
        granule, shifts = kind = permutation.granule, len(permutation.shifts)
        with_fewer = shortlist.get((granule, shifts - 1), (before, None))[0]
        best_yet = shortlist.get(kind, (with_fewer, None))[0]
        if _surpasses(scene.wanted(permutation), banks, best_yet):
            continue
        after = _total(scene.after(permutation), banks, best_yet)
        if after < best_yet:
            now = _shares(scene.after(permutation), banks)
            if _no_worse(scene, shares, now, before - after):
                shortlist[kind] = (after, permutation)
    if not shortlist:
        return NONE_HELPS
    executed = _executed(scene.kernel.trace.cfg)
    as_it_is = ends_by_counts(instructions=executed, wavefronts=before)
    added = AddedInstructions(scene.kernel, scene.in_row)
    choices = [
        _Candidate(
            permutation,
            before - after,
            more,
            ends_by_counts(instructions=executed + more, wavefronts=after),
        )
        for after, permutation in shortlist.values()
        for more in [added.most(permutation)]
    ]
    paying = [c for c in choices if dominates(c.ends, as_it_is)]
    auto = scene.kernel.options.mode == "auto"
    cheapest = min(
        (auto and paying) or choices,
        key=lambda c: (c.ends.sum, -c.permutation.granule),
    )
    if auto and not paying:
        return (
            f"by count it does not certainly pay: a warp would execute up to {cheapest.added:.0f} "
            f"instructions more for {cheapest.saved:.0f} wavefronts less"
        )
    detail = _detail(scene, cheapest.permutation)
    return PermutationChoice(detail, cheapest.saved, cheapest.added)


class _Candidate(Struct, frozen=True):
    """As `PermutationChoice`, before it is chosen."""

    permutation: Permutation
    saved: float
    added: float
    ends: Ends  # of the time of a warp


def _executed(cfg: Cfg) -> float:
    """The instructions that a warp executes."""
    return sum(
        times(cfg, at) * _issue_slots(instruction.name)
        for at, instruction in enumerate(cfg.instructions)
    )


def _issue_slots(name: str) -> int:
    """How many warp instructions become of one with this name, roughly."""
    if name.startswith(_FREE):
        return 0
    opcode, _, modifiers = name.partition(".")
    if opcode in ("ld", "st", "bra", "ret", "cvt"):
        return 1
    if modifiers.endswith("64") and "wide" not in modifiers:
        return _LONG.get(opcode, 2) if not modifiers.endswith("f64") else _LONG.get(opcode, 1)
    return _SHORT.get(opcode, 1)


def family(scene: PermutationCosts) -> Iterator[Permutation]:
    """All permutations that are considered, those that keep most bytes together first."""
    widest = max(t.access.bytes for t in scene.before)
    for size in (size for size in GRANULES if size >= widest):
        # This shift moves bit 7, the lowest one of the row's number, onto the lowest bit of the
        # granule's number. A smaller shift would mix in bits that the permutation itself changes,
        # and it would no longer be its own inverse.
        first = ROW.bit_length() - size.bit_length()
        shifts = range(first, first + _SHIFTS)
        pairs = ((a, b) for a in shifts for b in shifts if a < b)
        for chosen in (*((s,) for s in shifts), *pairs):
            yield Permutation(chosen, ROW - size, scene.dynamic)


def _different(scene: PermutationCosts) -> Iterator[tuple[Permutation, Banks]]:
    """The family, less those that exchange the banks of the words that are wanted just as an
    earlier member with the same granule and number of shifts. `Banks` are for these words alone."""
    seen = set[object]()
    banks = dict[object, Banks]()
    for permutation in family(scene):
        banks_of, bits = permutation.banks_of, scene.wanted(permutation).bits
        # The bank of a word is a sum of those of its bits by exclusive or.
        images = (bits, *banks_of(bits))
        member = (permutation.granule, len(permutation.shifts), images)
        if member not in seen:
            seen.add(member)
            yield permutation, banks.setdefault(images, Banks(banks_of))


def _surpasses(wanted: _Wanted, banks: Banks, most: float) -> bool:
    """Are there surely more wavefronts than so many? What is not counted yet takes the fewest that
    it may: most permutations fall out with the first few passes."""
    bound = wanted.least
    for words, weight, least in wanted.passes:
        bound += weight * (banks.of_pass(words) - least)
        if bound > most * _ROUNDED:
            return True
    return False


def _total(traffic: Sequence[BankTraffic], banks: Banks, enough: float = inf) -> float:
    """All wavefronts; no more are counted where they are `enough`."""
    total = 0.0
    for one in traffic:
        total += one.weight * one.wavefronts(banks)
        if total >= enough:
            break
    return total


def _shares(traffic: Sequence[BankTraffic], banks: Banks) -> dict[int, float]:
    """The wavefronts of each access; of those that have become one a part each."""
    shares: dict[int, float] = {}
    for one in traffic:
        share = one.wavefronts(banks) / len(one.members)
        shares |= dict.fromkeys(one.members, share)
    return shares


def _no_worse(
    scene: PermutationCosts, before: Mapping[int, float], after: Mapping[int, float], gain: float
) -> bool:
    """Does no access get dearer by more than the kernel gains?"""
    return all(
        one.weight * (after[at] - before[at]) <= gain for one in scene.before for at in one.members
    )


def _detail(scene: PermutationCosts, permutation: Permutation) -> PermutedBanks:
    old, new = scene.before, scene.after(permutation)
    stays, moved = scene.stays, Banks(permutation.banks_of)
    before, after = _shares(old, stays), _shares(new, moved)
    changed = {at for at, count in before.items() if count != after.get(at)}
    banks, banks_after = _worst(old, stays, changed), _worst(new, moved, changed)
    accesses = [
        SharedAccess(
            at,
            at in scene.in_row,
            before.get(at, 0.0),
            after.get(at, 0.0),
            banks.get(at, ()),
            banks_after.get(at, ()),
        )
        for at in permuted(scene.kernel.trace.cfg)
    ]
    return PermutedBanks(permutation, tuple(accesses), scene.narrow)


def _worst(
    traffic: Sequence[BankTraffic], banks: Banks, wanted: Set[int]
) -> dict[int, tuple[int, ...]]:
    """For each of these accesses, how many words it wants of each bank, in the request with the
    worst conflict."""
    conflicts: dict[int, tuple[int, ...]] = {}
    for one in (one for one in traffic if one.requests and not wanted.isdisjoint(one.members)):
        request = max(one.requests, key=lambda request: banks.ways(request, one.size))
        counts = banks.worst(request, one.size)
        conflicts |= dict.fromkeys(one.members, counts)
    return conflicts
