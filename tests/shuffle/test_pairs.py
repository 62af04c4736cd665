"""Each rule in both directions: what is right is rewritten and runs as before in every scheme and
form, what differs from it by one detail is left alone, and why."""

from __future__ import annotations

import zlib
from functools import cache
from itertools import product

import numpy as np
import pytest

from ptxsw.driver.pipeline import FORMS, SCHEMES, Options, Result, optimize
from ptxsw.parser import parse
from ptxsw.ptx.ir import Module
from ptxsw.simt import launch
from ptxsw.validate import Proved, validate
from tests.parsed import parsed
from tests.shuffle.pairs import PAIRS, UNTOLD
from tests.verify.test_second_solver import answer

WAYS = [(scheme, form) for scheme, form in product(SCHEMES, FORMS) if "auto" not in (scheme, form)]
BLOCKS = [
    (32, 1, 1), (33, 1, 1), (48, 1, 1), (7, 1, 1), (128, 1, 1), (1024, 1, 1),
    (16, 16, 1), (32, 4, 1), (8, 8, 4), (24, 3, 1), (5, 13, 1),
]  # fmt: skip


@cache
def rewritten(name: str, which: str, scheme: str = "paper", form: str = "keep") -> Result:
    return optimize(PAIRS[name].text(which), Options(mode="force", scheme=scheme, form=form))


@pytest.mark.parametrize("name", PAIRS)
def test_right(name: str) -> None:
    (kernel,) = rewritten(name, "right").report.kernels
    assert tuple(r.delta for r in kernel.rewrites or ()) == PAIRS[name].deltas


@pytest.mark.parametrize("name", PAIRS)
def test_wrong(name: str) -> None:
    """Of the right one's rewrites at least one is gone, for the reason given."""
    (kernel,) = rewritten(name, "wrong").report.kernels
    right = list(PAIRS[name].deltas)
    assert len(kernel.rewrites or ()) < len(right)
    reasons = [r.reason for r in kernel.refusals or ()]
    if PAIRS[name].reason:
        assert any(PAIRS[name].reason in reason for reason in reasons), reasons
    else:
        assert not reasons


@pytest.mark.parametrize("name", PAIRS)
def test_wrong_in_no_way(name: str) -> None:
    """No scheme and no form rewrites more of it."""
    most = len(rewritten(name, "wrong").report.kernels[0].rewrites or ())
    for scheme, form in WAYS:
        (kernel,) = rewritten(name, "wrong", scheme, form).report.kernels
        assert len(kernel.rewrites or ()) <= most, (scheme, form)


def results(text: str, block: tuple[int, int, int], seed: int | None) -> list[bytes]:
    values = np.random.default_rng(11).random(1 << 16, dtype=np.float32)
    values[56384] = 0  # the flag that spins wait for
    threads = block[0] * block[1] * block[2]
    out = np.zeros(3 * threads, np.float32)
    args = [values, out, np.uint32(3), np.uint32(0)]
    result = launch(parsed(text), "k", 1, block, args, seed=seed)
    return [buffer.tobytes() for buffer in result.buffers]


def runs_as_before(name: str, scheme: str, form: str, block: tuple[int, int, int]) -> None:
    text = PAIRS[name].text("right")
    result = rewritten(name, "right", scheme, form)
    assert result.text is not text or form == "uniform" or scheme == "keep"
    if result.text is text:
        return
    before = results(text, block, None)
    for seed in (None, 1):
        assert results(result.text, block, seed) == before, (scheme, form, block, seed)


@pytest.mark.parametrize("name", PAIRS)
def test_right_runs_as_before(name: str) -> None:
    """A sample: three ways and three blocks, others for every pair."""
    at = zlib.crc32(name.encode())
    for step in range(3):
        scheme, form = WAYS[(at + 5 * step) % len(WAYS)]
        runs_as_before(name, scheme, form, BLOCKS[(at + 4 * step) % len(BLOCKS)])


BEHIND_GUARDS = [name for name, pair in PAIRS.items() if pair.reason == UNTOLD]


def misled(name: str, scheme: str, form: str) -> str:
    """The wrong kernel with the lines that are right in the right one."""
    pair = PAIRS[name]
    (line,) = (line for line in pair.body.split("\n") if "HERE" in line)
    right, wrong = (line.replace("HERE", detail) for detail in (pair.right, pair.wrong))
    text = rewritten(name, "right", scheme, form).text
    assert text.count(right) == 1
    return text.replace(right, wrong)


def has_proof(first: Module, second: Module) -> bool:
    found = validate((first, first.kernel("k")), (second, second.kernel("k")))
    return isinstance(found, Proved)


@pytest.mark.parametrize("name", BEHIND_GUARDS)
def test_wrong_behind_a_guard_is_wrong(name: str) -> None:
    """The rewriting of the right kernel breaks the wrong one, and no proof is found for it."""
    wrong = PAIRS[name].text("wrong")
    for scheme, form in WAYS:
        text = misled(name, scheme, form) if scheme != "keep" or 0 in PAIRS[name].deltas else ""
        if text:
            assert not has_proof(parse(wrong), parse(text)), (scheme, form)
    broken = misled(name, "paper", "keep")
    blocks = [(32, 1, 1), (128, 1, 1), (1024, 1, 1)]
    launches = product(blocks, (None, 1, 2))
    assert any(results(wrong, *how) != results(broken, *how) for how in launches)


def proofs_hold(name: str, scheme: str) -> None:
    options = Options(mode="force", scheme=scheme, smt2=True)
    proofs = optimize(PAIRS[name].text("right"), options).smt2
    assert proofs
    for file, text in proofs.items():
        assert answer(text) == "unsat", file


@pytest.mark.parametrize("name", ["mirrored", "half_of_the_vector", "own_store"])
def test_another_solver_agrees(name: str) -> None:
    proofs_hold(name, "halo")


@pytest.mark.slow
@pytest.mark.parametrize("name", PAIRS)
def test_another_solver_agrees_with_all(name: str) -> None:
    proofs_hold(name, "paper")
    proofs_hold(name, "halo")


@pytest.mark.slow
@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("name", PAIRS)
def test_right_runs_as_before_in_every_way(name: str, block: tuple[int, int, int]) -> None:
    for scheme, form in WAYS:
        runs_as_before(name, scheme, form, block)
