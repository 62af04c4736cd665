"""A wrong rule, put by hand into the legality of shuffles, is caught: `validate` knows none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ptxsw.changes.claim import Obligation
from ptxsw.driver import checked_texts
from ptxsw.driver.pipeline import Options, Result, optimize
from ptxsw.shuffle import same_bytes
from ptxsw.shuffle.memory_between import MemoryBetween
from ptxsw.shuffle.same_bytes import SameBytes
from ptxsw.validate import Proved
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


def rewritten(text: str, way: tuple[str, str]) -> Result:
    return optimize(text, Options(mode="force", scheme=way[0], form=way[1]))


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_wrong_rule(name: str, way: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What it allows is written, is no proof's, and so is not kept."""
    patch, text = EXPERIMENTS[name]
    right = rewritten(text, way).text
    assert right == text or isinstance(judged(text, right), Proved)
    patch(monkeypatch)
    kept = rewritten(text, way)
    (kernel,) = kept.report.kernels
    assert any(checked_texts.UNCHECKED in refusal.reason for refusal in kernel.refusals or ())
    assert kept.text == text or isinstance(judged(text, kept.text), Proved)
    monkeypatch.setattr(checked_texts, "problem", lambda *_: None)
    wrong = rewritten(text, way).text
    assert wrong not in (text, right), "the rule changes nothing here"
    assert not isinstance(judged(text, wrong), Proved)
