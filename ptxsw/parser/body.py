"""The statements of a body.

One compiled expression steps from statement to statement; opcodes and operands are read once
per distinct text. What it does not know for certain (comments inside a statement, odd operands,
text that is not PTX) is read by the grammar.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterable, Mapping
from functools import cached_property

from ptxsw.errors import ParseError
from ptxsw.ir import (
    Body,
    Close,
    Directive,
    Guard,
    Instruction,
    Label,
    Loc,
    Open,
    Operand,
    Reg,
    Statement,
    Variable,
    type_width,
)
from ptxsw.parser import careful
from ptxsw.parser.operands import Operands, Unreadable, split
from ptxsw.parser.scan import blank_comments, labels_by_scope, semicolon, skip_blank
from ptxsw.parser.scope import Scope
from ptxsw.parser.variables import BadDeclaration, declaration
from ptxsw.source import Source, Span

_IDENT = r"(?:[A-Za-z][A-Za-z0-9_$]*|[_$%][A-Za-z0-9_$]+)"
_STATEMENT = re.compile(
    rf"""[ \t\r\n]*(?:
      (?:(@[ \t]*(?:![ \t]*)?{_IDENT})[ \t]+)?
        ([A-Za-z][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+(?:::[A-Za-z0-9_]+)*)*)
        (?:[ \t]+([^;"/]*))?;
    | (//[^\n]*)
    | ({_IDENT})[ \t]*:(?!:)
    | (\.loc)[ \t]+([0-9]+)[ \t]+([0-9]+)[ \t]+([0-9]+)
      (?:[ \t]*,[ \t]*function_name[^,\n]*,[ \t]*inlined_at[ \t0-9]*)?
    | (\.(?!loc\b)[^;"/]*;|\.pragma[ \t]+"[^"\n]*"[ \t]*;)
    | ([{{}}])
    )""",
    re.VERBOSE | re.ASCII,
)
_COMMENT, _LABEL, _LOC, _DOTTED, _BRACE = 4, 5, 9, 10, 11
_LABELLED = re.compile(r"\s*\.(?:branchtargets|calltargets|callprototype)\b", re.ASCII)
_WORD = re.compile(rf'"[^"\n]*"|(?<![A-Za-z0-9_$%.])({_IDENT})', re.ASCII)
_DIRECTIVE = re.compile(r"\s*\.([A-Za-z_][A-Za-z0-9_]*)", re.ASCII)
_SPACES = frozenset({"reg", "param", "local", "shared", "global", "const", "tex", "sreg", "surf"})


class Opcodes(dict[str, tuple[str, tuple[str, ...]]]):
    """`ld.global.f32` -> ("ld", ("global", "f32")), split once per distinct text."""

    def __missing__(self, text: str) -> tuple[str, tuple[str, ...]]:
        opcode, *modifiers = text.split(".")
        self[text] = found = (opcode, tuple(modifiers))
        return found


class Outside:
    """What the bodies of a module see from outside: its variables."""

    def __init__(self) -> None:
        self.scope = Scope(0, None)
        self.types: dict[str, str] = {}

    def add(self, variables: Iterable[Variable]) -> None:
        for variable in variables:
            self.scope.declare(variable)
            self.types[variable.name] = variable.type


class Reader:
    """Reads the statements of one body, from after its `{` to its `}`."""

    def __init__(
        self,
        source: Source,
        span: Span,
        parameters: Iterable[Variable],
        outside: Outside,
        opcodes: Opcodes,
    ) -> None:
        self.source = source
        self._span = span
        self._opcodes = opcodes
        self._outside = outside
        self._statements: list[Statement] = []
        self._open = 0  # nested scopes met so far
        self._depth = 0
        self._types: dict[str, str] = {}
        self._enter(Scope(0, outside.scope))
        for variable in parameters:
            self._known(variable)

    def _known(self, variable: Variable) -> bool:
        self._types[variable.name] = variable.type
        return self.scope.declare(variable)

    def _enter(self, scope: Scope) -> None:
        self.scope = scope
        self._operands = Operands(scope)
        self._guards: dict[str, Guard] = {}

    @cached_property
    def _labels(self) -> Mapping[int, frozenset[str]]:
        return labels_by_scope(self.source.text, self._span)

    def element_bytes(self, name: str) -> int:
        """Size of an element of a variable; 1 where it is unknown."""
        kind = self._types.get(name) or self._outside.types.get(name, "")
        return max(1, type_width(kind) // 8)

    def read(self) -> tuple[Statement, ...]:
        """All statements. Raises ParseError."""
        at, end = self._span.start + 1, self._span.end - 1
        while True:
            at = skip_blank(self.source.text, self._fast(at, end), end)
            if at >= end:
                break
            at = self._careful(at, end)
        if self._depth:
            raise ParseError("expected '}' to close the scope", self.source, Span(end, end + 1))
        return tuple(self._statements)

    # ------------------------------------------------------------ the fast scan

    def _fast(self, at: int, end: int) -> int:
        """Read on from `at` as long as all is certain; the offset where it is not, or `end`."""
        append, opcodes = self._statements.append, self._opcodes
        for match in _STATEMENT.finditer(self.source.text, at, end):
            guard, name, operands = match.group(1, 2, 3)
            start, stop = match.span()
            if start != at:
                return at
            if name is None:
                if not self._other(match):
                    return at
            else:
                memo = self._operands
                try:
                    found: tuple[Operand, ...]
                    if operands is None:
                        found = ()
                    elif "{" in operands or "(" in operands:
                        found = tuple(map(memo.__getitem__, split(operands)))
                    else:
                        found = tuple(map(memo.__getitem__, operands.split(",")))
                    when = None if guard is None else self._guard(guard)
                except Unreadable:
                    return at
                opcode, modifiers = opcodes[name]
                begin = match.start(2 if guard is None else 1)
                append(Instruction(opcode, modifiers, found, when, Span(begin, stop)))
            at = stop
        return at

    def _guard(self, text: str) -> Guard:
        found = self._guards.get(text)
        if found is None:
            reg = self.scope.resolve(text.lstrip("@! \t"))
            if type(reg) is not Reg:
                raise Unreadable(text)
            found = self._guards[text] = Guard(reg, "!" in text)
        return found

    def _other(self, match: re.Match[str]) -> bool:
        """Read what is no instruction; False to leave it to the careful reading."""
        kind = match.lastindex
        if kind == _COMMENT:
            return True
        start, stop = match.span(kind or 0)
        if kind == _LABEL:
            if _LABELLED.match(self.source.text, match.end()):
                return False
            self.label(match[_LABEL], Span(start, match.end()))
        elif kind == _LOC:
            file, line, column = match.group(7, 8, 9)
            self._statements.append(
                Loc(int(file), int(line), int(column), Span(match.start(6), match.end()))
            )
        elif kind == _BRACE:
            self.brace(start)
        else:
            self.dotted(match[_DOTTED], Span(start, stop))
        return True

    # ------------------------------------------------------------ statements

    def label(self, name: str, span: Span) -> None:
        self._statements.append(Label(name, span, self.scope.number))

    def brace(self, at: int) -> None:
        """Open or close a nested scope."""
        if self.source.text[at] == "{":
            self._open += 1
            self._depth += 1
            labels = self._labels.get(at, frozenset())
            self._enter(Scope(self._open, self.scope, labels))
            self._statements.append(Open(self._open, Span(at, at + 1)))
            return
        if not self._depth:
            raise ParseError("no scope to close here", self.source, Span(at, at + 1))
        assert self.scope.parent is not None
        self._depth -= 1
        self._statements.append(Close(self.scope.number, Span(at, at + 1)))
        self._enter(self.scope.parent)

    def dotted(self, text: str, span: Span, label: str | None = None) -> None:
        """A directive or a declaration, `;` included, comments blanked."""
        word = _DIRECTIVE.match(text)
        if word is None:
            raise ParseError("expected a directive", self.source, Span(span.start, span.start + 1))
        if word[1] in _SPACES and label is None:
            self._declare(text, span)
            return
        names = tuple(name for name in _WORD.findall(text) if name)
        skip = 1 if label is not None else 0
        self._statements.append(Directive(word[1], span, label, names[skip:]))

    def _declare(self, text: str, span: Span) -> None:
        head, equals, _ = text[:-1].partition("=")
        try:
            found = declaration(head, span, self.scope.number, bool(equals))
        except BadDeclaration as bad:
            at = span.start + bad.at
            raise ParseError(bad.message, self.source, Span(at, at + 1)) from None
        late = False
        for variable in found:
            late |= self._known(variable)
        if late:
            self._operands.clear()
            self._guards.clear()
        self._statements.extend(found)

    # ------------------------------------------------------------ the careful reading

    def _careful(self, at: int, end: int) -> int:
        """Read the one statement at `at` whatever it looks like; the offset after it."""
        text = self.source.text
        if text[at] in "{}":
            self.brace(at)
            return at + 1
        stop = semicolon(text, at, end)
        label = careful.label(text, at, end)
        if label is not None:
            name, after = label
            if not _LABELLED.match(blank_comments(text[after:stop])):
                self.label(name, Span(at, after))
                return after
        if label is None and text[at] != ".":
            line = careful.instruction(self, at, min(stop + 1, end))
            self._statements.append(line)
            return line.span.end
        loc = careful.location(self.source, at, end)
        if loc is not None:
            self._statements.append(loc)
            return loc.span.end
        if stop == end:
            raise ParseError(
                "expected ';' to end the directive", self.source, Span(at, min(at + 1, end))
            )
        label_name = label[0] if label is not None else None
        skip = (label[1] - at) if label is not None else 0
        chunk = blank_comments(text[at : stop + 1])
        self.dotted(" " * skip + chunk[skip:], Span(at, stop + 1), label_name)
        return stop + 1


def read(
    source: Source,
    span: Span,
    parameters: tuple[Variable, ...],
    outside: Outside,
    opcodes: Opcodes,
) -> Body:
    """The body at `span`, braces included. Raises ParseError.

    The collector is held off while the tree grows: it has no cycles.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        statements = Reader(source, span, parameters, outside, opcodes).read()
    finally:
        if enabled:
            gc.enable()
    return Body(statements, span, parameters)
