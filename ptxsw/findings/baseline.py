"""What is known already: findings and resources in a file, so that only what is new is told.

{"ptxsw_baseline": 1, "findings": {"4f0c…": 2}, "resources": {"sm_80 kernel": {…}}}
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, convert, field, to_builtins

from ptxsw.findings.usage import Usage
from ptxsw.ptx.text_files import parsed
from ptxsw.report.located import Located

_FORMAT = 1


class Baseline(Struct, frozen=True):
    """How many findings there are of each `Located.key`, and what each kernel uses."""

    findings: Mapping[str, int] = field(default_factory=dict)
    resources: Mapping[str, Usage] = field(default_factory=dict)


def read(path: str) -> Baseline:
    """Raises OSError; ValueError where the file is no baseline."""
    try:
        data: Any = parsed(Path(path).read_bytes())
        if data["ptxsw_baseline"] != _FORMAT:
            raise ValueError("written by another version of ptxsw; write it anew")
        return convert(data, Baseline)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: not a baseline of ptxsw: {error}") from error


def written(findings: Iterable[Located], resources: Mapping[str, Usage]) -> str:
    """The text of a baseline, in which lines move as little as may be."""
    counts = Counter(each.key for each in findings)
    data = {
        "ptxsw_baseline": _FORMAT,
        "findings": dict(sorted(counts.items())),
        "resources": {name: to_builtins(resources[name]) for name in sorted(resources)},
    }
    return json.dumps(data, indent=1) + "\n"


def new(findings: Iterable[Located], pinned: Baseline) -> tuple[Located, ...]:
    """The findings beyond those that the baseline counts."""
    left = Counter(pinned.findings)
    fresh = []
    for each in findings:
        if left[each.key] > 0:
            left[each.key] -= 1
        else:
            fresh.append(each)
    return tuple(fresh)
