"""A text that a rewrite has written and ptxsw cannot prove right is a fault of ptxsw."""

from __future__ import annotations

import pytest

from benchmarks.auto import files
from benchmarks.unproved import Unproved, main, show, unproved
from ptxsw.driver import checked_texts
from ptxsw.emulator.budget import OUT_OF_TIME
from ptxsw.rewrites.base import Attempt
from tests.rewrites.test_weighing import PROGRAMS


def test_what_is_taken_back_is_listed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its reason; what ran out of time apart."""

    def problem(attempt: Attempt, *_: object) -> str:
        return f"{checked_texts.UNCHECKED}: as is said of {attempt.rewrite}"

    monkeypatch.setattr(checked_texts, "problem", problem)
    assert main([str(PROGRAMS / "chunks.ptx")]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "kernels that could not be proved equal: 2"
    assert [line.split()[:4] for line in lines[2:4]] == [
        ["ptx/chunks", "chunks", "all", "read-only-loads"],
        ["ptx/chunks", "chunks", "all", "vectorize"],
    ]
    assert lines[3].endswith("as is said of vectorize")
    late = Unproved("ptx/chunks", "chunks", "all", "vectorize", 3, OUT_OF_TIME)
    assert {"kernels that could not be proved equal: 0", "out of time: 1"} <= set(show([late]))


@pytest.mark.slow
def test_all_that_is_written_for_the_programs_is_proved() -> None:
    every = [one for path in files(None, 0) for one in unproved(path, ("all",), 20.0)]
    assert [one for one in every if one.reason != OUT_OF_TIME] == []
