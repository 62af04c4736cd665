"""What ptxsw found in a file and did to it, as frozen data.

The fields are those of the JSON contract (`schema.json`). A field that is None was not computed,
and is absent from the JSON, or is not known, and is null there; each class says which.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

SCHEMA = 2


class Reuse(Struct, frozen=True):
    """An earlier load of the same bytes: by lane i + `delta`, or by the same thread where 0."""

    line: int
    delta: int


class Carried(Struct, frozen=True):
    """A load that fetched the same bytes in an earlier turn of a loop, by lane i + `delta`."""

    line: int
    delta: int
    loop: str  # the label of its header
    turns: int  # ago; 1 is the turn before


class Outlook(Struct, frozen=True):
    """What `optimize --mode force` does with a load."""

    action: str  # "shuffle", "copy", "source" (of others) or "keep"
    source_line: int | None  # whose value it takes or would have taken
    delta: int | None  # from lane i + delta
    proof: str | None  # "proved", "guarded", "assumed"; None where kept
    reason: str | None  # why it is kept although another load has its bytes


class Turn(Struct, frozen=True):
    """The figures of an access in one turn of a loop, in which a register of the address has a
    known value. None: not known."""

    value: int
    lane_stride: int | None
    sectors: int | None
    bank_conflicts: int | None


class Access(Struct, frozen=True):
    """One memory access in program order. None: not known."""

    line: int  # of the PTX text, counted from 1
    source: str | None  # "file:line" from .loc
    kind: str  # "load", "store", "atomic", …
    space: str  # "global", "shared", "local", "const", "param", "generic"
    opcode: str  # with its modifiers, as written
    bytes: int | None  # per lane
    address: str | None  # in terms of parameters and special registers
    lane_stride: int | None  # bytes from one lane's address to the next lane's
    sectors: int | None  # 32-byte sectors that a full warp touches
    uniform: bool | None  # one address for all lanes of a warp
    type: str | None = None  # of an element: "f32"
    elements: int | None = None  # more than 1 for a vector
    index: str | None = None  # the address as `base[index]`, in elements of the access
    lane_step: str | None = None  # lane_stride as text, where it is a symbolic value: "4*param_0"
    efficiency: float | None = None  # bytes asked for over bytes of all sectors touched
    bank_conflicts: int | None = None  # shared memory: passes a warp needs; 1 is no conflict
    row: str | None = None  # the name of its row in `Kernel.rows`
    offset: int | None = None  # bytes from the start of the row
    lanes: tuple[int, ...] | None = None  # bytes from lane 0's address, where lane_stride is None
    reuse: tuple[Reuse, ...] = ()  # nearest lane first
    optimizer: Outlook | None = None  # None for what is no global load
    carried: tuple[Carried, ...] = ()  # one for each loop, the innermost first
    phase: int | None = None  # bytes by which lane 0 is past the start of a 128-byte line
    changing: str | None = None  # the register of `turns`
    turns: tuple[Turn, ...] = ()  # where the stride changes; other figures are of the worst turn
    contention: int | None = None  # shared atomics: lanes that meet in one word; 1: none do
    loop_depth: int | None = None  # loops around it; 0: none
    over_stores: str | None = None  # what force makes of it in a loop, or why a store forbids that
    weight: float | None = None  # what it costs one warp, in the units of `Finding.weight`
    hidden: str | None = (
        None  # global memory: why `sectors` is not known, "index loaded at line 40"
    )


class Row(Struct, frozen=True):
    """Accesses whose addresses differ by constants only; `address` is that of offset 0."""

    name: str
    address: str
    lines: tuple[int, ...]


class Proof(Struct, frozen=True):
    """Why a rewrite is right."""

    status: str  # "proved", "guarded" (by a predicate at run time) or "assumed"
    assumptions: tuple[str, ...] = ()
    guards: tuple[str, ...] = ()


class Part(Struct, frozen=True):
    """Where an element of a load comes from: element `element` of the load at `source_line` in lane
    i + `delta`, or `delta` - i where `mirror` is set."""

    source_line: int
    element: int
    delta: int
    mirror: bool


class Rewrite(Struct, frozen=True):
    """An instruction that was rewritten. Of a shuffle or a copy: a load that takes its value from
    the load at `source_line` of lane i + `delta`; others have None there, and a `detail`."""

    line: int
    source_line: int | None
    delta: int | None  # 0: a register copy
    scheme: str | None
    form: str | None
    proof: Proof
    parts: tuple[Part, ...] = ()  # where one source and `delta` do not say it all
    rewrite: str = "shuffle"  # its name, as `ptxsw rewrites` prints it
    detail: Mapping[str, Any] = field(default_factory=dict)  # what is particular to that rewrite


class Refusal(Struct, frozen=True):
    """An instruction that was left alone. None: not known, as where no source was in sight."""

    line: int
    source_line: int | None
    delta: int | None
    reason: str
    rewrite: str = "shuffle"  # the name of the rewrite that left it alone
    detail: Mapping[str, Any] = field(default_factory=dict)


class Loop(Struct, frozen=True):
    """A loop that the lanes of a warp may leave after different numbers of turns."""

    line: int  # of its first instruction
    form: str  # "uniform", or "keep" where it stays as it is
    reason: str | None  # why it stays; None where it does not


class Choice(Struct, frozen=True):
    """Why the rewrites of a kernel are these, or why there are no shuffles."""

    by: str  # "asked" (by force), "tuned" (measured by `ptxsw tune`), "model" (of the target)
    gain: float | None  # percent that the kernel is expected to gain; None: not known
    reason: str


class Finding(Struct, frozen=True):
    """What a rule of `ptxsw.findings` has to say of a kernel. `weight` is what the fault costs one
    warp, in units of a quarter of a cycle of a multiprocessor: it issues one instruction in that
    time, or passes one sector of 32 bytes through its L1 cache."""

    rule: str  # "ptxsw-uncoalesced"
    level: str  # "error", "warning" or "note"
    kernel: str  # as in the PTX
    line: int  # of the PTX text; both count from 1
    column: int
    measure: str  # the figures in a few words: "32 sectors, not 4"
    what: str  # a sentence: what it is, and why it costs
    advice: str  # a sentence: what to do
    weight: float
    file: str | None = None  # of the source, as `.file` names it; from `.loc`
    source_line: int | None = None
    source_column: int | None = None
    lines: tuple[int, ...] = ()  # of the PTX: all instructions that it speaks of
    figures: Mapping[str, Any] = field(default_factory=dict)  # the same figures, by name


class Totals(Struct, frozen=True):
    """What one warp moves that runs once through a kernel, loops taken as often as is known, or 16
    times. Accesses whose addresses are not known are left out."""

    bytes: int  # that lanes ask for in global memory
    sectors: int  # of 32 bytes, of global and local memory
    wavefronts: int  # passes through the banks of shared memory


class Cost(Struct, frozen=True):
    """What a kernel takes, by the code that ptxas makes of it. `instructions` and `wavefronts` are
    those of a warp that runs through it once, each loop taken 16 times; its time lies between
    `at_least` and `at_most` cycles of a multiprocessor."""

    registers: int
    local: int  # bytes that a thread spills, stored and loaded
    shared: int  # bytes of a block, static ones
    occupancy: Mapping[str, float]  # share of resident warps, by the threads of a block
    instructions: float
    wavefronts: float
    at_least: float
    at_most: float


class Decision(Struct, frozen=True):
    """Whether mode auto keeps what was made of a kernel, and why."""

    kept: bool
    by: str  # "ptxas" (what it makes of both texts), "counts" (of the rewrites alone), "tuned"
    reason: str
    before: Cost | None = None  # None: ptxas could not be asked
    after: Cost | None = None  # of what is kept; where nothing is, of what was not


class Kernel(Struct, frozen=True):
    """One kernel or function. None: not computed; but `mean_delta` is not known (has no value)
    where there are neither shuffles nor copies."""

    name: str
    loads: int  # static global loads, generic ones included where they may be global
    shuffles: int | None = None
    copies: int | None = None
    mean_delta: float | None = None  # mean |delta| over shuffles and copies
    instructions: int | None = None
    accesses: tuple[Access, ...] | None = None
    rewrites: tuple[Rewrite, ...] | None = None
    refusals: tuple[Refusal, ...] | None = None
    rows: tuple[Row, ...] | None = None
    readable: str | None = None  # the C++ name behind a mangled one, without parameters
    block: tuple[int, int, int] | None = None  # the shape that was asked for
    choice: Choice | None = None
    loops: tuple[Loop, ...] | None = None  # where loops were to become uniform
    decision: Decision | None = None  # where mode auto had something to decide
    findings: tuple[Finding, ...] | None = None  # the worst first
    totals: Totals | None = None


class Contents(Struct, frozen=True):
    """What there is to say of one PTX file. None: not known."""

    ptxsw: str  # the version that wrote it
    file: str
    arch: str | None  # "sm_80"
    seconds: float | None
    kernels: tuple[Kernel, ...] = ()
    warning: str | None = None  # what a reader must know first: the result is unfit for use, or
    # less was done than could be; absent where there is nothing of the kind
