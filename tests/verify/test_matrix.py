"""A fixed sample of the full matrix; all of it is `make verify-all`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real import FIXTURES
from tests.verify.matrix import KERNELGEN, OWN, lines, texts

SAMPLE = [
    KERNELGEN / "jacobi.ptx", KERNELGEN / "clang" / "gradient.ptx", OWN / "vectors.ptx",
    OWN / "mirror.ptx", OWN / "shift.ptx",
    next(p for p in FIXTURES if p.stem == "clang_plain_O2_sm_60"),
]  # fmt: skip


@pytest.mark.parametrize("path", SAMPLE, ids=lambda path: path.stem)
def test_sample(path: Path) -> None:
    found = lines(path)
    assert len(found) >= 4
    for line in found:
        assert not line.wrong
        assert line.proved
        assert line.launches
        assert line.arches


def test_the_sample_is_of_the_matrix() -> None:
    assert set(SAMPLE) <= set(texts())
