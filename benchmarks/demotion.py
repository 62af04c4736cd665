"""Registers demoted to shared memory by the text itself, against those that ptxas spills there.

    python -m benchmarks.demotion [--arch sm_80] [--threads 256]

RegDem keeps register `r` of thread `t` at `4*t + s + 4*r*n` (`8*…` where it is wide), with `n`
threads in a block and `s` where its memory begins. It edits machine code; here the same is written
in PTX: of the values that are live where most are, those with the fewest accesses (one in a loop
counts ten times) are stored once and loaded before each use, by volatile accesses, which ptxas
leaves alone. Three kernels, each under the limit of the next step of occupancy, with none, ptxas's
own spills (`enable_smem_spilling`), and 2 to 24 values demoted by us. `pace` is RegDem's prediction
(`cost/stalls.py`): stall cycles of a warp over the share of resident warps; less is better.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.rewrites import lines
from ptxsw.codegen.builder import Builder
from ptxsw.codegen.lower_registers import lower
from ptxsw.codegen.splice import apply
from ptxsw.cost import sass
from ptxsw.cost.executions import executions
from ptxsw.cost.occupancy import occupancy
from ptxsw.cost.stalls import LOOP_FACTOR, pace
from ptxsw.flow.cfg import Cfg, build
from ptxsw.flow.dataflow import defs, liveness, uses
from ptxsw.parser import parse
from ptxsw.ptx.ir import Function, Instruction, Reg

PTX = Path(__file__).parent / "kernelgen" / "ptx"
KERNELS = (("tricubic", 32), ("double/tricubic", 40), ("lapgsrb", 32))
DEMOTED = (2, 4, 8, 12, 16, 24)
_WIDTHS = (32, 64)
HEAD = ("kernel", "limit", "spilled by", "registers", "local B", "shared B", "occupancy", "pace")


def of_block(text: str, threads: int) -> str:
    """The text of a kernel whose blocks have so many threads."""
    return text.replace(")\n{", f")\n.reqntid {threads}, 1, 1\n{{", 1)


def limited(text: str, limit: int, *, spills_to_shared: bool) -> str:
    """The text with a limit of registers."""
    (function,) = parse(text).kernels
    return apply(text, lower(text, function, limit, spills_to_shared=spills_to_shared))


# ---------------------------------------------------------------- demotion


def candidates(function: Function) -> list[Reg]:
    """The values to demote, best first: those that are live where most are, of one definition and
    32 or 64 bits, by their accesses."""
    cfg = build(function.body)
    written, accesses = Counter[Reg](), Counter[Reg]()
    for number, instruction in enumerate(cfg.instructions):
        block = cfg.block_of[number]
        often = 10 ** max(
            (loop.depth for loop in cfg.loops.values() if block in loop.blocks), default=0
        )
        for register in defs(instruction):
            written[register] += 2 if instruction.guard is not None else 1
            accesses[register] += often
        for register in uses(instruction):
            accesses[register] += often
    most = max(_live(cfg), key=len, default=frozenset())
    fit = [r for r in most if written[r] == 1 and function.body.width(r) in _WIDTHS]
    return sorted(fit, key=lambda r: (accesses[r], r.name))


def _live(cfg: Cfg) -> Iterator[frozenset[Reg]]:
    """The registers that are live before each instruction."""
    at_start = liveness(cfg)
    for block in cfg.blocks:
        live = set().union(*(at_start.get(n, frozenset()) for n in block.successors))
        for instruction in reversed(cfg.instructions[block.start : block.end]):
            if instruction.guard is None:
                live -= set(defs(instruction))
            live |= uses(instruction)
            yield frozenset(live)


def demoted(text: str, *, count: int, threads: int) -> str:
    """The text with so many values in shared memory."""
    (function,) = parse(text).kernels
    chosen = candidates(function)[:count]
    instructions = function.body.instructions
    builder = Builder(text, function, instructions)
    slots = {width: [r for r in chosen if function.body.width(r) == width] for width in _WIDTHS}
    place: dict[Reg, str] = {}
    for width, registers in slots.items():
        if not registers:
            continue
        size, base, thread = (
            width // 8,
            builder.register("base", "b32"),
            builder.register("t", "b32"),
        )
        array = f"{base.removeprefix('%')}_{width}"
        builder.at_entry(
            f".shared .align 8 .b8 {array}[{size * threads * len(registers)}];",
            f"mov.u32 {thread}, %tid.x;", f"mov.u32 {base}, {array};",
            f"mad.lo.u32 {base}, {thread}, {size}, {base};",
        )  # fmt: skip
        place |= {r: f"[{base}+{size * threads * n}]" for n, r in enumerate(registers)}
    for number, instruction in enumerate(instructions):
        _rewrite(builder, number, instruction, text, place)
    return apply(text, builder.edits())


def _rewrite(
    builder: Builder, number: int, instruction: Instruction, text: str, place: dict[Reg, str]
) -> None:
    """Loads before an instruction what it reads of the demoted, and stores what it writes."""
    own = text[instruction.start : instruction.end]
    read = sorted(uses(instruction) & place.keys(), key=lambda r: r.name)
    for register in read:
        kind = f"b{builder.width(register)}"
        loaded = builder.register("d", kind)
        builder.before(number, f"ld.volatile.shared.{kind} {loaded}, {place[register]};")
        own = re.sub(rf"{re.escape(register.name)}(?!\w)", loaded, own)
    stored = [r for r in defs(instruction) if r in place]
    if read or stored:
        stores = (f"st.volatile.shared.b{builder.width(r)} {place[r]}, {r.name};" for r in stored)
        builder.replace(number, own, *stores)


# ---------------------------------------------------------------- what ptxas makes of it


def row(name: str, limit: int, how: str, text: str, arch: str, threads: int) -> tuple[str, ...]:
    """A line below `HEAD`."""
    (kernel,) = sass.read(text, arch, compared=False, briefly=True).kernels
    (function,) = parse(text).kernels
    resident = occupancy(
        arch, block_threads=threads, registers=kernel.registers, shared=kernel.shared
    ).fraction
    executed = executions(kernel, build(function.body), LOOP_FACTOR)
    number = int(arch.removeprefix("sm_"))
    predicted = f"{pace(kernel, number, resident, executed):.0f}" if resident else "-"
    local = (kernel.spill_stores or 0) + (kernel.spill_loads or 0)
    return (
        name, str(limit), how, str(kernel.registers), str(local), str(kernel.shared),
        f"{100 * resident:.0f} %", predicted,
    )  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.demotion", description=__doc__)
    parser.add_argument("--arch", default="sm_80")
    parser.add_argument("--threads", type=int, default=256)
    given = parser.parse_args(argv)
    rows: list[tuple[str, ...]] = [HEAD]
    for name, limit in KERNELS:
        text = of_block((PTX / f"{name}.ptx").read_text(), given.threads)
        made = {
            "ptxas, to local": limited(text, limit, spills_to_shared=False),
            "ptxas, to shared": limited(text, limit, spills_to_shared=True),
        }
        for count in DEMOTED:
            own = demoted(text, count=count, threads=given.threads)
            made[f"us, {count} values"] = limited(own, limit, spills_to_shared=False)
        rows.append(row(name, 0, "nobody", text, given.arch, given.threads))
        rows += (row(name, limit, how, one, given.arch, given.threads) for how, one in made.items())
    print("\n".join(lines(rows)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
