"""The known fault of each program is what is said of it first, and of its mended twin nothing is
said but notes."""

from __future__ import annotations

import pytest

from benchmarks.programs.faults.cases import FAULTS, NEEDS_PTXAS, path
from ptxsw import pipeline
from ptxsw.report import Finding

LOOKED_AT = sorted(FAULTS.keys() - NEEDS_PTXAS)


def findings(name: str, *, mended: bool = False) -> tuple[Finding, ...]:
    file = path(name, mended=mended)
    [kernel] = pipeline.analyze(file.read_text(), file.name).kernels
    return kernel.findings or ()


@pytest.mark.parametrize("name", LOOKED_AT)
def test_fault_comes_first(name: str) -> None:
    first = findings(name)[0]
    assert first.rule == FAULTS[name]
    assert first.file is not None and first.file.endswith(f"/{name}.cu")
    assert first.source_line and first.weight > 0


@pytest.mark.parametrize("name", LOOKED_AT)
def test_mended_twin_has_notes_at_most(name: str) -> None:
    assert {finding.level for finding in findings(name, mended=True)} <= {"note"}
