"""What tensor instructions ask of the tensor cores: multiply-adds, by the types that set the rate.

    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32     16 * 8 * 16 by a warp, "f16_f32"
    wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 64 * 128 * 16 by four warps, "bf16"
    tcgen05.mma.cta_group::1.kind::f16                    as its instruction descriptor says, by one
                                                          thread

Names of rates are types of operands, and of sums where some GPUs have another rate for these. With
one operand sparse (`.sp`) half of the products are left out, in half of the time, so that they are
not counted. Shapes and descriptors: PTX ISA 9.0, 9.7.14 to 9.7.16.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from math import prod
from typing import Final, NamedTuple

from ptxsw.cost.account import Interval, exactly
from ptxsw.flow.cfg import Cfg
from ptxsw.ptx.ir import Instruction, Int, Operand, Reg
from ptxsw.ptx.patterns import pattern

_SHAPE: Final = pattern(r"^m(\d+)n(\d+)k(\d+)$")
GROUP: Final = 4  # warps that execute a wgmma together
_RATES: Final[Mapping[str, str]] = {
    "bf16": "bf16", "tf32": "tf32", "f64": "f64", "s8": "i8", "u8": "i8", "s4": "i4", "u4": "i4",
    "b1": "b1", "e4m3": "f8", "e5m2": "f8", "e3m2": "f8", "e2m3": "f8", "e2m1": "f8", "f16": "f16",
}  # fmt: skip
_BY_SUM: Final = frozenset({"f16", "f8"})  # where the type of the sum makes a difference
_TYPES: Final = frozenset({*_RATES, "f32", "s32"})
_BITS: Final = {"f16": 16, "bf16": 16, "tf32": 32, "f64": 64, "i8": 8, "i4": 4, "b1": 1, "f8": 8}
_FOUR_BITS: Final = frozenset({"kind::mxf4", "kind::mxf4nvf4"})
_KINDS: Final[Mapping[str, tuple[str, int]]] = {
    "kind::f16": ("f16", 16), "kind::tf32": ("tf32", 8), "kind::f8f6f4": ("f8", 32),
    "kind::i8": ("i8", 32), "kind::mxf8f6f4": ("f8", 32), "kind::mxf4": ("f4", 64),
    "kind::mxf4nvf4": ("f4", 64),
}  # fmt: skip
"""Of tcgen05.mma: the rate, and K of one instruction."""


class TensorWork(NamedTuple):
    """Of one instruction, for each warp that executes it: multiply-adds at a rate, and bytes of
    operands that it reads in shared memory by descriptors. `multiply_adds` is None where the shape
    is not known."""

    rate: str
    multiply_adds: float | None
    shared: float = 0.0


Value = Callable[[Operand], int | None]
"""The number in an operand, where it is known."""


def tensor_work(instruction: Instruction, value: Value) -> TensorWork | None:
    """What an instruction asks for; None of one that multiplies no matrices."""
    modifiers = instruction.modifiers
    if instruction.opcode == "tcgen05" and modifiers[:1] == ("mma",):
        return _by_descriptor(instruction, value)
    multiplies = instruction.opcode == "mma" or "mma" in modifiers or "mma_async" in modifiers
    if instruction.opcode not in ("mma", "wmma", "wgmma") or not multiplies:
        return None
    shape = next((m for m in map(_SHAPE.match, modifiers) if m), None)
    types = [m for m in modifiers if m in _TYPES]
    if shape is None or len(types) < (2 if instruction.opcode == "wgmma" else 1):
        return TensorWork("unknown", None)
    # Sums, then operands; wmma of halves names the types of its two sums alone.
    operands = types[1:3] if instruction.opcode == "wgmma" or len(types) > 2 else ["f16", "f16"]
    rate = _rate(types[0], operands, modifiers)
    m, n, k = map(int, shape.groups())
    count = m * n * k / (2 if {"sp", "sp::ordered_metadata"} & {*modifiers} else 1)
    if instruction.opcode != "wgmma":
        return TensorWork(rate, count)
    size = _BITS.get(_RATES.get(operands[0], ""), 16) / 8
    by_descriptor = n * k + (0 if _first_in_registers(instruction) else m * k)
    return TensorWork(rate, count / GROUP, by_descriptor * size / GROUP)


def _rate(total: str, operands: list[str], modifiers: tuple[str, ...]) -> str:
    if not _FOUR_BITS.isdisjoint(modifiers):
        return "f4"
    rate = _RATES.get(operands[0], "unknown")
    return f"{rate}_{'f16' if total == 'f16' else 'f32'}" if rate in _BY_SUM else rate


def _first_in_registers(instruction: Instruction) -> bool:
    """Is the first matrix a vector of registers, and no descriptor?"""
    operand = instruction.operands[1] if len(instruction.operands) > 1 else None
    return not isinstance(operand, Reg)


def _by_descriptor(instruction: Instruction, value: Value) -> TensorWork | None:
    """Of tcgen05.mma, whose shape is in its instruction descriptor (PTX ISA, tables 44 and 45): N
    without its last three bits in bits 17 to 22, M without its last four in bits 24 to 28; with
    scaled operands without its last seven in bits 27 and 28."""
    modifiers = instruction.modifiers
    kind = next((m for m in modifiers if m in _KINDS), None)
    if kind is None:
        return TensorWork("unknown", None)
    rate, k = _KINDS[kind]
    at = 4 if "sp" in modifiers else 3  # behind where the metadata of a sparse matrix are
    numbers = [value(operand) for operand in instruction.operands[at : at + 1]]
    if not numbers or numbers[0] is None:
        return TensorWork(f"{rate}_f32" if rate in _BY_SUM else rate, None)
    bits = numbers[0]
    n = (bits >> 17 & 63) << 3
    m = (bits >> 27 & 3) << 7 if kind.startswith("kind::mx") else (bits >> 24 & 31) << 4
    if rate in _BY_SUM:
        rate = f"{rate}_{'f32' if bits >> 4 & 3 else 'f16'}"
    count = float(prod((m, n, k)))
    pair = 2 if "cta_group::2" in modifiers else 1  # two multiprocessors share the work
    # K is given for half of the products of a sparse matrix, so that it needs no other factor.
    size = 32 / k  # an instruction takes 32 bytes of K
    in_shared = n * k + (m * k if isinstance(instruction.operands[1], Reg) else 0)
    return TensorWork(rate, count / pair or None, in_shared * size / pair)


def constants(cfg: Cfg) -> Value:
    """What registers hold that are written once, by a `mov` of a number."""

    def value(operand: Operand) -> int | None:
        if isinstance(operand, Int):
            return operand.value
        at = cfg.sole_writers.get(operand) if isinstance(operand, Reg) else None
        if at is None:
            return None
        writer = cfg.instructions[at]
        if writer.opcode != "mov" or writer.guard is not None or len(writer.operands) != 2:
            return None
        return value(writer.operands[1])

    return value


# ---------------------------------------------------------------- some code


class WorkOfCode(NamedTuple):
    """What some code asks for: multiply-adds by instruction and rate, bytes of operands in shared
    memory, and what of it has no figures."""

    multiply_adds: Mapping[tuple[str, str], Interval]
    shared: Interval
    unmodelled: tuple[str, ...]


def tensor_in(cfg: Cfg, blocks: Sequence[int], always: Collection[int], value: Value) -> WorkOfCode:
    """Of some blocks of PTX, executed once by a warp, those of `always` certainly. What one thread
    issues (tcgen05) is told of a warp that does: at least on the path with most of it."""
    total = _Sum()
    for block in blocks:
        inside = range(cfg.blocks[block].start, cfg.blocks[block].end)
        for index in inside:
            instruction = cfg.instructions[index]
            work = tensor_work(instruction, value)
            if work is None:
                total.name(instruction)
                continue
            certain = block in always and instruction.guard is None
            total.add(instruction, work, Interval(1.0 if certain else 0.0, 1.0), block)
    return total.result(lambda issued: on_heaviest_path(cfg, blocks, issued))


def on_heaviest_path(cfg: Cfg, blocks: Collection[int], weights: Mapping[int, float]) -> float:
    """The most that a path through some blocks passes, each once, by what the blocks weigh."""
    inside, heaviest = set(blocks), dict[int, float]()
    for block in cfg.order:
        if block in inside:
            before = (
                heaviest.get(one, 0.0)
                for one in cfg.predecessors[block]
                if (one, block) not in cfg.retreating
            )
            heaviest[block] = weights.get(block, 0.0) + max(before, default=0.0)
    return max(heaviest.values(), default=0.0)


def tensor_times(cfg: Cfg, executed: Sequence[float]) -> WorkOfCode:
    """Of a kernel whose instructions warps execute so often."""
    total, value = _Sum(), constants(cfg)
    for block in cfg.blocks:
        for index in range(block.start, min(block.end, len(executed))):
            instruction = cfg.instructions[index]
            work = tensor_work(instruction, value)
            if work is None:
                total.name(instruction)
            elif executed[index]:
                total.add(instruction, work, exactly(float(executed[index])), block.number)
    return total.result(lambda issued: sum(issued.values()))


class _Sum:
    """Adds up work, instruction by instruction."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], Interval] = {}
        self._shared = exactly(0.0)
        self._issued: dict[tuple[str, str], dict[int, float]] = {}
        self._unmodelled: dict[str, None] = {}

    def add(self, instruction: Instruction, work: TensorWork, times: Interval, block: int) -> None:
        """Of an instruction of a block that is executed so often."""
        kind = instruction.opcode, work.rate
        self._unmodelled[_WAITS[instruction.opcode]] = None
        if work.multiply_adds is None:
            self._unmodelled[f"the shape of {instruction.name}"] = None
            return
        if instruction.opcode == "tcgen05":
            issued = self._issued.setdefault(kind, {})
            issued[block] = issued.get(block, 0.0) + times.high * work.multiply_adds
            times = Interval(0.0, times.high)
        self._counts[kind] = self._counts.get(kind, exactly(0.0)) + times * work.multiply_adds
        self._shared += times * work.shared

    def name(self, instruction: Instruction) -> None:
        """Of an instruction that multiplies nothing, what of it has no figures."""
        what = instruction.modifiers[:1]
        if (instruction.opcode, *what) in _MEMORY:
            self._unmodelled[f"the memory of {instruction.opcode}.{what[0]}"] = None

    def result(self, least: Callable[[Mapping[int, float]], float]) -> WorkOfCode:
        """`least` tells of what one thread issues in blocks how much it does at least."""
        for kind, issued in self._issued.items():
            self._counts[kind] = Interval(least(issued), self._counts[kind].high)
        return WorkOfCode(self._counts, self._shared, tuple(self._unmodelled))


_MEMORY: Final = frozenset(
    {("tcgen05", "ld"), ("tcgen05", "st"), ("tcgen05", "cp"), ("wmma", "load"), ("wmma", "store")}
)
_WAITS: Final = {
    "mma": "the latency of mma", "wmma": "the latency of wmma", "wgmma": "waits for wgmma",
    "tcgen05": "waits for tcgen05",
}  # fmt: skip
