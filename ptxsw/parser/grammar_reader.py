"""The careful reading of one statement, by the grammar, and the errors it ends in."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from ptxsw.parser import grammar
from ptxsw.parser.operand_trees import OperandBuilder
from ptxsw.parser.operands import BLANKS, Misread
from ptxsw.parser.scan import blank_comments
from ptxsw.parser.scope import Scope
from ptxsw.parser.variables import BadDeclaration, Declaration
from ptxsw.parser.variables import declaration as quick
from ptxsw.ptx.errors import ParseError
from ptxsw.ptx.ir import Guard, Instruction, Loc, Operand, Reg
from ptxsw.ptx.patterns import pattern
from ptxsw.ptx.source import Source, Span

if TYPE_CHECKING:
    from lark import Token, Tree

_GAP = r"(?:[ \t\r\n\f\v]|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)*"
_LABEL = pattern(rf"([A-Za-z][A-Za-z0-9_$]*|[_$%][A-Za-z0-9_$]+){_GAP}:(?!:)", re.ASCII)
_BLANK = r"[ \t]+"
_FILE = pattern(
    rf'\.file{_BLANK}[0-9]{{1,18}}{_BLANK}"[^"\n]*"(?:[ \t]*,[ \t]*[0-9]+){{0,2}}', re.ASCII
)
_IS_LOC = pattern(r"\.loc(?![A-Za-z0-9_])", re.ASCII)
_LOC = pattern(
    rf"""\.loc{_BLANK}([0-9]{{1,18}}){_BLANK}([0-9]{{1,18}})(?:{_BLANK}([0-9]{{1,18}}))?
    (?:[ \t]*,[^\n/]*)?""",
    re.VERBOSE | re.ASCII,
)


def label(text: str, at: int, end: int) -> tuple[str, int] | None:
    """Name of the label at `at` and the offset after its colon, or None."""
    match = _LABEL.match(text, at, end)
    return (match[1], match.end()) if match is not None else None


def location(source: Source, at: int, end: int) -> Loc | None:
    """The `.loc` at `at`, which ends with its line, or None if it is another directive."""
    if _IS_LOC.match(source.text, at, end) is None:
        return None
    match = _LOC.match(source.text, at, end)
    if match is None:
        raise ParseError(
            "expected file, line and column numbers after .loc", source, Span(at, at + 4)
        )
    file, line, column = match.groups()
    stop = at + len(match[0].rstrip(BLANKS))
    return Loc(int(file), int(line), int(column or 0), Span(at, stop))


def file_end(text: str, at: int, end: int) -> int | None:
    """The offset after the `.file` at `at`, which has no semicolon, or None if it is none."""
    match = _FILE.match(text, at, end)
    return match.end() if match is not None else None


class Reader(Protocol):
    """Reads one body: what surrounds an instruction."""

    source: Source
    scope: Scope

    def element_bytes(self, name: str) -> int: ...


def instruction(reader: Reader, at: int, end: int) -> Instruction:
    """The instruction that begins at `at`; its text ends at `end` at the latest."""
    from lark.exceptions import UnexpectedInput

    text = blank_comments(reader.source.text[at:end])
    try:
        tree = grammar.tree(text, "instruction")
    except UnexpectedInput as error:
        _refuse(reader.source, text, at, error)
    try:
        return _built(reader, tree, Span(at, end))
    except Misread as misread:
        where = Span(at + misread.start, at + misread.end)
        raise ParseError(misread.message, reader.source, where) from None
    except RecursionError:
        raise ParseError("operands nested too deeply", reader.source, Span(at, end)) from None


def _built(reader: Reader, tree: Tree[Any], span: Span) -> Instruction:
    from lark import Token

    builder = OperandBuilder(reader.scope, reader.element_bytes)
    words: list[str] = []
    operands: list[Operand] = []
    guard: Guard | None = None
    for child in tree.children:
        if isinstance(child, Token):
            words.append(str(child).strip("."))
        elif child.data in ("when", "unless"):
            name = child.children[0]
            assert isinstance(name, Token)
            guard = _guard(reader, name, child.data == "unless")
        else:
            operands.append(builder.operand(child))
    opcode, *modifiers = ".".join(words).split(".")
    return Instruction(opcode, tuple(modifiers), tuple(operands), guard, *span)


def _guard(reader: Reader, name: Token, negated: bool) -> Guard:
    reg = reader.scope.resolve(str(name))
    if type(reg) is not Reg:
        start = name.start_pos or 0
        raise Misread(f"'{name}' is not a declared predicate register", start, start + len(name))
    return Guard(reg, negated)


def declaration(text: str) -> tuple[tuple[Declaration, bool], ...]:
    """What a declaration of an unusual form, `;` included, declares, and whether initialised.

    Raises lark.exceptions.UnexpectedInput and BadDeclaration.
    """
    root = grammar.tree(text, "declaration")
    names: list[Any] = [child.children[0] for child in root.find_data("declarator")]
    starts = sorted(name.start_pos for name in names)
    head = text[: starts[0]]
    variables: list[tuple[Declaration, bool]] = []
    for start, stop in zip(starts, [*starts[1:], len(text)], strict=True):
        declarator, equals, _ = text[start:stop].partition("=")
        variables += [(d, bool(equals)) for d in quick(head + declarator.rstrip(" \t\r\n,;"))]
    return tuple(variables)


def unusual_declaration(
    source: Source, text: str, at: int, bad: BadDeclaration | None
) -> tuple[tuple[Declaration, bool], ...]:
    """A declaration, `;` included, that is not of a usual form (`bad` says why) or initialises
    several names. `text` stands at offset `at`. Raises ParseError."""
    from lark.exceptions import UnexpectedInput

    try:
        return declaration(text)
    except UnexpectedInput as error:
        if bad is None:
            _refuse(source, text, at, error)
    except BadDeclaration as worse:
        bad = bad or worse
    raise ParseError(bad.message, source, Span(at + bad.at, at + bad.at + 1)) from None


def header_error(source: Source, text: str, at: int) -> ParseError:
    """What is wrong with a function's header, whose text stands at offset `at`."""
    from lark.exceptions import UnexpectedInput

    offset, message = 0, _HEADER
    try:
        grammar.tree(text, "header")
    except UnexpectedInput as error:
        offset = _offset(text, error)
        stack = _unclosed(text[:offset])
        named = re.search(r"\.(?:entry|func)\b.*[A-Za-z0-9_$]", text[:offset], re.DOTALL)
        message = _CLOSERS[stack[-1]] if stack else _AFTER_HEADER if named else _HEADER
    return ParseError(message, source, Span(at + offset, at + offset + 1))


