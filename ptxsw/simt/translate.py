"""A function made ready to run: one Python closure per instruction.

A closure gets the machine and a fragment, and returns the place of the next instruction where it
is not the following one, or DONE where the fragment as such has ended (parted, waits, returned).
Handlers for what is not mere arithmetic register themselves by opcode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np

from ptxsw.flow.cfg import build
from ptxsw.flow.dataflow import CARRY
from ptxsw.ptx.ir import (
    Float,
    Function,
    Instruction,
    Int,
    Label,
    Not,
    Operand,
    Reg,
    Sink,
    Special,
    Statement,
    Sum,
    Symbol,
    flatten,
    leaves,
)
from ptxsw.semantics import Meaning, meaning
from ptxsw.simt.chunk import Chunk
from ptxsw.simt.code import Code, header_variables
from ptxsw.simt.lanes import Bits, Lanes
from ptxsw.simt.machine import Machine
from ptxsw.simt.program import Program
from ptxsw.simt.state import Array, Fragment, Frame, Index, Poison, any_poison

DONE = -1
Op = Callable[[Machine, Fragment], int | None]
Read = Callable[[Chunk, Frame, slice | Index], tuple[Any, Poison]]
"""Gives a value (`Bits`, or an `int` for a literal) and what of it is undefined."""
Handler = Callable[[Code, Instruction, int], Op]
Spread = Callable[[list[Any], list[Poison]], list[Poison]]
"""From the values of sources and what of them is undefined to what is undefined of each result."""
_HANDLERS: dict[str, tuple[Handler, bool]] = {}
LANES = Lanes()
_DEFINED: tuple[Poison, ...] = (None,) * 16


def handles(*opcodes: str, guarded: bool = False) -> Callable[[Handler], Handler]:
    """Registers what makes the closures of some opcodes; `guarded`: it sees to guards itself."""

    def register(handler: Handler) -> Handler:
        for opcode in opcodes:
            assert opcode not in _HANDLERS, opcode
            _HANDLERS[opcode] = handler, guarded
        return handler

    return register


def read_operand(code: Code, operand: Operand) -> Read:
    """How the value of an operand is found."""
    match operand:
        case Reg():
            return _read_register(code.slot(operand))
        case Int(value=value):
            return lambda chunk, frame, sel: (value, None)
        case Float(bits=bits):
            return lambda chunk, frame, sel: (bits, None)
        case Special(name=name):
            return lambda chunk, frame, sel: (chunk.special(name, sel), None)
        case Symbol():
            return _read_symbol(code, operand)
        case Not(operand=inner):
            return _read_not(read_operand(code, inner))
        case Sum(base=base, offset=offset):
            return _read_sum(read_operand(code, base), offset)
        case _:
            raise ValueError(f"operand {operand}")


def _read_symbol(code: Code, symbol: Symbol) -> Read:
    address, in_frame = code.address(symbol)
    if not in_frame:
        constant = LANES.const(address, 64)
        return lambda chunk, frame, sel: (constant, None)
    return lambda chunk, frame, sel: (LANES.const(address + frame.base, 64), None)


def _read_register(slot: int) -> Read:
    def read(chunk: Chunk, frame: Frame, sel: slice | Index) -> tuple[Any, Poison]:
        array, poison = frame.values[slot], frame.poison[slot]
        width = frame.code.widths[slot]
        if array is None:
            return Bits(np.zeros(1, frame.code.dtypes[slot]), width), True
        if isinstance(poison, np.ndarray):
            chosen = poison[sel]
            poison = chosen if chosen.any() else None
        return Bits(array[sel], width), poison

    return read


def _read_not(inner: Read) -> Read:
    def read(chunk: Chunk, frame: Frame, sel: slice | Index) -> tuple[Any, Poison]:
        value, poison = inner(chunk, frame, sel)
        return LANES.not_(value), poison

    return read


def _read_sum(inner: Read, offset: int) -> Read:
    def read(chunk: Chunk, frame: Frame, sel: slice | Index) -> tuple[Any, Poison]:
        value, poison = inner(chunk, frame, sel)
        return LANES.add(value, LANES.const(offset % (1 << value.width), value.width)), poison

    return read


def destinations(code: Code, operand: Operand) -> list[int | None]:
    """Register numbers of a destination's elements; None for a sink."""
    out: list[int | None] = []
    for element in flatten((operand,)):
        if isinstance(element, Reg):
            out.append(code.slot(element))
        elif isinstance(element, Sink):
            out.append(None)
        else:
            raise ValueError(f"destination {element}")
    return out


