"""Figures of blocks of any shape, against the addresses that the interpreter's threads make.

Each kernel stores, for each thread, how far from the buffer its address is. What a warp touches is
then counted here, with code of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from random import Random

import pytest

from ptxsw.driver import pipeline
from ptxsw.report import Access
from tests.heads import head
from tests.parsed import parsed

np = pytest.importorskip("numpy")

KERNEL = (
    head()
    + """\
.visible .entry k(.param .u64 p, .param .u64 out)
{{
    .reg .b32 %r<20>;
    .reg .b64 %rd<9>;
    .shared .align 128 .b8 tile[49152];
    ld.param.u64 %rd1, [p];
    ld.param.u64 %rd2, [out];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %tid.y;
    mov.u32 %r3, %tid.z;
    mov.u32 %r4, %ntid.x;
    mov.u32 %r5, %ntid.y;
    mov.u32 %r6, %laneid;
    mad.lo.u32 %r7, %r3, %r5, %r2;
    mad.lo.u32 %r7, %r7, %r4, %r1;
    {index}
    mul.wide.u32 %rd3, %r8, {size};
    add.s64 %rd4, %rd1, %rd3;
    ld.global.{type} {into}, [%rd4];
    mov.u32 %r9, tile;
    mad.lo.u32 %r10, %r8, {size}, %r9;
    {shared}
    mul.wide.u32 %rd5, %r7, 8;
    add.s64 %rd6, %rd2, %rd5;
    st.global.u64 [%rd6], %rd3;
    ret;
}}
"""
)

INDICES = (
    "mov.u32 %r8, %r1;",
    "mad.lo.u32 %r8, %r2, 32, %r1;",
    "mad.lo.u32 %r8, %r1, 17, %r2;",
    "mul.lo.u32 %r8, %r7, {odd};",
    "mul.lo.u32 %r8, %r1, {even};",
    "add.u32 %r8, %r7, {odd};",
    "xor.b32 %r8, %r7, {odd};",
    "shr.u32 %r8, %r1, 2;",
    "rem.u32 %r8, %r1, {odd};",
    "mad.lo.u32 %r8, %r6, {even}, %r3;",
    "mad.lo.u32 %r8, %r3, {odd}, %r2;",
    "mov.u32 %r8, {odd};",
)
SHAPES = (
    (16, 1, 1), (8, 2, 1), (48, 1, 1), (16, 16, 1), (1, 1, 1), (5, 7, 3), (33, 2, 1), (31, 1, 1),
    (64, 3, 1), (96, 2, 2), (1, 40, 1), (3, 3, 9), (1024, 1, 1), (20, 30, 1),
)  # fmt: skip


def addresses(text: str, block: tuple[int, int, int]) -> Iterator[list[int]]:
    """Bytes from the buffer for each lane of each warp of a block, as a run makes them."""
    from ptxsw.simt import launch

    threads = block[0] * block[1] * block[2]
    out = np.zeros(threads, "u8")
    text = "".join(line for line in text.splitlines(True) if "ld.shared" not in line)
    result = launch(parsed(text), "k", (1, 1, 1), block, [np.zeros(1 << 20, "u1"), out])
    found = [int(at) for at in result.buffers[1]]
    return (found[first : first + 32] for first in range(0, threads, 32))


def sectors(warp: list[int], size: int) -> int:
    return len({(at + byte) // 32 for at in warp for byte in range(size)})


def passes(warp: list[int], size: int) -> int:
    """Passes of shared memory: lanes that are served together want so many words of one bank."""
    together = 32 * 4 // max(4, size)
    groups = [warp[n : n + together] for n in range(0, len(warp), together)]
    worst = 1
    for group in groups:
        words = {(at + byte) // 4 for at in group for byte in range(size)}
        worst = max(worst, *(sum(w % 32 == bank for w in words) for bank in range(32)))
    return worst


def case(seed: int) -> tuple[str, tuple[int, int, int], int]:
    random = Random(seed)
    size = random.choice((1, 2, 4, 8))
    index = random.choice(INDICES).format(
        odd=random.randrange(1, 40, 2), even=random.randrange(2, 66, 2)
    )
    block = random.choice(SHAPES)
    if random.random() < 0.5:
        while True:
            block = (random.randint(1, 70), random.randint(1, 20), random.randint(1, 3))
            if block[0] * block[1] * block[2] <= 1024:
                break
    into = "%rd7" if size == 8 else "%r11"
    kind = f"u{8 * size}"
    shared = f"ld.shared.{kind} {into}, [%r10];"
    text = KERNEL.format(index=index, size=size, type=kind, into=into, shared=shared)
    return text, block, size


def figures(text: str, block: tuple[int, int, int]) -> tuple[Access, Access]:
    [kernel] = pipeline.analyze(text, block=block).kernels
    loads = [a for a in kernel.accesses or () if a.kind == "load" and a.space != "param"]
    return loads[0], loads[1]


@pytest.mark.parametrize("seed", range(60))
def test_the_worst_warp_of_a_block(seed: int) -> None:
    text, block, size = case(seed)
    warps = list(addresses(text, block))
    outside, inside = figures(text, block)
    assert outside.sectors == max(sectors(warp, size) for warp in warps), (block, text)
    assert inside.bank_conflicts == max(passes(warp, size) for warp in warps), (block, text)


@pytest.mark.parametrize("seed", range(60))
def test_strides_are_those_of_all_lanes(seed: int) -> None:
    text, block, _ = case(seed)
    outside, _ = figures(text, block)
    for warp in addresses(text, block):
        if outside.lane_stride is not None:
            assert {b - a for a, b in pairwise(warp)} <= {outside.lane_stride}
        if outside.uniform:
            assert len(set(warp)) == 1
