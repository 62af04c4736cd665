"""The benchmark that counts how many addresses are understood, and what hides the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.addresses import figures, main
from ptxsw.analysis.warps import Warps
from ptxsw.emulator.run import emulate
from ptxsw.parser import parse
from tests.rewrites.pair import kernel


def causes(body: str) -> list[str | None]:
    module = parse(kernel(body))
    return list(figures(emulate(module, module.kernels[0]), Warps(None)))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("ld.global.f32 %f1, [%rd4];\nst.global.f32 [%rd5], %f1;", [None, None]),
        ("ld.global.s32 %r3, [%rd4];\nmul.wide.s32 %rd6, %r3, 4;\nadd.s64 %rd7, %rd1, %rd6;\n"
         "ld.global.f32 %f1, [%rd7];", [None, "index loaded at line 19"]),
        ("clz.b32 %r3, %r2;\nshfl.sync.bfly.b32 %r4, %r3, 1, 31, -1;\nmul.wide.s32 %rd6, %r4, 4;\n"
         "add.s64 %rd7, %rd1, %rd6;\nld.global.f32 %f1, [%rd7];", ["shfl gives it"]),
    ],
)  # fmt: skip
def test_what_hides_an_address(body: str, expected: list[str | None]) -> None:
    assert causes(body) == expected


def test_a_row_for_each_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "somebody"
    folder.mkdir()
    (folder / "one.ptx").write_text(kernel("ld.global.f32 %f1, [%rd4];"))
    (folder / "none.ptx").write_text("no PTX")
    assert main([str(folder)]) == 0
    _, row, whole = capsys.readouterr().out.splitlines()
    assert row.split() == ["somebody", "1", "1", "100", "%", ";", "1", "not", "looked", "at"]
    assert whole.split() == ["all", "1", "1", "100", "%"]
