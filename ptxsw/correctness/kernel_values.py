"""What is known of the values in one kernel: by the block that is declared, by a launch, by loops.

The rules ask for bounds as numbers (`KernelValues.bounds`), as polynomials over sizes and
parameters (`KernelValues.extremes`), and for proofs (`KernelValues.holds`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from math import prod

from msgspec import Struct

from ptxsw.analysis.warps import Block
from ptxsw.correctness.subject import Subject
from ptxsw.emulator.recurrences import Iterations, LoopEntry
from ptxsw.emulator.trace import Trace
from ptxsw.facts.grid import AXES, Grid, Unbounded
from ptxsw.facts.number_bounds import Bounds
from ptxsw.facts.number_range import Interval
from ptxsw.facts.ranges import most_trips, offset_extremes
from ptxsw.ptx.target import MOST_DEEP, MOST_THREADS
from ptxsw.terms import op
from ptxsw.terms.node import Term, ones, unknowns
from ptxsw.terms.origin import Origin
from ptxsw.terms.polynomial import Polynomial
from ptxsw.terms.solver import Proved
from ptxsw.terms.substitution import substitute

_FAR = 1 << 20
"""Iterations beyond which no end of a loop is looked for."""
_ASKED_S = 0.3
"""CPU time of Z3 that one rule may take for its questions."""


class Extremes(Struct, frozen=True):
    """A value lies from `low` to `high` where all `needs` are at most 0."""

    low: Polynomial
    high: Polynomial
    needs: frozenset[Polynomial]


class KernelValues:
    """The values of one kernel's terms."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self.trace: Trace = subject.trace
        self.terms = self.trace.terms
        self._known: dict[frozenset[Term], Bounds] = {}
        self._limits: dict[Term, Interval | None] = {}
        self._spent = subject.solver.seconds

    @property
    def shape(self) -> Block | None:
        """Of the block, where anybody declares it."""
        return self._subject.shape

    @property
    def is_launched(self) -> bool:
        """Is a launch given?"""
        return self._subject.launch is not None

    # ------------------------------------------------------------ bounds

    def bounds(self, given: Iterable[Term] = ()) -> Bounds:
        """Bounds as numbers where conditions hold."""
        key = frozenset(given)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = Bounds(self.terms, key, self.limits)
        return known

    def extremes(self, value: Term, given: Iterable[Term]) -> Extremes | None:
        """Bounds over sizes and parameters; None where there are none."""
        try:
            low, high, needs = offset_extremes(self.grid, value, given)
        except Unbounded:
            return None
        return Extremes(low, high, needs)

    @cached_property
    def grid(self) -> Grid:
        """What all threads share, for polynomials."""
        terms = self.terms
        names = [f"%{of}.{axis}" for of in ("ntid", "nctaid") for axis in AXES]
        most = {atom: self._size(name)[1] for name in names if (atom := terms.special(name))}
        launched = {t: n for t, (_, n) in self._given.items()}
        entries, shape = self.trace.entries, self._subject.shape
        return Grid(terms, {**most, **launched}, entries, self._follows, shape)

    def _follows(self, claim: Term, given: Iterable[Term]) -> bool:
        return self._subject.solver.soon(claim, given)

    # ------------------------------------------------------------ unknowns

    def limits(self, term: Term) -> Interval | None:
        """The least and the greatest value of an unknown, read as unsigned."""
        if term not in self._limits:
            self._limits[term] = None  # one that is asked for itself tells nothing of itself
            self._limits[term] = self._limit(term)
        return self._limits[term]

    def _limit(self, term: Term) -> Interval | None:
        match term.origin:
            case Origin.SPECIAL:
                return self._special(str(term.value), ones(term))
            case Origin.PARAMETER:
                return self._given.get(term)
            case Origin.ITERATION | Origin.LAST_ITERATION:
                return self._count(term.of[0])
            case Origin.LOOP_VALUE | Origin.LAST_LOOP_VALUE:
                return self._in_loop(term)
        return None

    def _special(self, name: str, most: int) -> Interval:
        kind, _, axis = name.partition(".")
        if kind in ("%ntid", "%nctaid"):
            return self._size(name)
        if kind in ("%tid", "%ctaid"):
            return 0, self._size(f"%n{kind[1:]}.{axis}")[1] - 1
        if name == "%laneid":
            return 0, min(most, self.most_threads - 1)
        return 0, most

    def _size(self, name: str) -> Interval:
        """Of a block or of the grid along one axis."""
        kind, _, axis = name.partition(".")
        at = AXES.index(axis)
        launch, shape = self._subject.launch, self._subject.shape
        if kind == "%ntid":
            most = min(MOST_DEEP if axis == "z" else MOST_THREADS, self.most_threads)
            return (1, most) if shape is None else (shape[at], shape[at])
        if launch is not None:
            return launch.grid[at], launch.grid[at]
        return 1, (1 << 31) - 1 if axis == "x" else (1 << 16) - 1

    @property
    def most_threads(self) -> int:
        """Of a block."""
        shape = self._subject.shape
        most = MOST_THREADS if shape is None else prod(shape)
        return min(most, self._subject.function.most_threads or most)

    @cached_property
    def _given(self) -> Mapping[Term, Interval]:
        """Numbers among the arguments of the launch."""
        launch = self._subject.launch
        if launch is None:
            return {}
        known: dict[Term, Interval] = {}
        for parameter, argument in zip(self._subject.function.params, launch.args, strict=False):
            if isinstance(argument, int):
                for atom in self._parameters.get(parameter.name, ()):
                    value = argument & (1 << atom.width) - 1
                    known[atom] = value, value
        return known

    @cached_property
    def _parameters(self) -> Mapping[str, Sequence[Term]]:
        """The atoms of whole parameters in the trace, by name."""
        found: dict[str, dict[Term, None]] = {}
        for term in self._mentioned():
            if term.origin is Origin.PARAMETER and term.of[1] == "0":
                found.setdefault(term.of[0], {})[term] = None
        return {name: tuple(atoms) for name, atoms in found.items()}

    def _mentioned(self) -> Iterator[Term]:
        for access in self.trace.accesses:
            for variant in access.variants:
                yield from unknowns(variant.address, variant.guard, *variant.conditions)

    def _count(self, label: str) -> Interval | None:
        """How often a loop has been gone round before."""
        trips = most_trips(self.grid, label)
        count, entries = self.grid.loops.get(label, (None, ()))
        ends = [_first_end(self, count, entry) for entry in entries if count is not None]
        if ends and None not in ends:
            trips = min(trips or _FAR, max(end - 1 for end in ends if end is not None))
        return None if trips is None else (0, trips)

    def _in_loop(self, term: Term) -> Interval | None:
        """What a loop makes of a register in its first iterations, if these are all there are."""
        values = self.iterations(term)
        last = values[-1].again if values else None
        if not values or last is None or last.kind is not op.CONST or last.value:
            return None
        plain = self.bounds()
        ends = [plain.unsigned(one.value) for one in values]
        return min(low for low, _ in ends), max(high for _, high in ends)

    def iterations(self, atom: Term) -> Iterations | None:
        """The first iterations of a register, also where its last value is asked for."""
        known, now = self.trace.iterations, str(atom.value).removeprefix("last ")
        return known.get(atom) or next((i for a, i in known.items() if a.value == now), None)

    # ------------------------------------------------------------ proofs

    def facts(self, *values: Term) -> list[Term]:
        """What is known of the unknowns of some values, as conditions for the solver."""
        terms, known = self.terms, list[Term]()
        for atom in unknowns(*values):
            limits = self.limits(atom)
            if limits is not None and limits[1] < ones(atom):
                known.append(terms.ule(atom, terms.const(limits[1], atom.width)))
            if limits is not None and limits[0]:
                known.append(terms.ule(terms.const(limits[0], atom.width), atom))
            if atom.origin is Origin.SPECIAL and str(atom.value)[:4] in ("%tid", "%cta"):
                size = terms.special(f"%n{str(atom.value)[1:]}")
                known.append(terms.ult(atom, size))
                least, most = self._size(str(size.value))
                known.append(terms.ule(size, terms.const(most, 32)))
                known.append(terms.ule(terms.const(least, 32), size))
        return [fact for fact in known if fact.kind is not op.CONST]

    def holds(self, claim: Term, given: Iterable[Term]) -> bool:
        """Is a condition proved from others and from what is known? Z3 has little time."""
        conditions = (*given, *self.facts(claim, *given))
        solver = self._subject.solver
        if solver.seconds - self._spent > _ASKED_S:
            return solver.soon(claim, conditions)
        return isinstance(solver.prove(claim, conditions), Proved)

    def met(self, wanted: Sequence[tuple[Term, bool]]) -> Mapping[Term, int] | None:
        """Values by which each condition has the truth that is wanted of it, if some are found."""
        return self._subject.solver.values(wanted)

    def refuted(self, claim: Term, given: Iterable[Term]) -> Mapping[Term, int] | None:
        """Values under which a condition is false while others hold; None where none are found."""
        conditions = (*given, *self.facts(claim, *given))
        return self.met([(claim, False), *((c, True) for c in conditions)])


def _first_end(values: KernelValues, count: Term, entry: LoopEntry) -> int | None:
    """An iteration that no thread makes: the condition that leads to it is false for all."""
    # Before every iteration but the first its condition held, so one that is false ends the loop,
    # whatever it is for others.
    bounds, terms = values.bounds(entry.given), values.terms

    def ends(number: int) -> bool:
        at = terms.const(number, count.width)
        again = substitute(terms, entry.again, lambda node: at if node is count else None)
        return bounds.truth(again) is False

    high = next((1 << bits for bits in range(_FAR.bit_length()) if ends(1 << bits)), None)
    low = 0 if high is None else high // 2
    while high is not None and high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if ends(middle) else (middle, high)
    return high
