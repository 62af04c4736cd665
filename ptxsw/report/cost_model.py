"""The cost of a kernel in reports: figures, warp roles, operands of tensor cores, and the decision
of mode auto."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from ptxsw.ptx.documented import Documented
from ptxsw.report.fields import Count, Line, one_of, says


class Totals(Documented, frozen=True):
    """Data that a warp moves when it runs once through the kernel. Loops run as often as is known,
    or else 16 times. Accesses with unknown addresses do not count."""

    bytes: Annotated[Count, says("Bytes that lanes use in global memory.")]
    sectors: Annotated[Count, says("32-byte sectors of global and local memory.")]
    wavefronts: Annotated[Count, says("Passes through the banks of shared memory.")]


class Figures(Documented, frozen=True, omit_defaults=True):
    """Work of a warp that executes each block of a kernel's code once, without weighting loops.
    `check`, `analyze`, `optimize` and `predict` give the same figures. Ranges are [least, most]."""

    source: Annotated[
        Annotated[str, one_of("SASS", "PTX")],
        says("Source of the instructions: ptxas's output, with registers; or bounds from the PTX."),
    ]
    instructions: Annotated[tuple[float, float], says("Instructions that a warp executes.")]
    pipes: Annotated[Mapping[str, tuple[float, float]], says("Instructions by pipeline.")]
    wavefronts: Annotated[
        tuple[float, float],
        says("Passes of the memory pipe; for shared memory, through its banks."),
    ]
    sectors: Annotated[
        tuple[float, float],
        says("32-byte sectors in the first-level cache, of global and local memory."),
    ]
    unknown: Annotated[Count, says("Accesses with unknown addresses, which count as ranges.")]
    registers: Annotated[Count | None, says("Registers per thread.")] = None
    shared: Annotated[Count | None, says("Static shared memory per block, in bytes.")] = None


class RoleLoop(Documented, frozen=True, omit_defaults=True):
    """An innermost loop of a role. None: not known."""

    label: Annotated[str, says("Label of its header.")]
    line: Line
    work: Annotated[tuple[str, ...], says("Its work besides computing and waiting.")]
    bytes: Annotated[
        tuple[float, float] | None,
        says("Bytes that bulk copies move per iteration: [least, most]."),
    ] = None
    barriers: Annotated[Count | None, says("Number of mbarriers it waits for in turn.")] = None
    stages: Annotated[
        Count | None, says("Number of iterations by which copies may be ahead of their readers.")
    ] = None
    on_the_way: Annotated[
        Count | None, says("Maximum bytes of copies in flight, over all its mbarriers.")
    ] = None
    registers: Annotated[Count | None, says("Registers per thread, from setmaxnreg.")] = None
    at_least: Annotated[float | None, says("SM cycles per block and iteration.")] = None
    tiles: Annotated[
        Count | None,
        says("Tiles per iteration that pass the mbarriers shared by loops of several roles."),
    ] = None


class Role(Documented, frozen=True, omit_defaults=True):
    """Warps of a block that run the same loops, and their other work."""

    warps: Annotated[tuple[Count, ...], says("Their numbers in the block.")]
    loops: Annotated[tuple[RoleLoop, ...], says("Innermost loops, in the order of the PTX.")]
    work: Annotated[tuple[str, ...], says("Work outside of loops.")] = ()


class DescribedOperand(Documented, frozen=True, omit_defaults=True):
    """Operands in shared memory that tensor cores read through descriptors with the same layout."""

    instruction: Annotated[str, one_of("wgmma", "tcgen05.mma"), says("Instruction that reads it.")]
    matrix: Annotated[str, one_of("A", "B"), says("Operand.")]
    lines: Annotated[tuple[Line, ...], says("Lines of these instructions.")]
    swizzle: Annotated[
        Count | None, says("Bytes of a row in which chunks are permuted (the swizzle); 0 for none.")
    ] = None
    chunk: Annotated[Count, says("Bytes of a chunk.")] = 16
    stride: Annotated[Count | None, says("Bytes from a group of 8 rows to the next.")] = None


class Cost(Documented, frozen=True, omit_defaults=True):
    """Resources of a kernel in ptxas's output, and the work of a warp that runs through it once,
    with 16 iterations of each loop."""

    registers: Annotated[Count, says("Registers per thread.")]
    local: Annotated[Count, says("Spill bytes per thread in local memory, stored and loaded.")]
    shared: Annotated[Count, says("Static shared memory per block, in bytes.")]
    occupancy: Annotated[
        Mapping[str, float], says("Share of resident warps, by block size in threads.")
    ]
    instructions: Annotated[float, says("Instructions that a warp executes.")]
    wavefronts: Annotated[
        float, says("Wavefronts per warp; the minimum if an address is unknown before or after.")
    ]
    at_least: Annotated[float, says("SM cycles of its busiest resource.")]
    at_most: Annotated[
        float | None,
        says("SM cycles of all resources in sequence; null if there is tensor work, which is not "
             "modelled."),
    ]  # fmt: skip
    figures: Annotated[Figures | None, says("The same without weighting loops.")] = None


class Decision(Documented, frozen=True, omit_defaults=True):
    """Whether mode auto keeps the rewritten kernel, and why; absent if there was nothing to
    decide."""

    kept: Annotated[bool, says("Is the rewritten kernel kept?")]
    by: Annotated[
        Annotated[str, one_of("ptxas", "counts", "tuned")],
        says(
            "ptxas: its output for both versions; counts: the rewrites' own counts, without ptxas; "
            "tuned: measurements of ptxsw tune."
        ),
    ]
    reason: Annotated[str, says("Reason, with the figures that decide.")]
    before: Annotated[Cost | None, says("Cost of the original.")] = None
    after: Annotated[
        Cost | None, says("Cost of the version kept, or else of the one rejected.")
    ] = None