def _selected(values: list[Any], poisons: list[Poison]) -> list[Poison]:
    """`selp` leaves the value it does not take alone, defined or not."""
    a, b, c = poisons
    chosen = np.where(values[2].array, a is not None and a, b is not None and b)
    return [chosen if c is None else any_poison(chosen, c)]


def _deciding(values: list[Any], poisons: list[Poison], truth: bool) -> list[Poison]:
    """A disjunction with a true side is true, a conjunction with a false side is false, whatever
    the other side is."""
    left, right = (False if mark is None else mark for mark in poisons)
    settled = [
        np.logical_and(value.array == truth, np.logical_not(mark))
        for value, mark in zip(values, (left, right), strict=True)
    ]
    return [np.logical_and(np.logical_or(left, right), np.logical_not(np.logical_or(*settled)))]


def _copied(values: list[Any], poisons: list[Poison]) -> list[Poison]:
    """Each result is one source."""
    return poisons


def _spread(instruction: Instruction, sources: int, results: int) -> Spread | None:
    """How what is undefined of the sources spreads to the results; None: to all of them."""
    if instruction.opcode == "selp" and (sources, results) == (3, 1):
        return _selected
    if instruction.opcode in ("and", "or") and instruction.modifiers == ("pred",):
        return partial(_deciding, truth=instruction.opcode == "or")
    return _copied if instruction.opcode == "mov" and sources == results else None


def arithmetic(code: Code, instruction: Instruction, built: Meaning) -> Op:
    """An instruction that computes registers from registers."""
    named = destinations(code, instruction.operands[0])
    widths = [0 if slot is None else code.widths[slot] for slot in named]
    slots = [*named, code.slot(CARRY)] if built.writes_carry else named
    carry = _read_register(code.slot(CARRY)) if built.reads_carry else None
    operands = list(flatten(instruction.operands[1:]))
    readers = [read_operand(code, operand) for operand in operands]
    fixed = len(readers) == len(built.inputs)
    for at, operand in enumerate(operands):
        if fixed and isinstance(operand, Int | Float) and built.inputs[at]:
            raw = operand.value if isinstance(operand, Int) else operand.bits
            readers[at] = _constant(built.fit(LANES, raw, built.inputs[at]))
    if carry is not None:
        readers.append(carry)
    defined = _DEFINED[: len(slots)]
    spread = _spread(instruction, len(readers), len(slots))

    def run(machine: Machine, fragment: Fragment) -> None:
        frame, sel = fragment.frame, fragment.sel
        values: list[Any] = []
        poisons: list[Poison] = []
        marks: Sequence[Poison] | None = defined
        for read in readers:
            value, undefined = read(machine, frame, sel)
            values.append(value)
            poisons.append(undefined)
            if undefined is not None:
                marks = None
        if marks is None and spread is not None:
            marks = spread(values, poisons)
        elif marks is None:
            marks = [reduce(any_poison, poisons)] * len(slots)
        flag = None if carry is None else values.pop()
        out = built.run(LANES, values, widths, flag)
        frame.write_all(slots, fragment, [value.array for value in out], marks)

    return run


def _constant(value: Bits) -> Read:
    return lambda chunk, frame, sel: (value, None)


def predicate(machine: Machine, fragment: Fragment, slot: int, negated: bool) -> Array:
    """The truth of a guard in each thread of a fragment, which must be defined."""
    frame = fragment.frame
    array, poison = frame.values[slot], frame.poison[slot]
    if array is None or poison is True:
        raise machine.poisoned(fragment, None, "decides what happens")
    undefined = poison[fragment.exact] if isinstance(poison, np.ndarray) else None
    if undefined is not None and undefined.any():
        raise machine.poisoned(fragment, undefined, "decides what happens")
    chosen: Array = array[fragment.exact]
    if negated:
        chosen = ~chosen
    held = int(np.count_nonzero(chosen))
    frame.code.sides[fragment.pc] |= (held > 0) | (held < fragment.count) << 1
    return chosen


