"""Straight-line strength reduction and reassociation (gpucc, 3.4): addresses from one another.

    mul.lo.s64 %rd5, %rd4, %rd2;      y·n
    add.s64 %rd6, %rd5, %rd1;
    shl.b64 %rd7, %rd6, 2;
    add.s64 %rd8, %rd9, %rd7;         in + 4·(y·n + x)
    ld.global.f32 %f1, [%rd8];
    add.s64 %rd10, %rd4, 1;
    mul.lo.s64 %rd11, %rd10, %rd2;    (y + 1)·n
    add.s64 %rd12, %rd11, %rd1;                                  shl.b64 %sw_base1, %rd2, 2;
    shl.b64 %rd13, %rd12, 2;                                     add.s64 %sw_base2, %rd8, %sw_base1;
    add.s64 %rd14, %rd9, %rd13;                           =>     …
    ld.global.f32 %f2, [%rd14];                                  ld.global.f32 %f2, [%sw_base2];

Sums and products modulo 2^64, or 2^32 in shared memory, can be regrouped without a test. An index
of 32 bits that is extended may wrap: then the guards of the kernel have to bound it, or one test
finds sizes and indices of a stretch to be small enough, and the stretch stands twice.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cached_property, partial, reduce

from msgspec import Struct

from ptxsw.analysis.straight_sums import StraightSums, wrapped_at
from ptxsw.analysis.trip_count import times_in_loops
from ptxsw.changes.change import Change, Refusal, Worth
from ptxsw.changes.plan import Proof
from ptxsw.codegen.lower_straight_line import ExtremeIndices, SharedBases, Summand, Value
from ptxsw.codegen.versioning import LoopPlace
from ptxsw.facts.integer_facts import Numbers
from ptxsw.ptx.bits import wrapped
from ptxsw.rewrites.base import Kernel
from ptxsw.rewrites.entry_guard import obstacle_to_loop_copy
from ptxsw.rewrites.iteration_cost import IterationCost
from ptxsw.rewrites.materialized_values import MaterializedValues
from ptxsw.rewrites.shared_bases import BasePlan, PlacedAccess, Planner
from ptxsw.terms import op
from ptxsw.terms.node import Term, split
from ptxsw.terms.polynomial import Monomial, Polynomial
from ptxsw.terms.substitution import substitute

_NAME = "strength-reduction"
_MOST_ACCESSES = 1024
_MOST_TIMES = 16  # how often a size is added to an index
_MOST_SIZES = 4  # by which the indices of one test differ
_SIGNED_ROOM = 1 << 28
"""What sizes may add to a sign-extended index altogether: it has half as many numbers."""
_BRANCH = 1.0
_LEAST = 2.0  # instructions that are saved: less is not told from what ptxas does otherwise
_GAIN = 0.1
"""Of a kernel's instructions, by which they fall at least where a stretch is to stand twice."""

NO_SHARED_BASE = "no shared base would make its addresses cheaper"
_TOO_MANY = "it has too many accesses"


