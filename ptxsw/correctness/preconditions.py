"""What callers have to keep to for a kernel to be right, where nothing in the kernel binds it.

A block that nobody declares, or a parameter that no guard bounds, is a condition of the verdict
that a user can read: "blockDim.x <= 256".
"""

from __future__ import annotations

from collections.abc import Iterable

from ptxsw.correctness.kernel_values import KernelValues
from ptxsw.facts.grid import Grid
from ptxsw.facts.launch_conditions import in_words, name_in_cuda
from ptxsw.facts.number_range import Interval
from ptxsw.terms.node import Term
from ptxsw.terms.polynomial import Monomial, Polynomial
from ptxsw.terms.specials import BLOCKS, THREADS

_NO_LIMIT = (1 << 31) - 2
"""The largest size or the one before it, which the last step of a loop needs: no limit to tell."""


class Preconditions:
    """What has to be so for a kernel to be right, as polynomials that have to be at most 0."""

    def __init__(self, values: KernelValues) -> None:
        self._values = values
        self._needed: dict[Polynomial, None] = {}

    def suppose(self, needs: Iterable[Polynomial]) -> bool:
        """Take polynomials to be at most 0, if each may be so; they have to be whole."""
        grid = self._values.grid
        left = [self._of_grid(need) for need in needs if grid.span(need)[1] > 0]
        if left and self._values.is_launched:
            return False  # all sizes are known
        if any(grid.span(need)[0] > 0 or not _is_told(grid, need) for need in left):
            return False
        self._needed.update(dict.fromkeys(left))
        return True

    def _of_grid(self, need: Polynomial) -> Polynomial:
        """What is needed of a grid of any blocks: `blockDim.x + 512·gridDim.x <= …` of the largest
        ones."""
        grids = [a for a in need.atoms if a.value in BLOCKS]
        for atom in need.atoms if grids else ():
            parted = need.parted(atom)
            if atom.value in THREADS and parted is not None:
                factor, rest = parted
                if factor.number is not None and factor.number > 0:
                    need = rest + factor * self._values.grid.limits(atom)[1]
        return need

    def __str__(self) -> str:
        """Those that do not follow from single sizes among them."""
        most = self._most()
        grid = self._values.grid

        def limits(atom: Term) -> Interval:
            low, high = grid.limits(atom)
            return low, min(high, most.get(atom, high))

        single = [_at_most(atom, number) for atom, number in most.items() if number]
        nothing = {
            self._zero(monomial) for p in self._needed if _is_nothing(p) for monomial, _ in p
        }
        rest = [p for p in self._strictest() if _bound(p) is None and p.span(limits)[1] > 0]
        told = (in_words(p) for p in rest if not _is_nothing(p))
        parts = sorted((*single, *nothing, *told), key=lambda text: (len(text), text))
        return " and ".join(parts)

    def _zero(self, monomial: Monomial) -> str:
        """That a product of sizes is 0; those of a launch never are."""
        small = [a for a in monomial if self._values.grid.limits(a)[0] <= 0]
        return f"{'·'.join(map(name_in_cuda, small))} = 0"

    def as_limit(self) -> str:
        """Up to which sizes all of them hold, in few words: what more the larger side of one allows
        is left out."""
        if not self._needed:
            return ""
        plain = list(dict.fromkeys(map(_without_right_side, self._needed)))
        telling = [p for p in plain if (bound := _bound(p)) is None or bound[1] < _NO_LIMIT]
        plain = telling or plain
        kept = [p for p in plain if not any(q is not p and _implies(q, p) for q in plain)]
        words = sorted({_plain_words(need) for need in kept}, key=lambda text: (len(text), text))
        if len(words) == 1 and _bound(kept[0]) is not None:
            return f"valid up to {words[0].replace(' <= ', ' = ')}"
        return f"valid while {' and '.join(words)}"

    def _strictest(self) -> list[Polynomial]:
        """Of those that differ in a number alone the one that all others follow from."""
        kept: dict[frozenset[tuple[Monomial, int]], Polynomial] = {}
        for need in self._needed:
            other = kept.get(need.varying)
            kept[need.varying] = need if other is None or need.offset > other.offset else other
        return list(kept.values())

    def _most(self) -> dict[Term, int]:
        most: dict[Term, int] = {}
        for need in self._needed:
            bound = _bound(need)
            if bound is not None:
                atom, number = bound
                most[atom] = min(number, most.get(atom, number))
        return most


def _is_nothing(need: Polynomial) -> bool:
    """Is it at most 0 only where each of its products of sizes is 0?"""
    return need.offset == 0 and all(factor > 0 for _, factor in need)


def _without_right_side(need: Polynomial) -> Polynomial:
    """`a·b - 2·a - 9` as `a·b - 9`: at most 0 only where the first is, as no size is negative."""
    kept = [(m, f) for m, f in need if f > 0 or not m]
    return Polynomial.of(kept, need.denominator)


def _implies(one: Polynomial, other: Polynomial) -> bool:
    """Does the second have to be at most 0 where the first is, whatever the sizes are?"""
    return all(factor > 0 for _, factor in one - other)


def _plain_words(need: Polynomial) -> str:
    bound = _bound(need)
    return in_words(need) if bound is None else _at_most(*bound)


def _is_told(grid: Grid, need: Polynomial) -> bool:
    return need.is_whole and all(map(grid.is_shared, need.atoms))


def _bound(need: Polynomial) -> tuple[Term, int] | None:
    """The atom and the number that it must not exceed, if that is what is needed."""
    varying = [(monomial, factor) for monomial, factor in need if monomial]
    if len(varying) != 1 or len(varying[0][0]) != 1 or varying[0][1] < 0:
        return None
    return varying[0][0][0], -need.offset // varying[0][1]


def _at_most(atom: Term, number: int) -> str:
    """A parameter of 32 bits that is at most 2^31 - 1 is no negative number."""
    if atom.width == 32 and number == (1 << 31) - 1:
        return f"{name_in_cuda(atom)} >= 0"
    return f"{name_in_cuda(atom)} <= {number:,}"
