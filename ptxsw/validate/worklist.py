"""The pairs of places that a proof has reached, and those that are proved.

A segment's proof takes for true what is known of its first pair, and shows the same of the pairs at
its ends. Where an end knows less than its pair was proved with, that pair is open again.
"""

from __future__ import annotations

from collections.abc import Set

from ptxsw.validate.edit_map import Pair


class Worklist:
    """Open pairs, of which the one that control came to last is the next, and proved ones."""

    def __init__(self) -> None:
        self._open: dict[Pair, None] = {}
        self._proved: set[Pair] = set()

    def __bool__(self) -> bool:
        """Is any pair open?"""
        return bool(self._open)

    @property
    def proved(self) -> Set[Pair]:
        """The pairs that were taken, and are not open again."""
        return self._proved

    def take(self) -> Pair:
        """The next pair, which counts as proved from now on: an induction."""
        pair, _ = self._open.popitem()
        self._proved.add(pair)
        return pair

    def come_to(self, pair: Pair) -> None:
        """Control comes to a pair: it is open, unless it is proved."""
        if pair not in self._proved:
            self._open[pair] = None

    def reopen(self, pair: Pair) -> None:
        """Less is known of a pair than when it was proved."""
        if pair in self._proved:
            self._proved.discard(pair)
            self._open[pair] = None
