"""The Python interface: what is there, and what it says to wrong arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ptxsw

TEXT = (Path(__file__).parents[1] / "report" / "ptx" / "matmul.ptx").read_text()


def test_dir_shows_the_interface() -> None:
    assert set(ptxsw.__all__) <= set(dir(ptxsw))
    for name in ptxsw.__all__:
        assert getattr(ptxsw, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'analyse'"):
        _ = ptxsw.analyse  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("given", "shape"),
    [(256, (256, 1, 1)), ((16, 16), (16, 16, 1)), ([8, 8, 4], (8, 8, 4)), ((32,), (32, 1, 1))],
)
def test_blocks_of_one_to_three_dimensions(given: Any, shape: tuple[int, ...]) -> None:
    report = ptxsw.analyze(TEXT, block=given)
    assert [kernel.block for kernel in report.kernels] == [shape, shape]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((64, 64), "64x64 is not a block of 1 to 1024 threads"),
        ((0,), "0 is not a block of 1 to 1024 threads"),
        ((-1, -1), "-1x-1 is not a block of 1 to 1024 threads"),
        ((), "() is not the shape of a block, which is one to three whole numbers"),
        (
            (1, 1, 1, 1),
            "(1, 1, 1, 1) is not the shape of a block, which is one to three whole numbers",
        ),
        ("16x16", "'16x16' is not the shape of a block, which is one to three whole numbers"),
        (16.0, "16.0 is not the shape of a block, which is one to three whole numbers"),
    ],
)
def test_what_is_no_block(given: Any, said: str) -> None:
    with pytest.raises(ValueError) as error:
        ptxsw.analyze(TEXT, block=given)
    assert str(error.value) == said


def test_a_kernel_that_is_not_there() -> None:
    said = "m.ptx: no kernel 'nope' with a body; there are: naive, tiled"
    for ask in (
        lambda: ptxsw.analyze(TEXT, "m.ptx", kernel="nope"),
        lambda: ptxsw.optimize(TEXT, ptxsw.Options(only="nope"), "m.ptx"),
        lambda: ptxsw.verify(TEXT, TEXT, kernel="nope", names=("m.ptx", "n.ptx")),
    ):
        with pytest.raises(ValueError) as error:
            ask()
        assert str(error.value) == said
