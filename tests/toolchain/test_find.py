"""The real ptxas is found, and never the wrapper itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptxsw.toolchain import find
from tests.build.conftest import ROOT


def program(path: Path, text: str = "#!/bin/sh\nexit 0\n") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def found(environ: dict[str, str], prefix: str | None = None) -> str | None:
    candidate = find.real_ptxas(environ, prefix)
    return None if candidate is None else candidate.path


def test_the_wrapper_knows_itself() -> None:
    assert find.is_wrapper(str(ROOT / "wrappers" / "ptxas"))


def test_order(tmp_path: Path) -> None:
    chosen = program(tmp_path / "chosen")
    on_path = program(tmp_path / "bin" / "ptxas")
    toolkit = program(tmp_path / "cuda" / "bin" / "ptxas")
    prefix = program(tmp_path / "nvcc" / "ptxas")
    environ = {"PATH": str(tmp_path / "bin"), "CUDA_HOME": str(tmp_path / "cuda")}
    assert found({**environ, "PTXSW_REAL_PTXAS": chosen}, prefix) == chosen
    assert found(environ, prefix) == prefix
    assert found(environ, "ptxas") == found(environ) == on_path
    assert found({**environ, "PATH": ""}) == toolkit


def test_nvhpc(tmp_path: Path) -> None:
    program(tmp_path / "Linux_x86_64" / "24.9" / "cuda" / "bin" / "ptxas")
    newest = program(tmp_path / "Linux_x86_64" / "25.11" / "cuda" / "13.0" / "bin" / "ptxas")
    assert found({"NVHPC": str(tmp_path)}) == newest


def test_we_are_passed_over_also_through_links(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "ptxas").symlink_to(ROOT / "wrappers" / "ptxas")
    program(tmp_path / "two" / "ptxas", "#!/usr/bin/python3\nfrom ptxsw.build.shim import main\n")
    real = program(tmp_path / "three" / "ptxas")
    path = ":".join(str(tmp_path / name) for name in ("one", "two", "none", "three"))
    assert found({"PATH": path}) == real


def test_what_led_back_to_us_is_not_tried_again(tmp_path: Path) -> None:
    loop = program(tmp_path / "a" / "ptxas")
    real = program(tmp_path / "b" / "ptxas")
    environ = {"PATH": f"{tmp_path / 'a'}:{tmp_path / 'b'}"}
    assert found(environ) == loop
    assert found(find.remember(environ, loop)) == real
    both = find.remember(find.remember(environ, loop), real)
    assert found(both) not in (loop, real)


@pytest.mark.parametrize("problem", ["does not exist", "is not executable"])
def test_problems_are_named(tmp_path: Path, problem: str) -> None:
    path = tmp_path / "ptxas"
    if problem == "is not executable":
        path.write_text("text")
    assert find.PossiblePtxas(str(path), "PATH").problem == problem
    assert found({"PTXSW_REAL_PTXAS": str(path)}) is None


def test_prefix() -> None:
    assert find.split_prefix(["ptxas", "-v"]) == ("ptxas", ["-v"])
    assert find.split_prefix(["/c/bin/ptxas", "-v"]) == ("/c/bin/ptxas", ["-v"])
    assert find.split_prefix(["a.ptx", "ptxas"]) == (None, ["a.ptx", "ptxas"])
    assert find.split_prefix([]) == (None, [])
