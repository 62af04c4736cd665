"""A program reads and writes the files that it is handed, and nothing is left of them."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from ptxsw.toolchain.programs import ProgramFile, program_file


@pytest.fixture(params=["in memory", "in a directory"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where directories of files would be."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    if request.param == "in a directory":
        monkeypatch.delattr(os, "memfd_create")
    return tmp_path


def _copied(source: ProgramFile, output: ProgramFile) -> None:
    open_in_child = source.descriptors + output.descriptors
    subprocess.run(["cp", source.path, output.path], check=True, pass_fds=open_in_child)


def test_a_program_reads_one_file_and_writes_another(place: Path) -> None:
    with program_file(b"text", "in.txt") as source, program_file(b"", "out.txt") as output:
        assert output.read() == b""
        _copied(source, output)
        assert output.read() == source.read() == b"text"
    assert list(place.iterdir()) == []


def test_nothing_is_left_where_the_program_fails(place: Path) -> None:
    with pytest.raises(ZeroDivisionError), program_file(b"text", "in.txt") as source:
        descriptors = source.descriptors
        _ = 1 / 0
    assert list(place.iterdir()) == []
    for descriptor in descriptors:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)


def test_an_output_that_the_program_removes_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    with program_file(b"", "out.txt") as output:
        subprocess.run(["rm", output.path], check=True)
        assert output.read() == b""


def test_in_memory_no_file_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with program_file(b"text", "in.txt"):
        assert list(tmp_path.iterdir()) == []
