"""Whether some conditions decide another one, without a solver.

A condition is true if it is among those that are known, or if the parts of a conjunction or
disjunction make it so. Comparisons of a sum with a number are ranges: from `i < 30` follows
`i - 1 < 30` where `i` is at least 1. A range goes on behind the largest number with 0, so signed
and unsigned comparisons, and sums that wrap, need no rules of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from msgspec import Struct

from ptxsw.ptx.bits import wrapped
from ptxsw.terms import op
from ptxsw.terms.node import Term, bottom_up, ones, split
from ptxsw.terms.op import Op
from ptxsw.terms.terms import Terms

_MAX_DEPTH = 64

_Base = tuple[int, tuple[tuple[Term, int], ...]]
"""A sum without its constant: width in bits, and each term with its coefficient."""

_Ground: TypeAlias = Term | _Base | frozenset[Term]
"""What may decide a condition: another one, the range of a sum, or a choice among conditions."""


class WrappedRange(Struct, frozen=True):
    """`count` numbers from `low` on, modulo 2^`width` (LLVM: ConstantRange)."""

    low: int
    count: int
    width: int

    def within(self, other: WrappedRange) -> bool:
        """Are all numbers of this range in the other?"""
        return (self.low - other.low) % (1 << self.width) + self.count <= other.count or (
            other.count == 1 << self.width
        )

    def both(self, other: WrappedRange) -> WrappedRange:
        """The numbers that are in both ranges; where that is no single range, the smaller one."""
        # Counted from this range's lowest number, the other one lies from `begin` to `end`. If it
        # does not pass `size`, the overlap is one piece; else the other range goes on at 0, and
        # may meet this one at both ends.
        size = 1 << self.width
        begin = (other.low - self.low) % size
        end = begin + other.count
        if end <= size:
            count = max(0, min(self.count, end) - begin)
            return WrappedRange((self.low + begin) % size, count, self.width)
        if begin < self.count:
            return min(self, other, key=lambda r: r.count)
        return WrappedRange(self.low, min(self.count, end - size), self.width)

    def mirrored(self) -> WrappedRange:
        """The numbers with the opposite sign: -x for each x, from -(low + count - 1) on."""
        return WrappedRange((1 - self.low - self.count) % (1 << self.width), self.count, self.width)

    def moved(self, by: int) -> WrappedRange:
        return WrappedRange((self.low + by) % (1 << self.width), self.count, self.width)

    def others(self) -> WrappedRange:
        """The numbers that are not in the range."""
        size = 1 << self.width
        return WrappedRange((self.low + self.count) % size, size - self.count, self.width)


class _Notes:
    """Results about single conditions, which do not depend on what else is known."""

    def __init__(self) -> None:
        self.compared: dict[Term, tuple[_Base, WrappedRange] | None] = {}
        self.grounds: dict[Term, frozenset[_Ground]] = {}
        self.choices: dict[Term, frozenset[Term]] = {}
        self.bits: dict[_Base, tuple[tuple[_Base, int, int], ...]] = {}
        self.possible: dict[_Base, WrappedRange] = {}


class ConditionFacts:
    """The facts that follow from `given`, on top of those of `before`. `impossible`: the conditions
    cannot all hold."""

    impossible: bool
    _notes: _Notes
    _open: list[tuple[Sequence[Term], frozenset[_Ground]]]

    def __init__(
        self, terms: Terms, given: Iterable[Term], before: ConditionFacts | None = None
    ) -> None:
        self._terms = terms
        self._notes = _Notes() if before is None else before._notes
        self._memo: dict[Term, bool | None] = {}
        self._true: set[Term] = set(before._true if before else ())
        self._false: set[Term] = set(before._false if before else ())  # the contrary of each
        # Of each, one condition at least is true.
        self._choices: set[frozenset[Term]] = set(before._choices if before else ())
        self._ranges: dict[_Base, WrappedRange] = dict(before._ranges if before else ())
        self._news: set[_Ground] = set()
        self.impossible = before is not None and before.impossible
        choices = list(self._learn(given))
        undecided = before._open if before else []
        # A new fact may decide a side of an older disjunction, and so lead to further facts. A
        # disjunction is looked at again only if one of its grounds is among the news.
        while choices or self._news:
            self._memo.clear()
            news, self._news = self._news, set()
            asked = [*(sides for sides, on in undecided if not on.isdisjoint(news)), *choices]
            undecided = [choice for choice in undecided if choice[1].isdisjoint(news)]
            certain: list[Term] = []
            for sides in asked:
                left = [side for side in sides if self.truth(side) is not False]
                self.impossible = self.impossible or not left
                if len(left) > 1:
                    undecided.append((sides, frozenset().union(*map(self._grounds, sides))))
                else:
                    certain += left
            choices = list(self._learn(certain))
        self._open = undecided  # choices of which no side is sure yet, and what they depend on

    def _grounds(self, term: Term) -> frozenset[_Ground]:
        """What decides whether a condition is true: itself, its parts, the ranges they speak of."""
        grounds = self._notes.grounds
        for node in bottom_up(grounds, _sides, term):
            own: set[_Ground] = {node}
            compared = self._compared(node)
            if compared is not None:
                own.add(compared[0])
                own.update(base for base, _, _ in self._bits_of(compared[0]))
            if node.kind in (op.AND, op.OR):
                own.add(self._asked_choice(node))
            grounds[node] = frozenset(own).union(*(grounds[side] for side in _sides(node)))
        return grounds[term]

    def _compared(self, term: Term) -> tuple[_Base, WrappedRange] | None:
        notes = self._notes.compared
        if term not in notes:
            notes[term] = _compared(self._terms, term)
        return notes[term]

    def _bits_of(self, base: _Base) -> tuple[tuple[_Base, int, int], ...]:
        bits = self._notes.bits.get(base)
        if bits is None:
            bits = self._notes.bits[base] = tuple(_bits_of(base))
        return bits

    def truth(self, condition: Term) -> bool | None:
        """Is a condition true or false where the others hold? None where that is not seen."""
        return self._truth(condition, 0)

    def span(self, extended: Term) -> tuple[int, int] | None:
        """The least and the greatest value of an extension; None if its range wraps, so that both
        the smallest and the largest number of the type are possible."""
        (value,) = extended.args
        constant, items = split(value)
        width = value.width
        # Ranges are kept for sums whose first coefficient is positive, the form that `_compared`
        # gives them, so that `n - i` and `i - n` share one range.
        negative = bool(items) and items[0][1] >> (width - 1) == 1
        if negative:
            items = tuple((part, (1 << width) - factor) for part, factor in items)
        here = self._range((width, items))
        here = (here.mirrored() if negative else here).moved(constant)
        end = 1 << width
        least = here.low
        if extended.kind is op.SEXT:
            least, end = wrapped(least, width), end // 2
        most = least + here.count - 1
        return (least, most) if least <= most < end else None

    # ------------------------------------------------------------ learning

    def _learn(self, conditions: Iterable[Term]) -> Iterator[Sequence[Term]]:
        """Take conditions as true. Yields the sides of each disjunction: one of them must hold."""
        work = list(conditions)
        while work:
            term = work.pop()
            if term.kind is op.CONST:
                self.impossible = self.impossible or not term.value
                continue
            if term in self._true:
                continue
            self.impossible = self.impossible or term in self._false
            contrary = self._terms.not_(term)
            self._true.add(term)
            self._false.add(contrary)
            self._news.update((term, contrary))
            inner = contrary if term.kind is op.NOT else term
            if inner.kind in (op.AND, op.OR):
                negated = term.kind is op.NOT
                sides = [self._terms.not_(a) for a in inner.args] if negated else inner.args
                if (inner.kind is op.AND) is not negated:
                    work.extend(sides)
                    continue
                self._choices.add(frozenset(sides))
                self._news.add(frozenset(sides))
                yield sides
            else:
                work.extend(_parts_of_zero(self._terms, term))
                self._narrow(term)

    def _narrow(self, term: Term) -> None:
        """Keep the range that a comparison gives for a sum."""
        compared = self._compared(term)
        if compared is None:
            return
        base, allowed = compared
        left = self._range(base).both(allowed)
        self._news.add(base)
        self._ranges[base] = left
        self.impossible = self.impossible or not left.count

    def _range(self, base: _Base) -> WrappedRange:
        learned = self._ranges.get(base) or self._notes.possible.get(base)
        if learned is None:
            learned = self._notes.possible[base] = _possible(base)
        return learned

    # ------------------------------------------------------------ telling

    def _truth(self, term: Term, depth: int) -> bool | None:
        if term.kind is op.CONST:
            return bool(term.value)
        if term in self._true:
            return True
        if term.kind is op.NOT:
            inner = self._truth(term.args[0], depth)
            return None if inner is None else not inner
        if term in self._false:
            return False
        if term.kind not in _FOLLOWED or depth > _MAX_DEPTH:
            return None
        if term not in self._memo:
            self._memo[term] = self._made_of(term, depth)
        return self._memo[term]

    def _made_of(self, term: Term, depth: int) -> bool | None:
        if term.kind in (op.AND, op.OR):
            deciding, open_ = term.kind is op.OR, False
            for side in term.args:
                truth = self._truth(side, depth + 1)
                if truth is deciding:
                    return deciding
                open_ = open_ or truth is None
            if self._chosen(term):
                return deciding
            return None if open_ else not deciding
        return self._ranged(term)

    def _chosen(self, term: Term) -> bool:
        """Is a disjunction known to be true, or a conjunction known to be false?"""
        return self._asked_choice(term) in self._choices

    def _asked_choice(self, term: Term) -> frozenset[Term]:
        """Of which conditions one at least is true where a disjunction is, or a conjunction is
        not."""
        choice = self._notes.choices.get(term)
        if choice is None:
            sides = term.args if term.kind is op.OR else map(self._terms.not_, term.args)
            choice = self._notes.choices[term] = frozenset(sides)
        return choice

    def _ranged(self, term: Term) -> bool | None:
        """Whether a comparison is true or false by the known range of its sum."""
        compared = self._compared(term)
        if compared is None:
            return None
        base, asked = compared
        here = self._bits(base) or self._range(base)
        if here.within(asked):
            return True
        return False if here.within(asked.others()) else None

    def _bits(self, base: _Base) -> WrappedRange | None:
        """Some bits of a number that is known: sizes of a block often are."""
        for whole, constant, low in self._bits_of(base):
            whole_range, width = self._range(whole), base[0]
            if whole_range.count == 1:
                value = (whole_range.low + constant) % (1 << whole_range.width)
                return WrappedRange((value >> low) % (1 << width), 1, width)
        return None


_FOLLOWED = op.COMPARISONS | {op.AND, op.OR}


def _sides(term: Term) -> tuple[Term, ...]:
    """The conditions that a condition is made of."""
    return term.args if term.kind in (op.AND, op.OR, op.NOT) and term.width == 1 else ()


def _bits_of(base: _Base) -> Iterator[tuple[_Base, int, int]]:
    """Of what sum something is a few bits, what has to be added to it, and the lowest bit."""
    _, items = base
    if len(items) == 1 and items[0][1] == 1 and items[0][0].kind is op.EXTRACT:
        bits = items[0][0]
        constant, parts = split(bits.args[0])
        if parts:
            yield (bits.args[0].width, parts), constant, int(bits.value)


def _parts_of_zero(terms: Terms, term: Term) -> Iterator[Term]:
    """Where a bitwise `or` is zero, both sides are: so tests of several pointers are joined."""
    if term.kind is op.EQ:
        for value, other in (term.args, reversed(term.args)):
            if value.kind is op.CONST and not value.value and other.kind is op.OR:
                yield from (terms.eq(side, value) for side in other.args)


def _compared(terms: Terms, term: Term) -> tuple[_Base, WrappedRange] | None:
    """A comparison with a number as a sum without its constant, and where that lies."""
    negated = term.kind is op.NOT
    inner = term.args[0] if negated else term
    if inner.kind not in op.COMPARISONS:
        return None
    left, right = inner.args
    if (left.kind is op.CONST) == (right.kind is op.CONST):
        return None
    value = right if left.kind is op.CONST else left
    allowed = _allowed(inner.kind, left, right)
    constant, items = split(value)
    if not items:
        return None
    allowed = (allowed.others() if negated else allowed).moved(-constant)
    if items[0][1] >> (value.width - 1):
        size = 1 << value.width
        items = tuple((part, size - factor) for part, factor in items)
        allowed = allowed.mirrored()
    return (value.width, items), allowed


def _allowed(kind: Op, left: Term, right: Term) -> WrappedRange:
    """Which numbers the side that is no number may be."""
    width, half = left.width, 1 << left.width - 1
    size = 2 * half
    if kind is op.EQ:
        return WrappedRange((left if left.kind is op.CONST else right).value, 1, width)
    least = half if kind in op.SIGNED else 0
    strict = kind in op.STRICT
    if right.kind is op.CONST:
        return WrappedRange(least, (right.value - least) % size + (not strict), width)
    # From the number up to the largest one, behind which `least` comes again.
    begin = left.value + strict
    count = (least - left.value) % size or size
    return WrappedRange(begin % size, count - strict, width)


def _possible(base: _Base) -> WrappedRange:
    """The range of a sum of which nothing is known but the bits that its terms may have."""
    width, items = base
    most, size = 0, 1 << width
    for part, factor in items:
        most += factor * ones(part)
    return WrappedRange(0, min(most + 1, size), width)
