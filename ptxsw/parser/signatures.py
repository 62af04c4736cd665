"""Names, parameters and directives of functions, read when they are asked for."""

from __future__ import annotations

import re

from ptxsw.parser import grammar_reader as grammar_reader
from ptxsw.parser.node_factory import make_span, usual_variable
from ptxsw.parser.scan import blank_comments
from ptxsw.parser.variables import (
    BadDeclaration,
    declaration,
    is_plain,
)
from ptxsw.ptx.errors import ParseError
from ptxsw.ptx.ir import Signature, Variable
from ptxsw.ptx.patterns import pattern
from ptxsw.ptx.source import Source, Span

NAME = r"(?:[A-Za-z][A-Za-z0-9_$]*+|[_$%][A-Za-z0-9_$]++)"
HEADER = pattern(
    r'(?:[^{};/".]++|\.pragma\s*"[^"\n]*"\s*;|\.|//[^\n]*+|"[^"\n]*"|/\*(?:[^*]|\*(?!/))*\*/)*+'
    r"[{;]"
)


_SIGNATURE = pattern(
    rf"""((?:\s*\.[A-Za-z_][A-Za-z0-9_]*(?:\s*\([^()]*\)(?=\s*\.))?)*?)\s*
    \.(entry|func)\b\s*
    ((?:\.[A-Za-z_][A-Za-z0-9_]*\s*\([^()]*\)\s*)*)
    (?:\(([^()]*)\))?\s*
    ({NAME}(?:\.[A-Za-z0-9_$]+)*)\s*
    (?:\(([^()]*(?:\([^()]*\)[^()]*)*)\))?""",
    re.VERBOSE | re.ASCII,
)


# A header as compilers write it. What it says is read when it is asked for, and cannot fail then.
_BLANKS = r"[ \t\r\n]*+"
_GAP = r"(?:[ \t\r\n]++|//[^\n]*+\n)*+"
_COUNT = "[1-9][0-9]{0,8}"
_PARAMETER = rf"""{_BLANKS}\.(?:param|reg)[ ]?(?:\.align[ ]{_COUNT}[ ])?\.[a-u][a-z0-9]*+[ ]
    (?:\.ptr[ ](?:\.(?:global|const|shared|local)[ ])?\.align[ ]{_COUNT}[ ])?
    {NAME}(?:\[{_COUNT}\])?{_BLANKS}"""


# Written so that `_PARAMETER` stands in it once: it is what takes time to compile.
_LIST = rf"\((?:{_PARAMETER}(?:,(?!{_BLANKS}\))|(?=\))))*+{_BLANKS}\)"
USUAL = pattern(
    rf"""{_GAP}()(?:\.(visible|extern|weak)[ ])?\.(entry|func)[ ]++(?:{_LIST}{_BLANKS})?
    ({NAME}){_BLANKS}(?:{_LIST})?{_GAP}
    (?:\.[a-z]++(?:[ ][0-9]{{1,9}}(?:,[ ]*+[0-9]{{1,9}})*+)?{_GAP})*+[{{;]""",
    re.VERBOSE | re.ASCII,
)


_DIRECTIVE = pattern(r'\s*\.([A-Za-z_][A-Za-z0-9_]*)((?:"[^"]*"|[^."])*)', re.ASCII)


def given(signature: Signature) -> Signature:
    return signature


def header(source: Source, start: int, stop: int) -> re.Match[str]:
    """The parts of the header of a function between two offsets. Raises ParseError."""
    text = source.text[start:stop]
    if "/" in text:
        text = blank_comments(text)
    match = _SIGNATURE.match(text)
    if match is None:
        raise grammar_reader.header_error(source, text, start)
    return match


def read_signature(source: Source, start: int, stop: int) -> Signature:
    """What the header between two offsets declares. Raises ParseError, but not for `USUAL`."""
    match = header(source, start, stop)
    directives = list(_DIRECTIVE.findall(match[3]))
    text, at = match.string, match.end()
    end = len(text.rstrip())
    while at < end:
        directive = _DIRECTIVE.match(text, at)
        if directive is None:
            raise grammar_reader.header_error(source, text, start)
        directives.append((directive[1], directive[2]))
        at = directive.end()
    return Signature(
        _parameters(source, match[6], start + match.start(6)),
        _parameters(source, match[4], start + match.start(4)),
        tuple((n, " ".join(a.split()).rstrip("; ")) for n, a in directives),
    )


def _parameters(source: Source, text: str | None, at: int) -> tuple[Variable, ...]:
    if text is None or not text.strip():
        return ()
    parameters: list[Variable] = []
    for piece in text.split(","):
        lead = len(piece) - len(piece.lstrip())
        span = make_span(at + lead, at + len(piece.rstrip()))
        words = piece.split()
        if len(words) == 3 and is_plain(*words):
            parameters.append(usual_variable(words[0][1:], words[1][1:], words[2], span, None, 0))
        else:
            try:
                parameters += [d.at(span, 0, False) for d in declaration(piece)]
            except BadDeclaration as bad:
                where = min(at + bad.at, len(source.text))
                raise ParseError(bad.message, source, Span(where, where + 1)) from None
        at += len(piece) + 1
    return tuple(parameters)
