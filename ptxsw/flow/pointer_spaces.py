"""Into which state space the registers of a kernel point, as generic addresses (gpucc, 3.2).

Every register starts as unvisited and only loses knowledge, so a pointer that a loop moves along
keeps its space: `p = p + 4` points where `p` points. A number added to a pointer leaves it in the
object it began in (manual 6.4.1.1); what is loaded from memory may be anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum, auto
from functools import partial

from ptxsw.flow.cfg import Cfg
from ptxsw.flow.dataflow import ForwardAnalysis
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Instruction, Int, Mem, Operand, Reg, Special, Symbol


class Points(Enum):
    """What a register holds. A `PARAMETER` of pointer size is a pointer that the caller gave, or
    a number."""

    NUMBER = auto()
    GLOBAL = auto()
    SHARED = auto()
    LOCAL = auto()
    CONST = auto()
    PARAMETER = auto()
    ANYTHING = auto()


_NAMED = {p.name.lower(): p for p in (Points.GLOBAL, Points.SHARED, Points.LOCAL, Points.CONST)}
_SUMS = frozenset({"add", "sub"})
_PRODUCTS = frozenset({"mul", "mul24", "mad24", "div", "rem"})
"""Opcodes whose results are no pointers, whatever they compute with."""
_COMPUTING = frozenset({
    "abs", "and", "bfe", "bfi", "clz", "cvt", "lop3", "max", "min", "mov", "neg", "not", "or",
    "popc", "prmt", "sad", "selp", "shf", "shl", "shr", "xor",
})  # fmt: skip
"""Opcodes that make numbers of numbers."""

State = dict[Reg, Points]
_WIDE = 64


class PointerSpaces:
    """What the registers of a kernel hold. `parameters` are the names of the kernel's; `size` is
    that of a pointer in bits."""

    def __init__(self, cfg: Cfg, parameters: frozenset[str], size: int = 64) -> None:
        self._cfg = cfg
        self._behind = partial(_behind, cfg, parameters, size)
        # By no method of this object, which would hold itself then.
        through = partial(_through, cfg, self._behind)
        self._blocks: ForwardAnalysis[State] = ForwardAnalysis(cfg, {}, through, _joined)
        self._last: tuple[int, State] = -1, {}

    def before(self, position: int) -> State:
        """What registers hold before an instruction. Those that are missing hold anything."""
        if position >= len(self._cfg.instructions):
            return {}
        block = self._cfg.blocks[self._cfg.block_of[position]]
        at, state = self._last
        if not block.start <= at <= position:  # else on from where the last question was
            at, state = block.start, self._blocks.at(block.number) or {}
        self._last = position, self._behind(range(at, position), state)
        return self._last[1]

    def at(self, position: int, register: object) -> Points:
        """What a register holds before an instruction."""
        if not isinstance(register, Reg):
            return Points.ANYTHING
        return self.before(position).get(register, Points.ANYTHING)


def _through(
    cfg: Cfg, behind: Callable[[range, State], State], number: int, entry: State
) -> Iterator[tuple[int, State]]:
    block = cfg.blocks[number]
    state = behind(range(block.start, block.end), entry)
    return ((successor, state) for successor in block.successors)


def _behind(cfg: Cfg, parameters: frozenset[str], size: int, indices: range, entry: State) -> State:
    """What registers hold behind some instructions of a block."""
    state = dict(entry)
    for index in indices:
        _step(cfg.instructions[index], cfg.written[index], state, parameters, size)
    return state


def _joined(a: State, b: State) -> State:
    """What holds on both paths. A register that one path has not written is undefined there."""
    both = ((reg, _either(points, b.get(reg, Points.ANYTHING))) for reg, points in a.items())
    return {reg: points for reg, points in both if points is not Points.ANYTHING}


_GIVEN = frozenset({Points.GLOBAL, Points.PARAMETER})


def _either(a: Points, b: Points) -> Points:
    """A pointer to global memory or a parameter is at most what a parameter may be."""
    if a is b:
        return a
    return Points.PARAMETER if {a, b} == _GIVEN else Points.ANYTHING


def _step(
    instruction: Instruction,
    written: tuple[Reg, ...],
    state: State,
    parameters: frozenset[str],
    size: int,
) -> None:
    """Run an instruction over a state, which leaves out registers that may hold anything."""
    several = len(written) > 1 and instruction.opcode != "ld"
    value = Points.ANYTHING if several else _value(instruction, state, parameters, size)
    for reg in written:
        if instruction.guard is not None:
            value = _either(state.get(reg, Points.ANYTHING), value)
        if value is not Points.ANYTHING:
            state[reg] = value
        else:
            state.pop(reg, None)


def _value(instruction: Instruction, state: State, parameters: frozenset[str], size: int) -> Points:
    """What an instruction with one destination computes."""
    opcode, modifiers = instruction.opcode, instruction.modifiers
    sources = [_operand(o, state) for o in instruction.operands[1:]]
    if opcode == "ld":
        return _loaded(instruction, parameters, size)
    if opcode == "cvta":
        space = next((m for m in modifiers if m in _NAMED), "")
        to_space = "to" in modifiers
        if to_space:  # an address in the space itself; global ones are the same in both
            return Points.GLOBAL if space == "global" else Points.ANYTHING
        return _NAMED.get(space, Points.ANYTHING)
    if opcode in _PRODUCTS:
        return Points.NUMBER
    if opcode in _SUMS:
        return _sum(sources, minus=opcode == "sub")
    if opcode == "mad" and len(sources) == 3:
        return _sum([Points.NUMBER, sources[2]], minus=False)
    if opcode == "mov" or (opcode == "cvt" and {m[1:] for m in modifiers[-2:]} == {str(size)}):
        return sources[0]
    if opcode == "selp":
        return _either(sources[0], sources[1])
    numbers = opcode in _COMPUTING and all(s is Points.NUMBER for s in sources)
    return Points.NUMBER if numbers else Points.ANYTHING


def _sum(sources: list[Points], *, minus: bool) -> Points:
    # In a sum of two parameters one is the offset. Differences of two pointers are not followed.
    a, b = sources[0], sources[1]
    if b is Points.NUMBER:
        return a
    if minus:
        return Points.ANYTHING
    if a is Points.NUMBER or a is b is Points.PARAMETER:
        return b
    return Points.ANYTHING


def _loaded(instruction: Instruction, parameters: frozenset[str], size: int) -> Points:
    """What a load gives, in each of its registers. A field of a structure among the parameters is
    a parameter, too."""
    address = instruction.operands[1]
    if isa.space(instruction) == "param" and isinstance(address, Mem):
        wide = (isa.access_type(instruction) or "")[1:] == str(size)
        base, whole = address.base, address.offset % (size // 8) == 0
        of_kernel = isinstance(base, Symbol) and base.name in parameters and not base.scope
        if of_kernel and whole and wide:
            return Points.PARAMETER
    # Half a pointer is no pointer. Two halves make one by `mov.b64 {lo, hi}`, of which nothing is
    # known.
    narrow = (isa.access_type(instruction) or "")[1:] in ("8", "16", "32")
    return Points.NUMBER if narrow and size == _WIDE else Points.ANYTHING


def _operand(operand: Operand, state: State) -> Points:
    match operand:
        case Reg():
            return state.get(operand, Points.ANYTHING)
        case Int() | Special():
            return Points.NUMBER
        case _:
            return Points.ANYTHING