class _Family(Struct, frozen=True, dict=True):
    """Extended indices that are `index` plus some sizes, from `least` times to `most` times each.
    The empty product stands for 1."""

    index: Term
    least: Mapping[Monomial, int]
    most: Mapping[Monomial, int]
    signed: bool

    @property
    def sizes(self) -> list[Monomial]:
        return [size for size in self.most if size]

    @property
    def numbers(self) -> tuple[int, int]:
        """What is added to the index at most, and taken from it, besides sizes."""
        return self.most.get((), 0), -self.least.get((), 0)

    @cached_property
    def largest(self) -> int:
        """What each size may be, so that neither the largest nor the least index wraps; 0 where
        there is no room for sizes."""
        times = max(
            sum(abs(end[size]) for size in self.sizes if size in end)
            for end in (self.most, self.least)
        )
        room = _SIGNED_ROOM if self.signed else (1 << 31) - max(self.numbers)
        return 1 << (room // times).bit_length() - 1 if 0 < times <= room else 0

    @cached_property
    def limit(self) -> int:
        """What the index may be."""
        above = sum(times for size, times in self.most.items() if size) * self.largest
        limit = (1 << 32 - self.signed) - 1 - self.numbers[0] - above
        # What the index is made of, without its number, is then no negative number either.
        number = wrapped(split(self.index)[0], 32)
        return min(limit, (1 << 31) - 1 + min(number, 0)) if self.sizes else limit

    @property
    def price(self) -> float:
        """Instructions of its part of the test."""
        below = sum(1 for size in self.sizes if self.least.get(size))
        return len(self.sizes) + 2.0 + max(below - 1, 0) + (below > 0)


class StraightLine:
    """Looks for addresses of one kernel to make from one another. `cost` is that of its code."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.cfg = kernel, kernel.trace.cfg
        self.sums = StraightSums(kernel.trace)
        self.cost = IterationCost(self.cfg, None)
        self._exact: dict[int, Polynomial] = {}

    def find(self) -> Iterator[Change | Refusal]:
        """The changes, and why stretches get none that a test would have given them."""
        accesses = self.sums.accesses
        if len(accesses) < 2:
            return
        if len(accesses) > _MOST_ACCESSES:
            yield Refusal(_NAME, accesses[0].index, _TOO_MANY)
            return
        tests: dict[int, _Tested] = {}
        plan = self._planned(tests)
        if plan is None:
            yield Refusal(_NAME, accesses[0].index, _TOO_MANY)
            return
        for number in self._blocks():
            tested = self._tested(number)
            if isinstance(tested, Refusal):
                yield tested
            elif tested is not None:
                other = self._planned({**tests, number: tested})
                if other is not None and other.total + tested.price < (1 - _GAIN) * plan.total:
                    tests[number] = tested
                    plan = other
        saved = self.cost.of() - plan.total - sum(t.price for t in tests.values())
        if saved >= _LEAST and not self.cost.is_hardly_less(saved, self.kernel.options.mode):
            yield from self._changes(plan, tests, saved)

    # ------------------------------------------------------------ plans

    def _planned(self, tests: Mapping[int, _Tested]) -> BasePlan | None:
        places = [self._place(number, tests) for number in range(len(self.sums.accesses))]
        begun = {test.region: partial(self._begun, test) for test in tests.values()}
        return Planner(self.sums, places, self.cost, begun).best()

    def _place(self, number: int, tests: Mapping[int, _Tested]) -> PlacedAccess:
        access = self.sums.accesses[number]
        block = self.cfg.block_of[access.index]
        test = tests.get(block)
        if test is not None and access.index in test.bases:
            return PlacedAccess(access, test.bases[access.index], test.region)
        return PlacedAccess(
            access, self._guarded(access.index, access.base), self.cfg.loop_of.get(block)
        )

    def _guarded(self, at: int, base: Term) -> Polynomial:
        """What a register holds, indices written out that the kernel's guards bound."""
        if at not in self._exact:
            exact = self.sums.polynomial(base)
            if any(_index(atom) is not None for atom in exact.atoms):
                conditions = self.sums.conditions(at)
                exact = self._written_out(self._numbers(conditions), base)
            self._exact[at] = exact
        return self._exact[at]

    def _numbers(self, given: tuple[Term, ...]) -> Numbers:
        if given not in self._known:
            ask = partial(self.kernel.solver.proves, given=given)
            self._known[given] = Numbers(self.sums.terms, given, ask)
        return self._known[given]

    @cached_property
    def _known(self) -> dict[tuple[Term, ...], Numbers]:
        return {}

    def _written_out(self, numbers: Numbers, base: Term) -> Polynomial:
        if numbers.tells_nothing:
            return self.sums.polynomial(base)
        return self.sums.polynomial(numbers.written_out(base))

    # ------------------------------------------------------------ tests

    def _blocks(self) -> Iterator[int]:
        """The blocks in which several accesses have an extended index."""
        seen: dict[int, int] = {}
        for access in self.sums.accesses:
            atoms = self._guarded(access.index, access.base).atoms
            if any(_index(atom) is not None for atom in atoms):
                number = self.cfg.block_of[access.index]
                seen[number] = seen.get(number, 0) + 1
        return (number for number, count in seen.items() if count > 1)

    def _tested(self, number: int) -> _Tested | Refusal | None:
        """The test of the extremes of indices in a block; None where no two would share a base by
        it."""
        inside = [a for a in self.sums.accesses if self.cfg.block_of[a.index] == number]
        families = list(self._families([(a.index, self._guarded(a.index, a.base)) for a in inside]))
        if not families:
            return None
        start, end = self._begin(inside[0].index, families), inside[-1].index
        obstacle = obstacle_to_loop_copy(self.kernel, LoopPlace(start, start, end, None))
        if obstacle is not None:
            return Refusal(_NAME, start, obstacle.replace("the loop", "the code"))
        claims = (claim for family in families for claim in self._claims(family))
        numbers = self._numbers((*self.sums.conditions(start), *claims))
        bases = {a.index: self._behind(numbers, families, a.base) for a in inside}
        return _Tested(("tested", number), (start, end), tuple(families), bases)

    def _begin(self, first: int, families: Sequence[_Family]) -> int:
        """Where a stretch begins: in front of the arithmetic for its first access, as far as what
        is tested is there. What only one of the two copies needs is then made in that one."""
        begin = self.cfg.blocks[self.cfg.block_of[first]].start
        ahead = (at for at in range(first, begin, -1) if not self.sums.computes(at - 1))
        begin = next(ahead, begin)
        return next((at for at in range(begin, first) if self._is_there(families, at)), first)

    def _is_there(self, families: Sequence[_Family], at: int) -> bool:
        """Are all indices and sizes that are tested in registers, or can they be?"""
        values = MaterializedValues(self.sums)
        return all(
            self._value(family.index, at) is not None
            and all(
                values.value(32, Polynomial.of([(size, 1)]), at, dry=True) is not None
                for size in family.sizes
            )
            for family in families
        )

    def _behind(self, numbers: Numbers, families: Sequence[_Family], base: Term) -> Polynomial:
        """What a register holds behind a test: there an index is not negative, and is extended
        alike either way."""
        terms, base = self.sums.terms, numbers.written_out(base)
        alike = {terms.sext(f.index, 64): terms.zext(f.index, 64) for f in families if f.signed}
        return self._written_out(numbers, substitute(terms, base, alike.get))

    def _families(self, bases: Sequence[tuple[int, Polynomial]]) -> Iterator[_Family]:
        """Indices that differ by few sizes."""
        indices: dict[Term, None] = {}
        for _, base in bases:
            indices |= dict.fromkeys(a for a in base.atoms if _index(a) is not None)
        start = bases[0][0]
        # From the lowest one on: what is only added to it needs no proof that it is not negative.
        left = sorted(indices, key=lambda index: self._order(index.args[0], start))
        while left:
            first, others = left[0].args[0], list[Term]()
            if self._value(first, start) is None:
                left = left[1:]
                continue
            least: dict[Monomial, int] = {}
            most: dict[Monomial, int] = {}
            members = []
            for extended in left:
                apart = self._apart(extended.args[0], first)
                sizes = {m for m, _ in apart if m} | {m for m in most if m}
                near = self._alike(apart, first) and self._are_sizes(apart, start)
                if len(sizes) > _MOST_SIZES or not near:
                    others.append(extended)
                    continue
                members.append(extended)
                for size, times in apart:
                    least[size] = min(least.get(size, 0), times)
                    most[size] = max(most.get(size, 0), times)
            family = _Family(first, least, most, any(m.kind is op.SEXT for m in members))
            if len(members) > 1 and bool(family.sizes) == bool(family.largest):
                yield family
            left = others

    def _order(self, index: Term, at: int) -> tuple[int, int]:
        """The number in an index, and which instruction of its block sets it; -1 where it is set
        before."""
        polynomial = self.sums.polynomial(index)
        holder = self.sums.holder(32, polynomial, at)
        version = at if holder is None else self.sums.versions.at(holder, at)
        here = version >= 0 and self.cfg.block_of[version] == self.cfg.block_of[at]
        return wrapped(polynomial.offset, 32), version if here else -1

    def _apart(self, index: Term, first: Term) -> Polynomial:
        return wrapped_at(32, self.sums.polynomial(index) - self.sums.polynomial(first))

    def _alike(self, apart: Polynomial, first: Term) -> bool:
        """Have two indices as much in common as they differ by?"""
        sizes = {monomial for monomial, _ in apart if monomial}
        kept = [m for m, _ in self.sums.polynomial(first) if m and m not in sizes]
        return len(kept) >= max(1, len(sizes))

    def _are_sizes(self, apart: Polynomial, start: int) -> bool:
        """Are there registers for what two indices differ by, or can there be?"""
        values = MaterializedValues(self.sums)
        return all(
            not size
            or (
                abs(times) <= _MOST_TIMES
                and values.value(32, Polynomial.of([(size, 1)]), start, dry=True) is not None
            )
            for size, times in apart
        )

    def _value(self, index: Term, at: int) -> Value | None:
        return MaterializedValues(self.sums).find(32, self.sums.polynomial(index), at)

    def _claims(self, family: _Family) -> Iterator[Term]:
        """What the test finds to hold."""
        terms, least = self.sums.terms, family.numbers[1]
        if not family.sizes:  # the index may be more than a signed number
            index = terms.zext(family.index, 64)
            yield terms.ule(index, terms.const(family.limit, 64))
            yield terms.ule(terms.const(least, 64), index)
            return
        low = terms.const(least, 32)
        for size in family.sizes:
            value = reduce(terms.mul, size)
            yield terms.ule(value, terms.const(family.largest, 32))
            low = terms.add(low, terms.scale(value, -family.least.get(size, 0)))
        yield terms.ule(family.index, terms.const(family.limit, 32))
        yield terms.ule(low, family.index)

    def _begun(self, test: _Tested) -> MaterializedValues:
        """The values of a stretch, those for its test first."""
        values = MaterializedValues(self.sums)
        for family in test.families:
            index = values.find(32, self.sums.polynomial(family.index), test.stretch[0])
            values.needed.add(str(index))
            for size in family.sizes:
                values.value(32, Polynomial.of([(size, 1)]), test.stretch[0])
        return values

    def _extremes(self, test: _Tested, values: MaterializedValues) -> Iterator[ExtremeIndices]:
        start = test.stretch[0]
        for family in test.families:
            index = values.find(32, self.sums.polynomial(family.index), start)
            sizes = [(s, values.find(32, Polynomial.of([(s, 1)]), start)) for s in family.sizes]
            assert index is not None
            below = [(-family.least[size], value) for size, value in sizes]
            every = tuple(value for _, value in sizes if value is not None)
            yield ExtremeIndices(
                index, every, family.largest, family.limit, _summands(below), family.numbers[1]
            )

    # ------------------------------------------------------------ changes

    def _changes(
        self, plan: BasePlan, tests: Mapping[int, _Tested], saved: float
    ) -> Iterator[Change]:
        regions = {test.region: test for test in tests.values()}
        moved = {region: every for region, every in plan.moved.items() if every}
        for region, every in moved.items():
            values, test = plan.values[region], regions.get(region)
            detail = SharedBases(tuple(every), tuple(values.made))
            told: tuple[str, ...] = ()
            if test is not None:
                begun = len(self._begun(test).made)
                extremes = tuple(self._extremes(test, values))
                detail = SharedBases(detail.moved, detail.made, test.stretch, extremes, begun)
                told = ("no index of the stretch wraps",)
            accesses = frozenset(at for at, _, _ in every)
            first = min(accesses)
            times = times_in_loops(len(self.cfg.loops_around(self.cfg.block_of[first])))
            worth = Worth(-saved * times / len(moved))
            yield Change(
                _NAME, first, accesses, Proof(tests=told), detail, worth=worth, shortens=True
            )


class _Tested(Struct, frozen=True):
    """The stretch of a block that stands twice, and what its registers hold behind the test."""

    region: Hashable
    stretch: tuple[int, int]
    families: tuple[_Family, ...]
    bases: Mapping[int, Polynomial]

    @property
    def price(self) -> float:
        """Instructions of the test."""
        return _BRANCH + sum(family.price for family in self.families)


def _index(atom: Term) -> Term | None:
    """The index of 32 bits that an atom is an extension of."""
    extended = atom.kind in op.EXTENSIONS and atom.width == 64 and atom.args[0].width == 32
    return atom.args[0] if extended else None


def _summands(parts: Sequence[tuple[int, Value | None]]) -> tuple[Summand, ...]:
    return tuple(Summand(times, value) for times, value in parts if times and value is not None)
