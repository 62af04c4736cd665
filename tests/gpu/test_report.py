"""What a run has found, as people read it: the page of the documents, and the bad news."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.gpu import bars, faster, page, predicted, races
from benchmarks.gpu.correct import Ran, compared
from benchmarks.gpu.journal import Head, Journal, Line
from benchmarks.gpu.prepared import Fault, Forecast, Kernel, Manifest, Timed, Version
from benchmarks.gpu.trials import Trial
from benchmarks.ranks import rank_correlation

H100 = Head(
    "NVIDIA H100 80GB HBM3", "sm_90", "580.1", (1980, 2619), "0123", "2026-11-27, tree abc",
    "2026-11-28", "linux", "Python 3.12", False,
)  # fmt: skip


def told(expected: float) -> Forecast:
    return Forecast(expected / 4, expected * 4, expected / 1.5, expected * 1.5, expected, "dram")


KERNEL = Kernel(
    "k", "vectors", "k",
    (Version("original", "a"), Version("auto", "b", ("vectorize",)), Version("force", "b")),
    (Trial(0, "usual", "in", "out"), Trial(0, "shifted", "in", "moved")),
    timed=Timed("", 10**6, {"h100": {"original": told(3e-6), "auto": told(2e-6),
                                     "force": told(2e-6)}}),
)  # fmt: skip


def timing(version: str, seconds: float, noise: float = 0.0) -> faster.Timing:
    return faster.Timing(version, seconds, seconds, seconds, noise, 32, 0, None)


# ---------------------------------------------------------------- the page


def test_the_page_is_what_the_results_say() -> None:
    """`python -m benchmarks.gpu --page` writes it."""
    assert page.PAGE.read_text(encoding="utf-8") == page.text(page.folders())


def test_the_page_with_and_without_a_gpu(tmp_path: Path) -> None:
    assert "**Nothing was measured on a GPU yet.**" in page.text([])
    for name, device in (("gpu", "NVIDIA H100"), ("gpu-dry", "interpreter")):
        (tmp_path / name).mkdir()
        invented = (
            "- **All times are invented: the device is an interpreter. Nothing was measured.**"
        )
        content = (
            f"# {device}\n\n{invented if device == 'interpreter' else '- date'}\n\n## Faster?\n"
        )
        (tmp_path / name / "summary.md").write_text(content)
    (tmp_path / "gpu" / "notes.md").write_text("- It was the weather.\n")
    found = page.text(page.folders(tmp_path))
    assert "#### What became of it\n\n- It was the weather.\n" in found
    assert "### NVIDIA H100\n" in found and "#### Faster?" in found
    assert "### interpreter" not in found and "Nothing was measured" not in found


def test_the_readme_says_what_was_measured() -> None:
    """As long as nothing was, it says so."""
    readme = (page.PAGE.parents[1] / "README.md").read_text(encoding="utf-8")
    assert ("**On a GPU: nothing yet.**" in readme) == (page.folders() == [])


# ---------------------------------------------------------------- rows


def test_results_are_compared() -> None:
    results = {
        "k|original|usual 0": Ran("out", True, "text"),
        "k|original|shifted 0": Ran("moved", False, "text"),
        "k|auto|usual 0": Ran("other", True, "text"),
    }
    rows = list(compared([KERNEL], results, {"k|auto|shifted 0": "it failed"}))
    assert [(r.version, r.like_original, r.like_interpreter, r.wrong) for r in rows] == [
        ("original", None, True, False),
        ("original", None, None, False),  # other inputs
        ("auto", False, False, True),
        ("auto", None, None, True),
    ]


def test_faster_or_slower() -> None:
    series = faster.Series((timing("original", 4e-6), timing("auto", 2e-6)))
    rows = list(faster.rows({"k": KERNEL}, {"k": series}, H100.device))
    assert [(r.version, r.speedup, r.sign, r.forecast_right) for r in rows] == [
        ("auto", 2.0, 1, True), ("force", 2.0, 1, True),
    ]  # fmt: skip
    assert rows[0].forecast == pytest.approx(1.5)
    assert rows[0].bandwidth == pytest.approx(5e11)
    series = faster.Series((timing("original", 4e-6), timing("auto", 4.1e-6, 0.05)))
    (row, _) = faster.rows({"k": KERNEL}, {"k": series}, H100.device)
    assert (row.sign, row.forecast_right) == (0, None)  # within the noise
    (row, _) = faster.rows({"k": KERNEL}, {"k": series}, "another card")
    assert row.forecast is None
    assert "another" not in bars.svg([row], H100)


def test_copies() -> None:
    copied = faster.Series((timing("original", 1e-3),), copied=10**9)
    assert faster.copy_bandwidth({faster.COPY: copied}) == pytest.approx(2e12)
    assert faster.copy_bandwidth({}) is None


def test_predicted_or_not() -> None:
    series = faster.Series((timing("original", 4e-6), timing("auto", 9e-6)))
    rows = list(predicted.rows({"k": KERNEL}, {"k": series}, H100.device))
    assert [(row.likely, row.inside) for row in rows] == [(True, True), (False, False)]
    figures = predicted.figures(rows)
    assert figures is not None
    assert (figures.likely, figures.inside, figures.ranks) == (0.5, 0.5, None)
    assert figures.error == pytest.approx((0.25 + 7 / 9) / 2)
    assert predicted.figures([]) is None


def test_ranks_may_be_equal() -> None:
    assert rank_correlation([(1, 1), (1, 1), (2, 2)]) == pytest.approx(1)
    assert rank_correlation([(1, 3), (2, 3)]) == 0


# ---------------------------------------------------------------- tools


def test_what_a_tool_says() -> None:
    job = races.jobs(MANIFEST)[0]
    said = "========= COMPUTE-SANITIZER\n========= Error: Race reported\n========= ERROR SUMMARY: 1"
    found = races.line(job, races.FOUND, said, 60)
    assert found.result == {"theirs": "Error: Race reported"}
    assert races.line(job, 0, "========= COMPUTE-SANITIZER", 60).result == {"theirs": ""}
    assert races.line(job, None, "", 60).failed == "ran longer than 60 s"
    refused = races.line(job, 1, "========= Error: Device not supported. Please refer", 60)
    assert refused.failed.startswith("racecheck ended with 1: Error: Device not supported")
    (row,) = races.rows([FAULT], {job.items[0]: races.Told("a race")})
    assert (row.tool_right, row.right) == (True, False)


FAULT = Fault(KERNEL, "racecheck", True, "")
MANIFEST = Manifest("", "", "", "sm_90", 1.0, (KERNEL,), (), (FAULT,))


# ---------------------------------------------------------------- the journal


def test_a_journal_that_was_cut_off(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.begin(H100)
    journal.add(Line("correct", "k", "one", {"digest": "d", "same_inputs": True, "code": ""}))
    journal.add(Line("correct", "k", "two", failed="it failed"))
    whole = journal.path.read_text()
    journal.path.write_text(whole + '{"part": "corr')
    again = Journal(tmp_path)
    assert journal.path.read_text() == whole
    assert again.head == H100
    assert again.done("correct", "k") == ("one", "two")
    assert again.results("correct", Ran) == {"one": Ran("d", True, "")}
    assert again.failed("correct") == {"two": "it failed"}
    journal.path.write_text('{"device": "NVI')
    assert Journal(tmp_path).head is None
