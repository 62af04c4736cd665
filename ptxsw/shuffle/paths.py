"""Was the source load made in the same iteration as the load it serves (rule 2)?

Where all paths to a load pass the source, and no cycle lies between, each run of the load has its
own run of the source. Where a path leads around the source, that is a *fork*: the source may still
have been made in the lane whose value is taken.

    if (x < n)     s += a[x];        A, in lane i + 1: made where x + 1 < n
    if (x + 1 < n) s += a[x + 1];    B, in lane i: made where x + 1 < n

A is not on every path to B. But a lane hands a value over at B only, so it came there in the same
iteration of all loops around both, and if it came around A, then the conditions of that way hold in
it. Where they contradict what is known in the lane that takes the value, for each such way, there
is none: the source was made. A way whose own conditions contradict each other is taken by no lane.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

from msgspec import Struct

from ptxsw.changes.claim import Obligation
from ptxsw.changes.plan import Refused
from ptxsw.emulator.trace import Access, Trace
from ptxsw.facts.lane_views import ShiftedLane, needs_rows
from ptxsw.flow.cfg import Cfg
from ptxsw.terms import op
from ptxsw.terms.node import Term, Variance, walk
from ptxsw.terms.origin import Origin
from ptxsw.terms.solver import Proved, Solver

Conditions = tuple[Term, ...]

_LARGEST = 200  # nodes of a condition that is looked at
_NEWEST = 24  # conditions of a way that are looked at
_FAILURES = 8  # so often Z3 may fail before it is asked no more
_MOST_PATHS = 32
_FORKS_TRIED = 4
"""For the loads of one block: more sources that a path leads around are not looked at."""


class Fork(Struct, frozen=True):
    """Where the paths to a load divide, if not all of them pass its source. `start` is the last
    instruction that all of them share. `blocks` are the blocks after it on any path to the load, in
    the same iteration of all loops around it; the load's own block is included."""

    start: int
    blocks: frozenset[int]


class Closed(Struct, frozen=True):
    """The proof that no lane comes around the source. `rows`: it speaks of lanes that lie in one
    row of the block; `loads`: of what was read from memory that others may write."""

    proved: tuple[Obligation, ...]
    rows: bool = False
    loads: bool = False


def find_fork(cfg: Cfg, above: int, below: int) -> Fork | str:
    """The fork for a source in block `above` and a load in block `below`, or why the source may
    not have been made in the same iteration. Both lie in the same loops, no loop lies between."""
    # Up the dominator tree from the source to the first block that dominates the load, too: there
    # the ways part. A register can be set in it only if it holds an instruction.
    around = cfg.loops_around(below)
    start = cfg.idom.get(above, above)
    while not (
        cfg.dominates(start, below)
        and cfg.loops_around(start) == around
        and cfg.blocks[start].end > cfg.blocks[start].start
    ):
        if start == cfg.idom[start]:
            return NOT_ON_EVERY_PATH
        start = cfg.idom[start]
    # The heads of the loops around are barred: to come to one is to begin another iteration.
    ahead = cfg.reached_from(cfg.blocks[above].successors, around)
    if cfg.irreducible or cfg.loops_around(above) != around or below not in ahead:
        return NOT_ON_EVERY_PATH
    back = cfg.reaching([below], around)
    between = ahead & back
    if any(n in between and s in between for n, s in cfg.retreating if s not in around):
        return f"{NOT_ON_EVERY_PATH}, and a loop lies between"
    behind = cfg.reached_from(cfg.blocks[start].successors, around)
    return Fork(cfg.blocks[start].end - 1, frozenset(behind & back))


NOT_ON_EVERY_PATH = "the source load is not on every path to this load"
NOT_TOLD = f"{NOT_ON_EVERY_PATH}, and no condition shows that it was executed"


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


class Bypasses:
    """Asks of one trace whether sources can be bypassed."""

    def __init__(self, trace: Trace, solver: Solver) -> None:
        self._trace, self._terms, self._solver = trace, trace.terms, solver
        self._failures = 0
        self._paths: dict[tuple[int, int], tuple[Conditions, ...] | None] = {}

    def closed(
        self, source: Access, dest: Access, fork: Fork, other: ShiftedLane | None
    ) -> Closed | None:
        """The proof that in the other lane (this one, where there is no other) `source` was made
        if both lanes are at `dest`; None where there is none."""
        paths = self._around(source, dest, fork)
        if paths is None or len(paths) > _MOST_PATHS:
            return None
        # For a copy there is one lane only: the way has to contradict itself, so that no thread
        # takes it.
        views = [v.conditions for v in dest.variants] if other is not None else [frozenset[Term]()]
        answers = [self._contradicted(path, given, other) for path in paths for given in views]
        proofs = [one for one in answers if one is not None]
        if len(proofs) < len(answers):
            return None
        return Closed(
            tuple(claim for one in proofs for claim in one.proved),
            any(one.rows for one in proofs),
            any(one.loads for one in proofs),
        )

    def _around(self, source: Access, dest: Access, fork: Fork) -> tuple[Conditions, ...] | None:
        block_of = self._trace.cfg.block_of
        key = (block_of[source.index], block_of[dest.index])
        if key not in self._paths:
            start = block_of[fork.start]
            self._paths[key] = self._trace.paths_around(start, key[1], key[0], fork.blocks)
        return self._paths[key]

    def _contradicted(
        self, path: Conditions, given: frozenset[Term], other: ShiftedLane | None
    ) -> Closed | None:
        """The proof that no lane comes this way while `given` holds in the lane that asks: first
        without what was read from memory, which other threads may change meanwhile."""
        usable = [c for c in path[-_NEWEST:] if _is_usable(c)]
        own = frozenset(filter(_is_usable, given))
        firm = [c for c in usable if not _is_loaded(c)]
        rows = other is not None and needs_rows(other.mentioned, *usable, *own)
        proved = self._contrary(firm, frozenset(c for c in own if not _is_loaded(c)), other)
        if proved is not None:
            return Closed((proved,), rows)
        proved = self._contrary(usable, own, other) if len(firm) < len(usable) else None
        return None if proved is None else Closed((proved,), rows, loads=True)

    def _contrary(
        self, path: list[Term], given: frozenset[Term], other: ShiftedLane | None
    ) -> Obligation | None:
        """Do the conditions of a way, as the lane that asks sees the other one, contradict what
        it knows, or each other?"""
        terms, moved = self._terms, path
        if other is not None:
            moved = [other(c) for c in path]
            given |= other.exists(*path, *given)
        facts = given.union(moved)
        for fact in moved:
            contrary = terms.not_(fact)
            if contrary in facts or (contrary.kind is op.CONST and contrary.value):
                return Obligation(contrary, frozenset({contrary}))
        if not moved or self._failures >= _FAILURES:
            return None
        claim = terms.not_(reduce(terms.and_, moved))
        if isinstance(self._solver.prove(claim, given), Proved):
            return Obligation(claim, given)
        self._failures += 1
        return None


def _is_usable(condition: Term) -> bool:
    """Each read of a register that nobody has set may find another value."""
    return condition.size <= _LARGEST and not any(
        n.origin is Origin.UNDEFINED for n in walk(condition)
    )


def _is_loaded(condition: Term) -> bool:
    """Does it speak of memory that may be written while the kernel runs?"""
    return any(
        n.kind is op.APPLY and n.value[0][0] == "load" and n.value[1] is Variance.LANE
        for n in walk(condition)
    )
