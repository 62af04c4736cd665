"""Subscripts in CUDA source, read as sums over names and written anew.

int i = blockIdx.x * blockDim.x + threadIdx.x;
sum += a[(size_t)i * n + k];        array `a`, addends `(size_t)i * n` and `k`
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice

from msgspec import Struct

from ptxsw.ptx.patterns import pattern

NameSum = Mapping[tuple[str, ...], int]
"""A polynomial: the names in each product, sorted, and its factor."""

_SUBSCRIPT = pattern(r"\b([A-Za-z_]\w*)\s*\[")
_FIELD = pattern(r"\s*\.\s*([A-Za-z_]\w*)\b(?!\s*[\[(])")
_CAST = pattern(
    r"\(\s*(?:const\s+|unsigned\s+|std::)*"
    r"(?:size_t|ptrdiff_t|int|long|long\s+long|unsigned|u?int(?:32|64)_t)(?:\s+int)?\s*\)\s*"
)
_SUFFIX = pattern(r"\b(\d+)[uUlL]+\b")
_CHANGED = pattern(
    r"(?:(?:\+\+|--)\s*([A-Za-z_]\w*)\b)"
    r"|(?<![.>\w])([A-Za-z_]\w*)\s*(\+\+|--|(?:[-+*/%&|^]|<<|>>)?=(?!=))"
)
_LONGEST = 200  # characters of an expression
_DEEPEST = 20  # definitions by definitions
_MOST = 1_000  # changes in a kernel that are looked at
_TERMS = 32  # of a sum


class Subscript(Struct, frozen=True):
    """`array[index].field`, from `start` to `end` in a text; without a field it is empty."""

    array: str
    index: str
    field: str
    start: int
    end: int


def subscripts(text: str) -> Iterator[Subscript]:
    """Those of one dimension, with all of their index in the text."""
    for match in islice(_SUBSCRIPT.finditer(text), _MOST):
        end = _closed(text, match.end())
        if end is None or text[end : end + 1] == "[" or text[: match.start()].endswith((".", "->")):
            continue
        field = _FIELD.match(text, end)
        yield Subscript(
            match[1], text[match.end() : end - 1].strip(), field[1] if field else "",
            match.start(), field.end() if field else end,
        )  # fmt: skip


def _closed(text: str, start: int) -> int | None:
    """Behind the bracket that closes the one before `start`."""
    depth = 1
    for at in range(start, min(len(text), start + _LONGEST)):
        depth += (text[at] in "[(") - (text[at] in "])")
        if not depth:
            return at + 1
    return None


def addends(index: str) -> list[str]:
    """What a sum without differences at its top adds up; the whole where it is none."""
    parts = _split(index, "+")
    return [index] if any("-" in _outside(part) for part in parts) else parts


def factors(product: str) -> list[str]:
    """What a product multiplies, casts left out; the whole where it is none."""
    parts = _split(_CAST.sub("", product), "*")
    plain = not any(set("/%&|^<>?") & set(_outside(part)) for part in parts)
    return parts if plain else [product]


def _split(text: str, sign: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for at, one in enumerate(text):
        depth += (one in "[(") - (one in "])")
        if one == sign and not depth:
            parts.append(text[start:at].strip())
            start = at + 1
    return [*parts, text[start:].strip()]


def _outside(text: str) -> str:
    """What stands outside of brackets."""
    depth, kept = 0, []
    for one in text:
        depth += one in "[("
        kept += [] if depth else [one]
        depth -= one in "])"
    return "".join(kept)


def cast_of(product: str) -> str:
    """The cast at the head of a product."""
    match = _CAST.match(product)
    return match[0].strip() if match else ""


def definitions(body: str) -> Mapping[str, tuple[str, ...]]:
    """The texts of what the variables of a kernel are set to, of those that nothing else changes.
    Some have several: of other paths, scopes, or cases of the preprocessor."""
    changes: dict[str, list[str]] = {}
    for match in islice(_CHANGED.finditer(body), _MOST):
        text = _until_end(body, match.end()) if match[3] == "=" else ""
        changes.setdefault(match[1] or match[2], []).append(text)
    return {name: tuple(texts) if all(texts) else () for name, texts in changes.items()}


def _until_end(text: str, start: int) -> str:
    """An expression up to the comma or semicolon behind it."""
    depth = 0
    for at in range(start, min(len(text), start + _LONGEST)):
        depth += (text[at] in "[({") - (text[at] in "])}")
        if depth < 0 or (not depth and text[at] in ",;"):
            return text[start:at].strip()
    return ""


Meaning = Callable[[str], "str | int | None"]
"""The number that a name stands for, or the text that defines it; None where it stands for
itself."""


def summed(
    written: str, meaning: Meaning, known: dict[str, NameSum] | None = None, depth: int = _DEEPEST
) -> NameSum | None:
    """An index as a sum over names, None for what is no sum of products. `known` carries names
    from one call to the next under the same `meaning`."""
    text = _SUFFIX.sub(r"\1", _CAST.sub("", written)).strip()
    try:
        tree = ast.parse(text[:_LONGEST], mode="eval").body
    except (SyntaxError, ValueError):
        return None
    return _summed(tree, meaning, {} if known is None else known, depth)


def _summed(
    node: ast.expr, meaning: Meaning, known: dict[str, NameSum], depth: int
) -> NameSum | None:
    match node:
        case ast.Constant(value=int(value)):
            return {(): value}
        case ast.Name() | ast.Attribute():
            return _of_name(ast.unparse(node), meaning, known, depth)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() as sign, right=right):
            one = _summed(left, meaning, known, depth)
            other = _summed(right, meaning, known, depth)
            if one is None or other is None or len(one) * len(other) > _TERMS:
                return None
            if isinstance(sign, ast.Mult):
                return product(one, other)
            return plus(one, other, -1 if isinstance(sign, ast.Sub) else 1)
        case ast.BinOp() | ast.Call():
            return {(ast.unparse(node),): 1}
    return None


def _of_name(name: str, meaning: Meaning, known: dict[str, NameSum], depth: int) -> NameSum:
    if name not in known:
        itself: NameSum = {(name,): 1}
        known[name] = itself  # also while it is looked up
        text = meaning(name)
        if isinstance(text, int):
            known[name] = {(): text}
        elif text is not None and depth:
            known[name] = summed(text, meaning, known, depth - 1) or itself
    return known[name]


def plus(one: NameSum, other: NameSum, factor: int = 1) -> NameSum:
    """A sum, the second part times a factor."""
    total = dict(one)
    for names, count in other.items():
        total[names] = total.get(names, 0) + factor * count
    return {names: count for names, count in total.items() if count}


def product(one: NameSum, other: NameSum) -> NameSum:
    total: dict[tuple[str, ...], int] = {}
    for first, a in one.items():
        for second, b in other.items():
            names = tuple(sorted(first + second))
            total[names] = total.get(names, 0) + a * b
    return {names: count for names, count in total.items() if count}


def names_in(text: str) -> set[str]:
    """The names in an expression, those of members included."""
    return set(re.findall(r"[A-Za-z_]\w*", text))
