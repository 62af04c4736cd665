"""What warps ask of a multiprocessor that execute each instruction of a kernel so often.

`iterations` asks for one iteration of a loop, with what is always executed as the least and all of
it as the most; findings for a warp that goes through the whole kernel, its loops weighed. So the
same code has the same account in `predict`, in `check` and on the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ptxsw.analysis.coalescing import LANES, SECTOR
from ptxsw.cost.accesses import AccessFigures
from ptxsw.cost.account import Account, Interval, exactly
from ptxsw.cost.gpu import Gpu
from ptxsw.cost.instructions import Mix, of_ptx
from ptxsw.emulator.trace import Access, Trace

_WORD: Final = 4  # bytes
_NONE: Final = exactly(0.0)


def asked(
    gpu: Gpu,
    trace: Trace,
    accesses: Mapping[int, AccessFigures],
    times: Sequence[float],
    mix: Mix | None = None,
) -> Account:
    """By the position of each instruction, `times` says how often warps execute it; `accesses` are
    their figures. `mix` is of the machine code, where it is known. What may come from the second
    cache, or from memory, is all that is loaded or stored: at least nothing."""
    passes = served = sectors = beyond = _NONE
    for access in trace.accesses:
        often = times[access.index]
        if often:
            own = _of(gpu, access, accesses.get(access.index))
            passes, served = passes + own[0] * often, served + own[1] * often
            sectors, beyond = sectors + own[2] * often, beyond + own[3] * often
    mix = mix or of_ptx(trace.cfg.instructions, times)
    far = Interval(0.0, beyond.high * SECTOR)
    return Account(
        instructions=mix.instructions, pipes=mix.pipes, passes=passes, lanes=served,
        sectors=sectors, l2_bytes=far, dram_bytes=far,
    )  # fmt: skip


def _of(
    gpu: Gpu, access: Access, figures: AccessFigures | None
) -> tuple[Interval, Interval, Interval, Interval]:
    """Passes through the banks; lanes, sectors in the first-level cache, and sectors that may come
    from beyond it."""
    if figures is None:
        return _NONE, _NONE, _NONE, _NONE
    if access.space == "shared":
        # What is copied past the registers (`.cg`) is not kept in the first-level cache.
        return figures.wavefronts, _NONE, _NONE, figures.sectors
    if not gpu.plain_loads and "nc" not in access.instruction.modifiers:
        return _NONE, _NONE, _NONE, figures.sectors  # past the first-level cache
    return _NONE, exactly(lanes(figures.bytes)), figures.sectors, figures.sectors


def lanes(size: int) -> float:
    """Of an access of so many bytes a lane in the first-level cache: one for each 4 bytes."""
    return LANES * max(1.0, size / _WORD)


def between(least: Account, most: Account) -> Account:
    """What is asked for at least and at most, of two accounts of `asked`."""
    pipes = {
        pipe: Interval(least.pipes[pipe].low if pipe in least.pipes else 0.0, count.high)
        for pipe, count in most.pipes.items()
    }
    return Account(
        instructions=_range(least.instructions, most.instructions), pipes=pipes,
        passes=_range(least.passes, most.passes), lanes=_range(least.lanes, most.lanes),
        sectors=_range(least.sectors, most.sectors), l2_bytes=most.l2_bytes,
        dram_bytes=most.dram_bytes,
    )  # fmt: skip


def _range(least: Interval, most: Interval) -> Interval:
    return Interval(least.low, most.high)
