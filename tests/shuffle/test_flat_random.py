"""Random kernels with flat indices: whatever is rewritten, in any scheme and form, they compute
what they did, and the two texts alone prove it where no branch is crossed."""

from __future__ import annotations

import numpy as np
import pytest

from ptxsw.changes.assumptions import DEFAULT_ASSUME as DEFAULT
from ptxsw.driver.pipeline import Options, Result, optimize
from ptxsw.parser import parse
from ptxsw.ptx.errors import Unsupported
from ptxsw.simt import launch
from ptxsw.simt.state import RunError
from ptxsw.validate import Proved, validate
from tests.parsed import parsed
from tests.shuffle.flat_kernels import LAUNCHES, kernel
from tests.shuffle.test_pairs import WAYS

SAMPLE = range(14)
MANY = range(100, 400)
BLOCKS = ((64, 1, 1), (40, 1, 1), (7, 1, 1), (16, 2, 1))


def results(text: str, block: tuple[int, int, int], numbers: tuple[int, ...]) -> bytes | None:
    """What a launch leaves; None where it goes beyond the array."""
    values = np.random.default_rng(11).random(1 << 16, dtype=np.float32)
    out = np.zeros(2 * block[0] * block[1], np.float32)
    scalars = (np.uint32(number & 0xFFFFFFFF) for number in numbers)
    try:
        return launch(parsed(text), "k", 2, block, [values, out, *scalars]).buffers[1].tobytes()
    except (RunError, Unsupported) as error:
        assert "defined" not in str(error)
        return None


def rewritten(text: str, scheme: str, form: str) -> Result:
    options = Options(mode="force", scheme=scheme, form=form, rewrites=("shuffle",))
    result = optimize(text, options)
    (done,) = result.report.kernels
    faults = [r.reason for r in done.refusals or () if "bug" in r.reason]
    assert not faults, faults
    return result


def steps(result: Result) -> int:
    """How many rewrites compare registers of two lanes."""
    (done,) = result.report.kernels
    guards = [" ".join(r.proof.guards) for r in done.rewrites or ()]
    return sum("in lane i" in text for text in guards)


def compared(seed: int) -> int:
    """Runs a kernel before and after; how many loads became shuffles inside rows."""
    text, made = kernel(seed), 0
    for scheme, form in (WAYS[seed % len(WAYS)], WAYS[(seed + 5) % len(WAYS)]):
        result = rewritten(text, scheme, form)
        if result.text == text:
            continue
        made += steps(result)
        block = BLOCKS[seed % len(BLOCKS)]
        for numbers in LAUNCHES:
            before = results(text, block, numbers)
            if before is not None:
                assert results(result.text, block, numbers) == before, (scheme, form, numbers)
        if "bra OVER" in text:
            continue  # values that cross branches are not followed yet
        old, new = parse(text), parse(result.text)
        outcome = validate((old, old.kernel("k")), (new, new.kernel("k")), assume=DEFAULT)
        assert isinstance(outcome, Proved), (scheme, form, outcome)
    return made


@pytest.mark.parametrize("seed", SAMPLE)
def test_flat_kernels(seed: int) -> None:
    compared(seed)


def test_rows_are_found() -> None:
    """The sample would be worth nothing if hardly any load in it were inside a row."""
    assert sum(steps(rewritten(kernel(seed), "paper", "keep")) for seed in SAMPLE) > 12


@pytest.mark.slow
@pytest.mark.parametrize("seed", MANY)
def test_many_flat_kernels(seed: int) -> None:
    compared(seed)
