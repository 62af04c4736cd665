"""Declarations: `.shared .align 16 .b8 tile[1024];`, `.reg .b32 %r<5>;`, parameters."""

from __future__ import annotations

import re

from ptxsw.ir import Variable
from ptxsw.source import Span

LINKAGES = frozenset({"visible", "extern", "weak", "common"})
_NAME = r"(?:[A-Za-z][A-Za-z0-9_$]*|[_$%][A-Za-z0-9_$]+|_)"
_HEAD = re.compile(
    r"\s*((?:\.[A-Za-z_][A-Za-z0-9_:]*(?:\s*\([^()]*\))?\s*|(?<=[\s])[0-9]+\s*)+)", re.ASCII
)
_WORD = re.compile(r"\.([A-Za-z_][A-Za-z0-9_:]*(?:\s*\([^()]*\))?)|([0-9]+)", re.ASCII)
_DECLARATOR = re.compile(
    rf"\s*({_NAME})\s*(?:<\s*([0-9]{{1,9}})\s*>)?((?:\s*\[\s*[0-9]{{0,18}}U?\s*\])*)\s*",
    re.ASCII,
)
_DIM = re.compile(r"\[\s*([0-9]*)")
_HEADS: dict[str, dict[str, object]] = {}


class BadDeclaration(Exception):
    """Not a declaration of the usual form: message and where in its text."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.message, self.at = message, at


def _head(text: str) -> dict[str, object]:
    """The fields that the directives before the names fix.

    The order is linkage, space, alignment, vector, type; what follows the type (`.ptr .global
    .align 16`) describes what a pointer parameter points to and is kept as attributes.
    """
    linkage: list[str] = []
    attributes: list[str] = []
    space = kind = ""
    vector, align, want_align = 1, None, False
    for word, number in _WORD.findall(text):
        if number:
            if want_align:
                align = int(number)
            elif attributes:
                attributes[-1] += f" {number}"
            want_align = False
        elif kind:
            attributes.append(word)
        elif word in LINKAGES:
            linkage.append(word)
        elif word == "align":
            want_align = True
        elif "(" in word:
            attributes.append(word)
        elif not space:
            space = word
        elif word in ("v2", "v4", "v8"):
            vector = int(word[1:])
        else:
            kind = word
    return {
        "space": space,
        "type": kind,
        "vector": vector,
        "align": align,
        "linkage": tuple(linkage),
        "attributes": tuple(attributes),
    }


def declaration(text: str, span: Span, scope: int, initialised: bool) -> list[Variable]:
    """The variables of one declaration, given without `;` and initialiser; each carries `span`.

    Raises BadDeclaration."""
    head = _HEAD.match(text)
    if head is None:
        raise BadDeclaration("expected a state space and a type", 0)
    fields = _HEADS.get(head.group(1))
    if fields is None:
        fields = _HEADS[head.group(1)] = _head(head.group(1))
    if not fields["type"]:
        raise BadDeclaration("expected a type such as .b32 before the name", head.end())
    found: list[Variable] = []
    at = head.end()
    while True:
        match = _DECLARATOR.match(text, at)
        if match is None:
            raise BadDeclaration("expected a name", at)
        name, count, dims = match.groups()
        found.append(
            Variable(
                name=name,
                span=span,
                count=int(count) if count is not None else None,
                dims=tuple(int(d) if d else None for d in _DIM.findall(dims)) if dims else (),
                initialised=initialised,
                scope=scope,
                **fields,  # type: ignore[arg-type]
            )
        )
        at = match.end()
        if at == len(text):
            return found
        if text[at] != ",":
            raise BadDeclaration("expected ',' or ';' after the name", at)
        at += 1
