"""Which pipelines the instructions of a kernel keep busy, and how long a warp waits for them.

Where there is machine code (`sass`), it is counted: each of its instructions is executed as often
as the block of PTX it was made from, over its copies (`executions`). Where there is none, PTX
instructions stand for it, by the rules below. They are bounds: of what ptxas usually folds away
(moves, conversions of address spaces, parameters) the least is nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from ptxsw.cost.account import Interval, exactly
from ptxsw.cost.executions import Placement, executed
from ptxsw.cost.gpu import Gpu
from ptxsw.cost.machine_code import MachineKernel
from ptxsw.flow.cfg import Cfg
from ptxsw.flow.dataflow import defs, uses
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Instruction, Reg, type_width

_FOLDED: Final = frozenset({"mov", "cvta", "selp"})  # often no instruction of its own
_SPECIAL: Final = frozenset({"rcp", "sqrt", "rsqrt", "sin", "cos", "ex2", "lg2", "tanh"})
_FLOAT: Final = frozenset({"f32", "f16", "bf16", "f16x2", "bf16x2"})
_PRODUCTS: Final = frozenset({"mul", "mad", "mul24", "mad24", "dp2a", "dp4a"})
_MEMORY: Final = frozenset({"ld", "ldu", "st", "atom", "red", "cp", "ldmatrix", "stmatrix", "shfl"})
_CONTROL: Final = frozenset({"bra", "brx", "call", "ret", "exit", "bar", "barrier"})
# Division and correctly rounded roots are routines: two reciprocals' worth of special functions and
# some ten steps, by what ptxas makes of div.rn.f32 (sm_75 to sm_120, its way without a branch).
_ROUTINE: Final = Interval(4, 14)
# Divisions of integers, by what ptxas 13.0 makes of them for sm_80 and sm_90. That of 64 bits asks
# first whether 32 will do, and else calls a routine.
_DIVISION: Final = {"fma": Interval(5, 10), "alu": Interval(9, 11), "xu": exactly(3)}
_WIDE_DIVISION: Final = {
    "fma": Interval(5, 36), "alu": Interval(9, 32), "xu": exactly(3), "cbu": Interval(2, 6),
}  # fmt: skip
_TENSOR: Final = Interval(1, 16)  # steps of a product of matrices, by its shape
# Of double precision, its way without a branch: steps of Newton's method behind MUFU.RCP64H, then
# the quotient and its correction (div), by what ptxas makes of them for sm_75.
_DOUBLE: Final = {"rcp": 5, "div": 8, "rsqrt": 5, "sqrt": 8}


class Mix(Struct, frozen=True):
    """Warp instructions: all, and by pipeline."""

    instructions: Interval
    pipes: Mapping[str, Interval]


def of_machine_code(
    kernel: MachineKernel,
    placed: Sequence[Placement],
    times: Sequence[float] | Mapping[int, float],
    inlined: Mapping[int, float] | None = None,
) -> Mix:
    """`times` says how often warps execute each block of the kernel's PTX, `placed` with which of
    them machine instructions are executed; `inlined`, how often PTX instructions of other functions
    are, by their places in the text."""
    counts: dict[str, float] = {}
    everything = 0.0
    others = inlined or {}
    for instruction, placement in zip(kernel.instructions, placed, strict=True):
        often = others.get(instruction.ptx or -1)
        if often is None:
            often = executed(placement, times)
        everything += often
        counts[instruction.pipe] = counts.get(instruction.pipe, 0.0) + often
    return Mix(exactly(everything), {pipe: exactly(often) for pipe, often in counts.items()})


def of_ptx(instructions: Sequence[Instruction], executed: Sequence[float]) -> Mix:
    """By PTX instructions alone, executed so often by warps."""
    low: dict[str, float] = {}
    high: dict[str, float] = {}
    for instruction, times in zip(instructions, executed, strict=True):
        if times:
            for pipe, count in cost(instruction).items():
                low[pipe] = low.get(pipe, 0.0) + times * count.low
                high[pipe] = high.get(pipe, 0.0) + times * count.high
    pipes = {pipe: Interval(low[pipe], high[pipe]) for pipe in high}
    return Mix(Interval(sum(low.values()), sum(high.values())), pipes)


def cost(instruction: Instruction) -> Mapping[str, Interval]:
    """Machine instructions by pipeline that ptxas makes of a PTX instruction, at least and at
    most."""
    opcode, modifiers = instruction.opcode, instruction.modifiers
    if isa.has(instruction, isa.Trait.TENSOR):
        return {"tensor": _TENSOR}
    space = isa.space(instruction)
    if opcode in _MEMORY and space not in ("param", "const"):
        return {"lsu": exactly(1)}
    if opcode in _FOLDED or space in ("param", "const"):
        return {"alu": Interval(0, 1)}
    if opcode in _CONTROL:
        return {"cbu": Interval(0.5, 1)}
    wide = max((type_width(m) for m in modifiers), default=32) > 32
    if "f64" in modifiers:
        if opcode == "cvt":  # at the rate of the slower one, by the table of throughputs
            return {"fp64": exactly(1), "xu": exactly(1)}
        if opcode in _DOUBLE:
            return {"fp64": exactly(_DOUBLE[opcode]), "xu": exactly(1)}
        return {"fp64": exactly(1)}
    if opcode in ("div", "rem") and not _FLOAT & set(modifiers):
        return _WIDE_DIVISION if wide else _DIVISION
    if opcode == "div" or (opcode == "sqrt" and "rn" in modifiers):
        return {"fma": _ROUTINE, "xu": exactly(1)}
    if opcode in _SPECIAL or opcode == "cvt":
        return {"xu": Interval(0, 1) if opcode == "cvt" else exactly(1), "alu": Interval(0, 1)}
    if not _FLOAT.isdisjoint(modifiers) and opcode != "setp":
        return {"fma": exactly(1)}
    if opcode in _PRODUCTS:
        # One that widens and the sum behind it are one IMAD.WIDE; low halves of 64 bits are three.
        return {"fma": Interval(0, 3) if wide and "wide" not in modifiers else Interval(0.5, 1)}
    return {"alu": Interval(0.5, 2) if wide else Interval(0.5, 1)}


# ---------------------------------------------------------------- waiting

Latency = Callable[[int, Instruction], Interval]
"""Cycles from an instruction (by its number) until its result can be used."""


def latencies(gpu: Gpu, loads: Callable[[int], Interval]) -> Latency:
    """Those of a GPU; `loads` gives that of a global load."""
    alu, fp64, shared = gpu.of("alu_latency"), gpu.of("fp64_latency"), gpu.of("shared_latency")

    def of(index: int, instruction: Instruction) -> Interval:
        space = isa.space(instruction)
        if instruction.opcode in ("ld", "ldu", "atom"):
            if space in ("global", "generic", "local"):
                return loads(index)
            return shared if space == "shared" else Interval(0, alu.high)
        if instruction.opcode == "shfl":
            return shared
        if instruction.opcode in _FOLDED:
            return Interval(0, alu.high)
        longest = 1.0
        steps = cost(instruction)
        if "fp64" in steps:
            return fp64 * max(1.0, steps["fp64"].low)
        if "fma" in steps:
            longest = max(1.0, steps["fma"].low)
        return alu * longest

    return of


def critical_path(cfg: Cfg, block: int, latency: Latency) -> Interval:
    """Cycles from the entry of a block until its last result, with nothing but dependences in the
    way: ptxas orders a block so that loads are issued together."""
    low: dict[Reg, float] = {}
    high: dict[Reg, float] = {}
    longest = Interval(0.0, 0.0)
    start, end = cfg.blocks[block].start, cfg.blocks[block].end
    for index in range(start, end):
        instruction = cfg.instructions[index]
        sources = [reg for reg in uses(instruction) if isinstance(reg, Reg)]
        cycles = latency(index, instruction)
        done = Interval(
            max((low.get(r, 0.0) for r in sources), default=0.0) + cycles.low,
            max((high.get(r, 0.0) for r in sources), default=0.0) + cycles.high,
        )
        for reg in defs(instruction):
            low[reg], high[reg] = done.low, done.high
        longest = Interval(max(longest.low, done.low), max(longest.high, done.high))
    return longest
