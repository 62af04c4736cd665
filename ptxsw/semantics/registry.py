"""One table from opcodes to meanings, and how a meaning is run over an algebra.

A builder (a function decorated with `semantics`) takes the modifiers of an instruction off one
by one and returns a `Meaning`: what the instruction computes, how wide its operands are, and
nothing about registers, paths or memory. An opcode may have one builder for each section of the
PTX manual it occurs in (`add`: integer, extended precision, floating point).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeVar

from msgspec import Struct

from ptxsw.ptx.ir import type_width
from ptxsw.semantics.algebra import Algebra

V = TypeVar("V")

AS_IS = 0
"""In `Meaning.inputs`: the source reaches `compute` as it came, literals as Python integers."""


class NoForm(Exception):
    """These modifiers are no form of the opcode that a builder knows. Never leaves the package."""


class Type(NamedTuple):
    """An instruction type: `s32` is ("s32", "s", 32)."""

    name: str
    kind: str  # "u", "s", "b", "f" or "pred"
    width: int  # bits

    @property
    def signed(self) -> bool:
        return self.kind == "s"


_KINDS = {
    **dict.fromkeys(("u8", "u16", "u32", "u64", "u16x2"), "u"),
    **dict.fromkeys(("s8", "s16", "s32", "s64", "s16x2"), "s"),
    **dict.fromkeys(("b8", "b16", "b32", "b64", "b128"), "b"),
    **dict.fromkeys(("f16", "f16x2", "bf16", "bf16x2", "tf32", "f32", "f32x2", "f64"), "f"),
    **dict.fromkeys(("e4m3x2", "e5m2x2"), "f"),
    "pred": "pred",
}
_TYPES = {name: Type(name, kind, type_width(name)) for name, kind in _KINDS.items()}


class Modifiers:
    """The modifiers of one instruction. Builders take off what they know; a rest means no form."""

    def __init__(self, modifiers: Sequence[str]) -> None:
        self.rest = list(modifiers)

    def flag(self, name: str) -> bool:
        """Takes `name` off; False where it is not there."""
        if name not in self.rest:
            return False
        self.rest.remove(name)
        return True

    def option(self, names: Sequence[str]) -> str | None:
        """Takes off the first modifier that is among `names`."""
        for modifier in self.rest:
            if modifier in names:
                self.rest.remove(modifier)
                return modifier
        return None

    def choice(self, *names: str) -> str:
        """Takes off the one of `names` that must be there."""
        name = self.option(names)
        if name is None:
            raise NoForm
        return name

    def type(self, *names: str) -> Type:
        """Takes off the first modifier that is a type, which must be one of `names`."""
        for modifier in self.rest:
            if modifier in _TYPES:
                if modifier not in names:
                    raise NoForm
                self.rest.remove(modifier)
                return _TYPES[modifier]
        raise NoForm

    def end(self) -> None:
        """Nothing may be left."""
        if self.rest:
            raise NoForm


class Meaning(Struct, frozen=True):
    """What an instruction computes from the values of its sources.

    `compute(algebra, *sources)` returns the result, or a tuple where there are several (the
    carry-out counts). It may use every operation of `Algebra` and nothing else.
    """

    inputs: tuple[int, ...]  # width of each source in bits, or AS_IS
    results: tuple[int, ...]  # width of each destination in bits
    compute: Callable[..., Any]
    signed: bool = False  # a wider destination is filled with copies of the sign, else zeros
    reads_carry: bool = False  # the carry comes as the last argument of `compute`
    writes_carry: bool = False  # the last result of `compute` is the carry
    single: bool = False  # literals are single precision: wider ones are doubles to be rounded
    pair: Meaning | None = None  # the meaning where the destination is `p|q`

    def run(
        self,
        algebra: Algebra[V],
        sources: Sequence[V | int],
        widths: Sequence[int],
        carry: V | None = None,
    ) -> tuple[V, ...]:
        """The values written, one per destination element, the carry-out (1 bit) last.

        Vector operands come flattened. `widths` are those of the destination registers, 0 for a
        sink. Raises ValueError where the numbers of operands are not the instruction's.
        """
        inputs, results = self.inputs, self.results
        if len(widths) != len(results) or len(sources) != len(inputs):
            if self.pair is not None and len(widths) == len(self.pair.results):
                return self.pair.run(algebra, sources, widths, carry)
            raise ValueError(f"{len(widths)} destinations and {len(sources)} sources")
        values: list[Any] = [
            source
            if not width or (not isinstance(source, int) and algebra.width(source) == width)
            else self.fit(algebra, source, width)
            for source, width in zip(sources, inputs, strict=True)
        ]
        if self.reads_carry:
            assert carry is not None
            values.append(carry)
        out = self.compute(algebra, *values)
        if len(results) > 1 or self.writes_carry:
            return _spread(algebra, out, results, widths, self.signed)
        width = widths[0]
        if width and width != results[0]:
            out = widen(algebra, out, results[0], width, self.signed)
        return (out,)

    def fit(self, algebra: Algebra[V], source: V | int, width: int) -> V:
        """A source as a value of the width the instruction reads."""
        if isinstance(source, int):
            # `1.5` without a prefix is a double (manual 4.5.2), here given by its 64 bits; `0f…`
            # has no more than 32. Doubles below 2^-1042, whose upper half is 0, pass for singles:
            # ptxas makes 0 of them in a single's place.
            if self.single and source >> 32 > 0:
                source = single_bits(source)
            return algebra.const(source & ((1 << width) - 1), width)
        given = algebra.width(source)
        if given == width:
            return source
        if given > width:
            return algebra.extract(source, 0, width)
        return algebra.zext(source, width)


def single_bits(double_bits: int) -> int:
    """The bits of the single nearest to a double that is given by its bits."""
    (value,) = struct.unpack("<d", struct.pack("<Q", double_bits & (2**64 - 1)))
    try:
        packed = struct.pack("<f", value)
    except OverflowError:
        # `struct` refuses what rounds to more than the greatest single.
        packed = struct.pack("<f", float("-inf") if value < 0 else float("inf"))
    return int.from_bytes(packed, "little")


def widen(algebra: Algebra[V], value: V, have: int, want: int, signed: bool) -> V:
    """A result as the register of another width holds it."""
    if want < have:
        return algebra.extract(value, 0, want)
    return algebra.sext(value, want) if signed else algebra.zext(value, want)


def _spread(
    algebra: Algebra[V],
    values: tuple[V, ...],
    results: tuple[int, ...],
    widths: Sequence[int],
    signed: bool,
) -> tuple[V, ...]:
    out = [
        value if want in (0, have) else widen(algebra, value, have, want, signed)
        for value, have, want in zip(values, results, widths, strict=False)
    ]
    return (*out, *values[len(results) :])


Builder = Callable[[Modifiers], Meaning]
_BUILDERS: dict[str, dict[str, Builder]] = {}


def semantics(opcode: str, section: str) -> Callable[[Builder], Builder]:
    """Registers the builder of an opcode under its section of the PTX ISA 9.0 manual."""

    def register(builder: Builder) -> Builder:
        sections = _BUILDERS.setdefault(opcode, {})
        assert section not in sections, f"{opcode} has two meanings in section {section}"
        sections[section] = builder
        return builder

    return register


def opcodes() -> tuple[str, ...]:
    """All opcodes that have a meaning in some form."""
    return tuple(sorted(_BUILDERS))


def candidates(opcode: str, modifiers: Sequence[str]) -> list[tuple[str, Meaning]]:
    """Every section's answer to an instruction. More than one would be an error in our table."""
    rows = []
    # A builder that leaves a modifier over does not know the form: nothing is ignored silently.
    for section, builder in _BUILDERS.get(opcode, {}).items():
        reader = Modifiers(modifiers)
        try:
            built = builder(reader)
            reader.end()
        except NoForm:
            continue
        rows.append((section, built))
    return rows


@cache
def meaning(opcode: str, modifiers: tuple[str, ...]) -> Meaning | None:
    """What an instruction computes. None: we do not know, the caller forgets its destinations."""
    rows = candidates(opcode, modifiers)
    assert len(rows) <= 1, (opcode, modifiers, [section for section, _ in rows])
    return rows[0][1] if rows else None
