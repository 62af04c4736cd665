"""Statements of a body, as plain data, and which of them say something of the code."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from msgspec import Struct

from ptxsw.ptx.operand import Operand, Reg
from ptxsw.ptx.source import Span

USED_BYTES = "used_bytes::"
"""How the modifier begins that stands for a pragma."""


class Guard(Struct, frozen=True):
    """`@p` or `@!p` before an instruction."""

    reg: Reg
    negated: bool = False


class Instruction(NamedTuple):
    """One PTX instruction: `@guard opcode.modifiers operands;`

    A load behind a `.pragma "used_bytes_mask 0xfff";` has the mask as its first modifier, so that
    whoever does not know it takes the load for none of the plain ones.

    A named tuple, as `Span` is: nothing frozen is made faster, and a text has most of these.
    """

    opcode: str  # "ld"
    modifiers: tuple[str, ...]  # ("global", "nc", "f32"); "shared::cluster" is one modifier
    operands: tuple[Operand, ...]  # destination first, as written
    guard: Guard | None
    start: int  # of the guard or opcode in the text
    end: int  # behind the semicolon

    @property
    def span(self) -> Span:
        """From the guard or opcode to the semicolon, both included."""
        return Span(self.start, self.end)

    @property
    def name(self) -> str:
        """Opcode and modifiers as written: `ld.global.nc.f32`."""
        words = self.modifiers if self.used_bytes is None else self.modifiers[1:]
        return ".".join((self.opcode, *words))

    @property
    def used_bytes(self) -> int | None:
        """The bytes that are used of what it loads, a bit each; None where nothing tells."""
        first = self.modifiers[0] if self.modifiers else ""
        return int(first[len(USED_BYTES) :], 0) if first.startswith(USED_BYTES) else None

    def with_used_bytes(self, mask: int) -> Instruction:
        """The same instruction behind such a pragma, which other ones than loads ignore."""
        if self.opcode not in ("ld", "ldu"):
            return self
        return self._replace(modifiers=(f"{USED_BYTES}{mask:#x}", *self.modifiers))


class Label(NamedTuple):
    """`name:`"""

    name: str
    span: Span
    scope: int = 0


class Variable(NamedTuple):
    """A declaration in any state space, in a body, a parameter list or the module.

    `.reg .b32 %r<5>` has `count` 5 and stands for `%r0` to `%r4`; `count` is None for a plain
    name. `space` is "reg", "param", "local", "shared", "global", "const" or "tex"; `dims` are
    array dimensions in elements (None: open). `type` is written without its dot; `vector` is
    1, 2 or 4 (or 8) elements; `align` is in bytes, or None.
    """

    space: str
    type: str
    name: str
    span: Span
    count: int | None = None  # type: ignore[assignment]  # hides `tuple.count`
    dims: tuple[int | None, ...] = ()
    vector: int = 1
    align: int | None = None
    linkage: tuple[str, ...] = ()  # "visible", "extern", "weak", "common"
    attributes: tuple[str, ...] = ()  # other directives: "ptr", "global", …
    initialised: bool = False
    scope: int = 0

    @property
    def size(self) -> int:
        """Bytes; 0 for an open array, or for a type of no known width."""
        total = type_width(self.type) * self.vector // 8
        for dim in self.dims:
            total *= dim or 0
        return total

    @property
    def is_dynamic(self) -> bool:
        """Is it an array of shared memory whose size the launch gives?"""
        return "extern" in self.linkage and None in self.dims


class Loc(NamedTuple):
    """`.loc file line column …`: the source position of the instructions that follow."""

    file: int
    line: int
    column: int
    span: Span


class Directive(Struct, frozen=True):
    """Any other directive, kept as text: `.pragma "nounroll";`, `.branchtargets`, prototypes.

    `name` is written without its dot; `label` is the label in front of it, as in
    `ts: .branchtargets L1, L2;`; `names` are the identifiers that occur in it, `strings` what
    stands in quotes.
    """

    name: str
    span: Span
    label: str | None = None
    names: tuple[str, ...] = ()
    strings: tuple[str, ...] = ()

    @property
    def used_bytes(self) -> int | None:
        """The bytes that are used of what the next instruction loads, a bit each, where this is a
        pragma that tells (manual 12.2)."""
        for string in self.strings if self.name == "pragma" else ():
            word, _, mask = string.strip().partition(" ")
            if word == "used_bytes_mask":
                return _mask(mask)
        return None


class Open(Struct, frozen=True):
    """`{` of a nested scope; `scope` is the number of the scope that begins."""

    scope: int
    span: Span


class Close(Struct, frozen=True):
    """`}` of a nested scope; `scope` is the number of the scope that ends."""

    scope: int
    span: Span


Statement: TypeAlias = Instruction | Label | Variable | Loc | Directive | Open | Close


_FOR_DEBUGGERS = frozenset({"section", "file", "loc", "@@DWARF"})


def says_nothing(statement: Statement) -> bool:
    """Does a statement neither do anything nor change what others mean? Such are line information
    and the pragmas that only say how to compile."""
    if type(statement) is Loc:
        return True
    if type(statement) is not Directive or statement.label is not None:
        return False
    return statement.name in _FOR_DEBUGGERS or (
        statement.name == "pragma" and statement.used_bytes is None
    )


def _mask(text: str) -> int:
    """A mask of bytes; all of them where it is no literal."""
    try:
        return int(text.strip()[:20], 0)
    except ValueError:
        return -1


_WIDTHS = {
    "pred": 1, "b8": 8, "u8": 8, "s8": 8, "e4m3": 8, "e5m2": 8,
    "b16": 16, "u16": 16, "s16": 16, "f16": 16, "bf16": 16, "e4m3x2": 16, "e5m2x2": 16,
    "b32": 32, "u32": 32, "s32": 32, "f32": 32, "f16x2": 32, "bf16x2": 32, "tf32": 32,
    "u16x2": 32, "s16x2": 32,
    "b64": 64, "u64": 64, "s64": 64, "f64": 64, "f32x2": 64,
    "b128": 128, "u128": 128, "s128": 128,
    "texref": 64, "samplerref": 64, "surfref": 64,
}  # fmt: skip


def type_width(name: str) -> int:
    """Width in bits of a fundamental or packed type written without its dot; 0 if unknown."""
    return _WIDTHS.get(name, 0)
