"""A wrong rule, put by hand into the legality of shuffles, is caught: what it writes is checked by
`validate`, which knows no rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ptxsw import passes
from ptxsw.analysis.address_equality import Obligation
from ptxsw.passes import UNCHECKED
from ptxsw.pipeline import Options, Result, optimize
from ptxsw.shuffle import legality, uniform_loops
from ptxsw.shuffle.legality import Legality
from ptxsw.validate import Proved
from tests.shuffle.looping import kernel as looping
from tests.shuffle.pairs import PAIRS
from tests.validate.test_warp import judged
from tests.verify.programs import original

Patch = Callable[[pytest.MonkeyPatch], None]


def no_index_wraps(patch: pytest.MonkeyPatch) -> None:
    """Rule 1, that `sext(i + 1)` is `sext(i) + 1`, without its test."""

    def discharge(self: Legality, need: Any, *_: object) -> Obligation:
        return Obligation(self._terms.const(1, 1))

    patch.setattr(Legality, "_discharge", discharge)


def nothing_between(patch: pytest.MonkeyPatch) -> None:
    """Rule 3: a store between two loads never hits what they read."""
    patch.setattr(Legality, "_nothing_between", lambda *_: None)


def no_earlier_store(patch: pytest.MonkeyPatch) -> None:
    """Rule 4: nobody has stored there before."""
    patch.setattr(Legality, "_no_earlier_store", lambda *_: [])


def rows_never_wrap(patch: pytest.MonkeyPatch) -> None:
    """Rule 6: lane i + 1 is always the thread with tid.x + 1."""
    patch.setattr(legality, "one_row", lambda _: True)


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
    ("paper", "uniform"),
    pytest.param(("early", "versioned"), marks=pytest.mark.slow),
    pytest.param(("halo", "keep"), marks=pytest.mark.slow),
]


def rewritten(text: str, way: tuple[str, str]) -> Result:
    return optimize(text, Options(mode="force", scheme=way[0], form=way[1]))


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_wrong_rule(name: str, way: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    patch, text = EXPERIMENTS[name]
    right = rewritten(text, way).text
    assert right == text or isinstance(judged(text, right), Proved)
    with monkeypatch.context() as here:
        patch(here)
        made = rewritten(text, way)
    (kernel,) = made.report.kernels
    assert made.text == text
    assert any(refusal.reason.startswith(UNCHECKED) for refusal in kernel.refusals or ())


def test_what_a_wrong_rule_writes_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """And would be taken if nothing checked it."""
    text = original("laplacian")
    right = rewritten(text, ("paper", "keep")).text
    no_index_wraps(monkeypatch)
    monkeypatch.setattr(passes, "validate", lambda *_, **__: Proved())
    wrong = rewritten(text, ("paper", "keep")).text
    assert wrong not in (text, right) and not isinstance(judged(text, wrong), Proved)


# ---------------------------------------------------------------- uniform loops


def lanes_come_from_anywhere(patch: pytest.MonkeyPatch) -> None:
    """Rule 2 of uniform loops: all lanes come together to where they vote."""
    patch.setattr(uniform_loops, "convergence_blocker", lambda *_: None)


def nobody_waits(patch: pytest.MonkeyPatch) -> None:
    """Rule 5: when lanes leave depends on nothing that others write."""
    patch.setattr(uniform_loops, "memory_dependence", lambda *_: None)


def nothing_is_read_behind(patch: pytest.MonkeyPatch) -> None:
    """Rule 3: nothing that a lane sets after it has left is read behind the loop."""
    patch.setattr(
        uniform_loops, "liveness", lambda cfg: dict.fromkeys(range(len(cfg.blocks)), frozenset())
    )


LOOP = """
	mov.u32 %r10, 0;
LOOP:
	{load} %f2, [%rd5];
	add.f32 %f1, %f1, %f2;
	{more}
	add.u32 %r10, %r10, 1;
	setp.lt.u32 %p2, %r10, {limit};
	@%p2 bra LOOP;
	st.global.f32 [%rd4], %f1;
"""
PARTED = """
	setp.gt.u32 %p3, %r1, 7;
	@%p3 bra PAST;
"""
PAST = """
PAST:
	st.global.f32 [%rd4+0], %f1;
"""
PLAIN = LOOP.format(load="ld.global.nc.f32", more="", limit="%r1")
WAITING = LOOP.format(load="ld.global.nc.f32", more="ld.global.u32 %r11, [%rd3];", limit="%r11")
UNIFORM: dict[str, tuple[Patch, str]] = {
    "some lanes never come": (lanes_come_from_anywhere, PARTED + PLAIN + PAST),
    "a lane waits for what another writes": (nobody_waits, WAITING),
    "a sum goes on": (nothing_is_read_behind, PLAIN),
}


@pytest.mark.parametrize("name", UNIFORM)
def test_a_wrong_rule_of_uniform_loops(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    patch, body = UNIFORM[name]
    text, way = looping(body), ("keep", "uniform")
    with monkeypatch.context() as here:
        patch(here)
        refused = rewritten(text, way)
        here.setattr(passes, "validate", lambda *_, **__: Proved())
        wrong = rewritten(text, way).text
    assert wrong != text and "vote.sync.any" in wrong
    assert refused.text == text
    assert not isinstance(judged(text, wrong), Proved)
