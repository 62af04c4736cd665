"""The reports of a whole build, summed up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins

from ptxsw import __version__
from ptxsw.ptx.patterns import pattern
from ptxsw.ptx.printable import one_line
from ptxsw.ptx.text_files import parsed, source_of_temporary
from ptxsw.report.layout import Paint, draw_text, plain
from ptxsw.report.model import Cost, Kernel
from ptxsw.report.serial import Report, from_json
from ptxsw.report.tables import Table
from ptxsw.report.text import draw_markdown, markdown


class Build(Struct, frozen=True):
    """Reports, and the files that are none with what is wrong with them."""

    reports: tuple[Report, ...]
    problems: tuple[str, ...]


def _report_files(directory: Path) -> Iterator[Path]:
    for path in sorted(directory.iterdir()):
        if path.suffix == ".json" and not path.name.startswith(".") and path.is_file():
            yield path


def _stamp(path: Path) -> tuple[str, int, int]:
    """Another one for each writing, whatever the clocks say: a report is renamed into its place."""
    state = path.stat()
    return path.name, state.st_ino, state.st_mtime_ns


def stamps(directory: Path) -> frozenset[tuple[str, int, int]]:
    """By which `load` knows the reports that are in a directory now; none if it can't be read."""
    try:
        return frozenset(_stamp(path) for path in _report_files(directory))
    except OSError:
        return frozenset()


def load(directory: Path, but: Collection[tuple[str, int, int]] = ()) -> Build:
    """All reports in a directory, but for those with these stamps. Raises OSError where it can't
    be read."""
    reports: list[Report] = []
    problems: list[str] = []
    for path in _report_files(directory):
        if _stamp(path) in but:
            continue
        one = load_one(path.read_bytes(), str(path))
        reports += one.reports
        problems += one.problems
    return Build(tuple(reports), tuple(problems))


def load_one(text: str | bytes, name: str) -> Build:
    """The one report in a text."""
    try:
        return Build((from_json(parsed(text)),), ())
    except ValueError as error:
        return Build((), (f"{one_line(name)}: {error}",))


class Figures(Struct, frozen=True, omit_defaults=True):
    """What ptxas makes of a kernel: registers of a thread, and what a warp does that runs through
    it once, each loop taken 16 times."""

    instructions: float
    wavefronts: float
    registers: int
    at_least: float  # cycles of a multiprocessor, if all of its resources work side by side
    at_most: float | None  # and one after another; None where that is not modelled


class ChangedKernel(Struct, frozen=True, omit_defaults=True):
    """A kernel that is not as it was: how many changes each rewrite made. The figures are absent
    where nobody asked ptxas, as in mode force."""

    file: str
    arch: str | None
    kernel: str
    readable: str | None
    rewrites: Mapping[str, int]
    before: Figures | None = None
    after: Figures | None = None


class LeftAlone(Struct, frozen=True):
    """A reason, and how many instructions were left alone for it."""

    reason: str
    count: int


class Summary(Struct, frozen=True):
    """What became of a build. `rewrites` counts the changes that each rewrite made."""

    files: int
    kernels: int
    seconds: float
    rewrites: Mapping[str, int]
    changed: tuple[ChangedKernel, ...]
    left_alone: tuple[LeftAlone, ...]
    warnings: tuple[str, ...]


def summed(build: Build) -> Summary:
    """All reports together."""
    kernels = [(report, kernel) for report in build.reports for kernel in report.kernels]
    changed = tuple(
        _changed(report, kernel, rewrites)
        for report, kernel in kernels
        if (rewrites := _rewrites(kernel))
    )
    total: Counter[str] = Counter()
    for one in changed:
        total.update(one.rewrites)
    warnings = [f"{_shown(r.file)}: {r.warning}" for r in build.reports if r.warning is not None]
    warnings += [
        f"{_shown(report.file)}: {kernel.readable or kernel.name} {kernel.failed}"
        for report, kernel in kernels if kernel.failed is not None
    ]  # fmt: skip
    return Summary(
        len(build.reports), len(kernels), sum(report.seconds or 0 for report in build.reports),
        dict(sorted(total.items())), changed, _left_alone(build.reports), tuple(warnings),
    )  # fmt: skip


def _rewrites(kernel: Kernel) -> dict[str, int]:
    """How many changes each rewrite made."""
    counts = Counter(rewrite.rewrite for rewrite in kernel.rewrites or ())
    counts["uniform-loops"] += sum(loop.form == "uniform" for loop in kernel.loops or ())
    return {name: count for name, count in sorted(counts.items()) if count}


def _changed(report: Report, kernel: Kernel, rewrites: Mapping[str, int]) -> ChangedKernel:
    kept = kernel.decision if kernel.decision is not None and kernel.decision.kept else None
    before, after = (None, None) if kept is None else (kept.before, kept.after)
    return ChangedKernel(
        _shown(report.file), report.arch, kernel.name, kernel.readable, rewrites,
        _figures(before), _figures(after),
    )  # fmt: skip


