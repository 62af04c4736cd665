"""What one request of a warp touches: lane offsets, sectors, lines, banks.

Unless the shape of the block is known, the 32 lanes lie in one row of the block, as they do
wherever `ntid.x` is a multiple of 32. The last warp of a block may have fewer lanes. What is
known at run time only, such as pointers, the widths of arrays and the turn of a loop, is taken to
be a multiple of 128 bytes: constants in the address decide where in a line lane 0 begins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from math import prod
from random import Random

from msgspec import Struct, field

from ptxsw.analysis.coalescing import LANES, SECTOR, touched
from ptxsw.emulator.affine import Affine, Monomial, Polynomial
from ptxsw.emulator.evaluate import evaluate
from ptxsw.emulator.node import Term, Variance, bottom_up, unknowns

LINE = 128  # bytes
_BANKS = 32  # of 4 bytes
_LARGEST = 2000  # nodes of a term that is evaluated
_TRIALS = 3  # choices of what is known at run time only

Offsets = tuple[int, ...]
"""Bytes for each lane of a warp: from lane 0's address, or from where a line begins."""

Block = tuple[int, int, int]


class Warps(Struct, frozen=True, dict=True):
    """Where the lanes of the warps of a block lie. `block` None: 32 in one row of it."""

    block: Block | None
    _uniform: dict[Term, bool] = field(default_factory=dict)

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
        if term.kind in ("apply", "float"):
            return term.args
        return unknowns(term) if term.size <= _LARGEST else ()

    def _is_uniform(self, term: Term) -> bool:
        if term.kind == "atom" and term.value.startswith(("&", "window(")):
            return True
        if term.variance <= self._most or term.kind == "atom":
            return term.variance <= self._most
        if term.kind in ("apply", "float"):
            fixed = term.kind == "float" or term.value[0][0] == "load"
            return fixed and all(self._uniform[arg] for arg in term.args)
        found = _evaluated(term, self)
        return found is not None and all(at == warp[0] for warp in found for at in warp)


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


def requests(affine: Affine, address: Term, warps: Warps) -> tuple[Request, ...]:
    """What the warps ask for; where that depends on strides that only the run knows, one request
    for each of several choices of them. Empty where it depends on more than that."""
    moved = _Moved.read(affine.polynomial(address), warps)
    if moved is None or moved.opaque:
        found = _evaluated(address, warps)
        if found is not None:
            return (Request(found, True),)
    if moved is None:
        return ()
    if moved.exact:
        return (Request(moved.addresses(lambda _: 0), True),)
    return tuple(Request(moved.addresses(_choice(trial)), False) for trial in range(_TRIALS))


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
    if term.size > _LARGEST:
        return None
    leaves = unknowns(term)
    if not all(
        t.kind == "atom" and (t.value in warps.places[0] or t.value in warps.sizes) for t in leaves
    ):
        return None
    half, full = 1 << (term.width - 1), 1 << term.width
    return tuple(
        tuple(
            (evaluate(term, _values(leaves, lane, places, warps)) + half) % full - half
            for lane in range(count)
        )
        for places, count in zip(warps.places, warps.counts, strict=True)
    )


def _values(
    leaves: Sequence[Term], lane: int, places: Mapping[str, Offsets], warps: Warps
) -> dict[Term, int]:
    """The special registers of one lane."""
    return {
        t: places[t.value][lane] if t.value in places else warps.sizes[t.value]
        for t in leaves
        if t.kind == "atom" and (t.value in places or t.value in warps.sizes)
    }


def _choice(trial: int) -> Callable[[Term], int]:
    """Values for what is known at run time only: multiples of a line, far apart."""
    return lambda term: LINE * (2 * Random(f"{trial} {term.id}").randint(20, 2000) + 1)


# ---------------------------------------------------------------- addresses that are no sums


def _evaluated(address: Term, warps: Warps) -> tuple[Offsets, ...] | None:
    """Where the lanes point if the address is no sum of what is known of a lane: computed with
    several values for all else, and kept where these make no difference to their distances."""
    if address.size > _LARGEST:
        return None
    leaves = unknowns(address)
    if any(not warps.uniform(t) and t.value not in warps.places[0] for t in leaves):
        return None
    seen: tuple[Offsets, ...] | None = None
    for seed, bits in enumerate((3, 7, 10)):
        random = Random(seed)
        fixed = {t: random.randint(1, 1 << bits) for t in leaves}
        values = _Values(leaves, fixed, seed)
        here = tuple(values.distances(address, at, warps) for at in warps.places)
        if seen not in (None, here):
            return None
        seen = here
    assert seen is not None
    aligned = _Values(leaves, {t: LINE << 10 for t in leaves}, 0)
    first = [aligned.address(address, 0, places, warps) % LINE for places in warps.places]
    return tuple(tuple(start + at for at in warp) for start, warp in zip(first, seen, strict=True))


class _Values(Struct, frozen=True):
    """Values for the leaves of an address. In a row of unknown length, `warp` says which of its
    warps is looked at."""

    leaves: Sequence[Term]
    fixed: Mapping[Term, int]
    warp: int

    def address(self, term: Term, lane: int, places: Mapping[str, Offsets], warps: Warps) -> int:
        own = _values(self.leaves, lane, places, warps)
        if warps.block is None:
            own = {t: v + self.warp * LANES * (t.value == "%tid.x") for t, v in own.items()}
            width = [t for t in self.leaves if t.value == "%ntid.x" and t not in own]
            own |= dict.fromkeys(width, LANES * (self.warp + 1))
        return evaluate(term, {**self.fixed, **own})

    def distances(self, term: Term, places: Mapping[str, Offsets], warps: Warps) -> Offsets:
        """Bytes from lane 0's address."""
        count = len(places["%laneid"])
        at = [self.address(term, lane, places, warps) for lane in range(count)]
        half, full = 1 << (term.width - 1), 1 << term.width
        return tuple((a - at[0] + half) % full - half for a in at)
