"""Every KernelGen operator, rewritten with all that is proved, equals the original.

A sample of block shapes and one fuzzed schedule; all of it is `make verify-all`.
"""

from __future__ import annotations

from typing import NoReturn

import pytest

from benchmarks.kernelgen.operators import OPERATORS
from ptxsw import validate
from ptxsw.driver import pipeline
from ptxsw.emulator.run import emulate
from ptxsw.parser import parse
from ptxsw.terms.solver import Solver
from ptxsw.verify.differential import compare
from ptxsw.verify.invented import invent
from ptxsw.verify.launches import Launch
from ptxsw.verify.proving import Proof, prove
from tests.verify.programs import original, rewritten

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
    assert "shfl.sync" in rewritten(name) and not proof.unchanged
    assert set(proof.assumptions) <= {"lockstep-iterations", "no-lane-race"}


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[pytest.mark.slow] * (number % 3 > 0))
    for number, name in enumerate(sorted(SHUFFLED))
])  # fmt: skip
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


WAYS = [(scheme, form) for scheme in ("early", "halo") for form in ("keep", "versioned")]
# And how many loops lanes go round with others: one of matmul's goes round a fixed number of times.
LOOPS = [
    ("gaussblur", "early", 1), ("gaussblur", "halo", 1), ("tricubic", "early", 1),
    ("tricubic", "halo", 1), ("uxx1", "early", 1), ("uxx1", "halo", 1),
    ("matmul", "keep", 3), ("sincos", "keep", 1),
]  # fmt: skip


@pytest.mark.parametrize(("scheme", "form"), WAYS)
@pytest.mark.parametrize("name", ["gaussblur", "tricubic", "uxx1"])
def test_every_scheme_and_form_is_proved_equal(name: str, scheme: str, form: str) -> None:
    first, second = parse(original(name)), parse(rewritten(name, scheme, form))
    proof = prove(first, second, OPERATORS[name].entry)
    assert isinstance(proof, Proof)
    assert "shfl.sync" in rewritten(name, scheme, form) and not proof.unchanged


@pytest.mark.parametrize(("name", "scheme", "loops"), LOOPS)
def test_uniform_loops_are_proved_equal(name: str, scheme: str, loops: int) -> None:
    first, second = parse(original(name)), parse(rewritten(name, scheme, "uniform"))
    proof = prove(first, second, OPERATORS[name].entry)
    assert isinstance(proof, Proof) and proof.loops == loops


@pytest.mark.parametrize("name", ["gaussblur", "tricubic"])
def test_proofs_of_whole_rows_need_no_solver(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """That blocks of 256 threads have rows of whole warps is seen without it."""

    def asked(*given: object) -> NoReturn:
        raise AssertionError("the solver is asked")

    text = original(name).replace(")\n{", ")\n.reqntid 256, 1, 1\n{", 1)
    options = pipeline.Options(mode="force", scheme="halo", form="uniform")
    result = pipeline.optimize(text, options)
    (kernel,) = result.report.kernels
    assert kernel.shuffles and kernel.loops
    monkeypatch.setattr(Solver, "_answer", asked)
    old, new = parse(text), parse(result.text)
    outcome = validate.validate((old, old.kernels[0]), (new, new.kernels[0]))
    assert isinstance(outcome, validate.Proved)


@pytest.mark.parametrize("scheme", ["paper", "early"])
@pytest.mark.parametrize("name", ["vectors", "mirror", "between"])
def test_vectors_and_mirrored_lanes_are_proved_equal(name: str, scheme: str) -> None:
    first, second = parse(original(name)), parse(rewritten(name, scheme))
    proof = prove(first, second, name)
    assert isinstance(proof, Proof)
    assert not proof.unchanged
    chosen = list(invent(emulate(first, first.functions[0])))
    found = compare(first, second, name, chosen, seeds=())
    assert found.difference is None
    assert found.launches == len(chosen)
