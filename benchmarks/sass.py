"""What ptxas makes of each kernel and block of a file: instructions, loads and stores, occupancy.

    python -m benchmarks.sass FILE.ptx [--arch sm_80 sm_90] [--block 256] [--listing]

A row of a kernel counts all its code; rows of its blocks follow in the order of the code, `loop 2`
for a block two loops deep, and one for each routine it calls. Loads and stores count once, whatever
their width. `--listing` prints the instructions instead, with their control words, pipes and PTX
lines. A kernel with `.reqntid` has the block size it asks for, others that of `--block`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.machine_loops import count
from ptxsw.cost import sass
from ptxsw.cost.cubin import BadCubin
from ptxsw.cost.machine_code import Control, MachineInstruction, MachineKernel, Routine
from ptxsw.cost.occupancy import UnknownTarget, occupancy
from ptxsw.cost.sass import Sass
from ptxsw.parser import parse
from ptxsw.ptx.errors import PtxError
from ptxsw.toolchain.ptxas import AssemblyError, NoPtxas

MEMORY = ("LDG", "STG", "LDS", "STS")
HEAD = ("", "arch", "instr", *MEMORY, "regs", "spill B", "shared B", "occupancy")


def rows(made: Sass, threads: dict[str, int]) -> Iterator[tuple[str, ...]]:
    """Cells of the table, below `HEAD`. `threads` is the block size of each kernel."""
    arch = f"sm_{made.arch}"
    for kernel in made.kernels:
        size = threads[kernel.name]
        try:
            resident = occupancy(
                arch, block_threads=size, registers=kernel.registers, shared=kernel.shared
            ).fraction
            share = f"{100 * resident:.0f} % of {size}"
        except UnknownTarget:
            share = "unknown"
        spills = (kernel.spill_stores or 0) + (kernel.spill_loads or 0)
        used = (str(kernel.registers), str(spills), str(kernel.shared), share)
        yield (kernel.name, arch, *counted(kernel.instructions), *used)
        for routine in kernel.routines[:1]:
            for block in routine.flow.blocks:
                name = f"  block {block.number}{_depth(routine, block.number)}"
                yield (name, arch, *counted(kernel.of_block(block)), "", "", "", "")
        for routine in kernel.routines[1:]:
            inside = tuple(i for block in routine.flow.blocks for i in kernel.of_block(block))
            yield (f"  calls {short(routine.name)}", arch, *counted(inside), "", "", "", "")


def counted(instructions: tuple[MachineInstruction, ...]) -> tuple[str, ...]:
    counts = count(instructions)
    return (str(counts.instructions), *(str(counts.of(name)) for name in MEMORY))


def short(routine: str) -> str:
    """ "div_rn_f64_full" for "$__internal_0_$__cuda_sm20_div_rn_f64_full"."""
    return routine.rpartition("$")[2].removeprefix("__cuda_sm20_").removeprefix("__cuda_sm70_")


def _depth(routine: Routine, block: int) -> str:
    around = routine.flow.loops_around(block)
    return f", loop {len(around)}" if around else ""


def table(cells: list[tuple[str, ...]]) -> str:
    """Columns of equal width, numbers to the right."""
    widths = [max(len(row[at]) for row in cells) for at in range(len(HEAD))]
    lines = (
        "  ".join(
            cell.ljust(width) if at < 2 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    )
    return "\n".join(line.rstrip() for line in lines) + "\n"


# ---------------------------------------------------------------- listing


def listing(made: Sass) -> str:
    """All instructions: control word, text, pipe and PTX line, under the head of each block."""
    return "".join(line + "\n" for kernel in made.kernels for line in _of_kernel(made.arch, kernel))


def _of_kernel(arch: int, kernel: MachineKernel) -> Iterator[str]:
    yield (
        f"{kernel.name} sm_{arch}: {len(kernel.instructions)} instructions, {kernel.registers} "
        f"registers, {kernel.stack} bytes stack, {kernel.spill_stores}/{kernel.spill_loads} bytes "
        f"spilled, {kernel.shared} bytes shared, {kernel.barriers} barriers"
    )
    for routine in kernel.routines:
        yield f"{routine.name}:"
        for block in routine.flow.blocks:
            after = " ".join(map(str, block.successors)) or "end"
            yield f" block {block.number}{_depth(routine, block.number)} -> {after}"
            yield from map(_of_instruction, kernel.of_block(block))


def _of_instruction(i: MachineInstruction) -> str:
    guard = f"@{i.predicate} " if i.predicate else ""
    line = "-" if i.line is None else str(i.line)
    text = f"{guard}{i.opcode} {i.operands}".rstrip()
    return f"  {i.address:04x} {shown(i.control)} {text:48} {i.pipe:7} {line:>4}".rstrip()


def shown(control: Control) -> str:
    """Waits, read and write barrier, yield, stall, reuse: "B--2---:R-:W0:Y:S04:1"."""
    waits = "".join(str(n) if control.wait >> n & 1 else "-" for n in range(6))
    read = "-" if control.read is None else control.read
    write = "-" if control.write is None else control.write
    gives = "Y" if control.yields else "-"
    return f"B{waits}:R{read}:W{write}:{gives}:S{control.stall:02}:{control.reuse:x}"


def main() -> int:
    parser = argparse.ArgumentParser(description="ptxas's output for kernels and their blocks.")
    parser.add_argument("file", type=Path, help="a PTX file")
    parser.add_argument("--arch", nargs="+", help="such as sm_80; default: that of the file")
    parser.add_argument("--block", type=int, default=128, help="threads of a block (128)")
    parser.add_argument("--listing", action="store_true", help="print the instructions")
    given = parser.parse_args()
    try:
        text = given.file.read_text()
        module = parse(text, str(given.file))
        shapes = {k.name: k.block_shape or (given.block, 1, 1) for k in module.kernels}
        threads = {name: x * y * z for name, (x, y, z) in shapes.items()}
        cells: list[tuple[str, ...]] = [HEAD]
        for arch in given.arch or module.targets[:1]:
            made = sass.read(text, arch, name=str(given.file))
            if made.note:
                print(made.note, file=sys.stderr)
            if given.listing:
                print(listing(made), end="")
            cells += rows(made, threads)
        print("" if given.listing else table(cells), end="")
    except (OSError, UnicodeError, PtxError, NoPtxas, AssemblyError, BadCubin) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
