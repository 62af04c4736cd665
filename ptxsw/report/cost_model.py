"""What a kernel costs, as reports give it: figures, roles of warps, what tensor cores read,
and what mode auto decided."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from ptxsw.ptx.documented import Documented
from ptxsw.report.fields import Count, Line, one_of, says


class Totals(Documented, frozen=True):
    """What one warp moves that runs once through the kernel, loops taken as often as is known, or
    16 times. Accesses whose addresses are not known are left out."""

    bytes: Annotated[Count, says("That lanes ask for in global memory.")]
    sectors: Annotated[Count, says("Of 32 bytes, of global and local memory.")]
    wavefronts: Annotated[Count, says("Passes through the banks of shared memory.")]


class Figures(Documented, frozen=True, omit_defaults=True):
    """What a warp does that executes each block of a kernel's code once: no loop is weighed.
    `check`, `analyze`, `optimize` and `predict` give the same figures. Ranges are [least, most]."""

    source: Annotated[
        Annotated[str, one_of("SASS", "PTX")],
        says("Of the instructions: what ptxas made, which tells registers, too; or bounds by PTX."),
    ]
    instructions: Annotated[tuple[float, float], says("That a warp executes.")]
    pipes: Annotated[
        Mapping[str, tuple[float, float]], says("Instructions by the pipeline that runs them.")
    ]
    wavefronts: Annotated[
        tuple[float, float], says("Passes of the memory pipe; of shared memory, through its banks.")
    ]
    sectors: Annotated[
        tuple[float, float],
        says("Of 32 bytes, in the first-level cache: of global and local memory."),
    ]
    unknown: Annotated[Count, says("Accesses whose addresses are not known, so that they range.")]
    registers: Annotated[Count | None, says("Of a thread.")] = None
    shared: Annotated[Count | None, says("Bytes of a block, static ones.")] = None


class RoleLoop(Documented, frozen=True, omit_defaults=True):
    """An innermost loop of a role. None: not known."""

    label: Annotated[str, says("Of its header.")]
    line: Line
    work: Annotated[tuple[str, ...], says("What it does beside computing and waiting.")]
    bytes: Annotated[
        tuple[float, float] | None, says("That bulk copies move in an iteration: [least, most].")
    ] = None
    barriers: Annotated[
        Count | None, says("How many mbarriers it waits for, one after the other.")
    ] = None
    stages: Annotated[
        Count | None, says("How many iterations ahead of their readers copies may be.")
    ] = None
    on_the_way: Annotated[
        Count | None, says("Bytes of copies that all its mbarriers wait for at most.")
    ] = None
    registers: Annotated[Count | None, says("Of a thread, by setmaxnreg.")] = None
    at_least: Annotated[
        float | None, says("Cycles of a multiprocessor in which a block does an iteration.")
    ] = None
    tiles: Annotated[
        Count | None, says("That pass the mbarriers which loops of roles share, in an iteration.")
    ] = None


class Role(Documented, frozen=True, omit_defaults=True):
    """Warps of a block that run the same loops, and what they do where they run none."""

    warps: Annotated[tuple[Count, ...], says("Their numbers in the block.")]
    loops: Annotated[tuple[RoleLoop, ...], says("The innermost ones, in the order of the text.")]
    work: Annotated[tuple[str, ...], says("What they do outside of loops.")] = ()


class DescribedOperand(Documented, frozen=True, omit_defaults=True):
    """Operands that tensor cores read in shared memory by descriptors that say the same."""

    instruction: Annotated[str, one_of("wgmma", "tcgen05.mma"), says("What reads it.")]
    matrix: Annotated[str, one_of("A", "B"), says("Which operand it is.")]
    lines: Annotated[tuple[Line, ...], says("Of these instructions.")]
    swizzle: Annotated[
        Count | None, says("Bytes of a row in which chunks are permuted; 0 for none.")
    ] = None
    chunk: Annotated[Count, says("Bytes of such a chunk.")] = 16
    stride: Annotated[Count | None, says("Bytes from 8 rows to the next 8.")] = None


class Cost(Documented, frozen=True, omit_defaults=True):
    """What a kernel takes, by the code that ptxas makes of it; what a warp does that runs through
    it once, each loop taken 16 times."""

    registers: Annotated[Count, says("Of a thread.")]
    local: Annotated[Count, says("Bytes that a thread spills to local memory, stored and loaded.")]
    shared: Annotated[Count, says("Bytes of a block, static ones.")]
    occupancy: Annotated[
        Mapping[str, float], says("Share of resident warps, by the threads of a block.")
    ]
    instructions: Annotated[float, says("That a warp executes.")]
    wavefronts: Annotated[
        float, says("The fewest, where addresses are not known of an access before or after.")
    ]
    at_least: Annotated[float, says("Cycles of a multiprocessor that its busiest resource takes.")]
    at_most: Annotated[
        float | None,
        says("Cycles of a multiprocessor that all resources take one after the other; null where "
             "there is tensor work, which is not modelled."),
    ]  # fmt: skip
    figures: Annotated[Figures | None, says("The same with no loop weighed.")] = None


class Decision(Documented, frozen=True, omit_defaults=True):
    """Whether mode auto keeps what was made of the kernel, and why; absent where there was nothing
    to decide."""

    kept: Annotated[bool, says("Does what was made stay?")]
    by: Annotated[
        Annotated[str, one_of("ptxas", "counts", "tuned")],
        says(
            "What ptxas makes of both texts; where it cannot be asked, what the rewrites count "
            "themselves; or what ptxsw tune measured."
        ),
    ]
    reason: Annotated[str, says("Why, with the figures that decide.")]
    before: Annotated[Cost | None, says("Of the kernel as it was.")] = None
    after: Annotated[Cost | None, says("Of what is kept; where nothing is, of what was not.")] = (
        None
    )
