"""A loop that stands twice: changed where something holds as it begins, and else as it was.

bra LOOP;          =>    @%fails bra $sw_slow1;
                         {
                         LOOP: …             with other instructions
                         }
                         bra.uni $sw_done1;
                         $sw_slow1:
                         LOOP: …             as it was
                         $sw_done1:
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ptxsw.codegen.builder import Builder
from ptxsw.codegen.insertions import Insertions
from ptxsw.codegen.line_information import line_again
from ptxsw.codegen.splice import Edit, edited_part, insert_lines, line_end
from ptxsw.ptx.source import Span


class LoopPlace(Struct, frozen=True):
    """Where a loop stands in the text: instructions `start` to `end`, which may hold blocks that
    are none of its own. Instruction `header` is where it begins, and `before` the unguarded branch
    that leads there, None where control falls into it."""

    header: int
    start: int
    end: int
    before: int | None


def in_two_ways(
    builder: Builder, text: str, place: LoopPlace, fast: Insertions, ahead: Sequence[str],
    fails: str,
) -> list[str]:  # fmt: skip
    """The lines before a loop, without the test: the branch to the unchanged loop under guard
    `fails`, the lines `ahead`, and the loop with the lines of `fast`, in braces so that its labels
    are its own. Call it last: lines added to the loop before this call go into both copies."""
    slow, done = builder.names.label("slow"), builder.names.label("done")
    begin = builder.labels_before(place.start)
    edits = fast.over(builder.lines).edits(text, builder.body, range(place.start, place.end + 1))
    span = Span(begin, builder.instructions[place.end].end)
    copy = edited_part(text, span, edits)
    lines = [f"@{fails} bra {slow};", *ahead, "{"]
    # A rotated loop may stand in the text with other blocks before its header: the copy then has
    # to be entered by a branch, as the original is.
    if place.before is not None and place.header != place.start:
        branch = builder.instructions[place.before]
        lines.append(text[branch.start : branch.end])
    lines += [copy + line_end(text), "}"]
    # Unless it ends with an unguarded branch, the changed copy would fall through into the old one.
    last = builder.instructions[place.end]
    if last.opcode != "bra" or last.guard is not None:
        lines.append(f"bra.uni {done};")
        builder.lines.put_after(place.end, f"{done}:")
    return [*lines, f"{slow}:", *line_again(text, builder.body, span)]


def put_before(builder: Builder, text: str, place: LoopPlace, lines: Sequence[str]) -> Edit | None:
    """Put lines where control enters a loop. Returns an edit if they belong to no instruction."""
    if place.before is not None:
        builder.before(place.before, *lines)
        return None
    return insert_lines(text, builder.labels_before(place.start), lines)
