"""Which bytes an access touches over the whole grid, as bounds over what all threads share.

An address is read as a polynomial over whole numbers: parameters, thread numbers, counts of turns.
What differs between threads is replaced by its bounds: `%tid.x` lies in 0 … `%ntid.x` - 1, an index
behind `if (i < n)` is at most n - 1, the count of a loop's turns at most what its way back allows.
Left are polynomials over parameters, `%ntid` and `%nctaid`, which are the same for all threads.

Machine arithmetic wraps, polynomials do not. So every place where it matters (an index that is
extended to 64 bits, a comparison) makes a *need*: a polynomial that has to be at most 0. What has
its need proved by plain numbers makes none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from functools import partial
from math import lcm
from typing import Any, TypeVar

from msgspec import Struct

from ptxsw.analysis.polynomial import Number, Polynomial
from ptxsw.bits import wrapped
from ptxsw.emulator.node import Term, Variance, ones, split, unknowns
from ptxsw.emulator.origin import Origin
from ptxsw.emulator.show import show
from ptxsw.emulator.specials import SPECIALS
from ptxsw.emulator.terms import Terms
from ptxsw.emulator.trace import Access, Trace

FARTHEST = 1 << 62
"""Pointers are below it, and offsets no larger: then no address wraps, read as a signed number."""

_AXES = ("x", "y", "z")
BLOCKS = tuple(f"%nctaid.{axis}" for axis in _AXES)
_SIZES = frozenset((*BLOCKS, *(f"%ntid.{axis}" for axis in _AXES)))
_OPAQUE_BITS = 16
"""Values of which nothing is known but their bits are bounded if these are no more."""
_MAX_ITEMS = 64
_MAX_SIZE = 2000  # nodes of an address or a condition

_Value = TypeVar("_Value")
Bounds = tuple[Polynomial, Polynomial]
Holds = Callable[[Term, Iterable[Term]], bool]


class Unbounded(Exception):
    """The bytes of an access have no bounds that are the same for all threads."""


class Range(Struct, frozen=True):
    """Bytes `base + low` up to `base + high`, the latter not included, wherever all `needs` are at
    most 0. `base` is the pointer among the parameters on which the addresses are built."""

    base: Term
    low: Polynomial
    high: Polynomial
    needs: frozenset[Polynomial]


class Comparison(Struct, frozen=True):
    """`a <= b`, or `a < b` where it is `strict`."""

    a: Term
    b: Term
    strict: bool
    signed: bool


class Grid:
    """Bounds of values over all threads. `names` are the kernel's parameters; `most` gives the
    highest value of atoms that are known to be smaller than their width allows; `again` is that of
    a trace; `holds` proves a condition from others; `shape` are the threads of a block along each
    axis, where the kernel says so."""

    def __init__(
        self,
        terms: Terms,
        names: Iterable[str],
        most: Mapping[Term, int],
        again: Mapping[Term, frozenset[Term]],
        holds: Holds,
        shape: tuple[int, int, int] | None = None,
    ) -> None:
        self.terms, self.names, self._holds = terms, frozenset(names), holds
        # What is known of one thread's values says nothing of those of others.
        self.most = {atom: value for atom, value in most.items() if self.is_shared(atom)}
        self._limits = [terms.ule(t, terms.const(n, t.width)) for t, n in self.most.items()]
        self.again = {_count(count): (count, found) for count, found in again.items()}
        self._sides = {
            f"%ntid.{axis}": n for axis, n in zip(_AXES, shape or (0, 0, 0), strict=True)
        }
        self.numbers: dict[Term, None] = {}  # the parameters and sizes that were met
        self.found: dict[tuple[object, ...], _Found] = {}  # by paths; most accesses share theirs

    @classmethod
    def of(cls, trace: Trace, most: Mapping[Term, int], holds: Holds) -> Grid:
        """The grid of a kernel that was run symbolically."""
        names = (parameter.name for parameter in trace.function.params)
        return cls(trace.terms, names, most, trace.again, holds, trace.function.block_shape)

    def holds(self, claim: Term, given: Iterable[Term]) -> bool:
        """Is a condition proved from others, and from what atoms are known to be at most?"""
        return self._holds(claim, (*given, *self._limits))

    def ranges(self, access: Access) -> tuple[Range, ...]:
        """The bytes that all threads touch by an access, for each way to it. Raises Unbounded."""
        found = []
        for variant in access.variants:
            conditions = (*variant.conditions, variant.guard)
            found.append(_Path(self, conditions).range(variant.address, access.bytes))
        return tuple(dict.fromkeys(found))

    # ------------------------------------------------------------ atoms

    def is_parameter(self, atom: Term) -> bool:
        """Is it (a part of) a parameter of the kernel?"""
        uniform = atom.kind == "atom" and atom.variance is Variance.UNIFORM
        return uniform and str(atom.value).partition("+")[0] in self.names

    def pointer(self, address: Term) -> Term | None:
        """The parameter that is the only one in an address to be taken as it is."""
        found = [
            term
            for term, factor in split(address)[1]
            if factor == 1 and term.width == 64 and self.is_parameter(term)
        ]
        return found[0] if len(found) == 1 else None

    def is_shared(self, atom: Term) -> bool:
        """May it stand in a bound: is it the same for all threads, and cheap to have?"""
        if self.is_parameter(atom):
            return atom.width in (32, 64)
        return atom.kind == "atom" and atom.value in _SIZES

    def is_uniform(self, atom: Term) -> bool:
        """Is it computed from what is the same for all threads?"""
        return all(self.is_shared(leaf) for leaf in unknowns(atom))

    def limits(self, atom: Term) -> tuple[int, int]:
        """The least and the highest number that an atom may be."""
        least = 1 if atom.kind == "atom" and atom.value in _SIZES else 0
        return least, min(ones(atom), self.most.get(atom, ones(atom)))

    def span(self, value: Polynomial) -> tuple[Number, Number]:
        """The least and the highest number that a polynomial may be."""
        return value.span({atom: self.limits(atom) for atom in value.atoms})

    def size(self, name: str) -> Polynomial:
        """A special register that is the same for all threads."""
        if self._sides.get(name):
            return Polynomial.constant(self._sides[name])
        atom = self.size_atom(name)
        self.numbers[atom] = None
        return Polynomial.atom(atom)

    def size_atom(self, name: str) -> Term:
        """The atom of a special register."""
        variance, bits = SPECIALS[name]
        return self.terms.atom(name, 32, variance, bits)

    def reading(
        self, term: Term, *, signed: bool = True, given: Iterable[Term] = ()
    ) -> tuple[Polynomial, frozenset[Polynomial]]:
        """A term as a number where some conditions hold, and what that needs. Raises Unbounded."""
        path = _Path(self, given)
        return path.number(term, signed=signed), frozenset(path.needs)


def comparisons(conditions: Iterable[Term], terms: Terms) -> Iterator[Comparison]:
    """What conditions say of the order of numbers."""
    for term in conjuncts(conditions, terms):
        if term.kind in ("slt", "sle", "ult", "ule"):
            a, b = term.args
            yield Comparison(a, b, term.kind[1:] == "lt", term.kind[0] == "s")
        elif term.kind == "eq" and term.args[0].width > 1:
            a, b = term.args
            yield Comparison(a, b, False, False)
            yield Comparison(b, a, False, False)


def conjuncts(conditions: Iterable[Term], terms: Terms) -> list[Term]:
    """Conditions taken apart, in an order that does not depend on how they came about."""
    work, found = list(conditions), dict[Term, None]()
    while work:
        term = work.pop()
        if term.kind == "and":
            work.extend(term.args)
        elif term.kind == "not" and term.args[0].kind == "or":
            work.extend(map(terms.not_, term.args[0].args))
        elif term.size <= _MAX_SIZE:
            found[term] = None
    return sorted(found, key=lambda term: (term.size, show(term)))


def sum_or_product(term: Term, read: Callable[[Term], Polynomial]) -> Polynomial | None:
    """A polynomial equal to a number, sum or product modulo 2^width, its parts as `read` has them;
    None for any other term."""
    match term.kind:
        case "const" | "sum":
            constant, items = split(term)
            total = Polynomial.constant(wrapped(constant, term.width))
            for part, factor in items:
                total += read(part) * wrapped(factor, term.width)
            return total
        case "mul":
            product = Polynomial.constant(1)
            for part in term.args:
                product *= read(part)
            return product
    return None


class _Line(Struct, frozen=True):
    """`start + step · count`, between `low` and `high` in every turn of a loop."""

    start: Polynomial
    step: Polynomial
    low: Polynomial
    high: Polynomial


def _count(atom: Term) -> str:
    """The label of the loop whose iterations an atom counts, in the loop or behind it."""
    counts = atom.origin in (Origin.ITERATION, Origin.LAST_ITERATION)
    return atom.of[0] if counts else ""


def _per_thread(atoms: Iterable[Term]) -> frozenset[Term]:
    """The places in the grid among atoms."""
    return frozenset(a for a in atoms if a.origin is Origin.GRID_INDEX or a.value in _PLACES)


_PLACES = frozenset({f"{name}.{axis}" for name in ("%tid", "%ctaid") for axis in "xyz"})


def _quotient(a: Polynomial, b: Polynomial) -> Polynomial | None:
    """`a / b`, where that is a polynomial that is easily seen."""
    if not a.items or not b.items:
        return None
    scale = Fraction(a.items[0][1]) / b.items[0][1]
    if a == b * scale:
        return Polynomial.constant(scale)
    constant = len(b.items) == 1 and b.items[0][0] == ()
    return a * (Fraction(1) / b.items[0][1]) if constant else None


class _Found(Struct, frozen=True):
    """What a path has found out about conditions or a loop, and what that needs; or why nothing."""

    value: Any
    needs: tuple[Polynomial, ...] = ()
    problem: str | None = None


class _Path:
    """Bounds where some conditions hold. `told` are those that bound atoms directly; all serve to
    prove how loops end."""

    def __init__(self, grid: Grid, told: Iterable[Term], given: Iterable[Term] = ()) -> None:
        self._grid, self._terms = grid, grid.terms
        self._told, self._more = tuple(told), tuple(given)
        self._given = (*self._told, *self._more)
        self.needs: dict[Polynomial, None] = {}
        self._bounds: dict[Term, Bounds] = {}
        self._read: dict[Term, Polynomial] = {}

    def _once(self, what: str, find: Callable[[_Path], _Value], *of: Term) -> _Value:
        """What any path with these conditions finds, which needs the same of each that asks. Raises
        Unbounded."""
        key = (what, self._told, self._more, *of)
        found = self._grid.found.get(key)
        if found is None:
            path = _Path(self._grid, self._told, self._more)
            try:
                found = _Found(find(path), tuple(path.needs))
            except Unbounded as error:
                found = _Found(None, (), str(error))
            self._grid.found[key] = found
        if found.problem is not None:
            raise Unbounded(found.problem)
        self.needs.update(dict.fromkeys(found.needs))
        value: _Value = found.value
        return value

    def range(self, address: Term, size: int) -> Range:
        """The bytes of an access of `size` bytes at an address."""
        base = self._grid.pointer(address)
        parted = None if base is None else self.read(address).parted(base)
        if base is None or parted is None or parted[0] != Polynomial.constant(1):
            raise Unbounded("its address is not built on one pointer among the parameters")
        low, high = self.extremes(parted[1])
        least, most = self._grid.span(low)[0], self._grid.span(high + size)[1]
        if least < -FARTHEST or most > FARTHEST:
            raise Unbounded("its offset may be too large")
        if not (low.is_whole and high.is_whole):
            raise Unbounded("its bounds are no whole numbers")
        return Range(base, low, high + size, frozenset(self.needs))

    # ------------------------------------------------------------ reading

    def read(self, term: Term) -> Polynomial:
        """A polynomial equal to a term modulo 2^width. What is extended in it is equal outright."""
        found = self._read.get(term)
        if found is None:
            if term.size > _MAX_SIZE:
                raise Unbounded("its address is too complicated")
            found = self._read[term] = self._reading(term)
            if len(found.items) > _MAX_ITEMS:
                raise Unbounded("its address is too complicated")
        return found

    def _reading(self, term: Term) -> Polynomial:
        arithmetic = sum_or_product(term, self.read)
        if arithmetic is not None:
            return arithmetic
        match term.kind:
            case "zext" | "sext" if term.args[0].width >= _OPAQUE_BITS:
                return self.number(term.args[0], signed=term.kind == "sext")
            case "zext" if term.args[0].kind == "extract":
                return self.read(term.args[0])
            case "extract" if term.value and self._grid.is_uniform(term.args[0]):
                return self._quotient(term)
            case "concat" if term.args[1].kind == "const":
                high, low = term.args
                return self.read(high) * (1 << low.width) + int(low.value)
            case "extract" if term.value == 0 and term.width >= _OPAQUE_BITS:
                return self.read(term.args[0])
        if self._grid.is_parameter(term):
            self._grid.numbers[term] = None
        elif self._grid.is_shared(term):
            return self._grid.size(str(term.value))
        return Polynomial.atom(term)

    def _quotient(self, term: Term) -> Polynomial:
        """The high bits of what all threads share: what is left of it without the low ones."""
        (whole,), bits = term.args, int(term.value)
        value = self.number(whole, signed=False)
        self._fits(value, 0, (1 << bits + term.width) - 1)
        return (value - self.read(self._terms.extract(whole, 0, bits))) * Fraction(1, 1 << bits)

    def number(self, term: Term, *, signed: bool) -> Polynomial:
        """A polynomial equal to a term as a number, which needs it not to wrap."""
        value = self.read(term)
        if term.kind == "extract" and term.value and not signed:
            return value  # a quotient, or an atom: it is what it is
        top = 1 << term.width - signed
        self._fits(value, -top if signed else 0, top - 1)
        return value

    def _fits(self, value: Polynomial, least: int, most: int) -> None:
        low, high = self._grid.span(value)
        if least <= low and high <= most:
            return
        bottom, top = self.extremes(value)
        self._need(top - most)
        self._need(bottom * -1 + least)

    def _need(self, excess: Polynomial) -> None:
        """Note that a polynomial has to be at most 0."""
        if self._grid.span(excess)[1] <= 0:
            return
        if self._grid.span(excess)[0] > 0:
            raise Unbounded("its index may wrap")
        excess *= lcm(*(factor.denominator for _, factor in excess))
        if self._grid.span(excess)[1] > FARTHEST:
            raise Unbounded("its index may be too large")
        self.needs[excess] = None

    # ------------------------------------------------------------ bounds

    def extremes(self, value: Polynomial) -> Bounds:
        """The lowest and the highest value for any thread."""
        value = self._strided(self._indexed(value))
        return self._extreme(value, up=False), self._extreme(value, up=True)

    def _extreme(self, value: Polynomial, *, up: bool) -> Polynomial:
        while True:
            own = [atom for atom in value.atoms if not self._grid.is_shared(atom)]
            if not own:
                return value
            atom = min(own, key=lambda a: (self._grid.is_uniform(a), a.id))
            parted = value.parted(atom)
            if parted is None:
                raise Unbounded("its index is no linear function of what threads differ in")
            factor, rest = parted
            low, high = self._grid.span(factor)
            if low < 0 < high:
                raise Unbounded("the sign of a step is not known")
            value = rest + factor * self._bound(atom)[up == (low >= 0)]

    def _indexed(self, value: Polynomial) -> Polynomial:
        """`%ctaid.x · %ntid.x + %tid.x` as one number, the index of a thread in the grid."""
        atom = self._terms.atom
        for axis in _AXES:
            block = next((a for a in value.atoms if a.value == f"%ctaid.{axis}"), None)
            thread = next((a for a in value.atoms if a.value == f"%tid.{axis}"), None)
            if block is None or thread is None or (parted := value.parted(thread)) is None:
                continue
            bits = (1 << 44) - 1
            index = Polynomial.atom(
                atom(f"grid index {axis}", 64, Variance.LANE, bits, Origin.GRID_INDEX)
            )
            start = Polynomial.atom(block) * self._grid.size(f"%ntid.{axis}")
            changed = parted[0] * (index - start) + parted[1]
            if block not in changed.atoms:
                value = changed
        return value

    def _strided(self, value: Polynomial) -> Polynomial:
        """What threads start at, each at its own place, and go on from by a common step, as one
        number: it stays below the end of the loop, however large the step is."""
        for atom in sorted(value.atoms, key=lambda a: a.id):
            count, again = self._grid.again.get(_count(atom), (None, frozenset()))
            line = None
            if count is not None:
                line = self._once("line", partial(_Path._line, count=count, again=again), count)
            parted = value.parted(atom)
            if line is None or parted is None or not _per_thread(line.start.atoms):
                continue
            ratio = _quotient(parted[0], line.step)
            if ratio is None:
                continue
            name = self._terms.atom(f"line {atom.value}", 64, Variance.LANE, (1 << 63) - 1)
            along = line.start + line.step * Polynomial.atom(atom)
            changed = value + ratio * (Polynomial.atom(name) - along)
            if changed.atoms.isdisjoint({atom, *_per_thread(line.start.atoms)}):
                self._bounds[name] = line.low, line.high
                value = changed
        return value

    def _bound(self, atom: Term) -> Bounds:
        """The lowest and the highest value of an atom for any thread."""
        found = self._bounds.get(atom)
        if found is None:
            bounds = dict(zip(("low", "high"), self._default(atom), strict=True))
            for side, value, needs in self._once("told", _Path._decisions).get(atom, ()):
                bounds[side] = value
                for need in needs:
                    self.needs[need] = None
            found = self._bounds[atom] = bounds["low"], bounds["high"]
        return found

    def _default(self, atom: Term) -> Bounds:
        """Bounds that need no condition of the path."""
        zero, name = Polynomial(), str(atom.value)
        axis = name[-1]
        if atom.kind == "atom" and name in (f"%tid.{axis}", f"%ctaid.{axis}"):
            size = self._grid.size(f"%n{name[1:]}")
            return zero, size - 1
        if name == f"grid index {axis}":
            size = self._grid.size(f"%ntid.{axis}") * self._grid.size(f"%nctaid.{axis}")
            return zero, size - 1
        if _count(atom) in self._grid.again:
            count, again = self._grid.again[_count(atom)]
            turns = partial(_Path._most_turns, count=count, again=again)
            return zero, self._once("turns", turns, count)
        whole = atom.args[0] if atom.kind == "extract" and atom.value == 0 else None
        if whole is not None and self._grid.is_parameter(whole) and self._grid.is_shared(whole):
            return zero, self.read(whole)  # the rest of a count: no more than the count
        if ones(atom) >> _OPAQUE_BITS:
            raise Unbounded("its index is not bounded")
        return zero, Polynomial.constant(ones(atom))

    # ------------------------------------------------------------ conditions

    def _decisions(self) -> Mapping[Term, list[tuple[str, Polynomial, Iterable[Polynomial]]]]:
        """What conditions tell of single atoms, of either side the first."""
        decided: dict[Term, list[tuple[str, Polynomial, Iterable[Polynomial]]]] = {}
        for comparison in comparisons(self._told, self._terms):
            inner = _Path(self._grid, (), self._given)
            try:
                told = inner.decision(comparison)
            except Unbounded:
                continue
            if told is not None:
                atom, side, value = told
                known = decided.setdefault(atom, [])
                if side not in (other for other, _, _ in known):
                    known.append((side, value, tuple(inner.needs)))
        return decided

    def decision(self, comparison: Comparison) -> tuple[Term, str, Polynomial] | None:
        """The one atom that threads differ in of which a comparison tells a bound."""
        a = self.number(comparison.a, signed=comparison.signed)
        b = self.number(comparison.b, signed=comparison.signed)
        excess = self._indexed(a - b + int(comparison.strict))  # at most 0
        own = [atom for atom in excess.atoms if not self._grid.is_uniform(atom)]
        parted = excess.parted(own[0]) if len(own) == 1 else None
        if parted is None:
            return None
        factor, rest = parted
        if factor == Polynomial.constant(1):
            return own[0], "high", rest * -1
        if factor == Polynomial.constant(-1):
            return own[0], "low", rest
        return None

    # ------------------------------------------------------------ loops

    def _most_turns(self, count: Term, again: frozenset[Term]) -> Polynomial:
        """The highest count of a loop's turns before any of them."""
        if len(again) != 1:
            raise Unbounded("how often a loop goes round is not known")
        (condition,) = again
        if condition.kind == "not" and condition.args[0].kind == "eq":
            return self._until_equal(count, *condition.args[0].args)
        found = list(comparisons([condition], self._terms))
        if len(found) != 1:
            raise Unbounded("how often a loop goes round is not known")
        first = self._at_entry(count, condition)
        return self._while_less(count, found[0], guarded=self._grid.holds(first, self._given))

    def _until_equal(self, count: Term, a: Term, b: Term) -> Polynomial:
        """A loop that goes on while `a != b`, whose difference changes by a constant: it ends
        where that meets 0, which it must not step over."""
        terms = self._terms
        difference = terms.sub(a, b)
        start, step = self._linear(count, self.read(difference))
        first = self._at_entry(count, difference)
        distance = terms.neg(first) if step > 0 else first
        width = distance.width
        exact = terms.urem(distance, terms.const(abs(step), width))
        for claim in (
            terms.slt(terms.const(0, width), distance),
            terms.eq(exact, terms.const(0, width)),
        ):
            if not self._grid.holds(claim, self._given):
                raise Unbounded("how often a loop goes round is not known")
        away = start * (-1 if step > 0 else 1)
        top = 1 << width - 1
        self._fits(away, -top, top - 1)
        return away * Fraction(1, abs(step)) - 1

    def _at_entry(self, count: Term, term: Term) -> Term:
        """The value of a term in the first turn."""
        zero = self._terms.const(0, count.width)
        return self._terms.substitute(term, lambda node: zero if node is count else None)

    def _while_less(self, count: Term, comparison: Comparison, *, guarded: bool) -> Polynomial:
        """A loop that goes on while `a < b`, one of which changes by a constant; `guarded` if that
        holds in the first turn, too. It never wraps if the last step before the end does not."""
        if not guarded:
            raise Unbounded("how often a loop goes round is not known")
        a, b = self.read(comparison.a), self.read(comparison.b)
        top = 1 << comparison.a.width - comparison.signed
        least, most = -top if comparison.signed else 0, top - 1
        grows = count in a.atoms
        if grows == (count in b.atoms):
            raise Unbounded("how often a loop goes round is not known")
        start, step = self._linear(count, a if grows else b)
        if (step > 0) != grows:
            raise Unbounded("a loop goes away from its end")
        end = b if grows else a
        if not all(map(self._grid.is_uniform, end.atoms)):
            raise Unbounded("how often a loop goes round is not known")
        self._fits(start, least, most)
        self._fits(end, least, most)
        self._fits(end + step, least, most)
        distance = end - start if grows else start - end
        return (distance - int(comparison.strict)) * Fraction(1, abs(step))

    def _line(self, count: Term, again: frozenset[Term]) -> _Line | None:
        """What grows in a loop that goes on while it is below an end that all threads share."""
        found = list(comparisons(again, self._terms)) if len(again) == 1 else []
        if len(found) != 1:
            return None
        (comparison,) = found
        (condition,) = again
        value, end = self.read(comparison.a), self.read(comparison.b)
        parted = value.parted(count)
        if parted is None or not all(map(self._grid.is_uniform, (*parted[0].atoms, *end.atoms))):
            return None
        step, start = parted[0], self._indexed(parted[1])
        shares = start.atoms - _per_thread(start.atoms)
        if not all(map(self._grid.is_uniform, shares)) or self._grid.span(step)[0] < 0:
            return None
        if not self._grid.holds(self._at_entry(count, condition), self._given):
            return None
        most = (1 << comparison.a.width - comparison.signed) - 1
        low = self.extremes(start)[0]
        if self._grid.span(low)[0] < 0:
            return None
        self._fits(start, 0, most)
        self._fits(end + step, 0, most)
        return _Line(start, step, low, end - int(comparison.strict))

    def _linear(self, count: Term, value: Polynomial) -> tuple[Polynomial, int]:
        """`start` and `step` of `start + step · count`, the first the same for all threads."""
        parted = value.parted(count)
        if parted is not None:
            factor, start = parted
            step = dict(factor).get((), 0)
            whole = factor == Polynomial.constant(step) and step.denominator == 1
            if whole and step and all(map(self._grid.is_uniform, start.atoms)):
                return start, int(step)
        raise Unbounded("how often a loop goes round is not known")
