"""Who names a rewrite is told why it changed nothing, kernel by kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptxsw.driver.pipeline import Options, optimize
from ptxsw.report.model import Kernel
from ptxsw.rewrites import every
from tests.rewrites.pair import kernel

HERE = Path(__file__).parent
FIXTURES = HERE.parent / "fixtures"
QUIET = (HERE / "programs" / "quiet.ptx").read_text()
NAMES = [rewrite.name for rewrite in every()]


def kernels(text: str, *names: str, **options: object) -> dict[str, Kernel]:
    given = {"mode": "force", "rewrites": names, **options}
    result = optimize(text, Options(**given))  # type: ignore[arg-type]
    return {str(kernel.readable or kernel.name): kernel for kernel in result.report.kernels}


def reasons(kernel: Kernel) -> set[str]:
    assert not kernel.rewrites
    return {refusal.reason for refusal in kernel.refusals or ()}


def told_by(kernel: Kernel) -> set[str | None]:
    """The rewrites that changed something, or say why not."""
    told: set[str | None] = {change.rewrite for change in kernel.rewrites or ()}
    told |= {refusal.rewrite for refusal in kernel.refusals or ()}
    return told | ({"uniform-loops"} if kernel.loops else set())


def test_banks() -> None:
    """A pitch that the launch gives decides about conflicts; adjacent words have none."""
    told = kernels(QUIET, "bank-conflicts")
    assert reasons(told["pitched"]) == {"its bank conflicts depend on run-time values"}
    assert reasons(told["ring"]) == {"the kernel holds none of the words .shared"}
    assert reasons(told["four_words"]) == {
        "no access to shared memory has a bank conflict in blocks of 256x1"
    }
    assert reasons(kernels(QUIET, "bank-conflicts", block=(64, 4, 1))["four_words"]) == {
        "no access to shared memory has a bank conflict in blocks of 64x4"
    }


def test_mild_conflicts_are_told_to_who_asks() -> None:
    told = kernels(QUIET, "bank-conflicts")["padded"]
    assert reasons(told) == {"no permutation of this kind takes fewer wavefronts"}
    everything = Options(mode="force")
    (unasked,) = (k for k in optimize(QUIET, everything).report.kernels if k.name == "padded")
    assert not [r for r in unasked.refusals or () if r.rewrite == "bank-conflicts"]


FOUR_WORDS = """
    .shared .align 16 .b8 tile[4096];
    mov.u32 %r4, tile;
    mad.lo.u32 %r5, %r1, 16, %r4;
    ld.shared.f32 %f1, [%r5];
    ld.shared.f32 %f2, [%r5+4];
    ld.shared.f32 %f3, [%r5+8];
    ld.shared.f32 %f4, [%r5+12];
"""


def test_words_that_ptxas_joins() -> None:
    told = kernels(kernel(FOUR_WORDS), "vectorize")
    assert reasons(told["k"]) == {
        "ptxas itself joins accesses to shared memory that it knows to be aligned"
    }
    for each in kernels(QUIET, "vectorize").values():
        assert reasons(each) == {"no adjacent accesses of a thread form an aligned vector"}


def test_an_index_of_64_bits_that_goes_round() -> None:
    told = kernels(QUIET, "narrowing")
    assert reasons(told["ring"]) == {"the code has tested that its operands do not fit 32 bits"}
    (reason,) = reasons(told["four_words"])
    assert reason.startswith("the kernel holds none of the words div.s64, div.u64")


def test_the_line_is_that_of_the_kernel() -> None:
    (refusal,) = kernels(QUIET, "narrowing")["four_words"].refusals or ()
    assert "four_words" in QUIET.splitlines()[refusal.line - 1]


def test_nothing_is_said_of_what_nobody_named() -> None:
    for each in kernels(QUIET, "all").values():
        assert not any("holds none of" in r.reason for r in each.refusals or ())


@pytest.mark.parametrize("mode", ["force", "auto"])
@pytest.mark.parametrize("name", NAMES)
def test_a_change_or_a_reason(name: str, mode: str) -> None:
    """Of every rewrite, for every kernel of small files of several compilers."""
    paths = [*FIXTURES.glob("nvcc_s*_sm_80.ptx"), *FIXTURES.glob("clang_plain_O0_sm_35.ptx")]
    texts = [QUIET, *(path.read_text() for path in paths)]
    for text in texts:
        for each in kernels(text, name, mode=mode).values():
            assert name in told_by(each), each.name
