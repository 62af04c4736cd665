"""A chunk of blocks that run at once: their threads, special registers and memory."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from msgspec import Struct

from ptxsw.ptx.ir import Instruction
from ptxsw.simt.lanes import Bits
from ptxsw.simt.memory import GARBAGE, MemoryRegion
from ptxsw.simt.program import Program
from ptxsw.simt.state import Array, Fragment, Index, Poisoned, RunError, ThreadPlace, Triple

Error = TypeVar("Error", bound=RunError)

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


class Chunk:
    """Blocks `first` to `first + blocks - 1` of a launch."""

    def __init__(self, program: Program, geometry: Geometry, first: int, blocks: int) -> None:
        self.program, self.geometry, self.first, self.blocks = program, geometry, first, blocks
        self.padded = geometry.padded
        self.threads = blocks * self.padded
        self.within = np.arange(self.threads, dtype=np.int64) % self.padded
        shared = program.shared_memory(blocks)
        self.shared = MemoryRegion(shared, MemoryRegion(np.ones_like(shared)))
        self.local = MemoryRegion(np.zeros(0, np.uint8))
        self.local_size = 0
        self.specials: dict[str, Array] = {}
        self.committed = np.zeros(self.threads, np.int64)  # groups of asynchronous copies
        self.steps = 0
        self.disturbed = False  # an answer depended on time or on what other threads do
        self.unanswered: dict[int, ThreadPlace | None] = {}
        """Threads that a shuffle gave what no lane has brought, and where."""

    # ------------------------------------------------------------ places and messages

    def block_of(self, threads: Index) -> Index:
        """Block numbers within the chunk."""
        blocks: Index = threads // self.padded
        return blocks

    def thread_name(self, thread: int) -> str:
        """`thread (1,0,0) of block (0,0,0)`"""
        at, of = self.indices(thread)
        return f"thread ({at[0]},{at[1]},{at[2]}) of block ({of[0]},{of[1]},{of[2]})"

    def indices(self, thread: int) -> tuple[Triple, Triple]:
        """Those of a thread in its block, and of the block."""
        x, y, _ = self.geometry.block
        gx, gy, _ = self.geometry.grid
        block, t = self.first + thread // self.padded, thread % self.padded
        at = (t % x, t // x % y, t // (x * y))
        return at, (block % gx, block // gx % gy, block // (gx * gy))

    def place(self, fragment: Fragment, thread: int) -> ThreadPlace:
        """A thread at the fragment's instruction."""
        return ThreadPlace(fragment.frame.code.function.name, fragment.pc, *self.indices(thread))

    def instruction(self, fragment: Fragment) -> Instruction:
        return fragment.frame.code.instructions[fragment.pc]

    def error(self, kind: type[Error], fragment: Fragment, thread: int, what: str) -> Error:
        """An error of one thread at the fragment's instruction."""
        name = self.program.kernel.name
        span = self.instruction(fragment).span
        message = f"{name}: {self.thread_name(thread)}: {what}"
        error = kind(message, self.program.module.source, span)
        error.place = self.place(fragment, thread)
        return error

    def poisoned(self, fragment: Fragment, undefined: Array | None, what: str) -> RunError:
        """`undefined` marks threads of the fragment; None: all of them."""
        at = 0 if undefined is None else int(np.flatnonzero(undefined)[0])
        thread = int(fragment.idx[min(at, fragment.count - 1)])
        error = self.error(Poisoned, fragment, thread, f"an undefined value {what}")
        error.absent = self.unanswered.get(thread)
        return error

    # ------------------------------------------------------------ registers that are given

    def special(self, name: str, sel: slice | Index) -> Bits:
        """A special register in some threads. Raises ValueError for an unknown one."""
        if name in ("%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo"):
            wide = name in ("%clock64", "%globaltimer")
            self.steps += 1
            self.disturbed = True
            value = self.steps >> 32 if name == "%clock_hi" else self.steps
            dtype = np.uint64 if wide else np.uint32
            return Bits(
                np.array([value & (2**64 - 1 if wide else 2**32 - 1)], dtype), 64 if wide else 32
            )
        bits = self.specials.get(name)
        if bits is None:
            bits = self.specials[name] = self._special(name)
        width = 64 if bits.dtype == np.uint64 else 32
        return Bits(bits if len(bits) == 1 else bits[sel], width)

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

    # ------------------------------------------------------------ what changes

    def watch_changes(self, begin: bool) -> None:
        """Begins or ends to watch for changes of what threads share."""
        self.disturbed = False
        for region in (self.shared, self.program.arena.region):
            region.watched, region.changed = begin, False

    def has_changed(self) -> bool:
        """Has anything happened that another thread, or the same one later, may notice?"""
        return self.disturbed or self.shared.changed or self.program.arena.region.changed

    # ------------------------------------------------------------ local memory

    def need_local(self, size: int) -> None:
        """At least `size` bytes of local memory for every thread."""
        if size <= self.local_size:
            return
        new = -(-max(size, 2 * self.local_size) // 16) * 16

        def grown(old: MemoryRegion, fill: int) -> MemoryRegion:
            data = np.full((self.threads, new), fill, np.uint8)
            data[:, : self.local_size] = old.data.reshape(self.threads, self.local_size)
            return MemoryRegion(data.reshape(-1))

        marks = grown(self.local.marks or self.local, 0xFF)  # nobody has written what is new
        self.local, self.local_size = grown(self.local, GARBAGE), new
        self.local.marks = marks

    def local_rows(self, idx: Index) -> Array:
        """A row for each thread: the bytes of its local memory, and the marks of undefined ones."""
        rows = self.local.data.reshape(self.threads, self.local_size)[idx]
        if self.local.marks is None:
            return np.concatenate([rows, np.zeros_like(rows)], axis=1)
        marks = self.local.marks.data.reshape(self.threads, self.local_size)[idx]
        return np.concatenate([rows, marks], axis=1)

    def copy_local(self, idx: Index, source: int, target: int, size: int) -> None:
        """Copies bytes within the local windows of some threads, defined or not."""
        for region in (self.local, self.local.marks):
            if region is not None:
                table = region.data.reshape(self.threads, self.local_size)
                table[idx, target : target + size] = table[idx, source : source + size]
