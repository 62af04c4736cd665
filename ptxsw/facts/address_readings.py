"""Addresses of one thread as polynomials over whole numbers, with the bounds of what is in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct, field

from ptxsw.facts.conditions import comparisons
from ptxsw.facts.grid import Grid, Unbounded, loop_counted
from ptxsw.facts.iteration_bounds import line_in_loop
from ptxsw.facts.ranges import MAY_WRAP, PathBounds, Side
from ptxsw.ptx.bits import wrapped
from ptxsw.terms import op
from ptxsw.terms.node import Term, Variance, factors, ones, positive, split
from ptxsw.terms.origin import Origin
from ptxsw.terms.polynomial import Polynomial
from ptxsw.terms.substitution import rebuild, substitute

Needs = tuple[Polynomial, ...]
"""Polynomials that have to be at most 0."""

WRAPS = "a 32-bit index wraps"
"""The atom of a need that stands for all of which nothing more is known."""

_MOST_PARTS = 32
_LARGEST = 400  # nodes of a condition that is read


_SIGN = 31
_DIVISIONS = frozenset({op.UDIV, op.UREM, op.EXTRACT})


def _is_count(index: Term) -> bool:
    """Is it the count of a loop's iterations, in fewer bits?"""
    return index.kind is op.EXTRACT and index.value == 0 and bool(loop_counted(index.args[0]))


def _divisor(term: Term) -> int | None:
    """The number by which a quotient or remainder divides, rounding down."""
    if term.kind is op.EXTRACT:
        high = term.value + term.width == term.args[0].width
        return 1 << term.value if high and term.value else None
    by = term.args[1]
    return int(by.value) if by.kind is op.CONST and by.value else None


class Fact(Struct, frozen=True):
    """A polynomial that is at most 0 wherever the needs are."""

    excess: Polynomial
    needs: Needs


