"""What the first text is sure to read from a place on.

A load may be made before a loop only if the loop would make it in any case. So the first text is
run on from where a comparison ends: every path has to come to the load, before anything that may
wait or end.
"""

from __future__ import annotations

from collections.abc import Sequence

from ptxsw.analysis.instruction_kinds import passes
from ptxsw.facts.equality import Equality
from ptxsw.terms import op
from ptxsw.terms.node import Term
from ptxsw.validate.memory_ssa import known_distance
from ptxsw.validate.path import Path, Touch
from ptxsw.validate.runner import Runner

_MAX_STEPS = 2000  # instructions of all paths
_MAX_PATHS = 32
_MAX_ITERATIONS = 4  # jumps back on a path: what is read for the first time later is rare


class Ahead:
    """Looks ahead from the end of a path of the first text for what reads the bytes of `touch`,
    where `given` holds."""

    def __init__(
        self, equality: Equality, runner: Runner, touch: Touch, given: Sequence[Term]
    ) -> None:
        self._equality, self._runner = equality, runner
        self._touch, self._given = touch, tuple(given)

    def reads(self, old: Path) -> bool:
        """Is the first text, from the end of its path on, certain to read these bytes, by an access
        at least as wide, before anything that may wait or end? Addresses mostly are identical
        terms; only if that does not suffice are different terms compared."""
        if old.end is None or old.end.kind != "cut":
            return False
        # Comparing addresses may ask the solver at every access on the way.
        start = Path(old.get, self._given, old.end.position, forked=True, ahead=True)
        looks = (False,) if self._touch.nc else (False, True)
        return any(self._reads(start.copy(), closely=closely) for closely in looks)

    def _reads(self, start: Path, *, closely: bool) -> bool:
        work, steps, paths = [start], 0, 0
        while work:
            path = work.pop()
            paths += 1
            iterations = 0
            while not self._reached(path, closely=closely):
                steps += 1
                at_end = path.position >= len(self._runner.cfg.instructions)
                # A thread that may wait or end first is not certain to make the access, so making
                # it now could fault.
                stays = any(not passes(event.instruction) for event in path.events)
                if path.end is not None or stays or at_end:
                    return False
                if steps > _MAX_STEPS or paths + len(work) > _MAX_PATHS:
                    return False
                if iterations > _MAX_ITERATIONS:
                    return False
                before = path.position
                fork = self._runner.step(path)
                iterations += path.position <= before
                if fork is not None:
                    if not self._goes_nowhere(fork):
                        work.append(fork)
                    if self._goes_nowhere(path):
                        break
        return True

    def _goes_nowhere(self, path: Path) -> bool:
        return self._equality.prover.contradictory(self._given, path.conditions)

    def _reached(self, path: Path, *, closely: bool) -> bool:
        touch = self._touch
        if not path.touches:
            return False
        last = path.touches[-1]
        if last.guard.kind is not op.CONST or last.target.space != touch.target.space:
            return False
        distance = known_distance(touch.target, last.target)
        if closely and distance is None and last.target.size == touch.target.size:
            same = last.target.place.width == touch.target.place.width and self._equality.same(
                last.target.place, touch.target.place, path.conditions
            )
            distance = 0 if same else None
        if touch.nc and not last.nc:
            return False
        # The wide access is aligned to its size, so a part at a multiple of the part's own size is
        # aligned, too. That is what a load made early has to show beside being mapped.
        size = touch.target.size
        if distance is None or last.target.size % size or distance % size:
            return False
        return 0 <= distance <= last.target.size - size
