"""A body in which variables of local and parameter space are registers, as far as they can be.

    st.local.u32 [%SP+8], %r1;        mov.b32 depot[8], %r1;
    ld.local.u32 %r2, [%SP+8];        mov.b32 %r2, depot[8];

Of a variable whose address goes nowhere but into loads and stores, each range of bytes is a
register that all accesses touch as a whole; a load may also take its lowest bytes. What lies
outside of the variable, or is misaligned, stays as it is, and so does all of that variable.
Instructions keep the places that they have in the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from msgspec.structs import replace

from ptxsw.flow.cfg import Cfg, build
from ptxsw.ptx import isa
from ptxsw.ptx.ir import (
    Body,
    Instruction,
    Int,
    Mem,
    Operand,
    Reg,
    Sink,
    Statement,
    Symbol,
    Variable,
    Vec,
    leaves,
    type_width,
)

_OWN = frozenset({"local", "param"})
_PLAIN = frozenset({"local", "param", "v2", "v4", "v8"})
_WIDTHS = frozenset({8, 16, 32, 64})
_ROUNDS = 4
"""A pointer to a variable may lie in another one, which has to be a register first."""

Key = tuple[str, int]
"""A variable by its name and scope."""


class SlotAddress(NamedTuple):
    """Bytes behind the beginning of a variable; `generic`, if the address is that among all
    spaces."""

    variable: Key
    offset: int
    generic: bool = False


class SlotRange(NamedTuple):
    """What an access touches of a variable: `width` bits from a byte on."""

    variable: Key
    offset: int
    width: int

    def overlaps(self, other: SlotRange) -> bool:
        return (
            self.offset * 8 < other.offset * 8 + other.width
            and other.offset * 8 < self.offset * 8 + self.width
        )


def promoted(body: Body) -> Body:
    """The body with registers for variables; itself where there is nothing to do."""
    for _ in range(_ROUNDS):
        slots = _Slots(body).slots if any(v.space in _OWN for v in body.variables) else {}
        if not slots:
            break
        body = _rewritten(body, slots)
    return body


class _Access(NamedTuple):
    ranges: tuple[SlotRange, ...]
    writes: bool


class _Slots:
    """The ranges of a body's variables that can be registers."""

    def __init__(self, body: Body) -> None:
        self._cfg: Cfg = build(body)
        self._variables = {(v.name, v.scope): v for v in body.variables if v.space in _OWN}
        self._places: dict[Reg, SlotAddress | None] = {}
        self._kept: set[Key] = set()  # variables whose addresses go elsewhere
        self._accesses: dict[int, _Access] = {}
        for index in self._cfg.indices(self._cfg.order):
            self._look(index)
        good = self._good()
        self.slots: Mapping[int, _Access] = {
            index: access
            for index, access in self._accesses.items()
            if all(r in good for r in access.ranges)
        }
        """By instruction: the registers that it reads or writes."""

    def _look(self, index: int) -> None:
        """Note what an instruction does with the variables that it names."""
        instruction = self._cfg.instructions[index]
        access = self._access(index)
        if access is not None:
            self._accesses[index] = access
        elsewhere = instruction.operands
        if access is not None:
            elsewhere = elsewhere[1:] if access.writes else elsewhere[:1]
        else:
            computed, target = self._computes(instruction), instruction.operands[:1]
            if computed is not None and self._place(*target) == computed:
                return
        for leaf in leaves(elsewhere):
            place = self._place(leaf)
            if place is not None:
                self._kept.add(place.variable)

    def _access(self, index: int) -> _Access | None:
        """A plain load or store of whole elements inside of a variable."""
        instruction = self._cfg.instructions[index]
        opcode, modifiers, operands = (
            instruction.opcode,
            instruction.modifiers,
            instruction.operands,
        )
        if opcode not in ("ld", "st") or len(operands) != 2 or not {*modifiers[:-1]} <= _PLAIN:
            return None
        memory, value = operands if opcode == "st" else operands[::-1]
        place = self._place(memory.base) if isinstance(memory, Mem) else None
        if place is None or not isinstance(memory, Mem) or memory.extra:
            return None
        elements = value.elements if isinstance(value, Vec) else (value,)
        width = type_width(isa.access_type(instruction) or "")
        variable, start = self._variables[place.variable], place.offset + memory.offset
        size = width // 8 * len(elements)
        named = modifiers[0] if modifiers[0] in _OWN else ""
        there = named == ("" if place.generic else variable.space)
        inside = start >= 0 and start + size <= variable.size and there
        aligned = size and start % size == 0 and (variable.align or _natural(variable)) % size == 0
        if width not in _WIDTHS or not (inside and aligned) or variable.initialised:
            return None
        ranges = (
            SlotRange(place.variable, start + at * width // 8, width) for at in range(len(elements))
        )
        return _Access(tuple(ranges), opcode == "st")

    def _place(self, operand: Operand) -> SlotAddress | None:
        """The place whose address an operand is."""
        match operand:
            case Symbol(name, offset, scope):
                return (
                    SlotAddress((name, scope), offset) if (name, scope) in self._variables else None
                )
            case Reg():
                return self._held(operand)
        return None

    def _held(self, reg: Reg) -> SlotAddress | None:
        """The address that a register holds wherever it is read."""
        if reg not in self._places:
            self._places[reg] = None  # of one that is made of itself
            writer = self._cfg.sole_writers.get(reg)
            if writer is not None:
                place = self._computes(self._cfg.instructions[writer])
                if place is not None and not self._comes_first(writer, reg):
                    self._kept.add(place.variable)
                    place = None
                self._places[reg] = place
        return self._places[reg]

    def _comes_first(self, writer: int, reg: Reg) -> bool:
        """Is a register written on all ways to where it is read?"""
        cfg, above = self._cfg, self._cfg.block_of[writer]
        return above in cfg.rank and all(
            index > writer
            if cfg.block_of[index] == above
            else cfg.dominates(above, cfg.block_of[index])
            for index in self._readers.get(reg, ())
        )

    @cached_property
    def _readers(self) -> Mapping[Reg, list[int]]:
        readers: dict[Reg, list[int]] = {}
        for index in self._cfg.indices(self._cfg.order):
            for reg in self._cfg.read[index]:
                readers.setdefault(reg, []).append(index)
        return readers

    def _computes(self, instruction: Instruction) -> SlotAddress | None:
        """The address that an instruction computes, if all it does is that."""
        opcode, operands = instruction.opcode, instruction.operands
        if instruction.guard is not None or not operands or type(operands[0]) is not Reg:
            return None
        if opcode not in ("mov", "cvta", "add") or len(operands) < 2:
            return None
        place = self._place(operands[1])
        if place is None:
            return None
        if opcode == "mov" and len(operands) == 2:
            return place
        if opcode == "cvta" and self._variables[place.variable].space in instruction.modifiers:
            to_generic = "to" not in instruction.modifiers
            return place._replace(generic=to_generic) if to_generic != place.generic else None
        if opcode == "add" and len(operands) == 3 and isinstance(operands[2], Int):
            return place._replace(offset=place.offset + operands[2].value)
        return None

    # ------------------------------------------------------------ ranges

    def _good(self) -> frozenset[SlotRange]:
        """The ranges that are registers: those of which no other one touches a part."""
        stores = {r for a in self._accesses.values() if a.writes for r in a.ranges}
        every = {r for a in self._accesses.values() for r in a.ranges}
        good = {r for r in every if r.variable not in self._kept}
        by_variable: dict[Key, list[SlotRange]] = {}
        for one in every:
            by_variable.setdefault(one.variable, []).append(one)

        def stays(one: SlotRange) -> bool:
            others = (o for o in by_variable[one.variable] if o != one and o.overlaps(one))
            return all(o in good and _of_one_register(o, one, stores) for o in others)

        changed = True
        while changed:
            bad = {r for r in good if not stays(r)}
            for access in self._accesses.values():
                if not all(r in good and r not in bad for r in access.ranges):
                    bad.update(good.intersection(access.ranges))
            good -= bad
            changed = bool(bad)
        return frozenset(good)


def _of_one_register(a: SlotRange, b: SlotRange, stores: set[SlotRange]) -> bool:
    """Do two ranges that overlap begin alike, so that the shorter one, which is only read, is the
    low part of the longer?"""
    shorter = min(a, b, key=lambda r: r.width)
    return a.offset == b.offset and shorter not in stores


def _natural(variable: Variable) -> int:
    return max(1, type_width(variable.type) * variable.vector // 8)


# ---------------------------------------------------------------- rewriting


def _rewritten(body: Body, slots: Mapping[int, _Access]) -> Body:
    widths: dict[SlotAddress, int] = {}
    for access in slots.values():
        for one in access.ranges:
            place = SlotAddress(one.variable, one.offset)
            widths[place] = max(widths.get(place, 0), one.width)
    registers: dict[Key, list[SlotAddress]] = {}
    for place in widths:
        registers.setdefault(place.variable, []).append(place)
    statements: list[Statement] = []
    index = 0
    for statement in body.statements:
        if isinstance(statement, Variable):
            own = registers.get((statement.name, statement.scope), ())
            statements += (_register(statement, place, widths[place]) for place in own)
        if not isinstance(statement, Instruction):
            statements.append(statement)
            continue
        if index in slots:
            statements += _moves(body, statement, slots[index], widths)
        else:
            statements.append(statement)
        index += 1
    return replace(body, statements=tuple(statements))


def _register(variable: Variable, place: SlotAddress, width: int) -> Variable:
    return Variable("reg", f"b{width}", _name(place), variable.span, scope=variable.scope)


def _name(place: SlotAddress) -> str:
    return f"{place.variable[0]}[{place.offset}]"


def _moves(
    body: Body, instruction: Instruction, access: _Access, widths: Mapping[SlotAddress, int]
) -> Iterator[Instruction]:
    value = instruction.operands[1 if access.writes else 0]
    elements = value.elements if isinstance(value, Vec) else (value,)
    kind = isa.access_type(instruction) or ""
    for one, element in zip(access.ranges, elements, strict=True):
        place = SlotAddress(one.variable, one.offset)
        slot, width = Reg(_name(place), one.variable[1]), widths[place]
        held = body.width(element) if isinstance(element, Reg) else 0
        if isinstance(element, Sink):
            continue
        if access.writes:
            yield _move(instruction, slot, width, element, held or width, "u")
        else:
            yield _move(instruction, element, held, slot, min(one.width, width), kind[0])


def _move(
    at: Instruction, target: Operand, width: int, source: Operand, given: int, sign: str
) -> Instruction:
    """Moves the lowest `given` bits of a value into a register of `width` bits."""
    sign = "s" if sign == "s" else "u"
    whole = width == given and width > 8
    words: tuple[str, ...] = (f"b{width}",) if whole else (f"{sign}{width}", f"{sign}{given}")
    opcode = "mov" if whole else "cvt"
    return Instruction(opcode, words, (target, source), at.guard, at.start, at.end)
