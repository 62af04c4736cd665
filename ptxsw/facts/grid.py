"""What all threads of a grid share, and how large it may be: parameters, `%ntid` and `%nctaid`.

Bounds over the whole grid (`ranges`) are polynomials over these atoms alone. A `Grid` also keeps
what one path through the kernel has found out, for the next access behind the same conditions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ptxsw.emulator.recurrences import LoopEntry
from ptxsw.emulator.trace import Trace
from ptxsw.facts.path_facts import PathFacts
from ptxsw.terms import op
from ptxsw.terms.node import Term, Variance, ones, split, unknowns
from ptxsw.terms.origin import Origin
from ptxsw.terms.polynomial import Polynomial
from ptxsw.terms.specials import BLOCK, SIZES, SPECIALS, THREAD
from ptxsw.terms.terms import Terms

FARTHEST = 1 << 62
"""Pointers are below it, and offsets no larger: then no address wraps, read as a signed number."""

AXES = ("x", "y", "z")
BLOCKS = tuple(f"%nctaid.{axis}" for axis in AXES)

Holds = Callable[[Term, Iterable[Term]], bool]


class Unbounded(Exception):
    """The bytes of an access have no bounds that are the same for all threads."""


class Grid:
    """Bounds of values over all threads. `most` gives the highest value of atoms that are known to
    be smaller than their width allows; `again` is that of a trace; `holds` proves a condition from
    others; `shape` are the threads of a block along each axis, where the kernel says so."""

    def __init__(
        self,
        terms: Terms,
        most: Mapping[Term, int],
        entries: Mapping[Term, tuple[LoopEntry, ...]],
        holds: Holds,
        shape: tuple[int, int, int] | None = None,
    ) -> None:
        self.terms, self._holds = terms, holds
        # What is known of one thread's values says nothing of those of others.
        self.most = {atom: value for atom, value in most.items() if self.is_shared(atom)}
        # The same for the solver, which does not know `most`.
        self._limits = [terms.ule(t, terms.const(n, t.width)) for t, n in self.most.items()]
        self.loops = {loop_counted(count): (count, ways) for count, ways in entries.items()}
        self._sides = {f"%ntid.{axis}": n for axis, n in zip(AXES, shape or (0, 0, 0), strict=True)}
        self._spans = _Spans(self.most)
        self.numbers: dict[Term, None] = {}  # the parameters and sizes that were met
        self.path_facts = PathFacts()  # most accesses share theirs

    @classmethod
    def of(cls, trace: Trace, most: Mapping[Term, int], holds: Holds) -> Grid:
        """The grid of a kernel that was run symbolically."""
        return cls(trace.terms, most, trace.entries, holds, trace.function.block_shape)

    def holds(self, claim: Term, given: Iterable[Term]) -> bool:
        """Is a condition proved from others, and from what atoms are known to be at most?"""
        return self._holds(claim, (*given, *self._limits))

    # ------------------------------------------------------------ atoms

    def is_parameter(self, atom: Term) -> bool:
        """Is it (a part of) a parameter of the kernel?"""
        return atom.origin is Origin.PARAMETER and atom.variance is Variance.UNIFORM

    def pointer(self, address: Term) -> Term | None:
        """The one 64-bit parameter that stands unscaled in an address; None where there are
        several, since either may be the offset."""
        candidates = [
            term
            for term, factor in split(address)[1]
            if factor == 1 and term.width == 64 and self.is_parameter(term)
        ]
        return candidates[0] if len(candidates) == 1 else None

    def is_shared(self, atom: Term) -> bool:
        """May it stand in a bound: is it the same for all threads, and cheap to have?"""
        if self.is_parameter(atom):
            return atom.width in (32, 64)
        return atom.kind is op.ATOM and atom.value in SIZES

    def is_uniform(self, atom: Term) -> bool:
        """Is it computed from what is the same for all threads?"""
        return all(self.is_shared(leaf) for leaf in unknowns(atom))

    def limits(self, atom: Term) -> tuple[int, int]:
        """The least and the highest number that an atom may be."""
        return self._spans[atom]

    def span(self, value: Polynomial) -> tuple[int, int]:
        """The least and the highest number that a polynomial may be."""
        return value.span(self.limits)

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


class _Spans(dict[Term, tuple[int, int]]):
    """The least and the highest number that atoms may be."""

    def __init__(self, most: Mapping[Term, int]) -> None:
        super().__init__()
        self._most = most

    def __missing__(self, atom: Term) -> tuple[int, int]:
        least = 1 if atom.kind is op.ATOM and atom.value in SIZES else 0  # no empty launch
        self[atom] = limits = least, min(ones(atom), self._most.get(atom, ones(atom)))
        return limits


def loop_counted(atom: Term) -> str:
    """The label of the loop whose iterations an atom counts, in the loop or behind it."""
    counts = atom.origin in (Origin.ITERATION, Origin.LAST_ITERATION)
    return atom.of[0] if counts else ""


def per_thread(atoms: Iterable[Term]) -> frozenset[Term]:
    """The places in the grid among atoms."""
    return frozenset(a for a in atoms if a.origin is Origin.GRID_INDEX or a.value in THREAD | BLOCK)
