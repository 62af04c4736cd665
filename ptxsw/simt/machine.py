"""The running machine: a chunk of blocks, its fragments, and what brings them forward.

Everything that happens between instructions is here: threads that part and meet again, threads
that wait for others (in `waiting`), threads that end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from ptxsw.errors import Unsupported
from ptxsw.ir import Instruction
from ptxsw.simt.code import Code
from ptxsw.simt.counters import Counters
from ptxsw.simt.floats import NoFunction
from ptxsw.simt.lanes import Bits
from ptxsw.simt.memory import GARBAGE, Place, Region
from ptxsw.simt.program import Program
from ptxsw.simt.races import Races
from ptxsw.simt.recorder import Recorder
from ptxsw.simt.rendezvous import Barriers, WarpRendezvous
from ptxsw.simt.schedule import Schedule
from ptxsw.simt.state import (
    Array,
    Deadlock,
    Fragment,
    Frame,
    Index,
    Join,
    Poison,
    Poisoned,
    Runaway,
    RunError,
    union,
)

if TYPE_CHECKING:
    from ptxsw.simt.async_copies import Copy

_ONE = np.uint32(1)


class Geometry(Struct, frozen=True):
    """Grid and block, in blocks and threads, x first."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]

    @property
    def threads(self) -> int:
        """Of a block."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def padded(self) -> int:
        """Threads of a block with the missing lanes of its last warp."""
        return -(-self.threads // 32) * 32

    @property
    def blocks(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]


class Machine:
    """Blocks `first` to `first + blocks - 1` of a launch."""

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
        self.program, self.geometry, self.first, self.blocks = program, geometry, first, blocks
        self.schedule, self.counters, self.races, self.limit = schedule, counters, races, limit
        self.padded = geometry.padded
        self.threads = blocks * self.padded
        within = np.arange(self.threads, dtype=np.int64) % self.padded
        self.alive = within < geometry.threads
        self.within = within
        self.shared = Region(program.shared_memory(blocks))
        self.local = Region(np.zeros(0, np.uint8))
        self.local_size = 0
        self.local_marks: Array | None = None  # undefined bytes; None: there are none
        self.specials: dict[str, Array] = {}
        self.steps = 0
        self.runnable: list[Fragment] = []
        self.joins: dict[Join, None] = {}  # with threads that have arrived
        self.meetings = WarpRendezvous(self)
        self.barriers = Barriers(self)
        self.printed: list[str] = []
        self.copies: list[Copy] = []
        self.committed = np.zeros(self.threads, np.int64)  # groups of asynchronous copies
        self.alive_bits = self._alive_bits()
        self.recorder: Recorder | None = None

    # ------------------------------------------------------------ places and messages

    def block_of(self, threads: Index) -> Index:
        """Block numbers within the chunk."""
        blocks: Index = threads // self.padded
        return blocks

    def thread_name(self, thread: int) -> str:
        """`thread (1,0,0) of block (0,0,0)`"""
        x, y, _ = self.geometry.block
        gx, gy, _ = self.geometry.grid
        block, t = self.first + thread // self.padded, thread % self.padded
        at = (t % x, t // x % y, t // (x * y))
        of = (block % gx, block // gx % gy, block // (gx * gy))
        return f"thread ({at[0]},{at[1]},{at[2]}) of block ({of[0]},{of[1]},{of[2]})"

    def instruction(self, fragment: Fragment) -> Instruction:
        return fragment.frame.code.instructions[fragment.pc]

    def error(self, kind: type[RunError], fragment: Fragment, thread: int, what: str) -> RunError:
        """An error of one thread at the fragment's instruction."""
        name = self.program.kernel.name
        span = self.instruction(fragment).span
        return kind(f"{name}: {self.thread_name(thread)}: {what}", self.program.module.source, span)

    def poisoned(self, fragment: Fragment, undefined: Array | None, what: str) -> RunError:
        """`undefined` marks threads of the fragment; None: all of them."""
        at = 0 if undefined is None else int(np.flatnonzero(undefined)[0])
        thread = int(fragment.idx[min(at, fragment.count - 1)])
        return self.error(Poisoned, fragment, thread, f"a value nobody defined {what}")

    # ------------------------------------------------------------ registers that are given

    def special(self, name: str, sel: slice | Index) -> Bits:
        """A special register in some threads. Raises ValueError for an unknown one."""
        if name in ("%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo"):
            wide = name in ("%clock64", "%globaltimer")
            self.steps += 1
            value = self.steps >> 32 if name == "%clock_hi" else self.steps
            dtype = np.uint64 if wide else np.uint32
            return Bits(
                np.array([value & (2**64 - 1 if wide else 2**32 - 1)], dtype), 64 if wide else 32
            )
        found = self.specials.get(name)
        if found is None:
            found = self.specials[name] = self._special(name)
        width = 64 if found.dtype == np.uint64 else 32
        return Bits(found if len(found) == 1 else found[sel], width)

    def _special(self, name: str) -> Array:
        geometry, (x, y, z) = self.geometry, self.geometry.block
        gx, gy, gz = geometry.grid
        base, _, part = name.partition(".")
        lane = np.arange(self.threads, dtype=np.uint32) % np.uint32(32)
        block = self.first + np.arange(self.threads) // self.padded
        within = self.within
        parts: dict[str, tuple[Any, Any, Any]] = {
            "%tid": (within % x, within // x % y, within // (x * y)),
            "%ntid": (x, y, z),
            "%ctaid": (block % gx, block // gx % gy, block // (gx * gy)),
            "%clusterid": (block % gx, block // gx % gy, block // (gx * gy)),
            "%nctaid": (gx, gy, gz),
            "%nclusterid": (gx, gy, gz),
            "%cluster_ctaid": (0, 0, 0),
            "%cluster_nctaid": (1, 1, 1),
        }
        single: dict[str, Any] = {
            "%laneid": lane,
            "%warpid": within >> 5,
            "%nwarpid": self.padded >> 5,
            "%lanemask_eq": _ONE << lane,
            "%lanemask_lt": (_ONE << lane) - _ONE,
            "%lanemask_le": ((_ONE << lane) << _ONE) - _ONE,
            "%lanemask_gt": ~(((_ONE << lane) << _ONE) - _ONE),
            "%lanemask_ge": ~((_ONE << lane) - _ONE),
            "%smid": 0, "%nsmid": 1, "%gridid": 1, "%WARP_SZ": 32, "WARP_SZ": 32,
            "%cluster_ctarank": 0, "%cluster_nctarank": 1, "%is_explicit_cluster": 0,
            "%dynamic_smem_size": self.program.shared_size - self.program.static_shared,
            "%total_smem_size": self.program.shared_size,
        }  # fmt: skip
        if base in parts and part in ("x", "y", "z"):
            value = parts[base]["xyz".index(part)]
        elif name in single:
            value = single[name]
        elif base.startswith("%envreg"):
            value = 0
        else:
            raise ValueError(f"special register {name}")
        return np.atleast_1d(np.asarray(value)).astype(
            np.uint64 if name == "%gridid" else np.uint32
        )

    # ------------------------------------------------------------ local memory

    def need_local(self, size: int) -> None:
        """At least `size` bytes of local memory for every thread."""
        if size <= self.local_size:
            return
        new = -(-max(size, 2 * self.local_size) // 16) * 16
        data = np.full((self.threads, new), GARBAGE, np.uint8)
        data[:, : self.local_size] = self.local.data.reshape(self.threads, self.local_size)
        if self.local_marks is not None:
            marks = np.zeros((self.threads, new), np.bool_)
            marks[:, : self.local_size] = self.local_marks.reshape(self.threads, self.local_size)
            self.local_marks = marks.reshape(-1)
        self.local, self.local_size = Region(data.reshape(-1)), new

    def mark_local(self, place: Place, step: int, size: int, poison: Poison) -> None:
        """Bytes of local memory now hold what is undefined, or something defined."""
        if self.local_marks is None:
            if poison is None:
                return
            self.local_marks = np.zeros(len(self.local.data), np.bool_)
        marks: Any = False if poison is None else poison
        if place.which is not None and isinstance(marks, np.ndarray):
            marks = marks[place.which]
        for byte in range(size):
            self.local_marks[place.offsets + step + byte] = marks

    def local_poison(self, place: Place, step: int, size: int) -> Array | None:
        """Which threads would load undefined bytes."""
        if self.local_marks is None or place.region is not self.local:
            return None
        marks = self.local_marks[place.offsets + step]
        for byte in range(1, size):
            marks = marks | self.local_marks[place.offsets + step + byte]
        return marks if marks.any() else None

    def copy_local(self, idx: Index, source: int, target: int, size: int) -> None:
        """Copies bytes within the local windows of some threads, defined or not."""
        for flat in (self.local.data, self.local_marks):
            if flat is not None:
                table = flat.reshape(self.threads, self.local_size)
                table[idx, target : target + size] = table[idx, source : source + size]

    # ------------------------------------------------------------ running

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
                pc = following
        fragment.pc = pc
        self.steps += step
        if self.steps >= self.limit:
            raise self.error(
                Runaway, fragment, int(fragment.idx[0]), f"no end after {self.steps} steps"
            )
        self.schedule.pause(self, fragment)

    # ------------------------------------------------------------ parting and meeting

    def go(self, fragment: Fragment, idx: Index, pc: int) -> None:
        """Some threads of a fragment go on at another place."""
        tag = fragment.tag
        if self.schedule.tracking and tag:
            tag = code_tag(fragment.frame.code, tag, fragment.pc, pc)
        elif self.schedule.tracking:
            tag = code_tag(fragment.frame.code, (), fragment.pc, pc)
        self.runnable.append(Fragment(fragment.frame, pc, idx, fragment.join, tag))

    def part_at(self, fragment: Fragment, meet: int | None) -> None:
        """The fragment's threads are about to part; those that part meet again at `meet`."""
        if meet is None:
            return
        join = fragment.join
        if join is not None and join.frame is fragment.frame and join.pc == meet:
            return  # all of them wait there anyway
        fragment.join = Join(meet, fragment.frame, fragment.count, join)

    def arrive(self, fragment: Fragment) -> None:
        """A fragment has come to where it meets the others it parted from."""
        join = fragment.join
        assert join is not None
        join.pending -= fragment.count
        join.tag = fragment.tag
        if join.pending and not self.schedule.waits():
            self.runnable.append(
                Fragment(join.frame, join.pc, fragment.idx, join.parent, fragment.tag)
            )
            return
        join.arrived.append(fragment.idx)
        self.joins[join] = None
        if not join.pending:
            self.release(join)

    def release(self, join: Join) -> None:
        """Those that have arrived go on; those that have not will come alone."""
        self.joins.pop(join, None)
        if join.arrived:
            idx = union(join.arrived)
            join.arrived = []
            self.runnable.append(Fragment(join.frame, join.pc, idx, join.parent, join.tag))

    def _forget(self, join: Join | None, count: int, until: Join | None) -> None:
        """So many threads will not come to the joins from `join` to before `until`."""
        while join is not None and join is not until:
            join.pending -= count
            if not join.pending:
                self.release(join)
            join = join.parent

    def leave(self, fragment: Fragment, idx: Index) -> None:
        """Threads return from their function, or end with the kernel's."""
        frame = fragment.frame
        if frame.caller is None:
            self.end(fragment, idx)
            return
        join = fragment.join
        while join is not None and join.frame is frame:
            join = join.parent
        assert join is not None  # the call made one
        self._forget(fragment.join, len(idx), join)
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
        self._forget(fragment.join, len(idx), None)
        self.alive_bits = self._alive_bits()
        self.meetings.recheck()
        self.barriers.recheck()

    def _alive_bits(self) -> Array:
        """The lanes of each warp that have not ended."""
        weights = np.uint32(1) << np.arange(32, dtype=np.uint32)
        bits: Array = self.alive.reshape(-1, 32) @ weights
        return bits.astype(np.uint32)

    def _unstick(self) -> None:
        """Nobody can run: whoever waits only for company goes on; else it is a deadlock."""
        self.barriers.release_parts()
        if self.runnable:
            return
        for join in list(self.joins):
            self.release(join)
        if self.runnable:
            return
        stuck = [*self.meetings.stuck(), *self.barriers.stuck()]
        if stuck:
            raise self._deadlock(stuck)

    def _deadlock(self, stuck: list[tuple[Fragment, Index, str]]) -> RunError:
        """Who waits where, a line of the program at a time, the first thread first."""
        groups: dict[tuple[int, str], tuple[Fragment, list[Index]]] = {}
        for fragment, idx, what in stuck:
            groups.setdefault((fragment.pc, what), (fragment, []))[1].append(idx)
        told = [(fragment, union(pieces), key[1]) for key, (fragment, pieces) in groups.items()]
        told.sort(key=lambda entry: int(entry[1][0]))
        text = "; ".join(self._where(*entry) for entry in told[:8])
        fragment, idx, _ = told[0]
        return self.error(Deadlock, fragment, int(idx[0]), f"waits forever: {text}")

    def _where(self, fragment: Fragment, idx: Index, what: str) -> str:
        line = self.program.module.source.line(self.instruction(fragment).span.start)
        who = self.thread_name(int(idx[0]))
        more = f" and {len(idx) - 1} more" if len(idx) > 1 else ""
        return f"line {line}: {who}{more}: {what}"

    def let_others_by(self) -> None:
        """A fragment has run for long while others wait at joins: they need not wait."""
        for join in list(self.joins):
            self.release(join)


def code_tag(
    code: Code, tag: tuple[tuple[int, int], ...], pc: int, target: int
) -> tuple[tuple[int, int], ...]:
    """How often each loop around `target` has been entered anew: the iterations a thread is in."""
    if target >= len(code.instructions):
        return ()
    cfg = code.cfg
    source, block = cfg.block_of[pc], cfg.block_of[target]
    known = dict(tag)
    counts = []
    for header in reversed(cfg.loops_around(block)):
        count = known.get(header, 0)
        if (
            header == block
            and target == cfg.blocks[block].start
            and source in cfg.loops[header].blocks
        ):
            count += 1
        counts.append((header, count))
    return tuple(counts)
