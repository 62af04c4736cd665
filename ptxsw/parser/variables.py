"""Declarations: `.shared .align 16 .b8 tile[1024];`, `.reg .b32 %r<5>;`, parameters."""

from __future__ import annotations

import re

from msgspec import Struct

from ptxsw.parser.node_factory import make_variable
from ptxsw.parser.operands import int_of
from ptxsw.ptx.ir import Variable
from ptxsw.ptx.patterns import pattern
from ptxsw.ptx.source import Span

LINKAGES = frozenset({"visible", "extern", "weak", "common"})
_NAME = r"(?:[A-Za-z][A-Za-z0-9_$]*|[_$%][A-Za-z0-9_$]+|_)"
_NUMBER = r"(?:0[xX][0-9A-Fa-f]+|0[bB][01]+|[0-9]+)U?"
_DIRECTIVE = r"\.([A-Za-z_][A-Za-z0-9_:]*(?:\s*\([^()]*\))?)"
_HEAD = pattern(rf"\s*((?:{_DIRECTIVE}\s*|(?<=[\s]){_NUMBER}\s*)+)", re.ASCII)
_WORD = pattern(rf"{_DIRECTIVE}|({_NUMBER})", re.ASCII)
_DECLARATOR = pattern(
    rf"\s*({_NAME})\s*(?:<\s*({_NUMBER})\s*>)?((?:\s*\[\s*(?:{_NUMBER})?\s*\])*)\s*", re.ASCII
)
_LONGEST = 18  # digits of a number
_MOST = 10**9  # registers of a name
_MOST_REGISTERS = 10**9
_DIM = pattern(r"\[\s*(\w*)", re.ASCII)


class BadDeclaration(Exception):
    """Not a declaration of the usual form: message and where in its text."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.message, self.at = message, at


class Declaration(Struct, frozen=True):
    """What a declaration says of one name: the fields of a `Variable` but for its place."""

    space: str
    type: str
    name: str
    count: int | None
    dims: tuple[int | None, ...]
    vector: int
    align: int | None
    linkage: tuple[str, ...]
    attributes: tuple[str, ...]

    def at(self, span: Span, scope: int, initialised: bool) -> Variable:
        """The variable, declared in a scope by the text at `span`."""
        return make_variable(
            self.space,
            self.type,
            self.name,
            span,
            self.count,
            self.dims,
            self.vector,
            self.align,
            self.linkage,
            self.attributes,
            initialised,
            scope,
        )


def _head(text: str) -> tuple[str, str, int, int | None, tuple[str, ...], tuple[str, ...]]:
    """Space, type, vector, alignment, linkage and attributes from the directives before a name.

    The order is linkage, space, alignment, vector, type; what follows the type (`.ptr .global
    .align 16`) describes what a pointer parameter points to and is kept as attributes. Raises
    BadDeclaration.
    """
    linkage: list[str] = []
    attributes: list[str] = []
    space = kind = ""
    vector, align, want_align = 1, None, False
    for word, number in _WORD.findall(text):
        if number:
            if want_align:
                align = _number(number, "alignment")
            elif attributes:
                attributes[-1] += f" {_number(number, 'number')}"
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
    return space, kind, vector, align, tuple(linkage), tuple(attributes)


def _number(text: str, what: str) -> int:
    """The value of an integer literal. Raises BadDeclaration."""
    try:
        if len(text) <= _LONGEST:
            return int_of(text)
    except ValueError:
        raise BadDeclaration(f"{text} is not a number: a leading 0 makes it octal", 0) from None
    raise BadDeclaration(f"expected a smaller {what}", 0)


def declaration(text: str) -> tuple[Declaration, ...]:
    """What one declaration, given without `;` and initialiser, declares.

    Raises BadDeclaration."""
    head = _HEAD.match(text)
    if head is None:
        raise BadDeclaration("expected a state space and a type", 0)
    space, kind, vector, align, linkage, attributes = _head(head.group(1))
    if not kind:
        raise BadDeclaration("expected a type such as .b32 before the name", head.end())
    if space == "reg" and vector > 4:
        raise BadDeclaration("a vector register has 2 or 4 elements", 0)
    variables: list[Declaration] = []
    at = head.end()
    while True:
        match = _DECLARATOR.match(text, at)
        if match is None:
            raise BadDeclaration("expected a name", at)
        name, count, sizes = match.groups()
        number = None if count is None else _number(count, "number of registers")
        if number is not None and number >= _MOST:
            raise BadDeclaration("expected a smaller number of registers", match.start(2))
        dims = tuple(_number(d, "array") if d else None for d in _DIM.findall(sizes))
        variables.append(
            Declaration(space, kind, name, number, dims, vector, align, linkage, attributes)
        )
        at = match.end()
        if at == len(text):
            return tuple(variables)
        if text[at] != ",":
            raise BadDeclaration("expected ',' or ';' after the name", at)
        at += 1


_WHOLE_NAME = pattern(_NAME, re.ASCII)
_PLAIN = frozenset({".param", ".reg"})


def is_plain(space: str, kind: str, name: str) -> bool:
    """Are these words a declaration such as `.param .b64 name` or `.reg .u32 name`?"""
    is_named = space in _PLAIN and kind[0] == "." and kind[1:].isalnum()
    return is_named and not kind[1:].startswith("v") and _WHOLE_NAME.fullmatch(name) is not None


def usual_declaration(text: str) -> tuple[tuple[Declaration, bool], ...] | BadDeclaration | None:
    """What a declaration, `;` included, declares and whether it initialises it.

    Where it is not of a usual form: what is wrong with it, or None where several names are
    initialised.
    """
    head, equals, value = text[:-1].partition("=")
    if "=" in value:
        return None
    try:
        variables = declaration(head)
    except BadDeclaration as bad:
        return bad
    if equals and len(variables) > 1:
        return None
    return tuple((each, bool(equals)) for each in variables)