class Reading(PathBounds):
    """Bounds where some conditions hold. What has none is one unknown number."""

    def __init__(self, grid: Grid, told: Iterable[Term], given: Iterable[Term] = ()) -> None:
        super().__init__(grid, told, given)
        self._found: dict[Term, tuple[tuple[Side, Side], Needs]] = {}
        self._sums: dict[Term, Term] = {}

    def _reading(self, term: Term) -> Polynomial:
        if term.kind is op.OR or term.kind in op.EXTENSIONS:
            term = substitute(self.terms, term, self._added, self._sums)
        before = dict(self.needs)
        try:
            if term.kind in _DIVISIONS:
                return self._divided(self._without_signs(term))
            return super()._reading(term)
        except Unbounded:
            self.needs = before
            return self._by_parts(term) if term.kind in op.EXTENSIONS else Polynomial.atom(term)

    def _by_parts(self, extended: Term) -> Polynomial:
        """An index of which no bounds are known, as it is if its sums do not wrap."""
        constant, items = split(extended.args[0])
        if len(items) == 1 and not constant and items[0][0].kind is not op.MUL:
            return Polynomial.atom(extended)
        total = Polynomial.constant(wrapped(constant, extended.args[0].width))
        for part, factor in items:
            product = Polynomial.constant(wrapped(factor, part.width))
            for one in factors(part):
                product *= self._part(one, extended)
            total += product
        if len(total.items) > _MOST_PARTS:
            return Polynomial.atom(extended)
        self.needs[Polynomial.atom(self.terms.atom(WRAPS, 64, Variance.UNIFORM))] = None
        return total

    def _part(self, part: Term, extended: Term) -> Polynomial:
        """A part of an index as a number, with the sign that the index has."""
        if positive(part) or self.grid.is_parameter(part) or _is_count(part):
            return self.read(part)
        extend = self.terms.sext if extended.kind is op.SEXT else self.terms.zext
        return Polynomial.atom(extend(part, extended.width))

    def _without_signs(self, term: Term) -> Term:
        """A quotient of what is surely no negative number: `(x + (x >> 31 & 31)) >> 5`."""

        def leaf(node: Term) -> Term | None:
            if node.kind is not op.EXTRACT or node.width > 1 or node.value != _SIGN:
                return None
            if node.args[0].width != _SIGN + 1:
                return None
            self.number(node.args[0], signed=True)
            return self.terms.const(0, 1) if self._is_no_negative(node.args[0]) else None

        return substitute(self.terms, term, leaf)

    def _is_no_negative(self, term: Term) -> bool:
        low, _ = self.extremes(self.read(term))
        return self.grid.span(low)[0] >= 0

    def _divided(self, term: Term) -> Polynomial:
        """A quotient or remainder of a sum, without the multiples of the divisor in it."""
        whole = term.args[0] if term.args else term
        by = _divisor(term)
        if by is None or whole.kind is not op.SUM:
            return super()._reading(term)
        self.number(whole, signed=False)
        constant, items = split(whole)
        constant = wrapped(constant, whole.width)
        multiples = [(p, f) for p, f in items if wrapped(f, whole.width) % by == 0]
        rest = [(p, f) for p, f in items if wrapped(f, whole.width) % by]
        remainder = self.terms.sum(whole.width, constant % by, rest)
        if not multiples and constant % by == constant:
            return super()._reading(term)
        self.number(remainder, signed=False)
        if term.kind is op.UREM:
            return self.read(rebuild(self.terms, term, (remainder, term.args[1])))
        parts = [(self.read(p), wrapped(f, whole.width) // by) for p, f in multiples]
        inner = rebuild(self.terms, term, (remainder, *term.args[1:]))
        return Polynomial.sum([*parts, (self.read(inner), 1)]) + constant // by

    def _added(self, term: Term) -> Term | None:
        """`64·x + y | 32` as a sum, where the bits cannot be set on both sides."""
        if term.kind is not op.OR or not any(arg.kind is op.CONST for arg in term.args):
            return None
        value, number = sorted(term.args, key=lambda arg: arg.kind is op.CONST)
        low = int(number.value).bit_length()
        constant, items = split(value)
        below = [(part, f) for part, f in items if f & ((1 << low) - 1)]
        small = self.terms.sum(value.width, constant & ((1 << low) - 1), below)
        if ones(small) & int(number.value) or ones(small) >> low:
            return None
        return self.terms.add(value, number)

    def _need(self, excess: Polynomial) -> None:
        # Nobody tests these as a kernel runs: they may be of any size.
        low, high = self.grid.span(excess)
        if low > 0:
            raise Unbounded(MAY_WRAP)
        if high > 0:
            self.needs[excess * excess.denominator] = None

    def sides(self, atom: Term) -> tuple[Side, Side]:
        # Whoever asks is told what the bounds need, and not the first one only.
        sides, needs = self._sides(atom)
        self.needs.update(dict.fromkeys(needs))
        return sides

    def _sides(self, atom: Term) -> tuple[tuple[Side, Side], Needs]:
        if atom not in self._found:
            before, self.needs = self.needs, {}
            low, high = super().sides(atom)
            if isinstance(high, Polynomial):
                high = self._narrowed(atom, high)
            self._found[atom] = (low, high), tuple(self.needs)
            self.needs = before
        return self._found[atom]

    def least(self, atom: Term) -> tuple[Polynomial, Needs] | None:
        """The lowest value of an atom, over what all threads share, and what that needs; None where
        there is none."""
        (low, _), needs = self._sides(atom)
        return (low, needs) if isinstance(low, Polynomial) else None

    def most(self, atom: Term) -> tuple[Polynomial, Needs] | None:
        """The same of the highest value."""
        (_, high), needs = self._sides(atom)
        return (high, needs) if isinstance(high, Polynomial) else None

    def _narrowed(self, atom: Term, high: Polynomial) -> Polynomial:
        """The highest value of a quotient or remainder by a number, as far as what is divided has
        one."""
        by = _divisor(atom) if atom.kind in _DIVISIONS else None
        if by is None or high.number is None:
            return high
        before = dict(self.needs)
        most: int | None = None
        try:
            _, whole = self.extremes(self.number(atom.args[0], signed=False))
            most = whole.number
        except Unbounded:
            pass
        if most is not None and atom.kind is not op.UREM:
            most //= by
        if most is not None and most < high.number:
            return Polynomial.constant(most)
        self.needs = before
        return high

    def lines(self, value: Polynomial) -> Iterator[Fact]:
        """That what grows in a loop, `start + step · count`, is below the end of the loop."""
        for atom in value.atoms:
            count, entries = self.grid.loops.get(loop_counted(atom), (None, ()))
            if count is not atom:
                continue
            before, self.needs = self.needs, {}
            try:
                line = line_in_loop(self, count, entries)
                if line is not None:
                    total = line.start + line.step * Polynomial.atom(atom)
                    yield Fact(total - line.high, tuple(self.needs))
                    yield Fact(in_blocks(self.grid, total) - line.high, tuple(self.needs))
            except Unbounded:
                pass
            finally:
                self.needs = before

    def facts(self) -> Iterator[Fact]:
        """What the conditions say of the order of numbers."""
        small = (c for c in self.given if c.size <= _LARGEST)
        for one in comparisons(small, self.terms):
            before, self.needs = self.needs, {}
            try:
                a, b = (self.number(side, signed=one.signed) for side in (one.a, one.b))
                yield Fact(a - b + int(one.strict), tuple(self.needs))
            except Unbounded:
                pass
            finally:
                self.needs = before


def in_blocks(grid: Grid, value: Polynomial) -> Polynomial:
    """The index of a thread in the grid as that of its block and its own."""
    for atom in value.atoms:
        if atom.origin is Origin.GRID_INDEX:
            axis, terms = str(atom.value)[-1], grid.terms
            block, thread = (terms.special(f"%{name}.{axis}") for name in ("ctaid", "tid"))
            start = Polynomial.atom(block) * grid.size(f"%ntid.{axis}")
            parted = value.parted(atom)
            if parted is not None:
                value = parted[0] * (start + Polynomial.atom(thread)) + parted[1]
    return value


class Spot(Struct):
    """Bytes that a thread touches, from `offset` on an object. `needs` is what the polynomial
    stands on."""

    offset: Polynomial
    needs: Needs
    size: int
    reading: Reading
    _facts: tuple[Fact, ...] | None = field(default=None)

    @property
    def facts(self) -> tuple[Fact, ...]:
        if self._facts is None:
            facts = self.reading.facts(), self.reading.lines(self.offset)
            self._facts = tuple(fact for some in facts for fact in some)
        return self._facts

    def indexed(self) -> Polynomial:
        """The offset in which the index of a thread in the grid is one number."""
        return self.reading.indexed(self.offset)


def spot(grid: Grid, offset: Term, size: int, conditions: Iterable[Term]) -> Spot | None:
    """None where the address is too complicated."""
    reading = Reading(grid, conditions)
    try:
        polynomial = reading.read(offset)
    except Unbounded:
        return None
    return Spot(polynomial, tuple(reading.needs), size, reading)
