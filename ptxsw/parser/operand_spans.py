"""Where the operands of an instruction stand in the text."""

from __future__ import annotations

import re

from ptxsw.parser.scan import blank_comments
from ptxsw.ptx.ir import Instruction
from ptxsw.ptx.patterns import pattern
from ptxsw.ptx.source import Source, Span

_HEAD = pattern(
    r"(?:@\s*!?\s*[A-Za-z0-9_$%]+\s*)?[A-Za-z][A-Za-z0-9_.:]*(?:\s*\.[A-Za-z0-9_:]+)*", re.ASCII
)


def operand_spans(source: Source, instruction: Instruction) -> tuple[Span, ...]:
    """Spans of an instruction's operands, in order, without the blanks around them."""
    start = instruction.span.start
    text = blank_comments(source.slice(instruction.span)).removesuffix(";")
    head = _HEAD.match(text)
    assert head is not None, text
    spans: list[Span] = []
    depth, begin = 0, head.end()
    for at in range(begin, len(text) + 1):
        char = text[at] if at < len(text) else ","
        if char in "[{(":
            depth += 1
        elif char in "]})":
            depth -= 1
        elif char == "," and depth == 0:
            piece = text[begin:at]
            lead = len(piece) - len(piece.lstrip())
            if piece.strip():
                spans.append(Span(start + begin + lead, start + begin + len(piece.rstrip())))
            begin = at + 1
    return tuple(spans)
