"""Addresses of all threads of a block, computed: for what bits are shuffled with, as in `t ^ 8`.

Only what the thread's place in the block decides is computed. The rest of the two addresses has to
be the same in both threads, and says nothing then: `s + 4·(t ^ 8)` and `s + 4·t` are compared
without `s`. Where a kernel reads `%tid.x` alone, 1,024 threads stand for the blocks of any size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from math import gcd, prod

from ptxsw.facts.grid import AXES
from ptxsw.facts.thread_views import Dimensions
from ptxsw.ptx.target import MOST_THREADS
from ptxsw.terms.evaluate import Column, column
from ptxsw.terms.node import Term, bottom_up, unknowns, visible_parts
from ptxsw.terms.polynomial import Polynomial
from ptxsw.terms.terms import Terms

_LARGEST = 300  # nodes of what is computed
_MOST_UNITS = 16  # that one access touches


class BlockColumns:
    """The threads of a block of a known shape, or of any block along x."""

    def __init__(
        self,
        terms: Terms,
        threads: Sequence[tuple[int, int, int]],
        chosen: Mapping[Term, Column] | None = None,
    ) -> None:
        """`chosen` are values of other unknowns, one for each thread or one for all."""
        self._terms, self.threads = terms, threads
        self._memo: dict[Term, Column] = {
            terms.special(f"%tid.{axis}"): tuple([thread[at] for thread in threads])
            for at, axis in enumerate(AXES)
        }
        self._memo.update(chosen or {})
        self._places = frozenset(self._memo)

    @classmethod
    def of(cls, terms: Terms, dimensions: Dimensions) -> BlockColumns | None:
        """None where the threads that a block may have are not known."""
        if dimensions.shape is not None:
            return cls(terms, threads_of(dimensions.shape))
        if set(dimensions.block) <= {"x"}:
            return cls(terms, threads_of((MOST_THREADS, 1, 1)))
        return None

    def where(self, chosen: Mapping[Term, int]) -> BlockColumns:
        """The same threads where some unknowns have values."""
        columns = BlockColumns(self._terms, self.threads, {t: (v,) for t, v in chosen.items()})
        columns._memo = {**self._memo, **columns._memo}
        return columns

    def is_told(self, term: Term) -> bool:
        """Does a thread's place decide a value?"""
        return term.size <= _LARGEST and self._places.issuperset(unknowns(term))

    def values(self, term: Term) -> Column:
        for node in bottom_up(self._memo, visible_parts, term):
            self._memo[node] = column(node, [self._memo[arg] for arg in node.args])
        return self._memo[term]

    def of_each(self, term: Term) -> Column:
        """A value for each thread, also where all have one."""
        found = self.values(term)
        return found * len(self.threads) if len(found) == 1 else found

    def taking(self, conditions: Iterable[Term]) -> list[bool]:
        """Which threads meet those of the conditions that their place decides."""
        takes = [True] * len(self.threads)
        for condition in conditions:
            if self.is_told(condition):
                met = self.of_each(condition)
                takes = [a and bool(b) for a, b in zip(takes, met, strict=True)]
        return takes

    def groups(self, values: Sequence[Term]) -> Sequence[object] | None:
        """For each thread which of its others it is not told apart from: those of the same group;
        None where its place does not say."""
        if not all(map(self.is_told, values)):
            return None
        return list(zip(*map(self.of_each, values), strict=True))

    def parted(self, offset: Polynomial) -> tuple[list[int], Polynomial]:
        """The part of an address that a thread's place decides, for each thread, and the rest. The
        polynomial is whole."""
        total, rest = [0] * len(self.threads), []
        for monomial, factor in offset:
            if all(map(self.is_told, monomial)):
                columns = map(self.of_each, monomial)
                products = map(prod, zip(*columns, strict=True)) if monomial else repeat(1)
                total = [a + factor * b for a, b in zip(total, products, strict=False)]
            else:
                rest.append((monomial, factor))
        return total, Polynomial.of(rest)


def threads_of(shape: tuple[int, int, int]) -> list[tuple[int, int, int]]:
    """The threads of a block in their order, at most 1,024."""
    x, y, _ = shape
    return [(n % x, n // x % y, n // (x * y)) for n in range(min(prod(shape), MOST_THREADS))]


def collisions(
    first: Mapping[int, int],
    second: Mapping[int, int],
    sizes: tuple[int, int],
    width: int,
    groups: Sequence[object] | None = None,
) -> Iterator[tuple[int, int]] | None:
    """Pairs of threads of different groups, or of any two, of which the first touches a byte that
    the second touches, too. Both are given as where a thread begins, by thread. None where that
    would take long."""
    size, other_size = sizes
    unit = gcd(size, other_size, *_steps((*first.values(), *second.values())))
    if max(size, other_size) // unit > _MOST_UNITS:
        return None
    of = groups if groups is not None else range(MOST_THREADS)
    return _pairs(first, size, second, other_size, unit, 1 << width, of)


def _steps(starts: Sequence[int]) -> Iterator[int]:
    return (start - starts[0] for start in starts)


def _pairs(
    first: Mapping[int, int], size: int, second: Mapping[int, int], other_size: int, unit: int,
    top: int, of: Sequence[object],
) -> Iterator[tuple[int, int]]:  # fmt: skip
    owners: dict[int, list[int]] = {}
    for thread, start in first.items():
        for at in range(0, size, unit):
            known = owners.setdefault((start + at) % top, [])
            if len(known) < 2 and (not known or of[known[0]] != of[thread]):
                known.append(thread)
    for thread, start in second.items():
        for at in range(0, other_size, unit):
            for other in owners.get((start + at) % top, ()):
                if of[other] != of[thread]:
                    yield other, thread
