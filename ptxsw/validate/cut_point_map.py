"""Where places of the first text lie in the second, at which of them a comparison ends,
and which of these pairs a proof has reached."""

from __future__ import annotations

from collections.abc import Sequence, Set

from ptxsw.validate.claims import ReadClaim, at_label, is_inequality
from ptxsw.validate.edit_map import EditMap, Pair
from ptxsw.validate.text import Text


class CutPointMap:
    """For each cut, a place where a block of the first text begins, its images: the places in the
    second text that correspond to it. Blocks without one are run through."""

    def __init__(
        self,
        texts: tuple[Text, Text],
        edits: EditMap,
        claims: Sequence[ReadClaim],
    ) -> None:
        self._old, self._new = texts
        cuts = {block.start for block in self._old.cfg.blocks}.union(p for p, _ in edits.inside)
        self.places = {old: new for old, new in edits.images.items() if old in cuts}
        self._claim_labels(claims)
        self._uncut_loops(claims)
        self.stops = frozenset(p for places in self.places.values() for p in places)

    def of(self, position: int) -> frozenset[int]:
        """The images of a position of the first text; none where no comparison ends there."""
        return self.places.get(position, frozenset())

    def begin_together(self) -> bool:
        """May the comparison begin where both texts do? Not where the second runs something before
        the image of the first block."""
        places = self.of(0)
        if places and 0 not in places:
            return False  # a test at entry, say
        self.places[0] = frozenset({0}) | places
        self.stops |= {0}
        return True

    def _claim_labels(self, claims: Sequence[ReadClaim]) -> None:
        """A claim holds where its label stands in the second text, too, and not yet where control
        comes out of a branch to what a rewrite has put before the label."""
        for place in self.places:
            for claim in at_label(claims, self._old.labels(place)):
                label = claim.claim.label.partition("@")[0]  # behind it a number of the first text
                own = {q for q in self.places[place] if label in self._new.labels(q)}
                if own:
                    self.places[place] = frozenset(own)

    def _uncut_loops(self, claims: Sequence[ReadClaim]) -> None:
        """What is claimed of memory in a loop, or of how large values are, is known at its header
        alone. So a comparison goes on from there to the next loop, or out of this one; where
        memory is spoken of, past what stands on the edge."""
        cfg = self._old.cfg
        for header, loop in cfg.loops.items():
            told = at_label(claims, self._old.labels(cfg.blocks[header].start))
            if any(map(is_inequality, told)):
                for number in loop.blocks - cfg.loops.keys():
                    self.places.pop(cfg.blocks[number].start, None)
            if any(claim.is_about_memory for claim in told):
                edges = {b for _, b in loop.exits if len(cfg.predecessors[b]) == 1}
                for number in (loop.blocks | edges) - cfg.loops.keys():
                    self.places.pop(cfg.blocks[number].start, None)
                for _, target in loop.exits:
                    self._at_label(cfg.blocks[target].start)

    def _at_label(self, place: int) -> None:
        """Leave a place only those images where its labels stand, if there are any."""
        labels = self._old.cfg.blocks[self._old.block(place)].labels
        images = self.of(place)
        own = {q for q in images if not set(labels).isdisjoint(self._new.labels(q))}
        if own:
            self.places[place] = frozenset(own)


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
