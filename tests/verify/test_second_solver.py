"""Every proof that `--emit-smt2` writes holds for a solver that ptxsw does not use: cvc5."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import cvc5
import pytest

from benchmarks.kernelgen import operators
from benchmarks.kernelgen.operators import OPERATORS
from ptxsw.driver import pipeline

PTX = Path(operators.__file__).parent / "ptx"
SAMPLE = [("jacobi", "paper"), ("gaussblur", "halo"), ("whispering", "early")]
LIMIT_MS = 20_000
"""For one proof; on the machine at hand none takes more than half a second."""


@cache
def answer(text: str) -> str:
    """What cvc5 says of an SMT-LIB 2 text."""
    solver = cvc5.Solver(cvc5.TermManager())
    solver.setOption("tlimit-per", str(LIMIT_MS))
    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, text, "proof")
    symbols = parser.getSymbolManager()
    said = ""
    while not (command := parser.nextCommand()).isNull():
        said = str(command.invoke(solver, symbols)).strip() or said
    return said


def proofs(path: Path, scheme: str) -> dict[str, str]:
    options = pipeline.Options(mode="force", scheme=scheme, smt2=True)
    return dict(pipeline.optimize(path.read_text(), options).smt2)


def assert_proved(path: Path, scheme: str) -> None:
    texts = proofs(path, scheme)
    assert texts
    for name, text in texts.items():
        assert answer(text) == "unsat", name
        # The first assertion denies the claim; without it the premises must be able to hold.
        premises = text.partition("(assert")[2].partition("(assert")[2]
        if premises:
            declarations = text[: text.index("(assert")]
            assert answer(f"{declarations}(assert{premises}") == "sat", name


@pytest.mark.parametrize(("name", "scheme"), SAMPLE)
def test_sample_of_proofs_holds_for_cvc5(name: str, scheme: str) -> None:
    assert_proved(PTX / f"{name}.ptx", scheme)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["paper", "early", "halo"])
@pytest.mark.parametrize("folder", [".", "double", "clang", "gcc"])
@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_all_proofs_hold_for_cvc5(name: str, folder: str, scheme: str) -> None:
    path = PTX / folder / f"{name}.ptx"
    if proofs(path, scheme):
        assert_proved(path, scheme)


def test_a_claim_that_does_not_hold_is_told() -> None:
    text = next(iter(proofs(PTX / "jacobi.ptx", "paper").values()))
    wrong = text.replace("(not ", "(= true ", 1)
    assert wrong != text
    assert answer(wrong) == "sat"
