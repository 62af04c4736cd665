"""Are the bytes the same where two lanes are in one row of a flat index?

A thread `t` that computes `j = t / n` and `i = t - n * j` has its neighbour `i + 1` in the next
lane, unless a row ends between them. No solver can tell where rows end; but a register holds `j`,
and a shuffle tells whether it holds the same in the other lane. What is known by that test is an
equation between the quotients of two lanes; put into the addresses it makes their sums meet.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ptxsw.facts.lane_views import ShiftedLane
from ptxsw.facts.simplifier import Solved, solved
from ptxsw.ptx.ir import Reg
from ptxsw.terms import op
from ptxsw.terms.digits import digits_in, is_digit, is_remainder, unextended
from ptxsw.terms.node import Term, signed, walk
from ptxsw.terms.terms import Terms

_LOOKED_AT = 12  # quotients and remainders of one address


class HeldValue(Struct, frozen=True):
    """A register that holds a quotient or remainder, a sum of some, or a pointer, up to the
    load."""

    reg: Reg
    value: Term


class InsideRow(Struct, frozen=True):
    """The other lane's address in terms of this lane's quotients and remainders. It holds if each
    register of `steps` has in the other lane its value here plus a number, and each pointer of
    `pointers` is the same there."""

    address: Term
    steps: tuple[tuple[Reg, int], ...]
    pointers: tuple[HeldValue, ...] = ()


def inside_row(
    terms: Terms,
    source: Term,
    other: ShiftedLane,
    held: Sequence[HeldValue],
    pointers: Sequence[HeldValue] = (),
) -> InsideRow | None:
    """The address `source` in the other lane, if that lane is in this lane's row. None if the
    address has no quotients or remainders, or no register holds any of them. A quotient that is
    made of others is equated before them: its parts change more often than itself. A loaded
    pointer may differ in the other lane, so pointers are compared, too."""
    tried = _Equations(terms, other)
    steps: list[tuple[Reg, int]] = []
    moved = other(source)
    # `walk` yields arguments first. In reverse, a quotient comes before those it is made of.
    outer_first = [node for node in walk(source) if is_digit(node)][::-1]
    for digit in outer_first[:_LOOKED_AT]:
        there = tried(other(digit))
        held_digit = next((h for h in held if digit in digits_in(h.value)), None)
        if held_digit is None or there is digit or there not in set(walk(moved)):
            continue
        step = tried.equate(held_digit.value)
        if step is not None:
            steps.append((held_digit.reg, step))
            moved = tried(other(source))
    same = []
    for pointer in pointers:
        there = tried(other(pointer.value))
        if there in set(walk(moved)) and tried.equate(pointer.value) is not None:
            same.append(pointer)
            moved = tried(other(source))
    return InsideRow(moved, tuple(steps), tuple(same)) if steps or same else None


class _Equations:
    """The other lane's terms, with equations that express some of them in this lane's terms."""

    def __init__(self, terms: Terms, other: ShiftedLane) -> None:
        self._terms, self._other = terms, other
        self._equations: list[Solved] = []

    def __call__(self, term: Term) -> Term:
        for equation in self._equations:
            term = equation(term)
        return term

    def equate(self, value: Term) -> int | None:
        """Assume from now on that a value in the other lane is the value here plus the returned
        number. None if no term of the other lane can be solved for."""
        terms = self._terms
        step = self._step(value)
        here = terms.add(value, terms.const(step, value.width))
        solution = solved(terms, self(self._other(value)), here)
        if solution is None:
            return None
        self._equations.append(solution)
        return step

    def _step(self, value: Term) -> int:
        """By how much a remainder differs in the other lane of the same row: as much as its
        dividend does."""
        digit = unextended(value)
        if not is_remainder(digit):
            return 0
        whole = digit.args[0]
        grown = self._terms.sub(self(self._other(whole)), whole)
        return signed(grown) if grown.kind is op.CONST else 0
