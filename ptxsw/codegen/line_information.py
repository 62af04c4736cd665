"""Which line of the source code is from, where it is written twice."""

from __future__ import annotations

from ptxsw.ptx.ir import Body, Loc
from ptxsw.ptx.source import Span


def line_again(text: str, body: Body, span: Span) -> list[str]:
    """The `.loc` that holds where a part of a body begins, for the second of two copies of that
    part: behind the first, the last one in it holds."""
    lines = [s for s in body.others if type(s) is Loc]
    before = [s.span for s in lines if s.span.start < span.start]
    inside = any(span.start <= s.span.start < span.end for s in lines)
    return [text[before[-1].start : before[-1].end]] if before and inside else []
