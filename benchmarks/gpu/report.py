"""What a run has found, for people: the worst news first.

`summary.md`, a CSV for each part, and bars of speed-ups; beside them `journal.jsonl`, which all of
it is made from.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from benchmarks.gpu import bars, correct, faster, interpreted, predicted, races
from benchmarks.gpu.correct import Compared, Ran
from benchmarks.gpu.faster import Series
from benchmarks.gpu.journal import Head, Journal
from benchmarks.gpu.parts import PARTS
from benchmarks.gpu.prepared import Kernel, Manifest

SUMMARY = "summary.md"
_MOST = 12  # lines of a list of bad news
INVENTED = "**All times are invented: the device is an interpreter. Nothing was measured.**"


class Found:
    """All results of a folder, row by row."""

    def __init__(self, manifest: Manifest, journal: Journal, left_out: dict[str, str]) -> None:
        assert journal.head is not None
        self.head: Head = journal.head
        self.manifest, self.journal, self.left_out = manifest, journal, left_out
        kernels = manifest.by_name
        self.correct = self._compared(correct.NAME, manifest.kernels)
        self.programs = self._compared(interpreted.NAME, manifest.programs)
        self._open = {k.name: k.open for k in (*manifest.kernels, *manifest.programs) if k.open}
        self.series = journal.results(faster.NAME, Series)
        device = self.head.device
        self.faster = sorted(faster.rows(kernels, self.series, device), key=_losers_first)
        self.predicted = sorted(predicted.rows(kernels, self.series, device), key=_farthest_first)
        told = journal.results(races.NAME, races.Told)
        self.races = sorted(
            races.rows(manifest.faults, told), key=lambda row: (row.right, row.tool_right)
        )

    def _compared(self, part: str, kernels: Sequence[Kernel]) -> list[Compared]:
        results, failed = self.journal.results(part, Ran), self.journal.failed(part)
        rows = correct.compared(kernels, results, failed)
        return sorted(rows, key=lambda row: not row.wrong)

    def open(self, kernel: str) -> tuple[str, ...]:
        """The functions of a kernel whose last bits PTX leaves open."""
        return self._open.get(kernel, ())

    def wrong(self, rows: Iterable[Compared]) -> list[Compared]:
        """Those that can't be explained by what PTX leaves open."""
        return [
            row for row in rows
            if row.failed or row.like_original is False
            or (row.like_interpreter is False and not self.open(row.kernel))
        ]  # fmt: skip

    def unfinished(self) -> Iterator[tuple[str, int, int]]:
        """Of each part how many items have no result, and of how many."""
        for part in PARTS.values():
            items = [(job.name, item) for job in part.jobs(self.manifest) for item in job.items]
            done = {(li.job, li.item) for li in self.journal.lines if li.part == part.NAME}
            if len(missing := set(items) - done):
                yield part.NAME, len(missing), len(items)


def _losers_first(row: faster.Row) -> tuple[bool, float]:
    return row.wrong is None, row.speedup or 0.0


def _farthest_first(row: predicted.Row) -> tuple[bool, bool, float]:
    return row.inside, row.likely, -max(row.off, 1 / row.off)


# ---------------------------------------------------------------- the files


def write(folder: Path, found: Found) -> None:
    """All files."""
    folder.mkdir(parents=True, exist_ok=True)
    notes = list(origin(found.head))
    for name, (head, rows) in _tables(found).items():
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as out:
            out.writelines(f"# {note}\n" for note in notes)
            csv.writer(out, lineterminator="\n").writerows([head, *rows])
    (folder / SUMMARY).write_text("\n".join(summary(found)) + "\n", encoding="utf-8")
    (folder / "speedups.svg").write_text(bars.svg(found.faster, found.head), encoding="utf-8")


Table = tuple[Sequence[str], list[Sequence[str]]]


def _tables(found: Found) -> dict[str, Table]:
    compared = ("kernel", "version", "launch", "like the original", "like the interpreter",
                "loaded", "open functions", "failed")  # fmt: skip

    def lines(rows: Iterable[Compared]) -> list[Sequence[str]]:
        return [
            (r.kernel, r.version, r.trial, _answer(r.like_original), _answer(r.like_interpreter),
             r.code, " ".join(found.open(r.kernel)), r.failed)
            for r in rows
        ]  # fmt: skip

    return {
        "correct": (compared, lines(found.correct)),
        "interpreter": (compared, lines(found.programs)),
        "faster": (_FASTER, [_faster(row, found) for row in found.faster]),
        "predicted": (_PREDICTED, [_predicted(row) for row in found.predicted]),
        "races": (_RACES, [_races(row) for row in found.races]),
    }


