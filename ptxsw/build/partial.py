"""An answer that grows kernel by kernel: when the time is over, what is finished can be used.

Kernels do not depend on each other: the text with the edits of some of them is as good as that
with the edits of all. The child process tells a report in which no kernel is finished, then each
kernel when it is, with its edits. This is JSON, since it crosses a pipe: written by a process that
has msgspec, and read by one that may not find installed packages.
"""

from __future__ import annotations

from ptxsw.toolchain.cache import Answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    Replaced = tuple[int, int, str]  # offsets of what is replaced, and by what


def beginning(report: dict[str, Any]) -> bytes:
    """The piece that comes first: the report were nothing finished."""
    import msgspec

    return msgspec.json.encode({"report": report})


def finished(number: int, kernel: dict[str, Any], edits: Iterable[Replaced]) -> bytes:
    """The piece that tells kernel `number` of the report, and the edits inside it."""
    import msgspec

    return msgspec.json.encode({"number": number, "kernel": kernel, "edits": list(edits)})


def compose(text: bytes, pieces: Sequence[bytes], limit: float) -> Answer:
    """The answer that these pieces make of an ASCII text, when `limit` seconds were over."""
    import json

    report: dict[str, Any] = {}
    done: set[int] = set()
    edits: list[Replaced] = []
    for piece in map(json.loads, pieces):
        if "report" in piece:
            report = piece["report"]
        else:
            report["kernels"][piece["number"]] = piece["kernel"]
            done.add(piece["number"])
            edits += map(tuple, piece["edits"])
    fault = _fault(len(report.get("kernels", ())), len(done), limit)
    composed = _applied(text, sorted(edits, key=lambda edit: edit[:2])) if edits else None
    if not report:  # the time was over before anything began
        return Answer(composed, b"", fault, limit)
    unfinished = report | {"seconds": limit, "warning": fault}
    return Answer(composed, json.dumps(unfinished).encode(), fault, limit)


def _fault(kernels: int, done: int, limit: float) -> str:
    count = f": {kernels - done} of {kernels} kernels" if kernels else ""
    return f"not finished within {limit:g} s{count}; a larger PTXSW_TIMEOUT tries again"


def _applied(text: bytes, edits: Iterable[Replaced]) -> bytes:
    """The text with the edits made, which are in order and do not overlap."""
    parts: list[bytes] = []
    at = 0
    for start, end, new in edits:
        parts += (text[at:start], new.encode("ascii"))
        at = end
    return b"".join((*parts, text[at:]))
