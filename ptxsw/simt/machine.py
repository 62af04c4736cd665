"""The running machine: a chunk of blocks, its fragments, and what brings them forward.

Everything that happens between instructions is here: threads that part and meet again, threads
that wait for others (in `rendezvous`), threads that end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ptxsw.ptx.errors import Unsupported
from ptxsw.ptx.ir import Instruction, Mem, Reg, Symbol, flatten, leaves
from ptxsw.simt.chunk import Chunk, Error, Geometry
from ptxsw.simt.code import Code
from ptxsw.simt.counters import Counters
from ptxsw.simt.floats import NoFunction
from ptxsw.simt.memory import FIRST, SHARED, WINDOW
from ptxsw.simt.program import Program
from ptxsw.simt.races import Races
from ptxsw.simt.rendezvous import Barriers, Stuck, WarpRendezvous
from ptxsw.simt.schedule import Schedule
from ptxsw.simt.state import Deadlock, Fragment, Frame, Index, Livelock, Runaway, union
from ptxsw.simt.threads import Threads, code_tag

_LATER = "waits for what {} blocks that have not begun may change"


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
        self.waiting_blocks = 0  # that begin when these have ended, or are not run at all
        self.meetings = WarpRendezvous(self)
        self.barriers = Barriers(self)

    def run(self) -> None:
        """Until all threads have ended."""
        kernel = self.program.codes[self.program.kernel.name]
        idx = np.flatnonzero(self.alive)
        frame = Frame(kernel, self.threads, len(idx), 0)
        self.need_local(kernel.size)
        self.spinning.due += self.steps
        self.runnable = self.schedule.begin(Fragment(frame, 0, idx, None))
        while self.runnable:
            fragment = self._next()
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

    def _next(self) -> Fragment:
        """The fragment that the schedule wants, or one that does what it has not done before."""
        fragment = self.schedule.pick(self.runnable)
        spinning = self.spinning
        while spinning.watching and spinning.all_back(fragment):
            if self.has_changed():
                spinning.end(self, self.steps)
                break
            others = (at for at, f in enumerate(self.runnable) if not spinning.all_back(f))
            at = next(others, None)
            if at is not None:
                self.runnable[at], fragment = fragment, self.runnable[at]
                break
            self.runnable.append(fragment)
            self._unstick()
            fragment = self.runnable.pop()
        return fragment

    def _advance(self, fragment: Fragment) -> None:
        """Runs a fragment until it ends as such or its turn is over."""
        frame, pc = fragment.frame, fragment.pc
        code = frame.code
        ops, threads, warps = code.ops, code.threads, code.warps
        join = fragment.join
        meet = join.pc if join is not None and join.frame is frame else -1
        budget = min(self.schedule.turn(), self.limit - self.steps)
        tracking = self.schedule.tracking
        count, groups = fragment.count, len(fragment.warps)
        step = 0
        for step in range(1, budget + 1):
            if pc == meet:
                fragment.pc = pc
                self.steps += step
                self.arrive(fragment)
                return
            if pc >= len(ops):  # running off the end is a return
                fragment.pc = len(ops) - 1
                self.steps += step
                self.leave(fragment, fragment.idx)
                return
            fragment.pc = pc
            threads[pc] += count
            warps[pc] += groups
            following = ops[pc](self, fragment)
            if following is None:
                pc += 1
            elif following < 0:
                self.steps += step
                return
            else:
                if tracking:
                    fragment.tag = code_tag(code, fragment.tag, pc, following)
                back, pc = following <= pc, following
                if back and self.steps + step >= self.spinning.due:
                    fragment.pc = pc
                    if self.spinning.jumped(self, self.steps + step, fragment, pc):
                        break
        fragment.pc = pc
        self.steps += step
        if self.steps >= self.limit:
            raise self.error(
                Runaway, fragment, int(fragment.idx[0]), f"no end after {self.steps} steps"
            )
        self.schedule.pause(self, fragment)

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
        """Nobody can run who changes anything: whoever waits only for company goes on; else it is a
        deadlock."""
        running = len(self.runnable)
        self.barriers.release_parts()
        if len(self.runnable) == running:
            self.let_others_by()
        if len(self.runnable) > running:
            return
        stuck = [*self._spinning(), *self.meetings.stuck(), *self.barriers.stuck()]
        if running and self.waiting_blocks:
            raise self._stuck(Runaway, _LATER.format(self.waiting_blocks), stuck)
        if stuck:
            error = self._stuck(Livelock if running else Deadlock, "waits forever", stuck)
            error.waiting = tuple(self.place(f, int(idx[0])) for f, idx, _ in stuck)
            error.lanes = bool(self.meetings.tables)
            raise error

    def _spinning(self) -> Iterator[Stuck]:
        """The threads that could run, in loops that go on for ever."""
        for fragment in self.runnable:
            for part in self.spinning.places(fragment):
                yield part, part.idx, SPINS

    def _stuck(self, kind: type[Error], lead: str, stuck: list[Stuck]) -> Error:
        """Who waits where, a line of the program at a time, the first thread first."""
        groups: dict[tuple[int, str], tuple[Fragment, list[Index]]] = {}
        for fragment, idx, what in stuck:
            groups.setdefault((fragment.pc, what), (fragment, []))[1].append(idx)
        waiting = [(fragment, union(pieces), key[1]) for key, (fragment, pieces) in groups.items()]
        waiting.sort(key=lambda entry: int(entry[1][0]))
        text = "; ".join(self._where(*entry) for entry in waiting[:8])
        fragment, idx, _ = waiting[0]
        return self.error(kind, fragment, int(idx[0]), f"{lead}: {text}")

    def _where(self, fragment: Fragment, idx: Index, what: str) -> str:
        line = self.program.module.source.line(self.instruction(fragment).span.start)
        who = self.thread_name(int(idx[0]))
        more = f" and {len(idx) - 1} more" if len(idx) > 1 else ""
        what = spins(self, fragment, int(idx[0])) if what == SPINS else what
        return f"line {line}: {who}{more}: {what}"


SPINS = "spins, and nothing changes what it does"
_POLLS = {"volatile", "relaxed", "acquire", "mmio"}


def spins(chunk: Chunk, fragment: Fragment, thread: int) -> str:
    """What a thread does at the head of a loop that goes on for ever, and what it waits for."""
    code = fragment.frame.code
    loop = list(_loop(code, fragment.pc))
    reads = [one for one in loop if _reads(one)]
    if not reads:
        return SPINS
    asked = [one for one in reads if one.opcode == "atom" or _POLLS & {*one.modifiers}]
    read = (asked or reads)[0]
    line = code.source.line(read.span.start)
    place = _place(chunk, fragment, loop, read, thread)
    return f"spins, and nothing changes what it reads at line {line}{place}"


def _loop(code: Code, head: int) -> Iterator[Instruction]:
    cfg = code.cfg
    loop = cfg.loops.get(cfg.block_of[head])
    for number in sorted(loop.blocks) if loop is not None else ():
        block = cfg.blocks[number]
        yield from code.instructions[block.start : block.end]


def _reads(instruction: Instruction) -> bool:
    shared = {"param", "local"}.isdisjoint(instruction.modifiers)
    return instruction.opcode in ("ld", "ldu", "atom") and shared


def _place(
    chunk: Chunk, fragment: Fragment, loop: list[Instruction], read: Instruction, thread: int
) -> str:
    """Where it reads, after a colon; nothing where that moves in the loop."""
    code, memory = fragment.frame.code, read.operands[1]
    if not isinstance(memory, Mem):
        return ""
    if isinstance(memory.base, Symbol):
        address = code.address(memory.base)[0]
    elif isinstance(memory.base, Reg):
        written = {leaf for one in loop for leaf in leaves(flatten(one.operands[:1]))}
        values = fragment.frame.values[code.slot(memory.base)]
        if memory.base in written or values is None:
            return ""
        address = int(values[thread])
    else:
        return ""
    address = (address + memory.offset) % (1 << 64)
    if SHARED <= address < SHARED + WINDOW or (address < FIRST and "shared" in read.modifiers):
        return f": byte {address % WINDOW} of shared memory"
    return f": {chunk.program.arena.named(address)}"
