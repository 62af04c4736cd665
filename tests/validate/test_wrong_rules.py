"""A wrong rule, put by hand into the legality of shuffles, is caught: the check of the lines that
were written trusts the rule, `validate` knows none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ptxsw.analysis.overflow import Obligation
from ptxsw.parser import parse
from ptxsw.pipeline import Options, optimize
from ptxsw.shuffle import same_bytes
from ptxsw.shuffle.memory_between import MemoryBetween
from ptxsw.shuffle.same_bytes import SameBytes
from ptxsw.validate import Proved
from ptxsw.verify import symbolic
from tests.shuffle.pairs import PAIRS
from tests.validate.test_warp import judged
from tests.verify.programs import original

Patch = Callable[[pytest.MonkeyPatch], None]


def no_index_wraps(patch: pytest.MonkeyPatch) -> None:
    """Rule 1, that `sext(i + 1)` is `sext(i) + 1`, without its test."""

    def discharge(self: SameBytes, need: Any, *_: object) -> Obligation:
        return Obligation(self._terms.const(1, 1))

    patch.setattr(SameBytes, "_discharge", discharge)


def nothing_between(patch: pytest.MonkeyPatch) -> None:
    """Rule 3: a store between two loads never hits what they read."""
    patch.setattr(MemoryBetween, "nothing_between", lambda *_: None)


def no_earlier_store(patch: pytest.MonkeyPatch) -> None:
    """Rule 4: nobody has stored there before."""
    patch.setattr(MemoryBetween, "no_earlier_store", lambda *_: [])


def rows_never_wrap(patch: pytest.MonkeyPatch) -> None:
    """Rule 6: lane i + 1 is always the thread with tid.x + 1."""
    patch.setattr(same_bytes, "one_row", lambda _: True)


EXPERIMENTS: dict[str, tuple[Patch, str]] = {
    "an index may wrap": (no_index_wraps, original("laplacian")),
    "an index may wrap, in a loop": (no_index_wraps, original("gradient")),
    "a store between": (nothing_between, PAIRS["own_store"].text("wrong")),
    "a barrier between": (nothing_between, PAIRS["block_barrier"].text("wrong")),
    "an earlier store": (no_earlier_store, PAIRS["stored_before"].text("wrong")),
    "rows may wrap": (rows_never_wrap, original("laplacian")),
    "rows may wrap, and memory is written": (rows_never_wrap, original("shift")),
}
WAYS = [
    ("paper", "keep"),
    pytest.param(("early", "versioned"), marks=pytest.mark.slow),
    pytest.param(("halo", "keep"), marks=pytest.mark.slow),
]


def rewritten(text: str, way: tuple[str, str]) -> str:
    return optimize(text, Options(mode="force", scheme=way[0], form=way[1])).text


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_wrong_rule(name: str, way: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    patch, text = EXPERIMENTS[name]
    right = rewritten(text, way)
    assert right == text or isinstance(judged(text, right), Proved)
    with monkeypatch.context() as here:
        patch(here)
        wrong = rewritten(text, way)
    assert wrong not in (text, right), "the rule changes nothing here"
    assert not isinstance(judged(text, wrong), Proved)


def test_the_judge_that_allowed_it_believes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """So a proof by the rules of the shuffles says nothing of these rules."""
    text = original("laplacian")
    no_index_wraps(monkeypatch)
    wrong = rewritten(text, ("paper", "keep"))
    proof = symbolic.prove(parse(text), parse(wrong), parse(text).kernels[0].name)
    assert isinstance(proof, symbolic.Proof)
