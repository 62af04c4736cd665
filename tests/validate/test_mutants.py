"""Rewritten kernels are proved; spoilt ones, on which the other checker is tried, are refused."""

from __future__ import annotations

from itertools import product

import pytest

from ptxsw.parser import parse
from ptxsw.validate import Outcome, Proved, validate
from tests.verify.mutators import MUTATORS
from tests.verify.programs import original, rewritten

KERNELS = ("shift", "smooth", "between", "mirror", "total", "vectors", "jacobi", "gradient")
WAYS = tuple(product(("paper", "early", "halo"), ("keep", "versioned")))


def judged(name: str, text: str) -> Outcome:
    first, second = parse(original(name)), parse(text)
    return validate((first, first.kernels[0]), (second, second.kernels[0]))


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize(("scheme", "form"), WAYS)
def test_rewritten(name: str, scheme: str, form: str) -> None:
    assert isinstance(judged(name, rewritten(name, scheme, form)), Proved)


CANNOT_WRAP = ("shift", "overflow_guard_dropped")
"""A kernel, and a mutator whose texts do the same: its index is below 1024."""


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize(("scheme", "form"), WAYS)
def test_every_mutant(name: str, scheme: str, form: str) -> None:
    text = rewritten(name, scheme, form)
    for mutator, mutants in MUTATORS.items():
        for mutant in mutants(text):
            if (name, mutator) != CANNOT_WRAP:
                assert not isinstance(judged(name, mutant), Proved), mutator


@pytest.mark.parametrize("mutator", MUTATORS)
@pytest.mark.parametrize(("scheme", "form"), WAYS)
def test_mutants(mutator: str, scheme: str, form: str) -> None:
    """The first of each kind in a small kernel."""
    for mutant in list(MUTATORS[mutator](rewritten("smooth", scheme, form)))[:1]:
        assert not isinstance(judged("smooth", mutant), Proved)
