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
        tuple[str, ...], says("Assumptions, by the names of `optimize --assume`.")
    ] = ()
    guards: Annotated[tuple[str, ...], says("Conditions tested at run time.")] = ()


class Part(Documented, frozen=True):
    """The source of an element of a load: element `element` of the load at `source_line` in lane
    i + `delta`, or `delta` - i if `mirror` is set."""

    source_line: Line
    element: Annotated[Count, says("Element of the load at source_line, from 0.")]
    delta: Delta
    mirror: Annotated[bool, says("The source is lane delta - i, not i + delta.")]


class Rewrite(Documented, frozen=True, omit_defaults=True, kw_only=True):
    """An instruction that was rewritten. For a shuffle or a copy: a load that takes its value from
    the load at `source_line` in lane i + `delta`. Others have no source, but a `detail`."""

    line: Line
    source_line: Annotated[Line | None, says("Line of the load whose value it takes.")] = None
    delta: Annotated[Delta | None, says("Lane distance; 0 is a register copy.")] = None
    scheme: Annotated[str | None, says("The code of a shuffle: paper, early or halo.")] = None
    form: Annotated[str | None, says("The surrounding code: keep, versioned or uniform.")] = None
    proof: Annotated[Proof, says("Why it is right.")]
    parts: Annotated[
        tuple[Part, ...],
        Meta(min_length=1),
        says(
            "The source of each element of the load; absent if source_line and delta apply to "
            "all of them."
        ),
    ] = ()
    rewrite: Name
    detail: Detail


class Refusal(Documented, frozen=True):
    """An instruction that was left alone. Null: unknown, for example without a source."""

    line: Line
    source_line: Annotated[Line | None, says("Line of the load whose value it would have taken.")]
    delta: Delta | None
    reason: Annotated[str, says("Why.")]
    rewrite: Name = "shuffle"
    detail: Detail = field(default_factory=dict)


class Loop(Documented, frozen=True):
    """A loop that the lanes of a warp may leave after different numbers of iterations."""

    line: Annotated[Line, says("Line of its first instruction.")]
    form: Annotated[str, one_of("uniform", "keep"), says("Its form after the rewrite.")]
    reason: Annotated[str | None, says("Why it stays as it is; null if it does not.")]


class RewriteChoice(Documented, frozen=True):
    """The outcome of one rewrite in a kernel."""

    rewrite: Name
    changes: Annotated[Count, says("Number of changes kept.")]
    reason: Annotated[
        str, says("Why they are kept, or the most frequent reason why there are none.")
    ]


class Choice(Documented, frozen=True, omit_defaults=True):
    """Why these rewrites were chosen for a kernel. The reason is that of shuffles; `rewrites` has
    an entry for each rewrite with a result or a reason."""

    by: Annotated[
        Annotated[str, one_of("asked", "tuned", "model")],
        says("asked: mode force; tuned: measured by ptxsw tune; model: by ptxas's output."),
    ]
    gain: Annotated[
        float | None,
        says("Measured gain of the kernel in percent; null: unknown."),
    ]
    reason: Annotated[str, says("Why shuffles were applied, or not.")]
    rewrites: Annotated[tuple[RewriteChoice, ...], says("The outcome of each.")] = EMPTY


class SourceEdit(Documented, frozen=True):
    """An edit of a source line: replace `old`, which occurs there once, by `new`."""

    line: Annotated[Positive, says("Line of the finding's file.")]
    old: Annotated[str, says("Text that occurs once in that line.")]
    new: Annotated[str, says("Its replacement.")]


class Finding(Documented, frozen=True, omit_defaults=True):
    """A finding of a rule of `ptxsw.findings` in a kernel."""

    rule: Annotated[
        str, Meta(pattern="^ptxsw-[a-z-]+$"), says("Name of the rule; `ptxsw rule` explains it.")
    ]
    level: Annotated[str, one_of(*reversed(LEVELS)), says("Severity.")]
    kernel: Annotated[str, says("Name in the PTX.")]
    line: Line
    column: Annotated[Positive, says("Column of the PTX.")]
    measure: Annotated[str, says("The figures in a few words: 32 sectors, not 4.")]
    what: Annotated[str, says("Description and cost.")]
    advice: Annotated[str, says("The fix.")]
    weight: Annotated[
        Weight,
        says(
            "The extra cost per warp that runs once through the kernel. One unit is a quarter of "
            "an "
            "SM cycle: the time of an instruction, or of a 32-byte sector in the L1 cache."
        ),
    ]
    file: Annotated[str | None, says("Source file, as .file names it.")] = None
    source_line: Annotated[Positive | None, says("Of `file`.")] = None
    source_column: Annotated[Positive | None, says("Of `file`.")] = None
    lines: Annotated[tuple[Line, ...], says("PTX lines of all instructions concerned.")] = EMPTY
    gain: Annotated[
        tuple[Share, Share] | None,
        says(
            "Share by which a fix reduces the time of the busiest resource, at least and at most: "
            "data may lie in the L2 cache or in memory. Absent if unknown."
        ),
    ] = None
    figures: Annotated[Mapping[str, Any], says("The figures by name.")] = field(
        default_factory=lambda: {}
    )
    condition: Annotated[
        str | None, says("Undeclared condition that the fault needs: blockDim.x > 32.")
    ] = None
    witness: Annotated[
        Mapping[str, Any] | None,
        says("A launch that shows the fault, as `ptxsw run --launch` takes it."),
    ] = None
    threads: Annotated[tuple[str, ...], says("Threads involved in the fault.")] = ()
    drawing: Annotated[tuple[str, ...], says("The fault as lines for a terminal.")] = ()
    edits: Annotated[
        tuple[SourceEdit, ...],
        says("Edits that fix it, if the source shows the exact text."),
    ] = ()


