"""What ptxas made of a kernel: its machine code (SASS) in blocks and loops, and what it needs.

    LDG.E.CONSTANT R16,[R4.64]    pipe lsu, PTX line 71, stall 4, sets barrier 2
    FADD R16,R16,R17              pipe fma, PTX line 79, waits for barriers 2 and 3

The opcodes come from nvdisasm, all else from the cubin. Without an nvdisasm there are no
instructions, and `Sass.note` says so: registers, sizes and the instructions of the PTX remain.

Control words: from Volta on an instruction has 128 bits, and bits 105 to 125 steer the scheduler:
stall (4 bits), yield (1), write and read barrier (3 each, 7 for none), wait mask (6), reuse (4).
Source: Z. Jia, M. Maggioni, B. Staiger, D. Scarpazza, "Dissecting the NVIDIA Volta GPU Architecture
via Microbenchmarking", arXiv:1804.06826, 2018, section 2.1; the tests hold it on later ones.

PTX lines: `ptxas -lineinfo` writes for each instruction the line of the PTX it is from, `.loc` or
not. Where two PTX instructions share a line, a copy that parts them is assembled. Both options are
held to make the same code as without; where they do not, no line is given.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from ptxsw.codegen.splice import apply, insert
from ptxsw.cost import cubin, nvdisasm
from ptxsw.cost.blocks import BYTES, Routine, routines, without_padding
from ptxsw.cost.combined import PlacedFunction
from ptxsw.cost.decode import decoded
from ptxsw.cost.pipes import pipe
from ptxsw.flow.flow_graph import Block, Loop
from ptxsw.parser import parse
from ptxsw.ptx.patterns import pattern
from ptxsw.toolchain.ptxas import Resources, assemble

_FIRST_ARCH: Final = 70  # whose instructions have 16 bytes
_LINKED_LATER: Final = pattern(r"\.extern\s+\.(?!shared)")
_MEMORY: Final = frozenset(
    {"LD", "LDG", "LDL", "LDS", "LDC", "LDCU", "ST", "STG", "STL", "STS", "LDGSTS"}
)
_WIDTHS: Final = {
    "U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "96": 12, "128": 16, "256": 32,
}  # fmt: skip


class Control(NamedTuple):
    """What the scheduler is told with an instruction.

    `stall` is in cycles until the warp's next one. `write` is the barrier (0 to 5) that is set
    until the result is there, `read` that until the sources are read, each None for none. `wait`
    has a bit for each barrier waited for, `reuse` one for each source operand kept.
    """

    stall: int
    yields: bool  # to another warp; the bit in the code is 0 for yes
    write: int | None
    read: int | None
    wait: int
    reuse: int


class MachineInstruction(NamedTuple):
    """One instruction of machine code. `address` is in bytes from the start of its function;
    `predicate` is such as "!P0", or empty. `line` counts from 1 in the PTX text, and `ptx` is the
    offset there of the PTX instruction; both None where it is from none, or that is not known."""

    address: int
    opcode: str  # "LDG.E.CONSTANT"
    operands: str
    predicate: str
    control: Control
    pipe: str
    line: int | None
    ptx: int | None

    @property
    def root(self) -> str:
        """The opcode without modifiers: "LDG"."""
        return _root(self.opcode)

    @property
    def width(self) -> int | None:
        """Bytes for each lane that a load or store moves; None for any other instruction."""
        return width(self.opcode)


@lru_cache(maxsize=1 << 12)
def _root(opcode: str) -> str:
    return opcode.partition(".")[0]


@lru_cache(maxsize=1 << 12)
def width(opcode: str) -> int | None:
    """Bytes for each lane that a load or store moves; None for any other opcode."""
    if _root(opcode) not in _MEMORY:
        return None
    return next((w for m, w in _WIDTHS.items() if m in opcode.split(".")), 4)


class MachineKernel(Struct, frozen=True, kw_only=True, dict=True):
    """One kernel as ptxas made it.

    `stack`, `spill_stores` and `spill_loads` are bytes of one thread; the spills are None where a
    cubin alone was read. `shared` is a block's static shared memory in bytes, without what the
    system reserves. `ptx` counts the instructions of its PTX by opcode; empty for a cubin alone,
    and where it was read briefly. `instructions` is empty where there is no nvdisasm; the first of
    `routines` is the kernel's own.
    """

    name: str
    code_size: int  # bytes, padding included
    registers: int
    stack: int
    spill_stores: int | None
    spill_loads: int | None
    shared: int
    barriers: int
    instructions: tuple[MachineInstruction, ...]
    routines: tuple[Routine, ...]
    ptx: Mapping[str, int]

    def of_block(self, block: Block) -> tuple[MachineInstruction, ...]:
        """The instructions of one block."""
        return self.instructions[block.start : block.end]

    def of_loop(self, routine: Routine, loop: Loop) -> tuple[MachineInstruction, ...]:
        """The instructions of a loop, in the order of its blocks."""
        blocks = (routine.flow.blocks[number] for number in sorted(loop.blocks))
        return tuple(i for block in blocks for i in self.of_block(block))

    @cached_property
    def inner_loops(self) -> tuple[tuple[MachineInstruction, ...], ...]:
        """The instructions of each loop of the kernel's own code that has none inside it, in the
        order of the code."""
        if not self.routines:
            return ()
        body = self.routines[0]
        around = {loop.parent for loop in body.flow.loops.values()}
        inner = sorted(set(body.flow.loops) - around, key=lambda h: body.flow.blocks[h].start)
        return tuple(self.of_loop(body, body.flow.loops[header]) for header in inner)


class Sass(Struct, frozen=True):
    """The kernels of one cubin. `arch` is a number such as 80; `note` says what is missing, and
    why, or is empty."""

    arch: int
    kernels: tuple[MachineKernel, ...]
    note: str

    def kernel(self, name: str) -> MachineKernel:
        """A kernel by its name. Raises KeyError."""
        for kernel in self.kernels:
            if kernel.name == name:
                return kernel
        raise KeyError(name)


class Counts(NamedTuple):
    """Instructions, altogether and by pipe, and loads and stores by opcode and bytes for each lane:
    `accesses["LDG", 16]`."""

    instructions: int
    pipes: Counter[str]
    accesses: Counter[tuple[str, int]]

    def of(self, root: str) -> int:
        """Loads or stores of an opcode, of any width."""
        return sum(n for (name, _), n in self.accesses.items() if name == root)


def count(instructions: Iterable[MachineInstruction]) -> Counts:
    """Counts instructions. Those that do nothing, NOP, are left out."""
    real = [i for i in instructions if i.root != "NOP"]
    accesses = Counter((i.root, i.width) for i in real if i.width is not None)
    return Counts(len(real), Counter(i.pipe for i in real), accesses)


# ---------------------------------------------------------------- reading


def read(
    ptx: str,
    arch: str,
    *,
    functions: Sequence[PlacedFunction] | None = None,
    lines: bool = True,
    compared: bool = True,
    briefly: bool = False,
    ptxas: str | None = None,
    disassembler: str | None = None,
    options: Sequence[str] = (),
    name: str = "input.ptx",
    timeout: float | None = None,
) -> Sass:
    """The kernels of a text as ptxas makes them for an architecture such as "sm_80".
    `functions` are those of the text, where they were read: places are those of their own texts.

    With `lines` a second ptxas run finds the PTX lines; without `compared` it is the only one, and
    its code is not held against that of a plain run. `briefly`: of opcodes the root and the width
    of an access will do, and of operands those of branches (`decode`). `options` go to ptxas; a
    text that declares what is linked later is made relocatable. `timeout` is in seconds, for each
    program run. Raises ParseError, NoPtxas, AssemblyError, BadCubin, or subprocess.TimeoutExpired;
    a missing nvdisasm is no error, see `Sass.note`.
    """
    if functions is None:
        functions = [PlacedFunction(each.name, each) for each in parse(ptx, name).functions]
    places, problem = _Places(ptx, functions), ""
    if _LINKED_LATER.search(ptx):
        options = (*options, "-c")
    marking = (*options, "-lineinfo") if "-lineinfo" not in options else options
    alone = lines and not compared
    text, given = (places.copy, marking) if alone else (ptx, options)
    result = assemble(text, arch, ptxas=ptxas, options=given, name=name, timeout=timeout)
    plain = cubin.read(result.cubin)
    if lines and compared:
        copy = assemble(places.copy, arch, ptxas=ptxas, options=marking, name=name, timeout=timeout)
        marked = cubin.read(copy.cubin)
        if _codes(marked) == _codes(plain):
            plain = marked
        else:
            problem = "ptxas makes other code with -lineinfo: PTX lines are not known"
    resources = {r.kernel: r for r in result.resources}
    counts = {
        each.name: Counter(i.name for i in each.function.body.instructions)
        for each in functions
        if each.asked and each.function.kind == "entry" and not briefly
    }
    listing, note = (_decoded(plain) if briefly else None), ""
    if listing is None:
        listing, note = _disassembled(plain, result.cubin, disassembler, timeout)
    sass = _sass(plain, listing, note, places if lines else None)
    kernels = (_completed(k, resources.get(k.name), counts.get(k.name, {})) for k in sass.kernels)
    return Sass(sass.arch, tuple(kernels), "; ".join(filter(None, (sass.note, problem))))


def read_cubin(
    data: bytes, *, disassembler: str | None = None, timeout: float | None = None
) -> Sass:
    """The kernels of a cubin. PTX lines are those that `ptxas -lineinfo` wrote into it; without
    the text, no instruction of the PTX is known. Raises BadCubin, or subprocess.TimeoutExpired."""
    parsed = cubin.read(data)
    return _sass(parsed, *_disassembled(parsed, data, disassembler, timeout), None)


def _codes(parsed: cubin.Cubin) -> dict[str, bytes]:
    return {function.name: function.code for function in parsed.functions}


def _completed(
    kernel: MachineKernel, used: Resources | None, ptx: Mapping[str, int]
) -> MachineKernel:
    if used is None:
        return replace(kernel, ptx=ptx)
    stores, loads = used.spill_stores, used.spill_loads
    return replace(kernel, ptx=ptx, spill_stores=stores, spill_loads=loads)


Listing = Mapping[str, list[nvdisasm.DisassembledLine]]
"""Instructions, padding included, by the name of their function."""


def _sass(parsed: cubin.Cubin, listing: Listing, note: str, places: _Places | None) -> Sass:
    kernels = (
        _kernel(parsed.arch, code, listing.get(code.name, []), places)
        for code in parsed.functions
        if code.entry
    )
    return Sass(parsed.arch, tuple(kernels), note)


def _disassembled(
    parsed: cubin.Cubin, data: bytes, disassembler: str | None, timeout: float | None
) -> tuple[Listing, str]:
    """What nvdisasm says of a cubin, or why nothing is known."""
    if parsed.arch < _FIRST_ARCH:
        return {}, f"machine code of sm_{parsed.arch} is not read: registers and PTX counts alone"
    try:
        return nvdisasm.disassemble(data, disassembler, timeout=timeout), ""
    except nvdisasm.NoNvdisasm as error:
        return {}, f"registers and PTX counts alone: {error}"


def _decoded(parsed: cubin.Cubin) -> Listing | None:
    """The kernels of a cubin without nvdisasm; None where that cannot read all of them."""
    listing = {}
    for code in parsed.functions:
        if code.entry:
            lines = decoded(code, parsed.arch)
            if lines is None:
                return None
            listing[code.name] = lines
    return listing


def _kernel(
    arch: int,
    code: cubin.FunctionCode,
    listing: list[nvdisasm.DisassembledLine],
    places: _Places | None,
) -> MachineKernel:
    end = without_padding(listing)
    listing, lines = listing[:end], _lines(code, end)
    instructions = tuple(_instructions(arch, code.code, listing, lines, places))
    return MachineKernel(
        name=code.name,
        code_size=len(code.code),
        registers=code.registers,
        stack=code.stack,
        spill_stores=None,
        spill_loads=None,
        shared=code.shared,
        barriers=code.barriers,
        instructions=instructions,
        routines=routines(listing, code),
        ptx={},
    )


# ---------------------------------------------------------------- one instruction


def _instructions(
    arch: int,
    code: bytes,
    listing: Sequence[nvdisasm.DisassembledLine],
    lines: Sequence[int | None],
    places: _Places | None,
) -> Iterator[MachineInstruction]:
    for number, (predicate, opcode, operands, _, _) in enumerate(listing):
        at, where = None, lines[number]
        if places is not None:
            at, where = places.instructions.get(where, _NOWHERE)
        address = number * BYTES
        word = int.from_bytes(code[address : address + BYTES], "little")
        yield MachineInstruction(
            address, opcode, operands, predicate, control(word), pipe(opcode, arch), where, at
        )


_NOWHERE: Final = (None, None)


def control(word: int) -> Control:
    """The control word of an instruction of 128 bits."""
    return _control(word >> 105 & (1 << 21) - 1)


@lru_cache(maxsize=1 << 12)
def _control(bits: int) -> Control:
    write, read = bits >> 5 & 7, bits >> 8 & 7
    return Control(
        stall=bits & 15,
        yields=not bits >> 4 & 1,
        write=None if write == 7 else write,
        read=None if read == 7 else read,
        wait=bits >> 11 & 63,
        reuse=bits >> 17 & 15,
    )


def _lines(code: cubin.FunctionCode, count: int) -> list[int | None]:
    """The line of each instruction. A routine that ptxas adds has none: lines of what stands
    before it do not reach into it."""
    lines: list[int | None] = [None] * count
    whole = count * BYTES
    borders = sorted({whole, *(at for at, _ in code.routines)})
    ends = [at for at, _ in code.lines[1:]] + [whole]
    for (start, line), end in zip(code.lines, ends, strict=False):
        if start < whole:
            border = borders[bisect_right(borders, start)]
            number, after = start // BYTES, min(end, border, whole) // BYTES
            lines[number:after] = [line] * (after - number)
    return lines


class _Places:
    """A copy of a text in which no two instructions share a line, and where its lines are from."""

    def __init__(self, text: str, functions: Iterable[PlacedFunction]) -> None:
        edits = []
        at_line = dict[int | None, tuple[int, int]]()
        at, line, added, before = 0, 1, 0, -1
        for _, function, offset, asked in sorted(functions, key=_start):
            for instruction in function.body.instructions:
                start = instruction.start + offset
                line += text.count("\n", at, start)
                at = start
                if line == before:
                    edits.append(insert(at, "\n"))
                    added += 1
                before = line + text.count("\n", at, instruction.end + offset - 1)
                if asked:
                    here = instruction.start, line
                    for own in range(line, before + 1):
                        at_line[own + added] = here
        self.copy: Final = apply(text, edits)
        self.instructions: Final[Mapping[int | None, tuple[int, int]]] = at_line
        """By lines of the copy: of the PTX instruction there its offset in the text of its
        function, and its line, from 1."""


def _start(placed: PlacedFunction) -> int:
    return placed.function.span.start + placed.offset
