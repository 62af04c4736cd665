"""Which bytes an access touches over the whole grid, as bounds over what all threads share.

An address is read as a polynomial over whole numbers: parameters, thread numbers, counts of
iterations. What differs between threads is replaced by its bounds: `%tid.x` lies in 0 … `%ntid.x` -
1, an index behind `if (i < n)` is at most n - 1, the count of a loop's iterations at most what its
way back allows. Left are polynomials over parameters, `%ntid` and `%nctaid`, which are the same for
all threads.

Machine arithmetic wraps, polynomials do not. So every place where it matters (an index that is
extended to 64 bits, a comparison) makes a *need*: a polynomial that has to be at most 0. What has
its need proved by plain numbers makes none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TypeVar

from msgspec import Struct

from ptxsw.emulator.recurrences import LoopEntry
from ptxsw.emulator.trace import Access
from ptxsw.facts.conditions import MAX_SIZE, Inequality, comparisons
from ptxsw.facts.grid import AXES, FARTHEST, Grid, Unbounded, loop_counted, per_thread
from ptxsw.facts.iteration_bounds import line_in_loop, most_iterations, of_this_iteration
from ptxsw.facts.path_facts import PathFact
from ptxsw.ptx.bits import wrapped
from ptxsw.terms import op
from ptxsw.terms.node import Term, Variance, ones, split
from ptxsw.terms.origin import Origin
from ptxsw.terms.polynomial import Polynomial
from ptxsw.terms.readings import modulo

OPAQUE_BITS = 16
"""A value about which only its width is known counts as bounded up to this many bits."""
_MAX_ITEMS = 64
MAY_WRAP = "its index may wrap"
_OWN_BOUND = PathFact(None, (), "its bounds depend on themselves")

_Value = TypeVar("_Value")
Bounds = tuple[Polynomial, Polynomial]
Side = Polynomial | Unbounded


class Range(Struct, frozen=True):
    """Bytes `base + low` up to `base + high`, the latter not included, wherever all `needs` are at
    most 0. `base` is the pointer among the parameters on which the addresses are built."""

    base: Term
    low: Polynomial
    high: Polynomial
    needs: frozenset[Polynomial]


def quotient(a: Polynomial, b: Polynomial) -> Polynomial | None:
    """`a / b`, where that is a polynomial that is easily seen."""
    if not a.items or not b.items:
        return None
    (_, above), (_, below) = a.items[0], b.items[0]
    ratio = Polynomial.constant(above * b.denominator) / (below * a.denominator)
    if a == b * ratio:
        return ratio
    return None if b.atoms else a * b.denominator / below


def touched_ranges(grid: Grid, access: Access) -> tuple[Range, ...]:
    """The bytes that all threads touch by an access, for each way to it. Raises Unbounded."""
    ranges = []
    for variant in access.variants:
        conditions = (*variant.conditions, variant.guard)
        ranges.append(PathBounds(grid, conditions).range(variant.address, access.bytes))
    return tuple(dict.fromkeys(ranges))


def place_range(grid: Grid, address: Term, size: int, conditions: Iterable[Term]) -> Range:
    """The bytes at an address, for all threads for which some conditions hold. Raises
    Unbounded."""
    return PathBounds(grid, conditions).range(address, size)


def as_number(
    grid: Grid, term: Term, *, signed: bool = True, given: Iterable[Term] = ()
) -> tuple[Polynomial, frozenset[Polynomial]]:
    """A term as a number where some conditions hold, and what that needs. Raises Unbounded."""
    path = PathBounds(grid, given)
    return path.number(term, signed=signed), frozenset(path.needs)


def offset_extremes(
    grid: Grid, offset: Term, given: Iterable[Term]
) -> tuple[Polynomial, Polynomial, frozenset[Polynomial]]:
    """The lowest and the highest value of an offset for all threads for which some conditions hold,
    as a number that is equal to it modulo 2^width, and what that needs. Raises Unbounded."""
    path = PathBounds(grid, given)
    low, high = path.extremes(path.read(offset))
    return low, high, frozenset(path.needs)


def most_trips(grid: Grid, label: str) -> int | None:
    """How often the body of a loop is run at most, by plain numbers."""
    count, entries = grid.loops.get(label, (None, ()))
    trips = [_most_by_way(grid, count, entry) for entry in entries if count is not None]
    return max((n for n in trips if n is not None), default=None) if None not in trips else None


def _most_by_way(grid: Grid, count: Term, entry: LoopEntry) -> int | None:
    path = PathBounds(grid, (of_this_iteration(grid.terms, count, entry.again),) * entry.inside)
    try:
        most = most_iterations(path, count, (entry,))
    except Unbounded:
        return None
    parts = most.denominator
    return None if path.needs else grid.span(most * parts)[1] // parts + 1


class PathBounds:
    """Bounds where some conditions hold. `told` are those that bound atoms directly; all serve to
    prove how loops end."""

    def __init__(self, grid: Grid, told: Iterable[Term], given: Iterable[Term] = ()) -> None:
        self.grid, self.terms = grid, grid.terms
        self._told, self._more = tuple(told), tuple(given)
        self.given = (*self._told, *self._more)
        self.needs: dict[Polynomial, None] = {}
        self._bounds: dict[Term, tuple[Side, Side]] = {}
        self._read: dict[Term, Polynomial] = {}

    def _once(self, what: str, find: Callable[[PathBounds], _Value], *of: Term) -> _Value:
        """A result that depends on the conditions alone, computed once for all paths that share
        them. Each path that asks gets the needs of the result, too. Raises Unbounded."""

        def answer() -> PathFact:
            path = type(self)(self.grid, self._told, self._more)
            try:
                return PathFact(find(path), tuple(path.needs))
            except Unbounded as error:
                return PathFact(None, (), str(error))

        key = (what, self._told, self._more, *of)
        facts = self.grid.path_facts.once(key, answer, _OWN_BOUND)
        if facts.problem is not None:
            raise Unbounded(facts.problem)
        self.needs.update(dict.fromkeys(facts.needs))
        value: _Value = facts.value
        return value

    def range(self, address: Term, size: int) -> Range:
        """The bytes of an access of `size` bytes at an address."""
        constant, items = split(address)
        rest, shift = self.terms.sum(address.width, 0, items), wrapped(constant, address.width)
        base, low, high = self._once("place", lambda path: path._place(rest), rest)
        low, high = low + shift, high + shift
        least, most = self.grid.span(low)[0], self.grid.span(high + size)[1]
        if least < -FARTHEST or most > FARTHEST:
            raise Unbounded("its offset may be too large")
        if not (low.is_whole and high.is_whole):
            raise Unbounded("its bounds are not integers")
        return Range(base, low, high + size, frozenset(self.needs))

    def _place(self, address: Term) -> tuple[Term, Polynomial, Polynomial]:
        """The pointer on which an address is built, and the bounds of what is added. Of addresses
        that differ by a number, as those of unrolled loops do, it is asked once."""
        base = self.grid.pointer(address)
        parted = None if base is None else self.read(address).parted(base)
        if base is None or parted is None or parted[0] != Polynomial.constant(1):
            raise Unbounded("its address does not derive from a single pointer parameter")
        return base, *self.extremes(parted[1])

    # ------------------------------------------------------------ reading

    def read(self, term: Term) -> Polynomial:
        """A polynomial equal to a term modulo 2^width. What is extended in it is equal outright."""
        polynomial = self._read.get(term)
        if polynomial is None:
            if term.size > MAX_SIZE:
                raise Unbounded("its address is too complicated")
            polynomial = self._read[term] = self._reading(term)
            if len(polynomial.items) > _MAX_ITEMS:
                raise Unbounded("its address is too complicated")
        return polynomial

    def _reading(self, term: Term) -> Polynomial:
        arithmetic = modulo(term, self.read)
        if arithmetic is not None:
            return arithmetic
        match term.kind:
            case op.ZEXT | op.SEXT if term.args[0].width >= OPAQUE_BITS:
                return self.number(term.args[0], signed=term.kind is op.SEXT)
            case op.ZEXT if term.args[0].kind is op.EXTRACT:
                return self.read(term.args[0])
            case op.EXTRACT if term.value and self.grid.is_uniform(term.args[0]):
                return self._quotient(term)
            case op.CONCAT if term.args[1].kind is op.CONST:
                high, low = term.args
                return self.read(high) * (1 << low.width) + int(low.value)
            case op.EXTRACT if term.value == 0 and term.width >= OPAQUE_BITS:
                return self.read(term.args[0])
        if self.grid.is_parameter(term):
            self.grid.numbers[term] = None
        elif self.grid.is_shared(term):
            return self.grid.size(str(term.value))
        return Polynomial.atom(term)

    def _quotient(self, term: Term) -> Polynomial:
        """The high bits of what all threads share: what is left of it without the low ones."""
        (whole,), bits = term.args, int(term.value)
        value = self.number(whole, signed=False)
        self.fits(value, 0, (1 << bits + term.width) - 1)
        low = self.terms.extract(whole, 0, bits)
        # `read` would do modulo 2^bits only; here the number itself counts.
        rest = Polynomial.atom(low) if low.kind is op.EXTRACT else self.number(low, signed=False)
        return (value - rest) / (1 << bits)

    def number(self, term: Term, *, signed: bool) -> Polynomial:
        """A polynomial equal to a term as a number, which needs it not to wrap."""
        value = self.read(term)
        if term.kind is op.EXTRACT and term.value and not signed:
            return value  # a quotient, or an atom: it is what it is
        top = 1 << term.width - signed
        self.fits(value, -top if signed else 0, top - 1)
        return value

    def fits(self, value: Polynomial, least: int, most: int) -> None:
        low, high = self.grid.span(value)
        if least <= low and high <= most:
            return
        bottom, top = self.extremes(value)
        self._need(top - most)
        self._need(bottom * -1 + least)

    def _need(self, excess: Polynomial) -> None:
        """Note that a polynomial has to be at most 0."""
        # Tests compare whole numbers, and must not overflow themselves.
        excess *= excess.denominator
        if self.grid.span(excess)[1] <= 0:
            return
        if self.grid.span(excess)[0] > 0:
            raise Unbounded(MAY_WRAP)  # it never holds
        if self.grid.span(excess)[1] > FARTHEST:
            raise Unbounded("its index may be too large")
        self.needs[excess] = None

    # ------------------------------------------------------------ bounds

    def extremes(self, value: Polynomial) -> Bounds:
        """The lowest and the highest value for any thread."""
        value = self._strided(self.indexed(value))
        return self._extreme(value, up=False), self._extreme(value, up=True)

    def _extreme(self, value: Polynomial, *, up: bool) -> Polynomial:
        while True:
            own = [atom for atom in value.atoms if not self.grid.is_shared(atom)]
            if not own:
                return value
            # Thread indices and loop counts first: their bounds may bring in quotients that are
            # the same for all threads, which are bounded last.
            atom = min(own, key=lambda a: (self.grid.is_uniform(a), a.id))
            parted = value.parted(atom)
            if parted is None:
                raise Unbounded("its index is not linear in the indices of threads and iterations")
            factor, rest = parted
            low, high = self.grid.span(factor)
            if low < 0 < high:
                raise Unbounded("the sign of a step is not known")
            value = rest + factor * self.bound(atom)[up == (low >= 0)]

    def indexed(self, value: Polynomial) -> Polynomial:
        """`%ctaid.x · %ntid.x + %tid.x` as one number, the index of a thread in the grid."""
        atom = self.terms.atom
        for axis in AXES:
            block = next((a for a in value.atoms if a.value == f"%ctaid.{axis}"), None)
            thread = next((a for a in value.atoms if a.value == f"%tid.{axis}"), None)
            if block is None or thread is None or (parted := value.parted(thread)) is None:
                continue
            # Separate bounds of block and thread would lose `if (i < n)`, which speaks of this
            # sum. It is below 2^44: at most 2^31 blocks of 2^10 threads.
            bits = (1 << 44) - 1
            index = Polynomial.atom(
                atom(f"grid index {axis}", 64, Variance.LANE, bits, Origin.GRID_INDEX)
            )
            start = Polynomial.atom(block) * self.grid.size(f"%ntid.{axis}")
            changed = parted[0] * (index - start) + parted[1]
            if block not in changed.atoms:
                value = changed
        return value

    def _strided(self, value: Polynomial) -> Polynomial:
        """What threads start at, each at its own place, and go on from by a common step, as one
        number: it stays below the end of the loop, however large the step is."""
        for atom in sorted(value.atoms, key=lambda a: a.id):
            count, entries = self.grid.loops.get(loop_counted(atom), (None, ()))
            line = None
            if count is not None:
                find = partial(line_in_loop, count=count, entries=entries)
                line = self._once("line", find, count)
            parted = value.parted(atom)
            if line is None or parted is None or not per_thread(line.start.atoms):
                continue
            ratio = quotient(parted[0], line.step)
            if ratio is None:
                continue
            # start + step · count as one atom: bounded by the loop's end for all threads, while
            # separate bounds of start and count would add up to about twice that.
            name = self.terms.atom(f"line {atom.value}", 64, Variance.LANE, (1 << 63) - 1)
            along = line.start + line.step * Polynomial.atom(atom)
            changed = value + ratio * (Polynomial.atom(name) - along)
            if changed.atoms.isdisjoint({atom, *per_thread(line.start.atoms)}):
                self._bounds[name] = line.low, line.high
                value = changed
        return value

    def bound(self, atom: Term) -> Bounds:
        """The lowest and the highest value of an atom for any thread."""
        low, high = self.sides(atom)
        return _known(low), _known(high)

    def sides(self, atom: Term) -> tuple[Side, Side]:
        """The same, or for each why there is none."""
        interval = self._bounds.get(atom)
        if interval is None:
            bounds: dict[str, Side] = {"low": Polynomial()}  # as of any atom
            try:
                bounds["high"] = self._highest(atom)
            except Unbounded as reason:
                bounds["high"] = reason
            for side, value, needs in self._once("told", PathBounds._decisions).get(atom, ()):
                bounds[side] = value
                self.needs.update(dict.fromkeys(needs))
            interval = self._bounds[atom] = bounds["low"], bounds["high"]
        return interval

    def _highest(self, atom: Term) -> Polynomial:
        """The highest value of an atom where no condition of the path tells it."""
        name = str(atom.value)
        axis = name[-1]
        if atom.kind is op.ATOM and name in (f"%tid.{axis}", f"%ctaid.{axis}"):
            return self.grid.size(f"%n{name[1:]}") - 1
        if name == f"grid index {axis}":
            return self.grid.size(f"%ntid.{axis}") * self.grid.size(f"%nctaid.{axis}") - 1
        if loop_counted(atom) in self.grid.loops:
            count, entries = self.grid.loops[loop_counted(atom)]
            most = partial(most_iterations, count=count, entries=entries)
            return self._once("iterations", most, count)
        whole = atom.args[0] if atom.kind is op.EXTRACT and atom.value == 0 else None
        if whole is not None and self.grid.is_parameter(whole) and self.grid.is_shared(whole):
            return self.read(whole)  # the rest of a count: no more than the count
        if ones(atom) >> OPAQUE_BITS:
            raise Unbounded("its index is not bounded")
        return Polynomial.constant(ones(atom))

    # ------------------------------------------------------------ conditions

    def _decisions(self) -> Mapping[Term, list[tuple[str, Polynomial, Iterable[Polynomial]]]]:
        """The bounds that conditions give for single atoms: the first for each side."""
        decided: dict[Term, list[tuple[str, Polynomial, Iterable[Polynomial]]]] = {}
        for comparison in comparisons(self._told, self.terms):
            # Without `told`: a condition must not be used to bound what it speaks of itself.
            inner = type(self)(self.grid, (), self.given)
            try:
                decision = inner.decision(comparison)
            except Unbounded:
                continue
            if decision is not None:
                atom, side, value = decision
                decisions = decided.setdefault(atom, [])
                if side not in (other for other, _, _ in decisions):
                    decisions.append((side, value, tuple(inner.needs)))
        return decided

    def decision(self, comparison: Inequality) -> tuple[Term, str, Polynomial] | None:
        """The bound that a comparison gives for one atom, if that is the only one in it that
        differs between threads: the atom, the side, and the bound."""
        a = self.number(comparison.a, signed=comparison.signed)
        b = self.number(comparison.b, signed=comparison.signed)
        excess = self.indexed(a - b + int(comparison.strict))  # at most 0
        own = [atom for atom in excess.atoms if not self.grid.is_uniform(atom)]
        parted = excess.parted(own[0]) if len(own) == 1 else None
        if parted is None:
            return None
        factor, rest = parted
        if factor == Polynomial.constant(1):
            return own[0], "high", rest * -1
        if factor == Polynomial.constant(-1):
            return own[0], "low", rest
        return None


def _known(bound: Side) -> Polynomial:
    """Raises Unbounded where it is the reason why there is none."""
    if isinstance(bound, Unbounded):
        raise bound
    return bound
