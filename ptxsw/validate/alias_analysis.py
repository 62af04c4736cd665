"""Which accesses have bytes in common: decided by their distance, by conditions, or by bounds.

Two places that are built on one sum lie at a known distance. Where they are not, a text may have
tested that they lie apart, the solver may show it, or bounds of indices may (`indices.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from ptxsw.emulator.memory import Aliasing
from ptxsw.ptx.bits import wrapped
from ptxsw.terms import op
from ptxsw.terms.node import Term
from ptxsw.terms.solver import Solver
from ptxsw.terms.terms import Terms
from ptxsw.validate.memory_ssa import (
    ADDRESS,
    NARROW,
    Base,
    Bytes,
    based,
    byte_distance,
    in_space,
    known_distance,
)


class Bounds(Protocol):
    """Answers about addresses from bounds of their indices, where some conditions hold."""

    def distance(self, a: Term, b: Term, given: tuple[Term, ...]) -> int | None:
        """`a - b` in bytes, where that is one number."""
        ...

    def apart(self, a: Bytes, b: Bytes, given: tuple[Term, ...]) -> bool:
        """Do the two have no byte in common?"""
        ...


class AliasAnalysis:
    """Decides which bytes lie apart. While `bounds` are set, they are used, too. `ordered` decides
    whether an inequality follows from conditions."""

    def __init__(
        self,
        terms: Terms,
        solver: Solver,
        ordered: Callable[[Term, tuple[Term, ...]], bool],
    ) -> None:
        self._terms, self._solver, self._ordered = terms, solver, ordered
        self._aliasing = Aliasing(terms)
        self._claims: dict[tuple[Term, int, int], tuple[Term, ...]] = {}
        self.bounds: Bounds | None = None
        # By the sum without its constant on which an address is built: instruction, the first byte
        # and how many, and the conditions.
        self._accesses: dict[Base, dict[tuple[int, int, int, frozenset[Term]], None]] = {}
        self._noted = 0  # accesses, of all comparisons: what bounds tell may have changed since
        self._apart: dict[tuple[Bytes, Bytes, tuple[Term, ...], Bounds | None, int], bool] = {}

    # ------------------------------------------------------------ what the first text accesses

    def note_access(self, index: int, target: Bytes, given: Sequence[Term]) -> None:
        """An instruction of the first text accesses bytes where some conditions hold."""
        base, begin = based(target)
        accesses = self._accesses.setdefault(base, {})
        access = (index, begin, target.size, frozenset(given))
        if access not in accesses:
            accesses[access] = None
            self._noted += 1

    def forget_accesses(self) -> None:
        """Unknowns are about to mean something else."""
        self._accesses.clear()
        self._noted += 1

    def accessed(self, part: Bytes, given: Collection[Term]) -> frozenset[int]:
        """The instructions that access some bytes where some conditions hold."""
        base, begin = based(part)
        conditions = frozenset(given)
        return frozenset(
            index
            for index, first, size, told in self._accesses.get(base, ())
            if 0 <= wrapped(begin - first, part.place.width) <= size - part.size
            and told <= conditions
        )

    # ------------------------------------------------------------ where bytes lie

    def distance(self, a: Bytes, b: Bytes, given: Sequence[Term]) -> int | None:
        """How many bytes behind the second the first begins, of two in one space, where that is
        one number: by what bounds tell, too."""
        distance = known_distance(a, b)
        if distance is None and self.bounds is not None:
            distance = self.bounds.distance(a.place, b.place, tuple(given))
            return distance if distance is None else in_space(a.space, distance)
        return distance

    def apart(self, a: Bytes, b: Bytes, given: Sequence[Term]) -> bool:
        """Do the two surely have no byte in common?"""
        key = (a, b, tuple(given), self.bounds, 0 if self.bounds is None else self._noted)
        apart = self._apart.get(key)
        if apart is None:
            apart = self._apart[key] = self._are_apart(a, b, given)
        return apart

    def _are_apart(self, a: Bytes, b: Bytes, given: Sequence[Term]) -> bool:
        if a.space != b.space and "generic" not in (a.space, b.space):
            return True
        # A generic and a global address are one number, and can be subtracted.
        if a.space != b.space and not {a.space, b.space} <= {"generic", "global"}:
            return False  # the generic address may lie in the other's window
        if a.place.width != b.place.width:
            return False
        distance = byte_distance(a.place, b.place)
        if distance is not None:
            distance = in_space(a.space, distance)
        if distance is not None:
            return distance >= b.size or -distance >= a.size
        if self.bounds is not None and self.bounds.apart(a, b, tuple(given)):
            return True
        # Shared and local addresses count modulo 2^32, even in 64-bit registers: places 2^32 bytes
        # apart are the same.
        apart = self._terms.sub(a.place, b.place)
        if a.space in NARROW and apart.width > ADDRESS:
            apart = self._terms.extract(apart, 0, ADDRESS)
        key = (apart, b.size, a.size)
        claims = self._claims.get(key)
        if claims is None:
            claims = self._claims[key] = self._apart_claims(*key)
        told = tuple(given)
        tests = self._tests(*key)
        return any(test in told or self._ordered(test, told) for test in tests) or any(
            claim in told or self._ordered(claim, told) or self._soon(claim, key[0], told)
            if claim.kind is not op.CONST
            else bool(claim.value)
            for claim in claims
        )

    def _soon(self, claim: Term, distance: Term, given: Sequence[Term]) -> bool:
        """Can the solver prove a claim about a distance quickly? It is not asked if the distance
        contains an unknown that no condition restricts: then it may be any number."""
        return not self._solver.is_free(distance, given) and self._solver.soon(claim, given)

    def _apart_claims(self, distance: Term, stored: int, loaded: int) -> tuple[Term, ...]:
        """Conditions under each of which ranges have no byte in common. Where their distance may
        be any number, what a text has tested may still tell: in one of two forms, of which the
        solver follows the one that resembles the test."""
        claim = self._aliasing.apart(distance, stored, loaded)
        if claim.kind is not op.CONST or claim.value:
            return (claim,)
        return self._tests(distance, stored, loaded)

    def _tests(self, distance: Term, stored: int, loaded: int) -> tuple[Term, ...]:
        """The same as a text tests it. The ranges overlap where -loaded < distance < stored, which
        are stored + loaded - 1 numbers on the circle: distance + loaded - 1 <u stored + loaded - 1.
        Or the same counted from the other range."""
        terms, width = self._terms, distance.width
        reach = terms.const(stored + loaded - 1, width)
        return tuple(
            terms.not_(terms.ult(terms.add(signed, terms.const(size - 1, width)), reach))
            for signed, size in ((distance, loaded), (terms.neg(distance), stored))
        )

    def may_be_anywhere(self, base: Base, other: Base, given: tuple[Term, ...]) -> bool | None:
        """May addresses built on one sum be at any distance from those built on another? False if
        they are certainly apart; None if the accesses have to be compared one by one."""
        (space, width, items), (stored, stored_width, stored_items) = base, other
        if space != stored and "generic" not in (space, stored):
            return False
        if space != stored and not {space, stored} <= {"generic", "global"}:
            return True
        if width != stored_width:
            return True
        if items == stored_items:
            return None
        distance = self._terms.sub(*(self._terms.sum(width, 0, i) for i in (stored_items, items)))
        return True if self._solver.is_free(distance, given) else None
