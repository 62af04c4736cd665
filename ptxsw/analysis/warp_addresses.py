"""What one request of a warp touches: lane offsets, sectors, lines, banks.

Unless the shape of the block is known, the 32 lanes lie in one row of the block, as they do
wherever `ntid.x` is a multiple of 32. The last warp of a block may have fewer lanes. What is
known at run time only, such as pointers, the widths of arrays and the turn of a loop, is taken to
be a multiple of 128 bytes: constants in the address decide where in a line lane 0 begins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise, product
from math import prod
from random import Random

from msgspec import Struct, field

from ptxsw.analysis.coalescing import LANES, SECTOR, touched
from ptxsw.analysis.lane_values import LaneValues, aligned, small, usual
from ptxsw.emulator.affine import Affine, Monomial, Polynomial
from ptxsw.emulator.node import OPAQUE, Term, Variance, bottom_up, unknowns
from ptxsw.emulator.origin import Origin

LINE = 128  # bytes
_BANKS = 32  # of 4 bytes
_TRIALS = 3  # choices of what is known at run time only
_TESTS = (*(("small", trial) for trial in range(_TRIALS)), ("usual", 0))
"""Choices under which lanes must point alike for it to depend on nothing else."""
_MOST_CONDITIONS = 3  # in an address, of which both sides are looked at

Offsets = tuple[int, ...]
"""Bytes for each lane of a warp: from lane 0's address, or from where a line begins."""

Block = tuple[int, int, int]

Chosen = frozenset[tuple[Term, int]]
"""Values of terms that are not evaluated."""


