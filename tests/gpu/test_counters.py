"""What ncu prints, beside what the interpreter counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.gpu import counters, page
from benchmarks.gpu.counters import LOADS, SECTORS, STORES, Row
from benchmarks.gpu.prepare import of_subject
from benchmarks.gpu.prepared import Manifest, Prepared, stem, write

ROWS = (
    Row("k", "auto", SECTORS, 64, 64),
    Row("k", "auto", LOADS, 1024, 960),
    Row("k", "auto", STORES, 0, 0),
)


def test_the_table_and_the_page(tmp_path: Path) -> None:
    (tmp_path / "summary.md").write_text("# H100\n")
    counters.write(tmp_path, ROWS, "H100")
    lines = (tmp_path / counters.TABLE).read_text().splitlines()
    assert lines[1:5] == [
        "# sectors: 1 of 1 launches as the hardware counts",
        "# wavefronts of shared loads: 0 of 1 launches as the hardware counts",
        "# wavefronts of shared stores: 0 of 0 launches as the hardware counts",
        "kernel,version,quantity,counted,hardware",
    ]
    assert lines[5] == "k,auto,wavefronts of shared loads,1024,960"  # what differs comes first
    assert "- sectors: 1 of 1 launches as the hardware counts" in page.text([tmp_path])


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("prepared")
    kernel, texts = of_subject("transpose-float", 0.01)
    manifest = Manifest("", "", "", "sm_90", 0.01, (kernel,), (), ())
    used = {version.text for version in kernel.versions}
    write(folder, manifest, {text: code for text, code in texts.items() if stem(text) in used})
    return Prepared(folder)


@pytest.mark.slow
def test_a_transpose_counts_as_on_an_h100(prepared: Prepared, tmp_path: Path) -> None:
    """Its tile of 32 x 32 words is read by columns: 32 wavefronts for each of 128 warps. The
    figures of the hardware are those that an H100 gave."""
    order = [version.name for _, version in counters.launches(prepared)]
    assert set(order) == {"original", "auto", "force"}
    loads = {"original": 4096, "auto": 128, "force": 128}
    table = tmp_path / "ncu.csv"
    lines = ['"ID","Metric Name","Metric Value"', "==PROF== not of the table"]
    for number, version in enumerate(order):
        values = {SECTORS: (512, 512), LOADS: (loads[version],), STORES: (128,)}
        for quantity, names in counters.METRICS.items():
            for name, value in zip(names, values[quantity], strict=True):
                lines.append(f'"{number}","{name}","{value:,}"')
    table.write_text("\n".join(lines) + "\n")
    rows = list(counters.compared(prepared, table))
    assert len(rows) == 9 and all(row.equal for row in rows), rows
    table.write_text("\n".join(lines[:2]))
    with pytest.raises(ValueError, match="0 launches, and 3 were prepared"):
        list(counters.compared(prepared, table))
