"""Random kernels: where races are proved absent, the interpreter finds none in many launches."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import numpy as np
import pytest

from ptxsw.correctness import data_race, divergent_barrier
from ptxsw.correctness.subject import Subject
from ptxsw.emulator.budget import Budget, OutOfTime
from ptxsw.parser import parse
from ptxsw.ptx.ir import Module
from ptxsw.simt import Races, Undefined, launch
from ptxsw.simt.state import RunError
from tests.correctness.random_kernels import kernel

BLOCKS = [64, 33, 96]
SIZES = [0, 1, 3, 5, 70]


def _check(seed: int) -> str:
    """The verdict on a random kernel, which no launch contradicts."""
    random = Random(seed)
    text = kernel(random)
    module = parse(text)
    block = random.choice([None, None, (64, 1, 1)])
    subject = Subject(module, module.kernels[0], Budget(10.0), block)
    try:
        with subject.budget:
            meets = divergent_barrier.prove(subject)
            races = data_race.prove(subject)
    except OutOfTime:
        return "limit"
    together = not meets.open and not meets.unknown
    absent = not races.open and not races.unknown and not races.condition
    if together or absent:
        for number in range(4):
            _run(text, module, block, random, number, together, absent)
    return "absent" if absent else "open" if races.open else "unknown"


def _run(
    text: str, module: Module, block: tuple[int, int, int] | None, random: Random, number: int,
    together: bool, absent: bool,
) -> None:  # fmt: skip
    found = Races()
    threads = 64 if block else random.choice(BLOCKS)
    size = random.choice(SIZES)
    arguments = [np.zeros(1 << 16, np.uint32), size]
    with suppress(RunError):
        try:
            launch(
                module, "k", 2, threads, arguments, seed=number or None, races=found,
                limit=20_000,
            )  # fmt: skip
        except Undefined as error:
            assert not together or "barrier" not in str(error), (text, threads, size, str(error))
    told = [c for c in found.conflicts if c.kind == "race"]
    assert not (absent and told), (text, block, threads, size, str(told[0].error))


def test_random_kernels() -> None:
    verdicts = [_check(seed) for seed in range(15)]
    assert verdicts.count("absent") >= 3


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 5000, 100))
def test_many_random_kernels(start: int) -> None:
    for seed in range(start, start + 100):
        _check(seed)
