"""The paths of the second text between two cuts, run with what the first text's paths show.

What the first text reads by `.nc` is known to be constant for the second, too; where the second
text's shared memory is laid out anew, its accesses are those of the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from functools import cached_property

from ptxsw.terms.node import Term
from ptxsw.validate.cuts import Cut
from ptxsw.validate.layout import shared_places
from ptxsw.validate.memory_ssa import Bytes, known_distance
from ptxsw.validate.path import End, Path, Touch, TouchesBySum, uncovered
from ptxsw.validate.proof_context import ProofContext
from ptxsw.validate.runner import Constant, Runner


class SecondPaths:
    """Runs the second text, and answers about its loads from the first text's paths."""

    def __init__(self, context: ProofContext) -> None:
        self._memory, self._images, self._layout = context.memory, context.images, context.layout
        self._questions, self._prover = context.questions, context.prover
        self._old, self._true = context.old, context.terms.const(1, 1)

    def run(
        self,
        cut: Cut,
        olds: Sequence[Path],
        given: tuple[Term, ...],
        constant: Constant | None = None,
        copies: Set[int] = frozenset(),
    ) -> list[Path]:
        """The paths of the second text; those that come to some copies of the first text's code end
        there, too."""
        runner = cut.new.runner
        if cut.view is not None:
            cut.view.follow(olds)
        informed = Runner(
            runner.cfg, runner.evaluator, self._memory, runner.windows,
            witness=False, constant=constant or self._constant(cut, olds), warp=cut.view,
            origin=self._origin(olds), written=runner.written,
        )  # fmt: skip
        start = Path(cut.new.get, given, cut.new_position)
        return informed.paths(start, self._images.stops | copies)

    def _constant(self, cut: Cut, olds: Sequence[Path]) -> Constant:
        """Which bytes does the first text read by `.nc` whichever path it takes, in this lane or
        in another one of a whole warp, or right behind the path?"""

        # Only what lies at a known distance counts, which is what has the same sum in its address.
        by_sum = {id(path): TouchesBySum(t for t in path.touches if t.nc) for path in olds}

        def read(path: Path, load: Touch, given: Sequence[Term]) -> bool:
            near = by_sum[id(path)].overlapping(load.target)
            own = ((t.target, t.guard) for t in near)
            sure = (self._true, *given).__contains__
            if near and not uncovered(load.target, own, known_distance, sure):
                return True
            asks = load.nc or (self._has_nc and load.mask is not None)
            lent = self._questions.others_read(cut, path, load, given) if asks else None
            if lent is not None and lent.nc:
                return True
            return load.nc and self._has_nc and self._later(cut, path, load, given)

        # On all paths of the first text: when a load of the second is run, it is not yet known
        # which of them it will be compared with.
        return lambda load, given: bool(olds) and all(read(path, load, given) for path in olds)

    @cached_property
    def _has_nc(self) -> bool:
        """Does the first text read anything by `.nc`?"""
        return any("nc" in i.modifiers for i in self._old.cfg.instructions if i.opcode == "ld")

    def _later(self, cut: Cut, path: Path, load: Touch, given: Sequence[Term]) -> bool:
        """Does a path of the first text go on to read these bytes by `.nc`, if it is taken?"""
        if self._prover.contradictory(given, path.conditions):
            return True
        return self._questions.reads_later(cut, path, load, given)

    def _origin(
        self, olds: Sequence[Path]
    ) -> Callable[[Bytes, Sequence[Term], int, int], Bytes] | None:
        """Where what the second text accesses lies in the first one's memory."""
        layout = self._layout
        if layout is None:
            return None
        places = shared_places(olds)
        return lambda target, given, index, size: layout.origin(target, places, given, index, size)


def no_steps(cut: Cut, position: int | None = None) -> Path:
    """A path of no steps: of the first text, or at a position of the second."""
    if position is None:
        at = cut.old_position
        return cut.start(at, cut.conditions, End("cut", at, at))
    return Path(cut.new.get, cut.conditions, position, end=End("cut", position, position))
