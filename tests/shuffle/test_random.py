"""Random kernels: whatever is rewritten, in any scheme and form, they compute what they did."""

from __future__ import annotations

import pytest

from ptxsw.driver.checked_texts import UNCHECKED
from ptxsw.driver.pipeline import Options, Result, optimize
from tests.shuffle.random_kernels import Writer
from tests.shuffle.test_pairs import BLOCKS, WAYS, results

SAMPLE = range(24)
MANY = range(100, 600)

Block = tuple[int, int, int]

IN_A_ROW = (133, 150, 172, 177, 191, 218, 287, 309, 363)
"""Seeds of kernels in which loads that follow one another fill the same registers."""

AT_ONE_PLACE = (721, 872, 1141)
"""Two rows begin at one place: one with a load that is moved there, which in 1141 reads the bytes
of the other's partial load; in 721 it is moved in two versions of the code."""


def kernel(seed: int) -> str:
    return Writer(seed).pair().text("right")


def rewritten(text: str, scheme: str, form: str) -> Result:
    """The kernel in one scheme and form, of which nothing must be given up but loops that cannot
    be proved to become uniform."""
    result = optimize(text, Options(mode="force", scheme=scheme, form=form))
    (done,) = result.report.kernels
    faults = {r.reason for r in done.refusals or () if UNCHECKED in r.reason}
    assert not faults or form == "uniform", (scheme, form)
    return result


def compared(text: str, seed: int, ways: list[tuple[str, str]], blocks: list[Block]) -> None:
    """Runs a kernel before and after. Ways that make the same text of it are run once."""
    texts = {rewritten(text, *way).text: way for way in ways}
    texts.pop(text, None)
    for block in blocks if texts else []:
        before = results(text, block, None)
        for made, way in texts.items():
            for order in (None, seed):
                assert results(made, block, order) == before, (way, block, order)


@pytest.mark.parametrize("seed", SAMPLE)
def test_random_kernels(seed: int) -> None:
    ways = [WAYS[(seed + step) % len(WAYS)] for step in (0, 4, 8)]
    compared(
        kernel(seed), seed, ways, [BLOCKS[seed % len(BLOCKS)], BLOCKS[(seed + 3) % len(BLOCKS)]]
    )


def test_there_is_much_to_rewrite() -> None:
    """The sample would be worth nothing if hardly anything in it were rewritten."""
    made = 0
    for seed in SAMPLE:
        (done,) = optimize(kernel(seed), Options(mode="force", scheme="paper")).report.kernels
        made += len(done.rewrites or ())
    assert made > 3 * len(SAMPLE)


@pytest.mark.parametrize("seed", [*IN_A_ROW, *AT_ONE_PLACE])
def test_no_kernel_is_given_up_for_a_fault_of_ours(seed: int) -> None:
    text = kernel(seed)
    for scheme, form in WAYS:
        rewritten(text, scheme, form)


@pytest.mark.slow
@pytest.mark.parametrize("seed", MANY)
def test_many_random_kernels(seed: int) -> None:
    compared(
        kernel(seed), seed, WAYS, [BLOCKS[(seed + step) % len(BLOCKS)] for step in range(0, 9, 3)]
    )