_CLOSERS = {
    "[": "expected ']' to close the address",
    "{": "expected ',' or '}' in the vector",
    "(": "expected ',' or ')' in the list",
}
_HEADER = "expected a function: .func (results) name (parameters) directives"
_AFTER_HEADER = "expected '{', ';' or a directive such as .reqntid"
_OPERAND = "expected an operand: a register, a name, a number, or '[', '{', '('"


def _refuse(source: Source, text: str, at: int, error: Any) -> NoReturn:
    """Say what was expected where the grammar stopped."""
    offset = _offset(text, error)
    message = _expected(text, offset, error)
    start = min(at + offset, max(0, len(source.text) - 1))
    raise ParseError(message, source, Span(start, start + 1)) from None


def _offset(text: str, error: Any) -> int:
    place = getattr(error, "pos_in_stream", None)
    if place is None or getattr(getattr(error, "token", None), "type", "") == "$END":
        return len(text.rstrip())
    return int(place)


def _expected(text: str, offset: int, error: Any) -> str:
    if text.startswith("/*", offset):
        return "expected '*/' to end the comment that begins here"
    wanted = set(getattr(error, "expected", None) or getattr(error, "allowed", None) or ())
    if "OPCODE" in wanted:
        if text.startswith("@"):
            return "expected an instruction after its guard"
        return "expected an instruction, a label or a directive"
    if "IDENT" in wanted and "INTEGER" not in wanted:
        return "expected a predicate register after '@'"
    if "IDENT" in wanted and "SELECTOR" not in wanted and "SEMICOLON" not in wanted:
        return _OPERAND
    stack = _unclosed(text[:offset])
    if stack:
        return _CLOSERS[stack[-1]]
    return "expected ',' or ';' after the operand"


def _unclosed(text: str) -> list[str]:
    stack: list[str] = []
    for char in text:
        if char in "[{(":
            stack.append(char)
        elif char in "]})" and stack:
            stack.pop()
    return stack
