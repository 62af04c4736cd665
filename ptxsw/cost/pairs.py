"""Which stretch of one text stands for which of another text of the same kernel.

Loops that keep their label are the same loop. What stands between two of them is paired in order:
there a rewrite gave new labels. What cannot be paired is compared with nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from ptxsw.cost.iterations import Stretch


class StretchPair(NamedTuple):
    """The numbers of two stretches, each among those of its text."""

    one: int
    other: int


def pairs(ones: Sequence[Stretch], others: Sequence[Stretch]) -> tuple[StretchPair, ...]:
    """The stretches that stand for each other, in order."""
    labels = [one.label for one in ones], [other.label for other in others]
    matcher = SequenceMatcher(None, *labels, autojunk=False)
    found: list[StretchPair] = []
    for _, start, end, first, last in matcher.get_opcodes():
        if end - start == last - first:
            found += map(StretchPair, range(start, end), range(first, last))
    return tuple(found)


def unlike(
    ones: Sequence[Stretch], others: Sequence[Stretch]
) -> tuple[frozenset[int], frozenset[int]]:
    """Accesses, by their positions in either text, of which nothing may be taken to be known: what
    is not known of an access in one text is known in neither. Two are the same if they are of one
    kind, and their loops have as many of it."""
    lost: tuple[set[int], set[int]] = set(), set()
    for pair in pairs(ones, others):
        one, other = ones[pair.one], others[pair.other]
        kinds = _by_kind(one), _by_kind(other)
        for kind in kinds[0].keys() & kinds[1].keys():
            if len(kinds[0][kind]) != len(kinds[1][kind]):
                continue
            for first, second in zip(kinds[0][kind], kinds[1][kind], strict=True):
                if (first in one.unmeasured) != (second in other.unmeasured):
                    lost[0].add(first)
                    lost[1].add(second)
    return frozenset(lost[0]), frozenset(lost[1])


def _by_kind(stretch: Stretch) -> dict[str, list[int]]:
    kinds = defaultdict[str, list[int]](list)
    for index, name in stretch.accesses:
        kinds[name].append(index)
    return kinds
