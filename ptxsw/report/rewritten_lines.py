"""A text and its edits line by line: what each stretch of edited lines became."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from ptxsw.codegen.splice import Edit, apply
from ptxsw.ptx.patterns import pattern
from ptxsw.ptx.source import Source, Span
from ptxsw.report.model import Kernel
from ptxsw.report.shown import Report


class RewrittenLines(Struct, frozen=True):
    """Lines `first` to `last` of a text, and the lines that stand there after its edits."""

    first: int
    last: int
    new: tuple[str, ...]


def stretches(source: Source, edits: Iterable[Edit]) -> Iterator[RewrittenLines]:
    """The edited lines of a text, in order; edits that share a line share a stretch."""
    group: list[Edit] = []
    first = last = 0
    for edit in sorted(edits, key=lambda e: (e.span.start, e.span.end)):
        begin, end = source.line(edit.span.start), source.line(edit.span.end)
        if group and begin > last:
            yield RewrittenLines(first, last, _after(source, group))
            group = []
        if not group:
            first = begin
        last = max(end, last if group else 0)
        group.append(edit)
    if group:
        yield RewrittenLines(first, last, _after(source, group))


def _after(source: Source, edits: list[Edit]) -> tuple[str, ...]:
    start = edits[0].span.start - (source.place(edits[0].span.start)[1] - 1)
    end = source.text.find("\n", max(e.span.end for e in edits))
    end = len(source.text) if end < 0 else end
    moved = [Edit(Span(e.span.start - start, e.span.end - start), e.text) for e in edits]
    return tuple(apply(source.text[start:end], moved).splitlines())


# ---------------------------------------------------------------- before and after

_WRITES = pattern(r"\s*(?:@!?%\S+\s+)?[a-z][\w.:]*\s+(\{[^}]*\}|[^,;\s]+)")
_OURS = pattern(r"%sw_\w+")
_MOST_LINES = 24  # of one change


class ChangedLine(Struct, frozen=True):
    """The line of a rewrite, and the new lines that make its value."""

    line: int
    before: str
    after: tuple[str, ...]


def changes(
    report: Report, source: Source, parts: Iterable[RewrittenLines]
) -> Iterator[ChangedLine]:
    """A change for each rewrite of the report."""
    edited = list(parts)
    begin = 0
    for kernel in sorted(report.kernels, key=_last_line):
        end = _last_line(kernel)
        new = [line for one in edited if begin < one.first <= end for line in one.new]
        begin = end
        writers: dict[str, list[int]] = {}
        for number, line in enumerate(new):
            for register in _written(line):
                writers.setdefault(register, []).append(number)
        for rewrite in kernel.rewrites or ():
            before = source.line_text(rewrite.line).strip()
            yield ChangedLine(rewrite.line, before, tuple(_makers(before, new, writers)))


def _last_line(kernel: Kernel) -> int:
    return max((access.line for access in kernel.accesses or ()), default=0)


def _written(line: str) -> list[str]:
    match = _WRITES.match(line)
    return re.findall(r"%[\w$.]+", match[1]) if match else []


def _makers(before: str, new: list[str], writers: Mapping[str, list[int]]) -> list[str]:
    """The new lines that write what the old one wrote, and those that made their operands."""
    shown: set[int] = set()
    work = _written(before)
    for register in work:  # which grows
        for number in writers.get(register, ()):
            if number not in shown and len(shown) < _MOST_LINES:
                shown.add(number)
                work.extend(_OURS.findall(new[number]))
    return [new[number].strip() for number in sorted(shown)]
