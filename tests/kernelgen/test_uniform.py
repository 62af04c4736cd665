"""The operators with uniform loops and no shuffle: the candidate of its own that this is."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from benchmarks.kernelgen.cases import operator_path
from benchmarks.kernelgen.operators import OPERATORS, make_inputs
from ptxsw.driver.pipeline import Options, Result, optimize
from ptxsw.parser import parse
from ptxsw.simt import launch
from tests.simt.test_kernelgen import sizes_of

# Warps that are whole and that are not, and rows that wrap inside a warp.
BLOCKS = ((7, 1, 1), (33, 1, 1), (16, 5, 1))


@cache
def rewritten(name: str) -> Result:
    options = Options(mode="force", scheme="keep", form="uniform")
    return optimize(operator_path(name, "float").read_text(), options)


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_operator(name: str) -> None:
    operator, sizes = OPERATORS[name], sizes_of(name)
    original = operator_path(name, "float").read_text()
    text = rewritten(name).text
    assert "vote.sync.any.pred" in text and "shfl" not in text
    arrays, scalars = make_inputs(operator, sizes, np.dtype("f4")), operator.scalars
    args = [*sizes, *(scalars[p] if p in scalars else arrays[p] for p in operator.params)]
    first, second = parse(original), parse(text)

    def run(module: object, block: tuple[int, int, int], **how: object) -> tuple[list[bytes], int]:
        result = launch(module, operator.entry, (2, 2, 1), block, args, **how)  # type: ignore[arg-type]
        assert result.counters is not None
        return [b.tobytes() for b in result.buffers], result.counters.lane_loads

    for block in BLOCKS:
        assert run(second, block) == run(first, block)
    want = run(first, (33, 1, 1))
    assert run(second, (33, 1, 1), seed=5, merge_iterations=True) == want


def test_every_loop_that_varies_is_uniform() -> None:
    for name in OPERATORS:
        (kernel,) = rewritten(name).report.kernels
        assert not [r for r in kernel.refusals or () if "bug" in r.reason], name
    assert rewritten("matmul").text.count("vote.sync.any") == 4
