"""Operand texts and what they stand for, each distinct text read once per scope."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice

from ptxsw.parser.node_factory import make_family, make_mem
from ptxsw.parser.scan import blank_comments
from ptxsw.parser.scope import Scope
from ptxsw.ptx.ir import (
    Args,
    Float,
    Instruction,
    Int,
    Mem,
    Not,
    Operand,
    Pair,
    Reg,
    RegisterPart,
    Sink,
    Special,
    Sum,
    Symbol,
    Vec,
)
from ptxsw.ptx.patterns import pattern
from ptxsw.ptx.source import Source, Span

_NAME = r"(?:[A-Za-z][A-Za-z0-9_$]*|[_$%][A-Za-z0-9_$]+)"
_NUMBER = r"-?(?:0[xX][0-9A-Fa-f]{1,16}|0|[1-9][0-9]{0,17})"
_FAST = pattern(
    rf"""[ \t\r\n\f\v]*(?:
      ({_NAME}) (?:\.([xyzwrgba]))?
    | ({_NUMBER})U?
    | 0[fF]([0-9A-Fa-f]{{8}})
    | 0[dD]([0-9A-Fa-f]{{16}})
    | \[[ ]*({_NAME}) [ ]*(?:\+[ ]*({_NUMBER}))?[ ]*\]
    | \{{([^\[\](){{}}]*)\}}
    | \(([^\[\](){{}}]*)\)
    | !({_NAME})
    | ({_NAME}|_)[ ]*\|[ ]*({_NAME})
    | (_)
    | ({_NAME})[ ]*\+[ ]*({_NUMBER})
    )[ \t\r\n\f\v]*""",
    re.VERBOSE | re.ASCII,
)
NAME = pattern(_NAME, re.ASCII)
_FLOAT_WIDTHS = {"0f": 32, "0F": 32, "0d": 64, "0D": 64}
_DIGITS = frozenset("0123456789-")
_NAMED = frozenset({Reg, Special, Symbol})
_PIECE = pattern(r"(?:[^,\[\](){}]++|\[[^\[\]]*+\]|\{[^{}]*+\}|\([^()]*+\))++")
LIMIT = 1 << 64
_COMPONENTS = {letter: at for four in ("xyzw", "rgba") for at, letter in enumerate(four)}
ELEMENTS = frozenset({Reg, Special, Symbol, Int, Float, Sink, Sum, RegisterPart})
"""What a vector is made of."""
LISTED = ELEMENTS | {Vec}
"""What a call hands over, a vector register among them."""
HALVES = frozenset({Reg, Sink})
"""What stands beside the bar of a pair."""
BLANKS = " \t\r\n\f\v"  # what the grammar skips; `strip` alone takes Unicode's blanks, too


class Unreadable(Exception):
    """The fast reading cannot tell: the grammar decides."""


class Misread(Exception):
    """An operand with the shape of PTX that makes no sense: message, start, end in its text."""

    def __init__(self, message: str, start: int, end: int) -> None:
        super().__init__(message)
        self.message, self.start, self.end = message, start, end


class Pool:
    """Operands that mean the same in every body of a module: literals, and the registers of
    outermost scopes.
    """

    __slots__ = ("_families", "numbers")

    def __init__(self) -> None:
        self.numbers: dict[str, Operand] = {}
        self._families: dict[str, dict[str, Reg]] = {}

    def registers(self, stem: str, count: int) -> Mapping[str, Reg]:
        """The registers of a family such as `%r<5>` by name."""
        family = self._families.setdefault(stem, {})
        if len(family) < count:
            family.update(make_family(stem, len(family), count, 0))
        if len(family) == count:
            return family
        return dict(islice(family.items(), count))


class Operands(dict[str, Operand]):
    """Operand text -> operand, in one scope. Equal texts share one object.

    Looking up a new text reads it; Unreadable where only the grammar can.

    Scopes inside this one use the same table as long as they declare nothing but names that no
    text in the table can mention (`shared`): the texts that do mention them, `passing`, are
    forgotten when the scope ends.
    """

    __slots__ = ("_home", "outer", "passing", "pool", "scope", "shared")

    def __init__(self, scope: Scope, pool: Pool, outer: Operands | None = None) -> None:
        self._home = scope  # whose table this is
        self.scope = scope  # where names are looked up: in this scope or one inside it
        self.pool = pool
        self.outer = outer  # the table of the scope around, None for the outermost
        self.shared: tuple[str, ...] = ()
        self.passing: list[str] = []

    def __missing__(self, text: str) -> Operand:
        pool = self.pool
        operand = pool.numbers.get(text)
        if operand is None:
            first = text[:1]
            if first in _DIGITS:
                operand = _number(text)
                if operand is not None:
                    pool.numbers[text] = operand
            elif self.outer is None:
                if first == "[":
                    operand = self._address(text) if text.isascii() else None
                elif NAME.fullmatch(text) is not None:
                    operand = self.scope.resolve(text)
            if operand is None:
                operand = self._new(text, first)
            for name in self.shared:
                if name in text:
                    self.passing.append(text)
                    break
        self[text] = operand
        return operand

    def leave(self, scope: Scope, shared: tuple[str, ...], passing: int) -> None:
        """Go back to a scope: forget what names of the scopes inside it meant."""
        self.scope = scope
        self.shared = shared
        for text in self.passing[passing:]:
            self.pop(text, None)
        del self.passing[passing:]

    def _foreign(self, text: str) -> bool:
        """Is it certain that a text means what it means in the scope around `_home`?"""
        scope: Scope | None = self.scope
        while scope is not None and scope.foreign(text):
            if scope is self._home:
                return True
            scope = scope.parent
        return False

    def _new(self, text: str, first: str) -> Operand:
        """Read a text that is no plain literal. Raises Unreadable."""
        if self.outer is not None and self._foreign(text):
            return self.outer[text]
        if not text.isascii():
            raise Unreadable(text)
        operand: Operand | None = None
        if first == "[":
            operand = self._address(text)
        elif first == "{":
            operand = self._vector(text)
        elif first == "(" and text[-1] == ")" and "(" not in text[1:]:
            return self._list(text[1:-1])
        elif NAME.fullmatch(text) is not None:
            operand = self.scope.resolve(text)
        elif text[-2:-1] == "." and text[-1] in _COMPONENTS and NAME.fullmatch(text[:-2]):
            operand = with_parts(self.scope.resolve(text[:-2]), (text[-1],))
        if operand is not None:
            return operand
        match = _FAST.fullmatch(text)
        if match is None:
            raise Unreadable(text)
        return self._read(match)

    def _vector(self, text: str) -> Operand | None:
        """`{%f1, %f2}`; None for any other form."""
        inner = text[1:-1]
        if text[-1] != "}" or "{" in inner or "[" in inner:
            return None
        spaced = inner.count(", ")
        if spaced and spaced != inner.count(","):
            return None
        if inner[:1] == " " and inner[-1:] == " ":
            inner = inner[1:-1]
        return Vec(self._elements(inner.split(", " if spaced else ",")))

    def _list(self, inner: str) -> Operand:
        """`(a, b)`. Raises Unreadable."""
        pieces = [piece.strip(BLANKS) for piece in inner.split(",")]
        return Args(self._elements(pieces, LISTED) if pieces != [""] else ())

    def _elements(
        self, pieces: list[str], allowed: frozenset[type] = ELEMENTS
    ) -> tuple[Operand, ...]:
        elements = tuple(map(self.__getitem__, pieces))
        if not allowed.issuperset(map(type, elements)):
            raise Unreadable(pieces)
        return elements

    def _address(self, text: str) -> Operand | None:
        """`[%rd1]`, `[%rd1+8]` or `[%rd1+-8]`; None for any other form."""
        if text[-1] != "]":
            return None
        base, plus, digits = text[1:-1].partition("+")
        offset = 0
        if plus:
            digits = digits.strip(" ")
            size = digits[1:] if digits[:1] == "-" else digits
            octal = size[:1] == "0" and len(size) > 1
            if octal or not size.isdecimal() or len(size) > 18:
                return None
            offset = int(digits)
        operand = self.get(base)
        if operand is None:
            base = base.strip(" ")
            if NAME.fullmatch(base) is None:
                return None
            operand = self[base]
        elif type(operand) not in _NAMED:
            return None
        if type(operand) not in _NAMED or type(operand) is Special:
            raise Unreadable(text)
        return make_mem(operand, offset)

    def add_family(self, stem: str, count: int) -> None:
        """Know `%r0` to `%r4` of `%r<5>` beforehand."""
        number = self.scope.number
        self.update(
            make_family(stem, 0, count, number) if number else self.pool.registers(stem, count)
        )

    def _read(self, match: re.Match[str]) -> Operand:
        resolve = self.scope.resolve
        name, part, integer, single, double, base, offset, *rest = match.groups()
        if name is not None:
            return with_parts(resolve(name), (part,)) if part is not None else resolve(name)
        if integer is not None:
            return Int(int(integer, 0))
        if base is not None:
            operand = resolve(base)
            if type(operand) is Vec or type(operand) is Special:
                raise Unreadable(base)
            return Mem(operand, int(offset, 0) if offset is not None else 0)
        if single is not None:
            return Float(int(single, 16), 32)
        if double is not None:
            return Float(int(double, 16), 64)
        return self._read_group(*rest)

    def _read_group(
        self, vector: str | None, args: str | None, negated: str | None, *rest: str | None
    ) -> Operand:
        if vector is not None:
            return Vec(self._elements(vector.split(",")))
        if args is not None:
            return self._list(args)
        if negated is not None:
            held = self.scope.resolve(negated)
            if type(held) is not Reg:
                raise Unreadable(negated)
            return Not(held)
        first, second, sink, base, offset = rest
        if base is not None and offset is not None:
            return _plus(self.scope.resolve(base), int(offset, 0))
        if first is None or second is None:
            assert sink is not None
            return Sink()
        pair = Pair(
            Sink() if first == "_" else self.scope.resolve(first), self.scope.resolve(second)
        )
        if type(pair.first) not in HALVES or type(pair.second) not in HALVES:
            raise Unreadable(first)
        return pair


def _plus(base: Operand, offset: int) -> Operand:
    """`base+offset` outside an address. Raises Unreadable."""
    if type(base) is Symbol:
        return Symbol(base.name, offset, base.scope)
    if type(base) is Reg:
        return Sum(base, offset)
    raise Unreadable("a sum of neither a register nor a symbol")


def _number(text: str) -> Operand | None:
    """A literal in its commonest forms; None for any other."""
    if not text.isascii():
        return None
    if text.isdecimal() and (text[0] != "0" or text == "0") and len(text) < 20:
        return Int(int(text))
    if text[0] == "-":
        digits = text[1:]
        plain = digits.isdecimal() and digits[0] != "0" and len(digits) < 20
        return Int(int(text)) if plain else None
    width = _FLOAT_WIDTHS.get(text[:2])
    if width is None or len(text) != 2 + width // 4 or not text.isalnum():
        return None
    try:
        return Float(int(text[2:], 16), width)
    except ValueError:
        return None


def split(text: str) -> list[str]:
    """Operand texts of a list, commas inside brackets left alone. Raises Unreadable."""
    pieces = _PIECE.findall(text)
    if ",".join(pieces) != text:
        raise Unreadable(text)
    return [piece.strip(BLANKS) for piece in pieces]


def int_of(text: str) -> int:
    """An integer literal's value. Raises ValueError where it is not 64 bits wide."""
    digits = text.rstrip("U").replace(" ", "")
    if len(digits) > 80:
        raise ValueError(text)
    octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
    value = int(digits, 8 if octal else 0)
    if not -LIMIT < value < LIMIT:
        raise ValueError(text)
    return value


def with_parts(base: Operand, parts: tuple[str, ...]) -> Operand:
    """`base.x`: a special register with its component, a component of a vector register, or a
    part of a scalar one. Raises Unreadable for a component that a vector does not have."""
    if type(base) is Special:
        return Special(".".join((base.name, *parts)))
    if type(base) is Vec and parts:
        at = _COMPONENTS.get(parts[0], len(base.elements))
        if len(parts) > 1 or at >= len(base.elements):
            raise Unreadable(".".join(parts))
        return base.elements[at]
    for part in parts:
        base = RegisterPart(base, part)
    return base


# ---------------------------------------------------------------- where operands stand

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
