"""Every KernelGen operator, rewritten with all that is proved, equals the original.

The normal run takes a sample of block shapes and one fuzzed schedule; `-m slow` (`make
verify-all`) takes every launch that is invented, in both precisions, and prints a log.
"""

from __future__ import annotations

from time import perf_counter

import pytest

from benchmarks.kernelgen.operators import OPERATORS
from ptxsw import pipeline
from ptxsw.emulator.run import emulate
from ptxsw.parser import parse
from ptxsw.verify import Equal, verify
from ptxsw.verify.differential import compare
from ptxsw.verify.launches import Launch, invent
from ptxsw.verify.symbolic import Proof, prove
from tests.verify.programs import KERNELGEN, original, rewritten

SHUFFLED = {
    "divergence", "gameoflife", "gaussblur", "gradient", "jacobi", "lapgsrb", "laplacian",
    "tricubic", "tricubic2", "uxx1", "wave13pt", "whispering",
}  # fmt: skip
BLOCKS = {(33, 1, 1), (48, 1, 1), (128, 1, 1), (16, 16, 1), (32, 4, 1)}


def launches(text: str) -> list[Launch]:
    """The invented ones with the blocks of the sample, each block once."""
    module = parse(text)
    found = {launch.block: launch for launch in invent(emulate(module, module.functions[0]))}
    return [launch for block, launch in found.items() if block in BLOCKS]


@pytest.mark.parametrize("name", sorted(SHUFFLED))
def test_rewritten_operator_is_proved_equal(name: str) -> None:
    first, second = parse(original(name)), parse(rewritten(name))
    proof = prove(first, second, OPERATORS[name].entry)
    assert isinstance(proof, Proof)
    assert proof.rewrites == rewritten(name).count("shfl.sync")
    assert set(proof.assumptions) <= {"lockstep-iterations", "no-lane-race"}


@pytest.mark.parametrize("name", sorted(SHUFFLED))
def test_rewritten_operator_runs_equal(name: str) -> None:
    first, second = parse(original(name)), parse(rewritten(name))
    chosen = launches(original(name))
    assert {launch.block for launch in chosen} == BLOCKS
    seeds = (7,) if name in ("jacobi", "wave13pt") else ()
    found = compare(first, second, OPERATORS[name].entry, chosen, seeds=seeds)
    assert found.difference is None
    assert found.launches == len(BLOCKS)
    assert not found.skipped


@pytest.mark.parametrize("name", sorted(set(OPERATORS) - SHUFFLED))
def test_operator_without_shuffles_is_left_alone(name: str) -> None:
    assert rewritten(name) == original(name)


@pytest.mark.slow
@pytest.mark.parametrize("real", ["float", "double"])
@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_full_matrix(name: str, real: str, capsys: pytest.CaptureFixture[str]) -> None:
    folder = KERNELGEN / "double" if real == "double" else KERNELGEN
    text = (folder / f"{name}.ptx").read_text()
    made = pipeline.optimize(text, pipeline.Options(mode="force"))
    begin = perf_counter()
    verdict = verify(text, made.text, seeds=range(1, 9))
    with capsys.disabled():
        shuffles = made.report.kernels[0].shuffles
        took = perf_counter() - begin
        print(f"\n{name} ({real}), {shuffles} shuffles, {took:.0f} s: {verdict}", end="")
    assert isinstance(verdict, Equal)
    assert verdict.proved
