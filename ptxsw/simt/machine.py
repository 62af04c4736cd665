"""The running machine: a chunk of blocks, its fragments, and what brings them forward.

Everything that happens between instructions is here: threads that part and meet again, threads
that wait for others (in `rendezvous`), threads that end.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptxsw.errors import Unsupported
from ptxsw.simt.chunk import Geometry
from ptxsw.simt.counters import Counters
from ptxsw.simt.floats import NoFunction
from ptxsw.simt.program import Program
from ptxsw.simt.races import Races
from ptxsw.simt.rendezvous import Barriers, WarpRendezvous
from ptxsw.simt.schedule import Schedule
from ptxsw.simt.spinning import FIRST_LOOK, spins
from ptxsw.simt.state import (
    Deadlock,
    Fragment,
    Frame,
    Index,
    Livelock,
    Runaway,
    RunError,
    union,
)
from ptxsw.simt.threads import Threads, code_tag


class Machine(Threads):
    """Blocks `first` to `first + blocks - 1` of a launch, and what brings them to their end."""

    def __init__(
        self,
        program: Program,
        geometry: Geometry,
        first: int,
        blocks: int,
        schedule: Schedule,
        counters: Counters | None,
        races: Races | None,
        limit: int,
    ) -> None:
        super().__init__(program, geometry, first, blocks, schedule, counters, races)
        self.limit = limit
        self.progress: Callable[[int], None] | None = None  # is told how many steps were made
        self.meetings = WarpRendezvous(self)
        self.barriers = Barriers(self)
        self.spun: set[tuple[int, int]] = set()  # first thread and size: they spun at last
        self.quiet: set[tuple[int, int]] = set()  # nobody has done anything but spin since they did

    def run(self) -> None:
        """Until all threads have ended."""
        kernel = self.program.codes[self.program.kernel.name]
        idx = np.flatnonzero(self.alive)
        frame = Frame(kernel, self.threads, len(idx), 0)
        self.need_local(kernel.size)
        self.runnable = self.schedule.begin(Fragment(frame, 0, idx, None))
        while self.runnable:
            fragment = self.schedule.pick(self.runnable)
            if not fragment.whole and fragment.count == fragment.frame.live:
                fragment = fragment.part(fragment.idx)  # the others have ended
            try:
                self._advance(fragment)
            except NoFunction as error:
                why = f"the interpreter cannot compute {error}"
                raise fragment.frame.code.refuse(fragment.pc, why) from error
            except ValueError as error:
                if isinstance(error, Unsupported):
                    raise
                raise fragment.frame.code.refuse(fragment.pc, str(error)) from error
            if not self.runnable:
                self._unstick()
            if self.progress is not None:
                self.progress(self.steps)

    def _advance(self, fragment: Fragment) -> None:
        """Runs a fragment until it ends as such, spins, or its turn is over."""
        who = int(fragment.idx[0]), fragment.count
        if who in self.spun:
            self.spun.discard(who)
            still = spins(self, fragment, self._run_on)
            if still:
                self.spun.add(who)
                self.quiet.add(who)
            else:
                self.quiet.clear()
            if still is not None:
                self.schedule.pause(self, fragment)
            if still and all((int(f.idx[0]), f.count) in self.quiet for f in self.runnable):
                self._unstick()
            return
        self.quiet.clear()
        if self._take_turn(fragment, who):
            self.schedule.pause(self, fragment)

    def _take_turn(self, fragment: Fragment, who: tuple[int, int]) -> bool:
        """Runs it until its turn is over or it is seen to spin; False where it is no more."""
        left, look = self.schedule.turn(), FIRST_LOOK
        while left > look:
            if not self._run_on(fragment, look):
                return False
            left, look = left - look, 2 * look
            spinning = spins(self, fragment, self._run_on)
            if spinning:
                self.spun.add(who)
            if spinning is not False:
                return spinning is True
        return self._run_on(fragment, left)

    def _run_on(self, fragment: Fragment, count: int) -> bool:
        """Runs so many instructions of a fragment; False where it is no more: it has parted, has
        ended, or waits."""
        frame, pc = fragment.frame, fragment.pc
        code = frame.code
        ops, threads, warps = code.ops, code.threads, code.warps
        join = fragment.join
        meet = join.pc if join is not None and join.frame is frame else -1
        budget = min(count, self.limit - self.steps)
        tracking = self.schedule.tracking
        width, groups = fragment.count, len(fragment.warps)
        step = 0
        for step in range(1, budget + 1):
            if pc == meet:
                fragment.pc = pc
                self.steps += step
                self.arrive(fragment)
                return False
            if pc >= len(ops):  # running off the end is a return
                fragment.pc = len(ops) - 1
                self.steps += step
                self.leave(fragment, fragment.idx)
                return False
            fragment.pc = pc
            threads[pc] += width
            warps[pc] += groups
            following = ops[pc](self, fragment)
            if following is None:
                pc += 1
            elif following < 0:
                self.steps += step
                return False
            else:
                if tracking:
                    fragment.tag = code_tag(code, fragment.tag, pc, following)
                pc = following
        fragment.pc = pc
        self.steps += step
        if self.steps >= self.limit:
            raise self.error(
                Runaway, fragment, int(fragment.idx[0]), f"no end after {self.steps} steps"
            )
        return True

    def leave(self, fragment: Fragment, idx: Index) -> None:
        """Threads return from their function, or end with the kernel's."""
        frame = fragment.frame
        if frame.caller is None or self.program.never_returns(frame.code.function.name):
            self.end(fragment, idx)
            return
        join = fragment.join
        while join is not None and join.frame is frame:
            join = join.parent
        assert join is not None  # the call made one
        self.forget(fragment.join, len(idx), join)
        frame.live -= len(idx)
        returning = Fragment(frame.caller, join.pc, idx, join, fragment.tag[:0])
        returning.tag = join.tag
        self.arrive(returning)

    def end(self, fragment: Fragment, idx: Index) -> None:
        """Threads end."""
        self.alive[idx] = False
        frame: Frame | None = fragment.frame
        while frame is not None:
            frame.live -= len(idx)
            frame = frame.caller
        self.forget(fragment.join, len(idx), None)
        self.alive_bits = self._alive_bits()
        self.meetings.recheck()
        self.barriers.recheck()

    def _unstick(self) -> None:
        """Nobody can run, or all that can do spin: whoever waits only for company goes on; else it
        is a deadlock."""
        spinning = len(self.runnable)
        self.barriers.release_parts()
        if len(self.runnable) > spinning:
            return
        for join in list(self.joins):
            self.release(join)
        if len(self.runnable) > spinning:
            return
        stuck = [*self.meetings.stuck(), *self.barriers.stuck()]
        if self.runnable:
            what = "spins, and nothing changes what it reads"
            if self.blocks < self.geometry.blocks:
                what += f" while {self.blocks} of {self.geometry.blocks} blocks run"
            stuck += [(fragment, fragment.idx, what) for fragment in self.runnable]
            raise self._deadlock(Livelock, stuck)
        if stuck:
            raise self._deadlock(Deadlock, stuck)

    def _deadlock(self, kind: type[Deadlock], stuck: list[tuple[Fragment, Index, str]]) -> RunError:
        """Who waits where, a line of the program at a time, the first thread first."""
        groups: dict[tuple[int, str], tuple[Fragment, list[Index]]] = {}
        for fragment, idx, what in stuck:
            groups.setdefault((fragment.pc, what), (fragment, []))[1].append(idx)
        waiting = [(fragment, union(pieces), key[1]) for key, (fragment, pieces) in groups.items()]
        waiting.sort(key=lambda entry: int(entry[1][0]))
        text = "; ".join(self._where(*entry) for entry in waiting[:8])
        fragment, idx, _ = waiting[0]
        return self.error(kind, fragment, int(idx[0]), f"waits forever: {text}")

    def _where(self, fragment: Fragment, idx: Index, what: str) -> str:
        line = self.program.module.source.line(self.instruction(fragment).span.start)
        who = self.thread_name(int(idx[0]))
        more = f" and {len(idx) - 1} more" if len(idx) > 1 else ""
        return f"line {line}: {who}{more}: {what}"
