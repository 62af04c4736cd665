"""How far apart two different threads touch memory, as whole numbers.

    t: x + 4·(33·ty + tx)     u: x + 4·(33·ty' + tx')     no byte is common where the distance
    132·(ty' - ty) + 4·(tx' - tx) lies beyond -4 … 4

Strides are looked at first (`thread_strides`). How large what they separate gets may be for a
launch to choose: "blockDim.x <= 33" is a condition of the answer. Where strides do not tell, what
is known of both threads is added up until an atom is left that would have to be too small: from
`u = t + s` and `u < s` follows `t < 0`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import gcd

from ptxsw.facts.address_readings import Needs, Spot
from ptxsw.facts.grid import Grid
from ptxsw.facts.grid_facts import Facts
from ptxsw.facts.thread_bounds import DistanceProof, ThreadBounds
from ptxsw.facts.thread_strides import Equation, SameThread, Strides
from ptxsw.terms.node import Term
from ptxsw.terms.polynomial import Polynomial

_MOST_FACTS = 40
_DEEPEST = 2  # facts that are added up
_MOST_SUMS = 80
_ADDRESS = 64  # bits


class Distance:
    """From a byte of thread t to one of thread u, in addresses of `width` bits."""

    def __init__(
        self,
        grid: Grid,
        spots: tuple[Spot, Spot],
        other: Callable[[Term], Term],
        same_thread: SameThread,
        known: Facts,
        *,
        same_block: bool,
        both_write: bool,
        width: int,
    ) -> None:
        self.first, self.second = spots
        self._bounds = ThreadBounds(grid, *spots, other, known)
        self._strides = Strides(self._bounds, same_thread)
        self._same_thread, self._same_block, self._width = same_thread, same_block, width
        self._both_write = both_write
        self.other, self.renamed = other, self._bounds.renamed

    def by_strides(self) -> DistanceProof | None:
        """Why two different threads have no byte in common, by their strides alone; None where
        these do not tell."""
        return self._proof(self._by_strides)

    def proof(self) -> DistanceProof | None:
        """The same by all that is known, and by what a launch can see to."""
        for way in (self._by_sums, self._by_extents, self._by_promises):
            proof = self._proof(way)
            if proof is not None:
                return proof
        return None

    def _proof(self, way: Callable[[Polynomial, DistanceProof], bool]) -> DistanceProof | None:
        for distance in self.distances():
            evidence = DistanceProof()
            if distance.is_whole and way(distance, evidence) and self._fits(distance, evidence):
                evidence.needs.update(dict.fromkeys(self.needs))
                return evidence
        return None

    @property
    def needs(self) -> Needs:
        """What the polynomials of both addresses stand on."""
        return (*self.first.needs, *self.second.needs)

    def distances(self) -> Iterator[Polynomial]:
        """The distance over the places of threads in their blocks, and in the grid."""
        plain = self.first.offset, self.second.offset
        indexed = self.first.indexed(), self.second.indexed()
        ways = (plain, indexed) if self._same_block else (indexed, plain)
        for first, second in dict.fromkeys(ways):
            yield self.renamed(second) - first

    def _fits(self, distance: Polynomial, evidence: DistanceProof) -> bool:
        """Is a distance what it is modulo 2^width, too? Of 64 bits that is taken for granted."""
        if self._width >= _ADDRESS:
            return True
        span = self._bounds.span(distance)
        if span is None:
            return False
        least, most, needs = span
        top = (1 << self._width) - self.first.size - self.second.size
        evidence.needs.update(needs)
        evidence.needs.update(dict.fromkeys((most - top, least * -1 - top)))
        return True

    def _meeting(self, distance: Polynomial) -> Equation:
        """That a byte is common."""
        return Equation(distance, 1 - self.second.size, self.first.size - 1)

    # ------------------------------------------------------------ strides

    def _by_strides(self, distance: Polynomial, evidence: DistanceProof) -> bool:
        return self._strides.contradict(self._meeting(distance), evidence, promised=False)

    def _by_promises(self, distance: Polynomial, evidence: DistanceProof) -> bool:
        is_own = self._bounds.is_own
        strides = {
            tuple(atom for atom in monomial if not is_own(atom))
            for monomial, _ in distance
            if any(map(is_own, monomial))
        }
        if not all(any(map(is_own, m)) or m in strides for m, _ in distance if m):
            return False  # a distance that a launch chooses is no stride, unless threads make it
        meeting = self._meeting(distance)
        return self._strides.contradict(meeting, evidence, promised=True, tiled=self._both_write)

    def _by_extents(self, distance: Polynomial, evidence: DistanceProof) -> bool:
        """Are strides at least the extents that they separate? A launch has to see to that: it is
        a condition."""
        bounds, inside = self._bounds, self._meeting(distance).tightened
        steps = self._strides.groups(distance)
        if inside is None or not steps:
            return inside is None
        left = distance - Polynomial.sum([(s.stride * s.along, 1) for s in steps])
        if left.items or (inside.low, inside.high) != (0, 0):
            return False
        extent = Polynomial.constant(1)
        for step in reversed(steps):
            if not bounds.settle(extent - step.stride, evidence, promised=True):
                return False
            span = bounds.span(step.along)
            if span is None:
                if step is steps[0]:
                    break  # nothing is wider
                return False
            least, most, needs = span
            evidence.needs.update(needs)
            if not bounds.settle(least * -1 - most, evidence):
                return False
            extent = step.stride * (most + 1)
        equal = {self._strides.one_atom(step.along) for step in steps}
        return self._same_thread(
            lambda a: a in equal or bounds.other(a) is a or bounds.pinned(a, evidence)
        )

    # ------------------------------------------------------------ sums of what is known

    def _by_sums(self, distance: Polynomial, evidence: DistanceProof) -> bool:
        """Do facts of both threads contradict a small distance?"""
        inside = self._meeting(distance).tightened
        if inside is None:
            return True
        facts = list(self._bounds.facts())[:_MOST_FACTS]
        starts = [distance - inside.high, distance * -1 + inside.low]
        work: list[tuple[Polynomial, Needs, int]] = [(start, (), 0) for start in starts]
        tried = 0
        while work and tried < _MOST_SUMS:
            excess, needs, depth = work.pop(0)
            tried += 1
            if self._bounds.is_positive(excess, evidence):
                evidence.needs.update(dict.fromkeys(needs))
                return True
            if depth == _DEEPEST or not excess.is_whole:
                continue
            for fact in facts:
                for total in _cancelled(excess, fact.excess, self._bounds.is_own):
                    work.append((total, (*needs, *fact.needs), depth + 1))
        return False


def _cancelled(
    a: Polynomial, b: Polynomial, is_own: Callable[[Term], bool]
) -> Iterator[Polynomial]:
    """Sums of two polynomials that are at most 0 in which an atom of one thread is gone."""
    if not b.is_whole:
        return
    for monomial, factor in a:
        other = b.coefficients.get(monomial, 0)
        if monomial and factor * other < 0 and any(map(is_own, monomial)):
            shared = gcd(factor, other)
            yield a * (abs(other) // shared) + b * (abs(factor) // shared)
