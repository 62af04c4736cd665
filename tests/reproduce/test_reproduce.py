"""`ptxsw reproduce`: the paper's figures beside ours, from what the wheel carries."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from ptxsw.cost import sass
from ptxsw.report.model import Proof, Rewrite
from ptxsw.reproduce import operators, speedups, table2
from ptxsw.reproduce.paper import GPUS, SECTION_7, SHOWN, TABLE_2, logs
from ptxsw.toolchain import ptxas
from tests.command_line import in_text

ROOT = Path(__file__).parents[2]


# ---------------------------------------------------------------- Table 2


@pytest.fixture(scope="module")
def rows() -> dict[str, table2.Row]:
    return {row.operator: row for row in table2.table2()}


def test_every_figure_is_the_papers_or_has_a_reason(rows: dict[str, table2.Row]) -> None:
    assert rows.keys() == TABLE_2.keys()
    assert not any(row.open for row in rows.values())
    as_many = {n for n, row in rows.items() if row.shuffles == row.paper.shuffles}
    assert as_many == TABLE_2.keys() - {"whispering"}
    as_loaded = {n for n, row in rows.items() if row.loads == row.paper.loads}
    assert as_loaded == TABLE_2.keys() - {"matmul", "matvec", "sincos"}


def test_distances_are_the_papers_where_rows_begin_at_their_end(
    rows: dict[str, table2.Row],
) -> None:
    found = {name for name, row in rows.items() if row.paper.delta is not None}
    for name in found - {"whispering"}:
        assert round(rows[name].by_rows or 0, 2) == TABLE_2[name].delta, name
    middle = {name for name in found if rows[name].delta != rows[name].by_rows}
    assert {"gaussblur", "jacobi", "wave13pt"} < middle and "tricubic" not in middle
    whispering = rows["whispering"]  # five of distance 1, and in the paper one of distance 0
    assert (whispering.shuffles, whispering.delta) == (5, 1.0)
    assert round((whispering.shuffles * 1.0 + 0) / 6, 2) == TABLE_2["whispering"].delta


def test_what_is_said_of_other_texts_is_so() -> None:
    """Four steps of the sum in the loop, three left over; two loads of data and two of a table."""
    for name in ("matmul", "matvec"):
        lines = operators.operator_text(name).splitlines()
        loads = [n for n, line in enumerate(lines) if "ld.global" in line]
        gaps = [n for one, n in pairwise(loads)
                if any("bra" in line for line in lines[one:n])]  # fmt: skip
        assert len(loads) == 14 and loads.index(gaps[0]) == 8
    data = operators.operator_text("sincos").split("ld.global.nc.")[1:]
    assert sorted(line[:3] for line in data) == ["f32", "f32", "u32", "u32"]


def rewrite(source: int, delta: int) -> Rewrite:
    return Rewrite(
        line=9, source_line=source, delta=delta, proof=Proof("proved", ()), rewrite="shuffle",
        detail={},
    )  # fmt: skip


def test_the_end_of_a_row_serves_all_others() -> None:
    middle = [rewrite(1, -1), rewrite(1, 1)]
    assert table2.from_the_ends(middle) == 1.5  # of -1, 0, 1: 1 and 2
    assert table2.from_the_ends([*middle, rewrite(2, 3)]) == 2.0
    assert table2.from_the_ends([rewrite(1, 0)]) is None  # a copy
    assert table2.from_the_ends([]) is None


def test_a_figure_without_a_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    other = {**TABLE_2, "vecadd": replace(TABLE_2["vecadd"], shuffles=1)}
    monkeypatch.setattr(table2, "TABLE_2", other)
    (row,) = table2.table2(["vecadd"])
    assert row.open and "vecadd: NOT EXPLAINED" in table2.shown([row])


# ---------------------------------------------------------------- Figures 2 and 3


@pytest.fixture(scope="module")
def jacobi() -> tuple[speedups.Predictor, list[speedups.Speedup]]:
    predictor = speedups.Predictor()
    return predictor, list(speedups.speedups(predictor, ["jacobi"]))


def test_each_version_on_each_gpu(
    jacobi: tuple[speedups.Predictor, list[speedups.Speedup]],
) -> None:
    predictor, found = jacobi
    assert [(one.variant, one.gpu) for one in found] == [(v, g) for v in SHOWN for g in GPUS]
    times = {(log.gpu, log.variant): log.seconds for log in logs() if log.operator == "jacobi"}
    for one in found:
        measured = times[one.gpu, "original"] / times[one.gpu, one.variant]
        assert one.measured == measured and 0.5 < one.predicted / measured < 2
    text = speedups.figure2(found, predictor.note)
    assert [line.split()[0] for line in text.splitlines() if line.startswith("jacobi ")] == [
        "jacobi"
    ] * 3
    assert "V100: PTXASW gains +14.7 % at best and -15.2 % on average of 16 operators" in text
    assert "memory dependency" in speedups.figure3(found)


def test_loads_are_left_out_and_shuffles_are_made(
    jacobi: tuple[speedups.Predictor, list[speedups.Speedup]],
) -> None:
    _, found = jacobi
    if found[0].before is None:
        pytest.skip("no ptxas or no nvdisasm")
    made = {one.variant: (one.before, one.after) for one in found}
    for variant, (before, after) in made.items():
        assert before is not None and after is not None and before.shuffles == 0
        assert (after.shuffles > 0) == (variant != "noload")
        assert (after.loads < before.loads) == (variant != "paper")


def test_without_ptxas_it_says_what_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object, **__: object) -> None:
        raise ptxas.NoPtxas("no ptxas found")

    monkeypatch.setattr(sass, "read", none)
    predictor = speedups.Predictor()
    assert predictor.counts("laplacian", "original") is None
    one = speedups.Speedup(
        next(iter(GPUS)), "laplacian", "paper", 1.0, 1.0, 0, (), "dram", None, None
    )
    text = speedups.figure2([one], predictor.note)
    assert "Not known: no ptxas found" in text and " -> " not in text.partition("\n\n")[2][:200]


def test_what_the_paper_says_is_in_its_logs() -> None:
    """Of nine operators of 16: the best gains of section 7, and NO LOAD's of section 8."""
    times = {(log.gpu, log.operator, log.variant): log.seconds for log in logs()}

    def gain(gpu: str, operator: str, variant: str) -> float:
        return 100 * (times[gpu, operator, "original"] / times[gpu, operator, variant] - 1)

    k40, titan, volta = GPUS
    names = {log.operator for log in logs()}
    for gpu in (k40, titan):
        best = max(gain(gpu, name, "paper") for name in names)
        assert round(best, 1) == SECTION_7[gpu].best
    assert round(gain(k40, "tricubic", "noload")) == 153  # "yielding 2.53x performance"
    assert round(gain(volta, "gameoflife", "noload")) == 35  # "limited to up to 1.35x"


