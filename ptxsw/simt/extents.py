"""Where the array ends that an address is in: of addresses that are made of one variable alone.

    mov.u32 %r1, tile;  mad.lo.s32 %r2, %tid, 4, %r1;  ld.shared.f32 %f1, [%r2+4];

The next variable lies right behind it, so that the window of the state space tells nothing.
Registers are followed through all instructions that write them, whatever their order.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from ptxsw.flow.cfg import Cfg
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Mem, Operand, Reg, Symbol, Variable, leaves
from ptxsw.simt.code import Code, size_of

_MEMO = "variables of registers"


class Extent(Struct, frozen=True):
    """A variable's name, where it begins and ends; `in_frame`: counted from the base of a frame."""

    name: str
    start: int
    end: int
    in_frame: bool


def extent_of(code: Code, operand: Operand) -> Extent | None:
    """Of the shared or local variable that an address is made of; None where it is not known."""
    if not isinstance(operand, Mem) or operand.extra:
        return None
    base = operand.base
    symbol = base if isinstance(base, Symbol) else (
        _variable(code.cfg, base) if isinstance(base, Reg) else None
    )  # fmt: skip
    size = None if symbol is None else _sizes(code).get(symbol.name)
    if symbol is None or not size:
        return None
    try:
        start, in_frame = code.address(Symbol(symbol.name, 0, symbol.scope))
    except ValueError:
        return None
    return Extent(symbol.name, start, start + size, in_frame)


def _sizes(code: Code) -> Mapping[str, int]:
    """Bytes of the shared and local variables that a function names, but for those whose size the
    launch says, and for names that are declared twice."""
    seen: dict[str, int] = {}
    memo = vars(code.cfg).setdefault(_MEMO, {})
    if "" in memo:
        return memo[""]  # type: ignore[no-any-return]
    for variable in (*code.variables, *code.function.body.variables):
        seen[variable.name] = 0 if variable.name in seen else _size(variable)
    memo[""] = seen
    return seen


def _size(variable: Variable) -> int:
    fixed = variable.space in ("shared", "local") and "extern" not in variable.linkage
    return size_of(variable) if fixed and variable.count is None else 0


def _variable(cfg: Cfg, reg: Reg) -> Symbol | None:
    """The only variable that a register is made of. Memory may hold the address of another one,
    if as many bits are loaded as an address has."""
    memo = vars(cfg).setdefault(_MEMO, {})
    if reg not in memo:
        memo[reg] = _followed(cfg, reg)
    return memo[reg]  # type: ignore[no-any-return]


def _followed(cfg: Cfg, start: Reg) -> Symbol | None:
    seen, work = {start}, [start]
    found: dict[str, Symbol] = {}
    while work:
        for index in cfg.writers.get(work.pop(), ()):
            instruction = cfg.instructions[index]
            if isa.row(instruction.opcode, instruction.modifiers) is None:
                return None
            opaque = instruction.opcode in ("call", "atom", "shfl", "mapa")
            if opaque or _may_load_address(cfg, index):
                return None
            if instruction.opcode in ("ld", "ldu"):
                continue
            for leaf in leaves(instruction.operands):
                if isinstance(leaf, Symbol):
                    found[leaf.name] = leaf
            guard = None if instruction.guard is None else instruction.guard.reg
            more = [r for r in cfg.read[index] if r not in seen and r != guard]
            seen.update(more)
            work += more
    return next(iter(found.values())) if len(found) == 1 else None


def _may_load_address(cfg: Cfg, index: int) -> bool:
    instruction = cfg.instructions[index]
    if instruction.opcode not in ("ld", "ldu"):
        return False
    return (isa.access_type(instruction) or "b64")[1:] not in ("8", "16", "32")
