"""What ptxsw found in a file and did to it, as frozen data.

The fields are those of the JSON contract (`schema.json`). A field that is None was not computed,
and is absent from the JSON, or is not known, and is null there; each class says which.
"""

from __future__ import annotations

from dataclasses import dataclass

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Access:
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


@dataclass(frozen=True, slots=True)
class Proof:
    """Why a rewrite is right."""

    status: str  # "proved", "guarded" (by a predicate at run time) or "assumed"
    assumptions: tuple[str, ...] = ()
    guards: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A load that takes its value from the load at `source_line` of lane i + `delta`."""

    line: int
    source_line: int
    delta: int  # 0: a register copy
    scheme: str
    form: str
    proof: Proof


@dataclass(frozen=True, slots=True)
class Refusal:
    """A load that was left alone. None: not known, as where no source was in sight."""

    line: int
    source_line: int | None
    delta: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class Kernel:
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


@dataclass(frozen=True, slots=True)
class Report:
    """One PTX file. None: not known."""

    ptxsw: str  # the version that wrote it
    file: str
    arch: str | None  # "sm_80"
    seconds: float | None
    kernels: tuple[Kernel, ...] = ()
