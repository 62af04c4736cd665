"""Random kernels: whatever is rewritten, in any scheme and form, they compute what they did."""

from __future__ import annotations

import pytest

from ptxsw.pipeline import Options, optimize
from tests.shuffle.random_kernels import Writer
from tests.shuffle.test_pairs import BLOCKS, WAYS, results

SAMPLE = range(24)
MANY = range(100, 600)

UNFOLLOWED = ("an instruction of the kernels differs",)
"""What the check of the written lines does not follow, so that the kernel is left alone: two loads
in a row into one register, of which the second has been moved up."""


def compared(seed: int, ways: list[tuple[str, str]], blocks: list[tuple[int, int, int]]) -> int:
    """Runs a kernel before and after; how many loads were rewritten in all ways together."""
    text = Writer(seed).pair().text("right")
    made = 0
    for scheme, form in ways:
        result = optimize(text, Options(mode="force", scheme=scheme, form=form))
        (kernel,) = result.report.kernels
        made += len(kernel.rewrites or ())
        ours = {r.reason for r in kernel.refusals or () if "a bug of ptxsw" in r.reason}
        known = form == "versioned" and all(r.endswith(UNFOLLOWED) for r in ours)
        assert known or not ours, (scheme, ours)
        if result.text is text:
            continue
        for block in blocks:
            before = results(text, block, None)
            for order in (None, seed):
                assert results(result.text, block, order) == before, (scheme, form, block, order)
    return made


@pytest.mark.parametrize("seed", SAMPLE)
def test_random_kernels(seed: int) -> None:
    ways = [WAYS[(seed + step) % len(WAYS)] for step in (0, 4, 8)]
    compared(seed, ways, [BLOCKS[seed % len(BLOCKS)], BLOCKS[(seed + 3) % len(BLOCKS)]])


def test_there_is_much_to_rewrite() -> None:
    """The sample would be worth nothing if hardly anything in it were rewritten."""
    made = 0
    for seed in SAMPLE:
        text = Writer(seed).pair().text("right")
        (kernel,) = optimize(text, Options(mode="force", scheme="paper")).report.kernels
        made += len(kernel.rewrites or ())
    assert made > 3 * len(SAMPLE)


@pytest.mark.slow
@pytest.mark.parametrize("seed", MANY)
def test_many_random_kernels(seed: int) -> None:
    compared(seed, WAYS, [BLOCKS[(seed + step) % len(BLOCKS)] for step in range(0, 9, 3)])
