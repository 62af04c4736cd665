"""A function of a running program: its operations, registers, and the layout of its frame."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct, field

from ptxsw.flow.cfg import Cfg
from ptxsw.flow.dataflow import CARRY
from ptxsw.ptx.errors import Unsupported
from ptxsw.ptx.ir import Function, Instruction, Reg, Symbol, Variable, components, type_width
from ptxsw.ptx.source import Source
from ptxsw.simt.lanes import dtype_of
from ptxsw.simt.memory import LOCAL


def size_of(variable: Variable) -> int:
    """Bytes of a variable, where an opaque one (a texture) takes one; 0 for an open array."""
    count = variable.vector
    for dim in variable.dims:
        count *= dim or 0
    return max(type_width(variable.type) // 8, 1) * count


def align_of(variable: Variable) -> int:
    """Bytes."""
    natural = max(type_width(variable.type) // 8, 1) * variable.vector
    return max(variable.align or 1, natural)


class Code(Struct, eq=False):
    """A function ready to run in one program. `find` gives the addresses of the program's symbols
    as a function sees them, and raises ValueError where there is none."""

    function: Function
    source: Source
    find: Callable[[str, Function], int]
    cfg: Cfg
    variables: tuple[Variable, ...] = ()  # of the module
    ops: list[Callable[..., int | None]] = field(default_factory=list)
    slots: dict[Reg, int] = field(default_factory=dict)
    widths: list[int] = field(default_factory=list)
    dtypes: list[Any] = field(default_factory=list)
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)  # in a frame
    size: int = 0  # bytes of a frame
    labels: dict[tuple[str, int], int] = field(default_factory=dict)  # by name and scope
    joins: dict[int, int] = field(default_factory=dict)  # branch to where its sides meet
    threads: list[int] = field(default_factory=list)  # instructions done, counted by thread
    warps: list[int] = field(default_factory=list)  # and by warp
    sides: list[int] = field(default_factory=list)  # of each guard: 1 it held, 2 it did not, 3 both

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        return self.cfg.instructions

    def slot(self, reg: Reg) -> int:
        """The number of a register."""
        slot = self.slots.get(reg)
        if slot is None:
            width = 1 if reg is CARRY else self.function.body.width(reg)
            if width == 0:
                raise Unsupported(
                    f"register {reg.name} is not declared",
                    self.source,
                    self.function.span,
                )
            slot = self.slots[reg] = len(self.widths)
            self.widths.append(width)
            self.dtypes.append(dtype_of(width))
        return slot

    def refuse(self, pc: int, why: str) -> Unsupported:
        """An error at an instruction."""
        return Unsupported(why, self.source, self.instructions[pc].span)

    def place(self, variable: Variable) -> None:
        """Gives a variable, or each of a family such as `%P<2>`, its place in the frame."""
        align = align_of(variable)
        names = [variable.name]
        if variable.count is not None:
            names = [f"{variable.name}{number}" for number in range(variable.count)]
        for name in names:
            self.size = -(-self.size // align) * align
            self.offsets[name, variable.scope] = self.size
            self.size += max(size_of(variable), 1)

    def address(self, symbol: Symbol) -> tuple[int, bool]:
        """The address of a symbol, and whether it counts from the base of the frame."""
        offset = self.offsets.get((symbol.name, symbol.scope))
        if offset is not None:
            return LOCAL + offset + symbol.offset, True
        return self.find(symbol.name, self.function) + symbol.offset, False


def header_variables(variables: Iterable[Variable]) -> list[Variable]:
    """Results or parameters of a function, those in vector registers taken apart."""
    declared: list[Variable] = []
    for variable in variables:
        if variable.space == "reg" and variable.vector > 1:
            names = components(variable.name, variable.vector)
            declared += [variable._replace(name=name, vector=1) for name in names]
        else:
            declared.append(variable)
    return declared
