"""Addresses made from one another: which of them keep their own arithmetic, and how the others are
made from these.

Addresses that differ by a number share a base. Of another one, `base + 4·n` where `4·n` is there
already, or is cheap to make, takes two instructions: IADD3 twice, or LEA and LEA.HI.X. What only
its own arithmetic needed is then saved.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial

from msgspec import Struct, field

from ptxsw.analysis.straight_sums import StraightAccess, StraightSums, wrapped_at
from ptxsw.codegen.lower_straight_line import FARTHEST, Value
from ptxsw.ptx.bits import wrapped
from ptxsw.rewrites.iteration_cost import IterationCost
from ptxsw.rewrites.materialized_values import WIDE, MaterializedValues, before
from ptxsw.terms.polynomial import Polynomial

MOST_BASES = 128
_NEAREST = 24  # bases from which another one is tried to be made
_MOST_PARTS = 3  # of what two bases differ by


class PlacedAccess(Struct, frozen=True):
    """An access, what its register holds, and where its base may be shared."""

    access: StraightAccess
    base: Polynomial
    region: Hashable

    @property
    def width(self) -> int:
        return self.access.base.width

    @property
    def number(self) -> int:
        """The constant part of what the register holds."""
        return wrapped(self.base.offset, self.width)


class _Base(Struct, frozen=True):
    """Accesses whose addresses differ by numbers: `sum` is what they share. The first one comes
    before the others on all ways."""

    sum: Polynomial
    members: tuple[PlacedAccess, ...]

    @property
    def lead(self) -> PlacedAccess:
        return self.members[0]

    def reaches(self, number: int) -> bool:
        """Are all members near enough to `sum + number`?"""
        return all(abs(self.offset(m, number)) < FARTHEST for m in self.members)

    def offset(self, member: PlacedAccess, number: int) -> int:
        """How far a member lies behind `sum + number`."""
        return wrapped(member.number + member.access.offset - number, member.width)


class _Given(Struct, frozen=True):
    """A base that has a register from instruction `at` on: that holds `sum + number`."""

    at: int
    width: int
    value: Value
    number: int


class BasePlan(Struct):
    """What is made, by region: the values, and the accesses with their new addresses. `price` are
    the instructions that it adds, `moved` the accesses that need their own addresses no more."""

    values: dict[Hashable, MaterializedValues] = field(default_factory=dict)
    moved: dict[Hashable, list[tuple[int, Value, int]]] = field(default_factory=dict)
    price: float = 0.0
    prices: dict[int, float] = field(default_factory=dict)  # of bases, by number
    total: float = 0.0  # instructions of the kernel, then

    @property
    def accesses(self) -> frozenset[int]:
        return frozenset(at for moved in self.moved.values() for at, _, _ in moved)

    @property
    def kept(self) -> frozenset[str]:
        """The registers of the text that are read by what is made, or instead of another one."""
        names = {v for moved in self.moved.values() for _, v, _ in moved if isinstance(v, str)}
        for values in self.values.values():
            names |= values.needed
            for made in values.made:
                names.update(v for v in made.values if isinstance(v, str))
        return frozenset(names)


class Planner:
    """Plans the addresses of some accesses, which come in the order of paths. `begun` makes the
    values that a region has in any case."""

    def __init__(
        self, sums: StraightSums, places: Iterable[PlacedAccess], cost: IterationCost,
        begun: Mapping[Hashable, Callable[[], MaterializedValues]],
    ) -> None:  # fmt: skip
        self._sums, self._cost, self._begun = sums, cost, begun
        self._bases = _bases(sums, places)
        self._roots: Mapping[Hashable, int] = {}
        self._apart: dict[tuple[int, int], Polynomial] = {}

    def best(self) -> BasePlan | None:
        """A plan; None where there are too many bases."""
        if len(self._bases) > MOST_BASES:
            return None
        plan = self._improved()
        self._roots = self._cheapest()
        other = self._improved() if self._roots else plan
        return other if other.total < plan.total else plan

    def _improved(self) -> BasePlan:
        """A plan where a base stays whose own arithmetic costs no more than making it anew."""
        plan = self._plan(frozenset())
        own, cost = set[int](), self._cost.growing(plan.accesses, plan.kept)
        for number in sorted(plan.prices, reverse=True):
            more = cost.with_addresses(m.access.index for m in self._bases[number].members)
            if more.cost <= plan.prices[number]:
                own.add(number)
                cost.add(more)
        return self._plan(frozenset(own)) if own else plan

    def _plan(self, own: frozenset[int]) -> BasePlan:
        """The plan in which some bases keep their own arithmetic, and others where they must."""
        plan = BasePlan()
        given: dict[Hashable, list[tuple[int, _Given]]] = {}
        for number, base in enumerate(self._bases):
            region = base.lead.region
            if region not in plan.values:
                plan.values[region] = self._begun.get(
                    region, partial(MaterializedValues, self._sums)
                )()
                near = given[region] = []
                if region in self._roots:
                    near.append(self._early(self._roots[region], base, plan.values[region]))
            values, near = plan.values[region], given[region]
            if self._roots.get(region) == number:
                one, made = near[0][1], None
            else:
                made = None if number in own else self._derived(number, values, near)
            if made is not None:
                price, one = made
                plan.prices[number] = price
                plan.price += price
                near.append((number, one))
            elif self._roots.get(region) != number:
                one = self._kept(base, values)
                near.append((number, one))
            moved = plan.moved.setdefault(region, [])
            for member in base.members:
                if made is not None or not self._is_there(base.lead, member):
                    moved.append((member.access.index, one.value, base.offset(member, one.number)))
        plan.total = self._cost.of(plan.accesses, kept=plan.kept) + plan.price
        return plan

    def _derived(
        self, number: int, values: MaterializedValues, near: Sequence[tuple[int, _Given]]
    ) -> tuple[float, _Given] | None:
        """A base made from the one from which that is cheapest."""
        base = self._bases[number]
        at, width = base.lead.access.index, base.lead.width
        best: tuple[float, int] | None = None
        for position in range(len(near) - 1, max(-1, len(near) - 1 - _NEAREST), -1):
            other, one = near[position]
            if one.width != width or not base.reaches(one.number):
                continue
            if not before(self._sums, one.at, at):
                continue
            distance = self._distance(other, number)
            if len(distance.items) > _MOST_PARTS:
                continue
            priced = values.sum(width, distance, at, None, dry=True)
            if priced is not None and (best is None or priced[0] < best[0]):
                best = priced[0], position
                if best[0] <= (WIDE if width == 64 else 1.0):
                    break  # a sum of what is there
        if best is None:
            return None
        other, one = near[best[1]]
        made = values.sum(width, self._distance(other, number), at, one.value)
        assert made is not None
        return best[0], _Given(at, width, made[1], one.number)

    def _distance(self, a: int, b: int) -> Polynomial:
        """What one base is ahead of another by."""
        if (a, b) not in self._apart:
            width = self._bases[a].lead.width
            distance = self._bases[b].sum - self._bases[a].sum
            self._apart[a, b] = wrapped_at(width, distance)
        return self._apart[a, b]

    def _early(self, number: int, first: _Base, values: MaterializedValues) -> tuple[int, _Given]:
        """A base whose arithmetic is made before that of the first one of its region."""
        lead, at = self._bases[number].lead, first.lead.access.index
        value = values.early(lead.access.register, lead.access.index, at)
        assert value is not None, "it was tried before"
        return number, _Given(at, lead.width, value, lead.number)

    def _cheapest(self) -> Mapping[Hashable, int]:
        """By region the base from which to make the others, where that is not the first one: the
        one whose own arithmetic takes least."""
        every = frozenset(m.access.index for base in self._bases for m in base.members)
        without = self._cost.growing(every, frozenset())
        best: dict[Hashable, tuple[float, int]] = {}
        firsts: dict[Hashable, int] = {}
        for number, base in enumerate(self._bases):
            lead = base.lead
            at = firsts.setdefault(lead.region, lead.access.index)
            needed = MaterializedValues(self._sums).early(
                lead.access.register, lead.access.index, at
            )
            if needed is None:
                continue
            price = without.with_register(lead.access.register).cost
            if lead.region not in best or price < best[lead.region][0]:
                best[lead.region] = price, number
        first = {self._bases[n].lead.region: n for n in reversed(range(len(self._bases)))}
        return {region: n for region, (_, n) in best.items() if first[region] != n}

    def _kept(self, base: _Base, values: MaterializedValues) -> _Given:
        """A base in the register of its first access, or in a copy where that is set again."""
        lead = base.lead
        value = values.lasting(lead.access.register, lead.access.index)
        return _Given(lead.access.index, lead.width, value, lead.number)

    def _is_there(self, lead: PlacedAccess, member: PlacedAccess) -> bool:
        """Has a member the address of the first access in its register anyway?"""
        if lead is member:
            return True
        one, other = lead.access, member.access
        versions = self._sums.versions
        return one.register == other.register and versions.at(
            one.register, one.index
        ) == versions.at(other.register, other.index)


def _bases(sums: StraightSums, places: Iterable[PlacedAccess]) -> list[_Base]:
    """Accesses that differ by numbers, together; those first whose first access comes first."""
    found: dict[Hashable, list[list[PlacedAccess]]] = {}
    every: list[list[PlacedAccess]] = []
    for place in places:
        key = place.region, place.width, place.base.varying
        groups = found.setdefault(key, [])
        for group in groups:
            lead = group[0]
            base = _Base(Polynomial(), (place,))
            if before(sums, lead.access.index, place.access.index) and base.reaches(lead.number):
                group.append(place)
                break
        else:
            groups.append(group := [place])
            every.append(group)
    return [_Base(Polynomial.of(group[0].base.varying), tuple(group)) for group in every]
