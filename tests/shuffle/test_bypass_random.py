"""Random kernels of loads behind guards, of which some guards imply others and most do not:
whatever is taken from a neighbour, the kernels compute what they did."""

from __future__ import annotations

import random
import re

import pytest

from ptxsw.driver.checked_texts import UNCHECKED
from ptxsw.driver.pipeline import Options, optimize
from tests.shuffle.pairs import Pair
from tests.shuffle.test_pairs import BLOCKS, WAYS, results

SAMPLE = range(16)
MANY = range(1000, 1400)
TELLING = [(32, 1, 1), (128, 1, 1), (33, 1, 1), (32, 4, 1), (16, 16, 1)]


class Writer:
    """Writes one kernel: `%r20` is an index that arms may change, `%f1` and `%f2` take sums of all
    that is loaded."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._labels = 0
        self._lines = ["mov.u32 %r20, %r3;", "mov.u32 %r21, 0;"]

    def text(self) -> str:
        pick = self._random
        looping = pick.random() < 0.3
        self._lines += ["TURN:"] * looping
        for _ in range(pick.randint(2, 4)):
            self._guarded(depth=0)
        if looping:
            self._lines += ["add.u32 %r21, %r21, 1;", "setp.lt.u32 %p7, %r21, 3;", "@%p7 bra TURN;"]
        return Pair("", "\n".join(self._lines), "", "", "").text("right")

    def _guarded(self, depth: int) -> None:
        pick = self._random
        self._labels += 1
        over, join = f"OVER{self._labels}", f"JOIN{self._labels}"
        for _ in range(pick.choice((1, 1, 2))):
            self._test(over)
        self._row()
        if depth < 1 and pick.random() < 0.3:
            self._guarded(depth + 1)
        if pick.random() < 0.2:
            self._lines.append(f"add.s32 %r20, %r20, {pick.choice((-1, 1, 64))};")
        self._lines.append(f"bra.uni {join};\n{over}:")
        if pick.random() < 0.3:
            self._other_arm()
        self._lines.append(f"{join}:")
        if pick.random() < 0.2:
            self._row()

    def _test(self, over: str) -> None:
        """Branches over an arm, where a random comparison fails."""
        pick = self._random
        value = pick.choice(("%r20", "%r20", "%r3", "%r3", "%r4", "%r32", "%r21", "%r1"))
        offset = pick.choice((0, 0, 0, 1, 1, 2, -1, -1, -3))
        limit = pick.choice((-1, 0, 1, 2, 30, 31, 32, 33, 62, 63, 64, 65, 95, 96, 97))
        how = pick.choice(("lt.s32", "lt.u32", "ge.s32", "ge.u32", "ne.u32", "eq.u32"))
        if value in ("%r20", "%r3", "%r4"):
            how = pick.choice(("ge.s32", "ge.u32", "ge.u32", how))
            limit = pick.choice((64, 64, 65, 32, limit))
        self._lines += [
            f"add.s32 %r22, {value}, {offset};",
            f"setp.{how} %p1, %r22, {limit};",
            f"@%p1 bra {over};",
        ]

    def _row(self) -> None:
        pick = self._random
        for _ in range(pick.randint(1, 2)):
            name = pick.choice(("ld.global.nc", "ld.global.nc", "ld.global"))
            self._lines.append(f"{name}.f32 %f5, [%rd4+{4 * pick.randint(-2, 2)}];")
            self._lines.append(f"fma.rn.f32 %f{pick.choice((1, 2))}, %f5, %f9, %f1;")

    def _other_arm(self) -> None:
        pick = self._random
        arm = ("st.shared.f32 [scratch], %f9;", "st.global.f32 [%rd31+8], %f1;",
               "add.s32 %r20, %r20, 1;", "add.s32 %r20, %r20, -64;",
               "ld.global.f32 %f6, [%rd4]; add.f32 %f1, %f1, %f6;")  # fmt: skip
        self._lines.append(pick.choice(arm))


def compared(seed: int, ways: list[tuple[str, str]], blocks: list[tuple[int, int, int]]) -> None:
    """Runs a kernel before and after."""
    text = Writer(seed).text()
    known = {block: results(text, block, None) for block in blocks}
    for scheme, form in ways:
        result = optimize(text, Options(mode="force", scheme=scheme, form=form))
        (kernel,) = result.report.kernels
        ours = [r.reason for r in kernel.refusals or () if UNCHECKED in r.reason]
        assert not ours, (scheme, form, ours)
        if result.text is text:
            continue
        for block in blocks:
            for order in (None, seed):
                assert results(result.text, block, order) == known[block], (scheme, form, block)


@pytest.mark.parametrize("seed", SAMPLE)
def test_random_guards(seed: int) -> None:
    ways = [WAYS[(seed + step) % len(WAYS)] for step in (0, 5)]
    compared(seed, ways, [TELLING[seed % len(TELLING)], BLOCKS[(seed + 3) % len(BLOCKS)]])


def test_there_is_much_to_rewrite() -> None:
    """The sample would be worth nothing if hardly any source in it could be bypassed."""
    texts = [Writer(seed).text() for seed in SAMPLE]
    made = [optimize(text, Options(mode="force", scheme="paper")).text for text in texts]
    bypassed = [re.findall(r"mov\.b32 %sw_(?:src|keep)\d+, 0;", text) for text in made]
    assert sum(map(len, bypassed)) > len(SAMPLE) // 2


@pytest.mark.slow
@pytest.mark.parametrize("seed", MANY)
def test_many_random_guards(seed: int) -> None:
    compared(seed, WAYS, [*TELLING[seed % 2 :: 2], BLOCKS[seed % len(BLOCKS)]])
