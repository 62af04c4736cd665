"""How far a loop goes, and tests that no index wraps until it ends.

    LOOP: ...                         left = n - i, which falls by s in an iteration
          add.s32 %i, %i, %s;
          setp.lt.u32 %p, %i, %n;     a test:  i < n <= 2^30, s <= 2^30
          @%p bra LOOP;               then `index + left · growth` is the same in each iteration

Where that sum is small as the loop begins, and the counter does not step over its end, no index
that grows by `growth · s` in an iteration ever exceeds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from ptxsw.analysis.loop_sums import LoopSums
from ptxsw.codegen.loop_guard import (
    AddressPart,
    AddressSum,
    Bounded,
    Compared,
    Condition,
    Extended,
    Multiple,
    NotNegative,
)
from ptxsw.facts.iteration_bounds import until_0, while_ordered
from ptxsw.ptx.bits import wrapped
from ptxsw.terms import op
from ptxsw.terms.node import Term, factors, split

LIMIT = 1 << 30
"""An index is at most this in any iteration, and what is added to it less than a half of it: so all
sums are below 2^31, read as signed numbers or not."""
MORE = LIMIT // 2
"""What is added to a carried index lies from -MORE up to MORE - 1."""

_UNKNOWN = "the trip count of the loop is not known"


class UncountedLoop(Exception):
    """Why a loop is left alone."""


class Index(Struct, frozen=True):
    """An index of 32 bits that is extended: a register that the loop carries, others that stay
    (a sum without a number), and a number."""

    carried: Term
    stays: Term
    constant: int
    signed: bool


class Growth(Struct, frozen=True):
    """What an index grows by in an iteration: `times · of`, or `times` where `of` is a number."""

    times: int
    of: AddressSum


class LoopCounter(Struct, frozen=True):
    """How far a loop has to go: `left`, not negative, falls by `step` in an iteration, which is a
    number or a sum that stays. In the last iteration it is at least `last`. `conditions` keep that
    true from iteration to iteration."""

    left: Term
    step: Term
    last: int
    conditions: tuple[Condition, ...]


class Counting:
    """The counter of one loop, and the indices that grow along with it."""

    def __init__(self, sums: LoopSums) -> None:
        self._sums, self._terms = sums, sums.terms

    def register(self, atom: Term) -> str:
        """The name of the register that an atom is as an iteration begins."""
        return self._sums.registers[atom].name

    def sum(self, term: Term) -> AddressSum:
        """A sum of registers as an iteration begins, ready to be written."""
        constant, items = split(term)
        width = term.width
        return AddressSum(
            tuple((self.register(atom), wrapped(f, width)) for atom, f in items),
            wrapped(constant, width),
        )

    def parts(self, address: Term) -> list[AddressPart]:
        """An address as summands, ready to be written."""
        constant, items = split(address)
        parts = [
            AddressPart(wrapped(factor, 64), tuple(map(self.value, factors(part))))
            for part, factor in items
        ]
        return [*parts, *([AddressPart(wrapped(constant, 64), ())] if constant else [])]

    def value(self, one: Term) -> str | Extended:
        """A register of 64 bits or an extended sum, ready to be written."""
        if one.kind in op.EXTENSIONS:
            return Extended(self.sum(one.args[0]), "s" if one.kind is op.SEXT else "u")
        return self.register(one)

    # ------------------------------------------------------------ how far a loop goes

    def counter(self) -> LoopCounter:
        """What falls from iteration to iteration until the loop ends. Raises UncountedLoop."""
        if self._sums.again is None:
            raise UncountedLoop(_UNKNOWN)
        return self._read(self._sums.again)

    def _read(self, again: Term) -> LoopCounter:
        difference = until_0(again, self._terms)
        if difference is not None and difference.width == 32:
            return self._until_equal(difference)
        one = while_ordered(again, self._terms)
        if one is None or one.a.width != 32:
            raise UncountedLoop(_UNKNOWN)
        return self._while_less(one.a, one.b, one.strict, one.signed)

    def _until_equal(self, difference: Term) -> LoopCounter:
        """The counter of a loop that ends when a difference, which changes by equal steps, is 0."""
        step = signed_number(self._sums.step(difference))
        # Only then does "a multiple of the step" mean the same modulo 2^32, and one `and` tests it.
        if not step or abs(step) & (abs(step) - 1):
            raise UncountedLoop("the step of the loop counter is not a power of two")
        terms = self._terms
        # The loop compares at the end of an iteration; one step less is the value at its beginning.
        now = terms.sub(difference, terms.const(step, 32))
        left = terms.neg(now) if step > 0 else now
        size = abs(step)
        conditions: list[Condition] = [Compared("ne.s32", self._plain(left), AddressSum(()))]
        if size > 1:
            conditions.append(Multiple(self._plain(left), size))
        return LoopCounter(left, terms.const(size, 32), size, tuple(conditions))

    def _while_less(self, a: Term, b: Term, strict: bool, signed: bool) -> LoopCounter:
        """The counter of a loop that goes on while `a < b`, where one of the two changes by equal
        steps."""
        terms, letter = self._terms, "s" if signed else "u"
        kind = f"{'lt' if strict else 'le'}.{letter}32"
        grows, falls = self._sums.step(a), self._sums.step(b)
        if grows is None or falls is None:
            raise UncountedLoop(_UNKNOWN)
        # `a` and `b` are compared at the end of an iteration; `now` is the value of the changing
        # one at its beginning. The tests make sure that it starts on the right side of its end and
        # that one more step fits the type, so that it cannot wrap past its end.
        if signed_number(falls) == 0:
            now, step = terms.sub(a, grows), grows
            left = terms.sub(b, now)
            tests: list[Condition] = [Compared(kind, self._plain(now), self._plain(b))]
            tests += self._at_most(b, signed)
        elif signed_number(grows) == 0 and (signed_number(falls) or 0) < 0:
            step = terms.neg(falls)
            now = terms.sub(b, falls)
            left = terms.sub(now, a)
            tests = [Compared(kind, self._plain(a), self._plain(now))]
            least = -LIMIT if signed else signed_number(step) or 0
            tests.append(Compared(f"ge.{letter}32", self._plain(a), AddressSum((), least)))
        else:
            raise UncountedLoop(_UNKNOWN)
        size = signed_number(step)
        if size is not None and not 0 < size < LIMIT:
            raise UncountedLoop("the loop counter moves away from its bound")
        if size is None:
            tests.append(Compared("le.u32", self._plain(step), AddressSum((), LIMIT)))
        return LoopCounter(left, step, int(strict), tuple(tests))

    def _at_most(self, end: Term, signed: bool) -> list[Condition]:
        value = signed_number(end)
        if value is not None and 0 <= value <= LIMIT:
            return []
        return [Compared("le.s32" if signed else "le.u32", self._plain(end), AddressSum((), LIMIT))]

    def _plain(self, term: Term) -> AddressSum:
        """A sum of registers as they are when an iteration begins. Raises UncountedLoop."""
        if not all(atom in self._sums.registers for atom, _ in split(term)[1]):
            raise UncountedLoop("the loop counter is not a sum of registers")
        return self.sum(term)

    # ------------------------------------------------------------ indices

    def conditions(self, indices: Iterable[Index], counter: LoopCounter) -> tuple[Condition, ...]:
        """What keeps the counter true, and all of these indices small. Raises UncountedLoop."""
        every = list(dict.fromkeys(indices))
        conditions = list(counter.conditions)
        for carried in dict.fromkeys(index.carried for index in every):
            conditions += self._bounded(carried, counter)
        conditions += self._ranges(every)
        return tuple(dict.fromkeys(conditions))

    def growth(self, carried: Term, counter: LoopCounter) -> Growth:
        """What a carried index grows by in an iteration. Raises UncountedLoop."""
        by = self._growth(self._sums.step(carried), counter.step)
        size = signed_number(counter.step)
        if size is not None:
            step = signed_number(self._sums.step(carried))
            return Growth(size, by) if step is None else Growth(step, AddressSum((), 1))
        return Growth(by.constant, self.sum(counter.step))

    def _bounded(self, carried: Term, counter: LoopCounter) -> list[Condition]:
        """Conditions that a carried index stays small in every iteration. `index + left · growth`
        never rises: what `left` falls by makes up for what the index grows by. So it is enough to
        test the sum once, before the loop."""
        growth = self._growth(self._sums.step(carried), counter.step)
        register = self.register(carried)
        index = AddressSum(((register, 1),))
        return [
            Compared("le.u32", index, AddressSum((), LIMIT)),
            Bounded(register, self._plain(counter.left), growth, LIMIT),
        ]

    def _growth(self, step: Term | None, by: Term) -> AddressSum:
        """What an index grows by, at most, while the counter falls by 1. Raises UncountedLoop."""
        if step is None:
            raise UncountedLoop("an index does not grow by the same amount in every iteration")
        number, size = signed_number(step), signed_number(by)
        if number is not None and size is not None:
            if number < 0:
                raise UncountedLoop("an index decreases from one iteration to the next")
            return AddressSum((), -(-number // size))  # rounded up: a bound from above
        if size is not None:
            constant, items = split(step)
            factors = [wrapped(f, 32) for _, f in items]
            if any(f % size for f in (*factors, wrapped(constant, 32))):
                raise UncountedLoop(
                    "the step of an index is not a multiple of the step of the counter"
                )
            shared = self._terms.sum(32, wrapped(constant, 32) // size, [
                (t, f // size) for (t, _), f in zip(items, factors, strict=True)
            ])  # fmt: skip
            return self.sum(shared)
        # Both steps are sums now, such as an index that moves by 2·n while the counter moves by n.
        for times in range(1, 9):
            if self._terms.scale(by, times) is step:
                return AddressSum((), times)
        raise UncountedLoop("an index does not grow in step with the loop counter")

    def _ranges(self, indices: Iterable[Index]) -> Iterator[Condition]:
        """Conditions on what is added to the carried registers."""
        lowest: dict[tuple[Term, Term], int] = {}
        for index in indices:
            if split(index.stays)[1]:
                # -MORE <= stays < MORE in one unsigned comparison of stays + MORE.
                yield Compared(
                    "lt.u32",
                    self.sum(self._terms.add(index.stays, self._terms.const(MORE, 32))),
                    AddressSum((), 2 * MORE),
                )
            # A negative sum that is zero-extended is a huge address. Of several constants beside
            # one register the lowest decides.
            if not index.signed and (split(index.stays)[1] or index.constant < 0):
                key = (index.carried, index.stays)
                lowest[key] = min(lowest.get(key, 0), index.constant)
        for (carried, stays), constant in lowest.items():
            yield NotNegative(self.register(carried), self.sum(stays), constant)


def signed_number(term: Term | None) -> int | None:
    """The number that a term is, read as signed; None where it is none."""
    return wrapped(term.value, term.width) if term is not None and term.kind is op.CONST else None
