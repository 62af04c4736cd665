"""What a rule says of a kernel, as data.

A proof comes first. What it leaves open are suspects, and the interpreter looks for a launch that
shows the fault. Where it shows it, there is a finding; else the verdict is "unknown", and says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from ptxsw.terms.node import Term
from ptxsw.verify.launches import Launch

NOTHING = "the kernel has no instruction that could do it"
"""Why a fault is absent that nobody has to look for."""


class VerdictKind(StrEnum):
    ABSENT = "absent"
    FOUND = "found"
    UNKNOWN = "unknown"


class Assumption(StrEnum):
    """What a verdict takes for granted, where it says so."""

    NO_ALIAS = "no-alias"
    UNUSED_DIMENSIONS = "unused-dimensions"
    NO_ADDRESS_WRAP = "no-address-wrap"
    GRID_FITS = "grid-fits"
    NO_OUTSIDE_WRITER = "no-outside-writer"
    CLEARED_FLAGS = "cleared-flags"
    FAIR = "fair"
    NO_OFFSET = "no-offset"


class Suspect(Struct, frozen=True):
    """What a proof could not rule out: an instruction, by its number in `Cfg.instructions`, and for
    rules of two threads the other's. `values` are those of a model, where there is one, for the
    terms of the trace (and of the other thread, as `facts.two_threads` names them)."""

    rule: str
    index: int
    other: int | None = None
    values: Mapping[Term, int] | None = None
    why: str = ""


class Fault(Struct, frozen=True):
    """A fault that was shown, or proved possible where the interpreter cannot run the kernel.

    `index` and `other` are instructions; `threads` are the two threads in words, and `acts` what
    each of them does there; `what` says what happens, `advice` what to do. `condition` is an
    undeclared block, size or overlap that the fault needs. `level` is "error" only with a
    `witness`, the launch that `ptxsw run --launch` replays.
    """

    rule: str
    level: str
    index: int
    what: str
    advice: str
    other: int | None = None
    threads: tuple[str, ...] = ()
    condition: str = ""
    witness: Launch | None = None
    measure: str = ""
    acts: tuple[str, ...] = ()
    in_step: bool = False
    """Does it need lanes of a warp that do not run in step? Of those of a kernel one is told."""


class Proof(Struct, frozen=True):
    """What could be shown without a run. `open` and `unknown` are empty if and only if
    no fault but those of `faults` is there (under `condition`, which a user can read, as in
    "ldc >= nx"). `unknown` says what stood in the way, `reason` why it is absent."""

    open: tuple[Suspect, ...] = ()
    unknown: str = ""
    reason: str = ""
    condition: str = ""
    assumptions: frozenset[Assumption] = frozenset()
    needs: frozenset[str] = frozenset()
    """Other rules that have to be absent, too: else this one is unknown."""
    faults: tuple[Fault, ...] = ()
    """Those that need no run to be shown."""


class Verdict(Struct, frozen=True):
    """Of one rule and one kernel. `reason` says why it is absent, found or unknown."""

    kind: VerdictKind
    reason: str = ""
    condition: str = ""
    assumptions: tuple[str, ...] = ()


class Checked(Struct, frozen=True):
    """All verdicts of a kernel by rule, and its faults, the worst first."""

    kernel: str
    verdicts: Mapping[str, Verdict]
    faults: tuple[Fault, ...] = ()
