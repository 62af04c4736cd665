"""Text to `Module`: the items of a module, with bodies found but not read."""

from __future__ import annotations

import re
from functools import partial

from ptxsw.errors import ParseError
from ptxsw.ir import Body, Directive, Function, Module, Variable
from ptxsw.parser import careful
from ptxsw.parser.make import plain_variable
from ptxsw.parser.scan import Braces, blank_comments, semicolon, skip_blank
from ptxsw.parser.statements import Surroundings, read
from ptxsw.parser.variables import (
    LINKAGES,
    BadDeclaration,
    declaration,
    is_plain,
    usual_declaration,
)
from ptxsw.source import Source, Span

_NAME = r"(?:[A-Za-z][A-Za-z0-9_$]*|[_$%][A-Za-z0-9_$]+)"
_WORD = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)", re.ASCII)
_KIND = re.compile(
    r"(?:\.(?:visible|extern|weak|common)\s+|\.attribute\s*\([^()]*(?:\([^()]*\))?[^()]*\)\s*)*"
    r"\.([A-Za-z_][A-Za-z0-9_]*)",
    re.ASCII,
)
_VERSION = re.compile(r"\.version\s+([0-9]{1,9})\.([0-9]{1,9})", re.ASCII)
_TARGET = re.compile(r"\.target\s+([A-Za-z0-9_]+(?:\s*,\s*[A-Za-z0-9_]+)*)", re.ASCII)
_ADDRESS_SIZE = re.compile(r"\.address_size\s+([0-9]{1,9})", re.ASCII)
_FILE = re.compile(r'\.file\s+([0-9]{1,9})\s+"([^"\n]*)"(?:\s*,\s*[0-9]+\s*,\s*[0-9]+)?', re.ASCII)
_SECTION = re.compile(r'\.section\s+[^{};/"]*\{', re.ASCII)
_HEADER_PLAIN = re.compile(r'[^{};/"]*+[{;]')
_HEADER = re.compile(
    r'(?:[^{};/".]++|\.pragma\s*"[^"\n]*"\s*;|\.|//[^\n]*+|"[^"\n]*"|/\*(?:[^*]|\*(?!/))*\*/)*+'
    r"[{;]"
)
_SIGNATURE = re.compile(
    rf"""((?:\s*\.[A-Za-z_][A-Za-z0-9_]*(?:\s*\([^()]*\)(?=\s*\.))?)*?)\s*
    \.(entry|func)\b\s*
    ((?:\.[A-Za-z_][A-Za-z0-9_]*\s*\([^()]*\)\s*)*)
    (?:\(([^()]*)\))?\s*
    ({_NAME}(?:\.[A-Za-z0-9_$]+)*)\s*
    (?:\(([^()]*(?:\([^()]*\)[^()]*)*)\))?""",
    re.VERBOSE | re.ASCII,
)
_DIRECTIVE = re.compile(r'\s*\.([A-Za-z_][A-Za-z0-9_]*)((?:"[^"]*"|[^."])*)', re.ASCII)
_SPACES = frozenset({"global", "const", "shared", "local", "param", "reg", "tex", "surf", "sreg"})
_NAMES = re.compile(rf'"[^"\n]*"|(?<![A-Za-z0-9_$%.])({_NAME})', re.ASCII)


