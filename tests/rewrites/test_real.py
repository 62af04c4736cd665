"""Kernels of real compilers: what is written for them can always be checked."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptxsw.changes.options import Options
from ptxsw.driver.checked_texts import UNCHECKED
from ptxsw.driver.pipeline import optimize
from tests.real import FIXTURES, text_of

KERNELGEN = Path(__file__).parents[2] / "benchmarks" / "kernelgen" / "ptx"
LEFT_ALONE = {
    # They keep pointers to functions in local memory, which the check does not follow through
    # stores that were joined.
    "_Z10use_shapesPfi",
    "_Z13use_functionsP7ComplexPd3BigPii",
    # It divides numbers of 64 bits in two ways behind values that are kept over stores.
    "_Z7computePfPdPiPxP7__half2P13__nv_bfloat16",
}
"""Kernels of which the check does not follow all that could be made."""

_LONGEST = 100_000  # characters
_TEXTS = [*FIXTURES, *sorted(KERNELGEN.glob("*.ptx"))]


@pytest.mark.parametrize(
    "path", [path for path in _TEXTS if len(text_of(path)) <= _LONGEST], ids=lambda p: p.stem
)
def test_nothing_is_given_up(path: Path) -> None:
    text = text_of(path)
    reasons = {
        (kernel.name, refusal.line, refusal.reason)
        for kernel in optimize(text, Options(mode="force")).report.kernels
        for refusal in kernel.refusals or ()
    }
    unchecked = {name for name, _, reason in reasons if UNCHECKED in reason}
    assert unchecked <= LEFT_ALONE


def test_what_is_kept_over_stores_and_arms_is_proved() -> None:
    (path,) = (path for path in FIXTURES if path.stem == "nvcc_arithmetic_sm_80")
    (kernel,) = optimize(
        text_of(path), Options(mode="force", rewrites=("load-elimination",))
    ).report.kernels
    assert {rewrite.line for rewrite in kernel.rewrites or ()} == {350, 355, 398, 418}
    assert not any(UNCHECKED in refusal.reason for refusal in kernel.refusals or ())
