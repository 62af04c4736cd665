"""What blocks find of each other in the caches, on accesses that can be counted by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ptxsw.cost.caches import SECTOR, Setting, Touches, traffic

BLOCKS = 8
STEPS = 200
WIDTH = 64  # sectors of a row


def touching(rows: Any, *, write: bool = False, cached: bool = False) -> Touches:
    """In each step each block touches rows of sectors: `rows(block, step)` are their numbers."""
    columns: list[tuple[int, float, int, int]] = []
    for block in range(BLOCKS):
        for step in range(STEPS):
            for number, row in enumerate(rows(block, step)):
                columns += [
                    (block, step + number / 10, row * WIDTH + x, number) for x in range(WIDTH)
                ]
    table = [np.array(column) for column in zip(*columns, strict=True)]
    same = np.full(len(columns), True)
    return Touches(
        table[0], table[1], table[2], same & write, same & cached, table[3], BLOCKS, float(STEPS)
    )


def setting(l1: float = 0.0, l2: float = 0.0, drift: float = 0.0) -> Setting:
    """Caches of so many rows, of this many blocks alone."""
    row = WIDTH * SECTOR
    return Setting(
        l1_bytes=l1 * row, l2_bytes=l2 * row, on_sm=1.0, resident=float(BLOCKS), drift=drift
    )


OWN = touching(lambda block, step: [block * 1000 + step])
TWICE = touching(lambda block, step: [block * 1000 + step, block * 1000 + step - 3], cached=True)
NEIGHBOURS = touching(lambda block, step: [(block + shift) * 1000 + step for shift in (0, 1, 2)])


def rows(found: float) -> float:
    """Sectors of a block and step, in rows."""
    return found / WIDTH


def test_what_is_touched_once_comes_from_memory() -> None:
    found = traffic(OWN, setting(l1=1000, l2=1e9))
    assert (rows(found.l2), rows(found.dram)) == (1, 1)
    assert found.beyond_l2 == {0: 1.0}


@pytest.mark.parametrize(("holds", "beyond"), [(2.0, 2), (8.0, 1)])
def test_a_first_level_cache_that_keeps_three_rows(holds: float, beyond: float) -> None:
    """A row is touched again three steps later; in between two rows a step come by."""
    found = traffic(TWICE, setting(l1=holds, l2=1e9))
    assert rows(found.l2) == pytest.approx(beyond, rel=0.05)
    assert rows(found.dram) == pytest.approx(1, rel=0.05)


def test_what_the_first_level_cache_may_not_keep() -> None:
    plain = touching(lambda block, step: [block * 1000 + step, block * 1000 + step - 3])
    assert rows(traffic(plain, setting(l1=1e6, l2=1e9)).l2) == 2


def test_stores_pass_and_are_written_back_once() -> None:
    twice = touching(lambda block, step: [block * 1000 + step // 2], write=True, cached=True)
    found = traffic(twice, setting(l1=1e6, l2=100))
    assert (rows(found.l2), rows(found.dram)) == (1, 0.5)


def test_blocks_in_step_share_what_they_load() -> None:
    """Three blocks touch each row, at the same time: one more block costs one more row."""
    found = traffic(NEIGHBOURS, setting(l2=200))
    assert rows(found.l2) == 3
    assert rows(found.dram) == pytest.approx(1, rel=0.05)


def test_blocks_far_apart_share_nothing() -> None:
    found = traffic(NEIGHBOURS, setting(l2=30, drift=1000.0))
    assert rows(found.dram) == pytest.approx(3, rel=0.05)


def test_a_larger_cache_shares_more_of_what_blocks_have_apart() -> None:
    shared = [rows(traffic(NEIGHBOURS, setting(l2=l2, drift=10.0)).dram) for l2 in (20, 200, 5000)]
    assert shared == sorted(shared, reverse=True)
    assert shared[0] > 2 and shared[2] < 1.3


def test_nothing_is_touched() -> None:
    empty = OWN.of(np.zeros(len(OWN.block), np.bool_))
    found = traffic(empty, setting())
    assert (found.l2, found.dram) == (0, 0)
