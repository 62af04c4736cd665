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
    Directive,
    Guard,
    Instruction,
    Operand,
    Reg,
    Statement,
    Variable,
    type_width,
)
from ptxsw.parser import careful
from ptxsw.parser.make import (
    make_close,
    make_guard,
    make_instruction,
    make_label,
    make_loc,
    make_open,
    make_span,
    plain_variable,
)
from ptxsw.parser.operands import Operands, Pool, Unreadable, is_name, split
from ptxsw.parser.scan import blank_comments, labels_by_scope, semicolon, skip_blank
from ptxsw.parser.scope import Scope
from ptxsw.parser.variables import BadDeclaration, Declared, is_plain, usual_declaration
from ptxsw.source import Source, Span

new_tuple = tuple.__new__
_OPCODE = re.compile(r"[A-Za-z][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+(?:::[A-Za-z0-9_]+)*)*", re.ASCII)
_IDENT = r"(?:[A-Za-z][A-Za-z0-9_$]*|[_$%][A-Za-z0-9_$]+)"
_STATEMENT = re.compile(
    rf"""[ \t\r\n]*(?:
      (?:(@[ \t]*(?:![ \t]*)?{_IDENT})[ \t]+)?
        ([A-Za-z][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+(?:::[A-Za-z0-9_]+)*)*)
        (?:[ \t]+([^;"/]*))?;
    | (//[^\n]*)
    | ({_IDENT})[ \t]*:(?!:)
    | (\.loc)[ \t]+([0-9]{{1,18}}+)[ \t]+([0-9]{{1,18}}+)[ \t]+([0-9]{{1,18}}+)(?![0-9])
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
_DECLARING = frozenset({".reg", ".param", ".local", ".shared"})
_SPACES = frozenset({"reg", "param", "local", "shared", "global", "const", "tex", "sreg", "surf"})


class Opcodes(dict[str, tuple[str, tuple[str, ...], int]]):
    """`ld.global.f32` -> ("ld", ("global", "f32"), 0), split once per distinct text.

    The number is how many blanks the text begins with.
    """

    def __missing__(self, text: str) -> tuple[str, tuple[str, ...], int]:
        word = text.strip()
        if _OPCODE.fullmatch(word) is None:
            raise Unreadable(text)
        opcode, *modifiers = word.split(".")
        self[text] = found = (opcode, tuple(modifiers), len(text) - len(text.lstrip()))
        return found

    def learn(self, text: str) -> None:
        """Know a text from now on, if it is an opcode."""
        if _OPCODE.fullmatch(text.strip()) is not None:
            self[text]


def _separators(text: str) -> tuple[str, str]:
    """What a compiler writes between opcode and operands, and between operands."""
    comma = ", " if ", " in text else ","
    if " \t" in text:
        return " \t", comma
    if "\t\t" in text:
        return "\t\t", comma
    # GCC and hand-written text: one blank, where lines are not indented by it.
    return " ", comma


class Guards(dict[str, Guard]):
    """`@!%p1` -> Guard, in one scope."""

    __slots__ = ("_registers",)

    def __init__(self, registers: Operands) -> None:
        super().__init__()
        self._registers = registers

    def __missing__(self, text: str) -> Guard:
        name = text[1:].lstrip()
        negated = name[:1] == "!"
        reg = self._registers[name[1:].lstrip() if negated else name]
        if type(reg) is not Reg:
            raise Unreadable(text)
        self[text] = found = make_guard(reg, negated)
        return found


class Surroundings:
    """What the bodies of a module share: its text, its variables, the opcodes met so far."""

    def __init__(self, source: Source, plain: bool) -> None:
        self.source = source
        self.plain = plain  # no comment and no string holds a brace
        self.scope = Scope(0, None)
        self.types: dict[str, str] = {}
        self.opcodes = Opcodes()
        self.pool = Pool()
        # Declarations by their text, each with whether it initialises the name.
        self.declared: dict[str, tuple[tuple[Declared, bool], ...]] = {}

    def add(self, variables: Iterable[Variable]) -> None:
        """Declare variables of the module."""
        for variable in variables:
            self.scope.declare(variable)
            self.types[variable.name] = variable.type


class Reader:
    """Reads the statements of one body, from after its `{` to its `}`."""

    def __init__(
        self, surroundings: Surroundings, span: Span, parameters: Iterable[Variable]
    ) -> None:
        self.source = surroundings.source
        self._surroundings = surroundings
        self._opcodes = surroundings.opcodes
        self._span = span
        self._statements: list[Statement] = []
        # Registers made beforehand, no more than the text can use: counts may be hostile.
        self._room = (span.end - span.start) // 8
        self._opened = 0  # nested scopes met so far
        self._types: dict[str, str] = {}
        self.scope = Scope(0, surroundings.scope)
        self._operands = Operands(self.scope, surroundings.pool)
        self._guards = Guards(self._operands)
        self._around: list[tuple[Scope, Operands, Guards]] = []
        for variable in parameters:
            self._types[variable.name] = variable.type
            self.scope.declare(variable)

    @cached_property
    def _labels(self) -> Mapping[int, frozenset[str]]:
        return labels_by_scope(self.source.text, self._span)

    def _labels_in(self, at: int) -> frozenset[str]:
        """Labels of the scope whose `{` stands at `at`."""
        if self._surroundings.plain:
            text, depth, after = self.source.text, 1, at + 1
            for _ in range(8):  # short scopes are the rule
                close = text.find("}", after, at + 2000)
                if close < 0:
                    break
                depth += text.count("{", after, close) - 1
                after = close + 1
                if not depth:
                    if text.find(":", at, close) < 0:
                        return frozenset()
                    break
        return self._labels.get(at, frozenset())

    def element_bytes(self, name: str) -> int:
        """Size of an element of a variable; 1 where it is unknown."""
        kind = self._types.get(name) or self._surroundings.types.get(name, "")
        return max(1, type_width(kind) // 8)

    def read(self) -> tuple[Statement, ...]:
        """All statements. Raises ParseError."""
        end = self._span.end - 1
        self._lines(self._span.start + 1, end)
        if self._around:
            raise ParseError("expected '}' to close the scope", self.source, Span(end, end + 1))
        return tuple(self._statements)

    # ------------------------------------------------------------ one instruction a line

    def _lines(self, at: int, end: int) -> None:
        """Read from `at` to `end`, where most compilers write one instruction a line.

        Such a line is taken apart by plain splits, and is certain where each piece is an
        opcode or operand text that is known or reads as one. The rest goes to `_region`.
        """
        text = self.source.text
        line_end = ";\r\n" if text.find(";\r\n", at, end) >= 0 else ";\n"
        step = len(line_end)
        append, opcodes = self._statements.append, self._opcodes
        known, read = opcodes.get, self._operands.__getitem__
        gap, comma = _separators(text[at:end])
        lines = iter(text[at:end].split(line_end))
        for line in lines:
            stop = at + len(line) + step
            if "\n" in line:
                at += self._before(line, at)
                line = text[at : min(stop - step, end)]
                read = self._operands.__getitem__
            word, _, tail = line.partition(gap)
            found = known(word)
            try:
                if found is not None and tail and "{" not in tail:
                    opcode, modifiers, begin = found
                    operands = tuple(map(read, tail.split(comma)))
                    guard = None
                else:
                    parts = self._line(line, word, at, stop - step + 1)
                    if parts is None:
                        read = self._operands.__getitem__
                        at = stop
                        continue
                    begin, guard, opcode, modifiers, operands = parts
            except Unreadable:
                reached = self._region(at, stop, end)
                while reached > stop < end:  # a statement went on past this line
                    at = stop
                    stop += len(next(lines)) + step
                    if reached < stop:
                        reached = self._region(reached, stop, end)
                at = stop
                read = self._operands.__getitem__
                continue
            span = new_tuple(Span, (at + begin, stop - step + 1))
            append(new_tuple(Instruction, (opcode, modifiers, operands, guard, span)))
            at = stop

    def _line(
        self, line: str, word: str, at: int, stop: int
    ) -> tuple[int, Guard | None, str, tuple[str, ...], tuple[Operand, ...]] | None:
        """The parts of the instruction a line without its semicolon holds: offset of its first
        character, guard, opcode, modifiers, operands. None where it held a declaration, which
        is read, or nothing. `word` is what stands before the gap. Raises Unreadable."""
        words = line.split(None, 1)
        if not words:
            return None
        first, guard = words[0], None
        begin = line.index(first)
        if first[0] == ".":
            if first not in _DECLARING or "/" in line or '"' in line or ";" in line:
                raise Unreadable(line)
            self._declare(line[begin:] + ";", make_span(at + begin, stop))
            return None
        if first[0] == "@" and len(words) == 2:
            guard = self._guards[first]
            words = words[1].split(None, 1)
        elif word not in self._opcodes and word[begin:].rstrip() == first:
            self._opcodes.learn(word)
        opcode, modifiers, _ = self._opcodes[words[0]]
        if len(words) == 1:
            return begin, guard, opcode, modifiers, ()
        tail = words[1]
        pieces = tail.split(",") if "{" not in tail else split(tail)
        operands = tuple([self._operands[piece.strip()] for piece in pieces])
        return begin, guard, opcode, modifiers, operands

    def _before(self, line: str, at: int) -> int:
        """Read the labels, `.loc`s, comments and braces on lines of their own that stand before
        an instruction; how many characters were read, whole lines."""
        done = 0
        for piece in line.split("\n")[:-1]:
            words = piece.split()
            if words and not self._short(words, at + done, piece):
                break
            done += len(piece) + 1
        return done

    def _short(self, words: list[str], at: int, piece: str) -> bool:
        """Read one line that is no instruction, given as its words too; False if it is other."""
        first = words[0]
        count = len(words)
        if first == ".loc":
            return count > 3 and self._short_loc(words, at, piece)
        if count > 1 and words[1][:2] == "//":
            count = 1
        if count == 1:
            begin = at + piece.index(first)
            if first[-1] == ":":
                after = at + len(piece)
                if is_name(first[:-1]) is None or _LABELLED.match(self.source.text, after):
                    return False
                self.label(first[:-1], make_span(begin, begin + len(first)))
                return True
            if first == "{" or first == "}":
                self.brace(begin)
                return True
        if first[:2] == "//":
            return True
        if first not in _DECLARING or piece.count(";") != 1 or "/" in piece:
            return False
        text = piece.strip()
        if text[-1] != ";":
            return False
        begin = at + piece.index(first)
        self._declare(text, make_span(begin, begin + len(text)))
        return True

    def _short_loc(self, words: list[str], at: int, piece: str) -> bool:
        _, file, line, column = words[:4]
        rest = words[4:]
        inlined = column[-1] == "," and rest[:1] == ["function_name"] and "inlined_at" in rest
        if inlined:
            column = column[:-1]
        elif rest and rest[0][:2] != "//":
            return False
        if not (file.isdecimal() and line.isdecimal() and column.isdecimal()):
            return False
        if max(len(file), len(line), len(column)) > 18:
            return False
        begin = piece.index(".loc")
        comment = piece.find("//") if rest else -1
        end = len((piece if comment < 0 else piece[:comment]).rstrip())
        span = make_span(at + begin, at + end)
        self._statements.append(make_loc(int(file), int(line), int(column), span))
        return True

    # ------------------------------------------------------------ any statement

    def _region(self, at: int, stop: int, end: int) -> int:
        """Read the statements that begin between `at` and `stop`; the offset after them, at
        least `stop`."""
        stop, text = min(stop, end), self.source.text
        while True:
            at = skip_blank(text, self._scan(at, stop), stop)
            if at < stop:  # a comment may go on past the stop
                at = skip_blank(text, at, end)
            if at >= stop:
                return at
            at = self._careful(at, end)

    def _scan(self, at: int, end: int) -> int:
        """Read on from `at` as long as all is certain; the offset where it is not, or `end`."""
        append, opcodes = self._statements.append, self._opcodes
        text = self.source.text
        while (match := _STATEMENT.match(text, at, end)) is not None:
            guard, name, operands = match.group(1, 2, 3)
            stop = match.end()
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
                    when = None if guard is None else self._guards[guard]
                except Unreadable:
                    return at
                opcode, modifiers, _ = opcodes[name]
                begin = match.start(2 if guard is None else 1)
                append(make_instruction(opcode, modifiers, found, when, make_span(begin, stop)))
            at = stop
        return at

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
                make_loc(int(file), int(line), int(column), Span(match.start(6), match.end()))
            )
        elif kind == _BRACE:
            self.brace(start)
        else:
            self.dotted(match[_DOTTED], Span(start, stop))
        return True

    # ------------------------------------------------------------ statements

    def label(self, name: str, span: Span) -> None:
        self._statements.append(make_label(name, span, self.scope.number))

    def brace(self, at: int) -> None:
        """Open or close a nested scope."""
        span = make_span(at, at + 1)
        if self.source.text[at] == "{":
            self._opened += 1
            self._around.append((self.scope, self._operands, self._guards))
            self.scope = Scope(self._opened, self.scope, self._labels_in(at))
            self._operands = Operands(self.scope, self._operands.pool, self._operands)
            self._guards = Guards(self._operands)
            self._statements.append(make_open(self._opened, span))
            return
        if not self._around:
            raise ParseError("no scope to close here", self.source, span)
        self._statements.append(make_close(self.scope.number, span))
        self.scope, self._operands, self._guards = self._around.pop()

    def dotted(self, text: str, span: Span, label: str | None = None) -> None:
        """A directive or a declaration, `;` included, comments blanked."""
        word = _DIRECTIVE.match(text)
        if word is None:
            raise ParseError("expected a directive", self.source, Span(span.start, span.start + 1))
        if word[1] in _SPACES and label is None:
            self._declare(text, span)
            return
        names = tuple(name for name in _WORD.findall(text) if name)
        self._statements.append(Directive(word[1], span, label, names))

    def _read_declared(self, text: str, span: Span) -> tuple[tuple[Declared, bool], ...]:
        """What a declaration declares, and whether it initialises it; read once per text."""
        declared = self._surroundings.declared.get(text)
        if declared is None:
            usual = usual_declaration(text)
            if usual is None or isinstance(usual, BadDeclaration):
                usual = careful.unusual_declaration(self.source, text, span.start, usual)
            self._surroundings.declared[text] = declared = usual
        return declared

    def _declare(self, text: str, span: Span) -> None:
        words = text[:-1].split()
        scope = self.scope.number
        if len(words) == 3 and is_plain(*words):
            found = [plain_variable(words[0][1:], words[1][1:], words[2], span, scope)]
        else:
            found = [
                each.at(span, scope, initial) for each, initial in self._read_declared(text, span)
            ]
        late = bool(self._around)  # the table of a nested scope is small: always begin it anew
        for variable in found:
            self._types[variable.name] = variable.type
            late |= self.scope.declare(variable)
        if late:
            self._operands.clear()
            self._guards.clear()
        for variable in found:
            if variable.count is not None and variable.space == "reg":
                known = min(variable.count, self._room)
                self._room -= known
                self._operands.add_family(variable.name, known)
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
        file_end = careful.file_end(text, at, end)
        if file_end is not None:
            self._statements.append(Directive("file", Span(at, file_end)))
            return file_end
        if stop == end:
            raise ParseError(
                "expected ';' to end the directive", self.source, Span(at, min(at + 1, end))
            )
        label_name = label[0] if label is not None else None
        skip = (label[1] - at) if label is not None else 0
        chunk = blank_comments(text[at : stop + 1])
        self.dotted(" " * skip + chunk[skip:], Span(at, stop + 1), label_name)
        return stop + 1


def read(surroundings: Surroundings, span: Span, parameters: tuple[Variable, ...]) -> Body:
    """The body at `span`, braces included. Raises ParseError.

    The collector is held off while the tree grows: it has no cycles.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        statements = Reader(surroundings, span, parameters).read()
    finally:
        if enabled:
            gc.enable()
    return Body(statements, span, parameters)
