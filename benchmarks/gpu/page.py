"""Writes `docs/measured.md`: what was measured on a GPU, and what is only counted.

It is made from the folders of results, `benchmarks/results/gpu*`, as they are committed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.gpu.counters import TABLE
from benchmarks.gpu.report import INVENTED, SUMMARY
from benchmarks.provenance import RESULTS, ROOT

_HERE = Path(__file__).parent
NOTES = "notes.md"
"""Beside the results, by hand: what was found out about them since."""
PAGE = ROOT / "docs" / "measured.md"


def write() -> None:
    PAGE.write_text(text(folders()), encoding="utf-8")


def folders(results: Path = RESULTS) -> list[Path]:
    """Those with results of a GPU."""
    return sorted(path.parent for path in results.glob(f"gpu*/{SUMMARY}"))


def text(found: Sequence[Path]) -> str:
    """The page. What an interpreter stood for is no result."""
    summaries = {folder: (folder / SUMMARY).read_text(encoding="utf-8") for folder in found}
    measured = [
        _with_notes(summary, folder / NOTES) + _counters(folder / TABLE)
        for folder, summary in summaries.items()
        if INVENTED not in summary
    ]
    results = _measured(measured) if measured else (_HERE / "nothing.md").read_text()
    return (_HERE / "measured.md").read_text().replace("{results}", results)


def _measured(summaries: Sequence[str]) -> str:
    return "\n".join(line for summary in summaries for line in _lower(summary)) + "\n"


def _with_notes(summary: str, notes: Path) -> str:
    """What somebody found out about the results stands before the bad news."""
    if not notes.exists():
        return summary
    head, news, rest = summary.partition("## Bad news first")
    return f"{head}## What became of it\n\n{notes.read_text(encoding='utf-8')}\n{news}{rest}"


def _counters(table: Path) -> str:
    """What a table of the hardware's counters says above its rows."""
    if not table.exists():
        return ""
    lines = [line for line in table.read_text(encoding="utf-8").splitlines() if line[:1] == "#"]
    said = "\n".join(f"- {line.removeprefix('# ')}" for line in lines if "device:" not in line)
    return f"\n## Counted alike?\n\nBy the interpreter, and by Nsight Compute:\n\n{said}\n"


def _lower(summary: str) -> Iterator[str]:
    """The lines of a page as a section of another."""
    for line in summary.splitlines():
        yield f"##{line}" if line.startswith(("# ", "## ")) else line