class Warps(Struct, frozen=True, dict=True):
    """Where the lanes of the warps of a block lie. `block` None: 32 in one row of it."""

    block: Block | None
    _uniform: dict[Term, bool] = field(default_factory=dict)
    _values: dict[Hashable, LaneValues] = field(default_factory=dict)

    @cached_property
    def places(self) -> tuple[Mapping[str, Offsets], ...]:
        """For each warp, what its lanes read of each special register."""
        return tuple(self._places())

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """The special registers that the block fixes."""
        sides = zip("xyz", self.block or (), strict=False)
        return {f"%ntid.{axis}": size for axis, size in sides}

    @property
    def width(self) -> int:
        """The most lanes of a warp that lie in one row of the block."""
        return LANES if self.block is None else min(LANES, self.block[0])

    @property
    def _wraps(self) -> bool:
        """Do rows of the block begin inside a warp?"""
        return self.block is not None and self.block[0] % LANES != 0

    def _places(self) -> Iterator[Mapping[str, Offsets]]:
        x, y, z = self.block or (LANES, 1, 1)
        if not self._wraps:  # one row of the block is like another
            for first in range(0, x, LANES):
                lanes = tuple(range(LANES))
                yield {"%tid.x": tuple(first + lane for lane in lanes), "%laneid": lanes}
            return
        for first in range(0, x * y * z, LANES):
            threads = range(first, min(first + LANES, x * y * z))
            yield {
                "%laneid": tuple(range(len(threads))),
                "%tid.x": tuple(t % x for t in threads),
                "%tid.y": tuple(t // x % y for t in threads),
                "%tid.z": tuple(t // (x * y) for t in threads),
            }

    @property
    def counts(self) -> tuple[int, ...]:
        """The lanes of each warp."""
        return tuple(len(places["%laneid"]) for places in self.places)

    def distances(self, term: Term, kind: str, trial: int, chosen: Chosen) -> tuple[Offsets, ...]:
        """Bytes from lane 0's address for each warp, under a choice of values."""
        half, full = 1 << (term.width - 1), 1 << term.width
        return tuple(
            tuple((at - warp[0] + half) % full - half for at in warp)
            for warp in self.addresses(term, kind, trial, chosen)
        )

    def starts(self, term: Term, kind: str, trial: int, chosen: Chosen) -> tuple[int, ...]:
        """Lane 0's address in each warp, under a choice of values."""
        return tuple(warp[0] for warp in self.addresses(term, kind, trial, chosen))

    def addresses(self, term: Term, kind: str, trial: int, chosen: Chosen) -> Iterator[Offsets]:
        """The unsigned value of a term in the lanes of each warp, under a choice of values."""
        key = (kind, trial, chosen)
        values = self._values.get(key)
        if values is None:
            values = self._values[key] = self._chosen(kind, trial, chosen)
        found = values.of(term)
        first = 0
        for count in self.counts:
            yield (found,) * count if isinstance(found, int) else found[first : first + count]
            first += count

    def _chosen(self, kind: str, trial: int, chosen: Chosen) -> LaneValues:
        """Values under a choice. In a row of unknown length, another warp is looked at in each
        trial."""
        names = self.places[0]
        places = {n: tuple(at for warp in self.places for at in warp[n]) for n in names}
        fixed = self.sizes
        if self.block is None:
            places["%tid.x"] = tuple(at + trial * LANES for at in places["%tid.x"])
            fixed = {"%ntid.x": LANES * (trial + 1)}
        choice = {"small": small(trial), "aligned": aligned(LINE), "usual": usual(trial, LINE)}
        return LaneValues(places, fixed, choice[kind], dict(chosen))

    def uniform(self, term: Term) -> bool:
        """Is the term the same for all lanes of a warp? What all lanes load from one address is,
        and so is `tid.x / 32`; a variable has one address, also where each thread has its own in
        local memory."""
        known = self._uniform.get(term)
        if known is None:
            for node in bottom_up(self._uniform, self._deciding, term):
                self._uniform[node] = self._is_uniform(node)
            known = self._uniform[term]
        return known

    @property
    def _most(self) -> Variance:
        """How much a term may vary that is the same in a warp all the same."""
        return Variance.UNIFORM if self._wraps else Variance.ROW

    def _deciding(self, term: Term) -> Sequence[Term]:
        """The terms on which it depends whether a term is uniform."""
        if term.kind == "atom" or term.variance <= self._most:
            return ()
        return term.args if term.kind in ("apply", "float") else unknowns(term)

    def _is_uniform(self, term: Term) -> bool:
        if term.origin in (Origin.SYMBOL, Origin.WINDOW):
            return True
        if term.variance <= self._most or term.kind == "atom":
            return term.variance <= self._most
        if term.kind in ("apply", "float"):
            fixed = term.kind == "float" or term.value[0][0] == "load"
            return fixed and all(self._uniform[arg] for arg in term.args)
        return self._never_moves(term)

    def _never_moves(self, term: Term) -> bool:
        """Do values for all that is not known never part the lanes?"""
        if not all(self._uniform[t] or t.value in self.places[0] for t in unknowns(term)):
            return False
        return all(
            not any(any(warp) for warp in self.distances(term, kind, trial, frozenset()))
            for kind, trial in _TESTS
        )


class Request(Struct, frozen=True):
    """The bytes from the start of a line at which the lanes of each warp point. If `exact`, how
    far lanes are from each other depends on nothing else."""

    warps: tuple[Offsets, ...]
    exact: bool

    @property
    def phase(self) -> int:
        """Bytes by which lane 0 of the first warp is past the start of a 128-byte line."""
        return self.warps[0][0] % LINE

    @property
    def offsets(self) -> Offsets | None:
        """Bytes from lane 0's address, where that is the same for every warp; a warp of fewer
        lanes has the first of them."""
        if not self.exact:
            return None
        found = {tuple(at - warp[0] for at in warp) for warp in self.warps}
        most = max(found, key=len)
        return most if all(most[: len(fewer)] == fewer for fewer in found) else None


Case = tuple[Request, ...]
"""What the warps ask for on one path: one exact request, or one for each of several choices of
what only the run knows."""


def requests(affine: Affine, address: Term, warps: Warps) -> tuple[Case, ...]:
    """What the warps ask for: a case for each way to decide conditions in the address that all
    lanes share. Empty where it depends on more than the places of lanes and on values that they
    share."""
    moved = _Moved.read(affine.polynomial(address), warps)
    if moved is None or moved.opaque:
        found = _evaluated(address, warps)
        if moved is None or all(request.exact for case in found for request in case):
            return found
    if moved.exact:
        return ((Request(moved.addresses(lambda _: 0), True),),)
    return (tuple(Request(moved.addresses(_choice(t)), False) for t in range(_TRIALS)),)


def stride(found: Offsets) -> int | None:
    """The bytes from every lane to the next, where that is one number."""
    steps = {b - a for a, b in pairwise(found)}
    return steps.pop() if len(steps) == 1 else None


def sectors(found: Offsets, size: int) -> int:
    """32-byte sectors that the lanes touch, `size` bytes each."""
    return len(touched(found, size, SECTOR))


def lines(found: Offsets, size: int) -> int:
    """128-byte lines that the lanes touch, `size` bytes each."""
    return len(touched(found, size, LINE))


def used(found: Offsets, size: int) -> int:
    """Different bytes that the lanes ask for."""
    return len(touched(found, size, 1))


def local_sectors(found: Offsets, size: int) -> int:
    """Sectors of local memory, where the words of one address lie side by side for the lanes."""
    places: set[tuple[int, int]] = set()
    for lane, at in enumerate(found):
        places.update((word, lane * 4 // SECTOR) for word in touched((at,), size, 4))
    return len(places)


def bank_ways(found: Offsets, size: int, *, apart: bool = False) -> int:
    """How often shared memory must be asked: 1 where no two lanes want different words of one
    bank. Accesses of 8 and 16 bytes are served by half and quarter warps. `apart`: lanes that want
    the same word wait for each other, as in an atomic operation."""
    together = LANES * 4 // max(4, size)
    worst = 1
    for first in range(0, len(found), together):
        lanes = found[first : first + together]
        words = [word for at in lanes for word in touched((at,), size, 4)]
        banks = [word % _BANKS for word in (words if apart else set(words))]
        worst = max(worst, *(banks.count(bank) for bank in set(banks)))
    return worst


def meeting(found: Offsets, size: int) -> int:
    """How many lanes want the same word, at most."""
    words = Counter(word for at in found for word in touched((at,), size, 4))
    return max(words.values(), default=1)


def separate_banks(affine: Affine, address: Term, warps: Warps, size: int) -> bool:
    """Do lanes want different banks, whatever the parts of the address are that are multiples of
    all banks together?"""
    rest = {
        m: factor for m, factor in affine.polynomial(address).items() if factor % (4 * _BANKS) != 0
    }
    moved = _Moved.read(rest, warps)
    if moved is None or not moved.exact:
        return False
    return all(bank_ways(w, size, apart=True) == 1 for w in moved.addresses(lambda _: 0))


# ---------------------------------------------------------------- addresses as sums


class _Moved(Struct, frozen=True):
    """An address as `start + Σ factor * bytes`: `bytes` for each lane of each warp, `factor` a
    product of terms that only the run knows."""

    start: int
    counts: tuple[int, ...]  # lanes of each warp
    parts: Mapping[Monomial, tuple[Offsets, ...]]
    opaque: bool  # was more than a special register read?

    @classmethod
    def read(cls, polynomial: Polynomial, warps: Warps) -> _Moved | None:
        """None where a lane's part is not known from its place alone."""
        parts: dict[Monomial, tuple[Offsets, ...]] = {}
        opaque = False
        for monomial, coefficient in polynomial.items():
            factor = tuple(t for t in monomial if warps.uniform(t) and t.value not in warps.sizes)
            known = [t for t in monomial if warps.uniform(t) and t.value in warps.sizes]
            lanes = [_by_lane(t, warps) for t in monomial if not warps.uniform(t)]
            if any(at is None for at in lanes):
                return None
            if not lanes:
                continue
            opaque |= any(t.kind != "atom" for t in monomial if not warps.uniform(t))
            scale = coefficient * prod(warps.sizes[t.value] for t in known)
            old = parts.get(factor)
            parts[factor] = tuple(
                tuple(
                    scale * prod(at[number][lane] for at in lanes if at is not None)
                    + (old[number][lane] if old else 0)
                    for lane in range(count)
                )
                for number, count in enumerate(warps.counts)
            )
        return cls(_known_part(polynomial, warps), warps.counts, parts, opaque)

    @property
    def exact(self) -> bool:
        return not any(factor for factor in self.parts)

    def addresses(self, value: Callable[[Term], int]) -> tuple[Offsets, ...]:
        """For each warp, with values for the factors."""
        scaled = [(prod(map(value, factor)), at) for factor, at in self.parts.items()]
        if not scaled:
            return ((self.start,) * max(self.counts),)
        return tuple(
            tuple(
                self.start + sum(factor * at[number][lane] for factor, at in scaled)
                for lane in range(count)
            )
            for number, count in enumerate(self.counts)
        )


def _known_part(polynomial: Polynomial, warps: Warps) -> int:
    """What is left of an address where all that is not known is a multiple of a line."""
    return sum(
        coefficient * prod(warps.sizes[t.value] for t in monomial)
        for monomial, coefficient in polynomial.items()
        if all(t.value in warps.sizes for t in monomial if t.kind == "atom")
        and all(t.kind == "atom" for t in monomial)
    )


def _by_lane(term: Term, warps: Warps) -> tuple[Offsets, ...] | None:
    """The value of a term in each lane of each warp, if nothing else is in it."""
    if term.kind == "atom":
        found = [places.get(term.value) for places in warps.places]
        return tuple(at for at in found if at is not None) if all(found) else None
    if not all(
        t.kind == "atom" and (t.value in warps.places[0] or t.value in warps.sizes)
        for t in unknowns(term)
    ):
        return None
    half, full = 1 << (term.width - 1), 1 << term.width
    return tuple(
        tuple((at + half) % full - half for at in warp)
        for warp in warps.addresses(term, "small", 0, frozenset())
    )


def _choice(trial: int) -> Callable[[Term], int]:
    """Values for what is known at run time only: multiples of a line, far apart."""
    return lambda term: LINE * (2 * Random(f"{trial} {term.id}").randint(20, 2000) + 1)


# ---------------------------------------------------------------- addresses that are no sums


def _evaluated(address: Term, warps: Warps) -> tuple[Case, ...]:
    """What the warps ask for if the address is no sum of what is known of a lane. It is computed
    with several values for all else; if these make no difference to how far lanes are from each
    other, nothing else does. If they do, there is one request for each of several choices of usual
    values: a quotient of an index by a width does not change in a warp then."""
    if not all(warps.uniform(t) or t.value in warps.places[0] for t in unknowns(address)):
        return ()
    found = [_case(address, warps, arms) for arms in _arms(address, warps)]
    return tuple(found) if all(found) else ()


def _case(address: Term, warps: Warps, arms: Chosen) -> Case:
    seen = {warps.distances(address, kind, trial, arms) for kind, trial in _TESTS}
    if len(seen) == 1:
        starts = warps.starts(address, "aligned", 0, arms)
        return (Request(_from(starts, seen.pop()), True),)
    if any(_depends_on_bits(node, warps) for node in _numbers(address)):
        return ()
    return tuple(
        Request(
            _from(
                warps.starts(address, "usual", trial, arms),
                warps.distances(address, "usual", trial, arms),
            ),
            False,
        )
        for trial in range(_TRIALS)
    )


def _from(starts: Sequence[int], distances: Sequence[Offsets]) -> tuple[Offsets, ...]:
    pairs = zip(starts, distances, strict=True)
    return tuple(tuple(start % LINE + at for at in warp) for start, warp in pairs)


def _arms(address: Term, warps: Warps) -> Iterator[Chosen]:
    """Each way to decide the conditions in an address that all lanes share, as long as they are
    few."""
    choices = (node.args[0] for node in _visible(address) if node.kind == "ite")
    conditions = dict.fromkeys(condition for condition in choices if warps.uniform(condition))
    if len(conditions) > _MOST_CONDITIONS:
        yield frozenset()
        return
    for sides in product((1, 0), repeat=len(conditions)):
        yield frozenset(zip(conditions, sides, strict=True))


def _visible(term: Term) -> list[Term]:
    """The terms that a value is computed from, but for those hidden in opaque ones."""
    seen: dict[Term, None] = {}
    for node in bottom_up(seen, lambda n: () if n.kind in OPAQUE else n.args, term):
        seen[node] = None
    return list(seen)


def _numbers(term: Term) -> set[Term]:
    """The terms that a value is computed from, but for those of which no more than the sign is
    asked: `(a ^ b) < 0` is how Python's remainders tell whether signs differ."""
    asked = {term}
    for node in _visible(term):
        zero = any(a.kind == "const" and a.value == 0 for a in node.args)
        if node.kind not in OPAQUE and not (zero and node.kind in ("slt", "sle")):
            asked.update(node.args)
    return asked


def _depends_on_bits(node: Term, warps: Warps) -> bool:
    """Are bits of what differs over lanes combined with bits that only the run knows? A multiple
    of a line is no usual value of a mask or of a distance to shift by."""
    if node.width == 1 or node.kind not in ("and", "or", "xor", "shl", "lshr", "ashr"):
        return False
    if warps.uniform(node) or any(a.kind == "const" or _is_switch(a) for a in node.args):
        return False
    leaves = unknowns(node)
    return not all(t.value in warps.places[0] or t.value in warps.sizes for t in leaves)


def _is_switch(term: Term) -> bool:
    """Is a mask all ones or all zeros?"""
    return term.kind == "sext" and term.args[0].width == 1
