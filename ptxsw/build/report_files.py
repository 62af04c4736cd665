"""Reports of a build: a file for each PTX file, under a name that no other job takes."""

from __future__ import annotations

import contextlib
import json
import os

from ptxsw.ptx.patterns import pattern
from ptxsw.ptx.text_files import file_stem, source_of_temporary
from ptxsw.toolchain.cache import key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_OF_GCC = pattern(r"^cc[0-9A-Za-z]{6}$")
"""GCC's names of temporary files, which are others in every build and say nothing of the source."""

_PLACE = ("line", "source_line", "delta", "rewrite")
"""What a refusal keeps of a rewrite."""


def save_report(directory: str, path: str, arch: str, report: bytes) -> str:
    """Writes a report (JSON) about the input at `path`; returns where.

    The name is made of the file's, the architecture and a digest of path and content: the next
    build of the same thing replaces it. Raises OSError.
    """
    data = json.loads(report)
    stem = os.path.splitext(source_of_temporary(path) or os.path.basename(path))[0]
    if _OF_GCC.match(stem) and data["kernels"]:
        stem = data["kernels"][0]["name"]
    stem = file_stem(stem) or "input"
    place = os.path.join(os.path.dirname(os.path.abspath(path)), stem)
    data["file"] = path
    digest = key(os.fsencode(place), json.dumps(data["kernels"]).encode())[:12]
    name = ".".join(part for part in (stem, arch, digest, "json") if part)
    os.makedirs(directory, exist_ok=True)
    private = os.path.join(directory, f".{name}.{os.getpid()}")
    try:
        with open(private, "x", encoding="utf-8") as file:
            json.dump(data, file, indent=1)
        os.replace(private, os.path.join(directory, name))
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(private)
        raise
    return os.path.join(directory, name)


def undone(report: bytes, reason: str) -> bytes:
    """A report (JSON) once more, after the text was left as it was for a reason."""
    data = json.loads(report)
    data["warning"] = reason
    for kernel in data["kernels"]:
        refusals = [*kernel.get("refusals", ()), *_refused(kernel, reason)]
        kernel["refusals"] = sorted(refusals, key=lambda refusal: int(refusal["line"]))
        kernel.pop("decision", None)  # it speaks of the text that was not taken
        kernel |= {"shuffles": 0, "copies": 0, "mean_delta": None, "rewrites": []}
        for loop in kernel.get("loops", ()):
            if loop["form"] == "uniform":
                loop |= {"form": "keep", "reason": reason}
    return json.dumps(data).encode()


def _refused(kernel: dict[str, Any], reason: str) -> list[dict[str, Any]]:
    """What is to be said of loads that were rewritten in vain."""
    return [
        {"source_line": None, "delta": None}
        | {key: rewrite[key] for key in _PLACE if key in rewrite}
        | {"reason": reason, "detail": {}}
        for rewrite in kernel.get("rewrites", ())
    ]