def _guarded(code: Code, instruction: Instruction, op: Op, pc: int) -> Op:
    guard = instruction.guard
    assert guard is not None
    slot, negated = code.slot(guard.reg), guard.negated

    def run(machine: Machine, fragment: Fragment) -> int | None:
        chosen = predicate(machine, fragment, slot, negated)
        count = int(np.count_nonzero(chosen))
        code.threads[pc] -= fragment.count - count
        if count == 0:
            return None
        if count < fragment.count:
            fragment = fragment.part(fragment.idx[chosen])
        return op(machine, fragment)

    return run


def taking_part(
    machine: Machine, fragment: Fragment, code: Code, instruction: Instruction
) -> Index:
    """The threads of a fragment whose guard holds; for handlers that see to guards themselves."""
    guard = instruction.guard
    if guard is None:
        return fragment.idx
    chosen = predicate(machine, fragment, code.slot(guard.reg), guard.negated)
    return fragment.idx[chosen]


def _compile(code: Code, instruction: Instruction, pc: int) -> Op:
    guard = instruction.guard
    if guard is not None and code.widths[code.slot(guard.reg)] != 1:
        raise ValueError(f"its guard {guard.reg.name} is not a predicate")
    handler = _HANDLERS.get(instruction.opcode)
    if handler is not None:
        op = handler[0](code, instruction, pc)
        if instruction.guard is None or handler[1]:
            return op
        return _guarded(code, instruction, op, pc)
    built = meaning(instruction.opcode, instruction.modifiers)
    if built is None:
        return _refusal(code, pc, f"the interpreter does not know {instruction.name}")
    op = arithmetic(code, instruction, built)
    return op if instruction.guard is None else _guarded(code, instruction, op, pc)


def _refusal(code: Code, pc: int, why: str) -> Op:
    """Refused when it is reached: code that never runs does no harm."""

    def run(machine: Machine, fragment: Fragment) -> int | None:
        raise code.refuse(pc, why)

    return run


def translate(program: Program, function: Function) -> Code:
    """Makes a function ready to run. The handlers must have been imported."""
    body = function.body
    cfg = build(body)
    module = program.module
    code = Code(function, module.source, program.address, cfg, module.variables)
    kernel = function.kind == "entry"
    for variable in (*(() if kernel else (*function.returns, *function.params)), *body.variables):
        if variable.space in ("local", "param"):
            code.place(variable)
    code.size = -(-code.size // 16) * 16
    for reg in _registers(function):
        code.slot(reg)
    _find_labels(code, body.statements)
    for block in cfg.blocks:
        meet = cfg.ipdom.get(block.number, -1)
        if meet >= 0:
            code.joins[block.end - 1] = cfg.blocks[meet].start
    for pc, instruction in enumerate(cfg.instructions):
        try:
            code.ops.append(_compile(code, instruction, pc))
        except ValueError as error:
            code.ops.append(_refusal(code, pc, f"{instruction.name}: {error}"))
    count = len(cfg.instructions)
    code.threads, code.warps, code.sides = [0] * count, [0] * count, [0] * count
    return code


def _registers(function: Function) -> Iterator[Reg]:
    """The registers that are looked for while the function runs: those of its header, guards and
    calls. A frame has a place for each from the start, whether or not it is read and written."""
    for variable in header_variables((*function.returns, *function.params)):
        if variable.space == "reg":
            yield Reg(variable.name)
    for instruction in function.body.instructions:
        if instruction.guard is not None:
            yield instruction.guard.reg
        if instruction.opcode == "call":
            yield from (leaf for leaf in leaves(instruction.operands) if isinstance(leaf, Reg))


def _find_labels(code: Code, statements: tuple[Statement, ...]) -> None:
    at = 0
    for statement in statements:
        if isinstance(statement, Instruction):
            at += 1
        elif isinstance(statement, Label):
            code.labels[statement.name, statement.scope] = at


def translate_all(program: Program) -> None:
    """Makes the kernel of a program, and all functions that it may call, ready to run."""
    for name in program.used:
        if program.functions[name].body_span is not None:
            program.codes[name] = translate(program, program.functions[name])
