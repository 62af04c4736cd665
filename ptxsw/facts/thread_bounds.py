"""Bounds of what two threads have of their own, over what a launch chooses.

A polynomial over atoms of both threads is bounded as one of a single thread is (`ranges`): an atom
lies where its own thread's path has it. Sums that a path bounds as a whole, `i + 32·k < n`, are
bounded before the atoms in them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct, field

from ptxsw.facts.address_readings import Fact, Needs, Spot
from ptxsw.facts.grid import Grid
from ptxsw.facts.grid_facts import Facts, proved
from ptxsw.facts.launch_conditions import agree, is_promise, plain_condition
from ptxsw.facts.ranges import OPAQUE_BITS
from ptxsw.ptx.bits import wrapped
from ptxsw.terms import op
from ptxsw.terms.node import Term, ones
from ptxsw.terms.origin import Origin
from ptxsw.terms.polynomial import Polynomial

_MOST_STEPS = 64
_MOST_SUMS = 24

Span = tuple[Polynomial, Polynomial, dict[Polynomial, None]]
"""The least and the highest value, and what that needs."""


class DistanceProof(Struct):
    """What a proof stands on: polynomials that have to be at most 0 for a launch. `conditions` are
    those that the launch is asked to see to."""

    needs: dict[Polynomial, None] = field(default_factory=dict)
    conditions: dict[Polynomial, None] = field(default_factory=dict)

    def copy(self) -> DistanceProof:
        return DistanceProof(dict(self.needs), dict(self.conditions))

    def become(self, other: DistanceProof) -> None:
        self.needs, self.conditions = other.needs, other.conditions


class ThreadBounds:
    """Of threads t and u, which touch `first` and `second`. `other` gives u's name of an atom of
    t; `known` are facts of the launch."""

    def __init__(
        self, grid: Grid, first: Spot, second: Spot, other: Callable[[Term], Term], known: Facts
    ) -> None:
        self.grid, self.first, self.second = grid, first, second
        self.other, self._known = other, known
        self._own: dict[Term, tuple[Spot, Term]] = {}  # whose an atom is, and its name there
        self.pairs: dict[Term, Term] = {}  # t's atom by u's
        self._uniform: dict[Term, bool] = {}
        self._sums: list[tuple[Polynomial, Polynomial, Needs]] | None = None

    # ------------------------------------------------------------ names

    def renamed(self, value: Polynomial) -> Polynomial:
        """A polynomial of thread t as it is in thread u."""
        result = Polynomial()
        for monomial, factor in value:
            product = Polynomial.constant(factor)
            for atom in monomial:
                product *= self._as_other(atom)
            result += product
        return result if value.is_whole else result / value.denominator

    def _as_other(self, atom: Term) -> Polynomial:
        new = self.other(atom)
        if new is atom:
            return Polynomial.atom(atom)
        ahead = self._ahead(new, atom)
        if ahead is not None:
            return Polynomial.atom(atom) + ahead
        self._own[new] = self.second, atom
        self._own.setdefault(atom, (self.first, atom))
        self.pairs[new] = atom
        return Polynomial.atom(new)

    def _ahead(self, new: Term, atom: Term) -> int | None:
        """By how many iterations u is ahead, of a count that both have."""
        rest = self.grid.terms.sub(new, atom)
        return wrapped(rest.value, rest.width) if rest.kind is op.CONST else None

    def is_own(self, atom: Term) -> bool:
        """Has each thread a value of its own?"""
        if atom in self._own:
            return True
        new = self.other(atom)
        if new is atom or self.grid.is_shared(atom) or self._ahead(new, atom) is not None:
            return False
        self._own[atom] = self.first, atom
        return True

    def _is_uniform(self, atom: Term) -> bool:
        uniform = self._uniform.get(atom)
        if uniform is None:
            uniform = self._uniform[atom] = self.grid.is_uniform(atom)
        return uniform

    # ------------------------------------------------------------ bounds

    def _bound(self, atom: Term, *, up: bool, natural: bool) -> tuple[Polynomial, Needs] | None:
        """The least or the highest value of an atom of either thread. `natural`: as block, grid or
        its bits have it, where a condition says more."""
        spot, name = self._own.get(atom, (self.first, atom))
        if not up:
            return spot.reading.least(name)
        told, plain = spot.reading.most(name), self._natural(name)
        if plain is None or (told is not None and told[0].number is not None):
            return told
        return (plain, ()) if natural or plain.number is not None or told is None else told

    def _natural(self, atom: Term) -> Polynomial | None:
        size = self._size_along(atom)
        if size is not None:
            return size - 1
        return Polynomial.constant(ones(atom)) if ones(atom) >> OPAQUE_BITS == 0 else None

    def _size_along(self, atom: Term) -> Polynomial | None:
        """How many there are, where an atom is the number of a thread or a block."""
        if atom.kind is not op.ATOM:
            return None
        kind, _, axis = str(atom.value).partition(".")
        if kind in ("%tid", "%ctaid"):
            return self.grid.size(f"%n{kind[1:]}.{axis}")
        if atom.origin is Origin.GRID_INDEX:
            axis = kind[-1]
            return self.grid.size(f"%ntid.{axis}") * self.grid.size(f"%nctaid.{axis}")
        return None

    def extreme(
        self,
        value: Polynomial,
        needs: dict[Polynomial, None],
        *,
        up: bool,
        natural: bool = False,
        sums: bool = True,
    ) -> Polynomial | None:
        """The least or the highest value over what a launch chooses; None where it is not
        known."""
        for _ in range(_MOST_STEPS):
            varying = [a for a in value.atoms if not self._is_uniform(a)]
            if not varying:
                return value
            several = sums and len(varying) > 1
            less = self._without_sum(value, needs, up=up) if several else None
            if less is not None:
                value = less
                continue
            atom = max(varying, key=lambda a: a.id)
            parted = value.parted(atom)
            if parted is None:
                return None
            factor, rest = parted
            low, high = self.grid.span(factor)
            bound = self._bound(atom, up=up == (low >= 0), natural=natural)
            if low < 0 < high or bound is None:
                return None
            needs.update(dict.fromkeys(bound[1]))
            value = rest + factor * bound[0]
        return None

    def _without_sum(
        self, value: Polynomial, needs: dict[Polynomial, None], *, up: bool
    ) -> Polynomial | None:
        """The value with a bound in the place of a sum in it that has one."""
        for total, most, more in self._bounded_sums():
            own = [a for a in total.atoms if self.is_own(a)]
            ratio = _ratio(value, total, own)
            if ratio is None:
                continue
            low, high = self.grid.span(ratio)
            rest = value - ratio * total
            if low < 0 if up else high > 0:
                continue
            if rest.atoms.isdisjoint(own):
                needs.update(dict.fromkeys(more))
                return rest + ratio * most
        return None

    def _bounded_sums(self) -> list[tuple[Polynomial, Polynomial, Needs]]:
        """Sums of several atoms of one thread, with what they are at most."""
        if self._sums is None:
            found: dict[tuple[Polynomial, Polynomial], Needs] = {}
            for fact in self.facts():
                own = [(m, f) for m, f in fact.excess if any(map(self.is_own, m))]
                total = Polynomial.of(own)
                if fact.excess.is_whole and sum(map(self.is_own, total.atoms)) > 1:
                    found.setdefault((total, total - fact.excess), fact.needs)
            # The longest first: what is left of a value has to be bounded atom by atom.
            sums = [(*key, needs) for key, needs in found.items()]
            self._sums = sorted(sums, key=lambda each: -len(each[0].items))[:_MOST_SUMS]
        return self._sums

    def facts(self) -> Iterator[Fact]:
        """What the conditions of both threads say of what they have of their own."""
        for fact in self.first.facts:
            if any(map(self.is_own, fact.excess.atoms)):
                yield fact
        for fact in self.second.facts:
            renamed = self.renamed(fact.excess)
            if any(map(self.is_own, renamed.atoms)):
                yield Fact(renamed, fact.needs)

    def span(self, value: Polynomial) -> Span | None:
        needs: dict[Polynomial, None] = {}
        least, most = (self.extreme(value, needs, up=up) for up in (False, True))
        return None if least is None or most is None else (least, most, needs)

    # ------------------------------------------------------------ what has to be at most 0

    def settle(
        self, excess: Polynomial, evidence: DistanceProof, *, promised: bool = False
    ) -> bool:
        """Is a polynomial at most 0? `promised`: it may be a condition of the answer."""
        found: list[tuple[Polynomial, dict[Polynomial, None]]] = []
        for natural in (False, True):
            needs: dict[Polynomial, None] = {}
            most = self.extreme(excess, needs, up=True, natural=natural)
            if most is not None and self._at_most_0(most):
                evidence.needs.update(needs)
                return True
            if most is not None:
                found.append((plain_condition(most), needs))
        for condition, needs in found if promised else ():
            possible = is_promise(condition) and self.grid.span(condition)[0] <= 0
            if possible and agree(condition, evidence.conditions):
                evidence.conditions[condition] = None
                evidence.needs.update(needs)
                return True
        return False

    def is_positive(self, value: Polynomial, evidence: DistanceProof) -> bool:
        """Is a value at least 1, judging by the bounds of single atoms?"""
        needs: dict[Polynomial, None] = {}
        least = self.extreme(value, needs, up=False, sums=False)
        if least is None or not self._at_most_0(least * -1 + 1):
            return False
        evidence.needs.update(needs)
        return True

    def _at_most_0(self, value: Polynomial) -> bool:
        """Is it so in every launch?"""
        return proved(value, self._known, self.grid) or any(
            _falls(value - fact, self.grid) for fact in (Polynomial(), *self._known.at_most_0)
        )

    def pinned(self, atom: Term, evidence: DistanceProof) -> bool:
        """Have both threads one value of an atom, the same for all threads that get there?"""
        readings = self.first.reading, self.second.reading
        sides = [side(atom) for one in readings for side in (one.least, one.most)]
        known = [side for side in sides if side is not None]
        if len(known) < len(sides) or len({bound for bound, _ in known}) > 1:
            return False
        evidence.needs.update(dict.fromkeys(need for _, needs in known for need in needs))
        return True


def _ratio(value: Polynomial, total: Polynomial, own: Sequence[Term]) -> Polynomial | None:
    """How often a sum may be in a value, judging by one of its atoms that has a number there."""
    for atom in own:
        inside = total.parted(atom)
        unit = None if inside is None else inside[0].number
        times = value.parted(atom) if unit else None
        if times is not None and unit is not None:
            ratio = times[0] / unit
            return ratio if ratio.items and ratio.is_whole else None
    return None


def _falls(value: Polynomial, grid: Grid) -> bool:
    """Is a polynomial at most 0, whatever its atoms are from their least number on? With each
    written as that number and what is more, all factors are negative."""
    for atom in value.atoms:
        least = grid.limits(atom)[0]
        parted = value.parted(atom)
        if parted is None:
            return False
        if least:
            value = parted[0] * (Polynomial.atom(atom) + least) + parted[1]
    return all(factor <= 0 for _, factor in value)
