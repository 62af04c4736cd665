"""Fingerprints of addresses: numbers that are equal where the polynomials of addresses are.

To write an address as a polynomial takes proofs that its indices do not wrap (`exact_sums`), or at
least time (`emulator.affine`). Most accesses go where no other goes, which is seen without: each
atom is given a large number, and the address is evaluated modulo a prime as if nothing wrapped.
Whatever a polynomial may write for a part has the number of this part, so that different numbers
mean different polynomials. Equal numbers mean nothing: they only make the polynomials worth having.
"""

from __future__ import annotations

from collections.abc import Iterable

from ptxsw.facts.grid import AXES
from ptxsw.ptx.bits import wrapped
from ptxsw.terms import op
from ptxsw.terms.affine import is_lane_atom
from ptxsw.terms.node import Term, arguments, bottom_up, split
from ptxsw.terms.specials import SIZES

_PRIME = (1 << 61) - 1
_ROOT, _OTHER_ROOT = 37, 41

Fingerprint = tuple[int, int]
Items = tuple[tuple[Term, int], ...]
"""A sum without its constant: each term with its coefficient."""


class _Evaluation:
    """Terms evaluated twice."""

    def __init__(self) -> None:
        self._memo: dict[Term, Fingerprint] = {}
        self._sums: dict[tuple[tuple[Term, int], ...], Fingerprint] = {}

    def both(self, address: Term) -> Fingerprint:
        constant, items = split(address)
        rest = self._sums.get(items)
        if rest is None:  # most addresses differ from others by a number
            for term in bottom_up(self._memo, _parts, *(part for part, _ in items)):
                self._memo[term] = self._computed(term)
            rest = self._sums[items] = self._sum(items, address.width)
        number = wrapped(constant, address.width)
        return (rest[0] + number) % _PRIME, (rest[1] + number) % _PRIME

    def _sum(self, items: Iterable[tuple[Term, int]], width: int) -> Fingerprint:
        """That of a sum of parts whose fingerprints are known."""
        now = later = 0
        for part, factor in items:
            one, other = self._memo[part]
            number = wrapped(factor, width)
            now, later = now + number * one, later + number * other
        return now % _PRIME, later % _PRIME

    def _computed(self, term: Term) -> Fingerprint:
        """The values of a term from those of its parts."""
        match term.kind:
            case op.CONST | op.SUM:
                constant, items = split(term)
                now, later = self._sum(items, term.width)
                number = wrapped(constant, term.width)
                return (now + number) % _PRIME, (later + number) % _PRIME
            case op.MUL:
                now = later = 1
                for part in term.args:
                    one, other = self._memo[part]
                    now, later = now * one % _PRIME, later * other % _PRIME
                return now, later
            case op.ZEXT | op.SEXT:
                return self._memo[term.args[0]]
            case op.EXTRACT:  # high bits are the whole without low ones, which count as the whole
                return (0, 0) if term.value else self._memo[term.args[0]]
            case op.CONCAT if term.args[1].kind is op.CONST:
                high, low = term.args
                one, other = self._memo[high]
                factor, constant = 1 << low.width, int(low.value)
                return (one * factor + constant) % _PRIME, (other * factor + constant) % _PRIME
        return self._atom(term)

    def _atom(self, term: Term) -> Fingerprint:
        raise NotImplementedError


class Fingerprints(_Evaluation):
    """Those of one loop, whose iterations `count` counts: of what a term is in this iteration and
    in the next. `shape` are the threads of a block along each axis, where the kernel says so."""

    def __init__(self, count: Term, shape: tuple[int, int, int] | None) -> None:
        super().__init__()
        now = pow(_ROOT, count.id + 1, _PRIME)
        self._memo[count] = (now, (now + 1) % _PRIME)
        self._sides = {f"%ntid.{axis}": n for axis, n in zip(AXES, shape or (), strict=False)}

    def of(self, address: Term) -> Fingerprint:
        return self.both(address)

    def _atom(self, term: Term) -> Fingerprint:
        name = str(term.value) if term.kind is op.ATOM else ""
        if name in self._sides:
            return self._sides[name], self._sides[name]
        # Sizes of the grid are numbered by name, not by id: `ranges` writes them by itself, and its
        # atom need not be the one of the trace.
        sized = name in SIZES
        exponent = int.from_bytes(name.encode(), "big") if sized else term.id + 1
        number = pow(_ROOT, exponent, _PRIME)
        return number, number


class ClassFingerprints(_Evaluation):
    """Those of classes of addresses: addresses have the same if the polynomials of
    `emulator.affine` differ in nothing but the constant and what has `%tid.x` or `%laneid` in it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._classes: dict[Items, int] = {}

    def of(self, address: Term) -> int:
        _, items = split(address)
        mark = self._classes.get(items)
        if mark is None:
            # Each atom is given two numbers: the difference of the two values has no constant.
            one, other = self.both(address)
            mark = self._classes[items] = (one - other) % _PRIME
        return mark

    def _atom(self, term: Term) -> Fingerprint:
        if is_lane_atom(term):
            return 0, 0
        return pow(_ROOT, term.id + 1, _PRIME), pow(_OTHER_ROOT, term.id + 1, _PRIME)


def _parts(term: Term) -> Iterable[Term]:
    """The parts from which a fingerprint is computed."""
    match term.kind:
        case op.SUM | op.MUL | op.ZEXT | op.SEXT:
            return arguments(term)
        case op.EXTRACT if term.value == 0:
            return arguments(term)
        case op.CONCAT if term.args[1].kind is op.CONST:
            return term.args[:1]
    return ()
