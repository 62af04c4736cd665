"""How far apart two different threads touch memory, as whole numbers.

    t: x + 4·(33·ty + tx)     u: x + 4·(33·ty' + tx')     no byte is common where the distance
    132·(ty' - ty) + 4·(tx' - tx) lies beyond -4 … 4

Strides are looked at from the widest on. Where the rest cannot make up for one step of a stride,
nobody steps along it: `ty' = ty`, and then `tx' = tx`. Then it is one thread that is at both bytes.
How large the rest gets may be for a launch to choose: "blockDim.x <= 33" is a condition.

Where strides do not tell, what is known of both threads is added up until an atom is left that
would have to be too small: from `u = t + s` and `u < s` follows `t < 0`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import gcd

from msgspec import Struct, field

from ptxsw.facts.address_readings import Fact, Needs, Spot
from ptxsw.facts.grid import Grid
from ptxsw.facts.grid_facts import Facts, proved
from ptxsw.facts.launch_conditions import is_readable, plain_condition
from ptxsw.terms.node import Term
from ptxsw.terms.polynomial import Polynomial

_MOST_FACTS = 40
_DEEPEST = 3  # facts that are added up
_MOST_SUMS = 300
_ADDRESS = 64  # bits


class DistanceProof(Struct):
    """What a proof stands on: polynomials that have to be at most 0 for a launch."""

    needs: dict[Polynomial, None] = field(default_factory=dict)
    conditions: dict[Polynomial, None] = field(default_factory=dict)


class _Group(Struct, frozen=True):
    """`stride · Σ sign · atom`."""

    stride: Polynomial
    atoms: tuple[tuple[Term, int], ...]


Span = tuple[Polynomial, Polynomial, dict[Polynomial, None]]
"""The least and the highest value, and what that needs."""


class Distance:
    """From a byte of thread t to one of thread u. `other` gives u's name of an atom; `tells_apart`
    says whether two threads are the same where some atoms are."""

    def __init__(
        self,
        grid: Grid,
        first: Spot,
        second: Spot,
        other: Callable[[Term], Term],
        same_thread: Callable[[Callable[[Term], bool]], bool],
        known: Facts,
        *,
        same_block: bool,
        width: int,
    ) -> None:
        self._grid, self.first, self.second = grid, first, second
        self._other, self._same_thread, self._known = other, same_thread, known
        self._same_block, self._width = same_block, width
        self._own: dict[Term, tuple[Spot, Term]] = {}  # whose an atom is, and its name there
        self._pairs: dict[Term, Term] = {}  # t's atom by u's

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
        new = self._other(atom)
        if new is atom:
            return Polynomial.atom(atom)
        rest = self._grid.terms.sub(new, atom)
        if not rest.args and isinstance(rest.value, int):  # a count that is ahead
            ahead = rest.value - (1 << rest.width) * (rest.value >> rest.width - 1)
            return Polynomial.atom(atom) + ahead
        self._own[new] = self.second, atom
        self._own.setdefault(atom, (self.first, atom))
        self._pairs[new] = atom
        return Polynomial.atom(new)

    def _is_own(self, atom: Term) -> bool:
        if atom in self._own:
            return True
        if self._other(atom) is atom or self._grid.is_shared(atom):
            return False
        rest = self._grid.terms.sub(self._other(atom), atom)
        if not rest.args and isinstance(rest.value, int):
            return False
        self._own[atom] = self.first, atom
        return True

    # ------------------------------------------------------------ bounds

    def _bounds(self, atom: Term) -> tuple[tuple[Polynomial, Polynomial], Needs] | None:
        spot, name = self._own.get(atom, (self.first, atom))
        return spot.reading.bounds(name)

    def _extreme(
        self, value: Polynomial, needs: dict[Polynomial, None], *, up: bool
    ) -> Polynomial | None:
        """The least or the highest value over what a launch chooses; None where it is not
        known."""
        for _ in range(64):
            varying = [a for a in value.atoms if not self._grid.is_uniform(a)]
            if not varying:
                return value
            atom = max(varying, key=lambda a: a.id)
            parted, bounds = value.parted(atom), self._bounds(atom)
            if parted is None or bounds is None:
                return None
            factor, rest = parted
            low, high = self._grid.span(factor)
            if low < 0 < high:
                return None
            (least, most), more = bounds
            needs.update(dict.fromkeys(more))
            value = rest + factor * (most if up == (low >= 0) else least)
        return None

    def _span(self, value: Polynomial) -> Span | None:
        needs: dict[Polynomial, None] = {}
        least, most = (self._extreme(value, needs, up=up) for up in (False, True))
        return None if least is None or most is None else (least, most, needs)

    # ------------------------------------------------------------ what has to be at most 0

    def _settle(self, excess: Polynomial, evidence: DistanceProof, *, promised: bool) -> bool:
        """Is a polynomial at most 0? `promised`: it may be a condition of the answer."""
        needs: dict[Polynomial, None] = {}
        most = self._extreme(excess, needs, up=True)
        if most is None:
            return False
        if not self.at_most_0(most):
            condition = plain_condition(most)
            if not promised or not is_readable(condition) or self._grid.span(condition)[0] > 0:
                return False
            evidence.conditions[condition] = None
        evidence.needs.update(needs)
        return True

    def at_most_0(self, value: Polynomial) -> bool:
        """Is it so in every launch?"""
        return proved(value, self._known, self._grid) or any(
            _falls(value - fact, self._grid) for fact in (Polynomial(), *self._known.at_most_0)
        )

    # ------------------------------------------------------------ the question

    def proof(self) -> DistanceProof | None:
        """Why two different threads have no byte in common; None where it is not known."""
        for way in (self._by_strides, self._by_sums, self._by_extents):
            for distance in self.distances():
                evidence = DistanceProof()
                if distance.is_whole and way(distance, evidence) and self._fits(distance, evidence):
                    evidence.needs.update(dict.fromkeys(self.needs))
                    return evidence
        return None

    def _fits(self, distance: Polynomial, evidence: DistanceProof) -> bool:
        """Is a distance what it is modulo 2^width, too? Of 64 bits that is taken for granted."""
        if self._width >= _ADDRESS:
            return True
        span = self._span(distance)
        if span is None:
            return False
        least, most, needs = span
        top = (1 << self._width) - self.first.size - self.second.size
        evidence.needs.update(needs)
        evidence.needs.update(dict.fromkeys((most - top, least * -1 - top)))
        return True

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

    def _range(self, distance: Polynomial) -> tuple[int, int] | None:
        """The distances at which a byte is common that a sum of multiples can be; None: none."""
        low, high = 1 - self.second.size, self.first.size - 1
        step = gcd(*(factor for monomial, factor in distance if monomial))
        shift = distance.offset
        if step == 0:
            return (shift, shift) if low <= shift <= high else None
        least, most = -((shift - low) // step), (high - shift) // step
        return None if least > most else (shift + step * least, shift + step * most)

    # ------------------------------------------------------------ strides

    def _by_strides(self, distance: Polynomial, evidence: DistanceProof) -> bool:
        equal: set[Term] = set()

        def same(atom: Term) -> bool:
            return atom in equal or self._other(atom) is atom or self._pinned(atom, evidence)

        while True:
            inside = self._range(distance)
            if inside is None:
                return True
            if self._outside(distance, inside, evidence) or self._same_thread(same):
                return True
            groups = self._groups(distance)
            if not groups:
                return False
            group = self._still(distance, groups, inside, evidence)
            if group is None:
                return False
            distance -= _value(group)
            equal.update(_one_atom(group, self._pairs))

    def _outside(
        self, distance: Polynomial, inside: tuple[int, int], evidence: DistanceProof
    ) -> bool:
        """Is the distance always too large?"""
        return any(
            self._settle(excess, evidence, promised=False)
            for excess in (distance * -1 + inside[1] + 1, distance - inside[0] + 1)
        )

    def _groups(self, distance: Polynomial) -> list[_Group] | None:
        """A distance as strides times sums of atoms, the widest first; None where atoms of one
        thread are multiplied with each other."""
        strides: dict[Polynomial, list[tuple[Term, int]]] = {}
        for atom in sorted((a for a in distance.atoms if self._is_own(a)), key=lambda a: a.id):
            parted = distance.parted(atom)
            if parted is None or any(map(self._is_own, parted[0].atoms)):
                return None
            stride, sign = parted[0], 1
            if max(stride, key=lambda item: len(item[0]))[1] < 0:
                stride, sign = stride * -1, -1
            strides.setdefault(stride, []).append((atom, sign))
        ordered = sorted(strides.items(), key=lambda item: _width(item[0]), reverse=True)
        return [_Group(stride, tuple(atoms)) for stride, atoms in ordered]

    def _still(
        self,
        distance: Polynomial,
        groups: list[_Group],
        inside: tuple[int, int],
        evidence: DistanceProof,
    ) -> _Group | None:
        """A stride along which nobody steps, since the rest cannot make up for it."""
        for group in groups:
            rest = self._span(distance - _value(group))
            if rest is None:
                continue
            least, most, needs = rest
            up = least * -1 - group.stride + inside[1] + 1
            down = most - group.stride - inside[0] + 1
            tried = DistanceProof(dict(evidence.needs), dict(evidence.conditions))
            if all(self._settle(one, tried, promised=False) for one in (up, down)):
                evidence.needs.update({**tried.needs, **needs})
                return group
        return None

    def _by_extents(self, distance: Polynomial, evidence: DistanceProof) -> bool:
        """Are strides at least the extents that they separate? A launch has to see to that: it is
        a condition."""
        inside, groups = self._range(distance), self._groups(distance)
        if inside is None or not groups:
            return inside is None
        fixed = all(not m or any(map(self._is_own, m)) for m, _ in distance)
        if not fixed or inside != (0, 0) or distance.offset:
            return False
        extent = Polynomial.constant(1)
        for group in reversed(groups):
            if not self._settle(extent - group.stride, evidence, promised=True):
                return False
            span = self._span(_value(_Group(Polynomial.constant(1), group.atoms)))
            if span is None and group is groups[0]:
                break  # nothing is wider
            if span is None:
                return False
            least, most, needs = span
            evidence.needs.update(needs)
            if not self._settle(least * -1 - most, evidence, promised=False):
                return False
            extent = group.stride * (most + 1)
        equal = {atom for group in groups for atom in _one_atom(group, self._pairs)}
        return self._same_thread(
            lambda a: a in equal or self._other(a) is a or self._pinned(a, evidence)
        )

    def _pinned(self, atom: Term, evidence: DistanceProof) -> bool:
        """Have both threads one value of an atom, the same for all threads that get there?"""
        mine, others = self.first.reading.bounds(atom), self.second.reading.bounds(atom)
        if mine is None or others is None:
            return False
        (low, high), needs = mine
        if low != high or others[0] != mine[0]:
            return False
        evidence.needs.update(dict.fromkeys((*needs, *others[1])))
        return True

    # ------------------------------------------------------------ sums of what is known

    def _by_sums(self, distance: Polynomial, evidence: DistanceProof) -> bool:
        """Do facts of both threads contradict a small distance?"""
        inside = self._range(distance)
        if inside is None:
            return True
        facts = list(self._facts())[:_MOST_FACTS]
        starts = [distance - inside[1], distance * -1 + inside[0]]
        work: list[tuple[Polynomial, Needs, int]] = [(start, (), 0) for start in starts]
        work += [(fact.excess, fact.needs, 1) for fact in facts]
        tried = 0
        while work and tried < _MOST_SUMS:
            excess, needs, depth = work.pop(0)
            tried += 1
            if self._settle(excess * -1 + 1, evidence, promised=False):
                evidence.needs.update(dict.fromkeys(needs))
                return True
            if depth == _DEEPEST or not excess.is_whole:
                continue
            more: list[tuple[Polynomial, Needs]] = [(s, ()) for s in starts] if depth else []
            more += [(fact.excess, fact.needs) for fact in facts]
            for added, also in more:
                for total in _cancelled(excess, added, self._is_own):
                    work.append((total, (*needs, *also), depth + 1))
        return False

    def _facts(self) -> Iterator[Fact]:
        for fact in self.first.facts:
            if any(map(self._is_own, fact.excess.atoms)):
                yield fact
        for fact in self.second.facts:
            renamed = self.renamed(fact.excess)
            if any(map(self._is_own, renamed.atoms)):
                yield Fact(renamed, fact.needs)


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


def _value(group: _Group) -> Polynomial:
    atoms = Polynomial.sum([(Polynomial.atom(atom), sign) for atom, sign in group.atoms])
    return group.stride * atoms


def _one_atom(group: _Group, pairs: Mapping[Term, Term]) -> Iterable[Term]:
    """The atom that is the same in both threads if the sum of a group is 0."""
    if len(group.atoms) == 2:
        for (a, sign), (b, other) in (group.atoms, group.atoms[::-1]):
            if sign == -other and pairs.get(a) is b:
                return (b,)
    return ()


def _width(stride: Polynomial) -> tuple[int, int]:
    """Products of more sizes are taken to be wider; then what is multiplied with more."""
    degree = max((len(monomial) for monomial, _ in stride), default=0)
    return degree, max((abs(f) for m, f in stride if len(m) == degree), default=0)


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
