"""Real compiler output equals itself, by the short way and run in full."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptxsw.parser import parse
from ptxsw.validate import Proved, proof, validate

FIXTURES = sorted((Path(__file__).parents[1] / "fixtures").glob("*.ptx"))
LONGEST = 1500  # instructions


@pytest.mark.parametrize("path", FIXTURES, ids=lambda p: p.stem)
@pytest.mark.parametrize("full", [False, True], ids=["equal blocks", "all run"])
def test_a_kernel_equals_itself(path: Path, full: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if full:
        monkeypatch.setattr(proof, "prove_identical", lambda *_: False)
    module = parse(path.read_text())
    for kernel in module.kernels:
        if len(kernel.body.instructions) <= LONGEST:
            assert validate((module, kernel), (module, kernel)) == Proved(), kernel.name
