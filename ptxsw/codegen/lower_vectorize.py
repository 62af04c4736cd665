"""Adjacent accesses of one thread as one vector access; `rewrites/vectorize.py` has the lines
before and after."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ptxsw.change import Change, Line
from ptxsw.codegen.builder import Builder, written
from ptxsw.ir import Float, Instruction, Mem, Reg, type_width


@dataclass(frozen=True, slots=True)
class WideAccess:
    """The accesses `members`, in the order of their addresses, become one vector at the place of
    member `at`: the first load, or the last store. `offset` is added to the address of that one
    (bytes). Its alignment is known, or tested: the sum of `parameters` has to be a multiple of
    the vector's size."""

    members: tuple[int, ...]
    at: int
    offset: int
    size: int  # bytes of the vector
    parameters: tuple[str, ...] = ()

    def facts(self, line: Line) -> Mapping[str, Any]:
        """What a report says of it."""
        lines = sorted(line(member) for member in self.members)
        return {"lines": lines, "bytes": self.size}


@dataclass
class _Writer:
    builder: Builder
    tested: dict[tuple[tuple[str, ...], int], str] = field(default_factory=dict)
    tail: list[str] = field(default_factory=list)  # lines behind the body's last instruction

    def write(self, wide: WideAccess) -> None:
        """One vector, and where it may be misaligned the single accesses behind the body's end."""
        builder = self.builder
        first = builder.instructions[wide.at]
        width = held_width(builder, first)
        names = [builder.register("element", f"b{width}") for _ in wide.members]
        vector, singles = self._accesses(wide, first, names)
        loads = first.opcode == "ld"
        for name, member in zip(names, wide.members, strict=True):
            copy = _copy(builder.instructions[member], name, width)
            if member != wide.at:
                builder.replace(member, copy)
            elif loads:
                builder.lines.put_after(member, copy)
            else:
                builder.before(member, copy)
        if not wide.parameters:
            builder.replace(wide.at, vector)
            return
        misaligned = self._test(wide)
        slow, done = builder.names.label("narrow"), builder.names.label("wide")
        builder.replace(wide.at, f"@{misaligned} bra {slow};", vector, f"{done}:")
        self.tail += [f"{slow}:", *singles, f"bra {done};"]

    def _accesses(
        self, wide: WideAccess, first: Instruction, names: list[str]
    ) -> tuple[str, list[str]]:
        """The vector access, and one for each element."""
        *before, kind = (first.opcode, *first.modifiers)
        opcode = ".".join((*before, f"v{len(names)}", kind))
        step = wide.size // len(names)
        values = f"{{{', '.join(names)}}}"
        addresses = [_address(first, wide.offset + step * n) for n in range(len(names))]
        if first.opcode == "ld":
            singles = [f"{first.name} {n}, {a};" for n, a in zip(names, addresses, strict=True)]
            return f"{opcode} {values}, {addresses[0]};", singles
        singles = [f"{first.name} {a}, {n};" for n, a in zip(names, addresses, strict=True)]
        return f"{opcode} {addresses[0]}, {values};", singles

    def _test(self, wide: WideAccess) -> str:
        """The predicate, the same for all threads, that the vectors on these parameters would be
        misaligned. It is computed once, where the body begins."""
        key = (wide.parameters, wide.size)
        name = self.tested.get(key)
        if name is None:
            builder = self.builder
            name = self.tested[key] = builder.register("misaligned", "pred")
            total = builder.register("base", "b64")
            builder.at_entry(f"ld.param.u64 {total}, [{wide.parameters[0]}];")
            for parameter in wide.parameters[1:]:
                other = builder.register("base", "b64")
                builder.at_entry(f"ld.param.u64 {other}, [{parameter}];")
                builder.at_entry(f"add.s64 {total}, {total}, {other};")
            low = builder.register("rest", "b64")
            builder.at_entry(f"and.b64 {low}, {total}, {wide.size - 1};")
            builder.at_entry(f"setp.ne.s64 {name}, {low}, 0;")
        return name


def lower(builder: Builder, changes: Iterable[Change]) -> None:
    """Write all changes."""
    writer = _Writer(builder)
    for change in changes:
        assert isinstance(change.detail, WideAccess)
        writer.write(change.detail)
    builder.at_end(*writer.tail)


def held_width(builder: Builder, access: Instruction) -> int:
    """The width in bits of the register that holds an element, which may be wider than the element
    (manual 9.7.9.8); of a literal the narrowest that holds it."""
    operand = access.operands[0 if access.opcode == "ld" else 1]
    if isinstance(operand, Reg):
        return builder.width(operand)
    return max(16, type_width(access.modifiers[-1]))


def _copy(access: Instruction, name: str, width: int) -> str:
    """Between an element's register and the operand of the access that it replaces."""
    if access.opcode == "ld":
        return f"mov.b{width} {written(access.operands[0])}, {name};"
    value = access.operands[1]
    if isinstance(value, Reg):
        return f"mov.b{width} {name}, {written(value)};"
    kind = access.modifiers[-1]
    letter = "f" if isinstance(value, Float) and kind[0] == "f" else "b"
    return f"mov.{letter}{width} {name}, {written(value)};"


def _address(instruction: Instruction, offset: int) -> str:
    address = next(o for o in instruction.operands if isinstance(o, Mem))
    total = address.offset + offset
    base = getattr(address.base, "name", None) or written(address.base)
    return f"[{base}{f'+{total}' if total else ''}]"
