"""Where the programs of a CUDA toolkit are looked for, and in which order."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ptxsw.toolchain import programs


def _program(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def test_beside_ptxas_then_on_path_then_in_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ptxas = _program(tmp_path / "toolkit/bin/ptxas")
    wanted = [
        _program(tmp_path / "toolkit/bin/nvdisasm"),
        _program(tmp_path / "path/nvdisasm"),
        _program(tmp_path / "packages/nvidia/cu13/bin/nvdisasm"),
    ]
    monkeypatch.setattr(sys, "path", [str(tmp_path / "packages")])
    environ = {"PTXSW_REAL_PTXAS": ptxas, "PATH": str(tmp_path / "path")}
    assert list(programs.places("nvdisasm", environ)) == wanted


def test_each_place_is_named_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ptxas = _program(tmp_path / "bin/ptxas")
    wanted = [_program(tmp_path / "bin/nvdisasm")]
    monkeypatch.setattr(sys, "path", [])
    environ = {"PTXSW_REAL_PTXAS": ptxas, "PATH": str(tmp_path / "bin")}
    assert list(programs.places("nvdisasm", environ)) == wanted


def test_what_cannot_be_run_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ptxas = _program(tmp_path / "bin/ptxas")
    Path(_program(tmp_path / "bin/nvdisasm")).chmod(0o644)
    monkeypatch.setattr(sys, "path", [])
    environ = {"PTXSW_REAL_PTXAS": ptxas, "PATH": ""}
    assert list(programs.places("nvdisasm", environ)) == []
