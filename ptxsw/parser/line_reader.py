"""Bodies with one instruction a line, as compilers write them.

The text is cut at the semicolons that end a line. A piece is an instruction where what stands
before its operands (`@%p1 ld.global.f32`, its head) and the operands read as such; heads and
operands are read once per distinct text. Labels, `.loc`s, comments and braces on lines of
their own above an instruction are read by `Reader.side`, all else by `Reader.region`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, TypeAlias

from ptxsw.parser.node_factory import make_label, make_span
from ptxsw.parser.operands import BLANKS, NAME, Operands, Unreadable, split
from ptxsw.parser.scope import Scope
from ptxsw.ptx.ir import Guard, Instruction, Statement
from ptxsw.ptx.patterns import pattern
from ptxsw.ptx.source import Source

Head: TypeAlias = tuple[str, tuple[str, ...], str | None, int]
Cut: TypeAlias = Callable[[str, str], tuple[str, str, str]]
# `STATEMENT` is one statement wherever it stands; `SIDE` a line of a label, a `.loc`, a comment, a
# brace or a declaration. What neither knows for certain is read by the grammar.
_IDENT = r"(?:[A-Za-z][A-Za-z0-9_$]*+|[_$%][A-Za-z0-9_$]++)"
STATEMENT = pattern(
    rf"""[ \t\r\n]*+(?:
      (?:(@[ \t]*+(?:![ \t]*+)?{_IDENT})[ \t]++)?
        ([A-Za-z][A-Za-z0-9_]*+(?:\.[A-Za-z0-9_]++(?:::[A-Za-z0-9_]++)*+)*+)
        (?:[ \t]++([^;"/]*+))?;
    | (//[^\n]*+)
    | ({_IDENT})[ \t]*:(?!:)
    | (\.loc)[ \t]+([0-9]{{1,18}}+)[ \t]+([0-9]{{1,18}}+)[ \t]+([0-9]{{1,18}}+)(?![0-9])
      (?:[ \t]*,[ \t]*function_name[^,\n]*,[ \t]*inlined_at(?:[ \t]+[0-9]+)*)?
    | (\.(?!loc\b)[^;"/]*;|\.pragma[ \t]+"[^"\n]*"[ \t]*;)
    | ([{{}}])
    )""",
    re.VERBOSE | re.ASCII,
)
COMMENT, LABEL, LOC, DOTTED, BRACE = 4, 5, 9, 10, 11
SIDE = pattern(
    rf"""[ \t\r\n]*+(?:
      ({_IDENT}):(?!(?:[ \t\r\n]|//[^\n]*\n)*+\.(?:branchtargets|calltargets|callprototype)\b)
        [ \t]*(?://[^\n]*)?
    | (\.loc[ \t]+([0-9]{{1,18}}+)[ \t]+([0-9]{{1,18}}+)[ \t]+([0-9]{{1,18}}+)
      (?:[ \t]*,[ \t]*function_name[^,\n]*,[ \t]*inlined_at(?:[ \t]+[0-9]+)*)?)
      [ \t]*(?://[^\n]*)?
    | ([{{}}])[ \t]*(?://[^\n]*)?
    | //[^\n]*
    | ((?:\.reg|\.param)[ \t.][^;\n]*+);[ \t]*
    )\r?\n""",
    re.VERBOSE | re.ASCII,
)
SIDE_LABEL, SIDE_LOC, SIDE_BRACE, SIDE_DECLARATION = 1, 2, 6, 7
LABELLED = pattern(r"\s*\.(?:branchtargets|calltargets|callprototype)\b", re.ASCII)
WORD = pattern(rf'"[^"\n]*"|(?<![A-Za-z0-9_$%.])({_IDENT})', re.ASCII)
QUOTED = pattern(r'"[^"\n]*"')
DIRECTIVE = pattern(r"\s*\.([A-Za-z_][A-Za-z0-9_]*)", re.ASCII)

_HEAD = pattern(
    rf"""([ \t\r\f\v]*+)(?:(@[ \t]*+(?:![ \t]*+)?{_IDENT})[ \t]++)?
    ([A-Za-z][A-Za-z0-9_]*+(?:\.[A-Za-z0-9_]++(?:::[A-Za-z0-9_]++)*+)*+)[ \t]*+""",
    re.VERBOSE | re.ASCII,
)
# A line with other blanks before its operands than most lines of its text have.
_LINE = pattern(
    rf"""([ \t\r\f\v]*+)(?:(@[ \t]*+(?:![ \t]*+)?{_IDENT})[ \t]++)?
    ([A-Za-z][A-Za-z0-9_]*+(?:\.[A-Za-z0-9_]++(?:::[A-Za-z0-9_]++)*+)*+)[ \t]++([^;/"\n]++)""",
    re.VERBOSE | re.ASCII,
)
# `.reg .b32 %r<5>` or `.param .b32 name`: some texts have one a register.
DECLARED = pattern(
    rf"""[ \t\r]*+(\.reg|\.param)[ \t]*+\.([a-u][a-z0-9]*+)[ \t]++({_IDENT})
    (?:<(0|[1-9][0-9]{{0,8}})>)?""",
    re.VERBOSE | re.ASCII,
)
# What stands before the name in such a line.
DECLARING = pattern(
    r"([ \t\r]*+)\.(reg|param)[ \t]*+\.([a-u][a-z0-9]*+)[ \t]*+", re.VERBOSE | re.ASCII
)
_ONE_TAB = pattern(r"[a-z0-9]\t[%\[$]", re.ASCII)
_SHORT = 16  # characters of instructions without operands, and of no heads worth remembering
_new: Any = tuple.__new__


class Reader(Protocol):
    """Reads one body; what is no instruction on a line of its own, too."""

    source: Source
    scope: Scope
    statements: list[Statement]
    table: Operands

    @property
    def guards(self) -> Mapping[str, Guard]: ...
    def declare_line(self, line: str, at: int) -> bool: ...
    def region(self, at: int, stop: int, end: int) -> int: ...
    def side(self, at: int, stop: int) -> int: ...


class Opcodes(dict[str, tuple[str, tuple[str, ...]]]):
    """`ld.global.f32` -> ("ld", ("global", "f32")), split once per distinct text."""

    def __missing__(self, text: str) -> tuple[str, tuple[str, ...]]:
        opcode, *modifiers = text.split(".")
        self[text] = head = (opcode, tuple(modifiers))
        return head


class Heads(dict[str, "Head | None"]):
    """What stands in a line before its operands -> opcode, modifiers, text of the guard and number
    of blanks in front. Read once per text; None for what is no head."""

    __slots__ = ("_opcodes",)

    def __init__(self, opcodes: Opcodes) -> None:
        self._opcodes = opcodes

    def __missing__(self, text: str) -> Head | None:
        match = _HEAD.fullmatch(text)
        head: Head | None = None
        if match is not None:
            blanks, guard, word = match.groups()
            opcode, modifiers = self._opcodes[word]
            head = (opcode, modifiers, guard, len(blanks))
        if head is not None or len(text) < _SHORT:
            self[text] = head
        return head


def _separators(text: str) -> tuple[Cut, str, str]:
    """What a compiler writes between opcode and operands, how to cut a line there, and what it
    writes between operands."""
    comma = ", " if ", " in text else ","
    if " \t" in text:
        return str.partition, " \t", comma
    tab = text.find("\t%")
    if (tab > 0 and text[tab - 1].isalnum()) or _ONE_TAB.search(text) is not None:
        # GCC, which indents by tabs, too
        return str.rpartition, "\t", comma
    if "\t\t" in text:
        return str.partition, "\t\t", comma
    # Hand-written text: one blank, where lines are not indented by it.
    return str.partition, " ", comma


def read_lines(reader: Reader, heads: Heads, opcodes: Opcodes, at: int, end: int) -> None:
    """Read all statements between `at` and `end`. Raises ParseError."""
    text = reader.source.text
    line_end = ";\r\n" if text.find(";\r\n", at, end) >= 0 else ";\n"
    step = len(line_end)
    pieces = text[at:end].split(line_end)
    cut, gap, comma = _separators(text[at:end])
    del pieces[-1]  # what follows the last semicolon
    append = reader.statements.append
    table, guards = reader.table, reader.guards
    read = table.__getitem__
    lines = iter(pieces)
    for line in lines:
        stop = at + len(line)
        if "\n" in line and "(" not in line:  # else most likely a call over several lines
            line = _above(reader, line, at, stop)
            at = stop - len(line)
            if reader.table is not table:
                table, guards = reader.table, reader.guards
                read = table.__getitem__
        word, _, tail = cut(line, gap)
        head = heads[word] if tail else None
        if head is None and reader.declare_line(line, at):
            at = stop + step
        else:
            if head is None and "\n" not in line:
                head = heads[line] if len(line) < _SHORT else None  # `ret`
                if head is None:
                    head, tail = _other_blanks(line, opcodes)
                else:
                    tail = ""
            if head is not None:
                opcode, modifiers, guard, blanks = head
                try:
                    parts = tail.split(comma) if "{" not in tail else split(tail)
                    operands = (*map(read, parts),) if tail else ()
                    when = None if guard is None else guards[guard]
                except Unreadable:
                    pass
                else:
                    fields = (opcode, modifiers, operands, when, at + blanks, stop + 1)
                    append(_new(Instruction, fields))
                    at = stop + step
                    continue
            at = _odd(reader, lines, at, stop + 1, end, step)
        if reader.table is not table:
            table, guards = reader.table, reader.guards
            read = table.__getitem__
    if text[at:end].strip(BLANKS):
        reader.region(at, end, end)


def _other_blanks(line: str, opcodes: Opcodes) -> tuple[Head | None, str]:
    """Head and operands of a line with other blanks between them than most of its text has."""
    match = _LINE.fullmatch(line)
    if match is None:
        return None, ""
    blanks, guard, word, tail = match.groups()
    opcode, modifiers = opcodes[word]
    return (opcode, modifiers, guard, len(blanks)), tail


def _above(reader: Reader, piece: str, at: int, stop: int) -> str:
    """Read the lines above the last of a piece, which stands from `at` to `stop`; what is left."""
    above, _, line = piece.rpartition("\n")
    last = stop - len(line)
    name = above.lstrip("\n")
    if not name:
        return line
    if name[-1] == ":" and NAME.fullmatch(name[:-1]) is not None and line.lstrip(BLANKS)[:1] != ".":
        span = make_span(last - 1 - len(name), last - 1)
        reader.statements.append(make_label(name[:-1], span, reader.scope.number))
        return line
    reached = reader.side(at, last)
    return line if reached == last else piece[reached - at :]


def _odd(reader: Reader, lines: Iterator[str], at: int, stop: int, end: int, step: int) -> int:
    """Read a piece of another form, which stands from `at` to `stop`, and further ones where a
    statement goes on past it; the offset of the piece after them."""
    reached = reader.region(at, stop, end)
    at = stop - 1 + step
    while reached > at:
        line = next(lines, None)
        if line is None:
            return reached
        stop = at + len(line) + 1
        if reached < stop:
            reached = reader.region(reached, stop, end)
        at = stop - 1 + step
    return at
