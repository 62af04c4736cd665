"""Figures are taken from a clean tree, and say where they come from."""

from __future__ import annotations

import csv
import importlib.util
import re
import subprocess
from pathlib import Path

import pytest

from benchmarks import provenance, record

RESULTS = sorted(provenance.RESULTS.glob("[!g]*/*.csv"))  # but for those of benchmarks.gpu
_NO_MATPLOTLIB = importlib.util.find_spec("matplotlib") is None


def test_a_changed_tree_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for changed, said in ((["a.py", "b.py"], "not committed: a.py, b.py"), (None, "no git")):
        monkeypatch.setattr(provenance, "changes", lambda changed=changed: changed)
        assert record.main(["vecadd", "--into", str(tmp_path)]) == 2
        assert said in capsys.readouterr().err
    assert not any(tmp_path.iterdir())


def test_what_git_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    assert provenance.changes() is None
    assert provenance.tree() == "not known (no git)"
    results = tmp_path / "benchmarks" / "results"
    results.mkdir(parents=True)
    (tmp_path / "a.py").write_text("1")
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["add", "a.py"], [*who, "commit", "-qm", "a"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    (results / "new.csv").write_text("")  # what is being written does not count
    assert provenance.changes() == []
    assert re.fullmatch(r"[0-9a-f]{12}, clean", provenance.tree())
    (tmp_path / "a.py").write_text("2")
    assert provenance.changes() == ["a.py"]
    assert provenance.tree().endswith("NOT CLEAN: 1 files differ")


@pytest.mark.skipif(_NO_MATPLOTLIB, reason="no matplotlib")
def test_tables_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "_git", lambda *a: " M a.py" if a[0] == "status" else "0123")
    assert record.main(["vecadd", "--dirty", "--jobs", "1", "--into", str(tmp_path)]) == 0
    (folder,) = tmp_path.iterdir()
    assert folder.name == provenance.machine()
    names = {f"kernelgen-{real}.{s}" for real in ("float", "double") for s in ("csv", "md", "svg")}
    assert {path.name for path in folder.iterdir()} == names
    text = (folder / "kernelgen-float.md").read_text()
    assert "- tree: 0123, NOT CLEAN: 1 files differ" in text
    assert "- command: python -m benchmarks.kernelgen vecadd --real float --jobs 1" in text


def test_what_a_benchmark_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ("benchmarks.simt", "--operator", "vecadd", "--size", "32")
    assert record.record(tmp_path / "i.txt", command) in (0, 1)  # 1 on a busy machine
    written = (tmp_path / "i.txt").read_text()
    assert written.startswith("# date: 20")
    assert "# command: python -m benchmarks.simt --operator vecadd --size 32\n" in written
    assert re.search(r"^vecadd ", written, re.MULTILINE)
    assert "vecadd" in capsys.readouterr().out
    assert record.record(tmp_path / "i.txt", ("benchmarks.simt", "--nonsense")) == 1


def test_every_benchmark_that_is_recorded_is_there() -> None:
    for command in record.PRINTED.values():
        assert importlib.util.find_spec(command[0]) is not None
    assert all(not Path(path).is_absolute() for path in record._largest())


def test_without_a_gpu(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(record, "importable", lambda module: None)
    assert record.main(["--gpu", "--dirty", "--into", str(tmp_path)]) == 2
    assert "No GPU can be used" in capsys.readouterr().err
    assert not any(tmp_path.iterdir())


def test_names_of_machines() -> None:
    assert provenance.machine("NVIDIA A100-SXM4-80GB").endswith("-nvidia-a100-sxm4-80gb")


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_committed_results(path: Path) -> None:
    """They say where they come from, and nothing in them is wrong."""
    lines = path.read_text().splitlines()
    notes = [line for line in lines if line.startswith("# ")]
    for what in ("date: ", "command: python -m benchmarks.kernelgen", "versions: ", "machine: "):
        assert any(note.startswith(f"# {what}") for note in notes), what
    rows = list(csv.DictReader(line for line in lines if not line.startswith("# ")))
    assert rows
    for row in rows:
        assert row.get("verify", "-") in ("proved", "tested", "same", "-"), row
        assert row.get("numpy", "equal") == "equal", row
    assert path.with_suffix(".md").exists()