def _answer(value: bool | None) -> str:
    return {True: "yes", False: "NO", None: "-"}[value]


_FASTER = ("kernel", "group", "version", "rewrites", "original us", "us", "quartiles us", "noise %",
           "speed-up", "forecast", "sign forecast", "GB/s", "of a copy", "registers",
           "wrong")  # fmt: skip


def _faster(row: faster.Row, found: Found) -> Sequence[str]:
    copy = faster.copy_bandwidth(found.series)
    share = f"{row.bandwidth / copy:.2f}" if copy and row.bandwidth else "-"
    return (
        row.kernel, row.group, row.version, "+".join(row.rewrites), _us(row.original),
        _us(row.seconds), f"{_us(row.low)} to {_us(row.high)}", f"{100 * row.noise:.1f}",
        _ratio(row.speedup), _ratio(row.forecast), _answer(row.forecast_right),
        f"{row.bandwidth / 1e9:.0f}" if row.bandwidth else "-", share,
        f"{row.registers[0]} > {row.registers[1]}", row.wrong or "",
    )  # fmt: skip


def _us(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1e6 * seconds:.2f}"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


_PREDICTED = ("kernel", "version", "us", "at least", "at most", "likely from", "likely to",
              "expected/measured", "likely", "inside", "bound")  # fmt: skip


def _predicted(row: predicted.Row) -> Sequence[str]:
    told = row.forecast
    times = (row.seconds, told.low, told.high, told.likely_low, told.likely_high)
    return (
        row.kernel, row.version, *map(_us, times), f"{row.off:.2f}", _answer(row.likely),
        _answer(row.inside), told.bound,
    )  # fmt: skip


_RACES = ("kernel", "tool", "faulty", "the tool found", "the interpreter found", "both right")


def _races(row: races.Row) -> Sequence[str]:
    return (
        row.kernel, row.tool, "yes" if row.faulty else "no", row.theirs or "nothing",
        row.ours or "nothing", _answer(row.right and row.tool_right),
    )  # fmt: skip


# ---------------------------------------------------------------- the summary


def origin(head: Head) -> Iterator[str]:
    """Where results come from."""
    if head.invented:
        yield INVENTED
    clocks = ", ".join(f"{what} {mhz} MHz at most" for what, mhz in
                       zip(("clock", "memory"), head.clocks, strict=True) if mhz)  # fmt: skip
    yield f"device: {head.device} ({head.arch}), driver {head.driver}{clocks and ', ' + clocks}"
    yield f"date: {head.date}"
    yield f"prepared: {head.prepared_from} ({head.prepared})"
    yield f"machine: {head.machine}; {head.versions}"


def summary(found: Found) -> Iterator[str]:
    """The lines of the page."""
    yield f"# {found.head.device}"
    yield ""
    yield from (f"- {line}" for line in origin(found.head))
    yield ""
    yield "## Bad news first"
    yield ""
    news = list(bad_news(found))
    yield from (f"- {line}" for line in news or ["none"])
    for title, lines in (
        (correct.TITLE, _counted(found, found.correct)),
        (faster.TITLE, _faster_lines(found)),
        (predicted.TITLE, _predicted_lines(found)),
        (races.TITLE, _races_lines(found)),
        (interpreted.TITLE, _counted(found, found.programs)),
    ):
        yield from ("", f"## {title}", "", *lines)


