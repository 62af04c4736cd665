"""What ptxsw found in a file and did to it, as frozen data, and what its JSON and schema say of it.

A field that is None was not computed, and is absent from the JSON, or is not known, and is null
there. Of the classes with `omit_defaults` msgspec leaves out what holds its default; what a factory
makes (`NULL`, `EMPTY`) is always written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct, field

from ptxsw.ptx.failures import Failure
from ptxsw.report.cost_model import Cost as Cost
from ptxsw.report.cost_model import Decision as Decision
from ptxsw.report.cost_model import DescribedOperand as DescribedOperand
from ptxsw.report.cost_model import Figures as Figures
from ptxsw.report.cost_model import Role as Role
from ptxsw.report.cost_model import RoleLoop as RoleLoop
from ptxsw.report.cost_model import Totals as Totals
from ptxsw.report.fields import (
    EMPTY,
    NULL,
    Count,
    Delta,
    Detail,
    Lanes,
    Line,
    Name,
    Positive,
    Share,
    Status,
    Weight,
    one_of,
    says,
)

SCHEMA = 2

LEVELS = ("note", "warning", "error")
"""Of findings, the mildest first."""


class Reuse(Struct, frozen=True):
    """An earlier load of the same bytes: by lane i + `delta`, or by the same thread where 0."""

    line: Line
    delta: Delta


class Carried(Struct, frozen=True):
    """What lane i + `delta` fetched at `line` so many iterations ago."""

    line: Line
    delta: Delta
    loop: Annotated[str, says("The label of its header.")]
    iterations: Annotated[Positive, says("1 is the iteration before.")] = field(name="turns")


class Outlook(Struct, frozen=True):
    """What `optimize --mode force` does with a global load: it becomes a shuffle or a copy, is the
    source of others, or stays as it is."""

    action: Annotated[str, one_of("shuffle", "copy", "source", "keep")]
    source_line: Annotated[Line | None, says("Whose value it takes or would have taken.")]
    delta: Delta | None
    proof: Annotated[Status | None, says("Null where it is kept.")]
    reason: Annotated[str | None, says("Why it is kept although another load has its bytes.")]


class Iteration(Struct, frozen=True):
    """The figures of an access in one iteration of a loop, in which a register of the address has
    this value."""

    value: int
    lane_stride: int | None
    sectors: Positive | None
    bank_conflicts: Lanes | None


class Access(Struct, frozen=True, omit_defaults=True):
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
    optimizer: Outlook | None = None
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


class Row(Struct, frozen=True):
    """Accesses whose addresses differ by constants only."""

    name: str
    address: Annotated[str, says("That of offset 0.")]
    lines: tuple[Line, ...]


class Proof(Struct, frozen=True):
    """Why a rewrite is right: guards are tested at run time."""

    status: Status
    assumptions: tuple[str, ...] = ()
    guards: tuple[str, ...] = ()


class Part(Struct, frozen=True):
    """Where an element of a load comes from: element `element` of the load at `source_line` in lane
    i + `delta`, or `delta` - i where `mirror` is set."""

    source_line: Line
    element: Count
    delta: Delta
    mirror: bool


class Rewrite(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """An instruction that was rewritten. Of a shuffle or a copy: a load that takes its value from
    the load at `source_line` of lane i + `delta`; others have no source, and a `detail`."""

    line: Line
    source_line: Line | None = None
    delta: Annotated[Delta | None, says("0 is a register copy.")] = None
    scheme: str | None = None
    form: str | None = None
    proof: Proof
    parts: Annotated[
        tuple[Part, ...],
        Meta(min_length=1),
        says(
            "For each element of the load where it comes from; absent where source_line and "
            "delta say it all."
        ),
    ] = ()
    rewrite: Name
    detail: Detail


class Refusal(Struct, frozen=True):
    """An instruction that was left alone. Null: not known, as where no source was in sight."""

    line: Line
    source_line: Line | None
    delta: Delta | None
    reason: str
    rewrite: Name = "shuffle"
    detail: Detail = field(default_factory=dict)


class Loop(Struct, frozen=True):
    """A loop that the lanes of a warp may leave after different numbers of iterations."""

    line: Annotated[Line, says("Of its first instruction.")]
    form: Annotated[str, one_of("uniform", "keep")]
    reason: Annotated[str | None, says("Why it stays as it is; null where it does not.")]


class RewriteChoice(Struct, frozen=True):
    """What became of one rewrite in a kernel."""

    rewrite: str
    changes: Annotated[Count, says("Those that stay.")]
    reason: Annotated[str, says("Why they stay, or the most frequent reason why there are none.")]


class Choice(Struct, frozen=True, omit_defaults=True):
    """Why the rewrites of a kernel are these. The reason is that of shuffles; `rewrites` has one of
    each rewrite that was considered and has something to say."""

    by: Annotated[
        Annotated[str, one_of("asked", "tuned", "model")],
        says("By force, measured by ptxsw tune, or left to what ptxas makes of it."),
    ]
    gain: Annotated[
        float | None,
        says("Percent that the kernel gained where it was measured; null: not known."),
    ]
    reason: str
    rewrites: tuple[RewriteChoice, ...] = EMPTY


class Finding(Struct, frozen=True, omit_defaults=True):
    """What a rule of `ptxsw.findings` has to say of a kernel."""

    rule: Annotated[str, Meta(pattern="^ptxsw-[a-z-]+$")]
    level: Annotated[str, one_of(*reversed(LEVELS))]
    kernel: Annotated[str, says("As in the PTX.")]
    line: Line
    column: Annotated[Positive, says("Of the PTX text.")]
    measure: Annotated[str, says("The figures in a few words: 32 sectors, not 4.")]
    what: Annotated[str, says("What it is, and why it costs.")]
    advice: Annotated[str, says("What to do.")]
    weight: Annotated[
        Weight,
        says(
            "What it costs a warp that runs once through the kernel, in quarters of a cycle: the "
            "time of an instruction, or of a sector of 32 bytes in the L1 cache."
        ),
    ]
    file: Annotated[str | None, says("Of the source, as .file names it.")] = None
    source_line: Positive | None = None
    source_column: Positive | None = None
    lines: Annotated[tuple[Line, ...], says("All instructions that it speaks of.")] = EMPTY
    gain: Annotated[
        tuple[Share, Share] | None,
        says(
            "By which the time of the busiest resource falls once this is mended, at least and at "
            "most: data may lie in the L2 cache or in memory. Absent where it is not known."
        ),
    ] = None
    figures: Annotated[Mapping[str, Any], says("The figures by name.")] = field(
        default_factory=lambda: {}
    )
    condition: Annotated[
        str | None, says("What nobody declares and the fault needs: blockDim.x > 32.")
    ] = None
    witness: Annotated[
        Mapping[str, Any] | None,
        says("A launch that shows the fault, as `ptxsw run --launch` takes it."),
    ] = None
    threads: Annotated[tuple[str, ...], says("The threads that the fault needs.")] = ()
    drawing: Annotated[tuple[str, ...], says("The fault as lines for a terminal.")] = ()


class Verdict(Struct, frozen=True, omit_defaults=True):
    """What a rule of correctness says of a kernel."""

    verdict: Annotated[
        str,
        one_of("absent", "found", "unknown"),
        says("Absent is a proof for all launches with the block that is named."),
    ]
    reason: Annotated[str, says("Why.")] = ""
    condition: Annotated[str, says("What callers have to keep to: ldc >= nx.")] = ""
    assumptions: Annotated[tuple[str, ...], says("What is taken for granted.")] = ()


class Kernel(Struct, frozen=True, omit_defaults=True):
    """One kernel or function. None: not computed; but `mean_delta` is not known (has no value)
    where there are neither shuffles nor copies."""

    name: Annotated[str, says("As in the PTX.")]
    loads: Annotated[
        Count, says("Static global loads, generic ones included where they may be global.")
    ]
    shuffles: Annotated[Count | None, says("Loads served by a shuffle.")] = None
    copies: Annotated[Count | None, says("Loads served by a register of the same lane.")] = None
    mean_delta: Annotated[
        Annotated[float, Meta(ge=0, le=31)] | None,
        says("Mean |delta| over shuffles and copies; null where there are none."),
    ] = None
    instructions: Count | None = None
    accesses: tuple[Access, ...] | None = None
    rewrites: tuple[Rewrite, ...] | None = None
    refusals: tuple[Refusal, ...] | None = None
    rows: tuple[Row, ...] | None = None
    readable: Annotated[
        str | None, says("The C++ name behind a mangled one, without parameters.")
    ] = None
    block: Annotated[
        tuple[Positive, Positive, Positive] | None,
        says("The shape of the block that was asked for."),
    ] = None
    choice: Choice | None = None
    loops: Annotated[
        tuple[Loop, ...] | None,
        says(
            "Where loops were to become uniform: those that lanes may leave after different "
            "numbers of iterations."
        ),
    ] = None
    decision: Decision | None = None
    findings: Annotated[
        tuple[Finding, ...] | None,
        says("What costs this kernel most, and what to do about it; the worst first."),
    ] = None
    verdicts: Annotated[
        Mapping[str, Verdict] | None,
        says("By rule, where it was asked whether the kernel is right."),
    ] = None
    totals: Totals | None = None
    figures: Figures | None = None
    roles: Annotated[
        tuple[Role, ...] | None, says("Of warps, where some run loops that others do not.")
    ] = None
    descriptors: Annotated[
        tuple[DescribedOperand, ...] | None,
        says("What tensor cores read in shared memory, and how it lies."),
    ] = None
    failed: Annotated[
        Failure | None, says("Why ptxsw could not finish it. Absent where it could.")
    ] = None


class Contents(Struct, frozen=True, omit_defaults=True):
    """What there is to say of one PTX file. None: not known."""

    ptxsw: Annotated[str, says("The version of ptxsw that wrote the report.")]
    file: str
    arch: Annotated[str | None, says("The target, as in sm_80.")]
    seconds: Annotated[float, Meta(ge=0)] | None
    kernels: tuple[Kernel, ...] = EMPTY
    warning: Annotated[
        str | None,
        says(
            "What a reader must know first: the result is unfit for use, ptxas refused it, or "
            "kernels were not finished in time. Absent where there is nothing of the kind."
        ),
    ] = None
