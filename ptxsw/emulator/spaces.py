"""Which state space a generic address lies in.

Global memory lies in the generic space where it lies in its own; shared, local and constant
memory are windows of it, at addresses that `cvta` adds and `cvta.to` takes off (manual 9.7.9.20
and 6.4.1.1). An address with such a window in its sum, or with a variable of known space, is in
that space as far as arithmetic on pointers stays in the object it began in. Where something else
in the sum may be a pointer as well, nothing is said.
"""

from __future__ import annotations

from collections.abc import Container

from ptxsw.terms import op
from ptxsw.terms.node import Term, Variance, split
from ptxsw.terms.origin import POINTERS, Origin
from ptxsw.terms.terms import Terms

_NUMBERS = op.QUOTIENTS | op.SHIFTS | {op.MUL}
_POINTER = 64  # bits


class Spaces:
    """Windows and pointers of one function."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._windows: dict[Term, str] = {}
        self._pointers: dict[Term, str] = {}
        self._memo: dict[Term, tuple[str, Term]] = {}

    def window(self, space: str, width: int) -> Term:
        """Where a space begins in the generic one. Local memory is another in each thread."""
        variance = Variance.LANE if space == "local" else Variance.UNIFORM
        atom = self._terms.atom(f"window({space})", width, variance, None, Origin.WINDOW, (space,))
        self._windows[atom] = space
        return atom

    def points(self, pointer: Term, space: str) -> Term:
        """Note that an atom is an address in `space`."""
        self._pointers[pointer] = space
        return pointer

    def resolve(self, address: Term) -> tuple[str, Term]:
        """The space of a generic address and the address in that space; ("generic", address)
        where it is not known."""
        place = self._memo.get(address)
        if place is None:
            place = self._memo[address] = self._resolve(address)
        return place

    def _resolve(self, address: Term) -> tuple[str, Term]:
        bases = [t for t, coefficient in split(address)[1] if coefficient == 1]
        windows = [t for t in bases if t in self._windows]
        told = {self._windows[t] for t in windows}
        others = {self._pointers.get(t) for t in bases if t in self._pointers or may_point(t)}
        if len(windows) == 1 and others <= told:
            return self._windows[windows[0]], self._terms.sub(address, windows[0])
        if not windows and others in ({"global"}, {"param"}):
            return str(others.pop()), address
        return "generic", address


def may_point(term: Term) -> bool:
    """May an item of a sum be a pointer? Numbers that the hardware gives, and counts of iterations,
    are none."""
    return term.origin in POINTERS


def may_hold_pointer(term: Term, numbers: Container[Term] = ()) -> bool:
    """May an item of a sum be a pointer, or one of several? Products and quotients are none, nor
    is what was extended from fewer bits, conditions by which something is chosen, counts of
    iterations, and what is in `numbers`."""
    stack, seen = [term], {term}
    while stack:
        node = stack.pop()
        if node in numbers or node.kind in _NUMBERS or node.width == 1:
            continue
        if node.kind in op.OPAQUE and node.width == _POINTER and not _is_count(node):
            return True
        new = [arg for arg in node.args if arg not in seen]
        seen.update(new)
        stack.extend(new)
    return False


def _is_count(term: Term) -> bool:
    """Is it the number of an iteration of some loop?"""
    return term.origin in (Origin.ITERATION, Origin.LAST_ITERATION)
