"""The memory accesses of a kernel, as frozen data (`ptxsw.report.model`)."""

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
    """An earlier load of the same bytes: by lane i + `delta`, or by the same thread if 0."""

    line: Line
    delta: Delta


class Carried(Documented, frozen=True):
    """A load of the same bytes by lane i + `delta` at `line`, some iterations ago."""

    line: Line
    delta: Delta
    loop: Annotated[str, says("Label of the loop header.")]
    iterations: Annotated[Positive, says("Number of iterations ago; 1 is the previous one.")] = (
        field(name="turns")
    )


class Outlook(Documented, frozen=True):
    """What `optimize --mode force` does with a global load: it becomes a shuffle or a copy, is the
    source of others, or stays as it is."""

    action: Annotated[
        str,
        one_of("shuffle", "copy", "source", "keep"),
        says("It becomes a shuffle or a copy, is the source of others, or stays."),
    ]
    source_line: Annotated[
        Line | None, says("Line of the load whose value it takes or would have taken.")
    ]
    delta: Delta | None
    proof: Annotated[Status | None, says("Null if it is kept.")]
    reason: Annotated[str | None, says("Why it is kept although another load reads its bytes.")]


class Iteration(Documented, frozen=True):
    """The figures of an access in one iteration of a loop, in which a register of the address has
    this value."""

    value: Annotated[int, says("Value of the register that `changing` names.")]
    lane_stride: Annotated[int | None, says("Bytes from one lane's address to the next lane's.")]
    sectors: Annotated[Positive | None, says("32-byte sectors that a full warp touches.")]
    bank_conflicts: Annotated[
        Lanes | None, says("Shared memory: passes per warp; 1 is no conflict.")
    ]


class Access(Documented, frozen=True, omit_defaults=True):
    """One memory access in program order."""

    line: Annotated[Line, says("Line of the PTX.")]
    source: Annotated[str | None, says("file:line of the source, from .loc.")]
    kind: Annotated[str, says("load, store, atomic, …")]
    space: Annotated[str, says("global, shared, local, const, param or generic.")]
    opcode: Annotated[str, says("Opcode with its modifiers, as written.")]
    bytes: Annotated[Count | None, says("Bytes per lane.")]
    address: Annotated[str | None, says("Address in terms of parameters and special registers.")]
    lane_stride: Annotated[int | None, says("Bytes from one lane's address to the next lane's.")]
    sectors: Annotated[
        Count | None,
        says("32-byte sectors that a full warp touches; the maximum over the warps of a block."),
    ]
    uniform: Annotated[bool | None, says("One address for all lanes of a warp.")]
    type: Annotated[str | None, says("Type of an element, such as f32.")] = NULL
    elements: Annotated[Positive | None, says("More than 1 for a vector.")] = NULL
    index: Annotated[str | None, says("The address as base[index], in elements of the access.")] = (
        NULL
    )
    lane_step: Annotated[str | None, says("lane_stride as text, if it is symbolic: 4*param_0.")] = (
        NULL
    )
    efficiency: Annotated[Share | None, says("Used bytes divided by the bytes of its sectors.")] = (
        NULL
    )
    bank_conflicts: Annotated[
        Lanes | None, says("Shared memory: passes per warp; 1 is no conflict.")
    ] = NULL
    row: Annotated[str | None, says("Name of its row in the kernel's rows.")] = NULL
    offset: Annotated[int | None, says("Bytes from the start of the row.")] = NULL
    lanes: Annotated[
        Annotated[tuple[int, ...], Meta(min_length=1, max_length=32)] | None,
        says(
            "Offset in bytes from lane 0's address, for each lane of a warp; null if lane_stride "
            "suffices, or unknown."
        ),
    ] = NULL
    reuse: Annotated[
        tuple[Reuse, ...], says("Earlier loads of the same bytes, nearest lane first.")
    ] = EMPTY
    optimizer: Annotated[
        Outlook | None, says("What mode force does with it; only for global loads.")
    ] = None
    carried: Annotated[
        tuple[Carried, ...],
        says(
            "Loads of the same bytes in an earlier iteration of a loop: one for each loop, "
            "innermost first."
        ),
    ] = EMPTY
    phase: Annotated[
        Annotated[int, Meta(ge=0, le=127)] | None,
        says(
            "Offset of lane 0 in a 128-byte line, assuming that all run-time values are multiples "
            "of 128 bytes."
        ),
    ] = NULL
    changing: Annotated[
        str | None, says("The register whose value distinguishes the entries of `turns`.")
    ] = None
    iterations: Annotated[
        tuple[Iteration, ...],
        says(
            "One entry for each iteration of a loop in which a register such as s in `s *= 2` "
            "determines the stride; sectors, efficiency and bank_conflicts of the access are those "
            "of the worst iteration. Absent for other accesses."
        ),
    ] = field(default=(), name="turns")
    contention: Annotated[
        Lanes | None,
        says(
            "Atomic operations on shared memory: lanes that access the same word and wait for each "
            "other; 1 if none do. Absent for other accesses, and if unknown."
        ),
    ] = None
    loop_depth: Annotated[Count | None, says("Number of loops around it.")] = None
    over_stores: Annotated[
        str | None,
        says(
            "What read-only-loads and scalar-replacement do with it in mode force, or why they "
            "leave repeated accesses of a loop alone. Absent for other accesses."
        ),
    ] = None
    weight: Annotated[
        Weight | None,
        says("Cost per warp, in the units of a finding's weight. Absent if unknown."),
    ] = None
    wavefronts: Annotated[
        float | None,
        says(
            "Passes of the memory pipe per warp, averaged over some warps; for shared memory, "
            "through its banks. Absent if unknown."
        ),
    ] = None
    hidden: Annotated[
        str | None, says("Why the sectors are unknown: `index loaded at line 40`.")
    ] = None


class Row(Documented, frozen=True):
    """Accesses whose addresses differ by constants only."""

    name: Annotated[str, says("A, B, … in the order of the PTX.")]
    address: Annotated[str, says("Address of offset 0.")]
    lines: Annotated[tuple[Line, ...], says("PTX lines of its accesses.")]
