"""What ptxsw found in a file and did to it, as frozen data, and what its JSON and schema say of it.

A field that is None was not computed, and is absent from the JSON, or is not known, and is null
there. Of the classes with `omit_defaults` msgspec leaves out what holds its default; what a factory
makes (`NULL`, `EMPTY`) is always written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, field

from ptxsw.ptx.documented import Documented
from ptxsw.ptx.failures import Failure
from ptxsw.report.access_model import Access as Access
from ptxsw.report.access_model import Carried as Carried
from ptxsw.report.access_model import Iteration as Iteration
from ptxsw.report.access_model import Outlook as Outlook
from ptxsw.report.access_model import Reuse as Reuse
from ptxsw.report.access_model import Row as Row
from ptxsw.report.cost_model import Cost as Cost
from ptxsw.report.cost_model import Decision as Decision
from ptxsw.report.cost_model import DescribedOperand as DescribedOperand
from ptxsw.report.cost_model import Figures as Figures
from ptxsw.report.cost_model import Role as Role
from ptxsw.report.cost_model import RoleLoop as RoleLoop
from ptxsw.report.cost_model import Totals as Totals
from ptxsw.report.fields import (
    EMPTY,
    Count,
    Delta,
    Detail,
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


class Proof(Documented, frozen=True):
    """Why a rewrite is right: guards are tested at run time."""

    status: Status
    assumptions: Annotated[
        tuple[str, ...], says("What it takes for granted, by the names of `optimize --assume`.")
    ] = ()
    guards: Annotated[tuple[str, ...], says("What is tested at run time.")] = ()


class Part(Documented, frozen=True):
    """Where an element of a load comes from: element `element` of the load at `source_line` in lane
    i + `delta`, or `delta` - i where `mirror` is set."""

    source_line: Line
    element: Annotated[Count, says("Of the load at source_line, from 0.")]
    delta: Delta
    mirror: Annotated[bool, says("The source is lane delta - i, not i + delta.")]


class Rewrite(Documented, frozen=True, omit_defaults=True, kw_only=True):
    """An instruction that was rewritten. Of a shuffle or a copy: a load that takes its value from
    the load at `source_line` of lane i + `delta`; others have no source, and a `detail`."""

    line: Line
    source_line: Annotated[Line | None, says("Of the load whose value it takes.")] = None
    delta: Annotated[Delta | None, says("0 is a register copy.")] = None
    scheme: Annotated[str | None, says("The code of a shuffle: paper, early or halo.")] = None
    form: Annotated[str | None, says("The code around it: keep, versioned or uniform.")] = None
    proof: Annotated[Proof, says("Why it is right.")]
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


class Refusal(Documented, frozen=True):
    """An instruction that was left alone. Null: not known, as where no source was in sight."""

    line: Line
    source_line: Annotated[Line | None, says("Of the load whose value it would have taken.")]
    delta: Delta | None
    reason: Annotated[str, says("Why.")]
    rewrite: Name = "shuffle"
    detail: Detail = field(default_factory=dict)


class Loop(Documented, frozen=True):
    """A loop that the lanes of a warp may leave after different numbers of iterations."""

    line: Annotated[Line, says("Of its first instruction.")]
    form: Annotated[str, one_of("uniform", "keep"), says("What became of it.")]
    reason: Annotated[str | None, says("Why it stays as it is; null where it does not.")]


class RewriteChoice(Documented, frozen=True):
    """What became of one rewrite in a kernel."""

    rewrite: Name
    changes: Annotated[Count, says("Those that stay.")]
    reason: Annotated[str, says("Why they stay, or the most frequent reason why there are none.")]


class Choice(Documented, frozen=True, omit_defaults=True):
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
    reason: Annotated[str, says("Why shuffles were made, or were not.")]
    rewrites: Annotated[tuple[RewriteChoice, ...], says("What became of each.")] = EMPTY


class SourceEdit(Documented, frozen=True):
    """What to write in a line of the source, in the place of what stands there once."""

    line: Annotated[Positive, says("Of the file that the finding names.")]
    old: Annotated[str, says("What stands there once.")]
    new: Annotated[str, says("What to write in its place.")]


class Finding(Documented, frozen=True, omit_defaults=True):
    """What a rule of `ptxsw.findings` has to say of a kernel."""

    rule: Annotated[str, Meta(pattern="^ptxsw-[a-z-]+$"), says("`ptxsw rule` explains it.")]
    level: Annotated[str, one_of(*reversed(LEVELS)), says("How bad it is.")]
    kernel: Annotated[str, says("As in the PTX.")]
    line: Line
    column: Annotated[Positive, says("Of the PTX text.")]
    measure: Annotated[str, says("The figures in a few words: 32 sectors, not 4.")]
    what: Annotated[str, says("What it is, and why it costs.")]
    advice: Annotated[str, says("What to do.")]
    weight: Annotated[
        Weight,
        says(
            "The extra cost for each warp that runs through the kernel. One unit is a quarter of a "
            "cycle: the time of an instruction, or of a sector of 32 bytes in the L1 cache."
        ),
    ]
    file: Annotated[str | None, says("Of the source, as .file names it.")] = None
    source_line: Annotated[Positive | None, says("Of `file`.")] = None
    source_column: Annotated[Positive | None, says("Of `file`.")] = None
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
    edits: Annotated[
        tuple[SourceEdit, ...],
        says("What mends it, where the source says literally what to change."),
    ] = ()


class Verdict(Documented, frozen=True, omit_defaults=True):
    """What a rule of correctness says of a kernel."""

    verdict: Annotated[
        str,
        one_of("absent", "found", "unknown"),
        says("Absent is a proof for all launches with the block that is named."),
    ]
    reason: Annotated[str, says("Why.")] = ""
    condition: Annotated[str, says("What callers have to keep to: ldc >= nx.")] = ""
    assumptions: Annotated[tuple[str, ...], says("What is taken for granted.")] = ()


class Kernel(Documented, frozen=True, omit_defaults=True):
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
    instructions: Annotated[Count | None, says("Of its PTX.")] = None
    accesses: Annotated[tuple[Access, ...] | None, says("To memory, in program order.")] = None
    rewrites: Annotated[tuple[Rewrite, ...] | None, says("What was changed.")] = None
    refusals: Annotated[tuple[Refusal, ...] | None, says("What was left alone, and why.")] = None
    rows: Annotated[tuple[Row, ...] | None, says("Groups of accesses by their base.")] = None
    readable: Annotated[
        str | None, says("The C++ name behind a mangled one, without parameters.")
    ] = None
    block: Annotated[
        tuple[Positive, Positive, Positive] | None,
        says("The shape of the block for which accesses are described, where it is known."),
    ] = None
    choice: Annotated[Choice | None, says("Why its rewrites are these.")] = None
    loops: Annotated[
        tuple[Loop, ...] | None,
        says(
            "Where loops were to become uniform: those that lanes may leave after different "
            "numbers of iterations."
        ),
    ] = None
    decision: Annotated[Decision | None, says("Of mode auto, by what ptxas made.")] = None
    findings: Annotated[
        tuple[Finding, ...] | None,
        says("What costs this kernel most, and what to do about it; the worst first."),
    ] = None
    verdicts: Annotated[
        Mapping[str, Verdict] | None,
        says("By rule, where it was asked whether the kernel is right."),
    ] = None
    totals: Annotated[Totals | None, says("What one warp moves in all.")] = None
    figures: Annotated[Figures | None, says("What one warp does, no loop weighed.")] = None
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


class Contents(Documented, frozen=True, omit_defaults=True):
    """What there is to say of one PTX file. None: not known."""

    ptxsw: Annotated[str, says("The version of ptxsw that wrote the report.")]
    file: Annotated[str, says("The name of the PTX file.")]
    arch: Annotated[str | None, says("The target, as in sm_80.")]
    seconds: Annotated[Annotated[float, Meta(ge=0)] | None, says("That it took.")]
    kernels: Annotated[tuple[Kernel, ...], says("In the order of the text.")] = EMPTY
    warning: Annotated[
        str | None,
        says(
            "What a reader must know first: the result is unfit for use, ptxas refused it, or "
            "kernels were not finished in time. Absent where there is nothing of the kind."
        ),
    ] = None
