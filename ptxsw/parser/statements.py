"""The statements of a body.

`lines` reads what compilers write, one instruction a line; here is the rest: labels, scopes,
declarations, and one compiled expression that steps from statement to statement wherever they
stand. What that does not know for certain (comments inside a statement, odd operands, text that is
not PTX) is read by the grammar.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from sys import intern

from ptxsw.parser import grammar_reader as grammar_reader
from ptxsw.parser.body_checks import require_declared
from ptxsw.parser.line_reader import (
    BRACE,
    COMMENT,
    DECLARED,
    DECLARING,
    DIRECTIVE,
    DOTTED,
    LABEL,
    LABELLED,
    LOC,
    QUOTED,
    SIDE,
    SIDE_BRACE,
    SIDE_DECLARATION,
    SIDE_LABEL,
    SIDE_LOC,
    STATEMENT,
    WORD,
    read_lines,
)
from ptxsw.parser.node_factory import (
    make_instruction,
    make_label,
    make_loc,
    make_reg,
    make_span,
    plain_variable,
    usual_variable,
    with_masks,
)
from ptxsw.parser.operands import BLANKS, NAME, Operands, Unreadable, split
from ptxsw.parser.scan import ScopeLabels, blank_comments, semicolon, skip_blank
from ptxsw.parser.scope import Scope
from ptxsw.parser.surroundings import Guards, Surroundings
from ptxsw.parser.variables import BadDeclaration, Declaration, usual_declaration
from ptxsw.ptx.errors import ParseError
from ptxsw.ptx.garbage import no_collection
from ptxsw.ptx.ir import Body, Close, Directive, Open, Operand, Statement, Variable, type_width
from ptxsw.ptx.source import Span

_PLAIN = 64  # names in a scope up to which they are held against the members of a family
_SHARED = 8  # names of inner scopes in a table: each costs a search in every new text
_SPACES = frozenset({"reg", "param", "local", "shared", "global", "const", "tex", "sreg", "surf"})


class Reader:
    """Reads the statements of one body, from after its `{` to its `}`."""

    def __init__(
        self, surroundings: Surroundings, span: Span, parameters: Iterable[Variable]
    ) -> None:
        self.source = surroundings.source
        self.surroundings = surroundings
        self.pool = surroundings.pool
        self._span = span
        self._labels = ScopeLabels(self.source.text, span, surroundings.plain)
        self.statements: list[Statement] = []
        # Registers made beforehand, no more than the text can use: counts may be hostile.
        self._room = (span.end - span.start) // 8
        self._fronts = surroundings.fronts
        self._opened = 0  # nested scopes met so far
        self._types: dict[str, str] = {}
        self.scope = Scope(0, surroundings.scope)
        self.table = Operands(self.scope, surroundings.pool)
        self.guards = Guards(self.table)
        # For each scope around: its names, tables, and the state of a table shared with it.
        self._around: list[tuple[Scope, Operands, Guards, tuple[str, ...], int]] = []
        for variable in parameters:
            self._types[variable.name] = variable.type
            self.scope.declare(variable)

    def element_bytes(self, name: str) -> int:
        """Size of an element of a variable; 1 where it is unknown."""
        kind = self._types.get(name) or self.surroundings.types.get(name, "")
        return max(1, type_width(kind) // 8)

    def read(self) -> tuple[Statement, ...]:
        """All statements. Raises ParseError."""
        end = self._span.end - 1
        heads, opcodes = self.surroundings.heads, self.surroundings.opcodes
        read_lines(self, heads, opcodes, self._span.start + 1, end)
        if self._around:
            raise ParseError("expected '}' to close the scope", self.source, Span(end, end + 1))
        return tuple(self.statements)

    # ------------------------------------------------------------ any statement

    def side(self, at: int, stop: int) -> int:
        """Read lines that hold a label, a `.loc`, a comment or a brace each, as long as they do;
        the offset after them, at most `stop`, where another line begins."""
        text, statements = self.source.text, self.statements
        while at < stop:
            match = SIDE.match(text, at)
            if match is None or match.end() > stop:
                return stop if not text[at:stop].strip(BLANKS) else at
            kind = match.lastindex
            if kind == SIDE_LABEL:
                start, end = match.span(1)
                statements.append(
                    make_label(match[1], make_span(start, end + 1), self.scope.number)
                )
            elif kind == SIDE_LOC:
                file, line, column = match.group(3, 4, 5)
                span = make_span(*match.span(2))
                statements.append(make_loc(int(file), int(line), int(column), span))
            elif kind == SIDE_BRACE:
                self.brace(match.start(6))
            elif kind == SIDE_DECLARATION:
                plain = DECLARED.fullmatch(match[7])
                if plain is None:
                    return at
                self.declare_plain(plain, match.start(7))
            at = match.end()
        return at

    def region(self, at: int, stop: int, end: int) -> int:
        """Read the statements that begin between `at` and `stop`; the offset after them, at
        least `stop`."""
        text = self.source.text
        at = self._scan(at, stop)
        while at < stop:
            at = skip_blank(text, at, stop)
            if at < stop:  # a comment may go on past the stop
                at = skip_blank(text, at, end)
            if at >= stop:
                break
            at = self.grammar_reader(at, end)
            if at < stop:
                at = self._scan(at, stop)
        return at

    def _scan(self, at: int, end: int) -> int:
        """Read on from `at` as long as all is certain; the offset where it is not, or `end`."""
        append, opcodes = self.statements.append, self.surroundings.opcodes
        text = self.source.text
        while (match := STATEMENT.match(text, at, end)) is not None:
            guard, name, operands = match.group(1, 2, 3)
            stop = match.end()
            if name is None:
                if not self._other(match):
                    return at
            else:
                try:
                    values = () if operands is None else self._operands(operands)
                    when = None if guard is None else self.guards[guard]
                except Unreadable:
                    return at
                opcode, modifiers = opcodes[name]
                begin = match.start(2 if guard is None else 1)
                append(make_instruction(opcode, modifiers, values, when, begin, stop))
            if stop >= end:
                return stop
            at = stop
        return at

    def _operands(self, text: str) -> tuple[Operand, ...]:
        """The operands of one instruction. Raises Unreadable."""
        read = self.table.__getitem__
        if "{" not in text and "(" not in text and "[" not in text:
            return tuple([read(piece.strip(BLANKS)) for piece in text.split(",")])
        return tuple(map(read, split(text)))

    def _other(self, match: re.Match[str]) -> bool:
        """Read what is no instruction; False to leave it to the careful reading."""
        kind = match.lastindex
        if kind == COMMENT:
            return True
        start, stop = match.span(kind or 0)
        if kind == LABEL:
            if LABELLED.match(self.source.text, match.end()):
                return False
            self.label(match[LABEL], Span(start, match.end()))
        elif kind == LOC:
            file, line, column = match.group(7, 8, 9)
            self.statements.append(
                make_loc(int(file), int(line), int(column), Span(match.start(6), match.end()))
            )
        elif kind == BRACE:
            self.brace(start)
        else:
            self.dotted(match[DOTTED], Span(start, stop))
        return True

    # ------------------------------------------------------------ statements

    def label(self, name: str, span: Span) -> None:
        self.statements.append(make_label(name, span, self.scope.number))

    def brace(self, at: int) -> None:
        """Open or close a nested scope."""
        span = make_span(at, at + 1)
        table = self.table
        if self.source.text[at] == "{":
            self._opened += 1
            state = (self.scope, table, self.guards, table.shared, len(table.passing))
            self._around.append(state)
            self.scope = table.scope = Scope(self._opened, self.scope, self._labels.of(at))
            if self.scope.labels:
                self._separate()
            self.statements.append(Open(self._opened, span))
            return
        if not self._around:
            raise ParseError("no scope to close here", self.source, span)
        self.statements.append(Close(self.scope.number, span))
        self.scope, self.table, self.guards, shared, passing = self._around.pop()
        self.table.leave(self.scope, shared, passing)

    def _separate(self) -> None:
        """Begin a table of its own for the present scope, whose names may shadow others."""
        around, table, _, shared, passing = self._around[-1]
        table.leave(around, shared, passing)
        self.table = Operands(self.scope, self.pool, table)
        self.guards = Guards(self.table)

    def dotted(self, text: str, span: Span, label: str | None = None) -> None:
        """A directive or a declaration, `;` included, comments blanked."""
        if label is None and (plain := DECLARED.fullmatch(text[:-1])) is not None:
            self.declare_plain(plain, span.start)
            return
        word = DIRECTIVE.match(text)
        if word is None:
            raise ParseError("expected a directive", self.source, Span(span.start, span.start + 1))
        if word[1] in _SPACES and label is None:
            self._declare(text, span)
            return
        names = tuple(name for name in WORD.findall(text) if name)
        strings = tuple(part[1:-1] for part in QUOTED.findall(text))
        self.statements.append(Directive(word[1], span, label, names, strings))

    def _read_declared(self, text: str, span: Span) -> tuple[tuple[Declaration, bool], ...]:
        """What a declaration declares, and whether it initialises it; read once per text."""
        declared = self.surroundings.declared.get(text)
        if declared is None:
            usual = usual_declaration(text)
            if usual is None or isinstance(usual, BadDeclaration):
                usual = grammar_reader.unusual_declaration(self.source, text, span.start, usual)
            self.surroundings.declared[text] = declared = usual
        return declared

    def _declare(self, text: str, span: Span) -> None:
        """Declare what a declaration, `;` included, declares."""
        scope = self.scope.number
        variables = [
            each.at(span, scope, initial) for each, initial in self._read_declared(text, span)
        ]
        for variable in variables:
            self._enter(variable)
        for variable in variables:
            if variable.count is not None and variable.space == "reg" and variable.vector == 1:
                self._add_family(variable.name, variable.count)
        self.statements.extend(variables)

    def declare_line(self, line: str, at: int) -> bool:
        """Read a line at offset `at` that declares registers or a parameter, without `;`; False
        for any other."""
        front, _, name = line.rpartition(" ")
        head = self._fronts.get(front) or self._declaring(front)
        if head is not None and not self._around and NAME.fullmatch(name) is not None:
            scope, table = self.scope, self.table
            if name not in scope.seen and name not in table:
                blanks, space, kind = head
                self.statements.append(
                    plain_variable(space, kind, name, at + blanks, at + len(line) + 1)
                )
                self._types[name] = kind
                is_register = scope.names[name] = space == "reg"
                if is_register:  # nearly all of them are used
                    table[name] = make_reg(name, 0)
                return True
        match = DECLARED.fullmatch(line)
        if match is None:
            return False
        self.declare_plain(match, at)
        return True

    def _declaring(self, front: str) -> tuple[int, str, str] | None:
        """Blanks, state space and type of what stands before a name in a line; None for what
        declares nothing. Read once per text."""
        match = DECLARING.fullmatch(front)
        if match is None:
            return None
        blanks, space, kind = match.groups()
        self._fronts[front] = head = (len(blanks), intern(space), intern(kind))
        return head

    def declare_plain(self, match: re.Match[str], at: int) -> None:
        """Declare what `DECLARED` found in a line at offset `at`."""
        space, kind, name, members = match.groups()
        scope = self.scope
        span = make_span(at + match.start(1), at + match.end() + 1)
        count = None if members is None else int(members)
        variable = usual_variable(space[1:], kind, name, span, count, scope.number)
        self.statements.append(variable)
        fresh = name not in scope.seen and name not in self.table
        if count is None and fresh and not self._around:
            self._types[name] = kind
            register = scope.names[name] = space == ".reg"
            if register:
                self.table[name] = make_reg(name, scope.number)
            return
        self._enter(variable)
        if count is not None and space == ".reg":
            self._add_family(name, count)

    def _add_family(self, stem: str, count: int) -> None:
        """Know registers beforehand: nearly all of them are used."""
        names = self.scope.names
        if len(names) > _PLAIN:
            return
        count = min(count, self._room)
        self._room -= count
        self.table.add_family(stem, count)
        for name in names:  # a name of its own goes before a member of a family
            self.table.pop(name, None)

    def _enter(self, variable: Variable) -> None:
        """Make a declared name known."""
        name, scope = variable.name, self.scope
        self._types[name] = variable.type
        late = scope.declare(variable) or name in self.table
        if not self._around:
            if late:
                self._forget()
        elif self.table is not self._around[-1][1]:
            self._forget()  # a small table: always begun anew
        elif (
            late
            or variable.count is not None
            or len(self.table.shared) > _SHARED
            or (scope.parent is not None and scope.parent.knows(name))
        ):
            self._separate()
        else:
            self.table.shared += (name,)

    def _forget(self) -> None:
        """Forget what names meant so far."""
        self.table.clear()
        self.guards.clear()

    # ------------------------------------------------------------ the careful reading

    def grammar_reader(self, at: int, end: int) -> int:
        """Read the one statement at `at` whatever it looks like; the offset after it."""
        text = self.source.text
        if text[at] in "{}":
            self.brace(at)
            return at + 1
        stop = semicolon(text, at, end)
        label = grammar_reader.label(text, at, end)
        if label is not None:
            name, after = label
            if not LABELLED.match(blank_comments(text[after:stop])):
                self.label(name, Span(at, after))
                return after
        if label is None and text[at] != ".":
            line = grammar_reader.instruction(self, at, min(stop + 1, end))
            self.statements.append(line)
            return line.span.end
        loc = grammar_reader.location(self.source, at, end)
        if loc is not None:
            self.statements.append(loc)
            return loc.span.end
        file_end = grammar_reader.file_end(text, at, end)
        if file_end is not None:
            self.statements.append(Directive("file", Span(at, file_end)))
            return file_end
        if stop == end:
            span = Span(at, min(at + 1, end))
            raise ParseError("expected ';' to end the directive", self.source, span)
        label_name, skip = (None, 0) if label is None else (label[0], label[1] - at)
        chunk = blank_comments(text[at : stop + 1])
        self.dotted(" " * skip + chunk[skip:], Span(at, stop + 1), label_name)
        return stop + 1


def read(surroundings: Surroundings, span: Span, parameters: tuple[Variable, ...]) -> Body:
    """The body at `span`, braces included. Raises ParseError."""
    with no_collection():
        reader = Reader(surroundings, span, parameters)
        statements = with_masks(reader.read())
    unknown = reader.scope.unknown
    require_declared(surroundings.source, statements, unknown, surroundings.functions)
    return Body(statements, span, parameters)