# ---------------------------------------------------------------- the command


def test_the_command(tmp_path: Path) -> None:
    done = in_text("reproduce", "table2", "--operator", "jacobi", "--format", "json", cwd=tmp_path)
    assert done.returncode == 0
    (row,) = json.loads(done.stdout)["table2"]
    assert (row["shuffles"], row["loads"], row["paper"]["delta"]) == (6, 9, 1.5)
    done = in_text("reproduce", "table2", "--operator", "vecadd", cwd=tmp_path)
    assert "vecadd    C              0/2   0/2" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("table2", "--operator", "jacoby"), "no operator 'jacoby'; available: divergence, "),
        (("figure2", "--operator", "vecadd"), "the paper's logs do not have vecadd; they have: "),
    ],
)
def test_what_it_has_not(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = in_text("reproduce", *words, cwd=tmp_path)
    assert done.returncode == 2 and said in done.stderr


def test_an_installation_without_the_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operators, "_PLACES", ())
    with pytest.raises(FileNotFoundError, match="this installation of ptxsw has no such operator"):
        operators.operator_text("jacobi")


def test_the_wheel_carries_every_text() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    forced = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    ptx = {to: source for source, to in forced.items() if to.startswith("ptxsw/reproduce/")}
    names = {f"ptxsw/reproduce/ptx/{name}.ptx" for name in TABLE_2}
    assert ptx.keys() == names | {"ptxsw/reproduce/ptx/nvhpc"}
    assert all((ROOT / source).exists() for source in ptx.values())
    timed = {log.operator for log in logs()}
    assert {path.stem for path in (ROOT / ptx["ptxsw/reproduce/ptx/nvhpc"]).iterdir()} == timed


@pytest.mark.slow
def test_from_an_installed_wheel(tmp_path: Path) -> None:
    """Outside a checkout, which the wheel's files are read from then."""
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    made = subprocess.run([*pip, "wheel", "--no-deps", "-w", str(tmp_path), str(ROOT)])
    if made.returncode:
        pytest.skip("no wheel can be built (hatchling is not to be had)")
    (wheel,) = tmp_path.glob("*.whl")
    place = tmp_path / "site"
    subprocess.run([*pip, "install", "--no-deps", "--target", place, wheel], check=True)
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(place)!r}); "
               "from ptxsw.__main__ import main; main()", "reproduce", "table2"]  # fmt: skip
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and "tricubic2   C            48/67  48/67" in done.stdout