class Verdict(Documented, frozen=True, omit_defaults=True):
    """The verdict of a correctness rule on a kernel."""

    verdict: Annotated[
        str,
        one_of("absent", "found", "unknown"),
        says("absent: a proof for all launches with the named block."),
    ]
    reason: Annotated[str, says("Why.")] = ""
    condition: Annotated[str, says("Condition that callers must meet: ldc >= nx.")] = ""
    assumptions: Annotated[tuple[str, ...], says("Assumptions.")] = ()


class Kernel(Documented, frozen=True, omit_defaults=True):
    """One kernel or function. None: not computed; but `mean_delta` has no value if there are
    neither shuffles nor copies."""

    name: Annotated[str, says("Name in the PTX.")]
    loads: Annotated[Count, says("Static global loads, including generic ones that may be global.")]
    shuffles: Annotated[Count | None, says("Loads replaced by a shuffle.")] = None
    copies: Annotated[
        Count | None, says("Loads replaced by a copy of a register of the same lane.")
    ] = None
    mean_delta: Annotated[
        Annotated[float, Meta(ge=0, le=31)] | None,
        says("Mean |delta| over shuffles and copies; null if there are none."),
    ] = None
    instructions: Annotated[Count | None, says("Number of PTX instructions.")] = None
    accesses: Annotated[tuple[Access, ...] | None, says("Memory accesses, in program order.")] = (
        None
    )
    rewrites: Annotated[tuple[Rewrite, ...] | None, says("What was changed.")] = None
    refusals: Annotated[tuple[Refusal, ...] | None, says("What was left alone, and why.")] = None
    rows: Annotated[tuple[Row, ...] | None, says("Groups of accesses by their base.")] = None
    readable: Annotated[
        str | None, says("The C++ name behind a mangled one, without parameters.")
    ] = None
    block: Annotated[
        tuple[Positive, Positive, Positive] | None,
        says("The block shape for which accesses are described, if known."),
    ] = None
    choice: Annotated[Choice | None, says("Why these rewrites were chosen.")] = None
    loops: Annotated[
        tuple[Loop, ...] | None,
        says(
            "Loops that lanes may leave after different numbers of iterations, if uniform loops "
            "were considered."
        ),
    ] = None
    decision: Annotated[Decision | None, says("Decision of mode auto, from ptxas's output.")] = None
    findings: Annotated[
        tuple[Finding, ...] | None,
        says("What costs this kernel most, and how to fix it; worst first."),
    ] = None
    verdicts: Annotated[
        Mapping[str, Verdict] | None,
        says("Verdicts by rule, if correctness rules were selected."),
    ] = None
    totals: Annotated[Totals | None, says("Total data that one warp moves.")] = None
    figures: Annotated[Figures | None, says("Work of one warp, without weighting loops.")] = None
    roles: Annotated[
        tuple[Role, ...] | None, says("Warp roles, if some warps run loops that others do not.")
    ] = None
    descriptors: Annotated[
        tuple[DescribedOperand, ...] | None,
        says("Operands that tensor cores read in shared memory, and their layout."),
    ] = None
    failed: Annotated[Failure | None, says("Why ptxsw could not finish it. Absent if it did.")] = (
        None
    )


class Contents(Documented, frozen=True, omit_defaults=True):
    """The report on one PTX file. None: unknown."""

    ptxsw: Annotated[str, says("The version of ptxsw that wrote the report.")]
    file: Annotated[str, says("The name of the PTX file.")]
    arch: Annotated[str | None, says("The target, as in sm_80.")]
    seconds: Annotated[Annotated[float, Meta(ge=0)] | None, says("Duration in seconds.")]
    kernels: Annotated[tuple[Kernel, ...], says("In the order of the PTX.")] = EMPTY
    warning: Annotated[
        str | None,
        says(
            "What a reader must know first: the result is not fit for use, ptxas rejected it, or "
            "kernels were not finished in time. Absent otherwise."
        ),
    ] = None
