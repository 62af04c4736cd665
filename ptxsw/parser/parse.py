"""Text to `Module`: the items of a module, with bodies found but not read."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from functools import partial
from sys import intern

from msgspec.structs import replace

from ptxsw.parser import grammar_reader as grammar_reader
from ptxsw.parser.body_checks import require_shapes, require_targets
from ptxsw.parser.node_factory import make_span, make_variable
from ptxsw.parser.scan import Braces, blank_comments, semicolon, skip_blank
from ptxsw.parser.signatures import HEADER, NAME, USUAL, given, header, read_signature
from ptxsw.parser.statements import read
from ptxsw.parser.surroundings import Surroundings
from ptxsw.parser.variables import (
    LINKAGES,
    BadDeclaration,
    usual_declaration,
)
from ptxsw.ptx.errors import ParseError
from ptxsw.ptx.ir import Body, Directive, Function, Module, Signature, Variable
from ptxsw.ptx.patterns import pattern
from ptxsw.ptx.source import Source, Span

_WORD = pattern(r"\.([A-Za-z_][A-Za-z0-9_]*)", re.ASCII)
_KIND = pattern(
    r"(?:\.(?:visible|extern|weak|common)\s+|\.attribute\s*\([^()]*(?:\([^()]*\))?[^()]*\)\s*)*"
    r"\.([A-Za-z_][A-Za-z0-9_]*)",
    re.ASCII,
)
# How a text begins: what compilers write there, in their order.
_START = pattern(
    r"""(?:[ \t\r\n]++|//[^\n]*+\n)*+\.version\s+([0-9]{1,9})\.([0-9]{1,9})
    \s+\.target\s+([A-Za-z0-9_]+(?:\s*,\s*[A-Za-z0-9_]+)*)
    \s+(\.address_size\s+(32|64))(?![0-9])""",
    re.VERBOSE | re.ASCII,
)
_VERSION = pattern(r"\.version\s+([0-9]{1,9})\.([0-9]{1,9})", re.ASCII)
_TARGET = pattern(r"\.target\s+([A-Za-z0-9_]+(?:\s*,\s*[A-Za-z0-9_]+)*)", re.ASCII)
_ADDRESS_SIZE = pattern(r"\.address_size\s+(32|64)(?![0-9])", re.ASCII)
_FILE = pattern(r'\.file\s+([0-9]{1,9})\s+"([^"\n]*)"(?:\s*,\s*[0-9]+\s*,\s*[0-9]+)?', re.ASCII)
_SECTION = pattern(r'\.section\s+[^{};/"]*\{', re.ASCII)
_HEADER_PLAIN = pattern(r'[^{};/"]*+[{;]')
_PLAIN_VARIABLE = pattern(
    rf"""(?:\.(visible|extern|weak|common)[ ])?\.(global|const|shared|local)[ ]
    (?:\.align[ ]([1-9][0-9]{{0,8}})[ ])?\.([a-u][a-z0-9]*+)[ ]({NAME})
    (?:\[((?:0|[1-9][0-9]{{0,17}})?)\])?(?:;|[ ]?(=))""",
    re.VERBOSE | re.ASCII,
)
_SPACES = frozenset({"global", "const", "shared", "local", "param", "reg", "tex", "surf", "sreg"})
_NAMES = pattern(rf'"[^"\n]*"|(?<![A-Za-z0-9_$%.])({NAME})', re.ASCII)


class _Parser:
    """One pass over the items of a module."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.text = source.text
        self.end = len(source.text.rstrip("\0 \t\r\n\x1a"))
        self.braces = Braces(source.text)
        self.declared: set[str] = set()  # names of functions
        self.never_return: set[str] = set()  # of those
        self.surroundings = Surroundings(source, self.braces.plain, self.declared)
        self.version: tuple[int, int] | None = None
        self.targets: tuple[str, ...] = ()
        self.address_size = 64
        self.files: dict[int, str] = {}
        self.functions: list[Function] = []
        self.load_body = partial(_load, self.surroundings, self.never_return)
        self.variables: list[Variable] = []
        self.directives: list[Directive] = []

    def module(self) -> Module:
        text, end, usual = self.text, self.end, USUAL.match
        at = self._start()
        while True:
            match = usual(text, at, end)
            if match is not None and self.version is not None:
                at = self._usual(match)
                continue
            at = skip_blank(text, at, end)
            if at >= end:
                break
            at = self._item(at)
        if self.version is None:
            raise self._error(_no_ptx(text), self.end)
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

    def _start(self) -> int:
        """Read version, target and size of addresses where they stand at the start; the offset
        after them."""
        match = _START.match(self.text, 0, self.end)
        if match is None:
            return 0
        major, minor, targets, _, size = match.groups()
        self.version = (int(major), int(minor))
        self._target(targets)
        self._addresses(size, make_span(*match.span(4)))
        return match.end()

    def _target(self, names: str) -> None:
        self.targets += tuple([name.strip() for name in names.split(",")])

    def _addresses(self, size: str, span: Span) -> None:
        self.address_size = int(size)
        self.directives.append(Directive("address_size", span))

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
            self._target(match[1])
            return match.end()
        if name == "address_size":
            match = self._match(_ADDRESS_SIZE, at, "expected .address_size 32 or 64")
            self._addresses(match[1], make_span(at, match.end()))
            return match.end()
        if name == "file":
            match = self._match(_FILE, at, 'expected a number and a name: .file 1 "kernel.cu"')
            self.files[int(match[1])] = match[2]
            return match.end()
        if name == "section":
            return self._section(at)
        if name == "loc":
            loc = grammar_reader.location(self.source, at, self.end)
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
            raise self._error(_no_ptx(self.text), at)
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
        usual = _PLAIN_VARIABLE.match(self.text, at, self.end)
        if usual is not None:
            return self._variable(at, usual)
        kind = _KIND.match(self.text, at, self.end)
        if kind is not None and kind[1] in ("entry", "func"):
            return self._function(at)
        if kind is not None and kind[1] in _SPACES:
            return self._variable(at, None)
        chunk = blank_comments(self.text[at : at + 4096])
        kind = _KIND.match(chunk)
        if kind is not None and kind[1] in ("entry", "func"):
            return self._function(at)
        return self._variable(at, None)

    def _variable(self, at: int, match: re.Match[str] | None) -> int:
        """Read a variable, given what `_PLAIN_VARIABLE` says of it."""
        if match is not None:
            linkage, space, align, kind, name, size, initialised = match.groups()
            stop = match.end()
            if initialised is not None:
                stop = self.text.find(";", stop, self.end) + 1
                value = self.text[match.end() : stop]
            if initialised is None or (stop and not _unusual(value)):
                variable = make_variable(
                    intern(space),
                    intern(kind),
                    name,
                    make_span(at, stop),
                    None,
                    () if size is None else (int(size) if size else None,),
                    1,
                    None if align is None else int(align),
                    () if linkage is None else (linkage,),
                    (),
                    initialised is not None,
                    0,
                )
                self.variables.append(variable)
                self.surroundings.add((variable,))
                return stop
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
            usual = grammar_reader.unusual_declaration(self.source, text, at, usual)
        if any(d.space == "reg" for d, _ in usual):
            raise self._error("registers are declared inside functions only", at, stop + 1)
        variables = [d.at(Span(at, stop + 1), 0, initialised) for d, initialised in usual]
        self.variables.extend(variables)
        self.surroundings.add(variables)
        return stop + 1

    def _usual(self, match: re.Match[str]) -> int:
        """Read a function with a header as compilers write it."""
        linkage, kind, name = match.group(2, 3, 4)
        at, stop = match.start(1), match.end()
        load = partial(read_signature, self.source, at, stop - 1)
        return self._add(kind, name, () if linkage is None else (linkage,), at, stop, load)

    def _function(self, at: int) -> int:
        stop = self._header_end(at)
        parts = header(self.source, at, stop - 1)
        linkage = tuple(w for w in _WORD.findall(parts[1]) if w in LINKAGES)
        load = partial(given, read_signature(self.source, at, stop - 1))
        return self._add(parts[2], parts[5], linkage, at, stop, load)

    def _add(
        self,
        kind: str,
        name: str,
        linkage: tuple[str, ...],
        at: int,
        stop: int,
        load: Callable[[], Signature],
    ) -> int:
        """Add the function whose header stands from `at` to `stop`; the offset after it."""
        text = self.text
        close, body = stop, None
        if text[stop - 1] == "{":
            close = text.find("}", stop)
            if close < 0 or not self.braces.plain or text.find("{", stop, close) >= 0:
                close = self.braces.close(stop - 1)
            close += 1
            body = make_span(stop - 1, close)
        function = Function(kind, name, linkage, make_span(at, close), body, load, self.load_body)
        if not close:
            raise self._unclosed(function, stop - 1)
        self.functions.append(function)
        self.declared.add(name)
        if ".noreturn" in text[at:stop] and ("noreturn", "") in function.directives:
            self.never_return.add(name)
        return close

    def _header_end(self, at: int) -> int:
        """The offset after the `{` or `;` that ends a function's header."""
        match = _HEADER_PLAIN.match(self.text, at, self.end)
        if match is None:
            match = HEADER.match(self.text, at, self.end)
        if match is None:
            raise self._error("expected '{' or ';' after the function's name", at)
        return match.end()

    def _unclosed(self, function: Function, start: int) -> ParseError:
        """What to say of a body without its `}`: a vector that is not closed looks the same."""
        parameters = (*function.returns, *function.params)
        try:
            read(self.surroundings, Span(start, self.end + 1), parameters)
        except ParseError as error:
            if "vector" in error.message:
                return error
        return self._error("expected '}' to close the body that begins here", start)


def _unusual(value: str) -> bool:
    """May an initial value hold a comment, a text, or further names with values?"""
    return "/" in value or '"' in value or "=" in value


def _load(surroundings: Surroundings, never_return: Collection[str], function: Function) -> Body:
    parameters = (*function.returns, *function.params)
    if function.body_span is None:
        return Body((), Span(function.span.end, function.span.end), parameters)
    body = read(surroundings, function.body_span, parameters)
    require_targets(surroundings.source, body)
    require_shapes(surroundings.source, body, surroundings.shapes)
    return replace(body, never_return=frozenset(never_return)) if never_return else body


def _no_ptx(text: str) -> str:
    """What is wrong with a text that does not begin as PTX does."""
    expected = "expected .version at the start of a PTX module"
    if text.endswith((".ptx", ".cu")) and "\n" not in text:
        return f"{expected}; this is the name of a file: pass what the file holds"
    if "__global__" in text:
        return f"{expected}; this is CUDA: compile it with nvcc -ptx"
    return expected


def parse(text: str | Source, name: str = "<ptx>") -> Module:
    """A PTX text as a module; bodies are read on first use of `Function.body`.

    `name` is what messages call a text that is no `Source`. Raises ParseError; TypeError for what
    is no text, such as a path.
    """
    if not isinstance(text, str | Source):
        raise TypeError(f"PTX is passed as a text (str), not as {type(text).__name__}")
    return _Parser(text if isinstance(text, Source) else Source(text, name)).module()


def body(module: Module | Source, function: Function) -> Body:
    """The body of a function; the one kept by the function where a module is given.

    With a bare source, variables and other functions of the module are unknown. Raises ParseError.
    """
    if isinstance(module, Module):
        return function.body
    return _load(Surroundings(module, False), (), function)


__all__ = ["body", "parse"]
