"""What writes a kernel is wrong, what checks it is right: rules of shuffles are broken by hand."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from ptxsw.driver import checked_texts, pipeline
from ptxsw.facts import lane_equality
from ptxsw.facts.lane_equality import Same
from ptxsw.parser import parse
from ptxsw.shuffle import same_bytes
from ptxsw.shuffle.memory_between import MemoryBetween
from ptxsw.validate import Outcome, Proved, validate
from tests.validate.test_warp import BEFORE, LOADS, PLAIN, STORED, WRAPPING


def written(text: str, patch: pytest.MonkeyPatch | None = None) -> Outcome | None:
    """What is made of a kernel, judged from the texts; None where nothing is made of it. With a
    `patch`, what is made where nothing is checked; else nothing of it is handed out."""
    if patch is not None:
        assert written(text) is None
        patch.setattr(checked_texts, "problem", lambda *_: None)
    options = pipeline.Options(mode="force", scheme="paper", form="keep")
    made = pipeline.optimize(text, options).text
    if made == text:
        return None
    first, second = parse(text), parse(made)
    return validate((first, first.kernels[0]), (second, second.kernels[0]))


STORING = PLAIN[0].replace(LOADS.replace(".nc", ""), STORED)


def test_what_is_written_is_proved() -> None:
    assert written(BEFORE) == Proved()
    assert written(WRAPPING) == Proved()
    assert written(STORING) is None


def test_rows_that_wrap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(same_bytes, "needs_rows", lambda *_: False)
    assert not isinstance(written(BEFORE, monkeypatch), Proved | None)


def test_indices_that_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    prove = lane_equality.prove_equal

    def without_needs(*arguments: Any, **options: Any) -> Any:
        found = prove(*arguments, **options)
        return replace(found, needs=()) if isinstance(found, Same) else found

    monkeypatch.setattr(same_bytes, "prove_equal", without_needs)
    assert not isinstance(written(WRAPPING, monkeypatch), Proved | None)


def test_a_store_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryBetween, "nothing_between", lambda *_: None)
    assert not isinstance(written(STORING, monkeypatch), Proved | None)
