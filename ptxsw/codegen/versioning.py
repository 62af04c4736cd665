"""Code that stands twice: rewritten where a test holds, and else as it was.

A stretch inside a body, a loop, or the whole body. Only the copy behind the test changes; the other
one is the text as it was, with what `common` lines add to both. Labels come from one stem each
(`names.FALLBACKS`), so that later passes know the copies.

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

from collections.abc import Iterable, Sequence

from msgspec import Struct

from ptxsw.codegen.builder import OVERLAP, Builder, Insertions, is_label_of
from ptxsw.codegen.splice import Edit, edited_part, insert_lines, line_end
from ptxsw.flow.cfg import Cfg
from ptxsw.flow.flow_graph import Loop
from ptxsw.ptx.ir import Body, Close, Directive, Label, Loc, Open, Statement, Variable
from ptxsw.ptx.source import Span


def stretch_twice(builder: Builder, span: tuple[int, int], fast: Insertions, slow_if: str) -> None:
    """Write the instructions of a `span`, its last one included, twice: with the lines of `fast`,
    and without them for threads in which predicate `slow_if` is true. Call it last: the builder's
    lines in the stretch go into both copies, those before its begin before the branch."""
    start, end = span
    text, body, common = builder.text, builder.body, builder.lines
    slow, done = builder.names.label("slow"), builder.names.label("done")
    # Lines before `start` may not be in the copy a second time.
    lines = fast.over(common)
    own_first = fast.before.get(start, ())
    lines.before.pop(start, None)
    edits = lines.edits(text, body, range(start, end + 1))
    whole = stretch(body, start, end)
    common.put_before(
        start, f"@{slow_if} bra {slow};", *own_first, edited_part(text, whole, edits),
        f"bra.uni {done};", f"{slow}:", *_line_again(text, body, whole),
    )  # fmt: skip
    common.put_after(end, f"{done}:")


def stretch(body: Body, start: int, end: int) -> Span:
    """The text of the instructions from `start` to `end`, the last included."""
    return Span(body.begin(start), body.instructions[end].end)


class LoopPlace(Struct, frozen=True):
    """Where a loop stands in the text: instructions `start` to `end`, which may hold blocks that
    are none of its own. Instruction `header` is where it begins, and `before` the unguarded branch
    that leads there, None where control falls into it."""

    header: int
    start: int
    end: int
    before: int | None


def loop_place(cfg: Cfg, loop: Loop) -> LoopPlace | str:
    """The text that holds a loop, and how control comes to it; or why nothing can stand before
    it."""
    blocks = [cfg.blocks[n] for n in loop.blocks]
    header = cfg.blocks[loop.header]
    start, end = min(b.start for b in blocks), max(b.end for b in blocks) - 1
    if not header.labels:
        return "the loop has no label"
    outside = [n for n in cfg.predecessors[loop.header] if n not in loop.blocks]
    if len(outside) != 1:
        return "the loop is entered from several places"
    block = cfg.blocks[outside[0]]
    if start <= block.start <= end:
        return "the code before the loop lies between its blocks"
    last = cfg.instructions[block.end - 1]
    # Lines before this branch are run exactly when the loop is entered. Before a conditional
    # branch they would also be run by threads that skip the loop, and could fault there.
    if last.opcode == "bra" and last.guard is None:
        return LoopPlace(header.start, start, end, block.end - 1)
    falls = block.end == header.start == start
    if not falls or (last.opcode == "bra" and block.successors[0] == loop.header):
        return "the loop is entered by a conditional branch"
    return LoopPlace(header.start, start, end, None)


def loop_twice(
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
    return [*lines, f"{slow}:", *_line_again(text, builder.body, span)]


def before_loop(builder: Builder, text: str, place: LoopPlace, lines: Sequence[str]) -> Edit | None:
    """Put lines where control enters a loop. Returns an edit if they belong to no instruction."""
    if place.before is not None:
        builder.before(place.before, *lines)
        return None
    return insert_lines(text, builder.labels_before(place.start), lines)


def body_twice(builder: Builder, fails: str) -> None:
    """Write the body once more behind its end, as it was, for where predicate `fails` is true at
    entry. It stands in braces, so that its labels are its own."""
    slow = builder.names.label(OVERLAP)
    builder.at_entry(f"@{fails} bra {slow};")
    start, end = copied(builder.body)
    copy = builder.text[start:end].rstrip()
    builder.at_end(f"{slow}:", "{", copy + line_end(builder.text), "}")


def stands_twice(body: Body) -> bool:
    """Does a test stand there already that was written here, and the body twice?"""
    return any(isinstance(s, Label) and is_label_of(s.name, OVERLAP) for s in body.statements)


def copied(body: Body) -> tuple[int, int]:
    """Where in the text the part of a body begins and ends that is written twice: all behind its
    leading declarations."""
    behind = body.leading[-1].span.end if body.leading else body.span.start + 1
    first = next(s for s in body.statements if s.span.start >= behind)
    return first.span.start, body.span.end - 1


def obstacle_to_copy(statements: Iterable[Statement]) -> str | None:
    """Why these may not stand twice; None where they can."""
    depth = 0
    for statement in statements:
        match statement:
            case Open():
                depth += 1
            case Close():
                depth -= 1
            # Registers of an inner scope are declared again with that scope. A second array would
            # take memory of its own, and a register that the body declares between instructions
            # would mean two things in the copy.
            case Variable(space=space) if space != "reg" or not depth:
                return "a variable is declared inside the kernel's code"
            case Directive(label=str()):
                return "the kernel contains a table of branch targets"
        if depth < 0:
            break
    return "a scope begins or ends inside" if depth else None


def _line_again(text: str, body: Body, span: Span) -> list[str]:
    """The `.loc` that holds where a part of a body begins, for the second of two copies of that
    part: behind the first, the last one in it holds."""
    lines = [s for s in body.others if type(s) is Loc]
    before = [s.span for s in lines if s.span.start < span.start]
    inside = any(span.start <= s.span.start < span.end for s in lines)
    return [text[before[-1].start : before[-1].end]] if before and inside else []
