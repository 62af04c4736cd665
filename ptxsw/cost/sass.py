"""What ptxas made of a kernel: its machine code in blocks and loops, and what it needs.

The opcodes come from nvdisasm, all else from the cubin. Without an nvdisasm there are no
instructions, and `Sass.note` says so: registers and sizes remain.

PTX lines: `ptxas -lineinfo` writes for each instruction the line of the PTX it is from, `.loc` or
not. Where two PTX instructions share a line, a copy that parts them is assembled. Both options are
held to make the same code as without; where they do not, no line is given.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from subprocess import TimeoutExpired
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ptxsw.codegen.splice import apply, insert
from ptxsw.cost import cubin, disassembly
from ptxsw.cost.combined import PlacedFunction, Question, combined, differ_in_one_kernel
from ptxsw.cost.disassembly import decoded
from ptxsw.cost.machine_code import (
    BYTES,
    MachineInstruction,
    MachineKernel,
    control,
    pipe,
    routines,
    without_padding,
)
from ptxsw.parser import parse
from ptxsw.ptx.ir import Module
from ptxsw.ptx.patterns import pattern
from ptxsw.ptx.target import assembled_for, plain_name
from ptxsw.toolchain.ptxas import AssemblyError, NoPtxas, Resources, assemble, older_text

_FIRST_ARCH: Final = 70  # whose instructions have 16 bytes
_LINKED_LATER: Final = pattern(r"\.extern\s+\.(?!shared)")


_VOLTA = ("sm_70", "sm_72")
_TURING = "sm_75"
"""Turing's machine code has Volta's form (Z. Jia et al., arXiv:1903.07486, 2019, chapter 2)."""
NOT_MADE: Final = (NoPtxas, AssemblyError, cubin.BadCubin, TimeoutExpired)
"""What is raised where there is no machine code."""


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
    name: str = "input.ptx",
    timeout: float | None = None,
) -> Sass:
    """The kernels of a text as ptxas makes them for an architecture such as "sm_80".
    `functions` are those of the text, where they were read: places are those of their own texts.

    With `lines` a second ptxas run finds the PTX lines; without `compared` it is the only one, and
    its code is not held against that of a plain run. `briefly`: of opcodes the root and the width
    of an access will do, and of operands those of branches (`decode`). A
    text that declares what is linked later is made relocatable. `timeout` is in seconds, for each
    program run. Raises ParseError, NoPtxas, AssemblyError, BadCubin, or subprocess.TimeoutExpired;
    a missing nvdisasm is no error, see `Sass.note`.
    """
    if functions is None:
        functions = [PlacedFunction(each.name, each) for each in parse(ptx, name).functions]
    places, problem = _Places(ptx, functions), ""
    options = ("-c",) if _LINKED_LATER.search(ptx) else ()
    marking = (*options, "-lineinfo")
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
            problem = "ptxas generates different code with -lineinfo: PTX lines are unknown"
    resources = {r.kernel: r for r in result.resources}
    listing, note = (_decoded(plain) if briefly else None), ""
    if listing is None:
        listing, note = _disassembled(plain, result.cubin, disassembler, timeout)
    sass = _sass(plain, listing, note, places if lines else None)
    kernels = (_completed(kernel, resources.get(kernel.name)) for kernel in sass.kernels)
    return Sass(sass.arch, tuple(kernels), "; ".join(filter(None, (sass.note, problem))))


def codes(ptx: str, arch: str, *, timeout: float | None = None) -> dict[str, bytes]:
    """The machine code of each function of a text, as `read` has it. Raises what `read` does."""
    options = ("-c",) if _LINKED_LATER.search(ptx) else ()
    return _codes(cubin.read(assemble(ptx, arch, options=options, timeout=timeout).cubin))


def _codes(parsed: cubin.Cubin) -> dict[str, bytes]:
    return {function.name: function.code for function in parsed.functions}


def _completed(kernel: MachineKernel, used: Resources | None) -> MachineKernel:
    if used is None:
        return kernel
    return replace(kernel, spill_stores=used.spill_stores, spill_loads=used.spill_loads)


Listing = Mapping[str, list[disassembly.DisassembledLine]]
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
        return disassembly.disassemble(data, disassembler, timeout=timeout), ""
    except disassembly.NoNvdisasm as error:
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
    listing: list[disassembly.DisassembledLine],
    places: _Places | None,
) -> MachineKernel:
    end = without_padding(listing)
    listing, lines = listing[:end], _lines(code, end)
    instructions = tuple(_instructions(arch, code.code, listing, lines, places))
    return MachineKernel(
        name=code.name,
        registers=code.registers,
        stack=code.stack,
        spill_stores=None,
        spill_loads=None,
        shared=code.shared,
        barriers=code.barriers,
        instructions=instructions,
        routines=routines(listing, code),
    )


# ---------------------------------------------------------------- one instruction


def _instructions(
    arch: int,
    code: bytes,
    listing: Sequence[disassembly.DisassembledLine],
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


def read_for(
    text: str, module: Module, arch: str, asked: str | None, *, timeout: float
) -> tuple[Mapping[str, MachineKernel], str | None, str]:
    """What ptxas makes of the kernels of a module, briefly, for the target that was `asked` for or
    an architecture; for which target it is, and what is to be said of it. Where it makes nothing
    for this target, as for those that CUDA 13 has left out, or of a text for a later one, code for
    another stands for it."""
    problem = ""
    own = [target for target in module.targets if plain_name(target)]
    # sm_90a, not sm_90, which is the name of the GPU's architecture.
    exact = [assembled_for(name) for name in (asked, *own) if name and plain_name(name) == arch]
    for target in dict.fromkeys((*exact, arch, _TURING if arch in _VOLTA else None, *own)):
        if target is None:
            continue
        try:
            code, older = _read_as_known(text, target, timeout)
        except NOT_MADE as error:
            problem = problem or str(error).strip().splitlines()[0]
            continue
        named = plain_name(target)
        stands = "" if named == arch else f"machine code and registers are those of {target}"
        stands += f": {problem}" if stands and problem else ""
        note = "; ".join(filter(None, (stands, older, code.note)))
        return {kernel.name: kernel for kernel in code.kernels}, target, note
    return {}, None, f"no machine code, PTX instructions are counted instead: {problem}"


def _read_as_known(text: str, target: str, timeout: float) -> tuple[Sass, str]:
    """A text for a later ptxas, with what is to be said of it, is read as one of the version that
    this ptxas knows. Raises what `read` does."""
    try:
        return read(text, target, briefly=True, timeout=timeout), ""
    except AssemblyError as error:
        older = older_text(text, error)
        if older is None:
            raise
    said = (
        f"machine code and registers are those of PTX {older.known}: this ptxas does not know "
        f"{older.later}"
    )
    return read(older.text, target, briefly=True, timeout=timeout), said


# ---------------------------------------------------------------- several texts

Assembled = MachineKernel | AssemblyError
"""What ptxas made of a text, or why it refused that."""


def read_several(
    texts: Sequence[Module],
    name: str,
    arch: str,
    *,
    timeout: float | None = None,
) -> tuple[list[Assembled], str]:
    """What ptxas makes of a kernel in each of these texts, briefly, from one run of it: the kernel
    stands in one file under a name of its own for each. For an architecture such as "sm_80", and
    a note such as that of `Sass`. Where it refuses one of them, it is asked about each by
    itself. `timeout` is in seconds, for each program run. Raises NoPtxas, BadCubin,
    subprocess.TimeoutExpired."""
    if not texts:
        return [], ""
    if differ_in_one_kernel(texts, name):
        try:
            return _read_together(texts, name, arch, timeout)
        except AssemblyError as error:
            if len(texts) == 1:
                return [error], ""
    each = [read_several([text], name, arch, timeout=timeout) for text in texts]
    return [kernel for kernels, _ in each for kernel in kernels], next(
        (n for _, n in each if n), ""
    )


def _read_together(
    texts: Sequence[Module], name: str, arch: str, timeout: float | None
) -> tuple[list[Assembled], str]:
    whole = combined([Question(tuple(texts), name, arch)])
    machine_code = read(
        whole.text, arch, functions=whole.functions, compared=False, briefly=True, timeout=timeout
    )
    (placed,) = whole.kernels
    kernels: list[Assembled] = [
        _named(machine_code.kernel(one.name), text, name)
        for text, one in zip(texts, placed, strict=True)
    ]
    return kernels, machine_code.note


def _named(kernel: MachineKernel, text: Module, name: str) -> MachineKernel:
    """The kernel under its name, with lines of its own text in place of those of the file."""
    instructions = [
        instruction._replace(
            operands=instruction.operands.replace(kernel.name, name),
            line=None if instruction.ptx is None else text.source.line(instruction.ptx),
        )
        for instruction in kernel.instructions
    ]
    routines = (
        replace(each, name=each.name.replace(kernel.name, name)) for each in kernel.routines
    )
    return replace(kernel, name=name, instructions=tuple(instructions), routines=tuple(routines))
