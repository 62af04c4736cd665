"""Was the source load made in the same iteration as the load it serves (rule 2)?

Where all paths to a load pass the source, and no cycle lies between, each run of the load has its
own run of the source. Where a path leads around the source, that is a *fork*: the source may still
have been made, which `bypass` proves from the conditions of the paths.
"""

from __future__ import annotations

from collections.abc import Iterator

from ptxsw.flow.cfg import Cfg
from ptxsw.shuffle.bypass import NOT_ON_EVERY_PATH, Fork, find_fork
from ptxsw.shuffle.refused import Refused

_FORKS_TRIED = 4
"""For the loads of one block: more sources that a path leads around are not looked at."""


class Paths:
    """The paths of one function between two of its loads."""

    def __init__(self, cfg: Cfg, uniform: frozenset[int] = frozenset()) -> None:
        """`uniform` are the instructions of uniform loops: lanes run through what they would have
        gone around."""
        self._cfg, self._uniform = cfg, uniform
        self._between: dict[tuple[int, int], tuple[tuple[range, ...], bool]] = {}
        self._forks: dict[tuple[int, int], Fork | str] = {}
        self._tried: dict[int, int] = {}  # how many forks were looked for, by the load's block

    def same_instance(self, source: int, dest: int) -> Refused | None:
        """Of the positions at which the two loads are made."""
        cfg = self._cfg
        above, below = cfg.block_of[source], cfg.block_of[dest]
        if above == below:
            return None if source <= dest else Refused("the source load comes later")
        fork = self.fork(source, dest)
        if fork is not None:
            return Refused(fork) if isinstance(fork, str) else None
        if cfg.retreating and self._region(above, below)[1]:
            return Refused("a loop lies between the two loads")
        return None

    def fork(self, source: int, dest: int) -> Fork | str | None:
        """Where paths part that pass the source and that do not, or why it may not have been
        made in the same iteration; None where all pass it."""
        cfg = self._cfg
        above, below = cfg.block_of[source], cfg.block_of[dest]
        if cfg.dominates(above, below):
            return None
        if (above, below) not in self._forks:
            tried = self._tried[below] = self._tried.get(below, 0) + 1
            apart = self._uniform.isdisjoint((source, dest))
            fork = find_fork(cfg, above, below) if apart and tried <= _FORKS_TRIED else None
            self._forks[above, below] = fork or NOT_ON_EVERY_PATH
        return self._forks[above, below]

    def _region(self, above: int, below: int) -> tuple[tuple[range, ...], bool]:
        """Instructions of the blocks between two blocks on paths that do not come back to the
        first, and whether such a path may go round a cycle."""
        region = self._between.get((above, below))
        if region is None:
            region = self._between[above, below] = self._find_region(above, below)
        return region

    def _find_region(self, above: int, below: int) -> tuple[tuple[range, ...], bool]:
        # A path that comes back to `above` makes the source again. Only what lies behind the last
        # time counts, so that block is barred.
        cfg = self._cfg
        forward = cfg.reached_from(cfg.blocks[above].successors, {above})
        backward = cfg.reaching([below], {above})
        inside = forward & backward
        cyclic = any(n in inside and s in inside for n, s in cfg.retreating)
        blocks = (cfg.blocks[n] for n in sorted(inside - {below}))
        return tuple(range(b.start, b.end) for b in blocks), cyclic

    def between(self, source: int, dest: int) -> Iterator[range]:
        """Positions of the instructions on any path between two positions; where paths lead around
        the first, of those behind the fork. The loads themselves may be among them: they change
        nothing."""
        cfg = self._cfg
        above, below = cfg.block_of[source], cfg.block_of[dest]
        if above == below:
            yield range(source, dest)
            return
        fork = self.fork(source, dest)
        if isinstance(fork, Fork):
            for block in (cfg.blocks[n] for n in sorted(fork.blocks)):
                yield range(block.start, dest if block.number == below else block.end)
            return
        yield range(source, cfg.blocks[above].end)
        yield from self._region(above, below)[0]
        yield range(cfg.blocks[below].start, dest)
