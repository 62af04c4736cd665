"""Which permutation of shared memory takes the fewest wavefronts, and does it pay?

Every member of the family is counted on the addresses of some warps. In mode auto what is saved has
to dominate what is added: of instructions that is the most that ptxas makes of the new lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from math import inf

from msgspec import Struct

from ptxsw.analysis.array_accesses import SIMPLE
from ptxsw.analysis.banks import Banks, wavefronts
from ptxsw.analysis.coalescing import Offsets
from ptxsw.analysis.shared_banks import BankTraffic, times
from ptxsw.changes.permutation import ROW, Permutation
from ptxsw.codegen.builder import Builder
from ptxsw.codegen.lower_bank_conflicts import PermutedBanks, SharedAccess
from ptxsw.codegen.permuted_addresses import AddressCode, AddressValues, PermutedAddresses
from ptxsw.cost.account import Ends
from ptxsw.cost.decide import dominates, ends_by_counts
from ptxsw.flow.cfg import Cfg
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Variable
from ptxsw.rewrites.base import Kernel

GRANULES = (16, 8, 4)  # bytes
NONE_HELPS = "no permutation of this kind takes fewer wavefronts"
_WORD = 4  # bytes
_SHIFTS = 6  # of each granule, from the first that reads above the row

_FREE = ("mov", "cvta", "ld.param", "pragma", "loc")
_LONG = {"div": 12, "rem": 12, "sqrt": 6, "sin": 2, "cos": 2, "mul": 4, "mad": 4}  # of 64 bits
_SHORT = {"div": 8, "rem": 8, "sqrt": 4}


# Counted in code that ptxas generates, always the highest count seen: mode auto must not make a
# change that might not pay.
_ENTRY = 4  # instructions that ask once whether dynamic memory has whole rows; 2 for each array
_PREDICATED = 12  # instructions of a block that ptxas may execute under a predicate
_BRANCHES = 4  # instructions that enter and leave a block, where it does so no more


class PermutationCosts(Struct, frozen=True, dict=True):
    """What all permutations are judged by. `dynamic` names the arrays of dynamic size, `narrow`
    are those that have to get whole rows. `joined` gives the accesses that ptxas generates if
    granules of so many bytes stay together. `arrays` names for each access the array from whose
    start it is permuted; none where all memory is, from 0 on. `whole`: is all memory permuted?
    `padded`: rows get padding, and no words are exchanged."""

    kernel: Kernel
    dynamic: tuple[str, ...]
    narrow: tuple[Variable, ...]
    in_row: frozenset[int]
    joined: Callable[[int], Sequence[BankTraffic]]
    arrays: Mapping[int, str] = {}
    whole: bool = True
    padded: bool = False

    @cached_property
    def stays(self) -> Banks:
        """No permutation."""
        return Banks()

    @property
    def before(self) -> Sequence[BankTraffic]:
        return self.joined(GRANULES[0])

    def element(self, at: int, permutation: Permutation) -> int:
        """The bytes of the largest element whose number may be permuted instead of its address.
        Behind that ptxas does not see that accesses lie side by side."""
        single = all(len(t.members) == 1 for t in self.after(permutation) if at in t.members)
        return permutation.granule if single else 1

    def after(self, permutation: Permutation) -> Sequence[BankTraffic]:
        return self.joined(permutation.granule)


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


def _banks(permutation: Permutation) -> Banks:
    return Banks(permutation.banks_of, exclusive=not permutation.padded)


class PermutationChoice(Struct, frozen=True):
    """A permutation, and what it saves and adds for a warp that runs once through the kernel."""

    permutation: Permutation
    saved: float  # wavefronts
    added: float  # instructions, at most
    ends: Ends  # of the time of a warp

    def __lt__(self, other: PermutationChoice) -> bool:
        """Does it the same for fewer instructions?"""
        one, two = self.permutation, other.permutation
        return (one.shifts, one.mask) == (two.shifts, two.mask) and self.added < other.added


def best(scene: PermutationCosts) -> PermutationChoice | str:
    """The permutation that gains most by count, or why none does."""
    before, shares = _total(scene.before, scene.stays), _shares(scene.before, scene.stays)
    # One winner for each granule and number of shifts. These decide how many instructions an access
    # costs in addition, so wavefronts alone compare only permutations that agree in both. One more
    # shift is an instruction more, and has to save something by itself.
    shortlist: dict[tuple[int, int], tuple[float, Permutation]] = {}
    for permutation in family(scene):
        granule, shifts = kind = permutation.granule, len(permutation.shifts)
        banks = _banks(permutation)
        with_fewer = shortlist.get((granule, shifts - 1), (before, None))[0]
        best_yet = shortlist.get(kind, (with_fewer, None))[0]
        after = _total(scene.after(permutation), banks, best_yet)
        if after < best_yet:
            now = _shares(scene.after(permutation), banks)
            if _no_worse(scene, shares, now, before - after):
                shortlist[kind] = (after, permutation)
    if not shortlist:
        return NONE_HELPS
    executed = _executed(scene.kernel.trace.cfg)
    as_it_is = ends_by_counts(instructions=executed, wavefronts=before)
    choices = [
        PermutationChoice(
            permutation,
            before - after,
            more,
            ends_by_counts(instructions=executed + more, wavefronts=after),
        )
        for after, permutation in shortlist.values()
        for more in [added_instructions(scene, permutation)]
    ]
    paying = [c for c in choices if dominates(c.ends, as_it_is)]
    auto = scene.kernel.options.mode == "auto"
    cheapest = min(
        (auto and paying) or choices,
        key=lambda c: (c.ends.sum, -c.permutation.granule),
    )
    if auto and not paying:
        return (
            f"no clear gain by count: a warp would execute up to {cheapest.added:.0f} "
            f"instructions more for {cheapest.saved:.0f} wavefronts less"
        )
    return cheapest


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
        own = tuple(dict.fromkeys(scene.arrays.values()))
        if scene.padded:
            yield Permutation((first,), ROW - size, (), own, padded=True)
            continue
        shifts = range(first, first + _SHIFTS)
        pairs = ((a, b) for a in shifts for b in shifts if a < b)
        for chosen in (*((s,) for s in shifts), *pairs):
            yield Permutation(chosen, ROW - size, scene.dynamic, own)


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


def permuted_banks(scene: PermutationCosts, permutation: Permutation) -> PermutedBanks:
    """The change, with what a report says of each access."""
    old, new = scene.before, scene.after(permutation)
    stays, moved = scene.stays, _banks(permutation)
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
            scene.arrays.get(at, ""),
            scene.element(at, permutation),
        )
        for at in permuted(scene)
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


# ---------------------------------------------------------------- what it adds


def permuted(scene: PermutationCosts) -> list[int]:
    """The accesses of shared memory that are permuted."""
    return sorted(scene.arrays) or [
        at
        for at, instruction in enumerate(scene.kernel.trace.cfg.instructions)
        if instruction.opcode in SIMPLE and isa.space(instruction) == "shared"
    ]


def added_instructions(scene: PermutationCosts, permutation: Permutation) -> float:
    """The instructions that a warp executes more, at most."""
    kernel = scene.kernel
    cfg, function = kernel.trace.cfg, kernel.function
    code = AddressCode(Builder(kernel.text, function, cfg.instructions), permutation)
    addresses = PermutedAddresses(code, AddressValues(cfg, function.body.width), permutation)
    dynamic = len(permutation.dynamic)
    total = float(_ENTRY + 2 * dynamic if dynamic else 0)
    grown: set[int] = set()
    for at in permuted(scene):
        before = code.instructions
        element = scene.element(at, permutation)
        addresses.of(at, at in scene.in_row, scene.arrays.get(at, ""), element)
        more = code.instructions - before
        if more:
            total += more * times(cfg, at)
            grown.add(cfg.block_of[at])
    branches = (times(cfg, cfg.blocks[b].start) for b in grown if _short(cfg, b))
    return total + sum(_BRANCHES * often for often in branches)


def _short(cfg: Cfg, number: int) -> bool:
    """May ptxas have put a predicate on every instruction of a block, in place of a branch?"""
    block = cfg.blocks[number]
    before = cfg.predecessors[number]
    # Such an arm of an `if` may grow beyond the length up to which ptxas predicates it. Then it
    # also costs its branches.
    under = len(before) == 1 and len(cfg.blocks[before[0]].successors) == 2
    return under and block.end - block.start <= _PREDICATED