def bad_news(found: Found) -> Iterator[str]:
    """What is wrong, slower, not forecast, or not run."""
    for rows in (found.correct, found.programs):
        wrong = found.wrong(rows)
        yield from map(_wrong, wrong[:_MOST])
        if len(wrong) > _MOST:
            yield f"… and {len(wrong) - _MOST} more wrong results"
    for item, why in found.journal.failed(faster.NAME).items():
        yield f"not timed: {item}: {why}"
    for item, why in found.journal.failed(races.NAME).items():
        yield f"no tool could be run: {item.split('|')[0]}: {why}"
    for row in found.faster:
        if row.wrong is not None:
            yield f"wrong on the large launch: {row.kernel}, {row.version}: {row.wrong}"
        elif row.sign == -1 and row.speedup is not None:
            yield (
                f"slower: {row.kernel}, {row.version} ({'+'.join(row.rewrites)}): "
                f"{1 / row.speedup:.3f} times as long"
            )
    missed = [row for row in found.races if not row.right]
    yield from (f"the interpreter is wrong about {row.kernel}: {row.ours or 'nothing found'}"
                for row in missed)  # fmt: skip
    yield from (f"part {name} was not run: {why}" for name, why in found.left_out.items())
    for name, missing, total in found.unfinished():
        if name not in found.left_out:
            yield f"part {name}: {missing} of {total} items were not run"


def _wrong(row: Compared) -> str:
    what = row.failed.partition("\n")[0] or (
        "not as the original's" if row.like_original is False else "not as the interpreter's"
    )
    return f"wrong: {row.kernel}, {row.version}, {row.trial}: {what}"


def _counted(found: Found, rows: Sequence[Compared]) -> Iterator[str]:
    """How many results were as they should be."""
    if not rows:
        yield "Nothing was run."
        return
    wrong = found.wrong(rows)
    kernels, others = (
        len({row.kernel for row in rows}),
        [r for r in rows if r.like_original is not None],
    )
    yield f"{len(rows)} launches of {kernels} kernels, {len(wrong)} of them wrong."
    if others:
        same = sum(row.like_original is True for row in others)
        yield (
            f"{same} of {len(others)} results of rewritten kernels are as the original's, "
            "bit for bit."
        )
    closed = [r for r in rows if not found.open(r.kernel) and r.like_interpreter is not None]
    same = sum(row.like_interpreter is True for row in closed)
    yield f"{same} of {len(closed)} are as the interpreter's, bit for bit."
    left = [r for r in rows if found.open(r.kernel) and r.like_interpreter is not None]
    if left:
        same = sum(row.like_interpreter is True for row in left)
        yield (
            f"Of {len(left)} more, with functions whose last bits PTX leaves open, {same} are as "
            "the interpreter's."
        )
    unknown = sum(row.like_interpreter is None and not row.failed for row in rows)
    if unknown:
        yield f"{unknown} were given other inputs than the interpreter, so these can't be compared."


def _faster_lines(found: Found) -> Iterator[str]:
    rows = [row for row in found.faster if row.sign is not None]
    if not rows:
        yield "Nothing was timed."
        return
    copy = faster.copy_bandwidth(found.series)
    if copy:
        yield f"A copy on the device moves {copy / 1e9:.0f} GB/s."
    for version in ("auto", "force"):
        own = [row.sign for row in rows if row.version == version]
        counts = f"{own.count(1)} faster, {own.count(-1)} slower, {own.count(0)} neither"
        yield f"{version}: {len(own)} kernels were changed: {counts}."
    signs = [row.forecast_right for row in rows if row.forecast_right is not None]
    if signs:
        yield f"The sign of {sum(signs)} of {len(signs)} differences was forecast."
    yield ""
    yield from markdown(_FASTER, [_faster(row, found) for row in found.faster])


def _predicted_lines(found: Found) -> Iterator[str]:
    figures = predicted.figures(found.predicted)
    if figures is None:
        yield "Nothing was timed for which there is a forecast."
        return
    ranks = "-" if figures.ranks is None else f"{figures.ranks:.2f}"
    yield (
        f"{figures.rows} times: {100 * figures.likely:.0f} % are in the likely interval, "
        f"{100 * figures.inside:.0f} % within the bounds; "
        f"median error {100 * figures.error:.0f} %, rank correlation {ranks}."
    )
    yield ""
    yield from markdown(_PREDICTED, [_predicted(row) for row in found.predicted])


def _races_lines(found: Found) -> Iterator[str]:
    if not found.races:
        yield "No tool was run."
        return
    ours, theirs = (sum(getattr(r, name) for r in found.races) for name in ("right", "tool_right"))
    yield (
        f"Of {len(found.races)} kernels the interpreter is right about {ours}, the tools about "
        f"{theirs}."
    )
    yield ""
    yield from markdown(_RACES, [_races(row) for row in found.races])


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table."""
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "/") for cell in row) + " |"
