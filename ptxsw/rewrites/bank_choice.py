"""Which permutation of shared memory takes the fewest wavefronts, and does it pay?

Every member of the family is counted on the addresses of some warps. In mode auto what is saved has
to dominate what is added: of instructions that is the most that ptxas makes of the new lines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cached_property
from math import inf
from typing import NamedTuple

from msgspec import Struct

from ptxsw import isa
from ptxsw.analysis.bank_passes import Banks
from ptxsw.analysis.joined_accesses import joined
from ptxsw.analysis.shared_banks import BankTraffic, times
from ptxsw.codegen.builder import Builder
from ptxsw.codegen.lower_bank_conflicts import (
    PermutedAddresses,
    PermutedBanks,
    SharedAccess,
    most_added,
)
from ptxsw.cost.count import issue_slots
from ptxsw.cost.dominance import WarpWork, dominates
from ptxsw.flow.cfg import Cfg
from ptxsw.ir import Variable
from ptxsw.permutation import ROW, Permutation
from ptxsw.rewrites.base import Kernel

GRANULES = (16, 8, 4)  # bytes
NONE_HELPS = "no permutation of this kind takes fewer wavefronts"
SIMPLE = isa.opcodes(isa.Trait.SCALAR_ACCESS)
"""Accesses whose address can be permuted."""

_WORD = 4  # bytes
_ROUNDED = 1 + 1e-9  # sums in another order may differ by less
_SHIFTS = 6  # of each granule, from the first that reads above the row
# Counted in code that ptxas generates, always the highest count seen: mode auto must not make a
# change that might not pay.
_ENTRY = 4  # instructions that ask once whether dynamic memory has whole rows; 2 for each array
_PREDICATED = 12  # instructions of a block that ptxas may execute under a predicate
_BRANCHES = 4  # instructions that enter and leave a block, where it does so no more


class JoinedTraffic(dict[int, tuple[BankTraffic, ...]]):
    """By the size of a granule in bytes: the accesses that ptxas generates if granules of this
    size stay together."""

    def __init__(self, cfg: Cfg, traffic: Sequence[BankTraffic], in_row: frozenset[int]) -> None:
        super().__init__()
        self._cfg, self._traffic, self._in_row = cfg, traffic, in_row

    def __missing__(self, size: int) -> tuple[BankTraffic, ...]:
        together = self[size] = joined(self._cfg, self._traffic, self._in_row, size)
        return together

    @cached_property
    def demands(self) -> _Demands:
        return _Demands(self)


class _Demand(NamedTuple):
    """What accesses ask for that ask for the same: one of them, and how often a warp makes any."""

    one: BankTraffic
    weight: float


class _Demands(dict[int, tuple[_Demand, ...]]):
    """By the size of a granule: different requests, those with the most wavefronts first."""

    def __init__(self, traffic: JoinedTraffic) -> None:
        super().__init__()
        self._traffic = traffic

    def __missing__(self, size: int) -> tuple[_Demand, ...]:
        ones, weights = dict[_Asked, BankTraffic](), Counter[_Asked]()
        for one in self._traffic[size]:
            ones.setdefault(_asked(one), one)
            weights[_asked(one)] += one.weight  # type: ignore[assignment]
        each = (_Demand(one, weights[number]) for number, one in ones.items())
        most = sorted(each, key=lambda d: d.weight * d.one.wavefronts(stays), reverse=True)
        demands = self[size] = tuple(most)
        return demands


class PermutationCosts(Struct, frozen=True):
    """What all permutations are judged by. `dynamic` names the arrays of dynamic size, `narrow`
    are those that have to get whole rows."""

    kernel: Kernel
    dynamic: tuple[str, ...]
    narrow: tuple[Variable, ...]
    in_row: frozenset[int]
    traffic: JoinedTraffic

    @property
    def before(self) -> Sequence[BankTraffic]:
        return self.traffic[GRANULES[0]]

    def after(self, permutation: Permutation) -> Sequence[BankTraffic]:
        return self.traffic[permutation.granule]

    def demands(self, permutation: Permutation) -> Sequence[_Demand]:
        return self.traffic.demands[permutation.granule]


stays = Banks()
"""No permutation."""


def ways(traffic: BankTraffic, banks: Banks) -> float:
    """The factor by which the worst warp takes more wavefronts than for adjacent words."""
    return max(
        (
            banks.wavefronts(one, traffic.size) / -(-len(one) * max(_WORD, traffic.size) // ROW)
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
    totals = dict[_Asked, float]()
    before = _total(scene.before, stays, inf, totals)
    shares = _shares(scene.before, stays, totals)
    # One winner for each granule and number of shifts. These decide how many instructions an access
    # costs in addition, so wavefronts alone compare only permutations that agree in both.
    shortlist: dict[tuple[int, int], tuple[float, Permutation]] = {}
    for permutation in family(scene):
        banks, counted = Banks(permutation.bank_of()), dict[_Asked, float]()
        kind = (permutation.granule, len(permutation.shifts))
        best_yet = shortlist.get(kind, (before, None))[0]
        if _surpasses(scene.demands(permutation), banks, best_yet, counted):
            continue
        after = _total(scene.after(permutation), banks, best_yet, counted)
        if after < best_yet:
            now = _shares(scene.after(permutation), banks, counted)
            if _no_worse(scene, shares, now, before - after):
                shortlist[kind] = (after, permutation)
    if not shortlist:
        return NONE_HELPS
    work = WarpWork(_executed(scene.kernel.trace.cfg), before)
    choices = [
        _Candidate(
            permutation, before - after, _added(scene.kernel, _uncounted(scene, permutation))
        )
        for after, permutation in shortlist.values()
    ]
    paying = [c for c in choices if dominates(c.work(work).ends, work.ends)]
    auto = scene.kernel.options.mode == "auto"
    cheapest = min(
        (auto and paying) or choices,
        key=lambda c: (c.work(work).ends.sum, -c.permutation.granule),
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

    def work(self, before: WarpWork) -> WarpWork:
        """What a warp does with it."""
        return WarpWork(before.instructions + self.added, before.wavefronts - self.saved)


def _executed(cfg: Cfg) -> float:
    """The instructions that a warp executes."""
    return sum(
        times(cfg, at) * issue_slots(instruction.name)
        for at, instruction in enumerate(cfg.instructions)
    )


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


class Left(Struct, frozen=True):
    """An access, or several that ptxas merges, that still has conflicts after a permutation: by
    how many ways before and after, and with the member of the family that suits it best."""

    members: tuple[int, ...]
    before: float
    after: float
    least: float


def conflicts_left(scene: PermutationCosts, permutation: Permutation) -> Iterator[Left]:
    """What a permutation leaves."""
    before = {at: ways(t, stays) for t in scene.before for at in t.members}
    others = [(other, Banks(other.bank_of())) for other in family(scene)]
    moved = Banks(permutation.bank_of())
    for one in scene.after(permutation):
        now = ways(one, moved)
        if now > 1:
            least = min(ways(t, banks) for p, banks in others for t in _serving(scene, p, one))
            yield Left(one.members, before[one.members[0]], now, least)


def _serving(
    scene: PermutationCosts, permutation: Permutation, one: BankTraffic
) -> Iterator[BankTraffic]:
    """What an access, or its first member, belongs to under another permutation."""
    return (t for t in scene.after(permutation) if one.members[0] in t.members)


def _wavefronts(one: BankTraffic, banks: Banks, counted: dict[_Asked, float]) -> float:
    """The wavefronts of an access; `counted` has those of earlier ones with the same requests."""
    asked = _asked(one)
    if asked not in counted:
        counted[asked] = one.wavefronts(banks)
    return counted[asked]


_Asked = tuple[int, int]


def _asked(one: BankTraffic) -> _Asked:
    """The same for accesses that take the same wavefronts: those of doubles may want the same
    words as others, at the same times, and for half as many warps."""
    # Accesses that want the same words share one object, which the traffic keeps alive: its
    # identity is a cheap key, and cannot be given to another object meanwhile.
    return id(one.passes), len(one.requests)


def _surpasses(
    demands: Sequence[_Demand], banks: Banks, most: float, counted: dict[_Asked, float]
) -> bool:
    """Are there surely more wavefronts than so many? Accesses that are not counted yet take the
    fewest that they may: most permutations fall out with the first few."""
    bound = sum(weight * one.least for one, weight in demands)
    for one, weight in demands:
        bound += weight * (_wavefronts(one, banks, counted) - one.least)
        if bound > most * _ROUNDED:
            return True
    return False


def _total(
    traffic: Sequence[BankTraffic], banks: Banks, enough: float, counted: dict[_Asked, float]
) -> float:
    """All wavefronts; no more are counted where they are `enough`."""
    total = 0.0
    for one in traffic:
        total += one.weight * _wavefronts(one, banks, counted)
        if total >= enough:
            break
    return total


def _shares(
    traffic: Sequence[BankTraffic], banks: Banks, counted: dict[_Asked, float]
) -> dict[int, float]:
    """The wavefronts of each access; of those that have become one a part each."""
    shares: dict[int, float] = {}
    for one in traffic:
        share = _wavefronts(one, banks, counted) / len(one.members)
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
    old, new, moved = scene.before, scene.after(permutation), Banks(permutation.bank_of())
    before, after = _shares(old, stays, {}), _shares(new, moved, {})
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
        for at in _permuted(scene.kernel.trace.cfg)
    ]
    return PermutedBanks(permutation, tuple(accesses), scene.narrow)


def _uncounted(scene: PermutationCosts, permutation: Permutation) -> PermutedBanks:
    """The same without what banks are asked for."""
    accesses = (
        SharedAccess(at, at in scene.in_row, 0.0, 0.0, (), ())
        for at in _permuted(scene.kernel.trace.cfg)
    )
    return PermutedBanks(permutation, tuple(accesses), scene.narrow)


def _permuted(cfg: Cfg) -> list[int]:
    """The accesses of shared memory."""
    return [
        at
        for at, instruction in enumerate(cfg.instructions)
        if instruction.opcode in SIMPLE and isa.space(instruction) == "shared"
    ]


def _worst(
    traffic: Sequence[BankTraffic], banks: Banks, wanted: Set[int]
) -> dict[int, tuple[int, ...]]:
    """For each of these accesses, how many words it wants of each bank, in the request with the
    worst conflict."""
    conflicts: dict[int, tuple[int, ...]] = {}
    for one in (one for one in traffic if one.requests and not wanted.isdisjoint(one.members)):
        counts = max((banks.worst(request, one.size) for request in one.requests), key=max)
        conflicts |= dict.fromkeys(one.members, counts)
    return conflicts


def _added(kernel: Kernel, detail: PermutedBanks) -> float:
    """The instructions that a warp executes more, at most."""
    cfg = kernel.trace.cfg
    builder = Builder(kernel.text, kernel.function, cfg.instructions)
    writer = PermutedAddresses(builder, cfg, kernel.text, detail.permutation)
    dynamic = len(detail.permutation.dynamic)
    total = float(_ENTRY + 2 * dynamic if dynamic else 0)
    grown: set[int] = set()
    for access in detail.accesses:
        more = most_added(writer.permuted(access)[0])
        total += more * times(cfg, access.at)
        if more:
            grown.add(cfg.block_of[access.at])
    return total + sum(_BRANCHES * times(cfg, cfg.blocks[b].start) for b in grown if _short(cfg, b))


def _short(cfg: Cfg, number: int) -> bool:
    """May ptxas have put a predicate on every instruction of a block, in place of a branch?"""
    block = cfg.blocks[number]
    before = cfg.predecessors[number]
    # Such an arm of an `if` may grow beyond the length up to which ptxas predicates it. Then it
    # also costs its branches.
    under = len(before) == 1 and len(cfg.blocks[before[0]].successors) == 2
    return under and block.end - block.start <= _PREDICATED
