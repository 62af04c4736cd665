"""Four accessors of a byte say as much as all of them."""

from __future__ import annotations

import random

import numpy as np
import pytest

from ptxsw.simt.accessors import Accessors, ByteAccesses

WARP, BLOCK, THREADS, BYTES = 32, 64, 192, 3


class Everyone:
    """All accesses that there have been, by byte."""

    def __init__(self) -> None:
        self.accesses: list[tuple[int, int, int, int]] = []  # byte, thread, epochs

    def racing(self, byte: int, thread: int, epoch: int, warp_epoch: int) -> bool:
        for other_byte, other, then, warp_then in self.accesses:
            if other_byte != byte or other == thread:
                continue
            in_order = other // BLOCK == thread // BLOCK and epoch > then
            in_order |= other // WARP == thread // WARP and warp_epoch > warp_then
            if not in_order:
                return True
        return False


class Clocks:
    """Blocks and warps meet at random, some warps of a block without the others."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.epoch, self.warp_epoch = np.zeros(THREADS, np.int64), np.zeros(THREADS, np.int64)

    def meet(self) -> None:
        warp = self.chance.randrange(THREADS // WARP)
        lanes = np.arange(warp * WARP, (warp + 1) * WARP)
        if self.chance.random() < 0.5:
            self.warp_epoch[lanes] += 1
            return
        if self.chance.random() < 0.7:
            block = warp * WARP // BLOCK
            lanes = np.arange(block * BLOCK, (block + 1) * BLOCK)
        self.epoch[lanes] = self.epoch[lanes].max() + 1


@pytest.mark.parametrize("seed", range(60))
def test_any_order_of_accesses(seed: int) -> None:
    chance = random.Random(seed)
    kept, everyone, clocks = Accessors(BYTES, BLOCK), Everyone(), Clocks(chance)
    for _ in range(25):
        if chance.random() < 0.5:
            clocks.meet()
        few = sorted(chance.sample(range(THREADS), chance.choice((1, 2, 5, 64))))
        idx, at = np.array(few), np.array([chance.randrange(BYTES) for _ in few])
        time = clocks.epoch[idx] << 32 | clocks.warp_epoch[idx]
        new = ByteAccesses(at, idx + 1, time, np.full(len(idx), 7))
        truth = [
            everyone.racing(byte, thread, int(clocks.epoch[thread]), int(clocks.warp_epoch[thread]))
            for byte, thread in zip(at.tolist(), few, strict=True)
        ]
        found = kept.racing(new)
        assert (found is not None) == any(truth)
        if found is not None:
            assert truth[found[0]]
            assert found[2] == 7
        kept.add(new)
        everyone.accesses += [
            (int(byte), thread, int(clocks.epoch[thread]), int(clocks.warp_epoch[thread]))
            for byte, thread in zip(at, few, strict=True)
        ]


def test_what_nobody_shares_takes_one_place() -> None:
    kept = Accessors(64, BLOCK)
    idx = np.arange(64)
    for _ in range(3):
        kept.add(ByteAccesses(idx, idx + 1, idx * 0, idx))
    assert kept.used == 1
    kept.add(ByteAccesses(idx, (idx ^ 1) + 1, idx * 0, idx))
    assert kept.used == 2
