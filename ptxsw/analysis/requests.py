"""At which bytes the lanes of each warp point: an address, evaluated for whole warps.

What is known at run time only, such as pointers, the widths of arrays and the iteration of a loop,
is taken to be a multiple of 128 bytes: constants in the address decide where in a line lane 0
begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from random import Random

from msgspec import Struct

from ptxsw.analysis.banks import BANKS, own_banks
from ptxsw.analysis.coalescing import LINE, Offsets
from ptxsw.analysis.warps import TESTS, TRIALS, Chosen, Warps
from ptxsw.terms import op
from ptxsw.terms.node import Term, bottom_up, unknowns
from ptxsw.terms.polynomial import Monomial, Polynomial
from ptxsw.terms.readings import UnwrappedReading

_MOST_CONDITIONS = 3  # in an address, of which both sides are looked at


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
        shapes = {tuple(at - warp[0] for at in warp) for warp in self.warps}
        most = max(shapes, key=len)
        return most if all(most[: len(fewer)] == fewer for fewer in shapes) else None


Case = tuple[Request, ...]
"""What the warps ask for on one path: one exact request, or one for each of several choices of
what only the run knows."""


def requests(unwrapped: UnwrappedReading, address: Term, warps: Warps) -> tuple[Case, ...]:
    """What the warps ask for: a case for each way to decide conditions in the address that all
    lanes share. Empty where it depends on more than the places of lanes and on values that they
    share. It is worked out once for an address and these warps."""
    kept: dict[Term, tuple[Case, ...]] = vars(warps).setdefault(_REQUESTS, {})
    cases = kept.get(address)
    if cases is None:
        cases = kept[address] = _requests(unwrapped, address, warps)
    return cases


_REQUESTS = "requests by address"


def _requests(unwrapped: UnwrappedReading, address: Term, warps: Warps) -> tuple[Case, ...]:
    moved = _Moved.read(unwrapped.polynomial(address), warps)
    if moved is None or moved.opaque:
        cases = _evaluated(address, warps)
        if moved is None or all(request.exact for case in cases for request in case):
            return cases
    if moved.exact:
        return ((Request(moved.addresses(lambda _: 0), True),),)
    return (tuple(Request(moved.addresses(_choice(t)), False) for t in range(TRIALS)),)


def separate_banks(unwrapped: UnwrappedReading, address: Term, warps: Warps, size: int) -> bool:
    """Do the lanes access different banks? Parts of the address that are multiples of 128 bytes,
    one word of each bank, do not matter."""
    whole = unwrapped.polynomial(address)
    rest = Polynomial.of((m, factor) for m, factor in whole if factor % (4 * BANKS) != 0)
    moved = _Moved.read(rest, warps)
    if moved is None or not moved.exact:
        return False
    return all(own_banks(w, size) for w in moved.addresses(lambda _: 0))


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
        for monomial, coefficient in polynomial:
            # n · blockDim.x · tid.x is known but for n: parts with one unknown factor are added up.
            factor = tuple(t for t in monomial if warps.uniform(t) and t.value not in warps.sizes)
            sizes = [t for t in monomial if warps.uniform(t) and t.value in warps.sizes]
            lanes = [_by_lane(t, warps) for t in monomial if not warps.uniform(t)]
            if any(at is None for at in lanes):
                return None
            if not lanes:
                continue
            opaque |= any(t.kind is not op.ATOM for t in monomial if not warps.uniform(t))
            scale = coefficient * prod(warps.sizes[t.value] for t in sizes)
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
        for monomial, coefficient in polynomial
        if all(t.value in warps.sizes for t in monomial if t.kind is op.ATOM)
        and all(t.kind is op.ATOM for t in monomial)
    )


def _by_lane(term: Term, warps: Warps) -> tuple[Offsets, ...] | None:
    """The value of a term in each lane of each warp, if nothing else is in it."""
    if term.kind is op.ATOM:
        values = [places.get(term.value) for places in warps.places]
        return tuple(at for at in values if at is not None) if all(values) else None
    if not all(
        t.kind is op.ATOM and (t.value in warps.places[0] or t.value in warps.sizes)
        for t in unknowns(term)
    ):
        return None
    # Read as signed: a value such as tid.x - 1 is -1 in lane 0, not 2^32 - 1.
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
    cases = [_case(address, warps, arms) for arms in _arms(address, warps)]
    return tuple(cases) if all(cases) else ()


def _case(address: Term, warps: Warps, arms: Chosen) -> Case:
    seen = {warps.distances(address, kind, trial, arms) for kind, trial in TESTS}
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
        for trial in range(TRIALS)
    )


def _from(starts: Sequence[int], distances: Sequence[Offsets]) -> tuple[Offsets, ...]:
    pairs = zip(starts, distances, strict=True)
    return tuple(tuple(start % LINE + at for at in warp) for start, warp in pairs)


def _arms(address: Term, warps: Warps) -> Iterator[Chosen]:
    """Each way to decide the conditions in an address that all lanes share, as long as they are
    few."""
    choices = (node.args[0] for node in _visible(address) if node.kind is op.ITE)
    conditions = dict.fromkeys(condition for condition in choices if warps.uniform(condition))
    if len(conditions) > _MOST_CONDITIONS:
        yield frozenset()
        return
    for sides in product((1, 0), repeat=len(conditions)):
        yield frozenset(zip(conditions, sides, strict=True))


def _visible(term: Term) -> list[Term]:
    """The terms that a value is computed from, but for those hidden in opaque ones."""
    seen: dict[Term, None] = {}
    for node in bottom_up(seen, lambda n: () if n.kind in op.OPAQUE else n.args, term):
        seen[node] = None
    return list(seen)


def _numbers(term: Term) -> set[Term]:
    """The terms that a value is computed from, except those of which only the sign is used, as in
    `(a ^ b) < 0`: remainders as Python defines them compare signs so."""
    asked = {term}
    for node in _visible(term):
        zero = any(a.kind is op.CONST and a.value == 0 for a in node.args)
        if node.kind not in op.OPAQUE and not (zero and node.kind in op.SIGNED):
            asked.update(node.args)
    return asked


def _depends_on_bits(node: Term, warps: Warps) -> bool:
    """Are bits of what differs over lanes combined with bits that only the run knows? A multiple
    of a line is no usual value of a mask or of a distance to shift by."""
    if node.width == 1 or node.kind not in (op.AND, op.OR, op.XOR, op.SHL, op.LSHR, op.ASHR):
        return False
    if warps.uniform(node) or any(a.kind is op.CONST or _is_switch(a) for a in node.args):
        return False
    leaves = unknowns(node)
    return not all(t.value in warps.places[0] or t.value in warps.sizes for t in leaves)


def _is_switch(term: Term) -> bool:
    """Is a mask all ones or all zeros?"""
    return term.kind is op.SEXT and term.args[0].width == 1
