"""Fewer resident blocks by dynamic shared memory that nobody uses, which a launch can ask for.

Orion lowers the occupancy of a kernel so, without other code. A kernel may be faster for it, where
what its threads come back to then stays in the first-level cache. Padding takes memory from that
cache, too, so only a measurement can say.

Source: A. Hayes et al., "Orion: A Framework for GPU Occupancy Tuning", Middleware 2016, section
3.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ptxsw.cost import cubin
from ptxsw.cost.occupancy import UnknownTarget, limits, occupancy
from ptxsw.gpu.driver import image
from ptxsw.gpu.problem import PreparedLaunch
from ptxsw.ptx.patterns import pattern
from ptxsw.toolchain.ptxas import AssemblyError

_SHARES: Final = (2, 4, 8)
"""Of the blocks that are resident without padding, one in so many."""
_ASKS_FOR_SIZES: Final = pattern(r"%(dynamic|total)_smem_size|\.extern\s[^;]*\.shared\b")


def steps_down(
    arch: str, *, threads: int, registers: int, shared: int
) -> Iterator[tuple[int, int]]:
    """Resident blocks and bytes of shared memory of a block, of such a kernel with more and more of
    that: one block fewer each time, the least bytes with which it is so. Raises UnknownTarget."""
    most = limits(arch).block_shared
    while True:
        resident = occupancy(arch, block_threads=threads, registers=registers, shared=shared)
        more = (
            step
            for step in resident.next_steps
            if step.resource == "shared" and step.blocks < resident.blocks
        )
        step = next(more, None)
        if resident.blocks <= 1 or step is None or step.at > most:
            return
        shared = step.at
        yield step.blocks, shared


def paddings(text: str, kernel: str, launch: PreparedLaunch, arch: str) -> tuple[int, ...]:
    """Bytes of dynamic shared memory with which half of the blocks, a quarter and an eighth are
    resident. None where the launch passes some itself, the kernel asks how much there is, or ptxas
    cannot say what it needs."""
    if launch.shared or _ASKS_FOR_SIZES.search(text):
        return ()
    try:
        functions = cubin.read(image(text, arch)).functions
        code = next(function for function in functions if function.name == kernel)
        x, y, z = launch.block
        threads, registers, shared = x * y * z, code.registers, code.shared
        now = occupancy(arch, block_threads=threads, registers=registers, shared=shared).blocks
        steps = dict(steps_down(arch, threads=threads, registers=registers, shared=shared))
    except (AssemblyError, cubin.BadCubin, StopIteration, UnknownTarget):
        return ()
    wanted = dict.fromkeys(now // share for share in _SHARES)
    return tuple(steps[blocks] - shared for blocks in wanted if blocks in steps)
