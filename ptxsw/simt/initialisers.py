"""First values of variables: `.global .u32 a[2] = {1, 2};` (manual 5.4.4)."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from msgspec import Struct

from ptxsw.parser.scan import blank_comments
from ptxsw.ptx.ir import Variable, type_width
from ptxsw.ptx.patterns import pattern

_TOKEN = pattern(r"\s*(?:([{},()+])|(-?[0-9][0-9A-Za-z.]*(?:[eE][+-]?[0-9]+)?)|([^\s{},()+]+))")


class Linked(Struct, frozen=True):
    """An element that is made of addresses: `name+8`, `generic(name)`, `0xFF00(name)`. It lies
    `at` bytes behind the start of its variable and takes `size` bytes."""

    at: int
    size: int
    tokens: tuple[str, ...]

    def value(self, address: Callable[[str], int]) -> bytes:
        """Its bytes, once addresses are known."""
        number = _value(self.tokens, "b64", address) % (1 << 8 * self.size)
        return number.to_bytes(self.size, "little")


class Initialiser(Struct, frozen=True):
    """The bytes of a variable before anything runs: constants, zero where there are none, and
    what the addresses of others decide."""

    constants: bytes
    linked: tuple[Linked, ...]


def initialiser(declaration: str, variable: Variable) -> Initialiser:
    """What a declaration says of one of its variables."""
    sides = (*(d or 0 for d in variable.dims), *([variable.vector] if variable.vector > 1 else []))
    return _read(declaration, variable.name, variable.type, sides)


@lru_cache(maxsize=64)  # a program is linked anew for each launch
def _read(declaration: str, name: str, kind: str, sides: tuple[int, ...]) -> Initialiser:
    right = _right_side(blank_comments(declaration), name)
    tokens = [m.group(m.lastindex or 0) for m in _TOKEN.finditer(right)]
    size = max(type_width(kind) // 8, 1)
    constants, linked = bytearray(), []
    for position, item in _items(tokens, sides):
        at = position * size
        constants.extend(bytes(max(at + size - len(constants), 0)))
        if any(token[0].isalpha() or token[0] in "_$%" for token in item):
            linked.append(Linked(at, size, tuple(item)))
        else:
            value = _value(item, kind, _no_address) % (1 << 8 * size)
            constants[at : at + size] = value.to_bytes(size, "little")
    return Initialiser(bytes(constants), tuple(linked))


@lru_cache(maxsize=64)
def words(declaration: str) -> tuple[str, ...]:
    """The names in a declaration, in order."""
    return tuple(dict.fromkeys(re.findall(r"[A-Za-z_$%][\w$]*", blank_comments(declaration))))


def _right_side(declaration: str, name: str) -> str:
    """What stands behind the `=` of `name` in `.global .u32 a[2] = {1, 2}, b = 3;`, a text without
    comments; "" where it has none."""
    depth, start = 0, 0
    for match in re.finditer(r"[{}()\[\];,]", declaration):
        char, at = match[0], match.start()
        depth += (char in "{([") - (char in "})]")
        if char == ";" or (char == "," and depth == 0):
            left, _, right = declaration[start:at].partition("=")
            if left.partition("[")[0].split()[-1:] == [name]:
                return right.strip()
            start = at + 1
    return ""


def _items(tokens: Sequence[str], sides: Sequence[int]) -> Iterator[tuple[int, list[str]]]:
    """The positions of elements and their tokens; braces begin a row."""
    strides = [1] * (len(sides) + 1)
    for at in reversed(range(len(sides))):
        strides[at] = strides[at + 1] * max(sides[at], 1)
    depth, position, starts = 0, 0, [0]
    item: list[str] = []
    parentheses = 0
    for token in (*tokens, ","):
        parentheses += (token == "(") - (token == ")")
        if token in ("{", "}") or (token == "," and parentheses == 0):
            if item:
                yield position, item
                position += 1
                item = []
            if token == "{":
                starts.append(position)
                depth += 1
            elif token == "}":
                position = starts.pop() + strides[min(max(depth - 1, 0), len(sides))]
                depth -= 1
        else:
            item.append(token)


def _value(item: Sequence[str], kind: str, address: Callable[[str], int]) -> int:
    """`7`, `0f3F800000`, `name`, `name+8`, `generic(name)+8`, `0xFF00(name)`."""
    mask: int | None = None
    total = 0
    for at, token in enumerate(item):
        if token in ("(", ")", "+", "generic"):
            continue
        if token[0].isdigit() or token[0] == "-":
            number = _number(token, kind)
            if at + 1 < len(item) and item[at + 1] == "(":
                mask = number
            else:
                total += number
        else:
            total += address(token)
    if mask is not None:
        total = (total & mask) >> ((mask & -mask).bit_length() - 1)
    return total


def _no_address(name: str) -> int:
    raise ValueError(f"{name} has no address")


def _number(token: str, kind: str) -> int:
    """A literal as the bits of a type."""
    low = token.lower()
    if low.startswith(("0f", "0d")) and not low.startswith("0x"):
        return int(low[2:], 16)
    if low.startswith(("0x", "-0x")):
        return int(low.rstrip("ul"), 16)
    if "." in low or ("e" in low and not low.startswith("0b")):
        value = float(low)
    elif low.startswith("0b"):
        return int(low.rstrip("ul"), 2)
    else:
        digits = low.rstrip("ul")
        number = int(digits, 8) if digits.startswith("0") and len(digits) > 1 else int(digits)
        if kind not in ("f32", "f64"):
            return number
        value = float(number)
    code = "<f" if kind == "f32" else "<d"
    return int.from_bytes(struct.pack(code, value), "little")
