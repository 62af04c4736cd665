"""Programs with one known fault each, and their mended twins: which rule has to name it first.

A source in `cuda/` holds both: the twin is what `-DMENDED` makes of it. `make.py` compiles them;
`ptxsw check benchmarks/programs/faults/ptx` lists the faults.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).parent

FAULTS: Mapping[str, str] = {
    "multiply": "ptxsw-swapped-axes",
    "product": "ptxsw-shared-tile",
    "bodies": "ptxsw-shared-tile",
    "lookup": "ptxsw-constant-by-lane",
    "damped": "ptxsw-accidental-doubles",
    "rootmean": "ptxsw-accidental-doubles",
    "staged": "ptxsw-exposed-copies",
    "copied": "ptxsw-column",
    "heaped": "ptxsw-occupancy",
    "peers": "ptxsw-bank-conflicts",
    "scan": "ptxsw-bank-conflicts",
    "particles": "ptxsw-array-of-structs",
    "soil": "ptxsw-array-of-structs",
    "masses": "ptxsw-uncoalesced",
    "sampled": "ptxsw-uncoalesced",
    "rowsum": "ptxsw-column",
    "matadd": "ptxsw-swapped-axes",
    "transpose": "ptxsw-column",
    "gemv": "ptxsw-column",
    "chunks": "ptxsw-column",
    "magnitude": "ptxsw-scalar-accesses",
    "quads": "ptxsw-scalar-accesses",
    "bytes": "ptxsw-scalar-accesses",
    "pitch": "ptxsw-misaligned-rows",
    "header": "ptxsw-misaligned-rows",
    "tile": "ptxsw-bank-conflicts",
    "tile16": "ptxsw-bank-conflicts",
    "treesum": "ptxsw-bank-conflicts",
    "records": "ptxsw-bank-conflicts",
    "mixing": "ptxsw-may-alias",
    "scaled": "ptxsw-may-alias",
    "column3": "ptxsw-repeated-loads",
    "twice": "ptxsw-repeated-loads",
    "unravel": "ptxsw-wide-division",
    "wrapped": "ptxsw-wide-division",
    "rows": "ptxsw-divergent-loop",
    "oddeven": "ptxsw-divergent-branch",
    "tiny": "ptxsw-idle-lanes",
    "ragged": "ptxsw-idle-lanes",
    "taps": "ptxsw-uniform-loads",
    "total": "ptxsw-atomic-contention",
    "tally": "ptxsw-atomic-contention",
    "window": "ptxsw-local-array",
    "greedy": "ptxsw-occupancy",
    "bounded": "ptxsw-launch-bounds",
    "capped": "ptxsw-launch-bounds",
    "wide": "ptxsw-spills",
    "brim": "ptxsw-register-ceiling",
}
"""By the name of the program, the rule that its fault breaks."""

NEEDS_PTXAS = frozenset({"bounded", "capped", "wide", "brim"})
"""Programs whose fault only ptxas knows of."""


def path(name: str, *, mended: bool = False) -> Path:
    """The PTX of a program, or of its mended twin."""
    return HERE / "ptx" / f"{name}{'-mended' * mended}.ptx"
