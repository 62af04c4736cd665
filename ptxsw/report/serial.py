"""Reports to JSON and back.

What a field that is None becomes is the contract's: null where it is not known, nothing at all
where it was not computed. msgspec writes None or omits a default, by class; so which fields are
omitted is listed here, by field. Reading is msgspec's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from ptxsw.report.model import SCHEMA, Access, Decision, Finding, Kernel, Rewrite
from ptxsw.report.shown import Report

Json = dict[str, Any]

OMITTED: Mapping[type[Struct], frozenset[str]] = {
    Report: frozenset({"warning"}),
    Kernel: frozenset(Kernel.__struct_fields__),
    Access: frozenset(
        {
            "optimizer",
            "turns",
            "changing",
            "contention",
            "loop_depth",
            "weight",
            "hidden",
            "over_stores",
        }
    ),
    Rewrite: frozenset({"source_line", "delta", "scheme", "form", "parts"}),
    Decision: frozenset({"before", "after"}),
    Finding: frozenset({"file", "source_line", "source_column"}),
}
"""The fields that are absent where they are None, or a list without entries; in a kernel lists
are there as soon as they were computed."""


def to_json(report: Report) -> Json:
    """A report as the contract's objects, ready for `json.dumps`."""
    return {"schema": SCHEMA} | _object(report)


def kernel_to_json(kernel: Kernel) -> Json:
    """One kernel of a report, as in `to_json`."""
    return _object(kernel)


def _object(item: Struct) -> Json:
    kind = type(item)
    values = ((name, getattr(item, name)) for name in item.__struct_fields__)
    omitted = OMITTED.get(kind, frozenset())
    nothing = (None,) if kind is Kernel else (None, ())
    data = {
        name: _value(value) for name, value in values if name not in omitted or value not in nothing
    }
    if isinstance(item, Kernel) and item.shuffles is not None:
        data.setdefault("mean_delta", None)  # not known, where there is neither copy nor shuffle
    if isinstance(item, Access) and not item.turns:
        data.pop("changing", None)
    return data


def _value(value: Any) -> Any:
    if isinstance(value, Struct):
        return _object(value)
    return [_value(entry) for entry in value] if isinstance(value, tuple) else value


def from_json(data: object) -> Report:
    """The report that `to_json` made. Raises ValueError where `data` is no such report."""
    try:
        if not isinstance(data, Mapping) or data["schema"] != SCHEMA:
            raise ValueError(f"not a ptxsw report of schema {SCHEMA}")
        kernels = [_kernel(kernel) for kernel in data["kernels"]]
        return msgspec.convert({**data, "kernels": kernels}, Report)
    except (msgspec.ValidationError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a ptxsw report: {error}") from error


_NOT_KNOWN: Json = dict.fromkeys(("source_line", "delta", "scheme", "form"))


def _kernel(data: Json) -> Json:
    """A kernel with the fields of its rewrites that were omitted."""
    if "rewrites" not in data:
        return data
    return {**data, "rewrites": [{**_NOT_KNOWN, **rewrite} for rewrite in data["rewrites"]]}
