"""PTX with and without what says nothing of its code: line information, comments, other pragmas.

All texts that are made of one text have their instructions on the same lines, so that what is said
of one can be held against what is said of another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ptxsw.codegen.splice import apply, insert
from ptxsw.parser import parse
from ptxsw.parser.scan import blank_comments
from ptxsw.ptx.ir import Statement

_SAYS_NOTHING = re.compile(r'(?<![\w.$%])\.(?:loc[ \t]|pragma[ \t]*"of nobody";)[^\n]*', re.ASCII)
_NOTES = (
    "\t.loc\t77 {line} 5\n\n",
    "\t// ; }} .loc 1 2 3\n"
    "\t.loc\t77 {line} 0, function_name $annotated, inlined_at 77 {before} 5\n",
    '/* {{ ; */\n\t.pragma "of nobody";\n',
)
_FILE = '.file\t77 "annotated.cu"\n.section\t.debug_str\n{\n$annotated:\n.b8 97\n.b8 0\n}\n'


def bare(text: str) -> str:
    """The text with blanks in place of what says nothing of its code."""
    return _SAYS_NOTHING.sub(lambda match: " " * len(match[0]), blank_comments(text))


def spaced(text: str) -> str:
    """The text with empty lines before each statement."""
    return _noted(text, ("\n\n",))


def annotated(text: str) -> str:
    """As `spaced`, with what says nothing of the code in the empty lines."""
    return f"{_noted(text, _NOTES)}\n{_FILE}"


def _noted(text: str, notes: tuple[str, ...]) -> str:
    """The text with one of some notes before each statement that begins its line."""
    edits = (
        insert(at, notes[number % len(notes)].format(line=number + 1, before=number))
        for function in parse(text).functions
        if function.body_span is not None
        for number, at in enumerate(_lines(text, function.body.code))
    )
    return apply(text, edits)


def _lines(text: str, statements: Iterable[Statement]) -> list[int]:
    """Where the lines begin that some statements begin."""
    starts = [each.span.start for each in statements]
    lines = [(text.rfind("\n", 0, start) + 1, start) for start in starts]
    return list(dict.fromkeys(line for line, start in lines if not text[line:start].strip()))