def _figures(cost: Cost | None) -> Figures | None:
    if cost is None:
        return None
    return Figures(
        cost.instructions, cost.wavefronts, cost.registers, cost.at_least, cost.at_most
    )  # fmt: skip


def summary(build: Build, paint: Paint = plain, width: int | None = None) -> str:
    """Which kernels changed and by what, why others did not, and what a report warns of, for a
    terminal of so many characters."""
    return _drawn(summed(build), lambda table: draw_text(table, paint, width), one_line)


def summary_markdown(build: Build) -> str:
    """The same as Markdown, as for the summary of a CI job."""
    return _drawn(summed(build), draw_markdown, markdown)


def summary_json(build: Build) -> dict[str, Any]:
    """The same for programs, with the files that are no reports."""
    data: dict[str, Any] = to_builtins(summed(build))
    return {"ptxsw": __version__, **data, "problems": list(build.problems)}


def _drawn(told: Summary, draw: Callable[[Table], list[str]], form: Callable[[str], str]) -> str:
    parts = [[form(head_line(told))]]
    if told.changed:
        parts.append(draw(_table(told.changed)))
    if told.left_alone:
        rows = _in_short(told.left_alone)
        parts.append(draw(Table(("left alone", "because"), rows, frozenset({"left alone"}))))
    if told.warnings:
        parts.append([form(warning) for warning in told.warnings])
    parts.append([f"{_plural(told.files, 'file')}, {told.seconds:.1f} s of analysis"])
    return "\n".join("".join(f"{line}\n" for line in part) for part in parts)


def _in_short(left_alone: Iterable[LeftAlone]) -> tuple[tuple[str, str], ...]:
    """The most frequent reasons without lines and figures, which are others for each kernel, and
    how many instructions were left alone for the rest."""
    counts: Counter[str] = Counter()
    for one in left_alone:
        counts[_PARTICULARS.sub("", one.reason)] += one.count
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    rows = [(str(count), reason) for reason, count in ordered[:_REASONS]]
    if rest := sum(count for _, count in ordered[_REASONS:]):
        rows.append((str(rest), f"{len(ordered) - _REASONS} other reasons: --format json has all"))
    return tuple(rows)


_REASONS = 10  # shown of a build; more are for programs
_PARTICULARS = pattern(r" \(lines? \d[^)]*\)| at line \d+|(?<=no clear gain in ptxas's output): .*")


def head_line(told: Summary) -> str:
    """ "2 of 9 kernels changed: bank-conflicts 1, vectorize 4"."""
    head = f"{len(told.changed)} of {_plural(told.kernels, 'kernel')} changed"
    return f"{head}: {_counts(told.rewrites)}" if told.rewrites else head


def _table(changed: Sequence[ChangedKernel]) -> Table:
    """A line for each kernel; columns that would be empty are left out."""
    columns = {
        "file": [one.file for one in changed],
        "arch": [one.arch or "?" for one in changed],
        "kernel": [one.readable or one.kernel for one in changed],
        "rewrites": [_counts(one.rewrites) for one in changed],
    }
    figures = {
        name: [_step(one, name) for one in changed]
        for name in ("instructions", "wavefronts", "registers")
    }
    figures["cycles"] = [_cycles(one) for one in changed]
    columns |= {name: cells for name, cells in figures.items() if any(cells)}
    rows = tuple(zip(*columns.values(), strict=True))
    return Table(tuple(columns), rows, frozenset(figures))


def _step(one: ChangedKernel, name: str) -> str:
    """ "40 to 44"."""
    if one.before is None or one.after is None:
        return ""
    return f"{getattr(one.before, name):g} to {getattr(one.after, name):g}"


def _cycles(one: ChangedKernel) -> str:
    """The predicted time of a warp on a multiprocessor: "73-180 to 70-122"."""
    if one.before is None or one.after is None:
        return ""
    return " to ".join(
        f"{cost.at_least:.0f}-{'?' if cost.at_most is None else f'{cost.at_most:.0f}'}"
        for cost in (one.before, one.after)
    )


def _counts(rewrites: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in rewrites.items())


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _shown(file: str) -> str:
    """A file's name; of nvcc's temporary files the part that comes from their source."""
    return source_of_temporary(file) or file


def _left_alone(reports: Iterable[Report]) -> tuple[LeftAlone, ...]:
    """Why instructions were left alone, the most frequent reason first."""
    counts = Counter(
        refusal.reason
        for report in reports
        for kernel in report.kernels
        for refusal in kernel.refusals or ()
    )
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(LeftAlone(reason, count) for reason, count in ordered)
