"""Bytes of bulk copies and TMA: what a thread that issues them has the second-level cache move.

    cp.async.bulk.shared::cluster.global... [dst], [src], 4096, [bar];        4096 bytes
    mbarrier.arrive.expect_tx.shared.b64 _, [bar], 32768;                     32768 bytes of what
    cp.async.bulk.tensor.2d.shared::cluster.global... [dst], [map, ...], [bar];   arrives there

The box of a tensor copy is in its tensor map, which the text does not have. But whoever waits for
copies has said on their mbarrier how many bytes will come.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import Final, NamedTuple

from ptxsw.analysis.coalescing import LANES
from ptxsw.cost.account import Interval, exactly
from ptxsw.cost.tensor import GROUP, Value, on_heaviest_path
from ptxsw.flow.cfg import Cfg
from ptxsw.ptx.ir import Instruction
from ptxsw.ptx.target import MOST_THREADS

_SHARED: Final = frozenset({"shared::cluster", "shared::cta"})
_OTHERS: Final = frozenset({"prefetch", "reduce"})  # of what `cp` does in bulk


class BulkBytes(NamedTuple):
    """Bytes between shared memory and the second-level cache, for each warp that shares them and of
    the block, and what of them is not known."""

    bytes: Interval
    of_block: Interval
    unmodelled: tuple[str, ...]


def bulk_bytes(cfg: Cfg, blocks: Sequence[int], value: Value, threads: int | None) -> BulkBytes:
    """Of some blocks of PTX, executed once by the warp that issues the copies: at least those on
    the path with most of them. Warps that multiply what is copied share it: four of a `wgmma`, of a
    `mma` those of the block, which has so many threads."""
    code = [list(_of_block(cfg, block)) for block in blocks]
    every = [one for block in code for one in block]
    copies = [one for one in every if _is_bulk(one)]
    announced = [one for one in every if "expect_tx" in one.modifiers]
    told = bool(announced) and all(value(one.operands[-1]) is not None for one in announced)
    warps = _sharing({one.opcode for one in every}, threads)

    def count(instruction: Instruction) -> float:
        """What one instruction says, each byte once."""
        if "expect_tx" in instruction.modifiers:
            return float(value(instruction.operands[-1]) or 0) if told else 0.0
        if not _is_bulk(instruction) or (told and _is_load(instruction)):
            return 0.0
        return float(_size(instruction, value) or 0)

    sums = {at: sum(map(count, block)) for at, block in zip(blocks, code, strict=True)}
    unknown = dict.fromkeys(
        one.name for one in copies if _size(one, value) is None and not (told and _is_load(one))
    )
    alone = not any("multicast::cluster" in one.modifiers for one in copies)
    least = on_heaviest_path(cfg, blocks, sums) if alone else 0.0  # blocks share what is multicast
    every_byte = Interval(least, sum(sums.values()))
    names = tuple(f"the bytes of {name}" for name in unknown)
    return BulkBytes(every_byte / warps, every_byte, names)


def _sharing(opcodes: Set[str], threads: int | None) -> Interval:
    """How many warps share what one of them copies."""
    if "wgmma" in opcodes:
        return exactly(float(GROUP))
    if not opcodes & {"mma", "wmma"}:
        return exactly(1.0)
    most = MOST_THREADS if threads is None else threads
    return Interval(1.0 if threads is None else -(-most // LANES), -(-most // LANES))


def _of_block(cfg: Cfg, block: int) -> Iterator[Instruction]:
    yield from cfg.instructions[cfg.blocks[block].start : cfg.blocks[block].end]


def _size(copy: Instruction, value: Value) -> int | None:
    """What a copy itself says, in bytes."""
    return None if "tensor" in copy.modifiers else value(copy.operands[2])


def _is_bulk(instruction: Instruction) -> bool:
    modifiers = instruction.modifiers
    moves = "global" in modifiers and _OTHERS.isdisjoint(modifiers)
    return instruction.opcode == "cp" and "bulk" in modifiers and moves


def _is_load(copy: Instruction) -> bool:
    """Is shared memory named first, as where a copy goes to?"""
    return next(m for m in copy.modifiers if m in _SHARED or m == "global") in _SHARED
