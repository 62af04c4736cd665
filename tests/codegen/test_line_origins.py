"""Which line of the original a line of the edited text is said to be."""

from __future__ import annotations

from ptxsw.codegen.splice import Edit, LineOrigins, apply, insert
from ptxsw.ptx.source import Source, Span

ORIGINAL = """\
add.s64 %rd2, %rd1, 4;
ld.global.f32 %f1, [%rd2];
bar.sync 0;
ld.global.f32 %f2, [%rd2+4];
bar.sync 0;
ret;
"""


def named(*edits: Edit) -> list[tuple[int, str]]:
    """Each line of the edited text after the line of the original that it is said to be."""
    text = apply(ORIGINAL, edits)
    line_of = LineOrigins(Source(ORIGINAL), edits)
    told, at = [], 0
    for line in text.splitlines(keepends=True):
        told.append((line_of(at), line.strip()))
        at += len(line)
    return told


def behind(text: str) -> Edit:
    return insert(len(ORIGINAL), text)


def test_lines_that_stay_keep_their_numbers() -> None:
    line = "mov.b32 %r1, 0;"
    assert [n for n, _ in named(insert(0, f"{line}\n"))] == [1, 1, 2, 3, 4, 5, 6]


def test_a_copy_has_the_lines_of_what_it_copies() -> None:
    copy = ORIGINAL.removeprefix("add.s64 %rd2, %rd1, 4;\n")
    assert named(behind(f"$slow:\n{copy}"))[6:] == [
        (7, "$slow:"),  # no copy stands before it: it is where it was put
        (2, "ld.global.f32 %f1, [%rd2];"),
        (3, "bar.sync 0;"),  # line 5 says the same, but the copy goes on from line 2
        (4, "ld.global.f32 %f2, [%rd2+4];"),
        (5, "bar.sync 0;"),
        (6, "ret;"),
    ]


def test_what_replaces_a_line_of_a_copy_has_its_number() -> None:
    copy = ORIGINAL.replace("ld.global.f32 %f2, [%rd2+4];", "mov.b32 %r9, %r8;\nshfl %f2, %f1;")
    told = [n for n, _ in named(behind(copy))[6:]]
    assert told == [1, 2, 3, 4, 4, 4, 6]  # the second barrier, which two lines say, goes with it


def test_a_moved_line_has_the_number_that_it_had() -> None:
    load = "ld.global.f32 %f2, [%rd2+4];\n"
    at = ORIGINAL.index(load)
    moved = named(insert(0, load), Edit(Span(at, at + len(load)), ""))
    assert moved[0] == (4, load.strip())
    assert [n for n, _ in moved] == [4, 1, 2, 3, 5, 6]


def test_a_line_that_several_say_is_no_copy_by_itself() -> None:
    assert named(behind("bar.sync 0;\n"))[-1][0] == 7


def test_what_is_a_copy() -> None:
    copy = ORIGINAL.replace("ld.global.f32 %f2, [%rd2+4];", "ld.global.nc.f32 %f2, [%rd2+4];")
    edits = (insert(0, "mov.b32 %r1, 0;\n"), behind(f"$slow:\n{copy}"))
    text, origins = apply(ORIGINAL, edits), LineOrigins(Source(ORIGINAL), edits)
    starts = [at for at in range(len(text)) if at == 0 or text[at - 1] == "\n"]
    assert [origins.is_copy(at) for at in starts] == [False] * 8 + [True] * 6


def test_notes_in_between_change_no_origin() -> None:
    """A comment or a `.loc` is no line that a copy has left out or goes on with."""
    note = "// a note\n.loc 1 2 3\n"
    noted = ORIGINAL.replace("ld.global.f32 %f2", f"{note}ld.global.f32 %f2")
    copy = noted.replace("ld.global.f32 %f2, [%rd2+4];", f"mov.b32 %r9, %r8;\n{note}shfl %f2, %f1;")
    edits = (insert(len(noted), copy),)
    text, line_of = apply(noted, edits), LineOrigins(Source(noted), edits)
    told = {text[at:].partition("\n")[0]: line_of(at) for at in range(len(noted), len(text))}
    assert told["mov.b32 %r9, %r8;"] == told["shfl %f2, %f1;"] == 6
