"""What is known of the memory accesses of a kernel, as frozen data (`ptxsw.report.model`)."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from ptxsw.ptx.documented import Documented
from ptxsw.report.fields import (
    EMPTY,
    NULL,
    Count,
    Delta,
    Lanes,
    Line,
    Positive,
    Share,
    Status,
    Weight,
    one_of,
    says,
)


class Reuse(Documented, frozen=True):
    """An earlier load of the same bytes: by lane i + `delta`, or by the same thread where 0."""

    line: Line
    delta: Delta


class Carried(Documented, frozen=True):
    """What lane i + `delta` fetched at `line` so many iterations ago."""

    line: Line
    delta: Delta
    loop: Annotated[str, says("The label of its header.")]
    iterations: Annotated[Positive, says("1 is the iteration before.")] = field(name="turns")


class Outlook(Documented, frozen=True):
    """What `optimize --mode force` does with a global load: it becomes a shuffle or a copy, is the
    source of others, or stays as it is."""

    action: Annotated[
        str,
        one_of("shuffle", "copy", "source", "keep"),
        says("Becomes a shuffle or a copy, gives its value to others, or stays."),
    ]
    source_line: Annotated[Line | None, says("Whose value it takes or would have taken.")]
    delta: Delta | None
    proof: Annotated[Status | None, says("Null where it is kept.")]
    reason: Annotated[str | None, says("Why it is kept although another load has its bytes.")]


class Iteration(Documented, frozen=True):
    """The figures of an access in one iteration of a loop, in which a register of the address has
    this value."""

    value: Annotated[int, says("Of the register that `changing` names.")]
    lane_stride: Annotated[int | None, says("Bytes from one lane's address to the next lane's.")]
    sectors: Annotated[Positive | None, says("32-byte sectors that a full warp touches.")]
    bank_conflicts: Annotated[
        Lanes | None, says("Shared memory: passes that a warp needs; 1 is no conflict.")
    ]


class Access(Documented, frozen=True, omit_defaults=True):
    """One memory access in program order."""

    line: Annotated[Line, says("Of the PTX text.")]
    source: Annotated[str | None, says("file:line of the source, from .loc.")]
    kind: Annotated[str, says("load, store, atomic, …")]
    space: Annotated[str, says("global, shared, local, const, param or generic.")]
    opcode: Annotated[str, says("With its modifiers, as written.")]
    bytes: Annotated[Count | None, says("Per lane.")]
    address: Annotated[str | None, says("In terms of parameters and special registers.")]
    lane_stride: Annotated[int | None, says("Bytes from one lane's address to the next lane's.")]
    sectors: Annotated[
        Count | None,
        says("32-byte sectors that a full warp touches; of the warps of a block the most."),
    ]
    uniform: Annotated[bool | None, says("One address for all lanes of a warp.")]
    type: Annotated[str | None, says("Of an element, as in f32.")] = NULL
    elements: Annotated[Positive | None, says("More than 1 for a vector.")] = NULL
    index: Annotated[str | None, says("The address as base[index], in elements of the access.")] = (
        NULL
    )
    lane_step: Annotated[
        str | None, says("lane_stride as text, where it is a symbolic value: 4*param_0.")
    ] = NULL
    efficiency: Annotated[Share | None, says("Bytes asked for over bytes of its sectors.")] = NULL
    bank_conflicts: Annotated[
        Lanes | None, says("Shared memory: passes that a warp needs; 1 is no conflict.")
    ] = NULL
    row: Annotated[str | None, says("The name of its row in the kernel's rows.")] = NULL
    offset: Annotated[int | None, says("Bytes from the start of the row.")] = NULL
    lanes: Annotated[
        Annotated[tuple[int, ...], Meta(min_length=1, max_length=32)] | None,
        says(
            "Bytes from lane 0's address, for each lane of a warp; null where lane_stride says "
            "it, or not known."
        ),
    ] = NULL
    reuse: Annotated[
        tuple[Reuse, ...], says("Earlier loads of the same bytes, nearest lane first.")
    ] = EMPTY
    optimizer: Annotated[
        Outlook | None, says("What mode force does with it; of global loads alone.")
    ] = None
    carried: Annotated[
        tuple[Carried, ...],
        says(
            "Loads of the same bytes in an earlier iteration of a loop: one for each loop, the "
            "innermost first."
        ),
    ] = EMPTY
    phase: Annotated[
        Annotated[int, Meta(ge=0, le=127)] | None,
        says(
            "Bytes by which lane 0 is past the start of a 128-byte line, where all that only the "
            "run knows is a multiple of 128 bytes."
        ),
    ] = NULL
    changing: Annotated[str | None, says("The register whose value tells `turns` apart.")] = None
    iterations: Annotated[
        tuple[Iteration, ...],
        says(
            "One for each iteration of a loop in which a register such as s in `s *= 2` decides "
            "the stride; sectors, efficiency and bank_conflicts of the access are those of the "
            "worst. Absent for other accesses."
        ),
    ] = field(default=(), name="turns")
    contention: Annotated[
        Lanes | None,
        says(
            "Atomic operations on shared memory: lanes that meet in one word, and wait for each "
            "other; 1 where none do. Absent for other accesses, and where it is not known."
        ),
    ] = None
    loop_depth: Annotated[Count | None, says("Loops around it.")] = None
    over_stores: Annotated[
        str | None,
        says(
            "What read-only-loads and scalar-replacement make of it in mode force, or why they "
            "leave what an iteration of a loop accesses again. Absent for other accesses."
        ),
    ] = None
    weight: Annotated[
        Weight | None,
        says(
            "What it costs one warp, in the units of a finding's weight. Absent where it is not "
            "known."
        ),
    ] = None
    wavefronts: Annotated[
        float | None,
        says(
            "Passes of the memory pipe for a warp, on average over some warps; of shared memory, "
            "through its banks. Absent where it is not known."
        ),
    ] = None
    hidden: Annotated[
        str | None, says("Why the sectors are not known: `index loaded at line 40`.")
    ] = None


class Row(Documented, frozen=True):
    """Accesses whose addresses differ by constants only."""

    name: Annotated[str, says("A, B, … in the order of the text.")]
    address: Annotated[str, says("That of offset 0.")]
    lines: Annotated[tuple[Line, ...], says("Of the PTX: its accesses.")]