class _Parser:
    """One pass over the items of a module."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.text = source.text
        self.end = len(source.text.rstrip("\0 \t\r\n\x1a"))
        self.braces = Braces(source.text)
        self.surroundings = Surroundings(source, self.braces.plain)
        self.version: tuple[int, int] | None = None
        self.targets: tuple[str, ...] = ()
        self.address_size = 32
        self.files: dict[int, str] = {}
        self.functions: list[Function] = []
        self.variables: list[Variable] = []
        self.directives: list[Directive] = []

    def module(self) -> Module:
        at = skip_blank(self.text, 0, self.end)
        while at < self.end:
            at = skip_blank(self.text, self._item(at), self.end)
        if self.version is None:
            raise self._error("expected .version at the start of a PTX module", self.end)
        return Module(
            self.source,
            self.version,
            self.targets,
            self.address_size,
            tuple(self.functions),
            tuple(self.variables),
            tuple(self.directives),
            self.files,
        )

    def _error(self, message: str, at: int, end: int | None = None) -> ParseError:
        at = max(0, min(at, len(self.text)))
        return ParseError(message, self.source, Span(at, at + 1 if end is None else end))

    # ------------------------------------------------------------ items

    def _item(self, at: int) -> int:
        """Read the item at `at`; the offset after it."""
        word = _WORD.match(self.text, at, self.end)
        if word is None:
            return self._odd(at)
        name = word[1]
        if name in LINKAGES or name in _SPACES or name in ("entry", "func", "attribute"):
            return self._declared(at)
        if name == "version":
            match = self._match(_VERSION, at, "expected a version such as .version 8.3")
            if self.version is None:
                self.version = (int(match[1]), int(match[2]))
            return match.end()
        if self.version is None:
            raise self._error("expected .version before anything else", at, word.end())
        if name == "target":
            match = self._match(_TARGET, at, "expected a target such as .target sm_80")
            self.targets += tuple(t.strip() for t in match[1].split(","))
            return match.end()
        if name == "address_size":
            match = self._match(_ADDRESS_SIZE, at, "expected .address_size 32 or 64")
            self.address_size = int(match[1])
            return match.end()
        if name == "file":
            match = self._match(_FILE, at, 'expected a number and a name: .file 1 "kernel.cu"')
            self.files[int(match[1])] = match[2]
            return match.end()
        if name == "section":
            return self._section(at)
        if name == "loc":
            loc = careful.location(self.source, at, self.end)
            assert loc is not None
            return loc.span.end
        return self._unknown(name, at)

    def _match(self, pattern: re.Pattern[str], at: int, message: str) -> re.Match[str]:
        match = pattern.match(self.text, at, self.end)
        if match is None:
            match = pattern.match(blank_comments(self.text), at, self.end)
        if match is None:
            raise self._error(message, at, self._word_end(at))
        return match

    def _word_end(self, at: int) -> int:
        word = _WORD.match(self.text, at)
        return word.end() if word is not None else at + 1

    def _odd(self, at: int) -> int:
        """Text that begins with no directive."""
        if self.text.startswith("@@DWARF", at):  # debug data of PTX 1.x, a line each
            stop = self.text.find("\n", at, self.end)
            stop = self.end if stop < 0 else stop
            self.directives.append(Directive("@@DWARF", Span(at, stop)))
            return stop
        if self.text.startswith("/*", at):
            raise self._error("expected '*/' to end the comment that begins here", at, at + 2)
        if self.text[at] == "\ufeff":
            raise self._error("byte order mark: PTX is plain ASCII, and ptxas takes none", at)
        if self.text[at] == "\0":
            raise self._error("NUL character inside the text", at)
        if self.version is None:
            raise self._error("expected .version at the start of a PTX module", at)
        raise self._error("expected a directive such as .entry, .func or .global", at)

    def _section(self, at: int) -> int:
        match = _SECTION.match(self.text, at, self.end)
        if match is None:
            raise self._error("expected '{' after the name of the section", at, at + 8)
        stop = self._close(match.end() - 1, "section")
        self.directives.append(Directive("section", Span(at, stop)))
        return stop

    def _close(self, start: int, what: str) -> int:
        stop = self.braces.close(start)
        if stop < 0:
            raise self._error(f"expected '}}' to close the {what} that begins here", start)
        return stop + 1

    def _unknown(self, name: str, at: int) -> int:
        """Any other directive: to its `;`, its line's end, or its closing brace."""
        line = self.text.find("\n", at, self.end)
        line = self.end if line < 0 else line
        stop = semicolon(self.text, at, line)
        brace = self.text.find("{", at, stop)
        if brace >= 0:
            stop = self._close(brace, f".{name}") - 1
        elif stop == line and name in ("pragma", "alias"):
            stop = semicolon(self.text, at, self.end)
            if stop == self.end:
                raise self._error(f"expected ';' to end .{name}", at, at + len(name) + 1)
        stop = min(stop + 1, self.end) if stop != line else line
        names = tuple(n for n in _NAMES.findall(blank_comments(self.text[at:stop])) if n)
        self.directives.append(Directive(name, Span(at, stop), None, names))
        return stop

    # ------------------------------------------------------------ declarations

    def _declared(self, at: int) -> int:
        if self.version is None:
            raise self._error("expected .version before anything else", at, self._word_end(at))
        kind = _KIND.match(self.text, at, self.end)
        if kind is not None and kind[1] in ("entry", "func"):
            return self._function(at)
        if kind is not None and kind[1] in _SPACES:
            return self._variable(at)
        chunk = blank_comments(self.text[at : at + 4096])
        kind = _KIND.match(chunk)
        if kind is not None and kind[1] in ("entry", "func"):
            return self._function(at)
        return self._variable(at)

    def _variable(self, at: int) -> int:
        stop = self.text.find(";", at, self.end)
        if stop >= 0 and ("/" in (chunk := self.text[at:stop]) or '"' in chunk):
            stop = semicolon(self.text, at, self.end)
            stop = -1 if stop == self.end else stop
        if stop < 0:
            raise self._error("expected ';' to end the declaration", at, self._word_end(at))
        text = self.text[at : stop + 1]
        text = blank_comments(text) if "/" in text else text
        usual = usual_declaration(text)
        if usual is None or isinstance(usual, BadDeclaration):
            usual = careful.unusual_declaration(self.source, text, at, usual)
        found = [d.at(Span(at, stop + 1), 0, initialised) for d, initialised in usual]
        self.variables.extend(found)
        self.surroundings.add(found)
        return stop + 1

    def _parameter(self, text: str, at: int, span: Span) -> list[Variable]:
        try:
            return [d.at(span, 0, False) for d in declaration(text)]
        except BadDeclaration as bad:
            raise self._error(bad.message, at + bad.at) from None

    def _function(self, at: int) -> int:
        header = _HEADER_PLAIN.match(self.text, at, self.end)
        if header is None:
            header = _HEADER.match(self.text, at, self.end)
        if header is None:
            raise self._error("expected '{' or ';' after the function's name", at)
        stop = header.end()
        close = stop
        if self.text[stop - 1] == "{":
            close = self.braces.close(stop - 1) + 1
        body = Span(stop - 1, close) if close != stop else None
        function = self._signature(Span(at, stop - 1), Span(at, close), body)
        if not close:
            raise self._unclosed(function, stop - 1)
        self.functions.append(function)
        return close

    def _unclosed(self, function: Function, start: int) -> ParseError:
        """What to say of a body without its `}`: a vector that is not closed looks the same."""
        parameters = (*function.returns, *function.params)
        try:
            read(self.surroundings, Span(start, self.end + 1), parameters)
        except ParseError as error:
            if "vector" in error.message:
                return error
        return self._error("expected '}' to close the body that begins here", start)

    def _signature(self, header: Span, span: Span, body: Span | None) -> Function:
        """The function whose header stands at `header`."""
        text = self.text[header.start : header.end]
        if "/" in text:
            text = blank_comments(text)
        match = _SIGNATURE.match(text)
        if match is None:
            raise careful.header_error(self.source, text, header.start)
        words = _WORD.findall(match[1])
        directives = list(_DIRECTIVE.findall(match[3])) + self._directives(
            text, match.end(), header
        )
        return Function(
            match[2],
            match[5],
            self._parameters(match[6], header.start + match.start(6)),
            self._parameters(match[4], header.start + match.start(4)),
            tuple(w for w in words if w in LINKAGES),
            tuple((n, " ".join(a.split()).rstrip("; ")) for n, a in directives),
            span,
            body,
            partial(_load, self.surroundings),
        )

    def _directives(self, text: str, at: int, header: Span) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        end = len(text.rstrip())
        while at < end:
            match = _DIRECTIVE.match(text, at)
            if match is None:
                raise careful.header_error(self.source, text, header.start)
            found.append((match[1], match[2]))
            at = match.end()
        return found

    def _parameters(self, text: str | None, at: int) -> tuple[Variable, ...]:
        if text is None or not text.strip():
            return ()
        found: list[Variable] = []
        for piece in text.split(","):
            lead = len(piece) - len(piece.lstrip())
            span = Span(at + lead, at + len(piece.rstrip()))
            words = piece.split()
            if len(words) == 3 and is_plain(*words):
                found.append(plain_variable(words[0][1:], words[1][1:], words[2], span, 0))
            else:
                found += self._parameter(piece, at, span)
            at += len(piece) + 1
        return tuple(found)


def _load(surroundings: Surroundings, function: Function) -> Body:
    parameters = (*function.returns, *function.params)
    if function.body_span is None:
        return Body((), Span(function.span.end, function.span.end), parameters)
    return read(surroundings, function.body_span, parameters)


def parse(text: str, name: str = "<ptx>") -> Module:
    """A PTX text as a module; bodies are read on first use of `Function.body`.

    `name` is what messages call the text. Raises ParseError.
    """
    return _Parser(Source(text, name)).module()


def body(module: Module | Source, function: Function) -> Body:
    """The body of a function; the one kept by the function where a module is given.

    With a bare source, module variables are unknown. Raises ParseError.
    """
    if isinstance(module, Module):
        return function.body
    return _load(Surroundings(module, False), function)


__all__ = ["body", "parse"]
