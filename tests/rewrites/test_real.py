"""Kernels of real compilers: what is written for them can always be checked."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptxsw.checking import UNCHECKED
from ptxsw.options import Options
from ptxsw.pipeline import optimize
from tests.real import FIXTURES, text_of

KERNELGEN = Path(__file__).parents[2] / "benchmarks" / "kernelgen" / "ptx"
LEFT_ALONE = {"_Z10use_shapesPfi", "_Z13use_functionsP7ComplexPd3BigPii"}
"""Kernels that keep pointers to functions in local memory, which the check does not follow through
stores that were joined."""

_LONGEST = 100_000  # characters


@pytest.mark.parametrize(
    "path", [*FIXTURES, *sorted(KERNELGEN.glob("*.ptx"))], ids=lambda p: p.stem
)
def test_nothing_is_given_up(path: Path) -> None:
    text = text_of(path)
    if len(text) > _LONGEST:
        pytest.skip("long")
    reasons = {
        (kernel.name, refusal.line, refusal.reason)
        for kernel in optimize(text, Options(mode="force")).report.kernels
        for refusal in kernel.refusals or ()
    }
    assert not [r for r in reasons if "a bug in ptxsw" in r[2]]
    unchecked = {name for name, _, reason in reasons if UNCHECKED in reason}
    assert unchecked <= LEFT_ALONE
