"""The expressions by which statements are read, and the numbers of their groups.

`STATEMENT` is one statement wherever it stands; `SIDE` a line of a label, a `.loc`, a comment, a
brace or a declaration. What neither knows for certain is read by the grammar.
"""

from __future__ import annotations

import re

from ptxsw.ptx.patterns import pattern

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
