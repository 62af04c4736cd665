"""Two threads that meet at a byte, for a terminal, and the places of a fault in words.

thread   at          instruction                 what it does
(0,1,0)  tile.cu:9   st.shared.f32 [%r22], %f1;  writes byte 68 of tile::s
                     -- no barrier --
(1,0,0)  tile.cu:12  ld.shared.f32 %f2, [%r31];  reads byte 68 of tile::s
"""

from __future__ import annotations

from pathlib import PurePath

from ptxsw.correctness.subject import Subject
from ptxsw.correctness.verdict import Fault
from ptxsw.report.layout import draw_text
from ptxsw.report.source_places import SourcePlace
from ptxsw.report.tables import Table

_HEADER = ("thread", "at", "instruction", "what it does")
_LONGEST = 48  # characters of an instruction


def drawing(subject: Subject, fault: Fault) -> tuple[str, ...]:
    """The two threads of a race in the order in which they came, and what is missing between them;
    nothing for faults of one thread."""
    if fault.other is None or len(fault.acts) != 2 or len(fault.threads) != 2:
        return ()
    later, earlier = (
        (thread, _at(subject, index), _text(subject, index), act)
        for thread, index, act in zip(
            _short(fault.threads), (fault.index, fault.other), fault.acts, strict=True
        )
    )
    missing = ("", "", _missing(fault), "")
    return tuple(draw_text(Table(_HEADER, (earlier, missing, later))))


def _short(threads: tuple[str, ...]) -> tuple[str, ...]:
    """Without what goes without saying: the block, where it is the same."""
    parts = [thread.removeprefix("thread ").partition(" of ") for thread in threads]
    same = len({block for _, _, block in parts}) == 1
    return tuple(thread if same else f"{thread} of {block}" for thread, _, block in parts)


def _missing(fault: Fault) -> str:
    blocks = {thread.partition(" of ")[2] for thread in fault.threads}
    if fault.rule == "async-wait":
        return "-- no wait for the copy --"
    if len(blocks) > 1:
        return "-- nothing orders blocks --"
    return "-- no barrier --"


def _text(subject: Subject, index: int) -> str:
    span = subject.cfg.instructions[index].span
    text = " ".join(subject.module.source.slice(span).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _at(subject: Subject, index: int) -> str:
    place = subject.places.get(index)
    return f"PTX {subject.line(index)}" if place is None else f"{_file(place)}:{place.line}"


def _file(place: SourcePlace) -> str:
    return PurePath(place.file).name


def line_of(subject: Subject, index: int) -> str:
    """ "line 12" of the source where that is known, else of the PTX."""
    place = subject.places.get(index)
    return f"line {subject.line(index) if place is None else place.line}"


def between(subject: Subject, first: int, second: int) -> str:
    """Where something has to be put that orders an instruction before another one: "between lines
    12 and 14", or behind the first if the other comes in the next iteration of a loop."""
    one, two = (subject.places.get(index) for index in (first, second))
    source = one is not None and two is not None and one.file == two.file and one.line != two.line
    lines = (
        (one.line, two.line) if source and one is not None and two is not None
        else (subject.line(first), subject.line(second))
    )  # fmt: skip
    of = "" if source or one is None else " of the PTX"
    if lines[0] < lines[1]:
        return f"between lines {lines[0]} and {lines[1]}{of}"
    return f"behind line {lines[0]}{of}, before the next iteration reaches line {lines[1]}"
